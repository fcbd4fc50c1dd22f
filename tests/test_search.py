"""Searching: through the tool, on real trees."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from orkas.harness.tool import ToolContext, ToolResult
from orkas.infra.abort import Abort, Aborted
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Place
from orkas.tools.globs import rules
from orkas.tools.listing import ListFiles
from orkas.tools.matcher import compile_pattern, matches
from orkas.tools.search import SearchFiles
from orkas.tools.tree import Ignore, Walk


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path_factory.mktemp("home")))


async def search(cwd: Path, pattern: str, **arguments: Any) -> list[str]:
    result = await SearchFiles().run({"pattern": pattern, **arguments}, ToolContext(cwd=cwd))
    assert isinstance(result, ToolResult)
    return result.text.split("\n")


def fill(cwd: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


async def test_each_matching_line_has_its_place(tmp_path: Path) -> None:
    fill(tmp_path, {"b.py": "x = 1\r\ny = foo(x)\r\n", "a/c.py": "foo\nbar\nfoo bar"})
    assert await search(tmp_path, "foo") == ["a/c.py:1: foo", "a/c.py:3: foo bar", "b.py:2: y = foo(x)"]
    assert await search(tmp_path, r"foo\(\w\)$") == ["b.py:2: y = foo(x)"]
    assert await search(tmp_path, "foo", path="a") == ["a/c.py:1: foo", "a/c.py:3: foo bar"]
    assert await search(tmp_path, "bar", path="a/c.py") == ["a/c.py:2: bar", "a/c.py:3: foo bar"]
    assert await search(tmp_path, "foo", glob="b.*") == ["b.py:2: y = foo(x)"]
    assert await search(tmp_path, "nothing") == ["[no match in 2 files]"]


async def test_case_counts_only_with_a_capital_letter(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "Foo\nfoo\nÉtÉ 世界\n"})
    assert len(await search(tmp_path, "foo")) == 2
    assert await search(tmp_path, "Foo") == ["a:1: Foo"]
    assert await search(tmp_path, r"\Sté") == ["a:3: ÉtÉ 世界"]
    assert await search(tmp_path, "世界") == ["a:3: ÉtÉ 世界"]


async def test_an_invalid_expression_is_searched_as_text(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "call f(x[\n"})
    lines = await search(tmp_path, "f(x[")
    assert lines[0] == "a:1: call f(x["
    assert "searched as plain text" in lines[1]


async def test_ignored_files_are_left_out_and_counted(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            ".gitignore": "*.log\nbuild/\n/top.txt\n!keep.log\n",
            "a.log": "hit", "keep.log": "hit", "build/x.txt": "hit", "top.txt": "hit", "sub/top.txt": "hit",
            "sub/.gitignore": "secret*\n!a.log\n", "sub/secret.txt": "hit", "sub/a.log": "hit", "secret.txt": "hit",
            ".git/config": "hit",
        },
    )  # fmt: skip
    lines = await search(tmp_path, "hit")
    assert lines[:-1] == ["keep.log:1: hit", "secret.txt:1: hit", "sub/a.log:1: hit", "sub/top.txt:1: hit"]
    assert lines[-1] == "[left out: 4 ignored by .gitignore]"
    assert (await search(tmp_path, "hit", path="sub"))[:-1] == ["sub/a.log:1: hit", "sub/top.txt:1: hit"]
    assert await search(tmp_path, "hit", path="build") == ["build/x.txt:1: hit"]
    assert await search(tmp_path, "hit", path="build/x.txt") == ["build/x.txt:1: hit"]


async def test_a_byte_order_mark_is_no_part_of_the_first_rule(tmp_path: Path) -> None:
    fill(tmp_path, {".gitignore": b"\xef\xbb\xbf*.q\n", "a.q": "hit"})
    assert await search(tmp_path, "hit") == ["[no match in 1 file]", "[left out: 1 ignored by .gitignore]"]


async def test_one_odd_rule_does_not_undo_the_others(tmp_path: Path) -> None:
    fill(tmp_path, {".gitignore": "*.log\n//\n!\n\\\n[z-a]\n*.tmp\n", "a.log": "hit", "b.tmp": "hit", "c": "hit"})
    assert await search(tmp_path, "hit") == ["c:1: hit", "[left out: 2 ignored by .gitignore]"]


HOSTILE = [
    "*a" * 9 + "b", "*a" * 40 + "b", "**a" * 20 + "b", "?*" * 20 + "b", "[a-z]*" * 20 + "B", "*[!x]" * 20 + "X",
    "*a/" * 9 + "b", "**/a/" * 20 + "b", "**/*a/" * 20 + "b", "\\a*" * 20 + "b", "[]a]*" * 20 + "b", "[^]b]*" * 20 + "b",
]  # fmt: skip


@pytest.mark.parametrize("pattern", HOSTILE)
async def test_no_rule_or_glob_takes_long(tmp_path: Path, pattern: str) -> None:
    deep = "a/" * 50
    fill(tmp_path, {".gitignore": f"{pattern}\n", "a" * 200: "hit", f"{deep}{'a' * 200}": "hit"})
    began = time.monotonic()
    assert len(await search(tmp_path, "hit")) == 2
    assert (await search(tmp_path, "hit", glob=pattern))[0].startswith("[no match")
    context = ToolContext(cwd=tmp_path)
    assert "no file below" in (await ListFiles().run({"pattern": pattern}, context)).text
    assert time.monotonic() - began < 1


_PARTS = ["a", "b", "*", "**", "/", "/**/", "?", "[ab]", ".", "\\*", "!", "é", "(", "+", "$"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(_PARTS), min_size=1, max_size=12).map("".join),
    st.lists(st.text("ab.*é(+$", min_size=1, max_size=6), min_size=1, max_size=6).map("/".join),
    st.sampled_from(["", "/"]),
)
def test_safe_rules_match_what_the_library_matches(pattern: str, path: str, end: str) -> None:
    try:
        library = GitIgnoreSpec.from_lines([pattern])
    except ValueError:
        assert len(rules([pattern])) == 0
        return
    assert rules([pattern]).check_file(path + end).include == library.check_file(path + end).include


async def test_a_glob_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="at most 1,000 characters"):
        await search(tmp_path, "x", glob="*" * 1_001)
    with pytest.raises(ToolFailed, match="no file pattern"):
        await search(tmp_path, "x", glob="\\")


async def test_after_the_last_line_is_no_line(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "aa\nbb\n", "b": "aa\n\n"})
    assert await search(tmp_path, "^(?!aa)") == ["a:2: bb", "b:2: "]


async def test_binary_files_pipes_and_links_are_left_out_and_counted(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "hit\n", "b": b"hit\0hit"})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc")
    async with asyncio.timeout(2):
        lines = await search(tmp_path, "hit")
    assert lines == ["a:1: hit", "[left out: 1 binary, 2 links, pipes or devices]"]


async def test_names(tmp_path: Path) -> None:
    fill(tmp_path, {f"src/mod_{n}.py": "" for n in range(150)} | {"README.md": ""})
    assert await search(tmp_path, "readme", names_only=True) == ["README.md"]
    assert await search(tmp_path, r"mod_14\d\.py$", names_only=True) == [f"src/mod_14{n}.py" for n in range(10)]
    assert await search(tmp_path, "^src/", names_only=True, glob="*_1.py") == ["src/mod_1.py"]


async def test_many_and_long_matches_are_bounded_and_said(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "hit\n" * 5_000, "b": "x" * 3_000_000 + "needle" + "y" * 3_000_000})
    lines = await search(tmp_path, "hit")
    assert len(lines) == 201
    assert "only the first 200" in lines[-1]
    (line,) = await search(tmp_path, "needle")
    assert "needle" in line
    assert len(line) < 300


async def test_encodings(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "bom": b"\xef\xbb\xbfhit one\n", "u16": "é hit\n".encode("utf-16"), "gbk": "你好，世界 hit\n".encode("gbk"),
            "latin": "é hit\n".encode("latin-1"), "cut": b"hit \xff\n",
        },
    )  # fmt: skip
    lines = await search(tmp_path, "hit")
    assert lines == ["bom:1: hit one", "cut:1: hit ÿ", "gbk:1: 你好，世界 hit", "latin:1: é hit", "u16:1: é hit"]
    assert await search(tmp_path, "^hit one") == ["bom:1: hit one"]
    assert await search(tmp_path, "世界") == ["gbk:1: 你好，世界 hit"]


async def test_lines_are_counted_across_the_pieces_of_a_large_file(tmp_path: Path) -> None:
    line = "é" * 50 + "\n"
    fill(tmp_path, {"a": line * 120_000 + "the needle\n" + line * 10})
    assert await search(tmp_path, "needle") == ["a:120001: the needle"]
    assert await search(tmp_path, "needle$") == ["a:120001: the needle"]


async def test_an_unlucky_expression_neither_hangs_the_turn_nor_the_loop(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "a" * 40 + "!\n"})
    abort = Abort()
    context = ToolContext(cwd=tmp_path, abort=abort)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.02)
            ticks += 1

    ticking = asyncio.create_task(tick())
    searching = asyncio.create_task(SearchFiles().run({"pattern": "(a|aa)+$"}, context))
    await asyncio.sleep(0.5)
    assert not searching.done()
    began = time.monotonic()
    abort.fire()
    with pytest.raises((Aborted, ToolFailed)):
        await searching
    assert time.monotonic() - began < 1
    ticking.cancel()
    assert ticks > 10


async def test_the_time_is_bounded(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "hit\n", "b": "a" * 40 + "!\n"})
    began = time.monotonic()
    result = await SearchFiles(max_seconds=1).run({"pattern": "hit|(a|aa)+$"}, ToolContext(cwd=tmp_path))
    assert time.monotonic() - began < 2
    lines = result.text.split("\n")
    assert lines[0] == "a:1: hit"
    assert "stopped after 1 s" in lines[-1]


async def test_hostile_names_and_lines_stay_on_their_line(tmp_path: Path) -> None:
    fill(tmp_path, {"a\nb": "hit \x1b[2J\x07\n"})
    (line,) = await search(tmp_path, "hit")
    assert line == "a\\x0ab:1: hit \\x1b[2J\\x07"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("ab c", max_size=5), max_size=8),
    st.sampled_from(["a", "a+b", "^a", "b$", "a|c", "[ab]c", "^$", r"\Aa"]),
)
def test_matches_are_those_of_each_line(lines: list[str], pattern: str) -> None:
    compiled = compile_pattern(pattern, ignore_case=False)
    expected = [(i, line) for i, line in enumerate(lines) if compiled.search(line)] if lines else []
    if lines:
        assert matches(compiled, "".join(f"{line}\n" for line in lines), 100) == expected
        assert matches(compiled, "".join(f"{line}\r\n" for line in lines), 100) == expected


async def test_a_line_end_in_the_pattern_is_told(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "one\ntwo\n"})
    for pattern in ("one\ntwo", r"one\ntwo"):
        assert "each line is looked at by itself" in "\n".join(await search(tmp_path, pattern))
    assert "by itself" not in "\n".join(await search(tmp_path, r"one\\not"))


async def test_a_long_text_of_small_letters_is_given_up_in_time(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "a" * 1_000_000})
    search_files, context = SearchFiles(max_seconds=0.3), ToolContext(cwd=tmp_path)
    assert "stopped after" in (await search_files.run({"pattern": "a" * 20_000 + "b"}, context)).text
    assert "no match" in (await search_files.run({"pattern": "A" * 20_000 + "B"}, context)).text


_RULES = [
    "**/", "!**/*", "*", "!a", "a/", "!a/", "/a", "a/b", "!a/b/", "**/b", "a/**", "!a/**/b", "*.c", "!*/", "b", "!b.c",
    "/*", "!/a/", "a/*", "!a/*/", "**", "b/", "!*.c", "a/**/b/",
]  # fmt: skip


@pytest.mark.skipif(not shutil.which("git"), reason="git is not here")
@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(_RULES), min_size=1, max_size=4), st.lists(st.sampled_from(_RULES), max_size=2))
@example(["!**/*", "**/"], [])
@example(["a/**", "!b.c", "b"], ["!a/b/", "a/**/b/"])
def test_what_is_ignored_is_what_git_ignores(rules_: list[str], inner: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        fill(root, dict.fromkeys(("a/b/a/x.c", "a/b.c", "b/a", "b.c", "c/a/b", "c/b/b.c", "a/a/b/c", "x"), ""))
        fill(root, {".gitignore": "\n".join(rules_) + "\n", "a/.gitignore": "\n".join(inner) + "\n"})
        git = {"cwd": root, "capture_output": True, "check": True, "text": True}
        subprocess.run(["git", "init", "-q"], **git)  # type: ignore[call-overload]
        told = subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], **git).stdout  # type: ignore[call-overload]
        ours = {e.name for e in Walk(Abort(), Ignore()).below(Place(root, ".")) if e.is_file}
        assert ours == set(told.split("\n")) - {""}
