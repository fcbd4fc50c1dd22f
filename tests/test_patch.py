"""Patches: read, matched, applied whole or not at all; through the tool, on real files."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orkas
from orkas.harness import trash
from orkas.harness.policy import Policy
from orkas.harness.tool import ToolContext, ToolResult
from orkas.infra.errors import OrkasError, ToolFailed
from orkas.tools import changeset
from orkas.tools.diffs import unified
from orkas.tools.edit import EditFile
from orkas.tools.files import Seen
from orkas.tools.patch import ApplyPatch
from orkas.tools.patch_text import parse
from orkas.tools.read import ReadFile
from orkas.tools.write import WriteFile

CHILD_ENV = os.environ | {"PYTHONPATH": str(Path(orkas.__file__).parents[1])}


class Bench:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.context = ToolContext(cwd=cwd)
        self.seen = Seen()
        self.tool = ApplyPatch(self.seen)

    async def patch(self, *lines: str) -> str:
        result = await self.tool.run({"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}, self.context)
        assert isinstance(result, ToolResult)
        return result.text

    async def raw(self, text: str) -> str:
        return (await self.tool.run({"patch": text}, self.context)).text

    async def fails(self, *lines: str) -> str:
        before = snapshot(self.cwd)
        with pytest.raises(ToolFailed) as caught:
            await self.patch(*lines)
        assert snapshot(self.cwd) == before
        return str(caught.value)

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def snapshot(folder: Path) -> dict[str, Any]:
    """Every file with its content, mode, inode and time; every folder and link."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        info = path.lstat()
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = "folder"
        else:
            found[name] = (path.read_bytes(), stat.S_IMODE(info.st_mode), info.st_ino, info.st_mtime_ns)
    return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    cwd = tmp_path / "work"
    cwd.mkdir()
    return Bench(cwd)


# What a patch can say


async def test_add_update_move_and_delete_in_one(bench: Bench) -> None:
    run = bench.file("run.py", "def a():\n    return 1\n\ndef b():\n    return 2\n")
    run.chmod(0o755)
    bench.file("old.txt", "gone\n")
    bench.file("c.txt", "1\n2\n3\n4\n5\n6\n7\n8\n")
    told = await bench.patch(
        "*** Add File: new/deep/x.txt", "+hello", "+", "+world",
        "*** Update File: run.py", "*** Move to: bin/go.py", "@@ def b():", "-    return 2", "+    return 3",
        "*** Delete File: old.txt",
        "*** Update File: c.txt", "@@", " 1", "-2", "+two", " 3", "@@", " 7", "-8", "+eight", "*** End of File",
    )  # fmt: skip
    assert (bench.cwd / "new/deep/x.txt").read_text() == "hello\n\nworld\n"
    assert not run.exists()
    moved = bench.cwd / "bin/go.py"
    assert moved.read_text() == "def a():\n    return 1\n\ndef b():\n    return 3\n"
    assert stat.S_IMODE(moved.stat().st_mode) == 0o755
    assert not (bench.cwd / "old.txt").exists()
    assert (bench.cwd / "c.txt").read_text() == "1\ntwo\n3\n4\n5\n6\n7\neight\n"
    assert "added new/deep/x.txt (3 lines)" in told and "moved run.py to bin/go.py (1 change)" in told
    assert "deleted old.txt" in told and "updated c.txt (2 changes)" in told
    assert [p for p in bench.cwd.rglob(".*")] == []


async def test_a_deleted_file_lies_in_the_trash_and_comes_back(bench: Bench) -> None:
    path = bench.file("sub/a.bin", b"\0\1\2")
    path.chmod(0o640)
    await bench.patch("*** Delete File: sub/a.bin")
    assert not path.exists()
    (entry,) = trash.entries()
    assert (entry.path, entry.bytes) == ("sub/a.bin", 3)
    path.write_bytes(b"other")
    with pytest.raises(OrkasError, match="is there, so"):
        trash.put_back(entry.id)
    path.unlink()
    assert trash.put_back(entry.id) == path
    assert path.read_bytes() == b"\0\1\2" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert trash.entries() == []


def test_the_trash_keeps_to_its_limits(bench: Bench) -> None:
    from orkas.infra.paths import Folder

    bench.file("a", "x")
    folder = Folder.at(bench.cwd)
    for _ in range(3):
        trash.keep(folder, "a", root=bench.cwd, path="a")
    folder.close()
    assert trash.tidy() == 0
    assert trash.tidy(now_s=trash.entries()[0].taken + trash.MAX_AGE_S + 60) == 3
    assert trash.entries() == []


