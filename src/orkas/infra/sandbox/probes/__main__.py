"""Run the probes in a process and a home of their own: ``python -m orkas.infra.sandbox.probes [BACKEND [PROBE]]``.

BACKEND: ``bubblewrap``, ``landlock``, ``none``, or the one that is found. One JSON object a line, one for each probe.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Status 0: every probe was contained; 1: some were not; 2: there is no such backend here."""
    from orkas.infra.sandbox.probes import SECRET

    if SECRET not in os.environ:  # only what a program was started with shows in /proc
        import secrets

        os.execve(sys.executable, sys.orig_argv, {**os.environ, SECRET: f"secret-{secrets.token_hex(12)}"})  # noqa: S606
    with tempfile.TemporaryDirectory(prefix="orkas-probes-") as folder:
        home = Path(os.path.realpath(folder))
        os.environ |= {"HOME": str(home / "home"), "ORKAS_HOME": str(home / "orkas")}
        (home / "home").mkdir()
        return _run(sys.argv[1:])


def _run(words: list[str]) -> int:
    import msgspec

    from orkas.infra.hiding import hide_memory
    from orkas.infra.sandbox.finding import find, named
    from orkas.infra.sandbox.probes import run

    hide_memory()
    backend = named(words[0]) if words else find().backend
    if backend is None and words[:1] != ["none"]:
        return 2
    contained = True
    for result in run(backend, *words[1:2]):
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
        sys.stdout.flush()
        contained = contained and result.contained
    return 0 if contained else 1


if __name__ == "__main__":
    sys.exit(main())
