"""Our own process: what other processes of the same user may see of it."""

from __future__ import annotations

import sys
from contextlib import suppress

__all__ = ["hide_memory"]

_PR_SET_DUMPABLE = 4


def hide_memory() -> bool:
    """From here on no other process of the user reads our memory or environment, and no dump of it is written. For
    programs of ours, at their start, never on import: it also keeps debuggers out. True: it is so; elsewhere than on
    Linux only no dump is written."""
    if not sys.platform.startswith("linux"):
        _no_dumps()
        return False
    try:
        import _ctypes  # ctypes itself costs 2 ms more

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None: this program
        return bool(_ctypes.call_function(prctl, (_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def _no_dumps() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
