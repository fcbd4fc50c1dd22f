"""Sums and counts as people write them: ``$0.00042``, ``1 message``, ``2,000 messages``."""

from __future__ import annotations

__all__ = ["counted", "decimal", "usd"]

_LEAST = 1e-6
"""USD: less than that is not told apart from nothing."""


def usd(amount: float) -> str:
    """An amount of USD: cents from a dollar on, below it up to four places, below a cent two digits that count; never
    an exponent, and nothing but nothing is ``$0``."""
    if not amount:
        return "$0"
    if amount < 0:
        return f"-{usd(-amount)}"
    if amount < _LEAST:
        return "<$0.000001"
    if amount >= 0.99995:
        return f"${amount:,.2f}"
    digits = f"{amount:.4f}" if amount >= 0.01 else decimal(float(f"{amount:.2g}"))
    whole, _, places = digits.partition(".")
    return f"${whole}.{places.rstrip('0').ljust(2, '0')}"


def decimal(number: float) -> str:
    """Six digits of a number at most, without an exponent and without zeros at its end: ``1250000``, ``0.00001``."""
    from decimal import Decimal

    return format(Decimal(f"{number:.6g}"), "f")


def counted(count: int, what: str, several: str = "") -> str:
    """``1 file``, ``2,000 files``. ``several``: the plural where it is not made by an ``s``."""
    return f"{count:,} {what if count == 1 else several or what + 's'}"