@pytest.mark.parametrize(
    "wrap",
    ["{}", "\n\n{}\n\n", "```diff\n{}\n```", "apply_patch <<'EOF'\n{}\nEOF", "<<EOF\n{}\nEOF"],
)
async def test_what_models_wrap_around_a_patch_is_taken_off(bench: Bench, wrap: str) -> None:
    bench.file("a", "1\n")
    await bench.raw(wrap.format("*** Begin Patch\n*** Update File: a\n@@\n-1\n+2\n*** End Patch"))
    assert (bench.cwd / "a").read_text() == "2\n"


async def test_a_hunk_without_mark_and_lines_that_lost_their_blank(bench: Bench) -> None:
    bench.file("a", "x\n\ny\n")
    await bench.patch("*** Update File: a", " x", "", "-y", "+z", "", "*** Add File: b", "+b")
    assert (bench.cwd / "a").read_text() == "x\n\nz\n"


async def test_lines_that_are_only_added(bench: Bench) -> None:
    bench.file("a", "class A:\n    x = 1\n")
    bench.file("empty", "")
    await bench.patch("*** Update File: a", "@@ class A:", "+    '''doc'''", "*** Update File: empty", "@@", "+first")
    assert (bench.cwd / "a").read_text() == "class A:\n    '''doc'''\n    x = 1\n"
    assert (bench.cwd / "empty").read_text() == "first\n"
    await bench.patch("*** Update File: a", "@@", "+# end")
    assert (bench.cwd / "a").read_text().endswith("x = 1\n# end\n")


async def test_an_anchor_chooses_the_block(bench: Bench) -> None:
    bench.file("a", "class A:\n    def run(self):\n        return 1\n\nclass B:\n    def run(self):\n        return 1\n")
    await bench.patch("*** Update File: a", "@@ class A:", "-        return 1", "+        return 2")
    assert (bench.cwd / "a").read_text().count("return 2") == 1
    bench.file("b", "class A:\n    def run(self):\n        return 1\n\nclass B:\n    def run(self):\n        return 1\n")
    await bench.patch("*** Update File: b", "@@ class B:", "@@     def run(self):", "-        return 1", "+        return 3")
    assert (bench.cwd / "b").read_text().endswith("class B:\n    def run(self):\n        return 3\n")


async def test_a_hunk_at_the_end_of_the_file(bench: Bench) -> None:
    bench.file("a", "x\ny\nx\n")
    await bench.patch("*** Update File: a", "@@", "-x", "+z", "*** End of File")
    assert (bench.cwd / "a").read_text() == "x\ny\nz\n"


# Unified diffs


