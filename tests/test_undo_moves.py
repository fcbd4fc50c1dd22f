"""Undo of moves: large files and folders that are not looked into get their names back, through any step that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkas import Agent
from orkas.harness import trash
from orkas.harness.undo import keeper as keeping
from orkas.harness.undo.keeper import Keeper
from orkas.harness.undo.restore import undo
from orkas.testing import ScriptedProvider, call
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


async def test_an_agent_takes_back_what_its_commands_swapped(root: Path) -> None:
    before = tree(root)
    calls = [[call("shell", command=command)] for command in ("mv r t; mv q r; mv t q", "mv a t; mv b a; mv t b")]
    agent = Agent(ScriptedProvider([*calls, "done"]), cwd=root, approve="all")
    await agent.run("go")
    assert tree(root) != before
    done = await agent.undo()
    assert (done.restored, done.removed, done.refused) == (["a", "b", "q/.git", "q/f", "r/.git", "r/f"], [], [])
    assert tree(root) == before


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


@pytest.mark.parametrize(("command", "stays"), [
    ("cp b copy; rm b; echo 1 > s", ["copy"]),
    ("cp b copy; echo 1 > b", ["copy"]),
    ("cp b s; rm b", ["s"]),  # over a small file
    ("mv b t; echo more >> t", ["t"]),
    ("mv b s; echo more >> s", ["s"]),
    ("mv b t; mkdir b; mv t b/x; touch b/x", ["b/x"]),
])  # fmt: skip
def test_what_may_be_the_only_copy_stays_where_it_is(root: Path, command: str, stays: list[str]) -> None:
    turn(root, command)
    after = tree(root)
    done = undo("s")
    now = tree(root)
    assert {path: now[path] for path in stays} == {path: after[path] for path in stays}
    last = "it may be what is left of a file whose content was not kept"
    assert {f"{path}: {last}" for path in stays} <= set(done.refused)
    assert any(text.startswith("b: ") for text in done.refused) and not done.again
    assert not any(entry.bytes >= LARGE for entry in trash.entries())


def test_what_was_moved_over_a_large_file_gets_its_name_back(root: Path) -> None:
    before = tree(root)
    turn(root, "mv a b")
    done = undo("s")
    assert (done.restored, done.refused) == (["a"], ["b: its content before the turn was not kept"])
    assert tree(root) == {path: kept for path, kept in before.items() if path != "b"}


@pytest.mark.parametrize(("command", "by_the_user", "as_before"), [
    ("mv a t; mv b a; mv t b", "echo mine > b", []),  # nothing of the swap is taken back
    ("mv a t; mv d/a a; mv b d/a; mv t b", "echo mine > d/a", []),
    ("mv a t; mkdir a; mv t a/x; echo 1 > s", "echo mine > a/own", ["s"]),
    ("mv a t; echo 1 > s", "echo mine > a", ["s"]),
    ("mv a t; echo 1 > s", "mv t elsewhere", ["s"]),
    ("mv r t; mv q r; mv t q; mv r/f x; mv q/f r/f; mv x q/f; echo 1 > s", "mv r/.git r/git", ["s"]),
    ("mv r r2; echo 1 > s", "mkdir -p r/.git", ["s"]),
    ("mv p p2; rm p2/f; echo 1 > s", "echo mine > p", ["s"]),
])  # fmt: skip
def test_what_the_user_changed_since_is_left_and_nothing_is_torn(
    root: Path, command: str, by_the_user: str, as_before: list[str]
) -> None:
    before = tree(root)
    turn(root, command)
    bash(root, by_the_user)
    now = tree(root)
    done = undo("s")
    after = tree(root)
    assert {path: after[path] for path in as_before} == {path: before[path] for path in as_before}
    assert not done.again and done.refused
    assert not [path for path in after if ".undo-" in path]
    kept = {what for _, what in now.values() if isinstance(what, tuple)}
    small = {b"1\n", b"this was s", b"this was p/f", b"this was r/f"}
    assert {what for what in kept if what[1] not in small} <= {what for _, what in after.values() if what}


def test_a_folder_that_the_user_removed_since_is_made_again(root: Path) -> None:
    before = tree(root)
    turn(root, "mv a n; mv d/e/a a; rm d/s; echo 1 > d/e/t; rm d/e/t")
    bash(root, "rmdir d/e")
    assert undo("s").refused == []
    assert tree(root) == before


def test_two_names_of_one_large_file_come_back_as_one(root: Path) -> None:
    os.link(root / "a", root / "z")
    before = tree(root)
    turn(root, "mv a c; rm z")
    assert undo("s").refused == []
    assert tree(root) == before and (root / "a").samefile(root / "z")


def test_two_turns_that_move_the_same_file(root: Path) -> None:
    before = tree(root)
    turn(root, "mv a n")
    turn(root, "mv n c; echo z > a")
    for _ in range(2):
        assert undo("s").refused == []
    assert tree(root) == before


def test_a_repository_that_was_used_after_it_was_moved(root: Path) -> None:
    shutil.rmtree(root / "r")
    git = "git -c user.name=a -c user.email=a@b"
    bash(root, f"git init -q r; cd r; echo 1 > f; git add .; {git} commit -qm 1")
    before = tree(root / "r/.git")["HEAD"], (root / "r/f").read_text()
    turn(root, "mv r r2", f"cd r2; echo 2 > f; git status; {git} commit -qam 2")
    done = undo("s")
    assert done.refused == []
    assert (tree(root / "r/.git")["HEAD"], (root / "r/f").read_text()) == before and not (root / "r2").exists()
    bash(root / "r", "git fsck; git status")


def test_another_folder_with_the_inode_of_a_removed_one_is_no_move(root: Path) -> None:
    turn(root, "rm -r p/node_modules; mkdir -p x/node_modules; echo new > x/node_modules/y; rm s")
    done = undo("s")
    assert (root / "s").exists() and (root / "x/node_modules/y").read_text() == "new\n"
    assert not (root / "p/node_modules/y").exists()
    assert sorted(done.refused) == [
        "x/node_modules: the folder holds files that are not of this turn", "x: the folder holds what was left",
    ]  # fmt: skip


KINDS = ["rename", "rename", "rename", "remove", "write", "folder"]
STEP = st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 9))
NAMES = ["a", "b", "d", "d/a", "d/e", "d/e/f", "r", "r/.git", "q/.git", "n"]


def _step(root: Path, what: str, one: int, other: int) -> None:
    path, second = root / NAMES[one], root / NAMES[other]
    try:
        match what:
            case "rename":
                if _hides(path, second):
                    return
                if not second.exists() or (second.is_file() and second.stat().st_size < LARGE):
                    path.rename(second)
            case "remove":
                if path.is_file() and path.stat().st_size < LARGE:
                    path.unlink()
                elif path.is_dir():
                    path.rmdir()
            case "write":
                if not path.exists():
                    path.write_text(f"{one} {other}")
            case "folder":
                path.mkdir()
    except OSError:
        return


def _hides(path: Path, to: Path) -> bool:
    """Something that was looked into would go where nobody looks."""
    return (to.name == ".git" and path.is_dir() and not (path / "x").exists()) or any(
        (above / "x").exists() for above in list(to.parents)[:4]
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=14), st.lists(STEP, max_size=8))
def test_any_moves_are_taken_back_exactly(tmp_path: Path, first: list[Any], second: list[Any]) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    for name in ("a", "b", "d/a", "d/e/f"):
        large(root / name, f"this was {name}")
    for name in ("r/.git", "q/.git"):
        (root / name).mkdir(parents=True)
        (root / name / "x").write_text(name)
    before = tree(root)
    watch = Keeper(root, root.name)
    watch.begin()
    for steps in (first, second):
        watch.before("shell", None)
        for step in steps:
            _step(root, *step)
        watch.after()
    if tree(root) != before:
        done = undo(root.name)
        assert done.refused == [], done.lines
        assert tree(root) == before
    shutil.rmtree(root)
