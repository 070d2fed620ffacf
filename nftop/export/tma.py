"""Top-down of counts taken elsewhere as one JSON object, schema `nftop.tma/1`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nftop.model.missing import Missing, Reading

SCHEMA = "nftop.tma/1"


def tma_json(
    uarch: str,
    ratios: Mapping[str, Reading],
    *,
    smt: bool,
    notes: Sequence[str],
    ignored: Sequence[str],
) -> str:
    """`uarch`, `smt` (bool), `metrics`: ratios 0..1 by node, null if absent.

    `missing`: reason key of each absent one, `details`: the reason in a sentence, `notes`: on how
    the counts were combined, `ignored`: events of the file that the table does not have.
    """
    absent = {name: ratio for name, ratio in ratios.items() if isinstance(ratio, Missing)}
    return msgspec.json.encode(
        {
            "schema": SCHEMA,
            "uarch": uarch,
            "smt": smt,
            "metrics": {
                name: None if isinstance(ratio, Missing) else ratio
                for name, ratio in ratios.items()
            },
            "missing": {name: item.reason.key for name, item in absent.items()},
            "details": {name: item.message for name, item in absent.items()},
            "notes": list(notes),
            "ignored": list(ignored),
        }
    ).decode()