async def test_a_diff_of_git_with_several_files(bench: Bench) -> None:
    repo = bench.cwd
    bench.file("a.txt", "".join(f"{i}\n" for i in range(40)))
    bench.file("gone.txt", "x\n")
    bench.file("ü b.txt", "umlaut\n")
    bench.file("same.txt", "same\ncontent\nhere\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], cwd=repo, check=True)
    subprocess.run([*git, "add", "."], cwd=repo, check=True)
    subprocess.run([*git, "commit", "-qm", "one"], cwd=repo, check=True)
    bench.file("a.txt", "".join(f"{i}\n" for i in range(40) if i != 3) + "no end")
    (repo / "gone.txt").unlink()
    bench.file("ü b.txt", "Umlaut\n")
    (repo / "same.txt").rename(repo / "moved.txt")
    bench.file("script.sh", "#!/bin/sh\n").chmod(0o755)
    bench.file("nothing", "")
    wanted = {n: c for n, c in snapshot(repo).items() if not n.startswith(".git")}
    subprocess.run([*git, "add", "-A"], cwd=repo, check=True)
    diff = subprocess.run([*git, "diff", "--cached", "-M"], cwd=repo, check=True, capture_output=True).stdout.decode()
    subprocess.run([*git, "reset", "-q", "--hard"], cwd=repo, check=True)
    await bench.raw(diff)
    got = {n: c for n, c in snapshot(repo).items() if not n.startswith(".git")}
    assert {n: c[:2] for n, c in got.items()} == {n: c[:2] for n, c in wanted.items()}


async def test_a_diff_with_wrong_counts_and_numbers(bench: Bench) -> None:
    bench.file("a", "a\nb\nc\nd\n")
    await bench.raw("--- a/a\n+++ b/a\n@@ -7,9 +7,1 @@\n b\n-c\n+C\n d\n")
    assert (bench.cwd / "a").read_text() == "a\nb\nC\nd\n"


async def test_the_line_a_diff_names_decides_between_equal_places(bench: Bench) -> None:
    bench.file("a", "x\n" * 6)
    await bench.raw("--- a/a\n+++ b/a\n@@ -4,1 +4,1 @@\n-x\n+y\n")
    assert (bench.cwd / "a").read_text() == "x\nx\nx\ny\nx\nx\n"
    with pytest.raises(ToolFailed, match="at lines 1, 2, 3, 5, 6"):
        await bench.raw("--- a/a\n+++ b/a\n@@ -40,1 +40,1 @@\n-x\n+y\n")


async def test_a_diff_may_hold_lines_that_look_like_headers(bench: Bench) -> None:
    bench.file("a.sql", "-- one\n++ two\nx\n")
    new = "-- ONE\n++ two\nx\n"
    await bench.raw(unified("-- one\n++ two\nx\n", new, "a/a.sql", "b/a.sql"))
    assert (bench.cwd / "a.sql").read_text() == new


LINE = st.sampled_from(["a", "b", "  b", "", "c ", "-- x", "+++ y", "@@", "中", "tab\tx"])
TEXT = st.builds(
    lambda lines, end, last: end.join(lines) + (end if last and lines else ""),
    st.lists(LINE, max_size=25), st.sampled_from(["\n", "\r\n"]), st.booleans(),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(TEXT, st.lists(st.tuples(st.integers(0, 24), LINE, st.sampled_from(["put", "set", "cut"])), max_size=6))
def test_our_own_diffs_apply_exactly(old: str, edits: list[tuple[int, str, str]]) -> None:
    from orkas.infra.abort import Abort
    from orkas.tools.hunks import applied

    end = "\r\n" if "\r\n" in old else "\n"
    lines = old.split(end)
    for at, text, how in edits:
        at = min(at, len(lines))
        if how == "put":
            lines.insert(at, text)
        elif at < len(lines):
            lines[at : at + 1] = [text] if how == "set" else []
    new = end.join(lines)
    diff = unified(old, new, "a/f", "b/f")
    if old == new:
        assert diff == ""
        return
    (file,) = parse(diff)
    assert applied(old, file.hunks, "f", Abort()) == new


# Where a hunk belongs


async def test_blanks_at_the_end_of_lines_do_not_matter_and_stay(bench: Bench) -> None:
    bench.file("a", "one  \r\ntwo\t\r\nthree\r\n")
    await bench.patch("*** Update File: a", "@@", " one", "-two", "+2", " three")
    assert (bench.cwd / "a").read_bytes() == b"one  \r\n2\r\nthree\r\n"


async def test_blanks_in_front_do_matter(bench: Bench) -> None:
    bench.file("a", "  one\n")
    assert "The closest is line 1" in await bench.fails("*** Update File: a", "@@", "-one", "+1")


@pytest.mark.parametrize("ends", [b"a\nb\r\nc\r\n", b"a\rb\nc", b"\xef\xbb\xbfa\r\nb\r\n"])
async def test_only_the_changed_bytes_differ(bench: Bench, ends: bytes) -> None:
    path = bench.file("a", ends)
    old = "a\rb" if b"\rb" in ends else "b"
    await bench.patch("*** Update File: a", "@@", f"-{old}", "+B")
    assert path.read_bytes() == ends.replace(old.encode(), b"B")


async def test_two_places_are_an_error_that_names_both(bench: Bench) -> None:
    bench.file("a", "x\n1\nx\n2\n")
    told = await bench.fails("*** Update File: a", "@@", "-x", "+y")
    assert "hunk 1 (line 3 of the patch) fits a at lines 1, 3" in told
    told = await bench.fails("*** Update File: a", "@@", "-x", "+y", " 1", "@@", "-z", "+y")
    assert "hunk 2 (line 7 of the patch) was not found in a" in told
    bench.file("a", "x \n1\nx\t\n2\n")
    assert "at lines 1, 3" in await bench.fails("*** Update File: a", "@@", "-x", "+y")


async def test_lines_cannot_be_added_inside_another_hunk(bench: Bench) -> None:
    bench.file("a", "def f():\n    one\n    two\n")
    told = await bench.fails("*** Update File: a", "@@", " def f():", "-    one", "+    1", "@@ def f():", "+    zero")
    assert "hunk 2 (line 7 of the patch) adds lines in the midst of another hunk" in told


async def test_places_of_earlier_hunks_are_taken(bench: Bench) -> None:
    bench.file("a", "x\n1\nx\n2\n")
    await bench.patch("*** Update File: a", "@@", "-x", "+y", " 1", "@@", "-x", "+z")
    assert (bench.cwd / "a").read_text() == "y\n1\nz\n2\n"


async def test_a_million_equal_lines_end_at_once(bench: Bench) -> None:
    bench.file("a", "x\n" * 1_000_000)
    assert "…" in await bench.fails("*** Update File: a", "@@", *["-x"] * 500, "+y")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["*** Update File a", "@@", "-x", "+y"], "line 2 of the patch: '*** Update File a' is written as '*** Update File: path' with a colon"),
        (["*** update file: a", "@@", "-x", "+y"], "is written as '*** Update File: path'"),
        (["*** Change File: a"], "is none of"),
        (["@@", "-x", "+y"], "belongs to no file"),
        (["*** Update File: a"], "no change follows for a"),
        (["*** Update File: a", "@@", " x"], "changes nothing"),
        (["*** Update File: a", "@@", "?x"], "line 4 of the patch: a line of a hunk begins with"),
        (["*** Update File: a", "@@", "-x", "+x"], "the same"),
        (["*** Update File: none", "@@", "-x", "+y"], "none does not exist"),
        (["*** Update File: a", "@@ def nowhere", "-x", "+y"], "has no line 'def nowhere'"),
        (["*** Add File: a", "+x"], "a exists already"),
        (["*** Add File: A", "+x"], "differs only in case from a"),
        (["*** Add File: q", "+x", "*** Add File: Q", "+x"], "would be where upper and lower case are the same"),
        (["*** Add File: q", "x"], "every line begins with '+'"),
        (["*** Add File: q\x1b[31m", "+x"], "holds \\x1b, which cannot be seen"),
        (["*** Add File: ../out", "+x"], "is outside the working folder"),
        (["*** Add File: d/", "+x"], "names a folder"),
        (["*** Update File: d", "@@", "-x", "+y"], "is a folder"),
        (["*** Update File: pic", "@@", "-x", "+y"], "no text"),
        (["*** Update File: a", "*** Move to: b", "@@", "-x", "+y"], "b exists already"),
        (["*** Update File: a", "@@", "-x", "+y", "*** Update File: ./a", "@@", "-x", "+z"], "one file"),
        (["*** Update File: a", "@@", "-x", "+y", "*** Update File: a", "@@", "-x", "+z"], "named twice"),
        (["*** Update File: out", "@@", "-secret", "+y"], "is outside the working folder"),
        (["*** Update File: b", "@@", "-b", "+c", "*** Delete File: none"], "none does not exist"),
        (["*** Update File: b", "@@", "-b", "+c", "*** Update File: ro", "@@", "-ro", "+rw"], "ro is read-only"),
        ([], "changes no file"),
    ],
)  # fmt: skip
async def test_bad_patches_change_nothing_and_say_why(bench: Bench, tmp_path: Path, lines: list[str], told: str) -> None:
    bench.file("a", "x\n")
    bench.file("b", "b\n")
    bench.file("pic", b"\x89PNG\r\n\x1a\n\0\0x\n")
    bench.file("ro", "ro\n").chmod(0o444)
    bench.file("d/inner", "")
    (tmp_path / "secret").write_text("secret\n")
    (bench.cwd / "out").symlink_to(tmp_path / "secret")
    assert told in await bench.fails(*lines)
    assert (tmp_path / "secret").read_text() == "secret\n"


