"""What lies around an interval, in which cycles are searched for: it ends at recorded changes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nftop.model.change import Cell
from nftop.model.struct import replace
from nftop.session.compare import side
from nftop.session.interval import Cut
from nftop.sim.classes import SimulatedClasses
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.seekpoint import packed
from tests.bench.scenes import Clocked
from tests.recordings import header_of, joined
from tests.samples import S
from tests.store.reading.test_scan import Bytes

SOURCES = ("perf", "kernel", "processes", "dpdk", "ovs", "vpp", "resctrl")
TENANT = Cell("schemata", "tenant", "L3", 0)


def recorded(masks: Mapping[int, str]) -> Cut:
    """A minute of `noisy`, a cut of all; `masks`: of the tenant from a tick on."""
    clocked = Clocked(20, scenario="noisy")
    header = header_of(clocked)
    encoder, chunks, first_ns = Encoder(header), list[Chunk](), 0
    for number in range(60):
        if mask := masks.get(number):

            def make(classes: SimulatedClasses, mask: str = mask) -> SimulatedClasses:
                return replace(classes, state={**classes.state, TENANT: mask})

            clocked.host.world.change(make)
        sample = clocked.sample()
        first_ns = first_ns or sample.wall_ns
        kept = {name: item for name, item in sample.readings.items() if name in SOURCES}
        if number % 10 == 0:
            encoder.restart()
        chunks.append(encoder.tick(number, replace(sample, readings=kept)))
    data = joined(chunks) + FRAME_END + packed(chunks[-1].after)
    return Cut("a", first_ns, first_ns + 59 * S, header.began_ns, header.host, Bytes(data), [])


@pytest.mark.parametrize(
    ("masks", "one", "two"),
    [
        ({}, (0, 25), (20, 59)),
        ({45: "1"}, (0, 25), (20, 44)),
        ({5: "1", 23: "2"}, (5, 22), (23, 59)),
        ({15: "1"}, (0, 25), (20, 59)),  # within the interval itself
    ],
)
def test_a_change_ends_the_context_and_is_no_cycle(
    masks: dict[int, str], one: tuple[int, int], two: tuple[int, int]
) -> None:
    whole = recorded(masks)
    first_ns = whole.from_ns
    a = replace(whole, from_ns=first_ns + 10 * S, to_ns=first_ns + 20 * S)
    b = replace(whole, from_ns=first_ns + 25 * S, to_ns=first_ns + 35 * S)
    for cut, other, ticks in ((a, b, one), (b, a, two)):
        context = side(cut, other).context
        span = (context.first_ns - first_ns) / S, (context.last_ns - first_ns) / S
        assert span == pytest.approx(ticks, abs=1.01)
