"""Dataclasses that are cheap to define: the standard interface, implemented by msgspec.

The standard decorator compiles the source of several methods for every class, 0.7 ms each; a
msgspec Struct takes a thirtieth of that, and creating an instance a sixth. Type checkers see the
standard dataclasses, whose functions (`fields`, `replace`, `asdict`) accept these classes too.

Differences at run time: assignment to a frozen instance raises AttributeError, the base of
FrozenInstanceError, and `field` takes a default or its factory only. The class is created anew, so
its methods can't call `super()` without arguments. A class with a metaclass (an ABC) becomes a
standard dataclass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nftop.model.absent import without

__all__ = ["dataclass", "field", "field_names", "is_dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    # msgspec imports typing_extensions if it is installed, for types that nftop does not use; with
    # `inspect`, which that imports, it takes a tenth of a short command's time.
    try:
        with without("typing_extensions"):
            import msgspec
    except ImportError:  # a release that needs it
        import msgspec
    from msgspec import field
    from msgspec.structs import replace as replace_struct

    class _Fields:
        """`__dataclass_fields__` of a class, created on first use."""

        def __init__(self):
            self._known = {}  # by class, since a derived class has more fields than its base

        def __get__(self, instance, owner):
            if owner in self._known:
                return self._known[owner]
            dataclasses = _standard_library()
            names, defaults = owner.__struct_fields__, owner.__struct_defaults__
            rows = [(name, object) for name in names[: len(names) - len(defaults)]]
            for name, default in zip(names[len(rows) :], defaults, strict=True):
                row = (
                    dataclasses.field(default_factory=default.factory)
                    if isinstance(default, _FACTORY)
                    else dataclasses.field(default=default)
                )
                rows.append((name, object, row))
            standard = dataclasses.make_dataclass(owner.__name__, rows, init=False, eq=False)
            self._known[owner] = standard.__dataclass_fields__
            return self._known[owner]

    class _Struct(msgspec.Struct):
        __dataclass_fields__ = _Fields()

    class _Sample(msgspec.Struct):
        field: object = msgspec.field(default_factory=object)

    _META = type(_Struct)
    _FIELD = type(msgspec.field())
    _FACTORY = type(_Sample.__struct_defaults__[0])
    _OF_THE_BODY = frozenset({"__dict__", "__weakref__"})  # the Struct gets its own

    def dataclass(body=None, /, *, frozen=False, slots=False, eq=True):
        """As the standard decorator, with these options only."""
        if body is None:
            return lambda body: dataclass(body, frozen=frozen, slots=slots, eq=eq)
        if isinstance(body, _META):  # derived from a Struct: one already, with its base's options
            if (frozen, eq) != (body.__struct_config__.frozen, body.__struct_config__.eq):
                raise TypeError(f"{body.__qualname__} and its base differ in options")
            return body
        if type(body) is not type:
            return _standard(body, frozen=frozen, slots=slots, eq=eq)
        namespace = {k: value for k, value in body.__dict__.items() if k not in _OF_THE_BODY}
        bases = (*(base for base in body.__bases__ if base is not object), _Struct)
        options = {"frozen": frozen, "eq": eq, "dict": not slots, "weakref": not slots}
        # Frozen instances hold what was there before them, so they are in no cycle, and the garbage
        # collector, a tenth of a tick with 512 CPUs, does not have to visit them.
        options["gc"] = not (frozen and slots)
        return _META(body.__name__, bases, namespace, **options)

    def _standard(body, **options):
        dataclasses = _standard_library()
        for name, value in list(body.__dict__.items()):
            if isinstance(value, _FIELD):
                if value.default is not msgspec.NODEFAULT:
                    row = dataclasses.field(default=value.default)
                elif value.default_factory is not msgspec.NODEFAULT:
                    row = dataclasses.field(default_factory=value.default_factory)
                else:
                    row = dataclasses.field()
                setattr(body, name, row)
        return dataclasses.dataclass(**options)(body)

    def replace(instance, /, **changes):
        """As the standard function."""
        if isinstance(instance, _Struct):
            return replace_struct(instance, **changes)
        return _standard_library().replace(instance, **changes)


def is_dataclass(kind: Any) -> bool:
    """Whether it is a class with fields; the standard function makes an object of each field."""
    return isinstance(kind, type) and (
        hasattr(kind, "__struct_fields__") or hasattr(kind, "__dataclass_fields__")
    )


def field_names(kind: type) -> tuple[str, ...]:
    """Names of a class's fields in order.

    `dataclasses.fields` makes an object of each, which takes 0.4 ms a class. Raises
    TypeError for a class that is no dataclass.
    """
    names: tuple[str, ...] | None = getattr(kind, "__struct_fields__", None)
    return tuple(row.name for row in _standard_library().fields(kind)) if names is None else names


def _standard_library() -> Any:
    """The standard dataclasses: imported where used, since they import `inspect`."""
    import dataclasses  # noqa: PLC0415

    return dataclasses
