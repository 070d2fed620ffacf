"""What tests ask of the machine they run on before they claim a part of it."""

from __future__ import annotations

from pathlib import Path

from nftop.model.ids import Cpu
from nftop.sources.process.threads import ThreadFiles


def bound_to(cpu: Cpu) -> str:
    """Name and pid of a thread that is bound to this CPU alone; "" if there is none.

    Only where there are other CPUs to be bound to, and the kernel's own threads aside.
    """
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        files = ThreadFiles(str(task), keep=False)
        try:
            stat = files.stat()
            if not stat.kernel and files.status().allowed == (cpu,):
                return f"{stat.comm} ({task.name})"
        except (OSError, ValueError):
            continue  # it ended meanwhile
    return ""