async def test_a_patch_that_was_cut_off_is_not_applied(bench: Bench) -> None:
    bench.file("a", "x\n")
    with pytest.raises(ToolFailed, match="may be cut off"):
        await bench.raw("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n")
    with pytest.raises(ToolFailed, match="this is no patch"):
        await bench.raw("please change a")
    assert (bench.cwd / "a").read_text() == "x\n"


async def test_a_file_that_changed_since_it_was_read_is_not_patched(bench: Bench) -> None:
    path = bench.file("a", "x\ny\n")
    bench.file("b", "b\n")
    await ReadFile(bench.seen).run({"path": "a"}, bench.context)
    path.write_text("x\ny\nz\n")
    told = await bench.fails("*** Update File: b", "@@", "-b", "+c", "*** Update File: a", "@@", "-x", "+X")
    assert "a has changed since you read it; no file was changed. It is now:\nx\ny\nz" in told
    await bench.patch("*** Update File: a", "@@", "-x", "+X")  # the model has been shown it
    await bench.patch("*** Update File: a", "@@", "-X", "+XX")  # and knows what it wrote
    assert path.read_text() == "XX\ny\nz\n"


async def test_a_vanished_working_folder_is_told(bench: Bench) -> None:
    bench.cwd.rmdir()
    with pytest.raises(ToolFailed, match="is gone"):
        await bench.patch("*** Update File: a", "@@", "-x", "+y")


