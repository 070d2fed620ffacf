"""`nftop serve`: frames of a host for Prometheus."""

from __future__ import annotations

import argparse
import signal

from nftop.cli.compose.baselines import open_book
from nftop.cli.compose.hosts import OpenHost, open_requested
from nftop.cli.config import open_rules
from nftop.cli.signals import stopping
from nftop.export.finding_log import open_log
from nftop.export.http.request import Board
from nftop.export.http.server import Serving
from nftop.export.output import FAILURE, OK, USAGE, fail, warn
from nftop.model.baseline import Baselines
from nftop.model.error_text import describe_error
from nftop.model.frame import Focus
from nftop.model.rule_settings import RuleSettings
from nftop.render.base.text import printable
from nftop.session.focus_target import FocusFrames, FocusTarget, target_of

# The first frame, without rates, is served only for this time.
_SOON_S = 1.0


def serve(options: argparse.Namespace) -> int:
    """Serve the latest frame until a signal; SIGTERM, which stops services, is no failure."""
    board = Board(options.interval_s, options.level)
    try:
        serving = Serving(options.listen, board.reply, board.counted)
    except OSError as error:
        return fail(f"can't listen at {options.listen.shown}: {error.strerror}", FAILURE)
    try:
        try:
            here = open_requested(options)
            book = open_book(options, here.host)
            rules = open_rules().settings
            target = target_of(
                options.focus, here.topology, shown=options.cpu_list, quiet=options.quiet_cpus
            )
        except ValueError as error:
            return fail(str(error), USAGE)
        # Before the frames, whose start moves all existing threads off the polling cores.
        serving.start()
        badge = f"{here.host.badge}: " if here.host.badge else ""
        warn(f"nftop: {badge}http://{serving.where.shown}/metrics")
        return _frames(here, options, board, (book.begun, rules, target))
    finally:
        serving.close()


def _frames(
    here: OpenHost,
    options: argparse.Namespace,
    board: Board,
    settings: tuple[Baselines | None, RuleSettings, FocusTarget | None],
) -> int:
    baselines, rules, target = settings
    log = open_log(options.log, here.host.name)
    feed = here.feed(
        interval_s=options.interval_s,
        cpus=options.cpu_list,
        queue_map=options.queue_map,
        baselines=baselines,
        rules=rules,
        soon_s=_SOON_S,
        on_finding=None if log is None else log.put,
    )
    focus = Focus(traffic=options.traffic)
    with stopping(feed.stop) as ended:
        try:
            for frame in FocusFrames(
                feed, target, focus, lambda text: warn(f"nftop: {printable(text)}")
            ).frames():
                board.publish(frame)
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, not a traceback
            return fail(describe_error(error), FAILURE)
    return OK if ended[:1] in ([], [signal.SIGTERM]) else 128 + ended[0]
