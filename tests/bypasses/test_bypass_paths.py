"""Published ways around the comparison of paths. Each test is named after its row."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import orkas
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


def shape(folder: Path, *names: str) -> None:
    for name in names:
        if name in ("HEAD", "commondir"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text("ref: refs/heads/main\n")
        else:
            (folder / name).mkdir(parents=True)


BARE = [
    (("HEAD", "objects", "refs"), "config"), (("HEAD", "objects", "refs"), "config.worktree"),
    (("HEAD", "objects", "refs"), "hooks/post-checkout"), (("HEAD", "objects", "refs"), "info/attributes"),
    (("HEAD", "objects", "refs"), "commondir"), (("HEAD", "objects", "refs"), "CONFIG"),
    (("HEAD", "objects", "refs"), "config."), (("HEAD", "objects", "refs"), "Config "),
    (("objects", "refs"), "HEAD"), (("objects", "refs"), "head"),
    (("HEAD", "objects"), "refs/heads/main"), (("HEAD", "refs"), "objects/pack/x"), (("HEAD",), "commondir"),
    (("commondir",), "HEAD"),
]  # fmt: skip
PLAIN = [
    ((), "config"), ((), "HEAD"), (("objects",), "config"), (("refs",), "refs/a.md"), (("objects",), "objects/a.py"),
    (("HEAD", "objects", "refs"), "notes.txt"), ((), "hooks/use-a.ts"), ((), "commondir"), (("HEAD",), "a/config"),
]  # fmt: skip


@pytest.mark.parametrize("below", ["", "sub", "a/b"])
@pytest.mark.parametrize(("there", "path"), BARE)
def test_a_folder_that_git_takes_for_a_repository_asks(tmp_path: Path, below: str, there: Any, path: str) -> None:
    """It needs no .git: HEAD, objects and refs make any folder one, whose settings start programs."""
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    shape(tmp_path / below, *there)
    for tool in ("write_file", "edit_file"):
        assert verdict(tmp_path, f"{below}/{path}".lstrip("/"), tool=tool) == "ask"
    assert verdict(tmp_path / below, path) == "ask"
    if path == path.strip(" ."):
        command = f"mkdir -p {Path(path).parent} && touch {path}"
        policy = Policy("edits", headless=False, rules=Rules())
        assert policy.decide("shell", {"command": command}, ToolContext(tmp_path / below)).verdict == "ask"


@pytest.mark.parametrize(("there", "path"), PLAIN)
def test_files_that_are_called_as_in_a_repository_do_not(tmp_path: Path, there: Any, path: str) -> None:
    shape(tmp_path, *there)
    assert verdict(tmp_path, path) == "allow"


def test_a_patch_that_makes_a_repository_asks(tmp_path: Path) -> None:
    """Added file by file in one call, or renamed into place."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x/a").write_text("[core]\n")
    added = "".join(f"*** Add File: x/{name}\n+x\n" for name in ("HEAD", "objects/a", "refs/a"))
    for shaped, body in (((), added), (("HEAD", "objects", "refs"), "*** Update File: x/a\n*** Move to: x/config\n@@\n-[core]\n+[x]\n")):
        shape(tmp_path / "x", *shaped)
        patch = f"*** Begin Patch\n{body}*** End Patch\n"
        agent = Agent(ScriptedProvider([[call("apply_patch", patch=patch)], "done"]), cwd=tmp_path, approve="edits")
        agent.run_sync("go")
        [result] = [m for m in agent.session.messages if isinstance(m, ToolMessage)]
        assert result.is_error and "repository" in text_of(result)
    for command in ("mkdir -p r/objects r/refs && touch r/HEAD", "touch x/HEAD && mkdir x/objects x/refs", "cp a r/objects/a r/refs/b r/HEAD; mv x/b x/config"):
        policy = Policy("edits", headless=False, rules=Rules())
        assert policy.decide("shell", {"command": command}, ToolContext(tmp_path)).verdict == "ask", command


@pytest.mark.parametrize("path", [".git", "a/.git", ".GIT", ".git.", ".git ", "git~1/config", ".git::$INDEX_ALLOCATION/config",
    ".g\u200cit/config", ".gitmodules", "sub/.gitmodules", ".GitModules", ".git/modules/a/config", ".git/worktrees/a/gitdir", ".vscode./tasks.json"])  # fmt: skip
def test_other_names_of_what_git_obeys(tmp_path: Path, path: str) -> None:
    assert verdict(tmp_path, path) == "ask"
    assert verdict(tmp_path / ".git/hooks", "post-commit") == "ask"


async def test_path_rewind_hardlink(tmp_path: Path) -> None:
    """What is taken back is never written through another name of a file, nor through a link."""
    work, victim = tmp_path / "work", tmp_path / "victim"
    work.mkdir()
    victim.write_text("as it was")
    for name in ("hard", "soft"):
        (work / name).write_text("before")
    edits = [call("write_file", path=name, content="after") for name in ("hard", "soft")]
    reads = [call("read_file", path=name) for name in ("hard", "soft")]
    agent = Agent(ScriptedProvider([reads, edits, "done"]), cwd=work, approve="all")
    await agent.run("go")
    assert (work / "hard").read_text() == (work / "soft").read_text() == "after"
    for name in ("hard", "soft"):
        (work / name).unlink()
    (work / "hard").hardlink_to(victim)
    (work / "soft").symlink_to(victim)
    done = await agent.undo()
    assert victim.read_text() == "as it was" and (work / "hard").samefile(victim)
    assert sorted(text.partition(":")[0] for text in done.refused) == ["hard", "soft"]


def test_archive_toctou(tmp_path: Path) -> None:
    """Nothing of ours unpacks an archive onto the disk, so there is no time between a check and an extraction; what a
    command unpacks stays behind the walls, and is asked where an archive may name any place."""
    unpacks = {"extractall", "extract", "unpack_archive"}
    for source in Path(orkas.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in unpacks:
                assert isinstance(node.func.value, ast.Name) and node.func.value.id == "documents", source
    policy = Policy("edits", headless=False, rules=Rules())
    for command in ("tar xPf a.tar", "tar -x --absolute-names -f a.tar", "cpio -i < a.cpio", "tar xf a.tar -C ~/", "unzip a.zip -d /usr"):
        assert policy.decide("shell", {"command": command}, ToolContext(tmp_path)).verdict == "ask", command
    for command in ("tar xf a.tar", "unzip a.zip"):
        assert policy.decide("shell", {"command": command}, ToolContext(tmp_path, sandbox="off")).verdict == "ask", command
