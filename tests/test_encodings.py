"""Encodings and line ends: what is read, edited or patched is written back as it was, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orkas.harness.tool import ToolContext
from orkas.infra.abort import Abort
from orkas.infra.errors import ToolFailed
from orkas.tools.edit import EditFile
from orkas.tools.files import Seen
from orkas.tools.lines import occurrences, places
from orkas.tools.patch import ApplyPatch
from orkas.tools.read import ReadFile
from orkas.tools.search import SearchFiles
from orkas.tools.text import form_of
from orkas.tools.write import WriteFile

JAPANESE = (
    "吾輩は猫である。", "名前はまだ無い。", "設定を変更しました", "ファイルが見つかりません", "印刷（プリンタ）", "東京都の山田さん",
    "これはテストです", "次の手順に従ってください", "エラー：接続できません", "ﾃｽﾄという文字です",
)  # fmt: skip
CHINESE = (
    "你好，世界。", "设置已更改", "文件不存在，请检查路径", "这是一个测试文件", "人民网北京电", "天气很好，我们去公园吧。",
    "数据库连接失败！", "姓名：张三", "用户可以在这里修改密码", "下一步",
)  # fmt: skip
LATIN = ("café déjà vu", "Größe über alles", "señor, ¿qué tal?", "smørrebrød på bordet", "don’t “quote” – me…", "naïve façade")
ENDS = ("\n", "\r\n")


def texts(phrases: tuple[str, ...]) -> st.SearchStrategy[str]:
    part = st.one_of(st.sampled_from(phrases), st.sampled_from(["x = 1", "# todo", "key: value", "", "ABC-123"]))
    return st.builds(
        lambda first, parts, end: end.join([first, *parts]) + end,
        st.sampled_from(phrases), st.lists(part, max_size=12), st.sampled_from(ENDS),
    )  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(texts(JAPANESE), texts(CHINESE), texts(LATIN))
def test_real_text_is_told_apart(japanese: str, chinese: str, latin: str) -> None:
    for text, encoding, found in (
        (japanese, "cp932", {"cp932"}), (chinese, "gbk", {"gb18030"}), (latin, "cp1252", {"latin-1", "cp1252"}),
    ):  # fmt: skip
        data = text.encode(encoding)
        form = form_of(data)
        assert form is not None and form.encoding in found, (text, form)
        assert form.decode(data) == text and form.encode(text) == data


@settings(max_examples=100, deadline=None)
@given(st.one_of(texts(JAPANESE), texts(CHINESE), texts(LATIN)), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]))
def test_unicode_is_never_guessed_wrong(text: str, encoding: str) -> None:
    assume(encoding not in ("utf-16-le", "utf-16-be") or sum(c < "\x80" for c in text) * 4 > len(text))
    data = text.encode(encoding)
    form = form_of(data)
    assert form is not None and form.decode(data) == text and form.encode(text) == data


@given(st.binary(max_size=300))
def test_any_bytes_come_back_or_are_no_text(data: bytes) -> None:
    form = form_of(data)
    if form is not None and form.encoding != "cp932":  # of which some bytes have two spellings: refused where it matters
        assert form.encode(form.decode(data)) == data


FORMS = [
    ("utf-8", "日本, ä"), ("utf-8-sig", "日本, ä"), ("utf-16", "日本, ä"), ("utf-16-le", "日本, ä"), ("utf-16-be", "日本, ä"),
    ("gbk", "你好，世界。这是一个测试。"), ("cp932", "これは日本語のテストです。"), ("latin-1", "café, über"), ("cp1252", "“so” – über"),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "text"), FORMS, ids=[e for e, _ in FORMS])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_each_encoding_is_read_edited_and_patched(tmp_path: Path, encoding: str, text: str, end: str) -> None:
    path = tmp_path / "a.txt"
    whole = f"first{end}{text}{end}last line, without an end"
    path.write_bytes(whole.encode(encoding))
    context, seen = ToolContext(cwd=tmp_path), Seen()
    assert text in (await ReadFile(seen).run({"path": "a.txt"}, context)).text
    await EditFile(seen).run({"path": "a.txt", "old_text": "first\n", "new_text": "one\ntwo\n"}, context)
    whole = whole.replace("first", f"one{end}two")
    assert path.read_bytes() == whole.encode(encoding)
    lines = ["*** Begin Patch", "*** Update File: a.txt", "@@", f" {text}", "-last line, without an end", "+end", "*** End Patch"]
    await ApplyPatch(seen).run({"patch": "\n".join(lines)}, context)
    assert path.read_bytes() == whole.replace("last line, without an end", "end").encode(encoding)


@pytest.mark.parametrize(
    ("encoding", "text", "new", "named"),
    [
        ("latin-1", "café\n", "漢", "漢"), ("cp932", "これは日本語のテストです。\n", "한", "한"),
        ("cp1252", "“so” – über\n", "ж", "ж"),
    ],
)  # fmt: skip
async def test_a_character_that_the_encoding_has_not_is_named(
    tmp_path: Path, encoding: str, text: str, new: str, named: str
) -> None:
    path = tmp_path / "a.txt"
    data = (text + "x\n").encode(encoding)
    path.write_bytes(data)
    context = ToolContext(cwd=tmp_path)
    with pytest.raises(ToolFailed, match=named):
        await EditFile(Seen()).run({"path": "a.txt", "old_text": "x", "new_text": new}, context)
    patch = f"*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+{new}\n*** End Patch"
    with pytest.raises(ToolFailed, match=named):
        await ApplyPatch(Seen()).run({"patch": patch}, context)
    assert path.read_bytes() == data


async def test_blanks_at_the_ends_of_several_lines_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "a"
    edit, context = EditFile(Seen()), ToolContext(cwd=tmp_path)
    new = EditFile(Seen())
    path.write_bytes(b"if a:  \r\n    one\t\r\n    two \r\nend\r\n")
    arguments = {"path": "a", "old_text": "if a:\n    one\n    two", "new_text": "if b:\n    three"}
    told = (await edit.run(arguments, context)).text
    assert path.read_bytes() == b"if b:\r\n    three\r\nend\r\n"
    assert "other blanks" in told
    path.write_bytes(b"x \ny\nx\t\ny\n")
    with pytest.raises(ToolFailed, match="at lines 1, 3"):
        await new.run({"path": "a", "old_text": "x\ny", "new_text": "z"}, context)
    path.write_bytes(b"  x\ny\n")
    with pytest.raises(ToolFailed, match="not found"):
        await new.run({"path": "a", "old_text": "z\nx\ny", "new_text": "z"}, context)
    with pytest.raises(ToolFailed, match="not found"):
        await new.run({"path": "a", "old_text": "\tx\ny", "new_text": "z"}, context)
    assert path.read_bytes() == b"  x\ny\n"


# What is written keeps the form of what was there

KEPT = [
    ("gbk", b"", "你好，世界。这是一个测试。\r\n第二行\r\n", "新的内容，很好。\n第二\n"),
    ("utf-16-le", b"\xff\xfe", "one\r\ntwo\r\n", "три\nfour\n"), ("utf-8", b"\xef\xbb\xbf", "ä\r\nb\r\n", "ö\nc\n"),
    ("utf-8", b"", "a\r\nb\r\n", "c\nd\n"), ("cp932", b"", "これは日本語のテストです。\n", "日本語です\n"),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "bom", "old", "new"), KEPT)
async def test_overwriting_keeps_encoding_mark_and_line_ends(
    tmp_path: Path, encoding: str, bom: bytes, old: str, new: str
) -> None:
    path, seen, context = tmp_path / "a", Seen(), ToolContext(cwd=tmp_path)
    path.write_bytes(bom + old.encode(encoding))
    await ReadFile(seen).run({"path": "a"}, context)
    told = (await WriteFile(seen).run({"path": "a", "content": new}, context)).text
    assert path.read_bytes() == bom + (new.replace("\n", "\r\n") if "\r\n" in old else new).encode(encoding)
    assert "still" in told


async def test_overwriting_names_the_character_that_the_encoding_has_not(tmp_path: Path) -> None:
    path, seen, context = tmp_path / "a", Seen(), ToolContext(cwd=tmp_path)
    data = "你好，世界。这是一个测试。\n".encode("gbk")
    path.write_bytes(data)
    await ReadFile(seen).run({"path": "a"}, context)
    with pytest.raises(ToolFailed, match="GBK, which has no '😀'"):
        await WriteFile(seen).run({"path": "a", "content": "你好😀"}, context)
    with pytest.raises(ToolFailed, match="GBK, which has no '😀'"):
        await EditFile(seen).run({"path": "a", "old_text": "世界", "new_text": "😀"}, context)
    assert path.read_bytes() == data
    path.write_bytes(data := "你好，世界。这是一个测试。𠀀\n".encode("gb18030"))
    await EditFile(Seen()).run({"path": "a", "old_text": "世界", "new_text": "😀"}, context)
    assert path.read_bytes() == data.decode("gb18030").replace("世界", "😀").encode("gb18030")


async def test_the_euro_sign_of_windows_does_not_hide_chinese(tmp_path: Path) -> None:
    path, seen, context = tmp_path / "a", Seen(), ToolContext(cwd=tmp_path)
    data = "价格表，请查看下面的数据。\n价格：".encode("gbk") + b"\x805\n"
    path.write_bytes(data)
    assert "价格：€5" in (await ReadFile(seen).run({"path": "a"}, context)).text
    assert "价格：€5" in (await SearchFiles().run({"pattern": "价格："}, context)).text
    await EditFile(seen).run({"path": "a", "old_text": "€5", "new_text": "€6"}, context)
    assert path.read_bytes() == data.replace(b"\x805", b"\x806")


@pytest.mark.parametrize(("encoding", "line"), [("cp932", "これは日本語のテストです。"), ("gbk", "你好，世界。这是一个测试。"), ("latin-1", "café")])
async def test_the_encoding_is_judged_by_the_whole_file(tmp_path: Path, encoding: str, line: str) -> None:
    (tmp_path / "a").write_bytes(b"x = 1\n" * 12_000 + f"{line}\n".encode(encoding))
    context = ToolContext(cwd=tmp_path)
    assert line in (await ReadFile(Seen()).run({"path": "a", "offset": 12_001}, context)).text
    assert line in (await SearchFiles().run({"pattern": line[:3]}, context)).text


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfhello \xff x\n", b"\xff\xfea\0b\0c", b"\xfe\xff\xd8\x00\0a"])
async def test_broken_bytes_behind_a_mark_stand_in_nobodys_way(tmp_path: Path, data: bytes) -> None:
    context = ToolContext(cwd=tmp_path)
    for patch in ("*** Delete File: a", "*** Update File: a\n*** Move to: b"):
        (tmp_path / "a").write_bytes(data)
        patch = f"*** Begin Patch\n{patch}\n*** End Patch"
        ApplyPatch(Seen()).preview({"patch": patch}, context)
        await ApplyPatch(Seen()).run({"patch": patch}, context)
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").read_bytes() == data
    (tmp_path / "a").write_bytes(data)
    seen = Seen()
    WriteFile(seen).preview({"path": "a", "content": "k=***"}, context)
    with pytest.raises(ToolFailed, match="have not read it"):
        await WriteFile(seen).run({"path": "a", "content": "k=***"}, context)
    await WriteFile(seen).run({"path": "a", "content": "k=***"}, context)
    with pytest.raises(ToolFailed):
        await EditFile(seen).run({"path": "a", "old_text": "nothing", "new_text": "x"}, context)


async def test_half_a_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    context, half = ToolContext(cwd=tmp_path), "\ud83d"
    patch = f"*** Begin Patch\n*** Update File: a\n@@\n-x\n+{half}\n*** End Patch"
    for tool, arguments in (
        (EditFile, {"path": "a", "old_text": "x", "new_text": half}), (EditFile, {"path": "a", "old_text": "x", "new_text": "\ufffd"}),
        (WriteFile, {"path": "b", "content": half}), (ApplyPatch, {"patch": patch}),
    ):  # fmt: skip
        with pytest.raises(ToolFailed, match=r"half a character or one that was lost"):
            await tool(Seen()).run(arguments, context)
    assert (tmp_path / "a").read_text() == "x\n" and not (tmp_path / "b").exists()
    (tmp_path / "a").write_text("x \ufffd\n")
    await EditFile(Seen()).run({"path": "a", "old_text": "x \ufffd", "new_text": "\ufffd y"}, context)
    assert (tmp_path / "a").read_text() == "\ufffd y\n"


# Lines are matched in time that grows with the text alone


@pytest.mark.parametrize(
    ("content", "old"),
    [
        ("k" + " " * 3_000_000 + "x\n", "\nfoo\nbar"), ("k" + " \t" * 1_000_000 + "x\n", "k\n\nx"),
        ("a\n" * 400_000 + "b\r\n", "a\n" * 100_000 + "c"), ("a \n" * 400_000, "a\n" * 100_000 + "c\nd"),
        ("\n" * 500_000 + "\r\n", "\n" * 100_000 + "x"),
    ],
)  # fmt: skip
async def test_no_text_makes_looking_for_lines_slow(tmp_path: Path, content: str, old: str) -> None:
    (tmp_path / "a").write_bytes(content.encode())
    with pytest.raises(ToolFailed, match="not found"):
        await EditFile(Seen()).run({"path": "a", "old_text": old, "new_text": "y"}, ToolContext(cwd=tmp_path))


_SOUP = st.text("ab \n", max_size=14)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", " ", "\n", "\r\n"]), max_size=16).map("".join), _SOUP.filter(lambda s: "\n" in s))
def test_lines_are_found_where_an_expression_finds_them(text: str, old: str) -> None:
    parts = "\r?\n".join(map(re.escape, old.split("\n")))
    wanted = [m.span(1) for m in re.finditer(f"(?=({parts}))", text)]
    wanted = [(a, b) for a, b in wanted if not (text[a] == "\n" and text[a - 1 : a] == "\r")]
    assert list(places(text, old.split("\n"), Abort(), loose=False)) == wanted


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from("ab"), max_size=40), st.lists(st.sampled_from("ab"), min_size=1, max_size=5))
def test_occurrences_are_all_of_them(lines: list[str], wanted: list[str]) -> None:
    size = len(wanted)
    assert list(occurrences(lines, wanted, Abort())) == [i for i in range(len(lines) - size + 1) if lines[i : i + size] == wanted]
