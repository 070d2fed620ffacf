"""Deeper nodes of the top-down tree, counted for the selected core only."""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.tma import ORIGIN


def _node(name: str, label: str, meaning: str) -> Metric:
    return Metric(
        id=f"tma.{name}",
        label=label,
        unit=Unit.RATIO,
        scope="core",
        meaning=f"{meaning} Of the whole physical core.",
        formula=f"{name} of the CPU's table, each event by the cycles of its own counter group",
        origin=ORIGIN,
    )


# Levels 3 and 4 of the P-cores, in cycles unless stated otherwise; levels 2 and 3 of the E-cores,
# in slots, as far as their names are their own. Shares of cycles overlap.
NODE_METRICS: tuple[Metric, ...] = (
    _node(
        "l1_bound",
        "L1",
        "Share of cycles stalled on loads although the first-level cache had the data: its "
        "latency, forwarded stores, page walks.",
    ),
    _node("l2_bound", "L2", "Share of cycles stalled on loads that the second-level cache served."),
    _node(
        "l3_bound",
        "L3",
        "Share of cycles stalled on loads that the last-level cache or another core of the "
        "package served.",
    ),
    _node(
        "dram_bound",
        "DRAM",
        "Share of cycles stalled on loads that memory or another package served.",
    ),
    _node(
        "cxl_mem_bound",
        "PMEM",
        "Share of cycles stalled on loads that persistent memory served; nothing without any.",
    ),
    _node(
        "store_bound",
        "STORE",
        "Share of cycles stalled because stores waited: the store buffer was full.",
    ),
    _node("divider", "DIV", "Share of cycles in which the divider was busy."),
    _node(
        "serializing_operation",
        "SERIALOP",
        "Share of cycles in which instructions that wait for all before them held up the others: "
        "fences, CPUID, PAUSE.",
    ),
    _node(
        "ports_utilization",
        "PORTS",
        "Share of cycles in which few execution units had work: instructions that wait for each "
        "other's results, or want the same unit.",
    ),
    _node(
        "microcode_sequencer",
        "MS",
        "Useful slots of instructions that are carried out in microcode.",
    ),
    _node(
        "few_uops_instructions",
        "FEWUOPS",
        "Useful slots of instructions that take a few micro-operations, no microcode.",
    ),
    _node(
        "branch_resteers",
        "RESTEER",
        "Share of cycles in which fetch restarted at another address: after mispredicted branches, "
        "machine clears, and branches found only by the decoders.",
    ),
    _node(
        "ms_switches",
        "MS.sw",
        "Share of cycles lost to switches to the microcode sequencer; an estimate with a fixed "
        "cost per switch.",
    ),
    _node(
        "lcp",
        "LCP",
        "Share of cycles in which length-changing prefixes stalled the decoders.",
    ),
    _node(
        "dsb_switches",
        "DSB.sw",
        "Share of cycles lost to switches from the micro-operation cache (DSB) to the decoders.",
    ),
    _node(
        "code_l2_hit",
        "IC.l2",
        "Share of cycles of icache_misses that the second-level cache served.",
    ),
    _node(
        "code_l2_miss",
        "IC.far",
        "Share of cycles in which a read of code was outstanding beyond the second-level cache.",
    ),
    _node(
        "code_stlb_hit",
        "ITLB.l2",
        "Share of cycles of itlb_misses that the second-level TLB served.",
    ),
    _node(
        "code_stlb_miss",
        "ITLB.wk",
        "Share of cycles in which a page walk for instructions was active.",
    ),
    _node(
        "mispredicts_resteers",
        "RST.misp",
        "Share of cycles in which fetch restarted after mispredicted branches.",
    ),
    _node(
        "clears_resteers",
        "RST.clr",
        "Share of cycles in which fetch restarted after machine clears.",
    ),
    _node(
        "unknown_branches",
        "BR.new",
        "Share of cycles lost to branches that the branch predictor did not know: many branches, "
        "or code seen for the first time.",
    ),
    _node(
        "mite",
        "MITE",
        "Slots that stayed empty in cycles in which the legacy decoders delivered too little; an "
        "estimate.",
    ),
    _node(
        "dsb",
        "DSB",
        "Slots that stayed empty in cycles in which the micro-operation cache delivered too "
        "little; an estimate.",
    ),
    _node(
        "dtlb_load",
        "DTLB.ld",
        "Share of cycles spent on address translations of loads that the first-level TLB lacked: "
        "data on many small pages.",
    ),
    _node(
        "store_fwd_blk",
        "FWD.blk",
        "Share of cycles in which loads waited for an earlier store that could not be forwarded; "
        "an estimate.",
    ),
    _node(
        "fb_full",
        "FB.full",
        "Share of cycles in which loads waited for a fill buffer of the first-level cache: more "
        "misses at a time than it can track.",
    ),
    _node(
        "sq_full",
        "SQ.full",
        "Share of cycles in which the queue of requests beyond the second-level cache was full.",
    ),
    _node(
        "mem_bandwidth",
        "MEM.bw",
        "Share of cycles with so many reads outstanding that the bandwidth of memory is likely "
        "the limit.",
    ),
    _node(
        "mem_latency",
        "MEM.lat",
        "Share of cycles with few reads outstanding: their latency is the limit.",
    ),
    _node(
        "dtlb_store",
        "DTLB.st",
        "Share of cycles spent on address translations of stores that the first-level TLB lacked.",
    ),
    _node(
        "ports_utilized_0",
        "PORT0",
        "Share of cycles in which no execution port had work, for reasons other than loads.",
    ),
    _node("ports_utilized_1", "PORT1", "Share of cycles in which one execution port had work."),
    _node("ports_utilized_2", "PORT2", "Share of cycles in which two execution ports had work."),
    _node(
        "ports_utilized_3m",
        "PORT3+",
        "Share of cycles in which three or more execution ports had work.",
    ),
    _node(
        "l1_latency_dependency",
        "L1.dep",
        "Share of cycles in which loads that depend on one another waited for the first-"
        "level cache; an estimate with a fixed latency.",
    ),
    _node(
        "lock_latency",
        "LOCK",
        "Share of cycles spent on locked instructions: counters, rings and locks shared "
        "between threads.",
    ),
    _node(
        "split_loads",
        "SPLIT.ld",
        "Share of cycles spent on loads that cross the border of a cache line; an estimate.",
    ),
    _node(
        "4k_aliasing",
        "ALIAS.4k",
        "Share of cycles in which loads waited for an earlier store whose address differs "
        "only above its lower 12 bits; an estimate.",
    ),
    _node(
        "l2_hit_latency",
        "L2.lat",
        "Share of cycles that loads waited for the second-level cache; an estimate with a "
        "fixed latency.",
    ),
    _node(
        "contested_accesses",
        "L3.cont",
        "Share of cycles that loads waited for lines that other cores of the package had "
        "modified or were asked for in vain; an estimate with fixed latencies.",
    ),
    _node(
        "data_sharing",
        "L3.share",
        "Share of cycles that loads waited for unmodified lines that other cores of the "
        "package have too; an estimate with a fixed latency.",
    ),
    _node(
        "l3_hit_latency",
        "L3.lat",
        "Share of cycles that loads waited for the last-level cache with no other core "
        "involved; an estimate with a fixed latency.",
    ),
    _node(
        "store_latency",
        "ST.lat",
        "Share of cycles spent on stores that missed the first-level cache; an estimate.",
    ),
    _node(
        "false_sharing",
        "ST.false",
        "Share of cycles that stores waited for lines that other cores had modified: "
        "threads that write different data of one line; an estimate with fixed latencies.",
    ),
    _node(
        "split_stores",
        "SPLIT.st",
        "Share of cycles spent on stores that cross the border of a cache line.",
    ),
    _node(
        "streaming_stores",
        "ST.strm",
        "Share of cycles spent on stores past the caches; an estimate with a fixed cost.",
    ),
    _node(
        "fp_divider",
        "DIV.fp",
        "Share of cycles in which the divider worked on floating-point numbers.",
    ),
    _node(
        "int_divider",
        "DIV.int",
        "Share of cycles in which the divider worked on integers.",
    ),
    _node(
        "slow_pause",
        "PAUSE",
        "Share of cycles spent on PAUSE, as in loops that wait for a lock.",
    ),
    _node(
        "c01_wait",
        "WAIT.c01",
        "Share of cycles in the light sleep C0.1, by UMWAIT or TPAUSE.",
    ),
    _node(
        "c02_wait",
        "WAIT.c02",
        "Share of cycles in the deeper sleep C0.2, by UMWAIT or TPAUSE.",
    ),
    _node(
        "memory_fence",
        "FENCE",
        "Share of cycles spent on LFENCE; an estimate with a fixed cost.",
    ),
    _node(
        "amx_busy",
        "AMX",
        "Share of cycles in which the unit for matrices (AMX) worked.",
    ),
    _node(
        "ms",
        "MS.slots",
        "Slots that stayed empty while the microcode sequencer delivered; an estimate.",
    ),
    _node(
        "decoder0_alone",
        "DEC0",
        "Slots that stayed empty because only the first decoder worked; an estimate.",
    ),
    _node(
        "mite_4wide",
        "MITE.4",
        "Share of cycles in which the legacy decoders delivered four micro-operations of five.",
    ),
    _node(
        "other_mispredicts",
        "MISP.oth",
        "Slots lost to mispredicted branches that never retired.",
    ),
    _node(
        "cond_nt_mispredicts",
        "MISP.nt",
        "Slots lost to conditional branches that were not taken; by their share of the "
        "mispredicted.",
    ),
    _node(
        "cond_tk_mispredicts",
        "MISP.tk",
        "Slots lost to conditional branches that were taken; by their share of the mispredicted.",
    ),
    _node(
        "ind_call_mispredicts",
        "MISP.ic",
        "Slots lost to indirect calls; by their share of the mispredicted branches.",
    ),
    _node(
        "ind_jump_mispredicts",
        "MISP.ij",
        "Slots lost to indirect jumps; by their share of the mispredicted branches.",
    ),
    _node(
        "ret_mispredicts",
        "MISP.ret",
        "Slots lost to returns; by their share of the mispredicted branches.",
    ),
    _node(
        "other_nukes",
        "NUKE.oth",
        "Slots lost to machine clears for reasons other than memory ordering.",
    ),
    _node(
        "assists",
        "ASSIST",
        "Useful slots of microcode that handles rare cases, as denormal numbers or page "
        "faults; an estimate with a fixed cost.",
    ),
    _node(
        "fp_arith",
        "FP",
        "Share of the useful micro-operations that compute with floating-point numbers.",
    ),
    _node(
        "x87_use",
        "FP.x87",
        "Share of the useful micro-operations that are x87 instructions.",
    ),
    _node(
        "fp_scalar",
        "FP.scal",
        "Share of the useful micro-operations that compute with one floating-point number.",
    ),
    _node(
        "fp_vector",
        "FP.vec",
        "Share of the useful micro-operations that compute with vectors of floating-point numbers.",
    ),
    _node(
        "int_operations",
        "INT.vec",
        "Share of the useful micro-operations that compute with vectors of integers.",
    ),
    _node(
        "int_vector_128b",
        "INT.128",
        "Share of the useful micro-operations that compute with 128-bit vectors of integers.",
    ),
    _node(
        "int_vector_256b",
        "INT.256",
        "Share of the useful micro-operations that compute with 256-bit vectors of integers.",
    ),
    _node(
        "memory_operations",
        "MEM.ops",
        "Useful slots of loads and stores; an estimate by instructions.",
    ),
    _node(
        "fused_instructions",
        "FUSED",
        "Useful slots of instructions fused with the branch that follows; an estimate.",
    ),
    _node(
        "non_fused_branches",
        "BR.alone",
        "Useful slots of branches that are not fused; an estimate.",
    ),
    _node(
        "branch_instructions",
        "BR.inst",
        "Useful slots of branches; an estimate.",
    ),
    _node(
        "other_light_ops",
        "LIGHT.ot",
        "Useful slots of light operations that no other node names.",
    ),
    _node(
        "nop_instructions",
        "NOP",
        "Useful slots of instructions that do nothing; an estimate.",
    ),
    _node(
        "shuffles_256b",
        "SHUF.256",
        "Useful slots of shuffles of 256-bit vectors; an estimate.",
    ),
    _node("ifetch_latency", "IF.lat", "Empty slots because the next instructions were late."),
    _node("ifetch_bandwidth", "IF.bw", "Empty slots because too few instructions came at a time."),
    _node(
        "resource_bound",
        "RES",
        "Empty slots because the core's queues, registers or buffers were full.",
    ),
    _node(
        "icache_misses",
        "ICACHE",
        "Share of cycles, on E-cores of slots, in which the front end waited for instructions that "
        "the first-level instruction cache lacked: code larger than the cache.",
    ),
    _node(
        "itlb_misses",
        "ITLB",
        "Share of cycles, on E-cores of slots, in which the front end waited for the address "
        "translation of instructions (ITLB): code on many small pages.",
    ),
    _node(
        "branch_detect",
        "BR.det",
        "Empty slots because a taken branch was noticed only when it was decoded.",
    ),
    _node(
        "branch_resteer",
        "BR.ster",
        "Empty slots because the target of a branch was foretold late and fetched anew.",
    ),
    _node(
        "cisc",
        "CISC",
        "Useful slots of instructions made of microcode, without assists; on E-cores empty slots "
        "while microcode was fetched for an instruction.",
    ),
    _node("decode", "DECODE", "Empty slots because the decoders were too slow."),
    _node(
        "predecode",
        "PREDEC",
        "Empty slots because the lengths of instructions were found out too slowly.",
    ),
    _node("other_fb", "FE.oth", "Empty slots for other reasons of the front end."),
    _node(
        "nuke",
        "NUKE",
        "Slots lost to machine clears that restart in microcode: memory ordering, page faults, "
        "self-modified code.",
    ),
    _node(
        "fast_nuke",
        "FNUKE",
        "Slots lost to machine clears that the core settles without microcode.",
    ),
    _node(
        "allocation_restriction",
        "ALLOC",
        "Empty slots because of what may be taken in beside each other in a cycle.",
    ),
    _node(
        "mem_scheduler",
        "SCH.mem",
        "Empty slots because the queues of loads and stores were full.",
    ),
    _node(
        "non_mem_scheduler",
        "SCH.alu",
        "Empty slots because the queues of arithmetic were full.",
    ),
    _node("register", "REG", "Empty slots because no physical register was free."),
    _node(
        "reorder_buffer",
        "ROB",
        "Empty slots because too many instructions waited to retire: most often for memory.",
    ),
    _node(
        "serialization",
        "SERIAL",
        "Empty slots because an instruction waited for all before it: fences, CPUID, PAUSE.",
    ),
)
