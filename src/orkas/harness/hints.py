"""Type hints of a tool's parameters: the JSON Schema that the model sees, and values of these types from its JSON.

What msgspec can read is left to it; for anything else ``Hints`` puts one of ``kinds`` in its place.
"""

from __future__ import annotations

import collections
import collections.abc
import copy
import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin

import msgspec

from orkas.harness import constraints, kinds
from orkas.harness.definitions import whole
from orkas.harness.kinds import Adapted, Choice, Flags, Made, Named, Record, kind
from orkas.harness.tool import ToolContext
from orkas.infra.messages import scrub

__all__ = ["Hints", "check", "default", "schema"]


def check(arguments: dict[str, Any], shape: type[msgspec.Struct]) -> Any:
    """The model's arguments as a typed value; numbers and booleans written as strings are accepted.

    Raises:
        ToolFailed: with one sentence that names the argument and what is wrong with it.
    """
    try:
        return kinds.convert(scrub(arguments), shape)
    except msgspec.ValidationError as error:
        from orkas.harness.misfit import misfit

        raise misfit(error, schema(shape)) from None


def schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON Schema of a struct of arguments: one plain object.

    Raises:
        TypeError: one of its types has none.
    """
    made = whole(shape)
    definitions = made.pop("$defs", {})
    if name := made.get("$ref", "").rpartition("/")[2]:
        made = dict(definitions.pop(name))
    made.pop("title", None)
    made.setdefault("properties", {})
    return {**made, "$defs": definitions} if definitions else made


_FAR = 2**63
"""The first whole number that not every reader of JSON takes."""


def default(value: Any) -> Any:
    """A default as a field of a struct takes it: what could be changed is made anew for each call, and what is no plain
    JSON is not shown to the model."""
    if isinstance(value, enum.Enum):
        plain = _is_plain(type(value))
    else:
        plain = value is None or isinstance(value, str) or (isinstance(value, int | float) and -_FAR < value < _FAR)
    if plain:
        return value
    if isinstance(value, list | dict | set | bytearray | collections.deque):
        return msgspec.field(default_factory=lambda: copy.deepcopy(value))
    return msgspec.field(default_factory=lambda: value)


def _is_plain(found: type[enum.Enum]) -> bool:
    """msgspec knows it as it is."""
    return not issubclass(found, enum.Flag) and {type(m.value) for m in found} in ({str}, {int})


_AS_LIST = frozenset({collections.abc.Iterable, collections.abc.Reversible})
_MADE: dict[Any, Any] = {
    collections.deque: list, collections.OrderedDict: dict, collections.Counter: dict,
    collections.defaultdict: dict, types.MappingProxyType: dict,
}  # fmt: skip
_CONTAINERS = frozenset({
    list, tuple, set, frozenset, dict, collections.abc.Collection, collections.abc.Sequence, collections.abc.Set,
    collections.abc.MutableSequence, collections.abc.MutableSet, collections.abc.Mapping,
    collections.abc.MutableMapping,
})  # fmt: skip
_WRAPPERS = frozenset({typing.Required, NotRequired, typing.Final})
_ATOMS = (str, bytes, int, float, bool, type(None))


class Hints:
    """Reads the hints of one function. ``names``: what its hints may name besides what stands in their modules."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._records: dict[Any, Any] = {}

    def readable(self, hint: Any) -> Any:
        """The type itself, or one in its place whose values are of this type.

        Raises:
            TypeError, ValueError: there is none; what else it holds that cannot be read is told by ``schema``.
        """
        hint = getattr(hint, "__value__", hint)  # ``type X = …``
        origin = get_origin(hint)
        if hasattr(hint, "__supertype__"):
            return self.readable(hint.__supertype__)
        if hint is object or hint is Any:
            return Any
        if isinstance(hint, typing.TypeVar):
            return self.readable(hint.__bound__ or Union[hint.__constraints__ or (Any,)])  # noqa: UP007 - of many
        if hint is typing.LiteralString:
            return str
        if origin is Annotated:
            return self._annotated(hint)
        if origin is Literal:
            return _literal(hint)
        if origin in (Union, types.UnionType):
            return self._union(hint)
        if origin in _WRAPPERS:
            return self.readable(get_args(hint)[0])
        if (origin or hint) in _AS_LIST:
            return self._container(types.GenericAlias(list, get_args(hint) or (Any,)), list)
        if (origin or hint) in _MADE:
            return self._made(hint, origin or hint)
        if origin in _CONTAINERS:
            return self._container(hint, origin)
        return self._class(hint)

    def _container(self, hint: Any, origin: Any) -> Any:
        given = get_args(hint)
        inner = tuple(one if one is ... else self.readable(one) for one in given)
        named = issubclass(origin, collections.abc.Mapping)
        if named and kinds.components(inner[0]).get("type") in ("array", "object"):
            raise TypeError(f"a name in JSON is text, which {_name(given[0])} is not")
        return hint if all(a is b for a, b in zip(given, inner, strict=True)) else origin[inner]

    def _made(self, hint: Any, origin: Any) -> Any:
        given = get_args(hint)
        if origin is collections.Counter and given:
            given = (*given, int)
        of = _MADE[origin]
        shape: Any = types.GenericAlias(of, given) if given else of
        make = (lambda pairs: collections.defaultdict(None, pairs)) if origin is collections.defaultdict else origin
        return kind(Made, origin.__name__, of=self.readable(shape), make=make)

    def _union(self, hint: Any) -> Any:
        options = [self.readable(one) for one in get_args(hint)]
        rest = [one for one in options if one is not type(None)]
        if Any in rest:
            return Any
        union: Any = Union[tuple(options)]  # noqa: UP007 - of what is only known now
        if len(rest) == 1 or (not any(map(_own, rest)) and _decodes(union)):
            return union
        names = tuple(_name(one) for one in get_args(hint) if one is not type(None))
        choice = kind(Choice, " | ".join(names), options=tuple(rest), names=names)
        return choice if len(rest) == len(options) else Union[choice, None]  # noqa: UP007

    def _annotated(self, hint: Any) -> Any:
        found = constraints.read(hint.__metadata__)
        notes = tuple(one for one in found.metas if _only_says(one))
        if found.foreign:
            return _with(_adapted(hint), notes)
        inner = self.readable(hint.__origin__)
        if found.checks:
            inner = kind(Made, _name(hint.__origin__), of=inner, make=_checked(found.checks))
        made = _with(inner, tuple(found.metas))
        if len(notes) < len(found.metas):
            try:
                msgspec.json.Decoder(made)
            except TypeError:
                if "pydantic" not in sys.modules or any(isinstance(m, msgspec.Meta) for m in hint.__metadata__):
                    raise
                return _with(_adapted(hint), notes)
        return made

    def _class(self, hint: Any) -> Any:
        if hint is ToolContext:
            raise TypeError("ToolContext is given by itself, and not within something else")
        if not isinstance(hint, type):
            return hint
        if issubclass(hint, enum.Enum):
            return _enum(hint)
        if kinds.is_model(hint):
            return hint
        if hasattr(hint, "__get_pydantic_core_schema__") or hasattr(hint, "__pydantic_validator__"):
            return _adapted(hint)
        if issubclass(hint, msgspec.Struct) and (fault := _undecodable(hint)):
            raise TypeError(f"msgspec cannot read {hint.__name__}, a dataclass with these fields could be: {fault}")
        if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint) or hasattr(hint, "_field_defaults"):
            return self._record(hint)
        return hint

    def _record(self, found: Any) -> Any:
        """The class itself where msgspec reads all its fields, else a record of it."""
        if found in self._records:
            return self._records[found]
        names = dict(self._names) if "<locals>" in found.__qualname__ else None
        try:
            hints = typing.get_type_hints(found, localns=names, include_extras=True)
        except (NameError, AttributeError) as error:
            raise TypeError(f"the hints of {found.__name__} cannot be read: {error}") from None
        wanted = _with_none(found, hints)
        before = dict(self._records)
        self._records[found] = found
        read = {name: self.readable(hint) for name, hint in wanted.items()}
        same = all(read[name] == _bare(hints[name]) for name in hints)
        if same and not hasattr(found, "_field_defaults") and _decodes(found):
            return found
        self._records = before
        made: Any = kind(Record, found.__name__, of=found)
        self._records[found] = made
        read = {name: self.readable(hint) for name, hint in wanted.items()}
        doc = found.__doc__ or ""
        said = {} if doc.startswith(f"{found.__name__}(") else {"__doc__": doc}
        made.struct = msgspec.defstruct(found.__name__, _fields(found, hints, read), kw_only=True, namespace=said)
        return made


