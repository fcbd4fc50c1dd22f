"""Repositories whose settings, hooks or submodules start a program while git only reads: real ones, each with a program
that leaves a trace. And ordinary ones, which are read unasked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orkas import ToolContext
from orkas.harness.policy import Policy, as_judged
from orkas.harness.policy.rules import Rule, Rules

ENV = {
    "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_ALLOW_PROTOCOL": "file",
}  # fmt: skip


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env=ENV, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    """Two commits, and a change since."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for text in ("0\n", "1\n"):
        (folder / "f").write_text(text)
        git(folder, "add", "f")
        git(folder, "commit", "-qm", text)
    (folder / "f").write_text("2\n")
    return folder


def said(folder: Path, command: str, *allowed: str, mode: Any = "ask", sandbox: Any = "find") -> str:
    rules = Rules([Rule.read("allow", f"shell: {text}") for text in allowed])
    context = ToolContext(folder, sandbox=sandbox)
    return Policy(mode, headless=False, rules=rules).decide("shell", {"command": command}, context).verdict


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """As the tool runs it."""
    text, variables = as_judged(command)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", text], cwd=folder, env={**ENV, **variables}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


class Trap:
    """A repository, and a program beside it that leaves a trace."""

    def __init__(self, tmp: Path) -> None:
        self.work = repository(tmp / "work")
        self.trace = tmp / "RAN"
        self.program = tmp / "evil"
        self.program.write_text(f"#!/bin/sh\ntouch {self.trace}\ncat\n")
        self.program.chmod(0o755)

    def config(self, text: str, path: str = ".git/config") -> None:
        with (self.work / path).open("a", newline="") as file:
            file.write(text.replace("EVIL", str(self.program)))

    def sprung(self, command: str) -> bool:
        """Whether the program runs with a command, run as it would be once it is allowed."""
        self.trace.unlink(missing_ok=True)
        run(self.work, command)
        return self.trace.exists()


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


