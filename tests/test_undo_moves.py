"""Undo of moves: large files and folders that are not looked into get their names back, through any step that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orkas.harness import trash
from orkas.harness.undo import keeper as keeping
from orkas.harness.undo.keeper import Keeper
from orkas.harness.undo.restore import undo
from test_undo import CHILD_ENV, FAILING

LARGE = keeping.MAX_FILE + 1


def tree(root: Path) -> dict[str, Any]:
    """Every path with its mode, and what tells one large file from another: what it begins with, and its size."""
    found: dict[str, Any] = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = Path(folder, name)
            info = path.lstat()
            what: Any = os.readlink(path) if path.is_symlink() else None
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    what = info.st_size, file.read(100)
            found[str(path.relative_to(root))] = info.st_mode, what
    return found


def large(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.write(text)
        file.truncate(LARGE)


def bash(root: Path, command: str) -> None:
    subprocess.run(["bash", "-ec", command], cwd=root, check=True)


def turn(root: Path, *commands: str, session: str = "s") -> None:
    """One turn in which these commands run, one call each."""
    watch = Keeper(root, session)
    watch.begin()
    for command in commands:
        watch.before("shell", None)
        bash(root, command)
        watch.after()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Large files a, b, d/a, d/e/a; small ones s, d/s; repositories r and q; packages in p."""
    folder = tmp_path / "work"
    for name in ("a", "b", "d/a", "d/e/a"):
        large(folder / name, f"this was {name}")
    for name in ("s", "d/s", "r/f", "q/f", "p/f"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"this was {name}")
    for name in ("r/.git", "q/.git", "p/node_modules", "env"):
        (folder / name / "in").mkdir(parents=True)
        (folder / name / "in/x").write_text(name)
    (folder / "env/pyvenv.cfg").touch()
    (folder / "b").chmod(0o600)
    return folder


MOVES = [
    "mv a t; mv b a; mv t b",  # a swap
    "mv a t; mv d/a a; mv b d/a; mv t b",  # a cycle, across folders
    "mv a t; mkdir a; mv t a/x", "mv a t; mkdir -p a/b; mv t a/b/x; echo new > a/y",  # into its own name
    "mv d/e/a t; rmdir d/e; mv t d/e", "rm -r d/s; mv d/e/a t; mv d/a u; rmdir d/e; rmdir d; mv t d; mv u e",  # and out
    "mv a s", "mv a new; echo small > a", "mv a new; echo small > a; chmod 600 new", "mv a new; ln -s new a",
    "mv a new; mkdir a; echo 1 > a/1", "mv d t; mkdir d; mv t d/d", "mv d/e t; rm -r d/s; mv d/a d/e; mv t/a d/a; rmdir t",
    "mv d x; mv x/e y; mv y/a x/e", "chmod 700 a; mv a x", "mv a x; mv x y; mv b x; mv y b", "mv d r/d; mv r d; mv d/d r",
    "mv r t; mv q r; mv t q", "mv r t; mv q r; mv p q; mv t p",  # repositories
    "mv r/.git t; mv q/.git r/.git; mv t q/.git", "mv r r2; rm r2/f", "mv r q/r; rm q/r/f; mv q q2",
    "mv r r2; echo 1 > r2/.git/index; touch r2/.git", "mv p/node_modules p/lib; ln -s lib p/node_modules",
    "mv p p2; rm p2/f", "mv p/node_modules t; rm s; mv t s", "mv p/node_modules env/; mv env/node_modules p/m",
    "mv env t; mv d env; mv t d", "mv env d/; mv d env", "mv r/.git x; echo 1 > r/.git", "mv r/.git x; mkdir r/.git",
    "mv r d/; mv d r; mv r/r d", "mv r/.git p/node_modules/..; mv p/node_modules r/; mv p r/p",
]  # fmt: skip


def expected(before: dict[str, Any], command: str) -> dict[str, Any]:
    """What is changed in a folder that nobody looks into stays."""
    if "index" in command:
        before = before | {"r/.git/index": (0o100644, (2, b"1\n"))}
    return before


@pytest.mark.parametrize("command", MOVES)
def test_what_has_another_name_gets_its_own_back(root: Path, command: str) -> None:
    before = tree(root)
    turn(root, command)
    assert tree(root) != before
    done = undo("s")
    assert (done.refused, done.again) == ([], False), done.lines
    assert tree(root) == expected(before, command)
    trash.tidy()
    assert tree(root) == expected(before, command)


STEPS = [command for command in MOVES if "touch" not in command and "mv env/node_modules" not in command]


@pytest.mark.parametrize("command", STEPS)
def test_a_command_a_step_is_the_same(root: Path, command: str) -> None:
    before = tree(root)
    turn(root, *command.split("; "))
    done = undo("s")
    assert done.refused == [], done.lines
    assert tree(root) == before


@pytest.mark.parametrize("command", STEPS)
def test_a_turn_a_step_is_the_same(root: Path, command: str) -> None:
    states = [tree(root)]
    for step in command.split("; "):
        turn(root, step)
        states.append(tree(root))
    for state in reversed(states[:-1]):
        done = undo("s")
        assert done.refused == [], done.lines
        assert tree(root) == state


@pytest.mark.parametrize("how", ["raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))", "os._exit(9)"], ids=["fails", "kills"])
@pytest.mark.parametrize("command", [
    "mv a t; mv d/a a; mv b d/a; mv t b", "mv a t; mkdir a; mv t a/x; echo 1 > a/y; chmod 600 a/x", "mv a s; mv r r2; rm r2/f",
    "mv r t; mv q r; mv t q; mv r/f x; mv q/f r/f; mv x q/f", "mv d/e/a t; rmdir d/e; mv t d/e; mv p/node_modules t; rm s; mv t s",
])  # fmt: skip
def test_any_step_may_fail_or_kill(tmp_path: Path, root: Path, command: str, how: str) -> None:
    code = FAILING.replace("raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))", how)
    for at in range(1, 200):
        work = tmp_path / f"w{at}"
        bash(tmp_path, f"cp -a {root} {work}")
        before = tree(work)
        turn(work, command, session=work.name)
        ran = subprocess.run(
            [sys.executable, "-c", code, work.name, str(at)], capture_output=True, text=True,
            env=CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]},
        )  # fmt: skip
        assert ran.returncode in (0, 1, 9), ran.stderr
        there = {kept for _, kept in tree(work).values() if kept}
        assert {kept for _, kept in before.values() if isinstance(kept, tuple) and kept[0] == LARGE} <= there
        said: list[str] = []
        if tree(work) != before or ran.returncode:
            said = undo(work.name).lines
        assert tree(work) == before, (at, ran.stdout, said)
        shutil.rmtree(work)
        if "none failed" in ran.stdout:
            break
    assert at > 8
