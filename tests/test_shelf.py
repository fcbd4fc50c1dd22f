"""The folder of sessions: list, check, repair, export, import, fork, rewind, delete, search."""

from __future__ import annotations

import base64
import html.parser
import json
import os
import time
from pathlib import Path

import pytest

from orkas.harness.pairing import is_paired
from orkas.harness.sessions import shelf
from orkas.harness.sessions.session import Session
from orkas.infra.errors import SessionLocked, SessionMissing, StorageError, UsageError
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
    encode,
    text_of,
    tool_result,
    user_message,
)

PNG = bytes(range(256)) * 3
INLINE = base64.b64encode(PNG).decode()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make(name: str, *messages: Message) -> str:
    with Session.open(name) as session:
        session.append(*messages)
    return name


def talk(name: str = "s") -> str:
    """Six messages; 2 to 4 are one round of tool calls."""
    return make(
        name, user_message("Plan a trip"),
        AssistantMessage([Text(text="Looking."), ToolCall(id="a", name="t", arguments={"q": 1})], "v/m"),
        tool_result("a", "found it"),
        UserMessage([Image(media_type="image/png", data=INLINE)], origin="tool_image", tool_call_id="a"),
        AssistantMessage([Text(text="Done.")], "v/m2"), user_message("Thanks"),
    )  # fmt: skip


def said(name: str) -> list[str]:
    return [text_of(m) for m in Session.read(name).messages]


def at(stamp: str, text: str = "x") -> UserMessage:
    return UserMessage([Text(text=text)], ts=stamp)


# --- list ---------------------------------------------------------------------------------------------------------


def test_an_empty_shelf():
    assert shelf.list_sessions() == []
    assert shelf.last() is None
    assert list(shelf.search("x")) == []


def test_the_list_is_newest_first_with_what_one_wants_to_know(home: Path):
    make("old", at("2026-01-01T00:00:00Z", "  An old\n\n tale \x1b[31m" + "x" * 200))
    make("new", at("2026-03-01T00:00:00Z", "New"), AssistantMessage([Text(text="y")], "v/m", ts="2026-03-02T00:00:00Z"))
    new, old = shelf.list_sessions()
    assert (new.id, new.title, new.updated, new.model) == ("new", "New", "2026-03-02T00:00:00Z", "v/m")
    assert new.bytes == (home / "sessions/new.jsonl").stat().st_size
    assert old.title.startswith("An old tale [31mxxx")
    assert len(old.title) == 80
    assert shelf.last() == "new"


def test_times_that_cannot_be_true_are_not_believed(home: Path):
    make("future", at("2099-12-31T00:00:00Z"))
    make("wrong", at("yesterday, I think"))
    make("now", user_message("x"))
    for name, seconds in (("future", 4e9), ("wrong", 1e9), ("now", 5e9)):
        os.utime(home / f"sessions/{name}.jsonl", (seconds, seconds))
    found = shelf.list_sessions()
    assert [s.id for s in found] == ["now", "wrong", "future"]
    assert found[-1].updated == ""


def test_equal_times_give_one_order_always(home: Path):
    for name in ("b", "a", "c"):
        make(name, at("2026-01-01T00:00:00Z"))
        os.utime(home / f"sessions/{name}.jsonl", (1e9, 1e9))
    assert [s.id for s in shelf.list_sessions()] == ["a", "b", "c"]


def test_what_lies_beside_sessions_is_not_listed(home: Path):
    talk("s")
    folder = home / "sessions"
    (folder / "folder.jsonl").mkdir()
    for name in ("s.jsonl.archive", "s.jsonl.damaged", ".s.jsonl.1.tmp", "t.lock", "notes.txt"):
        (folder / name).write_text("x")
    (folder / "damaged.jsonl").write_bytes(b"\0\xff{bad")
    assert sorted(s.id for s in shelf.list_sessions()) == ["damaged", "s"]


