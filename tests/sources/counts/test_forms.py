"""Files of counts: every form perf writes, and whatever else people give."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.missing import Missing, Reason
from nftop.sources.counts.forms import BadCountsError, CountRow, CountsForm
from nftop.sources.counts.read import read_rows
from tests.uarch.vectors import loaded

# As perf 6.1 writes them; numbers are made up.
CSV = {
    "plain": ("1000,,cycles,500,100.00,,", CountRow("cycles", 1000.0, (), 500, 1.0)),
    "unit": (
        "0.30,msec,cpu-clock,500,100.00,1.9,CPUs utilized",
        CountRow("cpu-clock", 0.3, (), 500, 1.0),
    ),
    "ratio": (
        "9,,instructions,500,7.00,1.2,insn per cycle",
        CountRow("instructions", 9.0, (), 500, 0.07),
    ),
    "interval": (
        "     1.001095590,9,,cycles,500,100.00,,",
        CountRow("cycles", 9.0, (("interval", "1.001095590"),), 500, 1.0),
    ),
    "cpu": ("CPU12,9,,cycles,500,100.00,,", CountRow("cycles", 9.0, (("cpu", "CPU12"),), 500, 1.0)),
    "socket, interval": (
        "     0.1|S1|22|9||cycles|500|50.00||",
        CountRow("cycles", 9.0, (("interval", "0.1"), ("socket", "S1")), 500, 0.5),
    ),
    "core": (
        "S0-D0-C3::2::9::::cycles::500::100.00::::",
        CountRow("cycles", 9.0, (("core", "S0-D0-C3"),), 500, 1.0),
    ),
    "die": (
        "S0-D1;8;9;;cycles;500;100.00;;",
        CountRow("cycles", 9.0, (("die", "S0-D1"),), 500, 1.0),
    ),
    "node": (
        "N1\t8\t9\t\tcycles\t500\t100.00\t\t",
        CountRow("cycles", 9.0, (("node", "N1"),), 500, 1.0),
    ),
    "thread": (
        "ksoftirqd/0-14,3,,cycles,500,100.00,37.3,K/sec",
        CountRow("cycles", 3.0, (("thread", "ksoftirqd/0-14"),), 500, 1.0),
    ),
    "thread with a unit": (
        "ksoftirqd/0-14,0.15,msec,cpu-clock,500,100.00,37.3,K/sec",
        CountRow("cpu-clock", 0.15, (("thread", "ksoftirqd/0-14"),), 500, 1.0),
    ),
    "cgroup": (
        "9,,cycles,user.slice/a.scope,500,100.00,,",
        CountRow("cycles", 9.0, (("cgroup", "user.slice/a.scope"),), 500, 1.0),
    ),
    "repeated": ("9,,cycles,26.70%,500,100.00,,", CountRow("cycles", 9.0, (), 500, 1.0)),
    "terms": (
        "9,,cpu/event=0x9c,umask=0x1,edge/k,500,100.00,,",
        CountRow("cpu/event=0x9c,umask=0x1,edge/k", 9.0, (), 500, 1.0),
    ),
    "modifiers": ("9::cycles:u:500:100.00::", CountRow("cycles:u", 9.0, (), 500, 1.0)),
    "percent signs": ("9%%cycles%500%100.00%%", CountRow("cycles", 9.0, (), 500, 1.0)),
}


@pytest.mark.parametrize("name", CSV)
def test_perf_stat_x(name: str) -> None:
    line, row = CSV[name]
    assert read_rows(f"# started on Mon\n\n{line}\n") == (CountsForm.PERF_CSV, (row,))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("<not counted>,,cycles,0,0.00,,", Reason.SOURCE),
        ("<not supported>,,cycles,0,100.00,,", Reason.HARDWARE),
        ('{"counter-value" : "<not counted>", "unit" : "", "event" : "cycles"}', Reason.SOURCE),
        ('{"counter-value" : "<not supported>", "unit" : "", "event" : "cycles"}', Reason.HARDWARE),
        ('{"cycles": "<not counted>"}', Reason.SOURCE),
        ('{"cycles": null}', Reason.SOURCE),
    ],
)
def test_what_was_not_counted_has_a_reason(line: str, reason: Reason) -> None:
    _, (row,) = read_rows(line)
    assert row.event == "cycles"
    assert isinstance(row.count, Missing)
    assert row.count.reason is reason


def test_further_metrics_are_no_rows() -> None:
    text = "9,,cycles,500,100.00,2.1,GHz\n,,,,,0.5,stalled cycles per insn\nCPU0,,,,,,1,x\n"
    assert [row.event for row in read_rows(text)[1]] == ["cycles"]


def test_lines_of_nothing_but_separators_are_no_rows() -> None:
    text = "9,,cycles,500,100.00,\n,\n,,,\nN-1,4,8,,instructions,5,100.00,,\n"
    rows = read_rows(text)[1]
    assert [(row.event, row.count, row.scope) for row in rows] == [
        ("cycles", 9.0, ()),
        ("instructions", 8.0, (("node", "N-1"),)),
    ]


# As perf 6.1 writes them with -x, and --topdown, --td-level 1 --per-core, --metric-only and -I.
ONLY_METRICS = {
    "topdown": "\n34.1,4.0,3.6,58.3,\n",
    "warning": "nmi_watchdog enabled with topdown. May give wrong results.\n"
    "Disable with echo 0 > /proc/sys/kernel/nmi_watchdog\n# started on Mon\n\n"
    "core,cpus,\nS0-D0-C0,2,35.9,4.1,1.8,58.2,\nS1-D0-C0,2,25.3,6.2,34.5,34.0,\n",
    "named": "%  tma_retiring,%  tma_bad_speculation,\n34.3,-4.1,\n",
    "intervals": "     0.500570642,38.0,7.0,20.0,35.0,\n     1.004229525,38.0,7.0,20.0,35.0,\n",
}


@pytest.mark.parametrize("name", ONLY_METRICS)
def test_metrics_alone_are_refused_for_what_they_are(name: str) -> None:
    with pytest.raises(BadCountsError, match="--topdown, --metric-only"):
        read_rows(ONLY_METRICS[name])
    # Beside counts they are further metrics.
    rows = read_rows(f"9,,cycles,500,100.00,,\n{ONLY_METRICS[name]}")[1]
    assert [row.event for row in rows] == ["cycles"]


def test_json_objects_may_end_with_a_comma() -> None:
    line = '{"counter-value" : "9.0", "unit" : "", "event" : "cycles"},'
    assert read_rows(f"{line}\n{line}\n")[1] == (CountRow("cycles", 9.0), CountRow("cycles", 9.0))


JSON = '{%s"counter-value" : "9.000000", "unit" : "", "event" : "cycles"%s}'


@pytest.mark.parametrize(
    ("before", "behind", "component", "running_ns", "share"),
    [
        ("", "", (), None, None),
        ("", ', "event-runtime" : 500, "pcnt-running" : 7.00', (), 500, 0.07),
        ("", ', "metric-value" : -nan, "metric-unit" : "(null)"', (), None, None),
        ('"cpu" : "0", ', "", (("cpu", "0"),), None, None),
        ('"core" : "S0-D0-C0", "aggregate-number" : 2, ', "", (("core", "S0-D0-C0"),), None, None),
        (
            '"interval" : 1.5, ', ', "cgroup" : "a"',
            (("interval", "1.5"), ("cgroup", "a")), None, None,
        ),
    ],
)  # fmt: skip
def test_perf_stat_j(
    before: str, behind: str, component: tuple[tuple[str, str]], running_ns: int, share: float
) -> None:
    line = JSON % (before, behind)
    row = CountRow("cycles", 9.0, component, running_ns, share)
    assert read_rows(line) == (CountsForm.PERF_JSON, (row,))
    metric = '{"metric-value" : "1.0", "metric-unit" : "GHz"}'
    assert read_rows(f"# started\n{line}\n{metric}\n{line}\n") == (CountsForm.PERF_JSON, (row, row))


def test_a_json_object_is_counts_by_event() -> None:
    text = '\ufeff{\n "cycles": 9,\n "UOPS_ISSUED.ANY": 1.5e3\n}\n'
    assert read_rows(text) == (
        CountsForm.JSON,
        (CountRow("cycles", 9.0), CountRow("UOPS_ISSUED.ANY", 1500.0)),
    )


PERF_ROW = JSON % ("", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("# started on Mon\n\n", "it is empty"),
        ("hello", "line 1: no line of `perf stat"),
        (
            "3000,000,,topdown-retiring,5,100.00,,",
            "line 1: the separator ',' occurs in its numbers",
        ),
        ("9,,cycles,5,100.00,,\n3,000,000,,slots,5,100.00,,", "line 2: the separator ','"),
        ("1,001095590,9,,cycles,5,100,00,,", "line 1: the separator ',' occurs"),
        ("CPU1,3,000,,cycles,5,100,00,,", "line 1: the separator ',' occurs"),
        ("0,30,msec,cpu-clock,5,100.00,,", "line 1: the separator ',' occurs"),
        ("9,,cycles,5,100.00,,\nWarning: x, y\n", "line 2: no line of `perf stat"),
        ("-9,,cycles,5,100.00,,", "line 1: '-9' is no count"),
        ("<not there>,,cycles,5,100.00,,", "'<not there>' is no count"),
        ("       487159302      cycles      #  2 GHz", "line 1"),
        ("{", "line 1: bad JSON"),
        ('{\n"cycles": 1\n"x": 2}', "line 3: bad JSON"),
        ('{"cycles": 1, "cycles": 2}', "'cycles' is a duplicate"),
        ('{"cycles": -1}', "'cycles' is '-1', no number"),
        ('{"cycles": true}', "'cycles' is 'True', no number"),
        ('{"cycles": NaN}', "'cycles' is 'nan', no number"),
        ('{"cycles": 1e999}', "no number"),
        ('{"cycles": [1]}', "no number"),
        ('{"cycles": "many"}', "no number"),
        ("{" * 100000, "bad JSON"),
        ('{"a":' * 100000, "bad JSON"),
        ("9" * 200000, "line 1"),
        ('{"cycles": ' + "9" * 5000 + "}", "bad JSON"),
        (f"{PERF_ROW}\nhello", "line 2: bad JSON"),
        (f"{PERF_ROW}\n[1]", "line 2: bad JSON: no object"),
        (f'{PERF_ROW}\n{{"x": 1}}', "line 2: no `counter-value`"),
        ('{"counter-value" : "9"}', "line 1: no `event`"),
        ('{"counter-value" : true, "event" : "x"}', "line 1: True is no count"),
    ],
)
def test_bad_files_report_where_and_why(text: str, message: str) -> None:
    with pytest.raises(BadCountsError) as raised:
        read_rows(text)
    assert message in str(raised.value)
    assert len(str(raised.value)) < 400


PIECES = st.sampled_from(
    "9 0.5 -1 <not counted> cycles cpu/event=1,umask=2/ : , ;; | CPU0 S0-D0-C1 "
    '{"counter-value":"1" "event":"x"} {} " \n \0 \ufeff # 1e999 nan ٣ \u2028 100.00 % / -j'.split(
        " "
    )
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
def test_any_text_is_rows_or_a_sentence(text: str) -> None:
    try:
        form, rows = read_rows(text)
    except BadCountsError as error:
        assert str(error)
        return
    for row in rows:
        assert row.event or form is CountsForm.JSON
        assert isinstance(row.count, Missing) or row.count >= 0
        assert row.share is None or 0 <= row.share <= 1
        assert row.running_ns is None or row.running_ns >= 0


COUNTS = st.dictionaries(
    st.sampled_from(sorted(loaded("SKX").vendor_names.values())),
    st.integers(0, 2**63),
    min_size=1,
)
SEPARATORS = st.sampled_from([",", ";", "|", "\t", "::", "#", "!", "~", ", "])


@given(COUNTS, SEPARATORS, st.sampled_from(["", "CPU0", "S0-D0-C0", "S1"]), st.booleans())
def test_all_forms_report_the_same(
    counts: dict[str, int], separator: str, owner: str, interval: bool
) -> None:
    before = ["1.5"] * interval + [owner] * bool(owner) + ["2"] * owner.startswith("S")
    lines = [
        [*before, str(count), "", event, "500", "7.00", "", ""] for event, count in counts.items()
    ]
    csv = read_rows("\n".join(separator.join(line) for line in lines))[1]
    objects = [{"event": event, "counter-value": f"{count}.000"} for event, count in counts.items()]
    perf_json = read_rows("\n".join(map(json.dumps, objects)))[1]
    plain = read_rows(json.dumps(counts))[1]
    wanted = [(event, float(count)) for event, count in counts.items()]
    for rows in (csv, perf_json, plain):
        assert [(row.event, row.count) for row in rows] == wanted
    assert len({row.scope for row in csv}) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a": ' + "[" * 100_000, "nested too deep"),
        # The first pass stops at what JSON has no word for, the second goes on.
        ('{"a": nan, "b": ' + "[" * 100_000, "nested too deep"),
        ('{"a": "' + "x" * (4 << 20) + '"}', "longer than 4 MiB"),
        ("{" + ", ".join(f'"e{at}": 1' for at in range(200_000)) + ', "e199999": 2}', "duplicate"),
    ],
    ids=["deep", "deep behind nan", "long", "many names"],
)
def test_a_document_that_would_take_a_stack_or_an_hour_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadCountsError, match=sentence):
        read_rows(text)


def test_half_a_surrogate_pair_is_not_kept_in_a_name() -> None:
    """JSON can name it; what is written of it is UTF-8."""
    _, rows = read_rows('{"cycles": 9, "\\ud800": 0}')
    assert [row.event for row in rows] == ["cycles", "?"]
    text = '{"counter-value": "9", "event": "a\\udfff", "cpu": "\\ud800", "event-runtime": 5}'
    _, (row,) = read_rows(text)
    assert (row.event, row.scope) == ("a?", (("cpu", "?"),))
