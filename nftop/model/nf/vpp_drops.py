"""Which of VPP's error counters count packets that it dropped.

VPP calls every counter of a graph node an error: packets received, replies sent, drops. Its stats
segment has no severity and no disposition, so a counter is a drop only by a rule of this table, by
what VPP's API files and source say of it:

- `severity error` in the `counters` of an API file, of nodes whose packets with that error go to
  error-drop. Left out, although their severity is error: what goes to error-punt (punt,
  unknown_protocol, errors of ip4-icmp-input, no_tunnel), fragments handed to another node
  (reass_to_custom_app), and counts that are no packets dropped (reass_timeout: reassemblies;
  ip_frag's small_packet: packets that stay whole).
- counters without an API file: the source shows that the packet goes to error-drop with the error,
  or is freed where it is counted.

Any other counter is shown as a counter and never as a drop.
"""

from __future__ import annotations

import re
from functools import lru_cache

from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class VppDropRule:
    """Counters that are drops.

    Attributes:
        source: file of VPP's source tree that shows it.
        nodes: of names of nodes, as a whole.
        names: of counters.
    """

    source: str
    nodes: re.Pattern[str]
    names: frozenset[str]


def _rule(source: str, nodes: str, *names: str, words: str = "") -> VppDropRule:
    """`words`: more names, without blanks."""
    return VppDropRule(source, re.compile(nodes), frozenset((*names, *words.split())))