def test_large_sessions_are_listed_from_their_ends_alone(home: Path):
    talk("big")
    path = home / "sessions/big.jsonl"
    with path.open("ab") as file:
        file.truncate(200_000_000)  # a hole: reading it whole would take long
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + encode(AssistantMessage([Text(text="end")], "v/last", ts="2026-05-01T00:00:00Z")) + b"\n")
    start = time.perf_counter()
    (info,) = shelf.list_sessions()
    assert time.perf_counter() - start < 0.5
    assert (info.title, info.model, info.updated) == ("Plan a trip", "v/last", "2026-05-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Plan a long trip. " * 25_000, ("Plan a long trip. " * 25_000)[:79] + "…"),
        ("é\n\"ü\" \\ " * 60_000, ('é "ü" \\ ' * 60_000)[:79] + "…"),
        ("\U0001f600" * 60_000, "\U0001f600" * 79 + "…"),
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_first_message_longer_than_what_is_read_still_gives_the_title(
    text: str, title: str, ascii_only: bool, home: Path
):
    make("long", user_message("x"))
    said = {"role": "user", "content": [{"type": "text", "text": text}], "id": "a"}
    line = json.dumps(said, ensure_ascii=ascii_only, separators=(",", ":")).encode()
    path = home / "sessions/long.jsonl"
    header = path.read_bytes().split(b"\n")[0]
    for pad in range(12):  # the end of what is read falls on every place of a character and its escape
        path.write_bytes(header + b"\n" + b" " * pad + line + b"\n")
        assert [s.title for s in shelf.list_sessions()] == [title]


def test_a_long_first_message_of_somebody_else_gives_no_title(home: Path):
    make("long", AssistantMessage([Text(text="I begin. " * 10_000)]))
    assert [s.title for s in shelf.list_sessions()] == [""]


@pytest.mark.skipif(not Path("/proc/self/mem").is_file(), reason="needs a file that is there and cannot be read")
def test_a_file_that_cannot_be_read_is_listed_and_hides_nothing(home: Path):
    talk("good")
    (home / "sessions/bad.jsonl").symlink_to("/proc/self/mem")
    seen = {s.id: s.title for s in shelf.list_sessions()}
    assert seen["good"] == "Plan a trip"
    assert seen["bad"].startswith("(cannot be read: ")
    assert {hit.session for hit in shelf.search("trip")} == {"good"}


def test_one_file_of_odd_values_hides_no_session(home: Path):
    talk("good")
    odd = [
        b'{"role":null,"content":[]}', b'{"role":"user","content":[{"type":{"a":1}},"odd trip"]}',
        b'{"type":"session","version":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"role":"user","content":[],"ts":1e300}',
    ]  # fmt: skip
    for n, line in enumerate(odd):
        (home / f"sessions/odd{n}.jsonl").write_bytes(line + b"\n")
    assert sorted(s.id for s in shelf.list_sessions()) == ["good", "odd0", "odd1", "odd2", "odd3"]
    assert {hit.session for hit in shelf.search("trip")} == {"good", "odd1"}


# --- check and repair ---------------------------------------------------------------------------------------------

BROKEN = b"\n".join(
    [
        encode(user_message("go")),
        encode(AssistantMessage([ToolCall(id=id, name="t", arguments={}) for id in "ab"])),
        encode(tool_result("b", "2")), b"{bad", encode(tool_result("a", "1")), encode(tool_result("zz", "?")),
        encode(AssistantMessage([ToolCall(id="c", name="t", arguments={})])), encode(user_message("next")), b"",
    ]
)  # fmt: skip


