"""Who counts on which host."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.main import build_parser
from nftop.model.missing import Missing, Reason
from nftop.sources.perf.problems import CounterProblem
from nftop.sources.perf.source import PerfSource
from nftop.sources.pyperf import source
from nftop.sources.pyperf.source import WAYS, NoCounters, PythonPerfSource, choose
from nftop.uarch.table import load
from tests.sources.pyperf.fake import FakeList, FakePerf

OWN = PerfSource()
GONE = CounterProblem(Reason.SOURCE, "not installed", "install it")


def test_the_option_has_these_ways() -> None:
    (action,) = (item for item in build_parser()._actions if item.dest == "pmu")
    assert tuple(action.choices or ()) == WAYS
    assert action.default == "auto"


@pytest.mark.parametrize(
    ("way", "uarch", "kind"),
    [
        ("auto", "SKX", PerfSource),
        ("auto", "generic", PythonPerfSource),
        ("perf", "SKX", PerfSource),
        ("perf", "generic", PerfSource),
        ("python-perf", "SKX", PythonPerfSource),
        ("python-perf", "generic", PythonPerfSource),
    ],
)
def test_where_the_module_can_count(tmp_path: Path, way: str, uarch: str, kind: type) -> None:
    fake = FakePerf(tmp_path)
    result = choose(way, OWN, load(uarch), quiet_cpus=(), root=tmp_path, module=fake)
    assert type(result.source) is kind
    assert result.checks == ()


@pytest.mark.parametrize(("way", "uarch"), [("perf", "generic"), ("auto", "ICX")])
def test_it_is_not_even_loaded_where_it_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, uarch: str
) -> None:
    def load_module(root: Path) -> CounterProblem:
        raise AssertionError("loaded")

    monkeypatch.setattr(source, "load_module", load_module)
    assert type(choose(way, OWN, load(uarch), quiet_cpus=(), root=tmp_path).source) is PerfSource


def test_without_the_module_unknown_cpus_are_counted_as_ever_and_doctor_reports_why(
    tmp_path: Path,
) -> None:
    result = choose("auto", OWN, load(), quiet_cpus=(), root=tmp_path, module=GONE)
    assert result.source is OWN
    (check,) = result.checks
    assert (check.name, check.text, check.fix) == ("python-perf", GONE.sentence, GONE.fix)


def test_requesting_an_absent_module_gives_the_reason(tmp_path: Path) -> None:
    source = choose("python-perf", OWN, load(), quiet_cpus=(), root=tmp_path, module=GONE).source
    assert type(source) is NoCounters
    assert source.read() == Missing(Reason.SOURCE, GONE.sentence)
    (check,) = source.check()
    assert (check.name, check.reason, check.fix) == ("perf", Reason.SOURCE, GONE.fix)
    assert source.counter_reads == 0
    source.close()


def test_by_itself_it_is_taken_for_its_top_down_only(tmp_path: Path) -> None:
    fake = FakePerf(tmp_path, rows=())
    result = choose("auto", OWN, load(), quiet_cpus=(), root=tmp_path, module=fake)
    assert result.source is OWN
    assert result.checks[0].reason is Reason.HARDWARE


def test_a_guest_without_a_pmu_is_not_requested_metrics(tmp_path: Path) -> None:
    class Noisy(FakePerf):
        def parse_metrics(self, names: str, /) -> FakeList:
            raise AssertionError("perf would complain on standard error")

    fake = Noisy(tmp_path, refuse=lambda names, cpu: errno.ENOENT if "cycles" in names else 0)
    result = choose("auto", OWN, load(), quiet_cpus=(), root=tmp_path, module=fake)
    assert result.source is OWN
    assert result.checks[0].reason is Reason.HARDWARE
    forced = choose("python-perf", OWN, load(), quiet_cpus=(), root=tmp_path, module=fake)
    assert type(forced.source) is PythonPerfSource


@pytest.mark.parametrize("what", ["metrics", "parse_events", "parse_metrics"])
@pytest.mark.parametrize("way", ["auto", "python-perf"])
def test_whatever_the_module_raises_is_a_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    way: str,
    snapshot: SnapshotAssertion,
) -> None:
    def breaks(*_: object) -> None:
        raise SystemError("error return without exception set")

    fake = FakePerf(tmp_path)
    monkeypatch.setattr(fake, what, breaks, raising=True)
    result = choose(way, OWN, load(), quiet_cpus=(), root=tmp_path, module=fake)
    (check,) = result.source.check() if way == "python-perf" else result.checks
    assert type(result.source) is (NoCounters if way == "python-perf" else PerfSource)
    assert check.reason is Reason.ERROR
    assert check.text == snapshot


def test_a_module_that_breaks_as_it_is_loaded_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_module(root: Path) -> CounterProblem:
        raise ValueError("null argument to internal routine")

    monkeypatch.setattr(source, "load_module", load_module)
    result = choose("auto", OWN, load(), quiet_cpus=(), root=tmp_path)
    assert result.source is OWN
    assert result.checks[0].reason is Reason.ERROR


def test_the_trial_leaves_quiet_cpus_alone(tmp_path: Path) -> None:
    fake = FakePerf(tmp_path)
    choose("auto", OWN, load(), quiet_cpus=(0, 1), root=tmp_path, module=fake)
    assert {cpu for _, cpu in fake.opened} == {2}
    fake.opened.clear()
    result = choose("auto", OWN, load(), quiet_cpus=range(4), root=tmp_path, module=fake)
    assert result.source is OWN
    assert fake.opened == []
