"""What a command leaves in the working folder that other programs would obey, and that nobody is led out of it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas.infra.jobs import Jobs
from orkas.infra.process import attempt, launch
from orkas.infra.sandbox import Restorer, profile
from orkas.infra.sandbox.beneath import Beneath, Seen
from orkas.infra.sandbox.gitconfig import entries
from orkas.infra.sandbox.protected import MOST_MOUNTS
from orkas.infra.sandbox.repositories import search
from orkas.tools.shell_job import ShellJob
from sandboxes import Walled, backend, linux

pytestmark = linux
EVIL = "[core]\\n\\tfsmonitor = evil\\n"


@pytest.fixture(params=["bubblewrap", "landlock"])
def walled(request: pytest.FixtureRequest, tmp_path: Path) -> Walled:
    return Walled(tmp_path, backend(request.param))


@pytest.fixture
def wrapped(tmp_path: Path) -> Walled:
    return Walled(tmp_path, backend("bubblewrap"))


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A git folder of somebody else; it stays as it is."""
    folder = tmp_path / "elsewhere"
    (folder / "hooks").mkdir(parents=True)
    (folder / "hooks" / "theirs").write_text("theirs")
    for name in ("config", "HEAD"):
        (folder / name).write_text(name)
    before = _all(folder)
    yield folder
    assert _all(folder) == before


