"""Documents of real servers, number by number, and of what no server should write."""

from __future__ import annotations

import json
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

from nftop.model.pcm import CPU_FIELDS, LINK_FIELDS, PACKAGE_FIELDS, PCIE_EVENTS, PcmTable
from nftop.sources.pcm.document import BadDocumentError, parse_json, parse_text, snake, table_of
from tests.peers.pcm_server import captures

JSON_DOCUMENTS = sorted(name for name in captures() if name.endswith(".json"))
TEXTS = sorted(name for name in captures() if name.endswith((".prom", "_metrics.txt")))


def read(name: str) -> PcmTable:
    body = captures()[name]
    since_start = "root" in name or "metrics" in name
    parse = parse_json if name.endswith(".json") else parse_text
    return table_of(parse(body), since_start=since_start)


def reports(name: str) -> str:
    """A field as this program calls it."""
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


@pytest.mark.parametrize("name", JSON_DOCUMENTS)
def test_every_number_of_a_document_is_where_it_belongs(name: str) -> None:
    table, document = read(name), json.loads(captures()[name])
    assert table.interval_us == document["Interval us"]
    assert table.sockets.tolist() == [0, 1]
    assert table.cpus.tolist() == list(range(16))
    seen = 0
    for location, socket in enumerate(document["Sockets"]):
        uncore = {reports(key): value for key, value in socket["Uncore"]["Uncore Counters"].items()}
        for index, field in enumerate(PACKAGE_FIELDS):
            result = table.of_packages[location, index]
            assert result == uncore[field] if field in uncore else np.isnan(result)
        for number, core in enumerate(socket["Cores"]):
            for thread in core["Threads"]:
                row = thread["OS ID"]
                assert (table.packages[row], table.cores[row]) == (location, number)
                groups = [thread[group] for group in thread if group.endswith("Counters")]
                counts = {reports(key): value for group in groups for key, value in group.items()}
                assert counts.keys() <= set(CPU_FIELDS)
                for index, field in enumerate(CPU_FIELDS):
                    result = table.of_cpus[row, index]
                    assert result == counts[field] if field in counts else np.isnan(result)
                    seen += field in counts
    assert seen >= 16 * 20


@pytest.mark.parametrize("name", JSON_DOCUMENTS)
def test_links_and_requests_are_those_of_their_socket(name: str) -> None:
    table, document = read(name), json.loads(captures()[name])
    count = 3 if name.startswith("icx") else 2
    assert table.links.tolist() == [[s, link] for s in (0, 1) for link in range(count)]
    for row, (socket, link) in enumerate(table.links.tolist()):
        counts = document["QPI/UPI Links"][f"QPI Counters Socket {socket}"]
        expected = [
            counts[f"Incoming Data Traffic On Link {link}"],
            counts[f"Outgoing Data And Non-Data Traffic On Link {link}"],
        ]
        assert table.of_links[row].tolist() == expected
    assert len(LINK_FIELDS) == 2
    for socket in (0, 1):
        counts = document.get("PCIe Bandwidth", {}).get(f"PCIe Counters Socket {socket}", {})
        by_name = {key.removeprefix("PCIe ").lower(): value for key, value in counts.items()}
        for index, event in enumerate(PCIE_EVENTS):
            result = table.pcie[socket, index]
            assert result == by_name[event] if event in by_name else np.isnan(result)
    assert np.isnan(table.pcie).all() == ("202302" in name)


@pytest.mark.parametrize("name", TEXTS)
def test_text_reports_the_same_as_json(name: str) -> None:
    """Of the last second; of totals nearly, which were asked for one after the other."""
    text = read(name)
    other = name.replace("_persecond1.prom", "_persecond1.json").replace(
        "_metrics.txt", "_root.json"
    )
    document = read(other)
    assert text.same_layout(document)
    exact = name.endswith(".prom")
    for ours, theirs in (
        (text.of_cpus, document.of_cpus),
        (text.of_packages, document.of_packages),
        (text.of_links, document.of_links),
        (text.pcie, document.pcie),
    ):
        both = ~np.isnan(ours) & ~np.isnan(theirs)
        assert not np.any(np.isnan(theirs) & ~np.isnan(ours))
        if exact:
            np.testing.assert_array_equal(ours[both], theirs[both])
    assert not np.isnan(text.of_cpu("instructions_retired_any")).any()
    assert np.isnan(text.of_cpu("core_frequency")).all()
    assert text.of_package("package_joules_consumed") == pytest.approx(
        document.of_package("package_joules_consumed"), rel=1e-2
    )


@pytest.mark.parametrize("name", ["skx_202302_bad.txt", "skx_2026-06_bad.txt"])
def test_a_refusal_is_no_document(name: str) -> None:
    for parse in (parse_json, parse_text):
        with pytest.raises(BadDocumentError):
            parse(captures()[name])


def small(**changes: Any) -> dict[str, Any]:
    """The least that is a document: one socket of one CPU."""
    thread = {"OS ID": 0, "Core Counters": {"Instructions Retired Any": 5}}
    socket = {"Socket ID": 0, "Cores": [{"Threads": [thread]}], "Uncore": {}}
    return {"Interval us": 1_000_000, "Sockets": [socket], **changes}


