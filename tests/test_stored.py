"""Long results are kept once beside the session, and the model reads on in them."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkas import Agent, Session
from orkas.harness.sessions import shelf
from orkas.harness.tool import ToolContext
from orkas.infra.errors import ToolFailed
from orkas.infra.messages import Image, Text, ToolMessage, text_of
from orkas.providers.base import CompletionParams
from orkas.testing import ScriptedProvider, call
from orkas.tools.stored import PAGE_BYTES, ReadResult

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 200


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "s.files"
    folder.mkdir()
    return folder


async def read(folder: Path | None, /, file: str = "r.txt", **arguments: Any) -> str:
    context = ToolContext(cwd=Path.cwd(), files=folder)
    return await ReadResult().run({"file": file, **arguments}, context)


async def refused(folder: Path | None, /, file: str = "r.txt", **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        await read(folder, file, **arguments)
    return str(caught.value)


def last_note(page: str) -> str:
    return page.rsplit("\n", 1)[-1]


# --- pages --------------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "y", "é", "汉", "\x1b", "a b"]), st.integers(0, 7_000), st.integers(1, 9_000)), max_size=4),
       st.integers(1, 30))  # fmt: skip
def test_no_page_is_longer_than_a_page_and_its_note(kept: Path, parts: list[tuple[str, int, int]], start: int):
    text = "".join((what * wide + "\n") * max(1, min(times, 40_000 // (wide + 1))) for what, wide, times in parts)
    (kept / "r.txt").write_bytes(text.encode())
    for how in ({}, {"lines": 50_000}, {"chars": 50_000}, {"search": "a"}, {"search": "y"}):
        with suppress(ToolFailed):
            page = asyncio.run(read(kept, start=start, **how))
            assert len(page.rpartition("\n")[0].encode()) <= PAGE_BYTES


async def test_a_page_of_lines_says_what_remains_and_how_to_get_it(kept: Path):
    (kept / "r.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    page = await read(kept)
    assert page.startswith("line 1\nline 2\n") and len(page.encode()) < PAGE_BYTES + 200
    found = re.fullmatch(r"\[lines 1 to (\d+) of 5,000; read on with start=(\d+)\]", last_note(page))
    assert found and int(found[2]) == int(found[1]) + 1
    assert (await read(kept, start=int(found[2]), lines=2)).startswith(f"line {found[2]}\n")
    assert await read(kept, start=4999) == "line 4999\nline 5000\n[lines 4,999 to 5,000 of 5,000]"
    assert "5,000 lines" in await refused(kept, start=5001)


async def test_a_line_longer_than_a_page_is_read_on_by_characters(kept: Path):
    (kept / "r.txt").write_text("short\n" + "x" * 50_000 + "END\nlast\n")
    assert last_note(await read(kept)) == "[lines 1 to 1 of 3; read on with start=2]"
    page = await read(kept, start=2)
    note = last_note(page)
    found = re.search(r"line 2 goes on: start=(\d+) with chars=(\d+)", note)
    assert found and "lines 2 to 2 of 3" in note and "read on with start=3" in note
    text = page.rsplit("\n", 1)[0]
    where = int(found[1])
    while "END" not in text:
        page = await read(kept, start=where, chars=int(found[2]))
        assert len(page.encode()) < PAGE_BYTES + 200
        text += page.rsplit("\n[", 1)[0]
        more = re.search(r"read on with start=(\d+), chars=\d+", last_note(page))
        where = int(more[1]) if more else 0
    assert text.startswith("x" * 50_000 + "END")


async def test_chinese_takes_fewer_characters_a_page(kept: Path):
    (kept / "r.txt").write_text("漢字" * 5000)
    page = await read(kept, chars=6000)
    assert len(page.encode()) < PAGE_BYTES + 200 and "\ufffd" not in page


async def test_control_codes_and_bytes_that_are_no_text_come_as_pictures_of_bounded_size(kept: Path):
    (kept / "r.txt").write_bytes(b"\x1b[31mred\x1b[0m\xff\n" + b"\x00\x07" * 40_000)
    first = await read(kept, lines=1)
    assert first.startswith("red\ufffd\n")
    for page in (await read(kept, start=2), await read(kept, start=9, chars=6000)):
        assert "\x00" not in page and "\u2400\u2407" in page and len(page.encode()) < PAGE_BYTES + 200


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("ab\n漢\u00e9"), min_size=1, max_size=400).map(lambda t: t * 40), st.integers(1, 3000))
async def test_reading_on_by_characters_gives_back_the_whole(kept: Path, text: str, most: int):
    (kept / "r.txt").write_bytes(text.encode())
    got, start = "", 1
    while True:
        page = await read(kept, start=start, chars=most)
        body, note = page.rsplit("\n[", 1)
        got += body
        more = re.search(r"read on with start=(\d+)", note)
        if not more or len(got) > 5 * most:
            break
        assert int(more[1]) > start
        start = int(more[1])
    assert text.startswith(got) and (len(got) == len(text) or more)


texts = st.lists(
    st.one_of(st.text(st.sampled_from("ab漢\r"), max_size=30), st.integers(5_900, 70_000).map(lambda n: "x" * n)),
    min_size=1, max_size=8,
).map(lambda parts: "\n".join(parts * 3))  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts, st.data())
async def test_any_line_is_reached_by_its_number_and_by_what_it_holds(kept: Path, text: str, data: st.DataObject):
    lines = text.split("\n")
    number = data.draw(st.integers(1, len(lines)))
    lines[number - 1] = "needle"
    (kept / "r.txt").write_bytes("\n".join(lines).encode())
    page = await read(kept, start=number, lines=1)
    more = f"; read on with start={number + 1}" if number < len(lines) - (not lines[-1]) else ""
    assert page == f"needle\n[lines {number} to {number} of {len(lines) - (not lines[-1])}{more}]"
    found = await read(kept, search="needle")
    assert re.search(rf"^{number}: needle$", found, re.MULTILINE) and found.count("needle") == 1
    assert f"from line {number + 1} on" in await read(kept, search="needle", start=number + 1)


# --- searching ----------------------------------------------------------------------------------------------------


async def test_words_are_found_in_any_case_with_the_lines_around(kept: Path):
    lines = [f"line {n}" for n in range(1, 1001)]
    lines[499] = "here is the Needle"
    (kept / "r.txt").write_text("\n".join(lines))
    assert await read(kept, search="needle") == "499- line 499\n500: here is the Needle\n501- line 501"
    assert await read(kept, search="line 1000") == "999- line 999\n1000: line 1000"  # no newline at the end
    assert "nothing in it holds 'x y'" in await read(kept, search="x y")
    assert "from line 501 on" in await read(kept, search="needle", start=501)


async def test_all_places_can_be_reached(kept: Path):
    (kept / "r.txt").write_text("".join(f"{n} hit {'.' * 60}\n" for n in range(1, 301)))
    seen: list[int] = []
    start = 1
    while start:
        page = await read(kept, search="HIT", start=start)
        assert len(page.encode()) < PAGE_BYTES + 200
        seen += [int(n) for n in re.findall(r"^(\d+): ", page, re.MULTILINE)]
        more = re.search(r"\[(\d+) more places; search on with start=(\d+)\]", page)
        assert not more or int(more[1]) == 300 - len(seen)
        start = int(more[2]) if more else 0
    assert seen == list(range(1, 301))


async def test_places_in_one_endless_line_are_told_by_character(kept: Path):
    text = ("x" * 65_530 + "needle") * 4  # the second word lies over the border of what is held at once
    (kept / "r.txt").write_text(text)
    page = await read(kept, search="needle")
    places = [int(n) for n in re.findall(r"^1, character (\d+): ", page, re.MULTILINE)]
    assert places == [65_531, 131_067, 196_603, 262_139]
    assert (await read(kept, start=places[1], chars=6)).startswith("needle\n")
    assert await read(kept, search="needle", start=200_000, chars=1) == page.split("\n")[3]


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file", ["../secret.txt", "/etc/passwd", "a/b.txt", "", ".", "..", "x\0y", "link.txt", "folder", "nothing.txt"]
)
async def test_nothing_outside_the_folder_is_read(kept: Path, file: str):
    (kept.parent / "secret.txt").write_text("secret")
    (kept / "r.txt").write_text("x")
    (kept / "folder").mkdir()
    (kept / "link.txt").symlink_to(kept.parent / "secret.txt")
    said = await refused(kept, file)
    assert "keeps no file" in said and "r.txt" in said


async def test_a_pipe_does_not_hang(kept: Path):
    os.mkfifo(kept / "pipe.txt")
    assert "keeps no file" in await refused(kept, "pipe.txt")


async def test_a_picture_is_refused_and_an_empty_file_said(kept: Path):
    (kept / "image-1.png").write_bytes(PNG)
    (kept / "empty.txt").write_text("")
    assert "picture" in await refused(kept, "image-1.png")
    assert await read(kept, "empty.txt") == "(empty file)"
    assert "not both" in await refused(kept, lines=1, chars=1)
    assert "search is empty" in await refused(kept, search=" ")


async def test_a_conversation_in_memory_says_that_it_keeps_nothing():
    assert "lives in memory" in await refused(None)


# --- end to end ---------------------------------------------------------------------------------------------------

MANY = "seq 1 760000; echo the planted line; seq 1 1000"  # more than 5 MB
FILE = re.compile(r"read_result, file (\S+?)[\s…\]]")


def file_named(params: CompletionParams) -> str:
    """The file that the newest preview names: what a model goes by."""
    for message in reversed(params.messages):
        if isinstance(message, ToolMessage) and (found := FILE.search(text_of(message))):
            return found[1]
    raise AssertionError("no preview names a file")


def finds(params: CompletionParams) -> list[Any]:
    return [call("read_result", file=file_named(params), search="planted")]


def answers(params: CompletionParams) -> str:
    return text_of(params.messages[-1])


async def test_a_model_reads_on_in_an_output_of_five_megabytes_also_later_and_in_a_fork(tmp_path: Path):
    with Session.open("big") as session:
        model = ScriptedProvider([[call("shell", command=MANY)], finds, answers])
        done = await Agent(model, session=session, cwd=tmp_path).run("count")
        assert "760001: the planted line" in done.text
        results = [m for m in session.messages if isinstance(m, ToolMessage)]
        assert len(text_of(results[0])) < 25_000
        block = results[0].content[0]
        assert isinstance(block, Text) and block.file and (block.bytes or 0) > 5_000_000
        assert session.files is not None and (session.files / block.file).stat().st_size == block.bytes
    fork = shelf.fork("big")
    for name in ("big", fork):
        with Session.open(name) as session:
            done = await Agent(ScriptedProvider([finds, answers]), session=session, cwd=tmp_path).run("again")
            assert "760001: the planted line" in done.text


async def test_the_same_output_is_kept_once(tmp_path: Path):
    with Session.open("twice") as session:
        model = ScriptedProvider([[call("shell", command="seq 1 9000")], [call("shell", command="seq 1 9000 ")], "ok"])
        await Agent(model, session=session, cwd=tmp_path).run("count")
        assert session.files is not None and len(list(session.files.iterdir())) == 1


async def test_a_long_result_of_any_tool_is_read_on(tmp_path: Path):
    def book() -> str:
        """A long text."""
        return "word " * 30_000 + "planted"

    with Session.open("book") as session:
        from orkas.app import builtins

        model = ScriptedProvider([[call("book")], finds, answers])
        done = await Agent(model, session=session, cwd=tmp_path, tools=[*builtins(), book]).run("read")
        assert "1, character 150001: " in done.text and "planted" in done.text


async def test_pictures_beside_the_results_are_not_offered(tmp_path: Path):
    with Session.open("pictures") as session:
        image = session.store_image(Image(media_type="image/png", data=base64.b64encode(PNG).decode()))
        assert image.file is not None
        model = ScriptedProvider([[call("read_result", file=image.file)], [call("read_result", file="x.txt")], answers])
        done = await Agent(model, session=session, cwd=tmp_path).run("look")
        assert "it keeps none yet" in done.text and done.tools["read_result"].errors == 2


async def test_the_tools_offered_are_the_same_before_and_after_something_is_kept(tmp_path: Path):
    with Session.open("stable") as session:
        model = ScriptedProvider([[call("shell", command="seq 1 9000")], "ok", "ok"])
        agent = Agent(model, session=session, cwd=tmp_path)
        await agent.run("count")
        await agent.run("again")
    first, *others = [[t.name for t in request.tools] for request in model.requests]
    assert "read_result" in first and all(names == first for names in others)
