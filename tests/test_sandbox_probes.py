"""Forty ways out of the sandbox, tried against each backend, as whoever runs the tests and as an unprivileged user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import orkas
from orkas.infra.sandbox.probes import PROBES
from sandboxes import backend, linux

FULL = os.environ.get("ORKAS_FULL")
MUST_HOLD = {"bubblewrap": 40, "landlock": 38}
OPEN = {"bubblewrap": set[str](), "landlock": {"change_mode"}}
"""What docs/sandbox.md says of each."""

pytestmark = linux


def probed(name: str, home: Path, *, unprivileged: bool) -> list[dict[str, Any]]:
    words = [sys.executable, "-m", "orkas.infra.sandbox.probes", name]
    env = {**os.environ, "PYTHONPATH": str(Path(orkas.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    if unprivileged:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *words]
        os.chown(home, 65534, 65534)
        env |= {"TMPDIR": str(home), "HOME": str(home)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("unprivileged", [False, True], ids=["as we are", "unprivileged"])
@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_nobody_gets_out(name: str, unprivileged: bool) -> None:
    backend(name)
    if unprivileged and (os.getuid() != 0 or not shutil.which("setpriv")):
        pytest.skip("only root can become somebody else, with setpriv")
    if unprivileged and not _can_be_read():
        pytest.skip("an unprivileged user cannot read this Python")
    if not FULL and unprivileged is (name == "bubblewrap"):
        pytest.skip("with ORKAS_FULL=1")
    with tempfile.TemporaryDirectory(prefix="orkas-nobody-") as home:  # not below a folder that only root may enter
        results = probed(name, Path(home), unprivileged=unprivileged)
    out = {result["name"] for result in results if not result["contained"]}
    assert len(results) == len(PROBES) == 40
    assert out <= OPEN[name], [result for result in results if not result["contained"]]
    assert len(results) - len(out) >= MUST_HOLD[name]


def _can_be_read() -> bool:
    """Whether somebody else may also start this Python: setpriv may enter closed folders itself, what it starts may not."""
    again = "import msgspec, orkas, os, sys; os.execv(sys.executable, [sys.executable, '-c', 'import msgspec'])"
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", again]
    env = {**os.environ, "PYTHONPATH": str(Path(orkas.__file__).parents[1]), "HOME": "/"}
    return subprocess.run(words, env=env, capture_output=True, check=False, cwd="/").returncode == 0


@pytest.mark.skipif(not FULL, reason="with ORKAS_FULL=1")
def test_without_walls_the_probes_do_get_out(tmp_path: Path) -> None:
    """They are no probes if they fail for another reason than the walls. A few need rights, or are ended by us."""
    results = probed("none", tmp_path, unprivileged=False)
    out = {result["name"] for result in results if not result["contained"]}
    assert len(out) >= 25, sorted(out)
