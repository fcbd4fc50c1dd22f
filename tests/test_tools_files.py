"""Reading, writing, editing and listing: through the tools, on real files."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orkas
from orkas.harness.tool import Tool, ToolContext, ToolResult
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder, Place
from orkas.tools import builtins
from orkas.tools.files import Seen, replace

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


CHILD_ENV = os.environ | {"PYTHONPATH": str(Path(orkas.__file__).parents[1])}


class Bench:
    """The built-in tools of one agent in one folder."""

    def __init__(self, cwd: Path, files: Path | None = None) -> None:
        self.context = ToolContext(cwd=cwd, files=files)
        self.tools: dict[str, Tool] = {t.name: t for t in builtins()}

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        result = await self.tools[name].run(arguments, self.context)
        assert isinstance(result, ToolResult)
        return result

    async def text(self, name: str, **arguments: Any) -> str:
        return (await self.call(name, **arguments)).text

    async def fails(self, name: str, **arguments: Any) -> str:
        with pytest.raises(ToolFailed) as caught:
            await self.call(name, **arguments)
        return caught.value.message


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    cwd = tmp_path / "work"
    cwd.mkdir()
    return Bench(cwd)


@pytest.fixture
def cwd(bench: Bench) -> Path:
    return bench.context.cwd


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret\n")
    return folder


def left_over(folder: Path) -> list[str]:
    return [p.name for p in folder.rglob("*.tmp")]


# the map of tools


def test_the_names_and_schemas_of_the_tools_are_fixed() -> None:
    tools = builtins()
    assert [t.name for t in tools] == [
        "read_file", "write_file", "edit_file", "apply_patch", "list_files", "search_files", "shell", "shell_job",
        "read_result", "web_fetch", "web_search",
    ]  # fmt: skip
    for tool in tools:
        assert tool.parameters["type"] == "object"
        assert len(tool.description) < 480
        for name, schema in tool.parameters["properties"].items():
            assert schema.get("description"), (tool.name, name)


async def test_bad_arguments_are_named(bench: Bench) -> None:
    assert "path" in await bench.fails("read_file")
    assert "nonsense" in await bench.fails("read_file", path="a", nonsense=1)
    assert "limit" in await bench.fails("read_file", path="a", limit=0)


# staying inside


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt", "link", "folder/secret.txt", "sub/../../outside/secret.txt", "{outside}/secret.txt",
        "chain",
    ],
)
async def test_no_way_out_of_the_working_folder(bench: Bench, cwd: Path, outside: Path, path: str) -> None:
    (cwd / "sub").mkdir()
    (cwd / "link").symlink_to(outside / "secret.txt")
    (cwd / "folder").symlink_to(outside)
    (cwd / "chain").symlink_to("link")
    path = path.replace("{outside}", str(outside))
    for call in (
        bench.fails("read_file", path=path),
        bench.fails("write_file", path=path, content="x"),
        bench.fails("edit_file", path=path, old_text="secret", new_text="x"),
        bench.fails("list_files", path=path),
        bench.fails("search_files", pattern="secret", path=path),
    ):
        assert "outside the working folder" in await call
    assert (outside / "secret.txt").read_text() == "secret\n"


async def test_a_new_file_behind_a_dangling_link_to_outside_is_not_made(bench: Bench, cwd: Path, outside: Path) -> None:
    (cwd / "new").symlink_to(outside / "new.txt")
    assert "outside" in await bench.fails("write_file", path="new", content="x")
    assert "outside" in await bench.fails("write_file", path="../outside/deep/new.txt", content="x")
    assert sorted(p.name for p in outside.iterdir()) == ["secret.txt"]


async def test_a_folder_with_the_same_beginning_is_outside(bench: Bench, cwd: Path) -> None:
    sibling = cwd.parent / "work-secret"
    sibling.mkdir()
    (sibling / "x").write_text("x")
    assert "outside" in await bench.fails("read_file", path=str(sibling / "x"))


async def test_links_inside_and_absolute_paths_inside_work(bench: Bench, cwd: Path) -> None:
    (cwd / "real").mkdir()
    (cwd / "real" / "a.txt").write_text("hello\n")
    (cwd / "folder").symlink_to("real")
    (cwd / "file").symlink_to("real/a.txt")
    for path in ("folder/a.txt", "file", str(cwd / "real" / "a.txt"), "./real/../real/a.txt"):
        assert await bench.text("read_file", path=path) == "hello"
    await bench.call("write_file", path="file", content="new\n")
    assert (cwd / "file").is_symlink()
    assert (cwd / "real" / "a.txt").read_text() == "new\n"


async def test_the_working_folder_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")
    bench = Bench(tmp_path / "way")
    await bench.call("write_file", path=str(tmp_path / "way" / "a.txt"), content="x")
    assert await bench.text("read_file", path="a.txt") == "x"


async def test_a_link_put_there_after_the_check_is_refused(bench: Bench, cwd: Path, outside: Path) -> None:
    (cwd / "sub").mkdir()
    (cwd / "sub" / "secret.txt").write_text("harmless")
    place = Place(cwd, "sub/secret.txt")
    (cwd / "sub").rename(cwd / "moved")
    (cwd / "sub").symlink_to(outside)
    with pytest.raises(ToolFailed), place.parent() as folder:
        folder.open("secret.txt")
    with Place(cwd, "moved/secret.txt").parent() as folder:
        (cwd / "moved" / "secret.txt").unlink()
        (cwd / "moved" / "secret.txt").symlink_to(outside / "secret.txt")
        with pytest.raises(ToolFailed):
            folder.open("secret.txt")


async def test_a_folder_that_is_renamed_while_it_is_open_stays_the_same_folder(cwd: Path, outside: Path) -> None:
    (cwd / "sub").mkdir()
    with Place(cwd, "sub").folder() as folder:
        (cwd / "sub").rename(cwd / "moved")
        (cwd / "sub").symlink_to(outside)
        os.close(folder.open("a.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    assert (cwd / "moved" / "a.txt").exists()
    assert not (outside / "a.txt").exists()


@pytest.mark.parametrize("flipped", ["file", "folder"])
def test_a_racing_link_never_leads_out(cwd: Path, outside: Path, flipped: str) -> None:
    """Somebody swaps a file or its folder for a link to outside, over and over, while it is opened."""
    (cwd / "sub").mkdir()
    (cwd / "sub" / "secret.txt").write_text("harmless")
    name = cwd / "sub" if flipped == "folder" else cwd / "sub" / "secret.txt"
    target = outside if flipped == "folder" else outside / "secret.txt"
    program = (
        "import os, sys\n"
        "name, aside, target = sys.argv[1:]\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    os.rename(name, aside); os.symlink(target, name); os.unlink(name); os.rename(aside, name)\n"
    )
    flipper = subprocess.Popen(
        [sys.executable, "-c", program, str(name), str(cwd / "aside"), str(target)], stdout=subprocess.PIPE
    )
    assert flipper.stdout is not None
    flipper.stdout.readline()
    read: Counter[str] = Counter()
    try:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                with Place(cwd, "sub/secret.txt").parent() as folder:
                    descriptor = folder.open("secret.txt")
                    read[os.read(descriptor, 100).decode()] += 1
                    os.close(descriptor)
            except (ToolFailed, OSError):
                read["refused"] += 1
    finally:
        flipper.kill()
        flipper.communicate()
    assert read["secret\n"] == 0
    assert read.total() > 0


async def test_our_own_data_inside_the_working_folder_cannot_be_touched(
    bench: Bench, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = cwd / ".orkas"
    home.mkdir()
    (home / "policy").write_text("x")
    monkeypatch.setenv("ORKAS_HOME", str(home))
    assert "own data" in await bench.fails("write_file", path=".orkas/policy", content="y")
    assert "own data" in await bench.fails("read_file", path=".orkas/policy")
    assert "own data" in await bench.fails("edit_file", path=".orkas/policy", old_text="x", new_text="y")
    assert "own data" in await bench.fails("search_files", pattern="x", path=".orkas")
    assert (home / "policy").read_text() == "x"
    (cwd / "mine").write_text("x")
    found = await bench.text("search_files", pattern="x")
    assert found == "mine:1: x\n[left out: 1 folder of Orkas' own data]"
    assert "policy" not in await bench.text("list_files", depth=3)
    assert "policy" not in await bench.text("list_files", pattern="*")


@pytest.mark.parametrize("below", [".", "sessions"])
async def test_our_own_data_cannot_be_touched_from_inside_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    home = tmp_path / "home"
    (home / "sessions").mkdir(parents=True)
    (home / below / "a").write_text("x")
    monkeypatch.setenv("ORKAS_HOME", str(home))
    bench = Bench(home / below)
    assert "own data" in await bench.fails("write_file", path="config.toml", content="y")
    assert "own data" in await bench.fails("edit_file", path="a", old_text="x", new_text="y")
    assert "own data" in await bench.fails("read_file", path="a")
    assert "own data" in await bench.fails("search_files", pattern="x")
    assert os.listdir(home / below) in (["a"], ["a", "sessions"], ["sessions", "a"])


async def test_whole_outputs_can_be_read_but_not_written(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "files").mkdir()
    whole = tmp_path / "files" / "shell-1.txt"
    whole.write_text("one\ntwo\n")
    bench = Bench(tmp_path / "work", tmp_path / "files")
    assert await bench.text("read_file", path=str(whole)) == "one\ntwo"
    assert "two" in await bench.text("search_files", pattern="two", path=str(whole))
    assert "outside" in await bench.fails("write_file", path=str(whole), content="x")


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "link to a device"])
async def test_what_is_no_regular_file_is_refused_at_once(bench: Bench, cwd: Path, kind: str, tmp_path: Path) -> None:
    if kind == "fifo":
        os.mkfifo(cwd / "p")
    elif kind == "socket":
        short = Path("/tmp") / f"s{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(short))
        short.rename(cwd / "p")
    elif kind == "device":
        try:
            os.mknod(cwd / "p", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("making a device needs root")
    else:
        (cwd / "p").symlink_to("/dev/zero")
    async with asyncio.timeout(1):
        reading = await bench.fails("read_file", path="p")
        writing = await bench.fails("write_file", path="p", content="x")
        assert await bench.text("search_files", pattern="x")
        assert "p" in await bench.text("list_files")
    expected = "outside" if kind.startswith("link") else "not a regular file"
    assert expected in reading
    assert expected in writing


async def test_odd_paths_get_a_sentence(bench: Bench, cwd: Path) -> None:
    (cwd / "loop").symlink_to("loop")
    (cwd / "file").write_text("x")
    assert "does not exist" in await bench.fails("read_file", path="nothing")
    assert "NUL" in await bench.fails("read_file", path="a\0b")
    assert "circles" in await bench.fails("read_file", path="loop")
    assert "is no folder" in await bench.fails("read_file", path="file/below")
    assert "too long" in (await bench.fails("read_file", path="x" * 5000)).lower()
    assert "list_files" in await bench.fails("read_file", path=".")
    assert "list_files" in await bench.fails("read_file", path="")
    assert "names a folder" in await bench.fails("write_file", path="new/", content="x")
    assert "working folder itself" in await bench.fails("write_file", path=".", content="x")
    assert "is no folder" in await bench.fails("write_file", path="file/below/x", content="x")


# reading


async def test_reading_goes_on_where_it_said(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    first = await bench.text("read_file", path="a")
    assert first.startswith("line 1\n")
    assert first.endswith("line 2000\n[3,000 more lines; read on with offset=2001]")
    assert await bench.text("read_file", path="a", offset=4999) == "line 4999\nline 5000"
    assert await bench.text("read_file", path="a", offset="5000", limit="1") == "line 5000"
    assert "has 5,000 lines" in await bench.fails("read_file", path="a", offset=5001)


async def test_an_empty_file_and_a_missing_last_newline(bench: Bench, cwd: Path) -> None:
    (cwd / "empty").write_text("")
    (cwd / "open").write_text("a\nb")
    assert await bench.text("read_file", path="empty") == "(empty file)"
    assert await bench.text("read_file", path="open", limit=1) == "a\n[1 more line; read on with offset=2]"


async def test_a_huge_line_is_cut_and_said(bench: Bench, cwd: Path) -> None:
    with (cwd / "a").open("wb") as file:
        for _ in range(50):
            file.write(b"x" * 1_000_000)
        file.write(b"\nend\n")
    text = await bench.text("read_file", path="a")
    assert len(text) < 3_000
    assert "x…\nend\n[cut to 2,000 characters: line 1" in text


def test_a_sparse_file_of_5_gb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.write(b"hello\n" * 20_000)
        file.truncate(5 * 1024**3)
    program = (
        "import asyncio, resource, sys\n"
        "from pathlib import Path\n"
        "from orkas.tools import builtins\n"
        "from orkas.harness.tool import ToolContext\n"
        "resource.setrlimit(resource.RLIMIT_AS, (600 * 2**20, 600 * 2**20))\n"
        "tools = {t.name: t for t in builtins()}\n"
        "context = ToolContext(cwd=Path(sys.argv[1]))\n"
        "print(asyncio.run(tools['read_file'].run({'path': 'a'}, context)).text[-60:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False, env=CHILD_ENV,
    )
    assert "more lines; read on with offset=2001]" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\0" * 100, "binary data of 100 bytes"),
        (b"\x7fELF\0\0", "ELF program"),
        (b"PK\x03\x04\0", "ZIP archive"),
        (PNG + b"\0" * (5 * 2**20), "too much to be shown"),
    ],
)
async def test_binary_files_are_named_and_refused(bench: Bench, cwd: Path, data: bytes, words: str) -> None:
    (cwd / "a").write_bytes(data)
    assert words in await bench.fails("read_file", path="a")


async def test_an_image_is_shown_whatever_its_name(bench: Bench, cwd: Path) -> None:
    (cwd / "photo.txt").write_bytes(PNG)
    result = await bench.call("read_file", path="photo.txt")
    assert [(i.media_type, base64.b64decode(i.data or "")) for i in result.images] == [("image/png", PNG)]
    assert "photo.txt" in result.text
    (cwd / "fake.png").write_text("text\n")
    assert await bench.text("read_file", path="fake.png") == "text"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfna\xc3\xafve\r\n", "naïve"),
        ("smörgås\nñ".encode("utf-16"), "smörgås\nñ\n[encoded as UTF-16-LE]"),
        ("你好，世界\n".encode("gbk"), "你好，世界\n[not UTF-8: decoded as GB18030]"),
        ("café\n".encode("latin-1"), "café\n[not UTF-8: decoded as Latin-1]"),
        ("naïve ".encode() * 3 + b"\xff\n", "naïve naïve naïve \ufffd\n[some bytes are not valid UTF-8]"),
    ],
)
async def test_encodings_are_read_and_named(bench: Bench, cwd: Path, data: bytes, text: str) -> None:
    (cwd / "a").write_bytes(data)
    assert await bench.text("read_file", path="a") == text


# writing


async def test_writing_creates_folders_and_tells(bench: Bench, cwd: Path) -> None:
    assert await bench.text("write_file", path="a/b/c.txt", content="x\ny\n") == "created a/b/c.txt (4 bytes, 2 lines)"
    assert (cwd / "a/b/c.txt").read_bytes() == b"x\ny\n"
    told = await bench.text("write_file", path="a/b/c.txt", content="z\r\n")
    assert told == "overwrote a/b/c.txt (3 bytes, 1 line, before 4 bytes)"
    assert (cwd / "a/b/c.txt").read_bytes() == b"z\r\n"
    assert left_over(cwd) == []


async def test_the_mode_is_kept(bench: Bench, cwd: Path) -> None:
    script = cwd / "run.sh"
    script.write_text("#!/bin/sh\necho old\n")
    script.chmod(0o751)
    await bench.call("read_file", path="run.sh")
    await bench.call("write_file", path="run.sh", content="#!/bin/sh\necho new\n")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    await bench.call("edit_file", path="run.sh", old_text="new", new_text="newer")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751


@pytest.mark.skipif(os.name != "posix", reason="modes")
async def test_special_bits_and_attributes_are_kept(bench: Bench, cwd: Path) -> None:
    file = cwd / "a"
    file.write_text("old")
    file.chmod(0o6751)
    try:
        os.setxattr(file, "user.origin", b"here")
        attributes = {"user.origin"}
    except (AttributeError, OSError):  # not Linux, or a file system without them
        attributes = set()
    await bench.call("edit_file", path="a", old_text="old", new_text="new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o6751
    await bench.call("write_file", path="a", content="newer")
    assert stat.S_IMODE(file.stat().st_mode) == 0o6751
    if attributes:
        assert os.getxattr(file, "user.origin") == b"here"


async def test_what_a_killed_writer_left_is_removed_and_a_living_one_is_left_alone(bench: Bench, cwd: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (cwd / "a").write_text("old")
    names = [".a.0123abcd.tmp", ".a.89abcdef.tmp", ".ab.0123abcd.tmp", ".a.notours.tmp", ".a.00000000.tmp"]
    for name in names:
        (cwd / name).write_text("half")
        os.utime(cwd / name, (0, 0))
    os.utime(cwd / ".a.00000000.tmp")
    with (cwd / ".a.89abcdef.tmp").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        await bench.call("read_file", path="a")
        await bench.call("write_file", path="a", content="new")
    assert sorted(os.listdir(cwd)) == sorted([*names[1:], "a"])


@pytest.mark.parametrize("path", ["n" * 300, "new/" + "n" * 256, "a/" * 3_000 + "b", "ü" * 128])
async def test_a_name_that_is_too_long_is_refused_without_a_trace(bench: Bench, cwd: Path, path: str) -> None:
    for name, more in (("write_file", {"content": "x"}), ("edit_file", {"old_text": "a", "new_text": "b"}), ("read_file", {})):
        told = await bench.fails(name, path=path, **more)
        assert "is too long: " in told and " at most" in told and len(told) < 200
    assert os.listdir(cwd) == []


async def test_a_read_only_file_is_refused_without_a_trace(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("old")
    (cwd / "a").chmod(0o444)
    assert "read-only" in await bench.fails("write_file", path="a", content="new")
    assert "read-only" in await bench.fails("edit_file", path="a", old_text="old", new_text="new")
    assert (cwd / "a").read_text() == "old"
    assert left_over(cwd) == []


async def test_other_hard_links_keep_the_old_content_and_that_is_said(bench: Bench, cwd: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", cwd / "a")
    await bench.call("read_file", path="a")
    assert "hard links" in await bench.text("write_file", path="a", content="new")
    assert (outside / "secret.txt").read_text() == "secret\n"


async def test_a_file_changed_behind_the_model_is_not_overwritten(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("one\ntwo\n")
    await bench.call("read_file", path="a")
    (cwd / "a").write_text("one\ntwo\nmine\n")
    refusal = await bench.fails("write_file", path="a", content="x")
    assert "changed since you read it" in refusal and "one\ntwo\nmine\n" in refusal
    assert (cwd / "a").read_text() == "one\ntwo\nmine\n"
    (cwd / "a").write_text("one\ntwo\n")
    await bench.call("read_file", path="a")
    (cwd / "a").write_text("one\ntwo\nmine\n")
    refusal = await bench.fails("edit_file", path="a", old_text="one", new_text="1")
    assert "changed since you read it" in refusal
    assert "mine" in refusal
    assert (cwd / "a").read_text() == "one\ntwo\nmine\n"
    await bench.call("edit_file", path="a", old_text="one", new_text="1")
    assert (cwd / "a").read_text() == "1\ntwo\nmine\n"


def test_a_change_in_the_last_moment_is_not_overwritten(cwd: Path) -> None:
    (cwd / "a").write_text("old")
    place = Place(cwd, "a")
    with place.parent() as folder:
        old = folder.stat("a")
        (cwd / "a").write_text("by the user")
        with pytest.raises(ToolFailed, match="just now"):
            replace(folder, "a", b"new", Seen(), place, old=old)
        with pytest.raises(ToolFailed, match="just now"):
            replace(folder, "a", b"new", Seen(), place, old=None)
    assert (cwd / "a").read_text() == "by the user"
    assert left_over(cwd) == []


async def test_a_touched_file_is_still_the_same(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    os.utime(cwd / "a", (1, 1))
    await bench.call("write_file", path="a", content="two\n")
    await bench.call("write_file", path="a", content="three\n")
    assert (cwd / "a").read_text() == "three\n"


async def test_parallel_edits_of_one_file_all_land(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("".join(f"<{n}>\n" for n in range(20)))
    await bench.call("read_file", path="a")
    await asyncio.gather(
        *(bench.call("edit_file", path="a", old_text=f"<{n}>", new_text=f"[{n}]") for n in range(20))
    )
    assert (cwd / "a").read_text() == "".join(f"[{n}]\n" for n in range(20))


def test_a_kill_during_a_write_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """The writer is killed at different moments of a write of 20 MB."""
    target = tmp_path / "a"
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from orkas.tools import builtins\n"
        "from orkas.harness.tool import ToolContext\n"
        "tools = {t.name: t for t in builtins()}\n"
        "context = ToolContext(cwd=Path(sys.argv[1]))\n"
        "print('ready', flush=True)\n"
        "for n in range(1000):\n"
        "    asyncio.run(tools['write_file'].run({'path': 'a', 'content': str(n % 10) * 20_000_000}, context))\n"
    )
    target.write_text("0" * 20_000_000)
    for delay in (0.01, 0.03, 0.06, 0.1):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, env=CHILD_ENV
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            try:
                child.wait(delay)
            except subprocess.TimeoutExpired:
                child.kill()
        data = target.read_bytes()
        assert len(data) == 20_000_000
        assert data == data[:1] * 20_000_000


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    program = (
        "import asyncio, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from orkas.infra.errors import ToolFailed\n"
        "from orkas.tools import builtins\n"
        "from orkas.harness.tool import ToolContext\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "tools = {t.name: t for t in builtins()}\n"
        "context = ToolContext(cwd=Path(sys.argv[1]))\n"
        "for limit in (0, 1, 4096, 99_999):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))\n"
        "    for name in ('a', 'new'):\n"
        "        try: asyncio.run(tools['write_file'].run({'path': name, 'content': 'x' * 100_000}, context))\n"
        "        except ToolFailed as error: assert name in str(error), error\n"
        "        else: raise SystemExit(f'{name} was written with a limit of {limit}')\n"
    )
    (tmp_path / "a").write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, env=CHILD_ENV, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]


async def test_a_working_folder_that_is_gone_is_said(bench: Bench, cwd: Path) -> None:
    cwd.rmdir()
    assert "is gone" in await bench.fails("read_file", path="a")
    assert "is gone" in await bench.fails("list_files")
    assert "is gone" in await bench.fails("search_files", pattern="x")
    assert "is gone" in await bench.fails("write_file", path="a", content="x")


# editing


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\nb\r\nc\r\n", "b", "B", b"a\nB\r\nc\r\n"),
        (b"a\nb\r\nc\r\n", "a\nb\nc", "A\nB\nC", b"A\nB\r\nC\r\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"10%\r50%\r100%\nok\n", "ok", "OK", b"10%\r50%\r100%\nOK\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        ("aé\r\nb\r\n".encode("utf-16"), "é\nb", "ü\nc", "aü\r\nc\r\n".encode("utf-16")),
        ("你好，世界。\n".encode("gbk"), "世界", "朋友", "你好，朋友。\n".encode("gbk")),
        ("café one\n".encode("latin-1"), "one", "über", "café über\n".encode("latin-1")),
        (b"good \xff bad\n", "bad", "worse", b"good \xff worse\n"),
        ("a\u2028b\x0cc\x85d\n".encode(), "c", "C", "a\u2028b\x0cC\x85d\n".encode()),
        (b"x $1 \\1 .*\n", ".*", r"\1 \n $2", rb"x $1 \1 \1 \n $2" + b"\n"),
        (b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
    ],
)
async def test_only_the_edited_bytes_differ(
    bench: Bench, cwd: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (cwd / "a").write_bytes(before)
    await bench.call("edit_file", path="a", old_text=old, new_text=new)
    assert (cwd / "a").read_bytes() == after
    assert left_over(cwd) == []


async def test_a_character_the_encoding_lacks_is_refused(bench: Bench, cwd: Path) -> None:
    data = "café one\n".encode("latin-1")
    (cwd / "a").write_bytes(data)
    assert "latin-1" in await bench.fails("edit_file", path="a", old_text="one", new_text="世界")
    assert (cwd / "a").read_bytes() == data


async def test_an_edit_that_is_not_certain_changes_nothing(bench: Bench, cwd: Path) -> None:
    source = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    (cwd / "a.py").write_text(source)
    twice = await bench.fails("edit_file", path="a.py", old_text="return 1", new_text="return 2")
    assert "2 times" in twice
    assert "lines 2, 5" in twice
    blanks = await bench.fails("edit_file", path="a.py", old_text="def f():\n  return 1", new_text="x")
    assert "Line 1 has it with other blanks" in blanks
    near = await bench.fails("edit_file", path="a.py", old_text="    return 10", new_text="x")
    assert "closest is line 2" in near
    assert "comes near" in await bench.fails("edit_file", path="a.py", old_text="zzzzzz", new_text="x")
    assert "empty" in await bench.fails("edit_file", path="a.py", old_text="", new_text="x")
    assert "the same" in await bench.fails("edit_file", path="a.py", old_text="x", new_text="x")
    assert "working folder itself" in await bench.fails("edit_file", path=".", old_text="x", new_text="y")
    assert (cwd / "a.py").read_text() == source


async def test_an_edit_shows_what_it_did(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    told = await bench.text("edit_file", path="a", old_text="line 50\n", new_text="LINE 50\n")
    assert told == (
        "edited a\n@@ -48,5 +48,5 @@\n line 48\n line 49\n-line 50\n+LINE 50\n line 51\n line 52"
    )
    told = await bench.text("edit_file", path="a", old_text="line", new_text="row", replace_all=True)
    assert "99 replacements" in told
    assert "[96 more not shown]" in told


async def test_places_that_overlap_are_two(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("aaa")
    assert "2 times" in await bench.fails("edit_file", path="a", old_text="aa", new_text="b")
    await bench.call("edit_file", path="a", old_text="aa", new_text="b", replace_all=True)
    assert (cwd / "a").read_text() == "ba"


async def test_many_places_are_named_to_ten(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("x\n" * 500)
    told = await bench.fails("edit_file", path="a", old_text="x", new_text="y")
    assert "more than 10 times" in told
    assert "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …" in told


@pytest.mark.parametrize("line", ["a,", "a\n", "a\r\n"])
def test_millions_of_places_are_replaced_in_bounded_memory(tmp_path: Path, line: str) -> None:
    (tmp_path / "a").write_bytes((line * (20_000_000 // len(line))).encode())
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from orkas.harness.tool import ToolContext\n"
        "from orkas.infra.errors import ToolFailed\n"
        "from orkas.tools import builtins\n"
        "edit = next(t for t in builtins() if t.name == 'edit_file')\n"
        "async def go(**more):\n"
        "    return await edit.run({'path': 'a', 'old_text': sys.argv[2], 'new_text': ';', **more},"
        " ToolContext(cwd=Path(sys.argv[1])))\n"
        "try: asyncio.run(go())\n"
        "except ToolFailed as error: print(error)\n"
        "print(asyncio.run(go(replace_all=True)).text)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(status.split('VmHWM:')[1].split()[0]) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), line[1:].replace("\r", "")],
        env=CHILD_ENV, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "more than 10 times" in done.stdout
    assert f"{20_000_000 // len(line):,} replacements" in done.stdout
    assert int(done.stdout.split()[-1]) < 300


async def test_an_edit_may_not_grow_a_file_beyond_all_bounds(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("x" * 100_000)
    told = await bench.fails("edit_file", path="a", old_text="x", new_text="y" * 10_000, replace_all=True)
    assert "grow beyond 64 MB" in told


async def test_too_many_places_among_mixed_line_ends_are_refused(bench: Bench, cwd: Path) -> None:
    data = b"a\n" + b"a\r\n" * 100_000
    (cwd / "a").write_bytes(data)
    assert "mixes" in await bench.fails("edit_file", path="a", old_text="a\n", new_text="b\n", replace_all=True)
    assert (cwd / "a").read_bytes() == data
    (cwd / "a").write_bytes(data[:2_000])
    await bench.call("edit_file", path="a", old_text="a\n", new_text="b\n", replace_all=True)
    assert (cwd / "a").read_bytes() == data[:2_000].replace(b"a", b"b")


async def test_the_difference_in_a_long_line_is_short(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("a" * 1_000_000 + "NEEDLE" + "b" * 1_000_000)
    told = await bench.text("edit_file", path="a", old_text="NEEDLE", new_text="PIN")
    assert "aNEEDLEb" in told
    assert "aPINb" in told
    assert len(told) < 4_100
    (cwd / "b").write_text("".join(f"{n} {'x' * 500}\n" for n in range(500)))
    told = await bench.text("edit_file", path="b", old_text="x" * 500, new_text="y" * 600, replace_all=True)
    assert len(told) < 4_200
    assert "more characters of the difference" in told


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("euc-kr", "안녕하세요 세계 name=1\n"),
        ("big5", "name=1 # 測試\n"),
        ("big5", "這是一個測試，我們的設定。name=1\n"),
        ("euc-jp", "日本語の設定です。漢字、name=1\n"),
        ("euc-jp", "設定。漢字、変更。name=1\n"),
        ("shift-jis", "設定 name=1\n"),
        ("windows-1251", "имя name=1\n"),
        ("koi8-r", "имя name=1\n"),
        ("iso8859-7", "όνομα name=1\n"),
    ],
)
async def test_new_characters_do_not_go_into_a_guessed_encoding(
    bench: Bench, cwd: Path, encoding: str, text: str
) -> None:
    """Unless they stand in the file already: then their bytes are right, whatever the encoding is."""
    data = text.encode(encoding)
    (cwd / "a").write_bytes(data)
    seen = await bench.text("read_file", path="a")
    assert "decoded as" in seen
    for new in ("é=1", "名前=1", "이름=1"):
        if set(new) - set(seen) - {"=", "1"}:
            assert "guessed" in await bench.fails("edit_file", path="a", old_text="name=1", new_text=new)
    assert (cwd / "a").read_bytes() == data
    await bench.call("edit_file", path="a", old_text="name=1", new_text="id=2")
    assert (cwd / "a").read_bytes() == text.replace("name=1", "id=2").encode(encoding)
    known = next(c for c in seen if c > "\x7f")
    await bench.call("edit_file", path="a", old_text="id=2", new_text=f"id={known}")
    assert (cwd / "a").read_bytes() != text.replace("name=1", "id=2").encode(encoding)


async def test_binary_files_are_not_edited(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_bytes(b"abc\0def")
    assert "no text" in await bench.fails("edit_file", path="a", old_text="abc", new_text="x")


@settings(max_examples=80, deadline=None)
@given(
    head=st.binary(max_size=30),
    tail=st.binary(max_size=30),
    old=st.text("ab é世\n", min_size=1, max_size=6),
    new=st.text("cd ü界\n", max_size=6),
)
def test_bytes_around_an_edit_never_change(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, tail: bytes, old: str, new: str
) -> None:
    """Whatever the file holds: edited at the one place, or refused and untouched."""
    folder = tmp_path_factory.mktemp("edit")
    mark = "MARK" + old + "MARK"
    before = head + mark.encode() + tail
    (folder / "a").write_bytes(before)
    bench = Bench(folder)
    try:
        asyncio.run(bench.call("edit_file", path="a", old_text=mark, new_text=new))
    except ToolFailed:
        assert (folder / "a").read_bytes() == before
        return
    after = (folder / "a").read_bytes()
    assert after.startswith(head)
    assert after.endswith(tail)
    middle = after[len(head) : len(after) - len(tail)]
    written = (new.encode(encoding, "replace") for encoding in ("utf-8", "latin-1", "gb18030"))
    assert middle.replace(b"\r\n", b"\n") in written


# listing


async def test_the_largest_file_comes_first(bench: Bench, cwd: Path) -> None:
    for name, size in (("small", 1), ("large", 5000), ("middle", 70)):
        (cwd / name).write_bytes(b"x" * size)
    (cwd / "sub").mkdir()
    (cwd / "sub" / "deep.py").write_text("x")
    (cwd / "link").symlink_to("large")
    os.mkfifo(cwd / "pipe")
    assert (await bench.text("list_files")).split("\n") == [
        "5000  large", "  70  middle", "   1  small", "   -  link -> large", "   -  pipe (named pipe)", " dir  sub/",
    ]  # fmt: skip
    assert "sub/deep.py" in await bench.text("list_files", depth=2)
    assert await bench.text("list_files", path="sub") == "  1  deep.py"


async def test_files_are_found_by_pattern(bench: Bench, cwd: Path) -> None:
    for name in ("a.py", "b.md", "src/c.py", "src/deep/d.ts", "src/deep/e.txt"):
        (cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (cwd / name).write_text(name)

    async def found(**arguments: Any) -> list[str]:
        return sorted(line.split()[-1] for line in (await bench.text("list_files", **arguments)).split("\n"))

    assert await found(pattern="*.py") == ["a.py", "src/c.py"]
    assert await found(pattern="*.{md,ts}") == ["b.md", "src/deep/d.ts"]
    assert await found(pattern="src/**/*.t*") == ["src/deep/d.ts", "src/deep/e.txt"]
    assert await found(pattern="*.txt", path="src") == ["src/deep/e.txt"]
    assert "no file below . matches" in await bench.text("list_files", pattern="*.zip")
    (cwd / ".gitignore").write_text("deep\n")
    assert (await bench.text("list_files", pattern="*.t*")).split("\n") == [
        "[no file below . matches *.t*]", "[left out: 1 ignored by .gitignore]",
    ]  # fmt: skip
    assert "deep/" in await bench.text("list_files", path="src")


async def test_a_long_list_is_cut_and_said(bench: Bench, cwd: Path) -> None:
    for n in range(600):
        (cwd / f"f{n}").write_bytes(b"x" * n)
    lines = (await bench.text("list_files")).split("\n")
    assert len(lines) == 501
    assert lines[0] == "599  f599"
    assert lines[-1].startswith("[100 more")


async def test_hostile_names_stay_on_their_line(bench: Bench, cwd: Path) -> None:
    (cwd / "a\nb\x1b[2J").write_text("x")
    Path(os.fsdecode(os.fsencode(cwd) + b"/\xff")).write_text("y")
    text = await bench.text("list_files")
    assert "\x1b" not in text
    assert sorted(text.split("\n")) == ["  1  \\xff", "  1  a\\x0ab\\x1b[2J"]


async def test_an_empty_folder_and_a_file_are_said(bench: Bench, cwd: Path) -> None:
    assert await bench.text("list_files") == ". is empty"
    (cwd / "a").write_text("abc")
    assert await bench.text("list_files", path="a") == "  3  a"


def test_the_handle_of_a_folder_is_given_back(cwd: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(5):
        with Place(cwd, ".").folder() as folder:
            assert isinstance(folder, Folder)
        with pytest.raises(ToolFailed), Place(cwd, "no/where").parent():
            pass
    after = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert after == before


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("\\\\server\\share\\x", "another machine"), ("//server/share", "another machine"),
        ("\\??\\UNC\\server\\x", "device"), ("\\\\.\\PhysicalDrive0", "device"), ("\\\\?\\C:\\x", "device"),
        ("C:x.txt", "relative to the current folder"), ("a.txt:stream", "stream"), ("C:\\a:b", "stream"),
        ("nul", "device"), ("sub/CON.txt", "device"), ("a/Com1", "device"), ("aux .c", "device"), ("x. ", "drops"),
        ("dir./x", "drops"), ("C:\\x\\y", ""), ("sub/a.txt", ""), ("../x", ""), ("console.txt", ""), (".", ""),
    ],
)  # fmt: skip
def test_windows_spellings_that_are_no_plain_paths(path: str, word: str) -> None:
    from orkas.infra.paths import odd_on_windows

    told = odd_on_windows(path)
    assert word in told and bool(told) == bool(word)


# What the model has not seen


async def test_a_file_that_was_never_read_is_not_overwritten(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("mine\n")
    assert "have not read it" in (refusal := await bench.fails("write_file", path="a", content="x")) and "mine\n" in refusal
    assert (cwd / "a").read_text() == "mine\n"
    await bench.call("write_file", path="a", content="x")  # it was shown whole
    assert (cwd / "a").read_text() == "x"
    (cwd / "long").write_text("mine\n" * 5_000)
    for _ in range(2):
        assert "Read it first" in await bench.fails("write_file", path="long", content="x")
    await bench.call("read_file", path="long")
    await bench.call("write_file", path="long", content="x")
    (cwd / "empty").touch()
    await bench.call("write_file", path="empty", content="x")
    (cwd / "data").write_bytes(b"\0\1\2")
    assert "have not read it" in await bench.fails("write_file", path="data", content="x")
    await bench.fails("read_file", path="data")
    await bench.call("write_file", path="data", content="x")


async def test_looking_beforehand_is_not_reading(bench: Bench, cwd: Path) -> None:
    (cwd / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    (cwd / "a").write_text("one\nmine\n")
    edit: Any = bench.tools["edit_file"]
    with pytest.raises(ToolFailed, match="changed since"):
        edit.preview({"path": "a", "old_text": "one", "new_text": "1"}, bench.context)
    assert "changed since" in await bench.fails("write_file", path="a", content="x")


@pytest.mark.parametrize("wait", [False, True])
async def test_a_change_with_the_old_size_and_time_is_seen(bench: Bench, cwd: Path, wait: bool) -> None:
    path = cwd / "a"
    path.write_text("one\n")
    if wait:
        os.utime(path, (1, 1))
    before = path.stat()
    await bench.call("read_file", path="a")
    with path.open("r+") as file:
        file.write("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for name, arguments in (("write_file", {"content": "x"}),):
        assert "changed since" in await bench.fails(name, path="a", **arguments)
    assert path.read_text() == "two\n"


def test_a_change_in_the_last_moment_is_seen_by_its_content(cwd: Path) -> None:
    (cwd / "a").write_text("old")
    place = Place(cwd, "a")
    with place.parent() as folder:
        old = folder.stat("a")
        os.link(cwd / "a", cwd / "second")  # changes the last of its times, and nothing else
        replace(folder, "a", b"new", Seen(), place, old=old, was=b"old")
        (cwd / "second").unlink()
        old = folder.stat("a")
        (cwd / "a").write_text("NEW")
        os.utime(cwd / "a", ns=(old.st_atime_ns, old.st_mtime_ns))
        with pytest.raises(ToolFailed, match="just now"):
            replace(folder, "a", b"x", Seen(), place, old=old, was=b"new")
    assert (cwd / "a").read_text() == "NEW"


async def test_a_name_that_only_looks_the_same_is_told(bench: Bench, cwd: Path) -> None:
    there, asked = "cafe\u0301.txt", "caf\u00e9.txt"
    (cwd / there).write_text("x\n")
    if (cwd / asked).exists():
        pytest.skip("one name on this file system")
    (cwd / "e\u0301").mkdir()
    patch = "*** Begin Patch\n*** {} File: " + asked + "\n{}*** End Patch"
    for name, arguments in (
        ("read_file", {"path": asked}), ("write_file", {"path": asked, "content": "y"}),
        ("write_file", {"path": "\u00e9/new", "content": "y"}), ("list_files", {"path": "\u00e9"}),
        ("edit_file", {"path": asked, "old_text": "x", "new_text": "y"}), ("search_files", {"path": asked, "pattern": "x"}),
        ("apply_patch", {"patch": patch.format("Add", "+y\n")}), ("apply_patch", {"patch": patch.format("Delete", "")}),
    ):  # fmt: skip
        assert "e\\u0301" in await bench.fails(name, **arguments), name
    assert sorted(os.listdir(cwd)) == sorted([there, "e\u0301"])


async def test_a_name_as_long_as_the_system_allows(bench: Bench, cwd: Path) -> None:
    name = "😀" * 62
    await bench.call("write_file", path=name, content="x")
    await bench.call("edit_file", path=name, old_text="x", new_text="y")
    await bench.call("apply_patch", patch=f"*** Begin Patch\n*** Update File: {name}\n@@\n-y\n+z\n*** Add File: b\n+b\n*** End Patch")
    assert (cwd / name).read_text() == "z" and sorted(os.listdir(cwd)) == sorted([name, "b"])
