"""Which of VPP's error counters count packets that it dropped.

VPP calls every counter of a graph node an error: packets received, replies sent, drops. Its stats
segment has no severity and no disposition, so a counter is a drop only by a rule of
`vpp_drops.toml`, by what VPP's API files and source say of it:

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
import tomllib
from functools import cache, lru_cache

from nftop.model.data_files import data_file
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


@cache
def vpp_drop_rules() -> tuple[VppDropRule, ...]:
    text = data_file(__package__, "vpp_drops.toml").decode()
    return tuple(
        VppDropRule(rule["source"], re.compile(rule["nodes"]), frozenset(rule["names"]))
        for rule in tomllib.loads(text)["rules"]
    )


@lru_cache(maxsize=1 << 14)
def counts_vpp_drops(node: str, name: str) -> bool:
    """Whether this counter counts packets that VPP dropped."""
    return any(name in rule.names and rule.nodes.fullmatch(node) for rule in vpp_drop_rules())
