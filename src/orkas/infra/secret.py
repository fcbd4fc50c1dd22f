"""A key or a token as a value that never shows itself."""

from __future__ import annotations

import hmac
from typing import Any

from orkas.infra.known import MASK, met

__all__ = ["MASK", "Secret"]


class Secret(str):
    """A key or a token. As text, in JSON, in a pickle, in any format it is ``***``; only ``reveal`` gives the value.

    The redactor takes the value out of all that is written from the moment the secret exists.
    """

    __slots__ = ("_value",)
    _value: str

    def __new__(cls, value: str) -> Secret:
        """``value`` must not be empty; a ``Secret`` is taken as it is."""
        if isinstance(value, Secret):
            return value
        if not value:
            raise ValueError("a secret has a value")
        own = super().__new__(cls, MASK)
        own._value = value
        met(value)
        return own

    def reveal(self) -> str:
        return self._value

    @property
    def tail(self) -> str:
        """Enough to tell one's own keys apart: the last four characters of a long one."""
        return f"…{self._value[-4:]}" if len(self._value) >= 20 else MASK

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(_raw(self), _raw(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return str, (MASK,)


def _raw(secret: Secret) -> bytes:
    return secret.reveal().encode("utf-8", "surrogatepass")