# All or nothing

PATCH = [
    "*** Add File: new/sub/file", "+x",
    "*** Update File: a", "@@", "-a", "+A",
    "*** Delete File: gone",
    "*** Update File: m", "*** Move to: moved/m2", "@@", "-m", "+M",
    "*** Update File: b", "@@", "-b", "+B",
]  # fmt: skip


def prepared(bench: Bench) -> dict[str, Any]:
    bench.file("a", "a\n").chmod(0o755)
    bench.file("b", "b\n")
    bench.file("gone", "gone\n")
    bench.file("m", "m\n")
    os.link(bench.cwd / "b", bench.cwd / "b-link")
    return snapshot(bench.cwd)


async def test_every_step_that_fails_leaves_all_as_it_was(bench: Bench) -> None:
    before = prepared(bench)
    steps: list[str] = []
    for n in range(1_000):
        count = 0

        def fail(what: str, n: int = n) -> None:
            nonlocal count
            count += 1
            if count == n + 1:
                steps.append(what)
                raise OSError(errno.ENOSPC, "No space left on device")

        bench.tool = ApplyPatch(bench.seen, before=fail)
        try:
            await bench.patch(*PATCH)
        except (OSError, ToolFailed) as error:
            assert "No space left" in str(error)
            assert snapshot(bench.cwd) == before
            assert trash.entries() == []
            assert list(changeset.journal().glob("*")) == []
        else:
            break
    assert set(steps) == {"mkdir", "journal", "trash", "draft", "write", "keep", "rename"} and len(steps) > 15
    assert (bench.cwd / "new/sub/file").exists() and (bench.cwd / "moved/m2").read_text() == "M\n"
    assert (bench.cwd / "b").read_text() == "B\n" and (bench.cwd / "b-link").read_text() == "b\n"
    assert [e.path for e in trash.entries()] == ["gone"]
    assert list(changeset.journal().glob("*")) == []


async def test_a_file_that_changes_under_the_patch_is_not_overwritten(bench: Bench) -> None:
    before = prepared(bench)

    def meddle(what: str) -> None:
        if what == "write":
            (bench.cwd / "b").write_text("theirs\n")

    bench.tool = ApplyPatch(bench.seen, before=meddle)
    with pytest.raises(ToolFailed, match="b was changed by somebody else just now"):
        await bench.patch(*PATCH)
    now = snapshot(bench.cwd)
    assert (bench.cwd / "b").read_text() == "theirs\n"
    assert {n: c for n, c in now.items() if not n.startswith("b")} == {
        n: c for n, c in before.items() if not n.startswith("b")
    }


KILLED = """
import asyncio, os, sys
from pathlib import Path
from orkas.harness.tool import ToolContext
from orkas.tools.files import Seen
from orkas.tools.patch import ApplyPatch
count = 0
def die(what):
    global count
    count += 1
    if count == int(sys.argv[1]):
        os._exit(9)
tool = ApplyPatch(Seen(), before=die)
asyncio.run(tool.run({"patch": sys.stdin.read()}, ToolContext(cwd=Path(sys.argv[2]))))
"""


