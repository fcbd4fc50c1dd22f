"""The file half of a session: what exactly stands in the file and beside it after each thing that is done."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from orkas.harness.sessions.attachments import Attachments
from orkas.harness.sessions.store import LINE_CAP, JsonlStore, clip, files_of, read_bytes
from orkas.infra.errors import SessionMissing, SessionUnreadable, StorageError
from orkas.infra.messages import Image, Message, Text, ToolMessage, encode, text_of, tool_result, user_message


def line(message: Message) -> bytes:
    return encode(message) + b"\n"


def store(path: Path, *, missing_ok: bool = True) -> JsonlStore:
    made = JsonlStore(path, id="s")
    made.load(missing_ok=missing_ok)
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


ONE, TWO, THREE = user_message("one"), user_message("two"), user_message("three")


def test_the_first_append_writes_the_header_once(path: Path):
    made = store(path)
    made.append([ONE], [line(ONE)])
    made.append([TWO], [line(TWO)])
    made.close()
    head, *rest = path.read_bytes().splitlines(keepends=True)
    header = json.loads(head)
    assert (header["type"], header["version"], header["id"], bool(header["created"])) == ("session", 1, "s", True)
    assert rest == [line(ONE), line(TWO)]
    assert made.found.header == header


def test_loading_says_what_is_missing_and_what_is_no_file(path: Path):
    with pytest.raises(SessionMissing, match="there is no session 's'"):
        store(path, missing_ok=False)
    with pytest.raises(SessionMissing):
        JsonlStore(path, id="s").load()
    with pytest.raises(SessionMissing):
        read_bytes(path / "under")
    assert store(path).found.messages == []
    path.mkdir()
    with pytest.raises(SessionUnreadable, match="is not a file"):
        store(path)
    with pytest.raises(SessionUnreadable, match="'a\\\\x00b' cannot be read: embedded null byte"):
        read_bytes(path.with_name("a\0b.jsonl"))
    loop = path.with_name("loop.jsonl")
    loop.symlink_to(loop)
    with pytest.raises(SessionUnreadable, match="'loop' cannot be read: Too many levels of symbolic links; check"):
        read_bytes(loop)


def test_files_lie_beside_their_session(path: Path):
    assert files_of(path) == path.with_name("s.files")
    assert files_of(path.with_name("a.jsonl.jsonl")).name == "a.jsonl.files"


@pytest.mark.parametrize(
    ("torn", "kept"),
    [(b'{"role":"us', {"text": '{"role":"us'}), (b"\xff\xfe{", {"base64": base64.b64encode(b"\xff\xfe{").decode()})],
)
def test_a_fragment_is_set_aside_with_its_line_and_cut(torn: bytes, kept: dict[str, str], path: Path):
    path.write_bytes(line(ONE) + torn)
    made = store(path)
    made.append([TWO], [line(TWO)])
    made.append([THREE], [line(THREE)])
    made.close()
    assert path.read_bytes() == line(ONE) + line(TWO) + line(THREE)
    [note] = path.with_name("s.jsonl.damaged").read_bytes().splitlines()
    noted = json.loads(note)
    assert noted.pop("set_aside")
    assert noted == {"line": 2, **kept}


def test_a_missing_newline_is_put_in_once(path: Path):
    path.write_bytes(encode(ONE))
    made = store(path)
    made.append([TWO], [line(TWO)])
    made.append([THREE], [line(THREE)])
    made.close()
    assert path.read_bytes() == line(ONE) + line(TWO) + line(THREE)


def test_a_rewrite_keeps_the_very_bytes_of_what_stays_and_archives_the_rest(path: Path):
    odd = b'{"role":"user", "content":"two", "id":"b", "x":1}'
    note = b'{"type":"note","n":1}'
    last = b'{"type":"mark"}'
    head = b'{"type":"session","version":1,"id":"s"}'
    path.write_bytes(b"\n".join([head, encode(ONE), note, odd, encode(THREE), last, b""]))
    made = store(path)
    _one, two, three = made.found.messages
    new = user_message("summary")
    assert made.rewrite([new, two, three]) is None
    assert path.read_bytes() == b"\n".join([head, encode(new), note, odd, encode(THREE), last, b""])
    mark, archived = path.with_name("s.jsonl.archive").read_bytes().splitlines()
    assert archived == encode(ONE)
    marked = json.loads(mark)
    assert marked.pop("ts")
    assert marked == {"type": "archived", "records": 1}
    made.append([ONE], [line(ONE)])
    assert path.read_bytes().endswith(last + b"\n" + line(ONE))
    made.rewrite([two], keep=False)
    assert path.read_bytes() == b"\n".join([head, note, odd, last, b""])
    assert len(path.with_name("s.jsonl.archive").read_bytes().splitlines()) == 2, "nothing more was archived"
    made.rewrite([two])
    assert len(path.with_name("s.jsonl.archive").read_bytes().splitlines()) == 2, "nothing left"
    made.close()


def test_a_rewrite_of_nothing_makes_a_file_with_a_header(path: Path):
    made = store(path)
    made.rewrite([ONE])
    made.append([TWO], [line(TWO)])
    made.close()
    head, *rest = path.read_bytes().splitlines(keepends=True)
    assert json.loads(head)["type"] == "session"
    assert rest == [line(ONE), line(TWO)]
    assert not path.with_name("s.jsonl.archive").exists()


def test_a_file_without_header_gets_one_by_a_rewrite(path: Path):
    path.write_bytes(b'{"type":"note"}\n' + line(ONE))
    made = store(path)
    made.rewrite(made.found.messages)
    made.close()
    head, *rest = path.read_bytes().splitlines()
    assert json.loads(head)["type"] == "session"
    assert rest == [b'{"type":"note"}', encode(ONE)]


def test_of_a_damaged_file_a_copy_is_kept_once_for_the_same_bytes(path: Path):
    data = line(ONE) + b"{bad\n" + line(TWO)
    path.write_bytes(data)
    made = store(path)
    original = made.keep_original()
    assert made.keep_original() == original == path.with_name("s.jsonl.original")
    assert original.read_bytes() == data
    original.write_bytes(b"another")
    assert made.rewrite(made.found.messages[:1]) == path.with_name("s.jsonl.original-2")
    assert path.with_name("s.jsonl.original-2").read_bytes() == data
    assert made.rewrite([]) is None, "it is sound now"
    made.close()


def test_a_file_with_a_fragment_is_rewritten_whole(path: Path):
    path.write_bytes(b'{"role":"us')
    made = store(path)
    assert made.rewrite([ONE]) == path.with_name("s.jsonl.original")
    made.append([TWO], [line(TWO)])
    made.close()
    assert path.read_bytes().splitlines(keepends=True)[1:] == [line(ONE), line(TWO)]
    assert not path.with_name("s.jsonl.damaged").exists()


def test_a_file_of_a_newer_version_is_added_to_but_not_rewritten(path: Path):
    head = b'{"type":"session","version":2,"id":"s"}\n'
    path.write_bytes(head + line(ONE))
    made = store(path)
    with pytest.raises(StorageError, match="newer release"):
        made.rewrite([ONE])
    made.append([TWO], [line(TWO)])
    made.close()
    assert path.read_bytes() == head + line(ONE) + line(TWO)


def test_a_file_that_lost_a_record_underneath_is_not_rewritten(path: Path):
    path.write_bytes(line(ONE) + line(TWO))
    made = store(path)
    path.write_bytes(line(ONE))
    with pytest.raises(StorageError, match="changed by another program"):
        made.rewrite([TWO])
    assert path.read_bytes() == line(ONE)


def test_a_clipped_text_tells_how_much_is_missing():
    text = "a" * 8_000 + "b" * 1_000 + "c" * 4_000
    note = "\n[… 1,000 of 13,000 characters left out here; it is elsewhere …]\n"
    assert clip(text, "it is elsewhere") == "a" * 8_000 + note + "c" * 4_000


def test_a_result_larger_than_any_we_write_is_shown_as_a_preview(path: Path):
    huge, fits = "x" * (LINE_CAP + 1), "y" * LINE_CAP
    short, full, picture = Text(text="z" * 50_001), Text(text="w" * 50_000), Image(media_type="image/png", data="AA==")
    records = [tool_result("a", fits), ToolMessage("b", [Text(text=huge), full, picture, short]), user_message(huge)]
    path.write_bytes(b"".join(map(line, records)))
    kept, shown, spoken = store(path).found.messages
    assert text_of(kept) == fits
    first, second, third, fourth = shown.content
    assert len(first.text) < 13_000 and "the whole result is in the session file" in first.text
    assert (second, third) == (full, picture)
    assert len(fourth.text) < 13_000
    assert text_of(spoken) == huge, "what was said is never cut"


def test_what_is_appended_is_known_to_a_rewrite(path: Path):
    made = store(path)
    made.append([ONE, TWO], [line(ONE), line(TWO)])
    made.rewrite([TWO])
    made.close()
    assert path.read_bytes().splitlines()[1:] == [encode(TWO)]
    assert encode(ONE) in path.with_name("s.jsonl.archive").read_bytes()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system does not tell what is open")
def test_no_descriptor_is_left_open(path: Path):
    before = len(os.listdir("/dev/fd"))
    made = store(path)
    made.append([ONE], [line(ONE)])
    made.rewrite([ONE])
    made.append([TWO], [line(TWO)])
    made.rewrite([])
    made.append([TWO], [line(TWO)])
    made.close()
    assert len(os.listdir("/dev/fd")) == before


def test_the_limits_are_those_of_the_documented_format(tmp_path: Path):
    assert LINE_CAP == 4 * 1024 * 1024
    attachments = Attachments(tmp_path)
    assert attachments.shorten("x" * 50_000, "t").file is None
    assert attachments.shorten("x" * 50_001, "t").file
