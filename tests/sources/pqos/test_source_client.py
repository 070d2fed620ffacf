"""The process that has libpqos: whatever becomes of it, a sentence and no more."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.missing import Missing, Reason
from nftop.sources.pqos import protocol
from nftop.sources.pqos.source import Client
from nftop.sources.runtime import helper
from tests.descriptors import many_descriptors
from tests.sources.pqos.fake import Fake


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Client]:
    """A client of a program that stands in for the worker."""

    def created(program: str) -> Client:
        path = tmp_path / "stand_in.py"
        path.write_text(textwrap.dedent(program))
        start = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
        monkeypatch.setattr(helper, "START", start)
        return Client(answer_s=20.0)

    return created


def test_an_answer_comes_back_as_it_was(worker: Callable[[str], Client]) -> None:
    own = Fake(has_cdp=True).read_classes()
    metered = protocol.MsrMetered(1, 0, {"llc_occupancy": 5}, 77)
    answer = protocol.line(protocol.MsrReply(own, (metered,))).decode()
    requests = worker(
        f"""
        import json, sys
        expected = {{"quiet": [1, 3], "read_classes": True, "meter": True}}
        for line in sys.stdin:
            assert json.loads(line) == expected, line
            sys.stdout.write({answer!r})
            sys.stdout.flush()
        """
    )
    for _ in range(2):
        assert requests.ask((3, 1), meter=True) == (own, (metered,))
    requests.close()
    requests.close()


@pytest.mark.parametrize(
    ("program", "reason", "words"),
    [
        ("import os; os.abort()", Reason.ERROR, "ended without a reply"),
        ("raise SystemExit('it was so')", Reason.ERROR, "it was so"),
        ("input(); print('nonsense', flush=True)", Reason.ERROR, "ended without a reply"),
        ("input(); print('{}', flush=True)", Reason.ERROR, "ended without a reply"),
        ('input(); print(\'{"failed": "no"}\', flush=True)', Reason.ERROR, "libpqos: no"),
        ('print(\'{"unusable": "modprobe msr"}\', flush=True)', Reason.SOURCE, "modprobe msr"),
    ],
)
def test_what_goes_wrong_is_a_sentence_and_the_next_question_starts_anew(
    worker: Callable[[str], Client], program: str, reason: Reason, words: str
) -> None:
    requests = worker(program)
    for _ in range(2):
        result = requests.ask(())
        assert isinstance(result, Missing)
        assert result.reason is reason
        assert words in result.message


def test_a_worker_is_queried_by_a_process_with_many_descriptors(
    worker: Callable[[str], Client],
) -> None:
    requests = worker('input(); print(\'{"unusable": "modprobe msr"}\', flush=True)')
    with many_descriptors():
        result = requests.ask(())
    assert isinstance(result, Missing)
    assert result.reason is Reason.SOURCE


def test_an_unresponsive_process_is_ended(
    worker: Callable[[str], Client], snapshot: SnapshotAssertion
) -> None:
    requests = worker("import signal; signal.pause()")
    requests._answer_s = 0.05
    result = requests.ask(())
    assert isinstance(result, Missing)
    assert result.message == snapshot
    assert requests._running is None
