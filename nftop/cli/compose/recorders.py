"""Recorder and recording header of a session."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from typing import Protocol

from nftop import __version__
from nftop.model.baseline import Baselines
from nftop.model.metrics.catalogue import METRICS
from nftop.model.topology import Host, Topology
from nftop.render.base.text import printable
from nftop.store.folders import caller, open_folder
from nftop.store.format.records import Header
from nftop.store.recording.sink import FileSink, default_base, default_file, exists
from nftop.uarch.table import Uarch


class DescribedHost(Protocol):
    """What a recording's header says of a host."""

    @property
    def host(self) -> Host: ...

    @property
    def topology(self) -> Topology: ...

    @property
    def uarch(self) -> Uarch: ...


def header_of(
    here: DescribedHost, options: argparse.Namespace, baselines: Baselines | None = None
) -> Header:
    """Facts of a recording of this host; `baselines` at its begin."""
    return Header(
        began_ns=time.time_ns(),
        host=here.host,
        topology=here.topology,
        uarch=here.uarch.name,
        smt=any(info.siblings for info in here.topology.cpus),
        interval_ns=int(options.interval_s * 1e9),
        queue_map=options.queue_map,
        cpus=options.cpu_list,
        command=tuple(map(printable, sys.argv)),
        versions={
            "nftop": __version__,
            "python": platform.python_version(),
            "kernel": os.uname().release,
        },
        baselines=baselines,
        catalogue=tuple(
            (metric.id, metric.label, metric.unit.value, metric.scope) for metric in METRICS
        ),
    )


def default_path(host: str) -> Path:
    """Path of a host's recordings, without a time."""
    return default_base(os.environ, host)


def default_sink(host: str) -> FileSink:
    path = default_file(os.environ, host, time.time_ns())
    return FileSink(path, owner=caller(os.environ))


def file_sink(file: str) -> FileSink:
    """A recording into a new file."""
    return FileSink(Path(file).absolute(), owner=caller(os.environ))


def wrong_file(file: str, *, rotates: bool) -> str:
    """Why a recording can't be written to a new file; "" if it can."""
    path = Path(file).absolute()
    if not rotates and exists(path):
        return f"{printable(file)} exists, and no recording is written over"
    # A mistyped folder is not created.
    try:
        open_folder(path.parent).close()
    except (FileNotFoundError, NotADirectoryError):
        return f"there is no folder {printable(str(path.parent))}"
    except OSError as error:
        return f"{printable(str(path.parent))}: {error.strerror}"
    return ""
