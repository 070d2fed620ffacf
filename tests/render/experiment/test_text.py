"""Text of an experiment: its plan, its visits, its curve."""

from __future__ import annotations

import math

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.experiment.curve import curve_of, differences
from nftop.derive.experiment.engine import ExperimentState, duration_s
from nftop.model.change import Cell, Change, Proposal, Receipt
from nftop.model.experiment import Curve, Experiment, NfLevels, Setting, Settling, Visit
from nftop.model.ids import L3Domain
from nftop.model.struct import replace
from nftop.render.base.format import duration_text
from nftop.render.base.text import cells
from nftop.render.experiment.text import (
    accelerated_text,
    effect_text,
    end_text,
    limit_lines,
    mpps_text,
    plain_text,
    plan_text,
    result_text,
    stopped_text,
    trial_plan_text,
    trial_text,
    visit_lines,
)

S, L3 = 1_000_000_000, L3Domain(0)
CELL = Cell("schemata", "tenant", "L3", 0)
WAYS, WIDTHS = {"L3": 11}, (80, 120)
# By width: vpp's cycles per packet, its lost packets of those offered.
LEVELS = ((210.0, 0.0), (210.2, 0.0), (210.1, 0.0), (217.0, 0.03))


def setting(ways: int) -> Setting:
    mask = (1 << ways) - 1
    return Setting(f"{ways} ways", (Change(CELL, "fe", f"{mask:x}"),), ways, {L3: mask})


SETTINGS = tuple(map(setting, range(1, 5)))
PLAN = Experiment(
    kind="sweep",
    group="tenant",
    settings=SETTINGS,
    watch={"1": "vpp"},
    own=frozenset(),
    caches=(L3,),
    classes=("tenant", "vpp"),
    proposal=Proposal({CELL: "fe"}, tuple(c for item in SETTINGS for c in item.changes)),
    left_out=("12 ways: the cache has 11 ways",),
    seed=7,
)


def visit(at: int, number: int) -> Visit:
    cost, lost = LEVELS[at]
    cost *= 1 + 0.0005 * ((at + number) % 3 - 1)
    nf = NfLevels(42e6 * (1 - lost), 42e6 * lost, lost, cost, cost, math.nan, 0.22)
    begin = (number * 10 + at) * 40 * S
    return Visit(at, number, begin, begin + 9 * S, begin + 30 * S, {"1": nf}, 5e6 * at, 48e9, 0.7)


VISITS = tuple(visit(at, number) for number in (1, 2, 3) for at in range(4))
STATE = ExperimentState(
    phase="ended", round=3, visits=(replace(VISITS[0], setting=-1, round=0), *VISITS), ended="clear"
)


@pytest.mark.parametrize("width", WIDTHS)
def test_plan(snapshot: SnapshotAssertion, width: int) -> None:
    lines = plan_text(PLAN, WAYS, width)
    assert max(map(cells, lines)) <= width
    assert "\n".join(lines) == snapshot


def test_plan_of_an_own_class_has_its_network_function() -> None:
    assert "vpp" in plan_text(replace(PLAN, own=frozenset({"1"})), WAYS, 80)[0]


def test_visits(snapshot: SnapshotAssertion) -> None:
    lines = [
        line
        for count in (1, 5)
        for line in visit_lines(
            PLAN, replace(STATE, phase="writing", ended=None, visits=STATE.visits[:count]), 80
        )
    ]
    lines += limit_lines(PLAN, STATE.visits[0], 80)
    assert max(map(cells, lines)) <= 80
    assert "\n".join([*lines, end_text(STATE)]) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
def test_result(snapshot: SnapshotAssertion, width: int) -> None:
    curve = curve_of(PLAN, STATE.visits)
    assert curve.recommended == 2
    lines = result_text(PLAN, curve, width)
    assert max(map(cells, lines)) <= width
    assert "\n".join(lines) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
def test_three_network_functions_are_tables_that_fit(width: int) -> None:
    watch = {"1": "vpp", "2": "ovs", "3": "north/l3fwd-of-the-second-socket"}
    plan = replace(PLAN, watch=watch, group="a-neighbour-with-a-long-name")
    visits = [replace(item, nfs=dict.fromkeys(watch, item.nfs["1"])) for item in VISITS]
    lines = result_text(plan, curve_of(plan, visits), width)
    assert max(map(cells, lines)) <= width
    assert sum("WAYS" in line for line in lines) == (4 if width == 80 else 3)
    assert sum("Mpps" in word for line in lines for word in line.split()) == 3


