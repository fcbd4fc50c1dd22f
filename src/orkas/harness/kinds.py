"""Types of parameters that msgspec cannot read by itself, each as a class that msgspec hands to ``Kind.read``.

Whether pydantic is there is never asked: what is its own is known by what it can do, and only then is it loaded.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

import msgspec

__all__ = [
    "RECORD", "Adapted", "Choice", "Flags", "Kind", "Made", "Named", "Record", "components", "convert", "is_model",
    "kind", "schema_hook",
]  # fmt: skip

RECORD = "$record"
"""In a schema that is not whole yet: the record that stands here."""


class _Any(type):
    """msgspec asks whether what was read is an instance: it is, whatever it is."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Kind(metaclass=_Any):
    """A type with a reading of its own."""

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Its JSON Schema; definitions may stand within."""
        raise NotImplementedError

    @classmethod
    def read(cls, given: Any) -> Any:
        """The value that the model's JSON means.

        Raises:
            ValueError: it means none.
        """
        raise NotImplementedError


def kind(base: type[Kind], name: str, **values: Any) -> type[Kind]:
    """A class of that kind."""
    made: type[Kind] = _Any(name, (base,), values)  # type: ignore[assignment]
    return made


def convert(given: Any, hint: Any, *, strict: bool = False) -> Any:
    """A value of the type, from what JSON has.

    Raises:
        msgspec.ValidationError: there is none.
    """
    return msgspec.convert(given, hint, strict=strict, str_keys=True, dec_hook=_read)


def is_model(found: Any) -> bool:
    """It is a pydantic model, or can do the same."""
    return callable(getattr(found, "model_json_schema", None)) and callable(getattr(found, "model_validate", None))


def schema_hook(found: Any) -> dict[str, Any]:
    """JSON Schema of what msgspec has none for.

    Raises:
        TypeError: there is none.
    """
    if isinstance(found, type) and issubclass(found, Kind):
        return found.schema()
    if is_model(found):
        return dict(found.model_json_schema())
    if isinstance(found, type) and issubclass(found, PurePath):
        return {"type": "string", "format": "path"}
    raise TypeError(f"{getattr(found, '__name__', found)} is no type that JSON can carry")


def components(hint: Any) -> dict[str, Any]:
    """JSON Schema of a type, with the definitions it needs within.

    Raises:
        TypeError: as ``schema_hook``.
    """
    (schema,), definitions = msgspec.json.schema_components(
        [hint], schema_hook=schema_hook, ref_template="#/$defs/{name}"
    )
    return {**schema, "$defs": definitions} if definitions else dict(schema)


def _read(found: Any, given: Any) -> Any:
    if isinstance(found, type) and issubclass(found, Kind):
        try:
            return found.read(given)
        except msgspec.ValidationError as error:
            raise ValueError(_within(str(error))) from None
    if is_model(found):
        return _validated(found.model_validate, given)
    if isinstance(found, type) and issubclass(found, PurePath):
        if not isinstance(given, str):
            raise ValueError("Expected `str`")  # noqa: TRY004 - msgspec tells where, for this one
        return (found if found is not PurePath else Path)(given)
    raise NotImplementedError


_PLACE = re.compile(r"(.*) - at `\$\.?([^`]*)`", re.DOTALL)


def _within(said: str) -> str:
    """What is wrong and where, as a part of what will say where that is."""
    placed = _PLACE.fullmatch(said)
    return f"{placed[2]}: {placed[1]}" if placed and placed[2] else said


def _validated(validate: Callable[[Any], Any], given: Any) -> Any:
    try:
        return validate(given)
    except ValueError as error:
        raise ValueError(_words(error)) from None


def _words(error: Any) -> str:
    listed = error.errors() if hasattr(error, "errors") else []
    told = [": ".join(filter(None, [".".join(map(str, e["loc"])), e["msg"]])) for e in listed[:3]]
    return "; ".join(told) or str(error)


class Choice(Kind):
    """A union that the JSON alone does not decide: the first of its types, in their order, that takes the value as it
    is, with no name it does not know; then the first that takes it at all."""

    options: tuple[Any, ...]
    names: tuple[str, ...]

    @classmethod
    def schema(cls) -> dict[str, Any]:
        listed: list[dict[str, Any]] = []
        for option in cls.options:
            one = components(option)
            if one not in listed:
                listed.append(one)
        return {"anyOf": listed} if len(listed) > 1 else listed[0]

    @classmethod
    def read(cls, given: Any) -> Any:
        wrong: list[str] = []
        for option in cls.options:
            if not _unknown(given, option):
                try:
                    return convert(given, option, strict=True)
                except msgspec.ValidationError:
                    pass
        for option, name in zip(cls.options, cls.names, strict=True):
            try:
                return convert(given, option)
            except msgspec.ValidationError as error:
                wrong.append(f"no {name} ({_within(str(error))})")
        raise ValueError("; ".join(wrong))


def _unknown(given: Any, option: Any) -> bool:
    """It has names that the type has not."""
    if not isinstance(given, dict):
        return False
    shape = option.struct if isinstance(option, type) and issubclass(option, Record) else option
    schema = components(shape)
    if (name := schema.get("$ref", "").rpartition("/")[2]) in schema.get("$defs", {}):
        schema = schema["$defs"][name]
    open_ = schema.get("additionalProperties", False) is not False or "properties" not in schema
    return not open_ and not given.keys() <= schema["properties"].keys()


class Made(Kind):
    """What is made of a value of another type: ``make`` may refuse it with a ValueError."""

    of: Any
    make: Callable[[Any], Any]

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return components(cls.of)

    @classmethod
    def read(cls, given: Any) -> Any:
        return cls.make(convert(given, cls.of))


class Named(Kind):
    """One of a few values, by what stands for each in JSON. Where several are written alike as text, such as 1 and
    "1", what was given as it is goes before."""

    values: Mapping[tuple[type, Any], Any]

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"enum": [shown for _, shown in cls.values]}

    @classmethod
    def read(cls, given: Any) -> Any:
        found = [v for (type_, shown), v in cls.values.items() if type(given) is type_ and shown == given]
        if not found and isinstance(given, str | int | float):
            found = [v for (_, shown), v in cls.values.items() if str(shown).lower() == str(given).lower()]
        if not found:
            raise ValueError(f"Expected one of {', '.join(repr(shown) for _, shown in cls.values)}")
        return found[0]


class Flags(Kind):
    """Any of the flags of an ``enum.Flag``, as a list of their names; its number is taken too."""

    of: type[enum.Flag]

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "array", "items": {"enum": list(cls.of.__members__)}}

    @classmethod
    def read(cls, given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            if given & ~sum(member.value for member in cls.of):
                raise ValueError(f"Expected a list of {', '.join(cls.of.__members__)}")
            return cls.of(given)
        total = cls.of(0)
        for name in given if isinstance(given, list) else [given]:
            if not isinstance(name, str) or name not in cls.of.__members__:
                raise ValueError(f"Expected a list of {', '.join(cls.of.__members__)}")
            total |= cls.of[name]
        return total


class Record(Kind):
    """A class with named fields, by a struct of these fields in types that can be read. The struct comes later than the
    class, for a field may be of the class itself. A named tuple may be given as a list, too."""

    of: type[Any]
    struct: type[msgspec.Struct]

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {RECORD: cls}

    @classmethod
    def read(cls, given: Any) -> Any:
        names = cls.struct.__struct_encode_fields__
        if isinstance(given, list) and issubclass(cls.of, tuple) and len(given) <= len(names):
            given = dict(zip(names, given, strict=False))
        read = convert(given, cls.struct)
        values = dict(zip(names, msgspec.structs.astuple(read), strict=True))
        return cls.of(**{name: value for name, value in values.items() if value is not msgspec.UNSET})


class Adapted(Kind):
    """A type that pydantic alone can read: its dataclasses, its own types, its validators."""

    adapter: Any

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return dict(cls.adapter.json_schema())

    @classmethod
    def read(cls, given: Any) -> Any:
        return _validated(cls.adapter.validate_python, given)
