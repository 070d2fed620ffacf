"""What is asked and what answers mean, without sockets: any answer gives facts or a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.sample import DpdkLatency, DpdkPort
from nftop.sources.dpdk import protocol as replies
from nftop.sources.dpdk.protocol import (
    DICT_ENTRIES,
    Answers,
    AppFacts,
    Dialogue,
    DpdkCounters,
    PortFacts,
    ask_commands,
    ask_counters,
    ask_facts,
    ask_remedy,
    latency,
)
from nftop.sources.nf_session.connection import BatchTimes, ReplyError

T = TypeVar("T")
U64_MAX = (1 << 64) - 1
TWO_QUEUES = AppFacts((PortFacts(0, "p0", 2),), (), False, (), ())


def held(dialogue: Dialogue[T], reply: Callable[[str], bytes]) -> tuple[T, list[str]]:
    """Hold a dialogue; what came of it and what was asked."""
    requests: list[str] = []
    try:
        questions = next(dialogue)
        while True:
            requests += questions
            raw = {question: reply(question) for question in questions}
            values = {question: replies.reply(raw[question], question) for question in raw}
            sizes = {question: len(raw[question]) for question in raw}
            questions = dialogue.send(Answers(values, sizes, BatchTimes(1_000, 3_000)))
    except StopIteration as end:
        return end.value, requests


def port_of(xstats: object, facts: AppFacts = TWO_QUEUES) -> tuple[AppFacts, DpdkPort, list[str]]:
    def reply(question: str) -> bytes:
        name = question.partition(",")[0]
        value = xstats if name == "/ethdev/xstats" else None
        return json.dumps({name: value}).encode()

    (after, counters), requests = held(ask_counters(facts, 16384), reply)
    return after, counters.ports[0], requests


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
keys = (
    st.sampled_from(
        "name nb_rx_queues cpuset role lcore_ids total_cycles busy_cycles rx_good_packets "
        "tx_good_packets rx_missed_errors rx_q0_packets rx_q1_packets ipackets imissed value "
        "stats min_latency_ns".split()
    )
    | st.from_regex(r"rx_?q_?[0-9٣]{1,6}_(good_)?(packets|pkts)", fullmatch=True)
    | st.text(max_size=8)
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=20,
)
small_lists = st.lists(st.integers(0, 3), max_size=3)
raw_replies = st.one_of(
    st.binary(max_size=60).map(lambda raw: lambda name: raw),
    documents.map(lambda value: lambda name: json.dumps({name: value}).encode()),
    small_lists.map(lambda value: lambda name: json.dumps({name: value}).encode()),
    documents.map(lambda value: lambda name: json.dumps(value).encode()),
)


@given(st.data())
def test_whatever_is_answered_gives_facts_or_a_sentence(data: st.DataObject) -> None:
    def reply(question: str) -> bytes:
        return bytes(data.draw(raw_replies, question)(question.partition(",")[0]))

    try:
        commands, _ = held(ask_commands(), reply)
        facts, _ = held(ask_facts(None), reply)
        (facts, counters), _ = held(ask_counters(facts), reply)
        held(ask_remedy(facts), reply)
    except ReplyError as error:
        assert str(error)
        return
    assert all(isinstance(command, str) for command in commands)
    check_counters(counters)


@given(documents, st.booleans())
def test_whatever_latencystats_report_is_four_numbers_or_a_reason(
    document: object, whole: bool
) -> None:
    data = document if whole else [{"port": -1, "stats": document}]
    try:
        value = latency(json.dumps({"status_code": "x", "data": data}).encode(), 5)
    except ReplyError as error:
        assert str(error)
        return
    if isinstance(value, DpdkLatency):
        assert min(value.mean_ns, value.least_ns, value.most_ns, value.jitter_ns) >= 0
        assert value.read_at_ns == 5


@given(documents)
def test_whatever_is_counted_is_a_whole_number_or_nothing(document: object) -> None:
    def reply(question: str) -> bytes:
        name = question.partition(",")[0]
        return json.dumps({name: document if name == "/ethdev/xstats" else None}).encode()

    try:
        (_, counters), _ = held(ask_counters(TWO_QUEUES), reply)
    except ReplyError:
        return
    check_counters(counters)
    wanted = document.get("rx_good_packets") if isinstance(document, dict) else None
    assert counters.ports[0].rx_packets == wanted


def check_counters(counters: DpdkCounters) -> None:
    assert (counters.read_at_ns, counters.took_ns) == (2_000, 2_000)
    for port in counters.ports:
        totals = (port.rx_packets, port.tx_packets, port.rx_missed, port.rx_queues)
        for number in (*totals, *port.rx_queue_packets):
            assert number is None or (type(number) is int and 0 <= number <= U64_MAX)
        assert len(port.name.encode()) <= 4 * 128
        if port.rx_queues is not None:
            assert len(port.rx_queue_packets) in {0, port.rx_queues}
    for lcore in counters.lcores:
        assert (lcore.total_cycles is None) == (lcore.busy_cycles is None)


@pytest.mark.parametrize("pattern", ["rx_q{}_packets", "rx_q{}_good_packets", "rxq_{}_pkts"])
@given(counts=st.lists(st.integers(0, U64_MAX), min_size=1, max_size=40), data=st.data())
def test_queue_counters_by_any_name_in_any_order(
    pattern: str, counts: list[int], data: st.DataObject
) -> None:
    noise = {"rx_good_packets": sum(counts) % 2**64, "rx_q0_bytes": 5, "rx_qx_packets": 6}
    named = list(noise.items()) + [(pattern.format(q), n) for q, n in enumerate(counts)]
    stats = dict(data.draw(st.permutations(named)))
    facts = AppFacts((PortFacts(0, "p0", len(counts)),), (), False, (), ())
    counting = any(counts) or noise["rx_good_packets"] == 0
    assert port_of(stats, facts)[1].rx_queue_packets == (tuple(counts) if counting else ())

    gone = data.draw(st.sampled_from(range(len(counts))))
    del stats[pattern.format(gone)]
    assert port_of(stats, facts)[1].rx_queue_packets == ()


def test_ethdevs_sixteen_queue_counters_give_way_to_the_drivers_own() -> None:
    facts = AppFacts((PortFacts(0, "p0", 20),), (), False, (), ())
    stats = {"rx_good_packets": 2000}
    stats |= {f"rx_q{queue}_packets": 7 for queue in range(16)}
    stats |= {f"rx_q{queue}_good_packets": 100 for queue in range(20)}
    assert port_of(stats, facts)[1].rx_queue_packets == (100,) * 20


def test_queue_counters_that_never_count_are_none() -> None:
    stats = {"rx_good_packets": 5, "rx_q0_packets": 0, "rx_q1_packets": 0}
    assert port_of(stats)[1].rx_queue_packets == ()
    assert port_of(stats | {"rx_good_packets": 0})[1].rx_queue_packets == (0, 0)


def cut_stats(zero: int) -> dict[str, int]:
    """As many entries as a reply holds, the queue counters among those left out."""
    totals = {"rx_good_packets": 9, "tx_good_packets": 0, "rx_missed_errors": 0}
    return totals | {f"driver_counter_{n}": zero for n in range(DICT_ENTRIES - len(totals))}


@pytest.mark.parametrize("hides_zero", [True, False])
def test_a_cut_reply_is_requested_without_zeros_where_that_is_offered(*, hides_zero: bool) -> None:
    facts, port, requests = port_of(cut_stats(zero=0))
    assert requests == ["/ethdev/xstats,0", "/eal/lcore/usage"]
    assert (port.rx_packets, port.rx_queue_packets) == (9, ())

    text = "Parameters: int port_id" + (",hide_zero=true|false" if hides_zero else "")
    help_reply = json.dumps({"/help": {"/ethdev/xstats": text}}).encode()
    facts, requests = held(ask_remedy(facts), lambda question: help_reply)
    assert requests == ["/help,/ethdev/xstats"]

    facts, port, requests = port_of({"rx_good_packets": 9, "rxq_1_pkts": 9}, facts)
    assert requests[0] == ("/ethdev/xstats,0,hide_zero=true" if hides_zero else "/ethdev/xstats,0")
    if hides_zero:
        assert (port.rx_packets, port.tx_packets, port.rx_missed) == (9, 0, 0)
        assert port.rx_queue_packets == (0, 9)
    else:  # what is not in a whole reply is not known to be 0
        assert (port.rx_packets, port.tx_packets, port.rx_queue_packets) == (9, None, ())
    assert held(ask_remedy(facts), lambda question: b"")[1] == []  # asked once


def test_a_reply_cut_by_its_length_is_noticed_too() -> None:
    long = {"rx_good_packets": 9} | {f"a_rather_long_counter_name_{n:0100}": n for n in range(125)}
    assert len(json.dumps(long)) > 16_184
    assert port_of(long)[0].ports[0].cut
    del long[f"a_rather_long_counter_name_{0:0100}"]
    short = dict(list(long.items())[:100])
    assert not port_of(short)[0].ports[0].cut


def test_a_reply_without_zeros_that_is_cut_all_the_same_makes_nothing_up() -> None:
    facts = AppFacts((PortFacts(0, "p0", 2, cut=True, nonzero_only=True),), (), False, (), ())
    cut = cut_stats(zero=1)
    del cut["tx_good_packets"]
    cut["one_more"] = 1
    assert port_of(cut, facts)[1].tx_packets is None


def test_lcore_usage_needs_columns_of_one_length() -> None:
    def reply(question: str) -> bytes:
        usage = {"lcore_ids": [1, 2], "total_cycles": [5], "busy_cycles": [4]}
        return json.dumps({question: usage if "usage" in question else None}).encode()

    with pytest.raises(ReplyError, match="differ in length"):
        held(ask_counters(AppFacts((), (), True, (), ())), reply)


def test_late_counters_are_requested_again() -> None:
    dialogue = ask_counters(AppFacts((), (), False, (), ()))
    questions = next(dialogue)
    nothing = dict.fromkeys(questions)
    assert dialogue.send(Answers(nothing, {}, BatchTimes(1, 9_000, in_time=False))) == questions
    with pytest.raises(StopIteration) as end:
        dialogue.send(Answers(nothing, {}, BatchTimes(10_000, 12_000)))
    assert end.value.value[1].read_at_ns == 11_000


def test_texts_can_always_be_written_and_are_short() -> None:
    value = replies.reply(b'{"/x":"\\ud800\xff\t' + b"n" * 500 + b'"}', "/x")
    text = replies.text(value, "it")
    assert len(text) == 128
    assert text.encode().decode() == text


@pytest.mark.parametrize("raw", [b'{"/x":1,"/y":2}', b'{"/y":2}', b"{}", b'"/x"', b""])
def test_an_answer_is_about_what_was_queried(raw: bytes) -> None:
    with pytest.raises(ReplyError):
        replies.reply(raw, "/x,0")


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b'{"version":"DPDK","pid":1}',
        b'{"version":"DPDK","max_output_len":0}',
        b'{"version":"DPDK","max_output_len":-5}',
        b'{"version":7,"max_output_len":16384}',
        b'{"version":"DPDK","max_output_len":"16384"}',
    ],
)
def test_a_greeting_is_checked(raw: bytes) -> None:
    with pytest.raises(ReplyError):
        replies.greeting(raw)


def test_a_boastful_greeting_is_capped() -> None:
    greeting = replies.greeting(b'{"version":"DPDK 24.11","pid":1,"max_output_len":99999999999}')
    assert greeting.message_bytes == replies.MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    ("flags", "reported"),
    [(None, None), (66, False), (70, True), ("0x40", False), ("0x44", True)],
    ids=str,
)
def test_a_port_reports_whether_it_is_a_bonds(flags: object, reported: bool | None) -> None:
    """A number in 22.11, a hexadecimal text in 24.11; 0x4 is RTE_ETH_DEV_BONDING_MEMBER."""

    def reply(question: str) -> bytes:
        name = question.partition(",")[0]
        answers = {"/ethdev/list": [0], "/ethdev/info": {"name": "p0", "dev_flags": flags}}
        return json.dumps({name: answers.get(name)}).encode()

    facts, _ = held(ask_facts(None), reply)
    assert facts.ports[0].bond_member is reported
    (_, counters), _ = held(ask_counters(facts), reply)
    assert counters.ports[0].bond_member is reported


@pytest.mark.parametrize("info", [{"dev_flags": "64"}, {"dev_flags": -1}, {"nb_rx_queues": 1025}])
def test_a_description_that_cannot_be_is_an_error(info: dict[str, object]) -> None:
    def reply(question: str) -> bytes:
        name = question.partition(",")[0]
        answers = {"/ethdev/list": [0], "/ethdev/info": {"name": "p0", **info}}
        return json.dumps({name: answers.get(name)}).encode()

    with pytest.raises(ReplyError):
        held(ask_facts(None), reply)
