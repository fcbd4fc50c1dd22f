"""The interactive chat in the terminal: a person, a model, and the terminal's own scrollback."""

from __future__ import annotations

import argparse

__all__ = ["main"]


def main(options: argparse.Namespace) -> int:
    """Talk until the user leaves; returns the exit status (0, 2 for wrong options, 130 after Ctrl-C twice).

    ``options``: model (a string, a provider object or None), session, continue_, cwd, system, tools, thinking,
    approve, max_rounds, image (paths for the first message), debug, ephemeral. Any may be None or missing.
    """
    from orkas.product.chat.run import run

    return run(options)