_REASSEMBLY = (
    "(?:(?:local-)?full-reassembly(?:-feature|-custom|-expire-walk)?|sv-reassembly(?:-[a-z-]+)?)"
)
VPP_DROP_RULES: tuple[VppDropRule, ...] = (
    # Until 21.01 names are what the API files of later releases have as description.
    _rule(
        "src/vnet/ip/ip.api",
        f"ip4-(?:input(?:-no-checksum)?|local|mpls-label-disposition-[a-z]+|{_REASSEMBLY})",
        "ip4 length < 20 bytes", "ip4 length > l2 length", "bad ip4 checksum", "ip4 version != 4",
        "ip4 fragment offset == 1", "ip4 ttl <= 1", "ip4 MTU exceeded and DF set",
        "ip4 destination lookup miss", "ip4 source lookup miss", "ip4 drop",
        "ip4 spoofed local-address packet drops", "input ACL table-miss drops",
        "input ACL session deny drops", "output ACL table-miss drops",
        "output ACL session deny drops", "Multicast RPF check failed",
        words="too_short bad_length bad_checksum version fragment_offset_one time_expired "
        "hdr_too_short mtu_exceeded dst_lookup_miss src_lookup_miss drop same_interface "
        "tcp_checksum udp_checksum udp_length spoofed_local_packets inacl_table_miss "
        "inacl_session_deny outacl_table_miss outacl_session_deny rpf_failure "
        "reass_duplicate_fragment reass_limit_reached reass_fragment_chain_too_long reass_no_buf "
        "reass_malformed_packet reass_internal_error reass_unsupp_ip_prot",
    ),
    _rule(
        "src/vnet/ip/ip.api",
        f"ip6-(?:input|local|mpls-label-disposition-[a-z]+|{_REASSEMBLY})",
        "ip6 length < 40 bytes", "ip6 length > l2 length", "ip6 version != 6", "ip6 ttl <= 1",
        "ip6 MTU exceeded", "ip6 destination lookup miss", "ip6 source lookup miss", "ip6 drop",
        "ip6 spoofed local-address packet drops", "input ACL table-miss drops",
        "input ACL session deny drops", "output ACL table-miss drops",
        "output ACL session deny drops", "Multicast RPF check failed",
        words="too_short bad_length version time_expired mtu_exceeded dst_lookup_miss "
        "src_lookup_miss drop udp_checksum icmp_checksum udp_length spoofed_local_packets "
        "inacl_table_miss inacl_session_deny outacl_table_miss outacl_session_deny rpf_failure "
        "reass_missing_upper reass_duplicate_fragment reass_overlapping_fragment "
        "reass_limit_reached reass_fragment_chain_too_long reass_no_buf reass_internal_error "
        "reass_invalid_frag_len reass_no_frag_hdr reass_invalid_frag_size reass_unsupp_ip_proto",
    ),
    _rule(
        "src/vnet/ip/ip.api",
        "(?:ip4|ip6|mpls)-frag|ip[46]-pmtu-dpo",
        words="cant_fragment_header dont_fragment_set malformed memory unknown",
    ),
    _rule("src/vnet/ip/ip.api", "ip[46]-icmp-error", "error message dropped", "drop"),
    _rule(
        "src/vnet/arp/arp.api",
        "arp-(?:input|disabled|reply|proxy)",
        words="disabled l2_type_not_ethernet l3_type_not_ip4 l3_src_address_not_local "
        "l3_dst_address_not_local l3_dst_address_unset l3_src_address_is_local "
        "opcode_not_request l2_address_mismatch gratuitous_arp interface_no_table "
        "interface_not_ip_enabled unnumbered_mismatch",
    ),
    # Every packet of these nodes goes to ip4-drop or ip6-drop while the neighbor is not known;
    # requests are packets of their own (ip4_neighbor.c, ip6_neighbor.c).
    _rule(
        "src/vnet/ip-neighbor/ip4_neighbor.c",
        "ip4-(?:arp|glean)",
        words="throttled resolved no_buffers request_sent non_arp_adj no_source_address",
    ),
    _rule(
        "src/vnet/ip-neighbor/ip6_neighbor.c",
        "ip6-(?:glean|discover-neighbor)",
        words="throttled drop request_sent no_source_address no_buffers",
    ),
    _rule(
        "src/vnet/mpls/mpls.api",
        "mpls-(?:input|lookup|output|midchain|adj-incomplete)",
        words="unknown_protocol unsupported_version no_label ttl_expired s_not_set bad_label "
        "not_ip4 disallowed_fib not_enabled drop",
    ),
    _rule(
        "src/vnet/ipsec/ipsec.api",
        "esp(?:4|6|-mpls)-encrypt(?:-tun)?(?:-post)?",
        words="seq_cycled crypto_engine_error crypto_queue_full no_buffers no_protection "
        "no_encryption no_avail_frame",
    ),
    _rule(
        "src/vnet/ipsec/ipsec.api",
        "esp[46]-decrypt(?:-tun)?(?:-post)?",
        words="decryption_failed integ_error crypto_engine_error replay runt no_buffers "
        "oversized_header no_tail_space tun_no_proto unsup_payload no_avail_frame",
    ),
    _rule(
        "src/vnet/ipsec/ipsec.api",
        "ah[46]-(?:en|de)crypt",
        words="crypto_engine_error seq_cycled decryption_failed integ_error no_tail_space "
        "drop_fragments replay",
    ),
    _rule("src/vnet/ipsec/ipsec.api", "ipsec[46]-tun-input", words="disabled too_short"),
    _rule(
        "src/plugins/map/map.api",
        "ip[46]-map(?:-[a-z0-9-]+)?",
        words="bad_protocol sec_check encap_sec_check decap_sec_check icmp icmp_relay unknown "
        "no_binding no_domain fragmented fragment_memory fragment_malformed fragment_dropped "
        "malformed df_set time_exceeded",
    ),
    _rule(
        "src/plugins/acl/dataplane_node.c",
        "acl-plugin-(?:in|out)-ip[46]-(?:l2|fa)",
        "ACL deny packets",
    ),
    _rule(
        "src/vnet/ethernet/error.def",
        "ethernet-input(?:-type|-not-l2)?",
        "llc length > packet length", "unknown vlan", "l3 mac mismatch", "subinterface down",
    ),
    _rule("src/vnet/l2/l2_fwd.c", "l2-fwd", "Filter Mac Drop", "Reflection Drop"),
    _rule("src/vnet/handoff.c", ".+-(?:handoff|hoff)", "congestion drop"),
    _rule("src/vlib/node.c", "null-node", "blackholed packets"),
    _rule(
        "src/vnet/interface.c",
        ".+-output",
        "interface is down", "interface is deleted", "no tx queue available",
        "no buffers to segment GSO",
    ),
    # Drivers: src/plugins/dpdk/device/device.c, src/vnet/devices/virtio/device.c,
    # src/plugins/memif/device.c.
    _rule(
        "src/plugins/dpdk/device/device.c",
        ".+-tx",
        "Tx packet drops (dpdk tx failure)", "no free tx slots", "no_free_slots",
        "indirect descriptor allocation failed - packet drop",
        "gso disabled on itf  -- gso packet drop",
        "checksum offload disabled on itf -- csum offload packet drop",
    ),
)  # fmt: skip


@lru_cache(maxsize=1 << 14)
def counts_vpp_drops(node: str, name: str) -> bool:
    """Whether this counter counts packets that VPP dropped."""
    return any(name in rule.names and rule.nodes.fullmatch(node) for rule in VPP_DROP_RULES)
