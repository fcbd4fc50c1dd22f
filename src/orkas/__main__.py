"""``python -m orkas`` is the command ``orkas``."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command; returns its exit status. Ctrl-C while its parts are loaded ends it without a word."""
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from orkas.product import cli

    return cli.main(listens=listens)


if __name__ == "__main__":
    sys.exit(main())
