"""`nftop fleet`: many hosts, on a screen, or as files for Prometheus and Grafana."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from nftop import __version__
from nftop.cli.commands.live import has_screen, prepare_screen, screen, style_of
from nftop.cli.config import open_fleet_hosts, open_rules
from nftop.cli.signals import leaving_on_signal, stopping
from nftop.derive.findings.registry import all_rules
from nftop.export.fleet.alerts import alerts
from nftop.export.fleet.dashboard import dashboard
from nftop.export.fleet.queries import fleet_queries
from nftop.export.output import FAILURE, OK, USAGE, fail, put
from nftop.model.missing import Missing
from nftop.model.struct import replace
from nftop.render.base.text import ascii_only, printable
from nftop.render.fleet import FleetStatus, fleet_text
from nftop.session.feed import FeedError
from nftop.session.fleet import FleetFeed
from nftop.session.replay import Replay
from nftop.sources.prometheus import PrometheusSource, check_token, parse_prometheus_url
from nftop.sources.ssh import RemoteRecorder, record_remote
from nftop.store.format.records import Header
from nftop.store.history.events import EventHistory
from nftop.store.history.rings import TickHistory
from nftop.store.reading.bytes import MUCH, PipeBytes
from nftop.store.reading.scan import Scan
from nftop.store.user.config_dir import read_text

if TYPE_CHECKING:
    from nftop.model.frame import Frame
    from nftop.ui.screens.fleet import FleetMemory, OpenedHost

_MOST_TOKEN_BYTES = 1 << 14
_TEXT_WIDTH = 160
# A host that sends nothing for so long is given up; it is looked at so often.
_OPENS_WITHIN_S, _POLL_S = 60.0, 0.2
# What comes without the begin of a recording for so long is none.
_BEGINS_WITHIN_S = 15.0
_GIVEN_UP = "given up"
_NO_GATE = "another host can't be changed from here"


def fleet(options: argparse.Namespace) -> int:
    """Show many hosts, or print a dashboard of Grafana or the alerting rules of Prometheus."""
    if not options.job:
        return fail("--job: a scrape job has a name", USAGE)
    if options.form not in (None, "text"):
        return fail(f"--{options.form}: the fleet is written as text only", USAGE)
    if options.prometheus is not None:
        if options.output is not None:
            return fail(f"{options.output} reads no Prometheus", USAGE)
        return _live(options)
    if options.output is None:
        return fail("dashboard, alerts, or --prometheus URL (nftop fleet --help)", USAGE)
    if options.output == "dashboard":
        text = dashboard(options.job)
    else:
        text = alerts(all_rules(), options.job)
    put(sys.stdout, text)
    return OK


def _live(options: argparse.Namespace) -> int:
    try:
        url = parse_prometheus_url(options.prometheus)
        token = "" if options.token_file is None else _token(options.token_file)
        if token:
            check_token(token, url)
        hosts = open_fleet_hosts()
    except ValueError as error:
        return fail(printable(str(error)), USAGE)
    except OSError as error:
        return fail(f"{printable(str(options.token_file))}: {error.strerror}", USAGE)
    source = PrometheusSource(url, fleet_queries(options.job), token=token)
    feed = FleetFeed(source.read, options.fleet_interval_s)
    if options.batch or options.count is not None or not has_screen():
        return _batch(feed, url.shown, options)
    from nftop.ui.app import FleetApp  # noqa: PLC0415 - Textual is half of the start-up time
    from nftop.ui.screens.fleet import FleetContext, FleetMemory  # noqa: PLC0415

    memory = FleetMemory()
    context = FleetContext(url.shown, hosts, RemoteHost, memory)
    style = style_of(options)
    prepare_screen()
    while True:
        app = FleetApp(feed, context, style)
        with leaving_on_signal(app.leave, sys.stdin.fileno()):
            app.run()
        if app.opened is None or app.return_code:
            if app.opened is not None:  # a signal came as it opened
                app.opened.attempt.cancel()
            return app.return_code or OK
        code = _show(app.opened, options, memory)
        if code > 128:  # a signal ended it
            return code


def _token(file: str) -> str:
    if token := read_text(Path(file), _MOST_TOKEN_BYTES).strip():
        return token
    raise ValueError(f"{file}: no token is in it")


def _batch(feed: FleetFeed, shown: str, options: argparse.Namespace) -> int:
    """Write frames as text; no target, or the last one's problem, is a failure."""
    problem, written, unknown = "", 0, False
    width = _TEXT_WIDTH
    frames = feed.frames()
    with stopping(feed.stop) as ended:
        for frame in frames:
            unknown = not frame.problem and not frame.hosts
            if unknown:
                break
            status = FleetStatus(shown, feed.interval_s, time.monotonic_ns())
            lines = fleet_text(frame, status, width)
            put(sys.stdout, "".join(f"{ascii_only(item.text).rstrip()}\n" for item in lines))
            problem, written = frame.problem, written + 1
            if options.count is not None and written >= options.count:
                break
        feed.stop()
    if ended:
        return 128 + ended[0]
    if unknown:
        job = printable(options.job)
        return fail(f"{printable(shown)} has no target of the scrape job {job} (--job)", FAILURE)
    return FAILURE if problem else OK