def _with_none(found: Any, hints: Mapping[str, Any]) -> dict[str, Any]:
    """A field with None as its default may be None."""
    fields = dataclasses.fields(found) if dataclasses.is_dataclass(found) else ()
    none = {f.name for f in fields if f.default is None}
    return {n: Union[hint, None] if n in none else hint for n, hint in hints.items()}  # noqa: UP007 - of any hint


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in _WRAPPERS else hint


def _decodes(found: Any) -> bool:
    return not _undecodable(found)


def _undecodable(found: Any) -> str:
    """Why msgspec does not read a type; empty: it does."""
    try:
        msgspec.json.Decoder(found)
    except (TypeError, NameError, AttributeError) as error:
        return str(error).partition("\n\n")[0] or type(error).__name__
    return ""


def _fields(found: Any, hints: Mapping[str, Any], read: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """The fields of a class for a struct, which has them under names that cannot be in its way."""
    defaults: dict[str, Any] = {}
    if dataclasses.is_dataclass(found):
        listed = [f for f in dataclasses.fields(found) if f.init]
        read = {f.name: read[f.name] for f in listed}
        for f in listed:
            if f.default is not dataclasses.MISSING:
                defaults[f.name] = default(f.default)
            elif f.default_factory is not dataclasses.MISSING:
                defaults[f.name] = msgspec.field(default_factory=f.default_factory)
    elif typing.is_typeddict(found):
        omitted = _omitted(found, hints)
        read = {n: Union[t, msgspec.UnsetType] if n in omitted else t for n, t in read.items()}  # noqa: UP007
        defaults = dict.fromkeys(omitted, msgspec.UNSET)
    else:
        defaults = {name: default(value) for name, value in found._field_defaults.items()}
    given = [(name, hint, defaults.get(name, msgspec.NODEFAULT)) for name, hint in read.items()]
    return [field(at, *one) for at, one in enumerate(given)]


def _omitted(found: Any, hints: Mapping[str, Any]) -> set[str]:
    """The names that a ``TypedDict`` may lack. Where hints are text Python itself looks past what they say of that."""
    said = {name: get_origin(hint) for name, hint in hints.items()}
    optional = {name for name in said if name not in found.__required_keys__ or said[name] is NotRequired}
    return {name for name in optional if said[name] is not typing.Required}


def field(at: int, name: str, hint: Any, value: Any) -> tuple[str, Any, Any]:
    """A field of a struct, which has it as ``_0``, ``_1`` and so on: any name will do in JSON."""
    if isinstance(value, type(msgspec.field())):
        return f"_{at}", hint, msgspec.field(default_factory=value.default_factory, name=name)
    return f"_{at}", hint, msgspec.field(default=value, name=name)


def _own(found: Any) -> bool:
    """It is read by a rule that msgspec does not know, so it cannot tell when that one is meant."""
    return isinstance(found, type) and issubclass(found, kinds.Kind)


def _with(hint: Any, metas: tuple[msgspec.Meta, ...]) -> Any:
    return Annotated[(hint, *metas)] if metas else hint


_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")


def _only_says(meta: msgspec.Meta) -> bool:
    return all(getattr(meta, name) is None for name in _LIMITS)


def _checked(checks: list[Any]) -> Any:
    def make(value: Any) -> Any:
        if not all(check(value) for check in checks):
            raise ValueError(f"{value!r} is not allowed")
        return value

    return make


def _adapted(hint: Any) -> Any:
    from pydantic import TypeAdapter  # whoever uses its types has it
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter(hint)
        adapter.json_schema()
    except (PydanticUserError, ImportError) as error:
        raise TypeError(str(error).partition("\n")[0]) from None
    return kind(Adapted, _name(hint), adapter=adapter)


def _literal(hint: Any) -> Any:
    values = get_args(hint)
    if all(type(value) in (str, int, type(None)) for value in values) and len({str(v) for v in values}) == len(values):
        return hint
    return _named("Literal", [(value.value if isinstance(value, enum.Enum) else value, value) for value in values])


def _enum(found: type[enum.Enum]) -> Any:
    if issubclass(found, enum.Flag):
        return kind(Flags, found.__name__, of=found)
    if _is_plain(found):
        return found
    atoms = all(type(member.value) in _ATOMS and not isinstance(member.value, bytes) for member in found)
    return _named(found.__name__, [(member.value if atoms else member.name, member) for member in found])


def _named(name: str, pairs: list[tuple[Any, Any]]) -> type[kinds.Kind]:
    if wrong := [shown for shown, _ in pairs if not isinstance(shown, _ATOMS) or isinstance(shown, bytes)]:
        raise TypeError(f"{wrong[0]!r} is no value that JSON can carry")
    if not pairs:
        raise TypeError(f"{name} has no values")
    return kind(Named, name, values={(type(shown), shown): value for shown, value in pairs})


def _name(hint: Any) -> str:
    """What a type is called."""
    if get_origin(hint) is Annotated:
        return _name(hint.__origin__)
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")
