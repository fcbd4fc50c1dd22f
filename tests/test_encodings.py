"""Encodings and line ends: what is read, edited or patched is written back as it was, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from orkas.harness.tool import ToolContext
from orkas.infra.errors import ToolFailed
from orkas.tools.edit import EditFile
from orkas.tools.files import Seen
from orkas.tools.patch import ApplyPatch
from orkas.tools.read import ReadFile
from orkas.tools.text import form_of

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