def test_check_has_the_form_of_the_contract(home: Path, tmp_path: Path):
    path = tmp_path / "elsewhere.jsonl"
    path.write_bytes(BROKEN)
    seen = shelf.check(path)
    assert set(seen) == {"messages", "damaged_lines", "repaired", "warnings"}
    assert seen["damaged_lines"] == [4]
    assert seen["repaired"] == {"synthesized": 1, "dropped": 1, "reordered": 1}
    assert [m["role"] for m in seen["messages"]] == ["user", "assistant", "tool", "tool", "assistant", "tool", "user"]
    for m in seen["messages"]:
        more = {"tool_call_id", "is_error", "synthetic"} if m["role"] == "tool" else set()
        assert set(m) == {"role", "content"} | more
    assert len(seen["warnings"]) == 1
    json.dumps(seen)
    assert path.read_bytes() == BROKEN
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(SessionMissing):
        shelf.check(tmp_path / "gone.jsonl")


def test_repair_rewrites_the_file_and_keeps_what_it_was(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(BROKEN)
    before = shelf.check(path)
    done = shelf.repair(path)
    assert done.rewritten
    assert done.repaired == before["repaired"]
    assert Path(done.original).read_bytes() == BROKEN
    after = shelf.check(path)
    assert after["messages"] == before["messages"]
    assert (after["damaged_lines"], after["warnings"]) == ([], [])
    assert set(after["repaired"].values()) == {0}
    again = shelf.repair(path)
    assert (again.rewritten, again.original) == (False, None)
    assert encode(user_message("go"))[:40] in path.read_bytes()


def test_repair_leaves_a_good_file_alone(home: Path):
    talk()
    path = home / "sessions/s.jsonl"
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert not shelf.repair("s").rewritten
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_repair_refuses_open_and_newer_sessions(home: Path, tmp_path: Path):
    talk()
    with Session.open("s"), pytest.raises(SessionLocked):
        shelf.repair("s")
    path = tmp_path / "newer.jsonl"
    path.write_bytes(b'{"type":"session","version":3}\n' + BROKEN)
    with pytest.raises(StorageError, match="newer release"):
        shelf.repair(path)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["newer.jsonl"]


# --- export -------------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


NASTY = "<script>alert(1)</script>\x1b[2J\x07\x9b\u202e\"'><img src=x onerror=alert(1)>\n```\n# none\ttab\r\nline\x00"


def nasty(name: str = "n") -> str:
    return make(
        name, user_message(NASTY),
        AssistantMessage([Thinking(text=NASTY), ToolCall(id='"><b>', name="<i>`x`", arguments={"k": NASTY})], '"><s>'),
        tool_result('"><b>', NASTY),
        UserMessage([Image(media_type='image/png"><script>', data="AA==")], ts="\x1b<script>\x00"),
        UserMessage([Image(media_type="image/png", data='"><script>')]),
        AssistantMessage([ToolCall(id="z", name="t", arguments=None, arguments_raw='{"cut')]),
    )  # fmt: skip


def test_html_is_one_page_that_runs_and_loads_nothing():
    name = nasty()
    with Session.open(name) as session:
        image = Image(media_type="image/png", data=base64.b64encode(PNG * 900).decode())
        session.append(UserMessage([session.store_image(image)]))
    page = Page()
    text = shelf.export(name, "html")
    page.feed(text)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "i", "s", "link", "iframe"}
    for tag, attributes in page.tags:
        assert not [a for a in attributes if a.startswith("on") or a == "href"]
        if "src" in attributes:
            assert tag == "img"
            assert str(attributes["src"]).startswith("data:image/png;base64,")
    assert base64.b64encode(PNG * 900).decode() in text
    assert "alert(1)" in page.text
    assert not [c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) <= 0x9F or c == "\u202e"]


def test_markdown_fences_what_tools_said_and_keeps_terminals_safe():
    text = shelf.export(nasty(), "md")
    assert not [c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) <= 0x9F or c == "\u202e"]
    assert "\n````\n<script>" in text
    assert "## 2. Assistant" in text
    assert '{"cut' in text
    assert "Tool interrupted" in text