async def test_a_kill_at_any_step_is_healed(bench: Bench) -> None:
    prepared(bench)
    patch = "\n".join(["*** Begin Patch", *PATCH, "*** End Patch"])
    before = {n: c for n, c in snapshot(bench.cwd).items()}
    healed = 0
    for n in range(2, 1_000, 4):
        argv = [sys.executable, "-c", KILLED, str(n), str(bench.cwd)]
        env = CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]}
        if subprocess.run(argv, input=patch.encode(), env=env).returncode != 9:
            break
        told = changeset.heal()
        healed += len(told)
        assert snapshot(bench.cwd) == before, (n, told)
        assert changeset.heal() == []
    assert healed > 3 and (bench.cwd / "a").read_text() == "A\n"


async def test_what_somebody_changed_after_a_kill_is_left_alone(bench: Bench) -> None:
    before = prepared(bench)
    patch = "\n".join(["*** Begin Patch", *PATCH, "*** End Patch"])
    env = CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]}
    for n in range(16, 100, 2):
        subprocess.run([sys.executable, "-c", KILLED, str(n), str(bench.cwd)], input=patch.encode(), env=env)
        if (bench.cwd / "a").read_text() == "A\n":
            break
        changeset.heal()
    (bench.cwd / "a").unlink()
    (bench.cwd / "a").write_text("mine\n")
    (told,) = changeset.heal()
    assert "a was changed by somebody else" in told
    assert (bench.cwd / "a").read_text() == "mine\n"
    (kept,) = bench.cwd.glob(".a.*.old")
    assert kept.read_text() == "a\n"
    assert {n: c for n, c in snapshot(bench.cwd).items() if n not in ("a", kept.name)} == {
        n: c for n, c in before.items() if n != "a"
    }


async def test_a_damaged_journal_is_told_and_put_aside(bench: Bench) -> None:
    changeset.journal().mkdir(parents=True)
    (changeset.journal() / "x.json").write_bytes(b"\0\0")
    (told,) = changeset.heal()
    assert "damaged" in told
    assert changeset.heal() == []


# What it would change


async def test_previews_are_what_then_happens(bench: Bench) -> None:
    bench.file("a", "1\n2\n3\n")
    bench.file("m", "m\n")
    lines = ["*** Add File: n", "+n", "*** Update File: a", "@@", "-2", "+two", "*** Update File: m", "*** Move to: k"]
    before = snapshot(bench.cwd)
    arguments = {"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}
    told = bench.tool.preview(arguments, bench.context)
    assert snapshot(bench.cwd) == before
    assert "--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+n\n" in told
    assert "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n" in told
    assert "rename from m\nrename to k\n" in told
    assert sorted(p.name for p in bench.tool.touches(arguments, bench.context)) == ["a", "k", "m", "n"]
    edit = EditFile(bench.seen).preview({"path": "a", "old_text": "2", "new_text": "two"}, bench.context)
    assert edit in told
    write = WriteFile(bench.seen)
    assert write.preview({"path": "x/n", "content": "n\n"}, bench.context) == "--- /dev/null\n+++ b/x/n\n@@ -0,0 +1,1 @@\n+n\n"
    assert "-1\n-2\n-3\n+x\n\\ No newline" in write.preview({"path": "a", "content": "x"}, bench.context)
    with pytest.raises(ToolFailed, match="not found"):
        EditFile(bench.seen).preview({"path": "a", "old_text": "7", "new_text": "two"}, bench.context)
    with pytest.raises(ToolFailed, match="outside"):
        write.preview({"path": "../x", "content": ""}, bench.context)
    assert snapshot(bench.cwd) == before


def test_the_policy_knows_what_a_patch_changes() -> None:
    patch = {"patch": "*** Begin Patch\n*** Update File: a/.git/config\n@@\n-x\n+y\n*** End Patch"}
    assert Policy("edits").decide("apply_patch", patch).verdict == "deny"
    assert "git runs programs" in Policy("none").decide("apply_patch", patch).reasons[0]
    assert Policy("none").decide("apply_patch", {"patch": "x"}).verdict == "deny"
    plain = {"patch": "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"}
    assert Policy("edits").decide("apply_patch", plain).verdict == "allow"


def test_an_empty_line_that_stays_at_the_end_of_a_diff_counts() -> None:
    from orkas.infra.abort import Abort
    from orkas.tools.hunks import applied

    (file,) = parse(unified("\n", "a\n\n", "a/f", "b/f"))
    assert applied("\n", file.hunks, "f", Abort()) == "a\n\n"


# Links, folders, kinds


def linked(bench: Bench, target: str | Path) -> Path:
    link = bench.cwd / "lnk"
    link.symlink_to(target)
    return link


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("target", ["real", "nowhere", "/etc/hostname", "../outside"])
async def test_a_link_is_deleted_and_moved_itself(bench: Bench, target: str) -> None:
    real = bench.file("real", "kept\n")
    outside = bench.file("../outside", "kept\n")
    link = linked(bench, target)
    assert [p.name for p in bench.tool.touches({"patch": "*** Begin Patch\n*** Delete File: lnk\n*** End Patch"}, bench.context)] == ["lnk"]
    assert "moved the link lnk to sub/other" in await bench.patch("*** Update File: lnk", "*** Move to: sub/other")
    assert not link.is_symlink() and os.readlink(bench.cwd / "sub/other") == target
    assert "deleted the link" in await bench.patch("*** Delete File: sub/other")
    assert not (bench.cwd / "sub/other").is_symlink()
    assert real.read_text() == outside.read_text() == "kept\n"
    (entry,) = trash.entries()
    assert trash.put_back(entry.id).is_symlink()


@pytest.mark.skipif(os.name != "posix", reason="links")
async def test_a_patch_that_fails_gives_a_link_back(bench: Bench) -> None:
    bench.file("real", "kept\n")
    linked(bench, "real")
    bench.tool = ApplyPatch(bench.seen, before=lambda what: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")) if what == "rename" else None)
    before = snapshot(bench.cwd)
    with pytest.raises(OrkasError):
        await bench.patch("*** Update File: lnk", "*** Move to: other")
    assert snapshot(bench.cwd) == before
    assert "is a link" in await bench.fails("*** Update File: lnk", "*** Move to: other", "@@", "-kept", "+new")


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("new file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+target\n", "links are not made"),
        ("index 123..456 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-one\n+two\n", "links are not made or changed"),
        ("new file mode 160000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+Subproject commit 1\n", "submodules"),
        ("old mode 100644\nnew mode 100755\n", "chmod"),
    ],
)
async def test_what_is_no_plain_file_is_not_made_one(bench: Bench, head: str, words: str) -> None:
    bench.file("l", "one\n")
    with pytest.raises(ToolFailed, match=words):
        await bench.raw(f"diff --git a/l b/l\n{head}")
    assert (bench.cwd / "l").read_text() == "one\n"


