"""Network devices beside those who poll them."""

from __future__ import annotations

from collections.abc import Iterator

from nftop.model.ids import format_cpu_list
from nftop.model.reading import Reason
from nftop.sources.tuning.look import Found, Look, as_advised, cpus, otherwise
from nftop.sources.tuning.pci import Express, Nic, express, nics, openers

# Table in 10.1 of the paper on software data planes, 1.2.
_PAYLOAD_BYTES, _READ_BYTES = 256, 512
# So many of the kernel's own are named, the others counted.
_NAMED = 8


def nodes(look: Look) -> Iterator[Found]:
    """Whether each device is on the node of the cores that poll it."""
    devices = nics(look.tree, look.root)
    users, hidden = _users(look, devices)
    driven = [nic for nic in devices if nic.for_programs or users[nic.address]]
    for nic in driven:
        yield _beside(look, nic, users[nic.address], hidden)
    others = [nic for nic in devices if nic not in driven]
    if others:
        listed = ", ".join(
            f"{', '.join(nic.netdevs) or nic.address} {_place(nic)}" for nic in others[:_NAMED]
        )
        listed += f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield Found(Reason.PRESENT, f"the kernel's own: {listed}")
    elif not driven:
        yield Found(Reason.SOURCE, "no network device on PCI")


def links(look: Look) -> Iterator[Found]:
    """Whether the links of those that programs drive are set for throughput."""
    devices = nics(look.tree, look.root)
    users, _ = _users(look, devices)
    driven = [nic for nic in devices if nic.for_programs or users[nic.address]]
    if not driven:
        yield Found(Reason.IDLE, "no program drives a network device on PCI here")
    for nic in driven:
        yield _link(look, nic)


def _users(look: Look, devices: tuple[Nic, ...]) -> tuple[dict[str, set[int]], int]:
    """By address the processes that drive a device, and how many could not be looked into."""
    handles = frozenset(handle for nic in devices for handle in nic.handles)
    if not handles:
        return {nic.address: set() for nic in devices}, 0
    try:
        found, hidden = openers(look.root, handles)
    except OSError:
        found, hidden = {}, 1
    return {
        nic.address: set().union(*(found.get(handle, ()) for handle in nic.handles))
        for nic in devices
    }, hidden


def _beside(look: Look, nic: Nic, users: set[int], hidden: int) -> Found:
    mine = [poller for poller in look.pollers if poller.pid in users and poller.pinned]
    names = ", ".join(sorted({f"{item.program}[{item.pid}]" for item in mine}))
    if not users:
        why = f"{hidden} processes can't be looked into" if hidden else "no process has it open"
        reason = Reason.PERMISSION if hidden else Reason.IDLE
        return Found(reason, f"{_place(nic)}; {why}", "sudo nftop doctor" if hidden else "",
                     of=nic.address)  # fmt: skip
    if not mine:
        listed = ", ".join(map(str, sorted(users)))
        text = f"{_place(nic)}, open in process {listed}, which polls on no CPU of its own"
        return Found(Reason.IDLE, text, of=nic.address)
    polled = sorted({item.cpu for item in mine})
    if nic.node is None:
        text = f"{_place(nic)}; {names} polls on {cpus(polled)}"
        return Found(Reason.SOURCE, f"{text}: whether that is near is not known", of=nic.address)
    far = [cpu for cpu in polled if look.nodes_of((cpu,)) != (nic.node,)]
    text = f"{_place(nic)}; {names} polls on {cpus(polled)}"
    if not far:
        return as_advised(f"{text} of the same node", of=nic.address)
    near = [info.cpu for info in look.topology.cpus if info.online and info.node == nic.node]
    where = ", ".join(map(str, look.nodes_of(far))) or "unknown"
    return otherwise(
        f"{text}, of which {cpus(far)} is on node {where}",
        f"run it on CPUs of node {nic.node}: {format_cpu_list(near)}",
        of=nic.address,
    )


def _link(look: Look, nic: Nic) -> Found:
    try:
        found = express(look.root, nic.physical or nic.address)
    except PermissionError:
        why = "its PCI Express settings are root's to read"
        return Found(Reason.PERMISSION, why, "sudo nftop doctor", of=nic.address)
    except OSError as error:
        return Found(Reason.ERROR, f"its configuration can't be read: {error.strerror}",
                     of=nic.address)  # fmt: skip
    if found is None:
        return Found(Reason.UNDEFINED, "it is not on PCI Express", of=nic.address)
    flaws, fixes = _flaws(found)
    text = f"as {nic.physical}, of which it is a function: " if nic.physical else ""
    text += (
        f"payload {found.payload_bytes} of {found.payload_limit_bytes} bytes, reads of "
        f"{found.read_bytes}, ASPM {found.aspm or 'off'}"
    )
    if not flaws:
        return as_advised(text, of=nic.address)
    return otherwise(f"{text}: {', '.join(flaws)}", "; ".join(fixes), of=nic.address)


def _flaws(found: Express) -> tuple[list[str], list[str]]:
    flaws, fixes = [], []
    if found.payload_bytes < _PAYLOAD_BYTES:
        able = found.payload_limit_bytes >= _PAYLOAD_BYTES
        flaws.append(f"payload below {_PAYLOAD_BYTES}" + ("" if able else ", which is all it can"))
    if found.read_bytes < _READ_BYTES:
        flaws.append(f"reads below {_READ_BYTES}")
    if flaws:
        fixes.append("pci=pcie_bus_perf in the kernel's command line, or the BIOS")
    if found.aspm:
        flaws.append("ASPM is on")
        fixes.append("echo performance | sudo tee /sys/module/pcie_aspm/parameters/policy")
    return flaws, fixes


def _place(nic: Nic) -> str:
    where = "node unknown" if nic.node is None else f"node {nic.node}"
    return f"({nic.driver or 'no driver'}, {where})"