def test_jsonl_can_be_imported_again():
    talk()
    text = shelf.export("s", "jsonl")
    assert json.loads(text.splitlines()[0])["type"] == "session"
    path = Path(os.environ["ORKAS_HOME"]) / "out.jsonl"
    path.write_text(text, encoding="utf-8")
    copy = shelf.import_file(path)
    assert copy != "s"
    assert Session.read(copy).records() == Session.read("s").records()


def test_what_is_background_previewed_or_made_up_is_marked_in_both_forms():
    make(
        "m",
        UserMessage([Text(text="They planned a <trip>.")], origin="summary"),
        AssistantMessage([Text(text="See:\n```py\nx = 1\n```\nand\n````\n```\nopen"), ToolCall(id="a", name="shell", arguments={"command": "ls"})], "v/m"),
        tool_result("a", "line\n" * 30_000), AssistantMessage([ToolCall(id="b", name="fetch", arguments={})], "v/m"),
        user_message("go on"),
    )  # fmt: skip
    text, markdown = shelf.export("m", "html"), shelf.export("m", "md")
    page = Page()
    page.feed(text)
    sections = [str(a["class"]) for tag, a in page.tags if tag == "section"]
    assert sections == ["user background", "assistant", "tool", "assistant", "tool synthetic failed", "user"]
    for said in ("Background: a summary of earlier messages", "Tool result (shell)", "Tool interrupted (fetch)"):
        assert said in page.text and said in markdown
    assert "6 messages · " in page.text and "v/m" in markdown.split("##")[0]
    assert "the real result is missing" in page.text
    name = next(iter((Path(os.environ["ORKAS_HOME"]) / "sessions/m.files").iterdir())).name
    assert f"150,000 bytes, is kept as {name}" in page.text and f"kept as `{name}`" in markdown
    assert '<pre class="code">x = 1</pre><pre>and</pre><pre class="code">```\nopen</pre>' in text
    assert [tag for tag, _ in page.tags].count("details") == 4  # the summary, two calls, one long result
    assert "prefers-color-scheme:dark" in text


def test_many_fences_cost_linear_time():
    fences = "\n".join("`" * n for n in range(1200, 3, -1))
    make("f", user_message(fences))
    assert fences[:1000] in shelf.export("f", "html")


def test_an_empty_session_can_be_exported(home: Path):
    (home / "sessions").mkdir(parents=True)
    (home / "sessions/e.jsonl").write_bytes(b"")
    assert "no messages" in shelf.export("e", "html") and "no messages" in shelf.export("e", "md")


def test_an_unknown_format_is_wrong_usage():
    talk()
    with pytest.raises(UsageError, match="pdf"):
        shelf.export("s", "pdf")


# --- import, fork, rewind -----------------------------------------------------------------------------------------


def test_import_repairs_and_brings_the_files_along(tmp_path: Path):
    with Session.open("s") as session:
        session.append(AssistantMessage([ToolCall(id="a", name="shell", arguments={})]), tool_result("a", "x" * 90_000))
        session.append(AssistantMessage([ToolCall(id="b", name="shell", arguments={})]))
    copy = shelf.import_file(session.path)
    imported = Session.read(copy)
    assert is_paired(imported.messages)
    assert imported.loaded.synthesized == 0
    assert len(imported.media(imported.messages[1].content[0].file)) == 90_000


def test_import_refuses_what_holds_no_messages(tmp_path: Path):
    (tmp_path / "x.jsonl").write_text("hello")
    with pytest.raises(UsageError, match="no messages"):
        shelf.import_file(tmp_path / "x.jsonl")
    with pytest.raises(SessionMissing):
        shelf.import_file(tmp_path / "y.jsonl")


def test_fork_takes_the_messages_up_to_a_number():
    talk()
    copy = shelf.fork("s", at=5)
    assert said(copy) == said("s")[:5]
    assert said(shelf.fork("s")) == said("s")
    with Session.open(copy) as session:
        session.append(user_message("another way"))
    assert said("s")[-1] == "Thanks"


