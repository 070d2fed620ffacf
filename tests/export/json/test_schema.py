"""docs/schema/nftop.frame-1.json: the JSON Schema of a frame, which every frame keeps.

`python -m tests.export.json.test_schema` writes it: structure and types of frames of the demo's
scenarios, and of metrics unit and meaning from the catalogue. Consumers ignore what they do not
know; the tests do not: a field that is new, gone or of another type is a change of this file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nftop.export.json.frame import frame_json
from nftop.model.frame import SCHEMA
from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import METRICS
from nftop.model.metrics.metric import Metric
from nftop.model.missing import Reason
from nftop.sources.base import Focusing
from tests import frames
from tests.house import ROOT
from tests.sim.hosts import Frozen, S
from tests.story import Story

PAGE = ROOT / "docs/schema/nftop.frame-1.json"
TYPES = {
    bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null",
    dict: "object", list: "array",
}  # fmt: skip
# Objects whose names are data: sources, metric ids, numbers of boxes and caches.
MAPS = frozenset({"missing", "origins", "sources", "by_source", "sampled_s"})
NUMBERS = ("number", "integer")
NULLABLE = frozenset({"culprit"})
# Tables whose rows have the metrics of a scope.
SCOPES = {"cpus": "cpu", "nfs": "nf", "packages": "package"}
REASONS = {"enum": sorted(reason.key for reason in Reason if reason is not Reason.PRESENT)}


@dataclass
class Seen:
    """What was seen at one path of the frames."""

    count: int = 0
    types: set[str] = field(default_factory=set)
    fields: dict[str, Seen] = field(default_factory=dict)
    items: Seen | None = None

    def add(self, value: Any) -> None:
        self.count += 1
        self.types.add(TYPES[type(value)])
        if isinstance(value, dict):
            for name, inner in value.items():
                self.fields.setdefault(name, Seen()).add(inner)
        elif isinstance(value, list):
            self.items = self.items or Seen()
            for inner in value:
                self.items.add(inner)

    def join(self, other: Seen) -> Seen:
        """Both together, for values of a map."""
        result = Seen(self.count + other.count, self.types | other.types)
        for name in self.fields.keys() | other.fields.keys():
            inner = [item.fields[name] for item in (self, other) if name in item.fields]
            result.fields[name] = inner[0] if len(inner) == 1 else inner[0].join(inner[1])
        items = [item.items for item in (self, other) if item.items is not None]
        result.items = (
            None if not items else items[0] if len(items) == 1 else items[0].join(items[1])
        )
        return result


def demo_frames() -> Iterator[bytes]:
    """Frames of several scenarios, with a core in focus."""
    for scenario in ("default", "noisy", "upcalls", "sst-bf", "slow"):
        host = Frozen(scenario)
        for source in host.simulated.sources:
            if isinstance(source, Focusing):
                source.focus(Cpu(1))
        host.tick(0)
        for _ in range(3):
            yield frame_json(host.tick(S))
        host.tick(60 * S)
        for _ in range(8):
            yield frame_json(host.tick(S))


@cache
def frame_schema() -> dict[str, Any]:
    """The schema."""
    root = Seen()
    for text in demo_frames():
        root.add(json.loads(text))
    for make in (frames.all_missing, frames.hostile):
        root.add(json.loads(frame_json(make())))
    for frame in Story(changed_at=3).frames(5):
        root.add(json.loads(frame_json(frame)))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "nftop.frame-1.json",
        "title": f"{SCHEMA}: a frame of nftop",
        "description": "One line of `nftop --json`. An absent number is null, its reason is in "
        "`missing` of the same object. Ratios are 0 to 1. Fields may be added.",
        **_schema(root, ()),
    }


def _schema(seen: Seen, path: tuple[str, ...]) -> dict[str, Any]:
    if path == ("schema",):
        return {"const": SCHEMA}
    metric = _metric(path)
    if metric is not None and "object" not in seen.types:
        unit = metric.unit.value
        return {"type": ["number", "null"], "description": f"{metric.meaning} Unit: {unit}."}
    if path[-1:] == ("missing",):
        return {"type": "object", "additionalProperties": REASONS}
    if seen.types == {"null"}:
        return {"description": "null where it is unknown"}
    types = sorted(seen.types - ({"integer"} if "number" in seen.types else set()))
    result: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if "object" in seen.types:
        result |= _object(seen, path)
    if seen.items is not None and seen.items.count:
        result["items"] = _schema(seen.items, (*path, "[]"))
    return result


def _object(seen: Seen, path: tuple[str, ...]) -> dict[str, Any]:
    is_numbered = bool(seen.fields) and all(name.isdigit() for name in seen.fields)
    if is_numbered or (path[-1:] and path[-1] in MAPS):
        values = list(seen.fields.values())
        joined = values[0] if values else Seen()
        for value in values[1:]:
            joined = joined.join(value)
        inner = _schema(joined, (*path, "*")) if values else {}
        return {"additionalProperties": inner}
    total = sum(1 for kind in seen.types if kind != "object")
    present = seen.count if not total else max(item.count for item in seen.fields.values())
    fields = {name: _schema(inner, (*path, name)) for name, inner in sorted(seen.fields.items())}
    for name, inner in fields.items():
        # Any number may be absent where reasons are kept, and so may these.
        if ("missing" in fields and inner.get("type") in NUMBERS) or name in NULLABLE:
            kinds = inner.get("type", [])
            several = [kinds] if isinstance(kinds, str) else kinds
            inner["type"] = sorted({*several, "null"})
    return {
        "properties": fields,
        "required": sorted(name for name, item in seen.fields.items() if item.count == present),
    }


def _metric(path: tuple[str, ...]) -> Metric | None:
    """Metric of the catalogue at a path, `cpus [] tma retiring`."""
    if len(path) < 3 or path[0] not in SCOPES or path[1] != "[]":
        return None
    wanted = SCOPES[path[0]], ".".join(path[2:])
    return next((metric for metric in METRICS if (metric.scope, metric.id) == wanted), None)


def closed(schema: Any) -> Any:
    """The schema without any field that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    result = {name: closed(inner) for name, inner in schema.items()}
    if "properties" in result and isinstance(schema["properties"], Mapping) and "type" in result:
        result.setdefault("additionalProperties", False)
    return result


