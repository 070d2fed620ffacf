"""View state shared by the screens: frame shown, selection, order, filter, message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nftop.model.change import OwnChange
from nftop.model.frame import Focus, Frame
from nftop.model.ids import Cpu
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology
from nftop.render.cores.columns import is_column
from nftop.render.cores.rows import CpuRows, CpuView, Cursor, arrange, find, move, settle
from nftop.render.frame.header import ViewStatus, time_of_day
from nftop.session.feed import Feed, Player
from nftop.store.history.history import TickHistory


@dataclass
class SessionView:
    """Attributes.

    newest: the newest frame; None before the first.
    frozen: the frame of a frozen screen; None while it follows the feed.
    ended: why frames have ended, "" if requested; None while they come.
    view: filter and order of CPUs.
    rows: of the frame on screen.
    cursor: the selected CPU.
    page: rows of a page.
    search: text of the last search.
    recording: state of the recording, for the header.
    message: shown in the footer until the next key.
    own_changes: class changes written by nftop; other observed changes are of others.
    until_ns: CLOCK_MONOTONIC when nftop's change of classes is reverted; None: none pending.
    """

    feed: Feed
    history: TickHistory
    newest: Frame | None = None
    frozen: Frame | None = None
    ended: str | None = None
    view: CpuView = field(default_factory=CpuView)
    rows: CpuRows = field(default_factory=lambda: CpuRows((), 0))
    cursor: Cursor = field(default_factory=Cursor)
    page: int = 1
    search: str = ""
    message: str = ""
    own_changes: tuple[OwnChange, ...] = ()
    until_ns: int | None = None
    recording: Callable[[], str] = lambda: ""

    @property
    def frame(self) -> Frame | None:
        """The frame on screen."""
        return self.frozen or self.newest

    @property
    def row(self) -> int | None:
        """Selected row of the frame's CPUs; None if none is shown."""
        return self.rows.shown[self.cursor.index] if self.rows.shown else None

    @property
    def cpu(self) -> Cpu | None:
        """Selected CPU; None if none is shown."""
        if self.frame is None or self.row is None:
            return None
        return self.frame.cpus.topology.cpus[self.row].cpu

    @property
    def status(self) -> ViewStatus:
        """Status for the header."""
        notice = "" if self.newest is None else self.newest.notice
        if self.ended is not None:
            status = ViewStatus(
                "STOPPED" if self.ended else "ENDED", None, self.ended, notice=notice
            )
        elif isinstance(self.feed, Player):
            status = ViewStatus("REPLAY", self.feed.interval_s, notice=notice)
        elif self.frozen is not None:
            status = ViewStatus(f"PAUSED at {time_of_day(self.frozen)}", notice=notice)
        else:
            status = ViewStatus("LIVE", self.feed.interval_s, notice=notice)
        position = self.feed.position if isinstance(self.feed, Player) else None
        return replace(status, position=position, recording=self.recording())

    def arrange(self) -> None:
        """Compute the rows of the frame; call it before drawing CPUs."""
        if self.frame is not None:
            self.rows = arrange(self.frame.cpus, self.view)

    def settle(self, page: int) -> None:
        """Keep the cursor valid for the rows, of which `page` are in view."""
        if self.frame is not None:
            self.page = max(1, page)
            self.cursor = settle(self.cursor, self.frame.cpus, self.rows, self.page)

    def move(self, by: int) -> None:
        """Move the cursor down by so many rows."""
        if self.frame is not None:
            self.message = ""
            self.cursor = move(self.cursor, by, self.frame.cpus, self.rows, self.page)

    def change_view(self, **changes: object) -> None:
        """Change the view."""
        self.view = replace(self.view, **changes)  # type: ignore[arg-type]
        self.message = ""

    def cycle_sort(self, step: int, keys: Sequence[str]) -> None:
        """Sort by the next or previous of these columns."""
        if not keys:
            return
        at = keys.index(self.view.sort) if self.view.sort in keys else -step
        self.change_view(sort=keys[(at + step) % len(keys)], inverted=False)

    def can_sort(self, key: str) -> bool:
        """Whether the table of CPUs has a column with this key."""
        return is_column(key)

    def pause(self) -> None:
        """Freeze the screen, or follow the feed again."""
        self.frozen = self.newest if self.frozen is None else None

    def find(self, step: int) -> None:
        """Select the next row that matches the search; a message if there is none."""
        if self.frame is None:
            return
        if not self.search:
            self.message = "no search yet: / finds a thread, an NF or a CPU"
            return
        by = find(self.cursor, self.search, step, self.frame.cpus, self.rows)
        if by is not None:
            self.move(by)
            return
        hidden = ", i shows all CPUs" if self.rows.folded else ""
        self.message = f"not found: {self.search}{hidden}"


def focus_request(now: Focus, wanted: Focus, topology: Topology, *, stays: bool) -> Focus:
    """What to count next: `now` is counted, the view requests `wanted`.

    A frozen screen (`stays`) starts nothing new, since it could not show it; what the view no
    longer requests ends, since counting costs the CPUs.
    """
    # Threads of a core are counted together: going from one to the other changes nothing.
    core = topology.with_siblings(() if now.core is None else (now.core,))
    if wanted.core is not None and (stays or wanted.core in core):
        wanted = replace(wanted, core=now.core)
    if stays:
        wanted = replace(wanted, traffic=wanted.traffic and now.traffic, processes=now.processes)
    return wanted