def test_a_recommendation_on_ways_of_devices_reports_it(snapshot: SnapshotAssertion) -> None:
    io = replace(SETTINGS[2], io={L3: 0x4})
    plan = replace(PLAN, settings=(*SETTINGS[:2], io, SETTINGS[3]))
    [line] = [text for text in plan_text(plan, WAYS, 80) if "I/O" in text]
    assert "3 ways" in line
    text = " ".join(result_text(plan, curve_of(plan, STATE.visits), 80))
    assert " ".join(text.split()) == snapshot


def test_visits_that_never_settled_are_marked_and_counted() -> None:
    visits = [replace(v, settling="moving") if v.setting == 1 else v for v in VISITS]
    lines = result_text(PLAN, curve_of(PLAN, visits), 80)
    assert [line.split()[0] for line in lines if "~" in line] == ["2~", "2~", "~"]
    assert "3 visits" in " ".join(lines)


@pytest.mark.parametrize("how", ["moving", "unmetered", "no_size"])
def test_a_visit_has_how_it_settled(how: Settling) -> None:
    last = replace(VISITS[0], settling=how)
    usual, other = (
        visit_lines(PLAN, replace(STATE, visits=(item,)), 120) for item in (VISITS[0], last)
    )
    assert usual != other


def test_what_is_absent_is_no_zero() -> None:
    nan = math.nan
    empty = NfLevels(nan, nan, nan, nan, nan, nan, nan)
    visits = [replace(item, nfs={"1": empty}, ipc=nan) for item in VISITS]
    row = result_text(PLAN, curve_of(PLAN, visits), 120)[1].split()
    assert row[:3] == ["1", "1", "-"]
    assert "0" not in row[2:6]


def test_no_visit_is_a_sentence() -> None:
    assert len(result_text(PLAN, curve_of(PLAN, []), 80)) == 1


def test_ways_of_network_functions_are_named_in_the_plan_and_in_the_answer(
    snapshot: SnapshotAssertion,
) -> None:
    shared = replace(SETTINGS[2], shared={L3: {"vpp": 0x4}})
    settings, polled = (*SETTINGS[:2], shared, SETTINGS[3]), {"vpp": ("vpp", "ovs")}
    plan = replace(PLAN, settings=settings, polled=polled)
    lines = plan_text(plan, WAYS, 80)
    assert [line.split()[0] for line in lines if "shares vpp 1" in line] == ["3"]
    assert any("vpp (watched), ovs" in line for line in lines)
    text = " ".join(" ".join(result_text(plan, curve_of(plan, STATE.visits), 80)).split())
    assert text == snapshot


@pytest.mark.parametrize(
    ("own", "ends", "untried"),
    [
        (False, (1, 11), True),
        (False, (1, 3), False),  # the whole cache
        (False, (0, 0), True),  # of an older recording
        (True, (1, 11), False),
    ],
)
def test_an_answer_at_the_end_of_the_tried_widths_is_a_bound(
    own: bool, ends: tuple[int, int], untried: bool, snapshot: SnapshotAssertion
) -> None:
    plan = replace(PLAN, settings=SETTINGS[:3], ends=ends)
    plan = replace(plan, own=frozenset({"1"})) if own else plan
    visits = [item for item in STATE.visits if item.setting < 3]
    curve = curve_of(plan, visits)
    assert curve.recommended == (0 if own else 2)
    text = " ".join(" ".join(result_text(plan, curve, 80)).split())
    assert text.partition("recommended: ")[2] == snapshot
    assert ("at least 3 ways" in text) is untried


def test_the_narrowest_width_that_was_tried_is_a_bound_too(snapshot: SnapshotAssertion) -> None:
    settings = SETTINGS[1:3]
    plan = replace(PLAN, settings=settings, own=frozenset({"1"}), ends=(1, 11))
    visits = [replace(item, setting=item.setting - 1) for item in VISITS if item.setting in (1, 2)]
    text = " ".join(" ".join(result_text(plan, curve_of(plan, visits), 80)).split())
    assert text == snapshot


def test_the_worst_hit_network_function_is_named_first() -> None:
    plan = replace(PLAN, watch={"1": "ovs", "2": "vpp", "3": "zebra"})
    other = {at: (0.5 * cost + 105, lost / 3) for at, (cost, lost) in enumerate(LEVELS)}

    def levels(item: Visit) -> dict[str, NfLevels]:
        hit, (cost, lost) = item.nfs["1"], other[item.setting]
        less = replace(hit, busy_cpp=cost + hit.busy_cpp % 1, lost_ratio=lost)
        none = replace(hit, busy_cpp=100.0 + hit.busy_cpp % 1 / 10, lost_ratio=0.0)
        return {"1": less, "2": hit, "3": none}

    curve = curve_of(plan, [replace(item, nfs=levels(item)) for item in VISITS])
    text = effect_text(plan, curve.results[3])
    assert text.startswith("vpp costs")
    assert text.find("ovs") > 0