@pytest.mark.parametrize("number", [2, 3])
def test_a_round_of_calls_is_never_cut_in_two(number: int):
    talk()
    for attempt in (shelf.fork, shelf.rewind):
        with pytest.raises(UsageError, match="stays whole") as caught:
            attempt("s", number)
        assert caught.value.hint == "use 1 or 4"
    assert len(said("s")) == 6


@pytest.mark.parametrize("number", [-1, 7, 100])
def test_a_number_that_does_not_exist(number: int):
    talk()
    for attempt in (shelf.fork, shelf.rewind):
        with pytest.raises(UsageError, match=f"no message {number}") as caught:
            attempt("s", number)
        assert "1 to 6" in caught.value.hint


def test_rewind_drops_what_came_later_and_keeps_it_in_the_archive(home: Path):
    talk()
    shelf.rewind("s", 4)
    assert said("s") == ["Plan a trip", "Looking.", "found it", ""]
    archive = (home / "sessions/s.jsonl.archive").read_text(encoding="utf-8")
    assert "Thanks" in archive
    assert "Done." in archive
    with Session.open("s") as session:
        session.append(user_message("and on"))
    shelf.rewind("s", 0)
    assert said("s") == []


def test_rewind_refuses_a_newer_session(home: Path):
    path = home / "sessions/s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"type":"session","version":3}\n' + BROKEN)
    with pytest.raises(StorageError, match="newer release"):
        shelf.rewind("s", 1)
    assert path.read_bytes().endswith(BROKEN)


# --- delete and search --------------------------------------------------------------------------------------------


def test_delete_moves_everything_to_the_trash(home: Path):
    talk("s")
    talk("s2")
    talk("s.jsonl.archive")  # a session of that name is nobody's archive
    with Session.open("s") as session:
        session.append(AssistantMessage([ToolCall(id="b", name="shell", arguments={})]), tool_result("b", "x" * 90_000))
        session.rewrite(session.messages[5:])
    for suffix in ("damaged", "inbox", "original", "original-2"):
        (home / f"sessions/s.jsonl.{suffix}").write_text("x")
    place = shelf.delete("s")
    assert place.is_relative_to(home / "trash")
    assert sorted(p.name for p in place.iterdir()) == [
        "s.files", "s.jsonl", "s.jsonl.archive", "s.jsonl.damaged", "s.jsonl.inbox", "s.jsonl.original",
        "s.jsonl.original-2",
    ]  # fmt: skip
    assert sorted(p.name for p in (home / "sessions").iterdir()) == ["s.jsonl.archive.jsonl", "s2.jsonl"]
    with pytest.raises(SessionMissing):
        shelf.delete("s")
    talk("s")
    assert shelf.delete("s") != place


def test_delete_refuses_an_open_session_and_bad_names(home: Path):
    talk()
    with Session.open("s"), pytest.raises(SessionLocked):
        shelf.delete("s")
    for name in ("../x", "s.jsonl/..", "/etc/passwd", ""):
        for attempt in (shelf.delete, shelf.fork, lambda n: shelf.rewind(n, 0)):
            with pytest.raises(UsageError):
                attempt(name)
    assert said("s")


def test_search_finds_words_in_any_case_with_session_and_number():
    talk("a")
    make("b", at("2020-01-01T00:00:00Z", "Straße nach\nRom"), AssistantMessage([Text(text="Rom ist schön")]))
    hits = list(shelf.search("ROM"))
    assert [(h.session, h.message, h.role, h.text) for h in hits] == [
        ("b", 1, "user", "Straße nach Rom"), ("b", 2, "assistant", "Rom ist schön"),
    ]  # fmt: skip
    assert [h.message for h in shelf.search("STRASSE")] == [1]
    assert [(h.session, h.message, h.role) for h in shelf.search("found it")] == [("a", 3, "tool")]
    assert list(shelf.search("nowhere to be seen")) == []
    for nothing in ("", "  "):
        with pytest.raises(UsageError):
            shelf.search(nothing)


