"""Which counters are drops, beside the names that a real VPP 26.06 has."""

from __future__ import annotations

import re

import pytest

from nftop.model.nf.vpp_drops import counts_vpp_drops, vpp_drop_rules
from nftop.sources.vpp.segment import _ERROR_PATH
from tests.peers.vpp_segment import Segment


@pytest.fixture(scope="module")
def counters() -> frozenset[tuple[str, str]]:
    """All 3000 that the capture has, of some plugins."""
    matches = (_ERROR_PATH.fullmatch(path) for path in Segment().error_index)
    return frozenset((match[1], match[2]) for match in matches if match is not None)


def test_every_rule_is_of_counters_that_exist(counters: frozenset[tuple[str, str]]) -> None:
    """Each name by API file is a counter of one of the rule's nodes; others are, some of them."""
    for rule in vpp_drop_rules():
        names = {name for node, name in counters if rule.nodes.fullmatch(node)}
        if not names:
            assert rule.source.startswith("src/plugins/"), rule.source  # not loaded
        elif rule.source.endswith(".api"):
            by_word = {name for name in rule.names if re.fullmatch("[a-z0-9_]+", name)}
            assert by_word <= names, by_word - names
        elif not rule.source.startswith("src/plugins/"):
            assert rule.names & names, rule.source


def test_most_counters_are_no_drops(counters: frozenset[tuple[str, str]]) -> None:
    drops = {counter for counter in counters if counts_vpp_drops(*counter)}
    assert len(counters) == 3000 and 300 < len(drops) < 1500
    names = {name for _, name in drops}
    assert not names & {
        "none",
        "no error",
        "punt",
        "replies_sent",
        "replies_received",
        "echo_replies_sent",
        "rx_pkts",
        "rx_post_pkts",
        "post_rx_pkts",
        "handoff",
        "reass_success",
        "fragment_sent",
        "reass_fragments_rcvd",
        "reass_timeout",
        "reass_to_custom_app",
        "small_packet",
        "pkts_decap",
        "pkts_encap",
        "ACL permit packets",
        "total received block",
        "hits",
    }


@pytest.mark.parametrize(
    ("node", "name", "is_drop"),
    [
        ("ip4-input", "bad_checksum", True),
        ("ip4-input", "bad ip4 checksum", True),  # 20.09, 21.01
        ("ip6-input", "ip6 ttl <= 1", True),
        ("ip4-input", "none", False),
        ("ip4-input", "options", False),  # go to error-punt
        ("ip4-local", "unknown_protocol", False),
        ("ip4-icmp-input", "unknown_type", False),
        ("ip4-icmp-input", "echo_replies_sent", False),
        ("ip4-arp", "request_sent", True),  # the packet that asks for it
        ("arp-reply", "replies_sent", False),
        ("arp-reply", "l3_dst_address_not_local", True),
        ("tcp4-established", "enqueued", False),
        ("ethernet-input", "l3 mac mismatch", True),
        ("ethernet-input", "unknown ethernet type", False),
        ("GigabitEthernet3/0/0-tx", "Tx packet drops (dpdk tx failure)", True),
        ("GigabitEthernet3/0/0-output", "interface is down", True),
        ("memif0/0-tx", "no_free_slots", True),
        ("memif0/0-tx", "rollback", False),  # one per frame
        ("null-node", "blackholed packets", True),
        ("nat44-ed-in2out-worker-handoff", "congestion drop", True),
        ("nat44-ed-in2out-worker-handoff", "same worker", False),
        ("acl-plugin-in-ip4-fa", "ACL deny packets", True),
        ("acl-plugin-in-ip4-fa", "checked packets", False),
        ("my-plugin", "drop", False),
    ],
)
def test_counters_that_are_drops(node: str, name: str, is_drop: bool) -> None:
    assert counts_vpp_drops(node, name) is is_drop
