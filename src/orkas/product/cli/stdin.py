"""The prompt: from the argument, from standard input, or from both."""

from __future__ import annotations

import os
import select
import stat
import sys

from orkas.infra.errors import UsageError
from orkas.infra.terminal import is_tty
from orkas.product.cli import out
from orkas.product.cli.parsing import plain

__all__ = ["FIRST_BYTE", "MAX_BYTES", "NEXT_BYTE", "prompt_of"]

FIRST_BYTE = 3.0
"""Seconds to wait for piped input beside a prompt: a pipe that somebody merely holds open must not stop a run."""
NEXT_BYTE = 60.0
"""Seconds a pipe that has begun to speak may be silent before the run goes on without the rest."""
MAX_BYTES = 8_000_000
"""More than any model can read."""


def prompt_of(argument: str | None, *, alone: bool = False) -> str:
    """The words for the model. ``alone``: an empty prompt will do, because an image says it.

    Raises:
        UsageError: there is no prompt, or the input is too much for any model.
    """
    prompt = "" if argument in (None, "-") else plain(argument or "")
    if argument in (None, "-"):
        if argument is None and (sys.stdin is None or is_tty(sys.stdin)) and not alone:
            raise UsageError("there is no prompt", hint='give one: orkas run "What is in this folder?"')
        prompt = _read(None) if argument == "-" or not is_tty(sys.stdin) else ""
    elif not is_tty(sys.stdin) and (context := _read(FIRST_BYTE)).strip():
        prompt = f"{prompt}\n\n<stdin>\n{context.rstrip()}\n</stdin>"
    if not prompt.strip() and not alone:
        raise UsageError("the prompt is empty", hint='give one: orkas run "What is in this folder?"')
    return prompt


def _read(patience: float | None) -> str:
    """All of standard input as text; bytes that are no UTF-8 become U+FFFD. ``patience``: None waits for its end."""
    try:
        file = sys.stdin.fileno() if sys.stdin is not None else None
        data = b"" if file is None else _bytes(file, None if stat.S_ISREG(os.fstat(file).st_mode) else patience)
    except (OSError, ValueError) as error:
        if patience is not None:
            return ""
        raise UsageError(f"standard input cannot be read: {error}", hint="give the prompt as an argument") from None
    return data.decode("utf-8-sig", "replace")


def _bytes(file: int, patience: float | None) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while patience is None or _ready(file, patience, begun=bool(chunks)):
        chunk = os.read(file, 1 << 16)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise UsageError(
                "standard input is over 8 MB, more than a model can read", hint="name the file in the prompt"
            )
        patience = patience and NEXT_BYTE
    return b"".join(chunks)


def _ready(file: int, patience: float, *, begun: bool) -> bool:
    if select.select([file], [], [], patience)[0]:
        return True
    rest = "the rest of standard input" if begun else "standard input"
    out.warning(f"{rest} did not come within {patience:.0f} s and is left out (`orkas run -` waits for its end)")
    return False