def test_search_finds_what_was_archived_once_and_says_so(home: Path):
    talk("a")
    for name in "xy":  # rewound, told again, rewound again
        with Session.open("a") as session:
            session.rewrite(session.messages[:1])
            session.append(AssistantMessage([Text(text="found something else")], id=name))
    with (home / "sessions/a.jsonl.archive").open("ab") as file:
        file.write(b"{torn")
    hits = [(h.message, h.role, h.archived, h.text) for h in shelf.search("found")]
    assert hits == [
        (2, "assistant", False, "found something else"), (0, "tool", True, "found it"),
        (0, "assistant", True, "found something else"),
    ]  # fmt: skip
    archive = home / "sessions/a.jsonl.archive"
    archive.write_bytes(archive.read_bytes() + (home / "sessions/a.jsonl").read_bytes())  # both: as after a crash
    assert [h.archived for h in shelf.search("something else")] == [False, True]


# --- what others put there -----------------------------------------------------------------------------------------


def test_a_link_that_leads_to_itself_hides_no_session(home: Path):
    talk("good")
    (home / "sessions/loop.jsonl").symlink_to("loop.jsonl")
    assert [info.id for info in shelf.list_sessions()] == ["good"]
    assert shelf.last() == "good"
    assert len(list(shelf.search("trip"))) == 1


def test_a_file_whose_name_no_session_can_have_is_listed_and_never_continued(home: Path):
    path = home / "sessions" / f"{talk('good')}.jsonl"
    for name in ("my notes", "-x", "nul", "a" * 130):
        (home / f"sessions/{name}.jsonl").write_bytes(path.read_bytes())
    os.utime(path, (1, 1))
    listed = {info.id: info.title for info in shelf.list_sessions()}
    assert listed.pop("good") == "Plan a trip"
    assert len(listed) == 4 and all("rename" in title for title in listed.values())
    assert shelf.last() == "good"


