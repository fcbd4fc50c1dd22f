"""Amounts and counts read as people write them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkas.infra.amounts import counted, decimal, usd


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "$0"), (1e-9, "<$0.000001"), (1e-5, "$0.00001"), (0.000123, "$0.00012"), (0.004, "$0.004"),
        (0.0099999, "$0.01"), (0.01, "$0.01"), (0.0123456, "$0.0123"), (0.5, "$0.50"), (0.99999, "$1.00"), (1, "$1.00"),
        (1234.567, "$1,234.57"), (-0.02, "-$0.02"), (1e12, "$1,000,000,000,000.00"),
    ],
)  # fmt: skip
def test_an_amount_is_plain(amount: float, text: str) -> None:
    assert usd(amount) == text


@given(st.floats(1e-6, 1e9))
def test_no_amount_has_an_exponent_and_each_is_near_what_it_was(amount: float) -> None:
    text = usd(amount)
    assert re.fullmatch(r"\$[\d,]+\.\d{2,7}", text)
    assert abs(float(text[1:].replace(",", "")) - amount) <= max(0.05 * amount, 0) and "e" not in decimal(amount)


def test_one_is_one() -> None:
    assert [counted(n, "turn") for n in (0, 1, 2, 2000)] == ["0 turns", "1 turn", "2 turns", "2,000 turns"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
    assert [decimal(n) for n in (1e-5, 0.3, 15.0, 1.25e6)] == ["0.00001", "0.3", "15", "1250000"]
