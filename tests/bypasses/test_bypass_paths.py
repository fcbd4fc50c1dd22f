"""Published ways around the comparison of paths. Each test is named after its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orkas import Agent, ToolContext
from orkas.harness.policy import Policy
from orkas.harness.policy.rules import Rule, Rules, is_device
from orkas.infra.messages import ToolMessage, text_of
from orkas.testing import ScriptedProvider, call


def verdict(cwd: Path, path: str, *rules: tuple[Any, str], tool: str = "write_file", mode: Any = "edits") -> str:
    policy = Policy(mode, headless=False, rules=Rules(Rule.read(level, text) for level, text in rules))
    return policy.decide(tool, {"path": path}, ToolContext(cwd)).verdict


def run_tool(cwd: Path, tool: str, **arguments: Any) -> str:
    agent = Agent(ScriptedProvider([[call(tool, **arguments)], "done"]), cwd=cwd, approve="all")
    agent.run_sync("go")
    [result] = [m for m in agent.session.messages if isinstance(m, ToolMessage)]
    return text_of(result) if result.is_error else ""


def test_path_case(tmp_path: Path) -> None:
    """Names that some file systems take for one are one where a rule tightens."""
    for path in (".GIT/hooks/x", "a/.Git/config", ".git./config"):
        assert verdict(tmp_path, path) == "ask"
    for path in ("Secrets/x", "SECRETS/X", "secrets/x", "./secrets//x"):
        assert verdict(tmp_path, path, ("deny", "write_file: secrets/")) == "deny"
    assert verdict(tmp_path, "Src/x", ("allow", "write_file: src/"), mode="ask") == "ask"


@pytest.mark.parametrize("path", ["\\\\?\\C:\\x", "\\\\.\\pipe\\x", "\\\\host\\share\\x", "\\??\\UNC\\host\\x", "C:x", "c:..\\x",
    "\\\\?\\UNC\\h\\s"])  # fmt: skip
def test_path_nt_device(tmp_path: Path, path: str) -> None:
    """Spellings of devices, other machines and places of a drive are no paths."""
    assert is_device(path)
    assert verdict(tmp_path, path, mode="all") == "deny"
    assert not is_device("/a/b") and not is_device("C:\\x\\y") and not is_device("a/b.c")


def test_sandbox_trailing_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a rule spells a folder, it is that folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / ".aws").mkdir()
    for pattern in ("~/.aws/", "~/.aws", "$HOME//.aws/.", f"{tmp_path}/.aws/../.aws", "~/.aws//"):
        for path in ("../.aws/credentials", "~/.aws/credentials", f"{tmp_path}/.aws", f"{tmp_path}//.aws/x/y"):
            assert verdict(work, path, ("deny", f"read_file: {pattern}"), tool="read_file", mode="all") == "deny", pattern
    assert verdict(work, "~/.awsome", ("deny", "read_file: ~/.aws/"), tool="read_file", mode="all") == "allow"


def test_path_symlink_allow(tmp_path: Path) -> None:
    """What a rule allows is the file behind the link, not the name of the link."""
    work, keys = tmp_path / "work", tmp_path / ".ssh"
    (work / "src").mkdir(parents=True)
    keys.mkdir()
    (keys / "id").write_text("key")
    (work / "src/link").symlink_to(keys)
    (work / "src/inner").symlink_to(work)
    allowed = ("allow", "write_file: src/**")
    assert verdict(work, "src/a", allowed, mode="ask") == "allow"
    assert verdict(work, "src/link/id", allowed, mode="ask") == "ask"
    assert verdict(work, "src/inner/other", allowed, mode="ask") == "ask"
    assert verdict(work, "x", ("deny", "write_file: src/"), mode="all") == "allow"
    assert verdict(work, "src/inner/other", ("deny", "write_file: other"), mode="all") == "deny"
    assert "outside" in run_tool(work, "write_file", path="src/link/id", content="x")
    assert (keys / "id").read_text() == "key"
    for text in ("echo x > src/link/new", "touch src/link/new", "cp src/a src/link", "sed -i s/k/x/ src/link/id"):
        policy = Policy("edits", headless=False, rules=Rules())
        (work / "src/a").touch()
        assert policy.decide("shell", {"command": text}, ToolContext(work, sandbox="off")).verdict == "ask", text
    reads = Policy("ask", headless=False, rules=Rules())
    for text in ("cat src/link/id", "cat src/*/id", "ls src/l*", "grep -R x .", "find -L .", "head < src/link/id"):
        assert reads.decide("shell", {"command": text}, ToolContext(work, sandbox="off")).verdict == "ask", text
    assert reads.decide("shell", {"command": "cat src/a"}, ToolContext(work, sandbox="off")).verdict == "allow"


def test_path_prefix(tmp_path: Path) -> None:
    """A folder is compared part by part."""
    work, other = tmp_path / "app", tmp_path / "app-secret"
    work.mkdir()
    other.mkdir()
    (other / "x").write_text("secret")
    for path in ("../app-secret/x", str(other / "x"), f"{work}-secret/x", "sub/../../app-secret/x"):
        assert "outside" in run_tool(work, "read_file", path=path)
        assert verdict(work, path, ("allow", f"read_file: {work}"), ("ask", "read_file"), tool="read_file") == "ask"
        reading = Policy("ask", headless=False, rules=Rules()).decide("shell", {"command": f"cat {path}"}, ToolContext(work, sandbox="off"))
        assert reading.verdict == "ask"


def test_path_config_symlink(tmp_path: Path) -> None:
    """Nothing of ours is kept in the working folder, so no link there can catch it."""
    victim = tmp_path / "victim"
    victim.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    for name in (".orkas", ".config", "orkas", ".local"):
        (work / name).symlink_to(victim)
    agent = Agent(ScriptedProvider([[call("shell", command="ls")], "done"]), cwd=work)
    agent.run_sync("go")
    assert list(victim.iterdir()) == []
