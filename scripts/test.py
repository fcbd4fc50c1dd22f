"""Set up the development environment and run every check: python3 scripts/test.py [pytest arguments]"""

from __future__ import annotations

import os
import subprocess
import sys

from environment import ROOT, environment

LEAST = 75
"""Per cent of lines and branches. What runs in a process of its own (the command, the chat) is tested, not counted."""


def main() -> int:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    programs = environment(".venv-dev", "dev", editable=True)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    checks = [
        ["ruff", "check", "."],
        ["mypy"],
        ["lint-imports"],
        ["pytest", "--numprocesses=2", "--dist=loadfile", "--cov", "--cov-report=", *sys.argv[1:]],
        ["coverage", "report", f"--fail-under={0 if sys.argv[1:] else LEAST}"],
    ]
    for check in checks:
        print("$", " ".join(check), flush=True)
        status = subprocess.run([str(programs / check[0]), *check[1:]], cwd=ROOT, env=env).returncode
        if status:
            print(f"failed: {' '.join(check)}", file=sys.stderr)
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
