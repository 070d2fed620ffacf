"""Documents of a pcm-sensor-server, JSON and Prometheus text."""

from __future__ import annotations

import json

from nftop.model.pcm import CPU_FIELDS, PCIE_EVENTS
from nftop.sources.pcm.document import BadDocumentError, parse_json, parse_text, table_of
from tests.peers.pcm_server import captures

WORDS = (
    b" : 0", b" : 1", b'"OS ID" : ', b'"Socket ID" : ', b"{", b"}", b"[", b"]", b",", b'"', b"us",
    b'"Interval us": ', b'"Sockets": ', b'"Cores": ', b'"Threads": ', b'"Core Counters": ',
    b'"QPI/UPI Links": ', b'"PCIe Bandwidth": ', b'"Accelerators": ', b"nan", b"-nan(ind)", b"inf",
    b'socket="0"', b'core="0"', b'thread="0"', b'source="uncore"', b'aggregate="system"', b"OS_ID",
    b"Measurement_Interval_in_us 1\n", b'index="1"', b"null", b"1e999", b"\xd9\xa3",
)  # fmt: skip


def seeds() -> list[bytes]:
    thread = {"OS ID": 0, "Core Counters": {"Instructions Retired Any": 5}}
    socket = {"Socket ID": 0, "Cores": [{"Threads": [thread]}]}
    document = {
        "Interval us": 10**6,
        "Sockets": [socket | {"Uncore": {"Uncore Counters": {"DRAM Reads": 1}}}],
        "QPI/UPI Links": {"QPI Counters Socket 0": {"Incoming Data Traffic On Link 0": 7}},
        "PCIe Bandwidth": {"PCIe Counters Socket 0": {"PCIe PCIRdCur": 3}},
        "Accelerators": {"dsa Counters Device 0": {"Inbound": 3}},
    }
    documents = [
        json.dumps(document).encode(),
        (
            b"Measurement_Interval_in_us 1\n"
            b'OS_ID{socket="0",core="0",thread="0"} 0\n'
            b'Instructions_Retired_Any{socket="0",core="0",thread="0",source="core"} 5\n'
            b'DRAM_Reads{socket="0",source="uncore"} 6\n'
        ),
    ]
    return documents + [
        body[:size]
        for name, body in sorted(captures().items())
        for size in (3000, 12000)
        if not name.endswith("_bad.txt")
    ]


def play(data: bytes) -> None:
    """By both parsers, whatever it is; one refuses it, both, or none."""
    for parse in (parse_json, parse_text):
        try:
            table = table_of(parse(data), since_start=False)
        except BadDocumentError:
            continue
        assert table.of_cpus.shape == (len(table.cpus), len(CPU_FIELDS))
        assert len(table.cpus) == len(set(table.cpus.tolist())) > 0
        assert table.pcie.shape == (len(table.sockets), len(PCIE_EVENTS))
        assert table.interval_us > 0
