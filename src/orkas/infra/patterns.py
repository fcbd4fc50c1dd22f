"""Regular expressions that are compiled when they are first used: a large one takes as long as a module to import."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

__all__ = ["lazy"]


class _Lazy:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._source: tuple[Any, int] = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Asked once a name: from then on it is an attribute like any other."""
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)
        return found


def lazy(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As ``re.compile``, with its errors at the first use. Not for what asks for the type itself."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
