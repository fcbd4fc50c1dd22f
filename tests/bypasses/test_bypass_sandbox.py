"""Published ways out of a sandbox, and around its being there. Each test is named after its row."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import orkas
from orkas import Agent, ToolContext
from orkas.harness.policy import Policy
from orkas.harness.policy.rules import Rules
from orkas.infra.messages import ToolMessage, text_of
from orkas.testing import ScriptedProvider, call
from sandboxes import Walled, backend, linux


@pytest.fixture(params=["bubblewrap", "landlock"])
def walled(request: pytest.FixtureRequest, tmp_path: Path) -> Walled:
    return Walled(tmp_path, backend(request.param))


@linux
async def test_sandbox_nested_userns(tmp_path: Path) -> None:
    """No new namespace of users inside: it would lend rights that the walls do not expect."""
    walled = Walled(tmp_path, backend("bubblewrap"))
    for command in ("unshare -Ur true", "unshare -U -m true", f"{sys.executable} -c 'import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10000000) == 0)'"):
        ended = await walled.run(command)
        assert ended.is_error != (sys.executable in command), command


_NO_WALLS = """
import asyncio, pathlib, sys
from orkas import Agent
from orkas.testing import ScriptedProvider, call
agent = Agent(ScriptedProvider([[call("shell", command="touch ran")], "done"]), cwd=sys.argv[1], approve="all")
agent.run_sync("go")
print([m for m in agent.session.messages][-2].is_error)
"""


@linux
def test_sandbox_off_silent(tmp_path: Path) -> None:
    """Where there are no walls nothing runs; a helper on PATH that cannot build any is none."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/bwrap").chmod(0o755)
    env = {**os.environ, "PATH": str(tmp_path / "bin"), "PYTHONPATH": str(Path(orkas.__file__).parents[1])}
    forbidden = "import ctypes, sys; sys.modules['ctypes'] = None\n"  # no rules of the kernel either
    done = subprocess.run(
        [sys.executable, "-c", forbidden + _NO_WALLS, str(tmp_path)], env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, (tmp_path / "ran").exists()) == ("True\n", False), done.stderr


@linux
async def test_sandbox_unix_socket(walled: Walled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket of the machine is reached, by path or by name: behind them stand servers with more rights."""
    name = f"\0orkas-{os.getpid()}-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as by_name:
        monkeypatch.chdir(tmp_path)  # such paths are short
        by_path.bind("s")
        by_name.bind(name)
        for server in (by_path, by_name):
            server.listen()
            server.setblocking(False)
        for address in (repr(str(tmp_path / "s")), repr("../s"), repr(name)):
            reach = f"import socket; socket.socket(socket.AF_UNIX).connect({address})"
            (walled.work / "reach.py").write_text(reach)
            assert (await walled.run(f"{sys.executable} reach.py")).is_error
        for server in (by_path, by_name):
            with pytest.raises(BlockingIOError):
                server.accept()


@linux
async def test_sandbox_symlink_write(walled: Walled, tmp_path: Path) -> None:
    """A link that a command leaves behind is not written through by the tools, which have no walls."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/x").write_text("as it was")
    await walled.run("ln -s ../victim out; ln -s ../victim/x file; mkdir d; ln -s ../../victim d/deep")
    for path in ("out/new", "out/x", "file", "d/deep/x"):
        agent = Agent(ScriptedProvider([[call("write_file", path=path, content="evil")], "done"]), cwd=walled.work, approve="all")
        await agent.run("go")
        [result] = [m for m in agent.session.messages if isinstance(m, ToolMessage)]
        assert result.is_error and "outside" in text_of(result), path
    assert [p.name for p in (tmp_path / "victim").iterdir()] == ["x"]
    assert (tmp_path / "victim/x").read_text() == "as it was"


@linux
@pytest.mark.parametrize("command", [
    "mv .git old; mkdir .git; echo evil > .git/config", "mv .git old; cp -r old .git; echo evil > .git/hooks/pre-commit",
    "mv sub other; mkdir -p sub/.git; echo evil > sub/.git/config", "rm -rf .git; ln -s /tmp .git",
])  # fmt: skip
async def test_sandbox_rename_ancestor(walled: Walled, command: str) -> None:
    """What is held stays where it is, also when a folder above it is moved away."""
    for place in (".git", "sub/.git"):
        (walled.work / place / "hooks").mkdir(parents=True)
        (walled.work / place / "config").write_text("[core]\n\tbare = false\n")
    await walled.run(command)
    for place in (".git", "sub/.git"):
        if (walled.work / place).exists():
            assert "evil" not in (walled.work / place / "config").read_text()
            assert not (walled.work / place / "hooks/pre-commit").exists()
    assert not (walled.work / ".git").is_symlink()


@pytest.mark.parametrize("extra", [{"outside": True}, {"outside": "true"}, {"outside": 1}, {"network": True}, {"outside": "no"}])
def test_sandbox_escape_flag(tmp_path: Path, extra: dict[str, object]) -> None:
    """To leave the walls is a permission of its own: asked each time, whatever was approved of the command."""
    for mode in ("ask", "edits"):
        policy = Policy(mode, headless=False, rules=Rules())  # type: ignore[arg-type]
        verdict = policy.decide("shell", {"command": "ls", **extra}, ToolContext(tmp_path))
        assert verdict.verdict == "ask" and verdict.grant is None