def of(document: object) -> PcmTable:
    return table_of(parse_json(json.dumps(document).encode()), since_start=False)


def test_the_least_document_is_one_cpu() -> None:
    table = of(small())
    assert table.cpus.tolist() == [0]
    assert table.of_cpu("instructions_retired_any").tolist() == [5]
    assert table.links.shape == (0, 2)
    assert np.isnan(table.pcie).all()


@pytest.mark.parametrize("word", [b"nan", b"-nan", b"inf", b"-inf", b"nan(ind)", b"-Infinity"])
def test_words_for_no_number_leave_the_rest(word: bytes) -> None:
    body = json.dumps(small()).encode().replace(b": 5}", b": " + word + b', "SMI Count": 2}')
    table = table_of(parse_json(body), since_start=False)
    assert np.isnan(table.of_cpu("instructions_retired_any")).all()
    assert table.of_cpu("smi_count").tolist() == [2]


def test_what_was_offline_when_the_server_began_is_left_out() -> None:
    document = small()
    document["Sockets"][0]["Cores"].append({"Threads": [{"OS ID": -1}]})
    assert of(document).cpus.tolist() == [0]


@pytest.mark.parametrize(
    "broken",
    [
        [],
        7,
        {},
        {"Sockets": []},
        small(**{"Interval us": -1}),
        small(**{"Interval us": "1"}),
        small(**{"Interval us": 1 << 63}),
        small(Sockets=[]),
        small(Sockets=[{"Socket ID": 0}]),
        small(Sockets=small()["Sockets"] * 2),
        small(Sockets=[small()["Sockets"][0], small()["Sockets"][0] | {"Socket ID": 1}]),
        small(Sockets=[{"Socket ID": True}]),
        small(Sockets=[{"Socket ID": -1}]),
        small(Sockets=[{"Socket ID": 0, "Cores": [{"Threads": [{"OS ID": 1 << 40}]}]}]),
        small(Sockets=[{"Socket ID": 0, "Cores": [{"Threads": [{"OS ID": "0"}]}]}]),
        small(Sockets=[{"Socket ID": index} for index in range(300)] + small()["Sockets"]),
    ],
)
def test_what_is_no_document_is_reported(broken: object) -> None:
    with pytest.raises(BadDocumentError):
        of(broken)


def test_accelerators_are_kept_as_they_are_named() -> None:
    table = of(small(Accelerators={"dsa Counters Device 0": {"Inbound": 3, "x" * 100: 10**400}}))
    ((device, counters),) = table.accelerators
    assert device == "dsa Counters Device 0"
    assert dict(counters) == {"Inbound": 3.0, "x" * 64: float("inf")}


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"Sockets":' * 5000,
        b'{"Interval us": ' + b"9" * 5000 + b', "Sockets": []}',
    ],
    ids=["arrays", "objects", "digits"],
)
def test_json_that_is_too_deep_or_too_long_is_no_document(body: bytes) -> None:
    with pytest.raises(BadDocumentError):
        parse_json(body)


@pytest.mark.parametrize(
    "line",
    [
        b"x{" + b"a" * (8 << 20) + b"} 1\n",
        (b"x{" + b"a" * 4000 + b"} 1\n") * 2000,
        (b'x{a="' + b"a" * 4000 + b"} 1\n") * 2000,
        (b"x" + b" " * 4000 + b"\n") * 2000,
    ],
    ids=["one", "many", "unended", "blank"],
)
def test_long_lines_of_text_are_no_long_work(line: bytes) -> None:
    # The first would take a week and the second minutes if each letter were tried as a begin.
    body = b"Measurement_Interval_in_us 1\n" + line + b'OS_ID{socket="0",core="0",thread="0"} 7\n'
    assert table_of(parse_text(body), since_start=False).cpus.tolist() == [7]


def test_a_text_of_line_ends_is_no_document() -> None:
    with pytest.raises(BadDocumentError, match="lines"):
        parse_text(b"Measurement_Interval_in_us 1" + b"\n" * (2 << 20))


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b":" * (4 << 20) + b"]",
        b":" + b" " * (4 << 20) + b"nan",
        b":nan(" + b"a" * (4 << 20),
        b":nan(" * (1 << 19),
    ],
    ids=["colons", "blanks", "word", "words"],
)
def test_what_is_almost_json_is_no_long_work(body: bytes) -> None:
    with pytest.raises(BadDocumentError, match="not JSON"):
        parse_json(body)


def test_long_names_are_not_kept() -> None:
    snake("warm")
    tracemalloc.start()
    try:
        for index in range(16):
            assert snake(f"Name {index} " + "x" * (1 << 20)).startswith(f"name_{index}_x")
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()


def test_long_names_of_links_are_no_long_work() -> None:
    long = {"Socket " * (1 << 19): {}, "a" * (4 << 20): {}, "Data Socket 0": {"UPI": 1}}
    assert of(small(**{"QPI/UPI Links": long})).cpus.tolist() == [0]
