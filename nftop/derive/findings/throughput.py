"""Rules of findings about an NF's throughput, compared with its own last minutes."""

from __future__ import annotations

import math

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.rule import FindingKey, Measured, Only, Rule, register
from nftop.derive.nf.recent import FORGET_AFTER_S, LEAST_PACKETS_PER_S, USUAL_S, RecentRates
from nftop.model.column import Column, from_readings
from nftop.model.missing import Missing, Reading, Reason, quotient

_SOURCE_TEXT = f"nftop's comparison of the NF with its own median of the last {USUAL_S:.0f} s"
_UNKNOWN = RecentRates()
_SOURCE = Missing(Reason.SOURCE)


def _ratios(inputs: FindingInputs) -> tuple[Column, Column, Column]:
    """Of each NF, throughput and arriving packets by the usual ones, and the usual throughput."""
    columns: tuple[dict[int, Reading], ...] = ({}, {}, {})
    for row, nf in enumerate(inputs.frame.nfs):
        recent = inputs.recent.get(nf.key, _UNKNOWN)
        now = recent.now
        columns[0][row] = quotient(_reading(None if now is None else now.throughput), recent.usual)
        columns[1][row] = quotient(
            _reading(None if now is None else now.arriving), recent.usual_arriving
        )
        columns[2][row] = recent.usual
    count = len(inputs.frame.nfs)
    sent, arriving, usual = (from_readings(column, count, _SOURCE) for column in columns)
    return sent, arriving, usual


def _reading(value: float | None) -> Reading:
    return _SOURCE if value is None or math.isnan(value) else value


def _of_nfs(inputs: FindingInputs, values: Column, **context: Column) -> Measured:
    nfs = inputs.frame.nfs
    keys = [FindingKey(f"nf {nf.name}", nf.key) for nf in nfs]
    return Measured(keys, values, context, {"nf": [nf.name for nf in nfs]})


def collapsed(inputs: FindingInputs) -> Measured:
    """Throughput of each NF by its usual one, while its usual packets arrive."""
    sent, arriving, usual = _ratios(inputs)
    usual_mpps = Column(usual.values / 1e6, usual.reasons)
    return _of_nfs(inputs, sent, arriving=arriving, usual=usual, usual_mpps=usual_mpps)


def stopped(inputs: FindingInputs) -> Measured:
    """Arriving packets of each NF by its usual ones."""
    _, arriving, usual = _ratios(inputs)
    usual_mpps = Column(usual.values / 1e6, usual.reasons)
    return _of_nfs(inputs, arriving, usual=usual, usual_mpps=usual_mpps)


_LOADED = Only(
    "usual", LEAST_PACKETS_PER_S, f"its usual throughput is {LEAST_PACKETS_PER_S:,.0f} packets/s"
)


_METRICS = ("tx_packets_per_s", "rx_packets_per_s", "drop_packets_per_s")

register(
    Rule(
        id="throughput-collapse",
        rank=15,
        title="throughput collapsed",
        metrics=_METRICS,
        scope="nf",
        measure=collapsed,
        limit=0.5,
        clear=0.7,
        text="forwards {value} of its usual {usual_mpps:.2f} Mpps, below {limit}; packets still "
        "arrive",
        source=_SOURCE_TEXT,
        beyond="below",
        own="less than half is no fluctuation of a load that keeps arriving",
        only=(
            _LOADED,
            Only("arriving", 0.5, "half of its usual packets or more still arrive, drops included"),
        ),
        at_least_s=3.0,
        note=f"The usual throughput is kept for up to {FORGET_AFTER_S / 60:.0f} minutes of a "
        "collapse. If fewer packets arrive it is traffic-stopped.",
    )
)

register(
    Rule(
        id="traffic-stopped",
        rank=185,
        title="packets stopped arriving",
        metrics=_METRICS,
        scope="nf",
        measure=stopped,
        limit=0.1,
        clear=0.2,
        beyond="below",
        text="{value} of its usual packets arrive, below {limit}; it forwarded {usual_mpps:.2f} "
        "Mpps",
        source=_SOURCE_TEXT,
        own="a tenth: the traffic was stopped or goes elsewhere",
        only=(_LOADED,),
        at_least_s=3.0,
        note="Whether somebody stopped it on purpose is not known: check the sender and the link. "
        "Of an NF that does not count drops only received packets are known.",
        is_note=True,
    )
)
