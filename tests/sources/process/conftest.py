"""The fixture of a host of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.process.fake_proc import FakeHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    fake = FakeHost(tmp_path)
    yield fake
    fake.source.close()