class RemoteHost:
    """Another host's live recording over ssh; `destination` is the operator's word for the host.

    Attributes:
        feed: frames of the remote recording. data: its bytes; `feed` closes them.
        version: of the nftop there; "" if unknown.
    """

    def __init__(self, destination: str) -> None:
        self.version = ""
        self._cancelled = False
        self._waited = False
        self._lock = threading.Lock()  # of these two
        self._news = threading.Event()
        started = record_remote(destination)
        self._problem = started.message if isinstance(started, Missing) else ""
        self._recorder: RemoteRecorder | None = None
        self.data: PipeBytes | None = None
        self.feed: Replay | None = None
        if not isinstance(started, Missing):
            self._recorder = started
            self.data = PipeBytes(started.output, MUCH, more=self._news.set)
            self.feed = Replay(self.data, news=self._news)
            self.feed.remote = started.ending

    def wait(self) -> str:
        """Wait for the recording's begin and the header; see `RemoteAttempt`."""
        try:
            problem = self._wait()
        finally:
            with self._lock:
                self._waited, cancelled = True, self._cancelled
        given_up = cancelled and not problem
        if given_up:
            self.close()
        return _GIVEN_UP if given_up else problem

    def _wait(self) -> str:
        if self.feed is None or self.data is None:
            return self._problem
        began_s = time.monotonic()
        scan, opened = Scan(self.data), False
        while not self._cancelled:
            self._news.clear()
            try:
                opened = opened or self.feed.open()
                while opened and (item := scan.next()) is not None:
                    if isinstance(item, Header):
                        self.version = item.versions.get("nftop", "")
                        return ""
            except FeedError:
                return self._unreadable()
            except OSError:
                break
            if not self.data.grows:
                return self._unreadable()
            if why := self._overdue(time.monotonic() - began_s, opened=opened):
                self.close()
                return why
            self._news.wait(_POLL_S)
        self.close()
        return _GIVEN_UP

    def _overdue(self, waited_s: float, *, opened: bool) -> str:
        """Why the host is given up after so long; "" if it is not."""
        if not opened and self.data is not None and self.data.size and waited_s > _BEGINS_WITHIN_S:
            return "what it sends is no recording of nftop's"
        late = waited_s > _OPENS_WITHIN_S
        return f"nothing came over ssh for {_OPENS_WITHIN_S:.0f} s" if late else ""

    def _unreadable(self) -> str:
        """Why what came is no recording."""
        ending = "" if self._recorder is None else self._ending(self._recorder)
        self.close()
        if self.data is not None and self.data.size:
            text = f"sends no recording that nftop {__version__} can read: another version there?"
            return f"{text} {printable(ending)}".rstrip()
        return printable(ending) or "ssh sends nothing"

    @staticmethod
    def _ending(recorder: RemoteRecorder) -> str:
        """How ssh ended; waits a moment for its end."""
        end_s = time.monotonic() + 2.0
        while not (text := recorder.ending()) and time.monotonic() < end_s:
            time.sleep(0.05)
        return text

    def ending(self) -> str:
        """How ssh ended; "" while it runs."""
        return "" if self._recorder is None else self._recorder.ending()

    def cancel(self) -> None:
        with self._lock:
            self._cancelled, waited = True, self._waited
        self._news.set()
        if self._recorder is not None:
            self._recorder.end()
        if waited:  # else the waiting thread closes it
            threading.Thread(target=self.close, name="nftop-close", daemon=True).start()

    def close(self) -> None:
        """End ssh and the reading. Safe to call twice."""
        self._cancelled = True
        if self.feed is not None:
            self.feed.stop()
        if self.data is not None:
            self.data.close()
        if self._recorder is not None:
            self._recorder.close()


def version_text(name: str, version: str) -> str:
    """A sentence if the version of nftop on a host differs from this one; else ""."""
    if version == __version__:
        return ""
    other = f"nftop {printable(version)}" if version else "an nftop of unknown version"
    return f"{name} runs {other}, this is {__version__}: numbers are computed here"


def _show(opened: OpenedHost, options: argparse.Namespace, memory: FleetMemory) -> int:
    """The screens of one host until the operator leaves them; back to the fleet then."""
    remote = opened.attempt
    if not isinstance(remote, RemoteHost) or remote.feed is None:
        return OK
    name = printable(opened.host.name)
    history, events = TickHistory(), EventHistory()

    def seen(frame: Frame) -> None:
        history.append(frame)
        events.append(frame, incidents=True)

    remote.feed.on_frame(seen)
    with closing(remote):
        # Settings of rules that are made there are for the visit.
        rules = open_rules(for_session=True)
        remote.feed.set_rules(rules.settings)
        drawn = replace(
            style_of(options),
            no_gate=_NO_GATE,
            no_frequencies=_NO_GATE,
            rules=rules,
            events=events,
            message=version_text(name, remote.version),
        )
        code = screen(remote.feed, history, drawn)
        # The end of the screen ends ssh, which is no news.
        ended = remote.ending() if remote.feed.unfinished else ""
    memory.message = f"{name}: {printable(ended)}" if ended else f"back from {name}"
    return code
