"""What stands in ``Annotated`` beside a type: descriptions and limits, whoever's words they are written in.

Known are ``msgspec.Meta``, plain text, the limits of annotated_types and pydantic's ``Field``, by what they carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

__all__ = ["Constraints", "is_field", "read"]

_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_OF_FIELD = ("description", "title", "examples")
_HARMLESS = frozenset({"discriminator", "union_mode", "alias", "fail_fast", *_LIMITS})
"""What a piece of pydantic's metadata may carry without need of pydantic itself."""


class Constraints(msgspec.Struct):
    """What was found."""

    metas: list[msgspec.Meta] = []
    checks: list[Callable[[Any], bool]] = []
    """Each says whether a value may be taken."""
    foreign: bool = False
    """There is something that only pydantic can keep."""


def read(metadata: Iterable[Any]) -> Constraints:
    """What a type is annotated with; what says nothing of values is left out, as typing has it.

    Raises:
        ValueError: a limit makes no sense.
    """
    found = Constraints()
    for one in metadata:
        _take(one, found)
    return found


def is_field(value: Any) -> bool:
    """It is what pydantic's ``Field()`` gives."""
    return type(value).__name__ == "FieldInfo" and _pydantic(value)


def _take(one: Any, found: Constraints) -> None:
    if isinstance(one, msgspec.Meta):
        found.metas.append(one)
    elif isinstance(one, str):
        found.metas.append(msgspec.Meta(description=one))
    elif is_field(one):
        said = {name: value for name in _OF_FIELD if (value := getattr(one, name, None))}
        if said:
            found.metas.append(msgspec.Meta(**said))
        for inner in one.metadata:
            _take(inner, found)
    elif isinstance(documentation := getattr(one, "documentation", None), str):
        found.metas.append(msgspec.Meta(description=documentation))
    elif _pydantic(one) or type(one).__module__.partition(".")[0] == "annotated_types":
        _take_limits(one, found)


def _take_limits(one: Any, found: Constraints) -> None:
    limits = {name: value for name in _LIMITS if (value := getattr(one, name, None)) is not None}
    said = {name for name, value in vars(one).items() if value is not None} if hasattr(one, "__dict__") else set()
    if isinstance(one, type) or hasattr(one, "func"):
        if _pydantic(one) or isinstance(one, type):
            found.foreign = True
        else:
            found.checks.append(one.func)
    elif not said <= _HARMLESS and _pydantic(one):
        found.foreign = True
    elif hasattr(one, "tz"):  # a zone, any (...) or none
        found.metas.append(msgspec.Meta(tz=one.tz is not None))
    elif limits:
        if not isinstance(limits.get("pattern", ""), str):
            limits["pattern"] = limits["pattern"].pattern
        found.metas.append(msgspec.Meta(**{k: _whole(v) for k, v in limits.items() if k != "min_length" or v}))
    elif isinstance(one, Iterable):  # several in one
        for inner in one:
            _take(inner, found)


def _whole(limit: Any) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _pydantic(value: Any) -> bool:
    return (value if isinstance(value, type) else type(value)).__module__.partition(".")[0] == "pydantic"