async def test_an_empty_line_of_a_new_file_may_have_lost_its_mark(bench: Bench) -> None:
    await bench.patch("*** Add File: a", "+a", "", "", "+b", "", "*** Add File: b", "+c")
    assert (bench.cwd / "a").read_text() == "a\n\n\nb\n" and (bench.cwd / "b").read_text() == "c\n"


async def test_a_name_is_a_file_or_a_folder(bench: Bench) -> None:
    bench.file("f", "x\n")
    bench.file("d/x", "x\n")
    assert "aa cannot be a file of this patch and the folder of aa/b" in await bench.fails("*** Add File: aa", "+1", "*** Add File: aa/b", "+2")
    assert "make two patches" in await bench.fails("*** Delete File: f", "*** Add File: f/y", "+2")
    assert "d is a folder" in await bench.fails("*** Add File: d", "+2")


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="attributes")
async def test_a_file_that_moves_to_another_folder_keeps_its_attributes(bench: Bench) -> None:
    path = bench.file("a", "x\n")
    path.chmod(0o751)
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("a file system without attributes")
    await bench.patch("*** Update File: a", "*** Move to: deep/b", "@@", "-x", "+y")
    moved = bench.cwd / "deep/b"
    assert os.getxattr(moved, "user.origin") == b"here" and stat.S_IMODE(moved.stat().st_mode) == 0o751


async def test_two_names_of_one_file_change_in_one_patch(bench: Bench) -> None:
    os.link(bench.file("a", "x\n"), bench.cwd / "b")
    await bench.patch("*** Update File: a", "@@", "-x", "+y", "*** Delete File: b")
    assert (bench.cwd / "a").read_text() == "y\n" and not (bench.cwd / "b").exists()


async def test_no_patch_takes_long_to_be_read(bench: Bench) -> None:
    for text in ("diff --git a/" + " b/" * 300_000 + "x\nnew file mode 100644\n", f"--- a/x\n+++ b/x\n@@ -{'9' * 9_000} +1 @@\n-a\n+b\n"):
        with pytest.raises(ToolFailed):
            await bench.raw(text)
    bench.file("x", "a\n" * 300_000)
    assert "not found" in await bench.fails("*** Update File: x", *[" a"] * 50_000, "-b", "+c")
    bench.file("y", "def f():\n" * 100_000)
    assert "not found" in await bench.fails("*** Update File: y", "@@ def", " def f():", "-b", "+c")


