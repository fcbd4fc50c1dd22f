"""Which screen this terminal gets."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from orkas.product.chat.screen import PlainScreen, Screen

__all__ = ["choose_screen", "plain_for_want_of_packages"]


def choose_screen(out: TextIO | None = None, environ: Mapping[str, str] | None = None) -> Screen:
    """The richest screen that this output, these settings and this install can carry."""
    out, environ = out or sys.stdout, os.environ if environ is None else environ
    if not out.isatty() or environ.get("NO_COLOR") or environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return PlainScreen(out)
    if not _installed("rich"):
        return PlainScreen(out)
    from orkas.product.chat.rich_screen import RichScreen

    return RichScreen(out)


def plain_for_want_of_packages(screen: Screen) -> bool:
    """Whether this terminal could show more than what is installed can draw."""
    return screen.out.isatty() and not (_installed("rich") and _installed("prompt_toolkit"))


def _installed(package: str) -> bool:
    """It can be imported; it is not imported yet, for that costs time before the prompt is there."""
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False