def test_a_name_that_looks_like_a_file_is_a_name_first(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    talk("trip.jsonl")
    monkeypatch.chdir(tmp_path)
    assert len(Session.read("trip.jsonl").messages) == 6
    assert shelf.export("trip.jsonl", "md")
    (tmp_path / "other.jsonl").write_bytes(encode(user_message("there")) + b"\n")
    assert said("other.jsonl") == ["there"]
    with pytest.raises(SessionMissing):
        Session.read("none.jsonl")


def test_an_import_follows_no_link(home: Path, tmp_path: Path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key.txt").write_text("SECRET")
    given = tmp_path / "x.jsonl"
    given.write_bytes(encode(UserMessage([Text(text="p", file="key.txt", bytes=6)], id="u")) + b"\n")
    (tmp_path / "x.files").symlink_to("secret")
    with pytest.raises(UsageError, match="is a link"):
        shelf.import_file(given)
    (tmp_path / "x.files").unlink()
    (tmp_path / "x.files").mkdir()
    (tmp_path / "x.files/key.txt").symlink_to("../secret/key.txt")
    name = shelf.import_file(given)
    assert not (home / f"sessions/{name}.files").exists()


@pytest.mark.parametrize("places", [[7, 100], [-1, 7], [6, 6], [8, 6]])
def test_an_archive_whose_mark_is_wrong_is_called_damaged(home: Path, places: list[int]):
    with Session.open("c") as session:
        for n in range(4):
            session.append(user_message(f"q{n}"), AssistantMessage([Text(text=f"a{n}")], id=f"A{n}"))
        summary = UserMessage([Text(text="S")], id="S1", origin="summary")
        session.rewrite([summary, *session.messages[6:]], summary="S1")
    archive = home / "sessions/c.jsonl.archive"
    mark, *lines = archive.read_bytes().split(b"\n")
    head = json.loads(mark)
    head["compacted"]["kept"] = [[place, id] for place, (_, id) in zip(places, head["compacted"]["kept"], strict=True)]
    archive.write_bytes(b"\n".join([encode(head), *lines]))
    with Session.open("c") as session, pytest.raises(StorageError, match="archive of this session is damaged"):
        session.uncompact()
    assert len(said("c")) == 3


@pytest.mark.parametrize("name", ["a" * 121, "a" * 5_000, "a\0b"])
def test_a_name_that_is_too_long_is_refused_as_a_name(name: str):
    for do in (Session.read, Session.open, shelf.check, shelf.repair, shelf.fork, shelf.delete):
        with pytest.raises(UsageError, match="cannot be the name of a session"):
            do(name)  # type: ignore[operator]


STRANGE = (
    b'{"type":"session","version":1,"id":"x","shade":"blue"}',
    b'{"role":"user", "content":[{"type":"weird","x":1},7,{"value":3},{"type":"text"}],"id":"u","future":7}',
    b'{"type":"note","keep":"me"}',
    b'{"role":"assistant","content":[{"type":"text","text":"a","new":1}],"id":"a"}',
    b'{"type":"note","keep":"me too"}',
    b'{"role":"user","content":"b","id":"b","ts":null}',
    b'{"type":"note","keep":"and me"}',
)


def strange(home: Path) -> Path:
    path = home / "sessions/x.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(line + b"\n" for line in STRANGE))
    return path


def test_a_copy_of_a_session_has_its_very_bytes_and_what_nobody_knows(home: Path):
    path = strange(home)
    for copy in (shelf.fork("x"), shelf.import_file(path)):
        assert (home / f"sessions/{copy}.jsonl").read_bytes().split(b"\n")[1:-1] == [*STRANGE[1:]]
    assert shelf.export("x", "jsonl").encode().split(b"\n")[1:-1] == [*STRANGE[1:]]
    part = shelf.fork("x", at=2)
    assert (home / f"sessions/{part}.jsonl").read_bytes().split(b"\n")[1:-1] == [*STRANGE[1:4]]


def test_an_export_is_the_session_when_it_comes_back(home: Path, tmp_path: Path):
    talk("s")
    given = tmp_path / "s.jsonl"
    given.write_text(shelf.export("s", "jsonl"))
    assert Session.read(shelf.import_file(given)).messages == Session.read("s").messages


def test_a_block_that_nobody_knows_is_shown_and_rewritten_as_it_was(home: Path):
    path = strange(home)
    blocks = [{"type": "weird", "x": 1}, 7, {"value": 3}, {"type": "text"}]
    assert shelf.check(path)["messages"][0]["content"] == blocks
    [message, *_] = Session.read("x").messages
    with Session.open("y") as other:
        other.append(message)
        assert other.records()[0]["content"] == blocks
    line = (home / "sessions/y.jsonl").read_bytes().split(b"\n")[1]
    assert json.loads(line)["content"] == blocks
    assert Session.read("y").messages == [message]


def test_a_repair_keeps_what_nobody_knows(home: Path):
    path = strange(home)
    path.write_bytes(path.read_bytes() + b"garbage\n" + b'{"type":"note","keep":"the last"}\n')
    assert shelf.repair(path).rewritten
    assert path.read_bytes().split(b"\n")[:-1] == [*STRANGE, b'{"type":"note","keep":"the last"}']


@pytest.mark.parametrize("odd", [b'"\xff"', b"[" * 900 + b"]" * 900, b"1e999", b'"\\ud800"'])
def test_odd_values_stop_no_copy_and_no_repair(home: Path, odd: bytes):
    path = strange(home)
    line = b'{"role":"assistant","content":[{"type":"tool_call","id":"c","name":"t","arguments":{"a":%b}}],"zz":%b}'
    path.write_bytes(path.read_bytes() + line % (odd.replace(b"\xff", b""), odd) + b"\n")
    assert Session.read(shelf.fork("x")).messages == Session.read("x").messages
    assert "and me" in shelf.export("x", "jsonl")
    assert shelf.repair(path).rewritten
    assert not shelf.repair(path).rewritten