def test_an_end_by_a_signal_is_one_sentence(snapshot: SnapshotAssertion) -> None:
    receipt = Receipt("reverted", ("everything is as it was before",))
    visits = STATE.visits[:9]
    state = replace(STATE, visits=visits, round=2)
    text = stopped_text(PLAN, state, curve_of(PLAN, visits), receipt, "Ctrl-C")
    assert text == snapshot
    none = stopped_text(PLAN, ExperimentState(), Curve(()), receipt, "SIGTERM")
    assert none == snapshot
    curve = replace(curve_of(PLAN, visits), recommended=None)
    assert any("it ended early" in line for line in result_text(PLAN, curve, 80, early=True))
    tried_ = replace(STATE, visits=TRIED, round=6)
    words = stopped_text(TRY, tried_, Curve(()), receipt, "Ctrl-C")
    assert words == snapshot


@pytest.mark.parametrize(("pace", "real"), [(0.05, "8s"), (0.0, "1s"), (1.0, "2m40s")])
def test_an_accelerated_plan_has_both_durations(pace: float, real: str) -> None:
    plan = replace(PLAN, settings=SETTINGS[:2], rounds_least=2)
    simulated_s = duration_s(plan, 2)
    text = accelerated_text(plan, pace * 160 / simulated_s)
    assert duration_text(simulated_s) in text
    assert text.endswith(f"take about {real}")


def test_an_upper_bound_is_marked() -> None:
    bound = [replace(v, nfs={"1": replace(v.nfs["1"], cpp_is_bound=True)}) for v in VISITS]
    text = "\n".join(result_text(PLAN, curve_of(PLAN, bound), 120))
    assert text.count("<210") == 3
    assert "<" not in "\n".join(result_text(PLAN, curve_of(PLAN, VISITS), 120))


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.6, "1m00s"), (500, "8m20s")])
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


NOW = replace(SETTINGS[0], label="now", ways=0)
WIDE = replace(SETTINGS[3], label="wide", ways=0)
TRY = replace(PLAN, kind="try", rounds_least=6, rounds_most=6, settings=(NOW, WIDE))


def tried(at: int, number: int) -> Visit:
    one = visit(3 * at, number)
    ipc = 0.7 * (1 + 0.1 * at + 0.0004 * ((at + number) % 3 - 1))
    others = {"class/tenant/ipc": ipc, "class///ipc": 1.5, "socket/0/memory_bytes_per_s": 48e9}
    return replace(one, setting=at, others=others)


TRIED = tuple(tried(at, number) for number in range(1, 7) for at in (number % 2, 1 - number % 2))


@pytest.mark.parametrize("width", WIDTHS)
def test_trial(snapshot: SnapshotAssertion, width: int) -> None:
    lines = [*trial_plan_text(TRY, WAYS, "percent", width), *trial_text(TRY, TRIED, width)]
    assert max(map(cells, lines)) <= width
    assert "\n".join(lines) == snapshot


def test_words_of_a_trial() -> None:
    words = {(item.kind, item.name, item.metric): item.word for item in differences(TRY, TRIED)}
    assert words["nf", "vpp", "busy_cpp"] == "worse"
    assert words["nf", "vpp", "lost_ratio"] == "worse"
    assert words["class", "tenant", "ipc"] == "more", "as a verdict has it: without packets"
    assert words["class", "/", "ipc"] == "same"
    assert words["socket", "0", "memory_bytes_per_s"] == "same"


def test_packets_lost_in_every_visit_and_now_in_none_are_named() -> None:
    few = [
        replace(item, nfs={"1": replace(item.nfs["1"], lost_ratio=5e-5 * item.setting)})
        for item in TRIED
    ]
    words = {item.metric: item.word for item in differences(TRY, few) if item.kind == "nf"}
    assert words["lost_ratio"] == "drops"


def test_what_only_one_setting_has_is_unmeasured() -> None:
    some = [
        replace(item, others={"class/tenant/ipc": 1.0} if item.setting else {}) for item in TRIED
    ]
    words = {item.kind: item.word for item in differences(TRY, some) if item.kind == "class"}
    assert words == {"class": "unmeasured"}


def test_a_number_that_is_too_small_for_its_digits_is_not_0() -> None:
    assert [plain_text(value, 2) for value in (0.0, 0.004, 0.005001, 1.0)] == [
        "0.00",
        "0+",
        "0.01",
        "1.00",
    ]
    assert (mpps_text(900.0), mpps_text(0.0), mpps_text(float("nan"))) == ("0+", "0.00", "-")
