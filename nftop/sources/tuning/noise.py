"""What else runs on the CPUs that poll: watchdogs and interrupts.

Files: the kernel's Documentation/admin-guide/sysctl/kernel.rst and Documentation/core-api/irq.
"""

from __future__ import annotations

from collections.abc import Iterator

from nftop.model.ids import Cpu, format_cpu_list, parse_cpu_list
from nftop.model.reading import Reason
from nftop.sources.tuning.look import NOBODY_POLLS, Found, Look, as_advised, cpus, otherwise

_IRQ = "proc/irq"
_BALANCER = "irqbalance"
# What else is in an interrupt's folder.
_FILES = frozenset(
    ("affinity_hint", "effective_affinity", "effective_affinity_list", "node", "smp_affinity",
     "smp_affinity_list", "spurious")
)  # fmt: skip
# So many are named, the others counted.
_NAMED = 4


def watchdog(look: Look) -> Iterator[Found]:
    """Whether the NMI watchdog interrupts every CPU and holds one of its counters."""
    state = look.tree.text("proc/sys/kernel/nmi_watchdog")
    if state is None:
        yield Found(Reason.HARDWARE, "this kernel has no NMI watchdog")
    elif state == "0":
        yield as_advised("the NMI watchdog is off")
    else:
        text = "the NMI watchdog is on: it interrupts CPUs and holds a counter of each"
        yield otherwise(text, "sudo sysctl kernel.nmi_watchdog=0")


def balancer(look: Look) -> Iterator[Found]:
    """Whether irqbalance moves interrupts about."""
    try:
        pids = [pid for pid in look.tree.names("proc") if pid.isdecimal()]
    except OSError:
        pids = []
    if not pids:
        yield Found(Reason.SOURCE, "no process can be seen in /proc")
        return
    running = [pid for pid in pids if look.tree.text(f"proc/{pid}/comm") == _BALANCER]
    if running:
        yield otherwise(
            f"irqbalance runs (process {', '.join(running)}): it may move interrupts to any CPU "
            "that it is not kept off",
            "sudo systemctl disable --now irqbalance, or IRQBALANCE_BANNED_CPULIST in its "
            "configuration",
        )
    else:
        # Those of other namespaces, or of other users under hidepid, can't.
        yield as_advised(f"irqbalance is not among the {len(pids)} processes that can be seen")


def interrupts(look: Look) -> Iterator[Found]:
    """Whether devices' interrupts are directed at CPUs that poll."""
    if not look.polled:
        yield Found(Reason.IDLE, NOBODY_POLLS)
        return
    numbers = sorted((name for name in look.tree.names(_IRQ) if name.isdecimal()), key=int)
    if not numbers:
        yield Found(Reason.SOURCE, "the kernel tells no interrupts (/proc/irq)")
        return
    aimed: dict[str, set[Cpu]] = {}
    for number in numbers:
        # Those with a handler; what nobody handles nobody raises.
        users = _users(look, number)
        where = _directed(look, number) & set(look.polled) if users else set()
        if where:
            aimed[f"{number} ({', '.join(users)})"] = where
    if not aimed:
        yield as_advised(f"no device's interrupt is directed at {cpus(look.polled)}")
        return
    named = ", ".join([*aimed][:_NAMED])
    more = f" and {len(aimed) - _NAMED} more" if len(aimed) > _NAMED else ""
    hit = sorted({cpu for where in aimed.values() for cpu in where})
    online = {info.cpu for info in look.topology.cpus if info.online}
    others = format_cpu_list(sorted(online - set(look.polled)))
    loop = " ".join(item.split()[0] for item in aimed)
    fix = f"for i in {loop}; do echo {others} | sudo tee /proc/irq/$i/smp_affinity_list; done"
    yield otherwise(
        f"interrupt {named}{more} directed at {cpus(hit)}, polled on", fix if others else ""
    )


def _users(look: Look, number: str) -> list[str]:
    """Handlers of an interrupt: the folders in its folder."""
    return sorted(set(look.tree.names(f"{_IRQ}/{number}")) - _FILES)


def _directed(look: Look, number: str) -> set[Cpu]:
    """Where an interrupt goes; before Linux 4.15 where it may go."""
    for name in ("effective_affinity_list", "smp_affinity_list"):
        text = look.tree.text(f"{_IRQ}/{number}/{name}")
        if text:
            try:
                return set(parse_cpu_list(text))
            except ValueError:
                continue
    return set()
