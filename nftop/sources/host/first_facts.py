"""What a first frame shows while the rest of nftop is imported: the host, its NFs and its CPUs.

A few small files, read by functions that need no other module: importing numpy or msgspec alone
takes longer than this. The sources of the session find the same, and more, a moment later.
"""

from __future__ import annotations

import os

_LIMIT_BYTES = 1 << 14
_MOST_NFS = 64
# Kind, the usual folder of its sockets below the root, and their name or its end.
_SOCKETS = (
    ("dpdk", "run/dpdk", "dpdk_telemetry.v2"),
    ("vpp", "run/vpp", "stats.sock"),
    ("ovs", "run/openvswitch", ".ctl"),
)


class FirstFacts:
    """Facts of the host that are known without counting.

    Attributes:
        name, model: of the host and of its CPU (untrusted text).
        cpus: as the kernel lists them: `0-7`. isolated: those kept from the scheduler.
        nfs: kind and name of each network function that has a socket (untrusted text).
        resctrl: whether the kernel has it; None: unknown.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self.name = self._text("proc/sys/kernel/hostname")
        self.model = self._model()
        self.cpus = self._text("sys/devices/system/cpu/online")
        self.isolated = self._text("sys/devices/system/cpu/isolated")
        self.nfs = self._nfs()
        filesystems = self._text("proc/filesystems")
        self.resctrl = "resctrl" in filesystems.split() if filesystems else None

    def _text(self, path: str) -> str:
        """The first bytes of a file; "" if it can't be read."""
        try:
            handle = os.open(f"{self._root}/{path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return ""
        try:
            return os.read(handle, _LIMIT_BYTES).decode("utf-8", "replace").strip()
        except OSError:
            return ""
        finally:
            os.close(handle)

    def _model(self) -> str:
        # No more than the first CPU's lines: the kernel makes them as they are read.
        for line in self._text("proc/cpuinfo").split("\n"):
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
        return ""

    def _nfs(self) -> list[tuple[str, str]]:
        nfs = []
        for kind, folder, socket in _SOCKETS:
            for name in self._names(folder):
                if kind == "dpdk" and os.path.lexists(f"{self._root}/{folder}/{name}/{socket}"):
                    nfs.append((kind, name))
                elif kind == "vpp" and name == socket:
                    nfs.append((kind, kind))
                elif kind == "ovs" and name.startswith("ovs-vswitchd") and name.endswith(socket):
                    nfs.append((kind, name.partition(".")[0]))
        return nfs[:_MOST_NFS]

    def _names(self, folder: str) -> list[str]:
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                return sorted(entry.name for entry in entries)
        except OSError:
            return []
