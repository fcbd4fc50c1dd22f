"""Make the project's own environment, with nothing but Python 3.11 and pip on the machine."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def environment(folder: str, extras: str, *, editable: bool) -> Path:
    """Create ``folder`` (kept if it is there), install the project with ``extras``; the folder of its programs."""
    if sys.version_info < (3, 11):
        sys.exit(f"Orkas needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: python3.11 {sys.argv[0]}")
    target = ROOT / folder
    programs = target / ("Scripts" if sys.platform == "win32" else "bin")
    python = programs / ("python.exe" if sys.platform == "win32" else "python")
    if not python.exists():
        print(f"Setting up {folder} …", file=sys.stderr)
        # Without ensurepip, which some distributions split off: the pip that is here installs into the new environment.
        venv.create(target, with_pip=False, symlinks=sys.platform != "win32")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    project = f"{ROOT}[{extras}]"
    try:
        subprocess.run([*pip, "pip", *(["--editable"] if editable else []), project], check=True)
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not set up {target} (exit status {error.returncode}); its words stand above.")
    return programs
