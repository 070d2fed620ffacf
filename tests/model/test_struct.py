"""Classes made by msgspec keep the interface of dataclasses."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from abc import ABC

import pytest

from nftop.model.struct import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Base:
    a: int
    b: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Derived(Base):
    c: int = 3


@dataclass
class Changeable:
    other: object


@dataclass(frozen=True)
class Abstract(ABC):  # noqa: B024 - what matters is its metaclass
    a: int = field()


def test_a_derived_class_has_the_fields_of_both_in_whatever_order_they_are_requested() -> None:
    assert [item.name for item in dataclasses.fields(Base)] == ["a", "b"]
    assert [item.name for item in dataclasses.fields(Derived)] == ["a", "b", "c"]
    assert dataclasses.asdict(Derived(1)) == {"a": 1, "b": [], "c": 3}


def test_values_compare_hash_and_stay_as_they_are() -> None:
    assert Base(1) == Base(1) != Base(2) and replace(Base(1), a=2) == Base(2)
    assert Base(1).b is not Base(1).b
    with pytest.raises(AttributeError):
        Base(1).a = 2  # type: ignore[misc]


def test_the_garbage_collector_visits_only_instances_that_can_be_in_a_cycle() -> None:
    changeable = Changeable(None)
    changeable.other = changeable
    seen = weakref.ref(changeable)
    assert not gc.is_tracked(Base(1)) and gc.is_tracked(changeable)
    del changeable
    gc.collect()
    assert seen() is None


def test_a_required_field_of_a_class_with_a_metaclass_stays_required() -> None:
    assert Abstract(4).a == 4
    with pytest.raises(TypeError):
        Abstract()  # type: ignore[call-arg]