def written() -> str:
    return json.dumps(frame_schema(), indent=1, ensure_ascii=False) + "\n"


def test_the_file_is_of_the_frames() -> None:
    assert PAGE.read_text() == written(), "python -m tests.export.json.test_schema writes it"


def test_it_is_a_schema_and_has_every_metric() -> None:
    schema = json.loads(PAGE.read_text())
    Draft202012Validator.check_schema(schema)
    rows = {name: schema["properties"][name]["items"] for name in SCOPES}
    for metric in METRICS:
        for name, scope in SCOPES.items():
            if metric.scope == scope:
                node = rows[name]
                for word in metric.id.split("."):
                    node = node["properties"][word]
                assert node["type"] == ["number", "null"], metric.id


@pytest.mark.parametrize("scenario", ["shared", "collapse", "ddio", "apart", "idle", "healthy"])
def test_frames_of_other_scenarios_keep_it(scenario: str) -> None:
    check = Draft202012Validator(closed(json.loads(PAGE.read_text())))
    host = Frozen(scenario)
    host.tick(0)
    host.tick(20 * S)
    for _ in range(8):
        frame = json.loads(frame_json(host.tick(S)))
        assert not [error.message for error in check.iter_errors(frame)]


def test_another_type_a_new_field_and_a_missing_one_break_it() -> None:
    check = Draft202012Validator(closed(json.loads(PAGE.read_text())))
    frame = json.loads(next(demo_frames()))
    assert check.is_valid(frame)
    for wrong in (
        frame | {"time": 1},
        frame | {"new": 1},
        {name: value for name, value in frame.items() if name != "nfs"},
        frame | {"cpus": [frame["cpus"][0] | {"cpp": "210"}]},
        frame | {"nfs": [frame["nfs"][0] | {"missing": {"cpp": "because"}}]},
    ):
        assert not check.is_valid(wrong)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(written())