def _all(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def git(command: str, cwd: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    subprocess.run(command, shell=True, cwd=cwd, check=True, capture_output=True)


# never out of the working folder


async def test_a_link_that_is_turned_elsewhere_leads_nobody_out(walled: Walled, outside: Path) -> None:
    await walled.run("mkdir g1 sub; ln -s ../g1 sub/.git")
    text = await walled.text(f"ln -sfn {outside} sub/.git")
    assert "sub/.git is not for commands to change" in text
    assert os.readlink(walled.work / "sub/.git") == "../g1"


async def test_a_new_link_out_of_the_folder_is_set_aside(walled: Walled, outside: Path) -> None:
    text = await walled.text(f"mkdir a b c; ln -s {outside} a/.git; echo gitdir: {outside} > b/.git; ln -s {outside.parent} up")
    assert "a/.git leads out of the working folder" in text and "b/.git leads out" in text
    assert not os.path.lexists(walled.work / "a/.git") and not (walled.work / "b/.git").exists()


@pytest.mark.parametrize("path", ["lnk/config", "lnk/hooks", "e/lnk/config", "file/config", "missing/config"])
def test_no_step_beneath_is_ever_a_link(tmp_path: Path, outside: Path, path: str) -> None:
    work = tmp_path / "work"
    (work / "e").mkdir(parents=True)
    (work / "file").write_text("x")
    for link in (work / "lnk", work / "e" / "lnk"):
        link.symlink_to(outside)
    with Beneath(work) as beneath:
        assert beneath.seen(work / path).kind == "missing"
        assert beneath.names((work / path).parent) == [] and beneath.places(work / path) == []
        for change in (beneath.set_aside, lambda p: beneath.write(p, Seen("file", 0o644, b"evil"))):
            with pytest.raises(OSError):
                change(work / path)
        beneath.clear_the_way(work / path)
        assert beneath.write(work / path, Seen("file", 0o600, b"ours"))
    assert (work / path).read_bytes() == b"ours"


def test_while_a_folder_and_a_link_change_places_all_the_time(tmp_path: Path, outside: Path) -> None:
    """The kernel exchanges them in one step; whoever goes by path is led out sooner or later."""
    libc = ctypes.CDLL(None)
    work = tmp_path / "work"
    (work / "e" / ".git" / "hooks").mkdir(parents=True)
    for name in ("objects", "refs"):
        (work / "e" / ".git" / name).mkdir()
    (work / "e" / ".git" / "HEAD").write_text("x")
    (work / "e" / ".git" / "config").write_text("[core]\n")
    (work / "lnk").symlink_to(outside)
    over = threading.Event()

    def exchange() -> None:
        while not over.is_set():
            libc.renameat2(-100, os.fsencode(work / "e/.git"), -100, os.fsencode(work / "lnk"), 2)

    thread = threading.Thread(target=exchange)
    made = profile(work)
    thread.start()
    try:
        for number in range(150):
            restorer = Restorer(made, everything=True, notes=[])
            for git in (work / "e/.git", work / "lnk"):
                if not git.is_symlink():
                    with Beneath(work) as beneath:
                        try:
                            if beneath.seen(git / "config").kind == "file":
                                beneath.set_aside(git / "config")
                            beneath.write(git / "config", Seen("file", 0o644, b"evil %d" % number))
                        except OSError:
                            continue
            restorer.settle()
    finally:
        over.set()
        thread.join()


async def test_what_is_exchanged_while_the_sandbox_is_made_is_not_started(wrapped: Walled, outside: Path) -> None:
    git("git init -q sub", wrapped.work)
    made = profile(wrapped.work)
    walls = backend("bubblewrap").wrap(made)
    (wrapped.work / "sub/.git").rename(wrapped.work / "moved")
    shutil.copytree(outside, wrapped.work / "sub/.git")
    code, said = attempt(launch("touch ran", cwd=wrapped.work, wrapping=walls), 10)
    assert code != 0 and (b"was exchanged" in said or b"bwrap" in said)
    assert not (wrapped.work / "ran").exists()


async def test_a_working_folder_that_became_a_link_is_not_followed(walled: Walled, outside: Path) -> None:
    await walled.run("true")
    shutil.rmtree(walled.work)
    walled.work.symlink_to(outside)
    with pytest.raises(Exception, match="leads to"):
        await walled.run("touch here")


# what git takes for a git folder

FOLDERS = {
    # what is there, what the command does, a file that must not say evil then
    "bare, new": ("", f"mkdir -p s/objects s/refs; echo ref: refs/heads/m > s/HEAD; printf '{EVIL}' > s/config", "s/config"),
    "bare, there": ("git init -q --bare s", f"printf '{EVIL}' >> s/config", "s/config"),
    "by a file": ("git init -q --bare .b; echo gitdir: ./.b > .git", f"printf '{EVIL}' >> .b/config", ".b/config"),
    "by a file, hooks": ("git init -q --bare .b; echo gitdir: ./.b > .git", "echo evil > .b/hooks/pre-commit", ".b/hooks/pre-commit"),
    "by a link": ("git init -q --bare gd; ln -s gd .git", f"printf '{EVIL}' >> gd/config", "gd/config"),
    "elsewhere": ("git init -q --separate-git-dir=gd e", f"printf '{EVIL}' >> gd/config", "gd/config"),
    "shared": ("", f"mkdir -p s c/objects c/refs; echo x > s/HEAD; echo ../c > s/commondir; printf '{EVIL}' > c/config", "c/config"),
    "in dist": ("git init -q dist", "echo evil > dist/.git/hooks/post-commit", "dist/.git/hooks/post-commit"),
    "in node_modules": ("mkdir -p node_modules/x; git init -q node_modules/x", f"printf '{EVIL}' >> node_modules/x/.git/config", "node_modules/x/.git/config"),
    "new in target": ("", f"git init -q target; printf '{EVIL}' >> target/.git/config", "target/.git/config"),
    "submodule, new": ("", f"git init -q r; git init -q --bare r/.git/modules/s; printf '{EVIL}' >> r/.git/modules/s/config", "r/.git/modules/s/config"),
    "hooks by a link": ("git init -q .; rm -rf .git/hooks; mkdir gh; ln -s ../gh .git/hooks", "echo evil > gh/pre-commit", "gh/pre-commit"),
    "editor by a link": ("mkdir conf; ln -s conf .vscode", "echo evil > conf/tasks.json", "conf/tasks.json"),
    "settings by a link": ("git init -q .; mv .git/config c; ln -s ../c .git/config", f"printf '{EVIL}' >> c", "c"),
    "editor by two links": ("mkdir conf evil; echo evil > evil/tasks.json; ln -s conf b; ln -s b .vscode", "ln -sfn evil b", ".vscode/tasks.json"),
    "file through a link": ("git init -q --bare gd; ln -s . a; echo gitdir: a/gd > .git; git init -q --bare e/gd; git -C e/gd config core.fsmonitor evil", "ln -sfn e a", "a/gd/config"),
    "hooks of a tree elsewhere": ("git init -q --separate-git-dir=gd e; git -C e config core.hooksPath gh; mkdir e/gh", "echo evil > e/gh/pre-commit", "e/gh/pre-commit"),
    "no config yet": ("git init -q r; rm r/.git/config", f"printf '{EVIL}' > r/.git/config", "r/.git/config"),
    "no head yet": ("mkdir -p r/.git/objects r/.git/refs", f"echo x > r/.git/HEAD; printf '{EVIL}' > r/.git/config", "r/.git/config"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOLDERS)
async def test_git_obeys_nothing_that_a_command_wrote(walled: Walled, case: str) -> None:
    there, command, file = FOLDERS[case]
    git(there or "true", walled.work)
    await walled.run(command)
    path = walled.work / file
    assert not path.exists() or "evil" not in path.read_text()


# worktrees and submodules that a command made

MADE = "git init -q -b main .; git config user.email a@b; git config user.name a; echo x > f; git add f; git commit -qm one"
LIB = MADE + "; git init -q -b main lib; cd lib; git config user.email a@b; git config user.name a; echo lib > f; git add f; git commit -qm l"
AS = "git -c user.email=a@b -c user.name=a"
ADD = "git -c protocol.file.allow=always submodule --quiet add ./lib sub"


def said_by_git(command: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(command, shell=True, cwd=cwd, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


async def test_a_worktree_goes_on_working(walled: Walled) -> None:
    git(MADE, walled.work)
    for name in ("one", "two"):
        assert "set-aside" not in await walled.text(f"git worktree add -q trees/{name} -b {name}")
        for number in range(2):
            text = await walled.text(f"cd trees/{name} && echo {number} > n && git add n && git commit -qm 'n {number}' && git log --oneline")
            assert f"n {number}\n" in text and text.endswith("[exit code 0]") and "set-aside" not in text
        assert said_by_git("git status --short && git log --oneline", walled.work / "trees" / name)[0] == 0
    assert said_by_git("git worktree list", walled.work)[1].count("\n") == 3


async def test_a_rebase_in_a_worktree_goes_on(walled: Walled) -> None:
    git(MADE + "; git worktree add -q wt -b b", walled.work)
    stop = "GIT_SEQUENCE_EDITOR=\"sed -i '1i break'\" git rebase -q -i HEAD~1"
    await walled.run(f"cd wt; git commit -q --allow-empty -m two; {stop}")
    assert (walled.work / ".git/worktrees/wt/rebase-merge/git-rebase-todo").exists()
    assert (await walled.text("cd wt; git rebase --continue")).endswith("[exit code 0]")


async def test_a_submodule_goes_on_working(walled: Walled) -> None:
    git(LIB, walled.work)
    await walled.run(ADD)
    assert "path = sub" in (walled.work / ".gitmodules").read_text()
    for number in range(2):
        text = await walled.text(f"cd sub && {AS} commit -q --allow-empty -m 'n {number}' && git log --oneline")
        assert f"n {number}\n" in text and text.endswith("[exit code 0]") and "set-aside" not in text
    assert "worktree = ../../../sub" in (walled.work / ".git/modules/sub/config").read_text()
    assert said_by_git("git -C ../.git/modules/sub status && git log --oneline", walled.work / "sub")[0] == 0
    assert " sub (heads/main)\n" in said_by_git("git submodule --quiet init && git submodule status", walled.work)[1]


TREE = "git worktree add -q wt -b b; "
CASES = {
    # what is there, what the command does; %s is a git folder outside that makes git run a program
    "commondir elsewhere": (MADE, TREE + "cp -r .git e; printf '%t' >> e/config; echo ../../../e > .git/worktrees/wt/commondir"),
    "commondir outside": (MADE, TREE + "echo %s > .git/worktrees/wt/commondir"),
    "commondir is a link": (MADE, TREE + "echo %s > c; ln -sf ../../../c .git/worktrees/wt/commondir"),
    "its own name when set aside": (MADE, TREE + "echo %s > .git/worktrees/wt/commondir; echo gitdir: ../.git/worktrees/wt.set-aside > wt/.git"),
    "named as set aside": (MADE, TREE + "mv .git/worktrees/wt .git/worktrees/wt.set-aside; echo %s > .git/worktrees/wt.set-aside/commondir; echo gitdir: ../.git/worktrees/wt.set-aside > wt/.git"),
    "set aside in a row": (MADE, "mkdir a b c d; ln -s %s a/.git; for i in a:b b:c c:d; do ln -s ../${i%%:*}/.git.set-aside ${i#*:}/.git; done"),
    "settings of a worktree": (MADE + "; git config extensions.worktreeConfig true", TREE + "printf '%t' > .git/worktrees/wt/config.worktree"),
    "settings in place of commondir": (MADE, TREE + "cd .git/worktrees/wt; rm commondir; cp -r ../../objects ../../refs .; printf '%t' > config"),
    "worktree by a link": (MADE, TREE + "mv .git/worktrees/wt e; echo %s > e/commondir; ln -s ../../e .git/worktrees/wt"),
    "worktrees by a link": (MADE, TREE + "mv .git/worktrees w; echo %s > w/wt/commondir; ln -s ../w .git/worktrees"),
    "worktrees by a link outside": (MADE, "mkdir wt; ln -s %s/../.. .git/worktrees; echo gitdir: ../.git/worktrees/elsewhere/.git > wt/.git"),
    "work tree of somebody else": (LIB, ADD + "; git -C sub config core.worktree %s/.."),
    "settings of a submodule": (LIB, ADD + "; printf '%t' >> .git/modules/sub/config"),
    "hooks of a submodule": (LIB, ADD + "; printf '#!/bin/sh\n%r\n' > .git/modules/sub/hooks/post-commit; chmod +x .git/modules/sub/hooks/post-commit"),
    "commondir of a submodule": (LIB, ADD + "; echo %s > .git/modules/sub/commondir"),
    "submodule of a submodule": (LIB, ADD + "; mkdir -p .git/modules/sub/modules wt; cp -r .git/modules/sub .git/modules/in; mv .git/modules/in .git/modules/sub/modules/in; printf '%t' > .git/modules/sub/modules/in/config; echo gitdir: ../.git/modules/sub/modules/in > wt/.git"),
    "deep": (LIB, "p=.git/modules$(printf '/d%.0s' $(seq 60)); mkdir -p $p wt; cp -r lib/.git $p/g; printf '%t' >> $p/g/config; echo gitdir: ../$p/g > wt/.git"),
    "a crowd before it": (LIB, "mkdir -p .git/modules wt; (cd .git/modules; mkdir $(seq 21000)); cp -r lib/.git .git/modules/z; printf '%t' >> .git/modules/z/config; echo gitdir: ../.git/modules/z > wt/.git"),
    "where nobody can list": (LIB, "mkdir -p .git/modules wt; cp -r lib/.git .git/modules/z; printf '%t' >> .git/modules/z/config; echo gitdir: ../.git/modules/z > wt/.git; chmod 111 wt .git/modules"),
    "hooks nobody can list": (LIB, "cp -r lib wt; printf '#!/bin/sh\n%r\n' > wt/.git/hooks/post-commit; chmod +x wt/.git/hooks/post-commit; chmod 111 wt/.git/hooks"),
    "a worktree that was there": (MADE + "; " + TREE, "echo %s > .git/worktrees/wt/commondir; printf '%t' > .git/worktrees/wt/config.worktree"),
    "exchanged": (MADE + "; " + TREE, "mv .git/worktrees/wt w; mkdir -p .git/worktrees; cp -r w .git/worktrees/wt; echo %s > .git/worktrees/wt/commondir; mv .git/worktrees v; cp -r v .git/worktrees"),
    "steps of a rebase": (MADE + "; " + TREE, "cd wt; git commit -q --allow-empty -m two; GIT_SEQUENCE_EDITOR=\"sed -i '1i break'\" git rebase -q -i HEAD~1; echo ' exec %r' >> ../.git/worktrees/wt/rebase-merge/git-rebase-todo"),
    "steps by a link": (MADE + "; " + TREE, "cd wt; git commit -q --allow-empty -m two; GIT_SEQUENCE_EDITOR=\"sed -i '1i break'\" git rebase -q -i HEAD~1; cd ../.git/worktrees/wt; mv rebase-merge ../../r; ln -s ../../r rebase-merge; echo 'x %r' >> rebase-merge/git-rebase-todo"),
    "a submodule that was there": (LIB + "; cd ..; " + ADD, "printf '%t' >> .git/modules/sub/config; mv .git/modules m; cp -r m .git/modules; printf '#!/bin/sh\n%r\n' > .git/modules/sub/hooks/post-commit; chmod +x .git/modules/sub/hooks/post-commit"),
}  # fmt: skip


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A git folder outside whose settings make git run a program, which leaves a mark."""
    ran = tmp_path / "ran"
    git("git init -q elsewhere; cd elsewhere; git -c user.email=a@b -c user.name=a commit -q --allow-empty -m t", tmp_path)
    folder = tmp_path / "elsewhere" / ".git"
    with (folder / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = touch {ran}; false\n")
    git("git status", tmp_path / "elsewhere")
    assert ran.exists(), "it snaps"
    ran.unlink()
    (tmp_path / "elsewhere" / "f").write_text("theirs")
    return folder


def _git_everywhere(work: Path) -> None:
    """Whatever one may do with git in any folder of it."""
    for folder in [work, *(path for path in work.rglob("*") if path.is_dir() and not path.is_symlink())]:
        parts = folder.relative_to(work).parts
        if len(parts) < 7 and not (parts and parts[-1].isdigit()) and not {"objects", "refs", "logs", "d"} & set(parts):
            said_by_git("git status; git stash list; git rebase --continue; git checkout -f; " + AS + " commit -q --allow-empty -m x", folder)


@pytest.mark.parametrize("case", CASES)
async def test_no_worktree_and_no_submodule_makes_git_run_anything(walled: Walled, trap: Path, case: str) -> None:
    there, command = CASES[case]
    git(there.replace("%s", str(trap)), walled.work)
    ran = trap.parent.parent / "ran"
    evil = f"[core]\\n\\tfsmonitor = touch {ran}; false\\n"
    command = command.replace("%s", str(trap)).replace("%t", evil).replace("%r", f"touch {ran}").replace("%%", "%")
    await walled.run(command)
    _git_everywhere(walled.work)
    assert not ran.exists()
    assert (trap.parent / "f").read_text() == "theirs"


async def test_a_worktree_that_cannot_stay_is_told_with_the_way(walled: Walled) -> None:
    git(MADE, walled.work)
    for name, command in (("wt", TREE + "echo ../../. > .git/worktrees/wt/commondir"), ("away", "git worktree add -q $TMPDIR/away -b c")):
        text = await walled.text(command)
        assert f".git/worktrees/{name} is not for commands to make; it lies in {name}.set-aside" in text
        assert "the worktree does not work any more; with outside: true git may make it, and the user is asked" in text


SUBMODULES = {
    "path = ../up": False, "path = a/../../up": False, "path = ..;a": False, "path = .git/hooks": False, "path = /tmp/x": False, "path = -x": False,
    "path = a\n\tupdate = !evil": False, "url = ext::evil": False, "url = -oProxyCommand=evil": False, "url = ssh://-oProxyCommand=evil/x": False,
    'path = "../up"': False, "path = a\n[core]\n\tpath = b": False, "path = a/b.c\n\turl = https://h/r.git\n\tbranch = main": True,
}  # fmt: skip


@pytest.mark.parametrize("lines", SUBMODULES)
async def test_names_of_submodules_stay_when_they_are_nothing_else(wrapped: Walled, lines: str) -> None:
    await wrapped.run(f"cat > .gitmodules <<'X'\n[submodule \"a\"]\n\t{lines}\nX")
    assert (wrapped.work / ".gitmodules").exists() == SUBMODULES[lines]
    assert (wrapped.work / ".gitmodules.set-aside").exists() != SUBMODULES[lines]


async def test_a_name_of_many_bytes_is_set_aside_too(walled: Walled) -> None:
    git(MADE, walled.work)
    name = "ü" * 127
    await walled.run(f"git worktree add -q wt -b b; mv .git/worktrees/wt .git/worktrees/{name}; echo /x > .git/worktrees/{name}/commondir")
    assert os.listdir(walled.work / ".git/worktrees") == ["ü" * 100 + ".set-aside"]


HOOKS = ["[core] hooksPath = gh", "[core]\n\thooksPath = gh ; c", "[core]\n\thooksPath = ./gh/", '[core]\n\thooksPath = "gh" # c',
         "[core]\n\thooksPath = none\n\thooksPath = gh", "[CORE]\n\tHOOKSPATH=g\\\nh", "[include]\n\tpath = ../inc",
         "[core]\n\thooksPath = dir/link/gh", '[includeIf "gitdir:~/x"]\n\tpath = ../inc', "[core]\n\thooksPath = link"]  # fmt: skip


@pytest.mark.parametrize("setting", HOOKS)
async def test_hooks_are_held_wherever_the_settings_name_them(walled: Walled, setting: str) -> None:
    git("git init -q .; mkdir gh; echo fine > gh/pre-commit; printf '[core]\\n hooksPath = gh\\n' > inc; ln -s gh link; mkdir -p dir/o/gh; ln -s .. dir/link; echo evil > dir/o/gh/pre-commit", walled.work)
    with (walled.work / ".git/config").open("a") as file:
        file.write(setting + "\n")
    await walled.run("ln -sfn o dir/link; echo evil > gh/pre-commit; mv gh g; mkdir gh; echo evil > gh/pre-commit; printf '[core]\\n fsmonitor=evil' > inc")
    assert (walled.work / "gh/pre-commit").read_text() == "fine\n"
    assert (walled.work / "dir/link/gh/pre-commit").read_text() == "fine\n" or "dir/" not in setting
    assert "inc" not in setting or "evil" not in (walled.work / "inc").read_text()


async def test_hooks_that_the_users_own_settings_name(walled: Walled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    monkeypatch.setenv("HOME", str(home))
    git("git init -q .; mkdir .githooks; echo fine > .githooks/pre-commit", walled.work)
    await walled.run("echo evil > .githooks/pre-commit")
    assert (walled.work / ".githooks/pre-commit").read_text() == "fine\n"


async def test_a_crowd_of_files_hides_no_repository(walled: Walled) -> None:
    git("git init -q .; mkdir pkgs; git init -q pkgs/sub", walled.work)
    await walled.run("mkdir x; for i in $(seq 9000); do : > a$i; done; git init -q pkgs/new; echo evil > pkgs/new/.git/hooks/post-commit")
    assert not (walled.work / "pkgs/new/.git/hooks/post-commit").exists()
    await walled.run("echo evil > pkgs/sub/.git/hooks/post-commit; echo evil > pkgs/new/.git/hooks/post-commit")
    for name in ("sub", "new"):
        assert not (walled.work / f"pkgs/{name}/.git/hooks/post-commit").exists()


async def test_many_repositories_are_few_mounts_and_all_are_guarded(wrapped: Walled) -> None:
    for number in range(700):
        folder = wrapped.work / f"r{number:03}" / ".git"
        for name in ("hooks", "objects", "refs"):
            (folder / name).mkdir(parents=True)
        for name in ("HEAD", "config"):
            (folder / name).write_text("")
    made = profile(wrapped.work)
    assert len(search(wrapped.work).folders) == 700
    words = backend("bubblewrap").wrap(made).inputs[0].split(b"\0")
    assert sum(word in (b"--bind", b"--ro-bind") for word in words) < MOST_MOUNTS + 100
    await wrapped.run("for r in r000 r350 r699; do echo evil >> $r/.git/config; echo evil > $r/.git/hooks/pre-commit; done")
    for name in ("r000", "r350", "r699"):
        assert (wrapped.work / name / ".git/config").read_text() == ""
        assert not (wrapped.work / name / ".git/hooks/pre-commit").exists()


async def test_names_to_set_aside_are_never_used_up(walled: Walled) -> None:
    numbers = "'' " + " ".join(f"-{n}" for n in range(2, 400))
    text = await walled.text(f"for i in {numbers}; do : > .envrc.set-aside$i; done; echo evil > .envrc")
    assert not (walled.work / ".envrc").exists()
    assert ".envrc is not for commands to make; it lies in .envrc.set-aside-" in text


async def test_what_a_job_changed_is_not_how_it_was_for_who_begins_meanwhile(walled: Walled) -> None:
    git("git init -q .", walled.work)
    walled.context.jobs = Jobs()
    before = (walled.work / ".git/config").read_bytes()
    await walled.run(
        f"mkdir x; ln -s x .claude; printf '{EVIL}' >> .git/config; git init -q new; printf '{EVIL}' >> new/.git/config;"
        " touch made; sleep 60",
        background=True,
    )
    await until(walled.work / "made")
    other = asyncio.create_task(walled.run("touch began; until [ -e go ]; do sleep 0.02; done"))
    await until(walled.work / "began")
    [job] = walled.context.jobs.listed()
    job.stop(0)
    assert await asyncio.to_thread(job.wait, 10)
    (walled.work / "go").touch()
    await other
    assert (walled.work / ".git/config").read_bytes() == before
    assert not os.path.lexists(walled.work / ".claude")
    assert "evil" not in (walled.work / "new/.git/config").read_text()


async def until(path: Path) -> None:
    give_up = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


# the home as the working folder


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_in_the_home_no_new_name_with_a_dot_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    walled = Walled(tmp_path, backend(name))
    home = walled.work
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "bashrc").write_text("fine\n")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    (home / ".config").mkdir()
    monkeypatch.setenv("HOME", str(home))
    await walled.run(
        "mkdir -p .ssh .local/bin; echo evil > .ssh/authorized_keys; echo evil > .bash_aliases; echo evil > .netrc;"
        " echo evil > .local/bin/ls; echo evil > .bashrc; rm -f .bashrc; echo evil > .bashrc; echo evil > dotfiles/bashrc"
    )
    left = {entry for entry in os.listdir(home) if entry.startswith(".") and "set-aside" not in entry}
    assert left == {".bashrc", ".config"}
    assert (home / ".bashrc").is_symlink() and (home / "dotfiles/bashrc").read_text() == "fine\n"


async def test_our_own_folder_cannot_be_made_in_our_stead(walled: Walled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(walled.work / "deep" / "state"))
    await walled.run("mkdir -p deep/state; echo 'sandbox = \"off\"' > deep/state/config.toml; mv deep d2; mkdir -p deep/state; echo x > deep/state/config.toml")
    assert not (walled.work / "deep/state/config.toml").exists()


# how the command ended cannot be forged

FORGE = "for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in pipe:*) echo %s > $f;; esac; done 2>/dev/null; "


@pytest.mark.parametrize("word", ["0", "garbage", "-5x", "-2000"])
async def test_the_end_of_a_command_cannot_be_forged(walled: Walled, word: str) -> None:
    text = await walled.text("echo evil > .envrc; " + FORGE % word + "exit 7")
    assert text.endswith("[exit code 7]")
    assert not (walled.work / ".envrc").exists()


async def test_the_end_of_a_job_cannot_be_forged(walled: Walled) -> None:
    walled.context.jobs = Jobs()
    await walled.run("echo evil > .envrc; " + FORGE % "x" + "exit 7", background=True)
    [job] = walled.context.jobs.listed()
    await ShellJob().run({"action": "read", "job": job.name, "wait_s": 10}, walled.context)
    assert job.wait(10) and job.ended is not None and job.ended.code == 7
    assert not (walled.work / ".envrc").exists()


async def test_nobody_opens_the_memory_of_the_launcher(wrapped: Walled) -> None:
    text = await wrapped.text("(exec 3<>/proc/1/mem) && echo open; ls -l /proc/1/fd | grep -c pipe; cat /proc/1/environ && echo read; true")
    assert "open\n" not in text and "read\n" not in text and "\n0\n" in f"\n{text}"


# git's own grammar

_TEXTS = st.lists(
    st.sampled_from([
        "[core]", "[Core]", '[remote "a b"]', '[a "q\\"x"]', "[core] key = in", "\n", "\t", "hooksPath = gh", "k", "key=", "=", "key = a b ",
        '"quoted # no"', " ; c", "# c", "\\\n", "\\t", "\\\\", '\\"', "\r\n", "x", "  ", "[include]", "path = ../inc",
    ]),
    max_size=14,
).map("".join)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(text=_TEXTS)
def test_settings_are_read_as_git_reads_them(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    file = tmp_path_factory.mktemp("config") / "config"
    file.write_bytes(text.encode())
    told = subprocess.run(["git", "config", "--no-includes", "-f", file, "--list", "-z"], capture_output=True, check=False)
    if told.returncode == 0:
        # before 2.45 git makes a blank of every tab that is not quoted
        theirs = [one.partition("\n") for one in told.stdout.decode().split("\0")[:-1]]
        ours = [(entry.section, entry.key, entry.value.replace("\t", " ")) for entry in entries(text)]
        assert ours == [(name.split(".")[0] if "." in name else "", name.rsplit(".", 1)[-1], value.replace("\t", " ")) for name, _, value in theirs]


def test_a_folder_that_was_replaced_is_told(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    notes: list[str] = []
    restorer = Restorer(profile(work), everything=True, notes=notes)
    work.rename(tmp_path / "old")
    work.mkdir()
    restorer.settle()
    assert notes == ["what the command left in the working folder was not looked at (another folder stands in its place): look at it"]