@pytest.mark.parametrize("char", ["\x0b", "\x0c", "\r", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_comment_ends_where_git_ends_it(trap: Trap, char: str) -> None:
    trap.config(f"[diff]\n# {char}[user]{char}\n\texternal = EVIL\n")
    assert said(trap.work, "git diff") == "ask"
    assert trap.sprung("git diff")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_goes_on_where_git_goes_on(trap: Trap, end: str) -> None:
    trap.config(f"[diff]{end}\ttool = x\\{end}[user]{end}\texternal = EVIL{end}")
    assert said(trap.work, "git diff") == "ask"
    assert trap.sprung("git diff")


def _beside_an_empty_one(trap: Trap) -> None:
    (trap.work / ".git").rename(trap.work / "was")
    for path in (trap.work / "was").iterdir():
        path.rename(trap.work / path.name)
    trap.config(f"[core]\n\tbare = false\n\tworktree = {trap.work}\n[diff]\n\texternal = EVIL\n", "config")
    (trap.work / ".git").mkdir()


def _beside_half_a_one(trap: Trap) -> None:
    _beside_an_empty_one(trap)
    (trap.work / ".git/HEAD").write_text("ref: refs/heads/x\n")
    (trap.work / "HEAD").write_text("ref: refs/heads/master\n")


def _shared_from_elsewhere(trap: Trap) -> None:
    """No ``objects`` and no ``refs`` here: ``commondir`` says where they are."""
    (trap.work / ".git").rename(trap.work / "shared")
    (trap.work / "HEAD").write_text((trap.work / "shared/HEAD").read_text())
    (trap.work / "shared/index").rename(trap.work / "index")
    (trap.work / "commondir").write_text("shared\n")
    trap.config("[diff]\n\texternal = EVIL\n", "shared/config")


def _behind_a_blank(trap: Trap) -> None:
    (trap.work / ".git").rename(trap.work / "shared ")
    (trap.work / "tree").mkdir()
    for name in ("HEAD", "index"):
        (trap.work / "tree" / name).write_bytes((trap.work / "shared " / name).read_bytes())
    (trap.work / "tree/commondir").write_text(f"{trap.work}/shared \n")
    (trap.work / ".git").write_text("gitdir: tree\n")
    repository(trap.work / "shared/x")
    trap.config("[diff]\n\texternal = EVIL\n", "shared /config")


def _behind_a_tilde(trap: Trap) -> None:
    (trap.work / ".git").rename(trap.work / "~")
    (trap.work / ".git").write_text("gitdir: ~\n")
    trap.config("[diff]\n\texternal = EVIL\n", "~/config")


def _another_for_each_process(trap: Trap) -> None:
    (trap.work / ".git/config").rename(trap.work / "settings")
    trap.config("[diff]\n\texternal = EVIL\n", "settings")
    (trap.work / ".git/config").symlink_to("/proc/self/cwd/settings")


def _included(trap: Trap) -> None:
    (trap.work / "more").write_text(f"[diff]\n\texternal = {trap.program}\n")
    trap.config('[includeIf "gitdir:/"]\n\tpath = ../more\n')


def _of_one_tree(trap: Trap) -> None:
    trap.config("[extensions]\n\tworktreeConfig = true\n")
    (trap.work / ".git/config.worktree").write_text(f"[diff]\n\texternal = {trap.program}\n")


def _behind_a_link(trap: Trap) -> None:
    (trap.work / ".git").rename(trap.work.parent / "real")
    (trap.work / ".git").symlink_to("../real")
    trap.config("[diff]\n\texternal = EVIL\n")


@pytest.mark.parametrize("made", [
    _beside_an_empty_one, _beside_half_a_one, _shared_from_elsewhere, _behind_a_blank, _behind_a_tilde, _included,
    _another_for_each_process, _of_one_tree, _behind_a_link,
])  # fmt: skip
def test_a_repository_is_looked_for_as_git_looks_for_it(trap: Trap, made: Callable[[Trap], None]) -> None:
    made(trap)
    if made is _another_for_each_process and not Path("/proc/self/cwd").exists():
        pytest.skip("no /proc")
    assert said(trap.work, "git diff") == said(trap.work, "git status") == "ask"
    assert trap.sprung("git diff HEAD~ HEAD --")
    link = trap.work.parent / "link"
    link.symlink_to(trap.work)
    assert said(link, "git diff") == "ask"


FILTER = '[filter "q"]\n\tclean = EVIL\n'
READING = ("git status", "git diff", "git diff HEAD", "git diff-files", "git describe --always --dirty")
WIDER = (
    "git diff --ignore-submodules=none", "git diff --ignore-submodules=untracked", "git diff --submodule=diff",
    "git log -p --submodule=diff", "git diff-files --submodule=diff -p",
)  # fmt: skip


def with_submodule(trap: Trap, where: str = "sub") -> None:
    """One whose settings run the program, known to the index alone."""
    sub = repository(trap.work / where)
    (sub / ".gitattributes").write_text("* filter=q\n")
    git(sub.parent, "add", sub.name)
    trap.config(FILTER, f"{where}/.git/config")


@pytest.mark.parametrize("ignore", ["", "\tignore = none\n"])
def test_the_settings_of_submodules_are_those_of_the_repository(trap: Trap, ignore: str) -> None:
    with_submodule(trap)
    (trap.work / ".gitmodules").write_text(f'[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n{ignore}')
    assert {said(trap.work, command) for command in (*READING, *WIDER)} == {"ask"}
    assert trap.sprung("git diff-files")
    if ignore:
        assert trap.sprung("git status")
    (trap.work / "sub/.git/config").write_text("[core]\n\tbare = false\n")
    assert {said(trap.work, command) for command in READING} == {"allow"}
    assert {said(trap.work, command) for command in WIDER} == {"ask"}


def test_submodules_of_submodules(trap: Trap) -> None:
    repository(trap.work / "sub")
    with_submodule(trap, "sub/sub")
    git(trap.work, "add", "sub")
    (trap.work / "sub/.gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = x\n\tignore = none\n')
    (trap.work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = x\n\tignore = none\n')
    assert said(trap.work, "git status") == said(trap.work / "sub", "git status") == "ask"
    assert trap.sprung("git status")


@pytest.mark.parametrize("settings", [("index.version", "4"), ("core.splitIndex", "true")])
def test_an_index_in_another_form_hides_no_submodule(trap: Trap, settings: tuple[str, str]) -> None:
    with_submodule(trap)
    (trap.work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    git(trap.work, *("-c", "=".join(settings)), "update-index", "--force-write-index")
    assert trap.sprung("git status")
    assert said(trap.work, "git status") == "ask"


def test_an_index_of_odd_entries_hides_no_submodule(trap: Trap) -> None:
    """git looks at some bits alone of what an entry is."""
    with_submodule(trap)
    (trap.work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    index = trap.work / ".git/index"
    index.write_bytes(index.read_bytes().replace(b"\0\0\xe0\0", b"\0\1\xe1\xed"))
    assert said(trap.work, "git status") == "ask"
    assert trap.sprung("git status")
    index.write_bytes(index.read_bytes()[:200])
    assert said(trap.work, "git status") == "ask"


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="no /proc")
def test_a_folder_that_is_another_for_each_process(trap: Trap) -> None:
    evil = repository(trap.work / "evil")
    trap.config("[diff]\n\texternal = EVIL\n", "evil/.git/config")
    (trap.work / "link").symlink_to("/proc/self/cwd/evil")
    (trap.work / "out").symlink_to("/proc/self/cwd/../RAN")
    assert evil.exists() and trap.sprung("cd link && git diff")
    assert said(trap.work, "cd link && git diff") == said(trap.work, "git -C link diff") == "ask"
    assert said(trap.work, "cat out", sandbox="off") == said(trap.work, "touch out", "touch out") == "ask"


def test_a_file_that_looks_like_a_submodule_to_nobody(trap: Trap) -> None:
    """Bytes of an index that are no entry, and a folder with a .git that is none: nothing of it is asked about."""
    (trap.work / "g\x01\u00e0").write_text("x" * 0xE000)
    git(trap.work, "add", ".")
    with_evil = repository(trap.work / "untracked")
    (with_evil / ".git/config").write_text("[diff]\n\texternal = x\n")
    assert {said(trap.work, command) for command in READING} == {"allow"}
    assert said(trap.work, "cd untracked && git diff") == said(trap.work, "git -C untracked diff") == "ask"


HOOK = "post-index-change"


@pytest.mark.parametrize("command", ["git diff", "git diff HEAD", "git describe --always --dirty", "git diff > seen"])
def test_what_only_reads_runs_no_hook(trap: Trap, command: str) -> None:
    """Also where git writes down what it found out about its files."""
    hook = trap.work / ".git/hooks" / HOOK
    hook.write_text(trap.program.read_text())
    hook.chmod(0o755)
    (trap.work / "f").write_text("1\n")
    os.utime(trap.work / "f", (1, 1))
    mode = "edits" if ">" in command else "ask"
    assert said(trap.work, command, mode=mode, sandbox="off") == "allow"
    assert not trap.sprung(command)
    os.utime(trap.work / "f", (2, 2))
    git(trap.work, *command.partition(" >")[0].split()[1:])
    assert trap.trace.exists()


# beside what a rule allows


def test_a_rule_speaks_of_its_own_part_alone(trap: Trap) -> None:
    """What stands beside it is looked at as if it stood alone, and git is quiet there and nowhere else."""
    script = trap.work / "run.sh"
    script.write_text('#!/bin/sh\necho "[$GIT_PAGER$GIT_CONFIG_PARAMETERS]" > seen\n')
    script.chmod(0o755)
    hook = trap.work / ".git/hooks" / HOOK
    hook.write_text(trap.program.read_text())
    hook.chmod(0o755)
    for command in ("git diff; ./run.sh", "git diff | head && ./run.sh", "./run.sh; ( git diff )", "ls; ./run.sh"):
        assert said(trap.work, command, "./run.sh") == "allow", command
        (trap.work / "f").write_text("1\n")
        os.utime(trap.work / "f", (1, 1))
        (trap.work / "seen").unlink(missing_ok=True)
        assert not trap.sprung(command)
        assert (trap.work / "seen").read_text() == "[]\n"
    for command in ("for i in a b; do git diff; done; ./run.sh", "git diff <<E; ./run.sh\nE"):
        assert said(trap.work, command, "./run.sh") == "ask", command
    trap.config("[diff]\n\texternal = EVIL\n")
    (trap.work / "f").write_text("3\n")
    for command in ("git diff; ./run.sh", "./run.sh && git diff", "git diff | head; ./run.sh", "ls | xargs git diff; ./run.sh"):
        assert said(trap.work, command, "./run.sh") == "ask", command
    assert trap.sprung("git diff; ./run.sh")
    assert said(trap.work, "git diff; touch x", "touch x") == "ask"
    assert said(trap.work, "git diff > x", mode="edits", sandbox="off") == "ask"
    assert said(trap.work, "./run.sh; ls", "./run.sh") == "allow"


@pytest.mark.parametrize(("allowed", "command"), [
    ("make", "cd /tmp && make"), ("./run.sh", "cd .. && ./run.sh"), ("npm test", "cd sub; npm test"), ("pytest", "(cd /tmp; pytest)"),
    ("make", "if cd sub; then make; fi"), ("make", "cd sub || make"), ("git status", "cd /tmp; git status"), ("make", "ls && cd sub && make"),
    ("git status", "cd .. && git status"), ("git pull", "cd sub && git pull"), ("make", "for i in a; do cd sub; make; done"),
])  # fmt: skip
def test_a_rule_without_a_folder_means_the_working_folder(tmp_path: Path, allowed: str, command: str) -> None:
    assert said(tmp_path, command, allowed) == "ask"
    for fine in (allowed, f"cd . && {allowed}", f"(cd sub && ls); {allowed}", f"{allowed}; cd sub"):
        assert said(tmp_path, fine, allowed) == "allow", fine


def test_a_rule_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    work, out = tmp_path / "work", tmp_path / "out"
    out.mkdir()
    (work / "build").symlink_to(out)
    (work / "pipe").symlink_to(out / "x")
    (work / "src").mkdir()
    (out / "x").touch()
    for sandbox in ("find", "off"):
        for command in ("touch build/x", "cp a build/x", "mkdir build/y", "rm build/x"):
            assert said(work, command, command, sandbox=sandbox) == "ask", command
        assert said(work, "touch src/x", "touch src/x", sandbox=sandbox) == "allow"
    for command in ("cat /etc/passwd; npm test", "npm test < /etc/passwd", "cat pipe; npm test", "cat $x | head; npm test"):
        assert said(work, command, "npm test", sandbox="off") == "ask", command
        assert said(work, command, "npm test") == "allow"


# ordinary ones


def test_ordinary_repositories_are_read_unasked(tmp_path: Path) -> None:
    """A clone with submodules, a second working tree, and the settings that tools leave."""
    library = repository(tmp_path / "library")
    app = repository(tmp_path / "app")
    git(app, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    git(app, "commit", "-qam", "lib")
    git(tmp_path, "-c", "protocol.file.allow=always", "clone", "-q", "--recurse-submodules", "app", "clone")
    clone = tmp_path / "clone"
    git(clone, "worktree", "add", "-q", "../tree")
    git(clone, "config", "core.hooksPath", ".husky")
    git(clone, "config", "user.name", "J\u00fcrgen K\u00f6nig")
    git(clone, "config", "remote.origin.gh-resolved", "base")
    git(clone, "checkout", "-q", "--detach")
    (clone / "src").mkdir()
    (clone / "lib/f").write_text("3\n")
    commands = (*READING, "git log -p -1", "git show", "git blame f", "git branch -a", "git stash list", "git -C . status",
                "git config user.name", "git remote show", "git remote get-url origin", "git cherry", "git show-branch")  # fmt: skip
    for folder in (clone, clone / "src", clone / "lib", tmp_path / "tree", app, app / "lib"):
        assert {said(folder, command) for command in commands} == {"allow"}, folder
    for command in ("cd src && git status", "cd lib && git log", "(cd lib && git diff)", "git -C lib diff", "cd lib && ls && git show"):
        assert said(clone, command) == said(clone, command, sandbox="off") == "allow", command
        assert run(clone, command).returncode == 0, command
    assert "3" in run(clone, "git -C lib diff").stdout
    trap = Trap(tmp_path / "trap")
    trap.config(f"[diff]\n\texternal = {trap.program}\n")
    (clone / "lib/evil").symlink_to(trap.work)
    for command in ("cd lib/evil && git diff", "git -C lib/evil diff", "cd lib && git -C evil diff"):
        assert said(clone, command) == "ask", command


@pytest.mark.parametrize("command", [
    "for i in 1 2; do git diff; cd sub; done", "cd sub && false && cd ..; git diff", "if ! cd sub; then :; else git diff; fi",
    "cd sub && cd nowhere && cd ../..; git diff", "cd sub || :; git diff", "while git diff; do cd sub || break; done",
    "{ cd sub; } && git diff", "cd sub; cd . && git diff",
])  # fmt: skip
def test_the_folder_that_git_reads_is_the_one_it_is_in(trap: Trap, command: str) -> None:
    """What is said of a folder is of none that a line may be in instead."""
    repository(trap.work / "sub")
    trap.config("[diff]\n\texternal = EVIL\n", "sub/.git/config")
    assert said(trap.work, "git diff") == "allow"
    assert said(trap.work, command) == said(trap.work, f"make; {command}", "make") == "ask"
    assert trap.sprung(command)
    assert said(trap.work, command.replace("git diff", "make"), "make") == "ask"


@pytest.mark.parametrize("command", ["true || cd sub && git diff", "! cd sub/x && git diff", "if cd sub/x; then :; else git diff; fi"])
def test_nor_one_that_it_may_not_be_in(trap: Trap, command: str) -> None:
    repository(trap.work / "sub")
    trap.config("[diff]\n\texternal = EVIL\n")
    assert said(trap.work / "sub", "git diff") == "allow"
    assert said(trap.work, command) == "ask"
    assert trap.sprung(command)


SAYS = r"""
for word; do printf '<%s>' "$word"; done; [ -t 0 ] || timeout 1 cat; echo err >&2; exit 3
"""


@pytest.mark.parametrize("line", [
    "ls; ./say 'a b' c\\ d \"e\\$f\" '' \\*", "echo x | ./say -n '*' 2>&1 | sort", "./say ~ ~/x a~ && ls || ./say no > /dev/null",
    "! ./say x | cat; echo $?", "( cat f; ./say 'it'\\''s' ) | tr a b", "echo \"$(cat f)\" | ./say {} a=b ']' if", "ls -d */ f?; ./say # x\necho y",
    "./say <<< 'a b' 2> /dev/null; cat f", "cat f && ./say $'a\\tb' \\\n c; ls",
])  # fmt: skip
def test_a_line_that_is_written_again_means_the_same(tmp_path: Path, line: str) -> None:
    (tmp_path / "say").write_text(f"#!/bin/sh\n{SAYS}")
    (tmp_path / "say").chmod(0o755)
    (tmp_path / "f").write_text("abc\n")
    text, _ = as_judged(line)
    assert text != line
    one, two = (
        subprocess.run(["bash", "-c", t], cwd=tmp_path, env=ENV, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        for t in (line, text)
    )
    assert (one.returncode, one.stdout, one.stderr) == (two.returncode, two.stdout, two.stderr), text


def test_a_folder_that_the_same_line_puts_there_is_not_read_unasked(trap: Trap) -> None:
    with_submodule(trap, "evil")
    for command in ("mv evil x && cd x && git status", "cp -r evil x && git -C x diff"):
        assert said(trap.work, command, mode="edits", sandbox="off") == "ask"


@pytest.mark.parametrize(("setting", "asked"), [
    ("format.pretty=%h %s", False), ("format.pretty=%h %G?", True), ("format.pretty=%h %+GK", True), ("tag.sort=-signature", True),
    ("branch.sort=-committerdate", False), ("log.showSignature=true", True), ("log.showSignature=false", False),
    ("diff.submodule=log", False), ("diff.submodule=diff", True), ("status.submoduleSummary=true", True), ("core.worktree=..", False),
    ("core.worktree=../..", True), ("core.fsmonitor=x", True), ("user.name=a \"b\" # c", False), ("pretty.x=%G?", True),
])  # fmt: skip
def test_settings_by_their_value(trap: Trap, setting: str, asked: bool) -> None:
    git(trap.work, "config", *setting.split("=", 1))
    assert said(trap.work, "git log") == ("ask" if asked else "allow")