# Where the system refuses


PATCH_A = ["*** Update File: a", "@@", "-a", "+A"]


@pytest.fixture
def fixed(bench: Bench) -> Iterator[Path]:
    """A folder ``c`` with the file ``d`` that lies in a read-only file system."""
    folder = bench.file("c/d", "d\n").parent
    bench.file("a", "a\n")
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a folder read-only")
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("c/d", ["*** Update File: c/d", "@@", "-d", "+D"]),
        ("c/d", ["*** Delete File: c/d"]),
        ("c/d", ["*** Update File: c/d", "*** Move to: e"]),
        ("c/new", ["*** Add File: c/new", "+x"]),
        ("c/new", ["*** Add File: c/new/x", "+x"]),
        ("c/b", ["*** Update File: b", "*** Move to: c/b"]),
    ],
)
async def test_a_read_only_file_system_is_named_and_nothing_is_changed(
    bench: Bench, fixed: Path, name: str, lines: list[str]
) -> None:
    bench.file("b", "b\n")
    for patch in ([*PATCH_A, *lines], [*lines, *PATCH_A], lines):
        told = await bench.fails(*patch)
        assert told == f"{name} lies in a file system that is read-only; nothing was changed"
    assert trash.entries() == [] and list(changeset.journal().glob("*")) == []


@pytest.mark.parametrize("long", ["n" * 300, "ö" * 150, "deep/er/" + "n" * 256, "n" * 256 + "/a"])
async def test_a_name_that_is_too_long_is_refused_before_anything_is_made(bench: Bench, long: str) -> None:
    bench.file("a", "a\n")
    for lines in (["*** Add File: " + long, "+x"], ["*** Update File: a", "*** Move to: " + long]):
        told = await bench.fails(*lines)
        assert "is too long: " in told and "255 at most" in told and len(told) < 200


async def test_a_path_that_is_too_long_is_refused_in_a_sentence(bench: Bench) -> None:
    bench.file("a", "a\n")
    told = await bench.fails("*** Add File: " + "a/" * 3_000 + "b", "+x")
    assert "is too long: " in told and len(told) < 200
    assert "is too long: " in await bench.fails("*** Update File: " + "b/" * 3_000 + "b", "@@", "-a", "+b")


async def test_names_as_long_as_they_may_be_are_patched(bench: Bench) -> None:
    long = "n" * 255
    await bench.patch(f"*** Add File: {long}", "+x")
    await bench.patch(f"*** Update File: {long}", f"*** Move to: {'m' * 255}", "@@", "-x", "+y")
    assert os.listdir(bench.cwd) == ["m" * 255] and (bench.cwd / ("m" * 255)).read_text() == "y\n"


SCARCE = """
import asyncio, json, os, resource, sys
from pathlib import Path
from orkas.harness.tool import ToolContext
from orkas.tools.files import Seen
from orkas.tools.patch import ApplyPatch
sys.path.insert(0, sys.argv[2])
from test_patch import snapshot

cwd = Path(sys.argv[1])
def patch(name):
    lines = ["*** Begin Patch", f"*** Update File: {name}", f"*** Move to: new/{name}/e", "@@", "-m", "+M", "*** End Patch"]
    return ApplyPatch(Seen()).run({"patch": "\\n".join(lines)}, ToolContext(cwd=cwd))

async def main():
    for name in ("warm", "m"):
        (cwd / name).write_text("m\\n")
    await patch("warm")  # what is imported late needs files too
    before, (soft, hard) = snapshot(cwd), resource.getrlimit(resource.RLIMIT_NOFILE)
    failed = 0
    for more in range(40):
        used = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, hard))
        try:
            await patch("m")
        except Exception as error:
            failed += 1
        else:
            break
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        after = snapshot(cwd)
        assert after == before, (more, set(after) ^ set(before))
    assert failed > 3 and (cwd / "new/m/e").read_text() == "M\\n"

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
def test_a_patch_without_enough_open_files_leaves_no_empty_folder(bench: Bench) -> None:
    here = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", SCARCE, bench.cwd, here], env=CHILD_ENV, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
