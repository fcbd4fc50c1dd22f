"""Reading documents through ``read_file``: what is in them, page by page; broken and hostile ones are told."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkas.harness.tool import ToolContext
from orkas.infra.abort import Abort, Aborted
from orkas.infra.errors import ToolFailed
from orkas.tools import document_worker, documents
from orkas.tools.files import Seen
from orkas.tools.read import ReadFile

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
)  # fmt: skip


def zipped(parts: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


def docx(body: str) -> bytes:
    return zipped({"[Content_Types].xml": "<Types/>", "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>"})


def odf(kind: str, body: str) -> bytes:
    content = f"<office:document-content {ODF}><office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    return zipped({"mimetype": "application/vnd.oasis.opendocument", "content.xml": content})


def xlsx(**sheets: list[list[Any]]) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def pdf(*pages: str, password: str = "") -> bytes:
    """A small PDF written by hand, one line of text a page."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET" if text else ""
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F1 3 0 R>>>>/Contents {len(objects) + 2} 0 R>>")
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
    objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>"
    out, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{one}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF".encode()
    if password:
        pypdf = pytest.importorskip("pypdf")
        writer = pypdf.PdfWriter(clone_from=io.BytesIO(out))
        writer.encrypt(password, algorithm="RC4-128")
        locked = io.BytesIO()
        writer.write(locked)
        return locked.getvalue()
    return out


class Reader:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.tool = ReadFile(Seen())
        self.context = ToolContext(cwd=cwd)

    async def read(self, data: bytes, name: str = "doc", **given: Any) -> str:
        (self.cwd / name).write_bytes(data)
        return (await self.tool.run({"path": name, **given}, self.context)).text

    async def fails(self, data: bytes, name: str = "doc", **given: Any) -> str:
        with pytest.raises(ToolFailed) as caught:
            await self.read(data, name, **given)
        return str(caught.value)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


async def test_a_pdf_comes_page_by_page(reader: Reader) -> None:
    pytest.importorskip("pypdf")
    data = pdf("Hello", "World", "End")
    assert await reader.read(data) == "[page 1 of 3]\nHello\n[page 2 of 3]\nWorld\n[page 3 of 3]\nEnd"
    assert await reader.read(data, page=2) == "[page 2 of 3]\nWorld\n[page 2 of 3; page=3 reads the next]"
    assert await reader.read(data, offset=3, limit=2) == "[page 2 of 3]\nWorld\n[2 more lines; read on with offset=5]"
    assert "there is no page 4: it has 3" in await reader.fails(data, page=4)
    assert "offset 9 is beyond the end: the text has 6 lines" in await reader.fails(data, offset=9)
    assert "a scanned document is a picture" in await reader.read(pdf(""))


async def test_a_locked_pdf_is_told(reader: Reader) -> None:
    assert "protected by a password" in await reader.fails(pdf("Secret", password="x"))


async def test_a_spreadsheet_comes_sheet_by_sheet(reader: Reader) -> None:
    data = xlsx(Sales=[["Name", "Sum"], ["a\nb", 3.5], [], [None, True, None]], Empty=[], More=[[1]])
    assert await reader.read(data) == (
        "[sheet 1 of 3: Sales]\n1\tName\tSum\n2\ta b\t3.5\n4\t\tTrue\n[sheet 2 of 3: Empty]\n[sheet 3 of 3: More]\n1\t1"
    )
    assert "1\t1" in await reader.read(data, page=3)


async def test_a_formula_that_nobody_reckoned_is_shown_itself(reader: Reader) -> None:
    """A library wrote the file: there is no value yet, and an empty cell would say that there is nothing."""
    text = await reader.read(xlsx(Sums=[["Total", "=SUM(B2:B3)"], [None, 2], [None, 3]], Plain=[[1]]))
    assert text == "[sheet 1 of 2: Sums]\n1\tTotal\t=SUM(B2:B3)\n2\t\t2\n3\t\t3\n[sheet 2 of 2: Plain]\n1\t1"


@pytest.mark.parametrize("start", [b"PK\3\4", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"\x1f\x8b\x08"])
async def test_what_begins_as_an_archive_or_a_picture_is_never_read_as_text(reader: Reader, start: bytes) -> None:
    assert re.search("is no text but|is no whole picture", await reader.fails(start + b"broken"))


async def test_a_huge_sheet_is_read_in_parts(reader: Reader) -> None:
    data = xlsx(Big=[[i, "x" * 50] for i in range(5_000)])
    text = await reader.read(data)
    assert len(text) < 60_000 and "read on with offset=" in text
    following = int(text.rpartition("offset=")[2].rstrip("]"))
    assert (await reader.read(data, offset=following)).startswith(f"{following - 1}\t{following - 2}\t")


async def test_word_text_with_headings_lists_tables(reader: Reader) -> None:
    data = docx(
        '<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Title</w:t></w:r></w:p>'
        "<w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t></w:r></w:p>"
        "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    assert await reader.read(data) == "## Title\none\ttwo\nthree\n- item\n| a | b |"


async def test_slides_come_in_their_order(reader: Reader) -> None:
    def slide(text: str) -> str:
        return f"<p:sld {P}><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>"

    parts: dict[str, str | bytes] = {
        "ppt/presentation.xml": f'<p:presentation {P}><p:sldIdLst><p:sldId id="1" r:id="r2"/><p:sldId id="2" r:id="r1"/></p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": '<R><Relationship Id="r1" Target="slides/slide1.xml"/><Relationship Id="r2" Target="slides/slide2.xml"/></R>',
        "ppt/slides/slide1.xml": slide("second"),
        "ppt/slides/slide2.xml": slide("first"),
    }
    assert await reader.read(zipped(parts)) == "[slide 1 of 2]\nfirst\n[slide 2 of 2]\nsecond"


async def test_open_document_files(reader: Reader) -> None:
    text = '<text:h text:outline-level="2">Head</text:h><text:p>a<text:s text:c="2"/>b<text:tab/>c</text:p><text:list><text:list-item><text:p>i</text:p></text:list-item></text:list>'
    assert await reader.read(odf("text", text)) == "## Head\na  b\tc\n- i"
    cells = '<table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell>'
    empty = '<table:table-row table:number-rows-repeated="1048570"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    sheet = f'<table:table table:name="T">{empty}<table:table-row>{cells}</table:table-row></table:table>'
    assert await reader.read(odf("spreadsheet", sheet)) == "[sheet 1 of 1: T]\n1048571\tx\tx"
    slides = '<draw:page draw:name="S"><draw:frame><text:p>hi</text:p></draw:frame></draw:page>'
    assert await reader.read(odf("presentation", slides)) == "[slide 1 of 1: S]\nhi"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (zipped({"word/document.xml": b"\0" * 310_000_000}), "unpacks to more than 300 MB"),
        (zipped({"word/document.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}), "a DOCTYPE"),
        (zipped({"word/document.xml": "<w:p"}), "it is broken"),
        (zipped({"word/document.xml": "<a>" * 200_000 + "</a>" * 200_000}), "deeper|broken|ended over it|no text"),
        (docx("<w:p/>")[:-30], "no text but"),
        (b"%PDF-1.7\nnot a pdf at all", "broken"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old binary form"),
        (zipped({"some/file": "x"}), "no text but ZIP archive"),
        (zipped({"xl/workbook.xml": "<x/>"}), "it is broken"),
    ],
    ids=["bomb", "doctype", "cut xml", "deep", "cut zip", "no pdf", "old", "zip", "no workbook"],
)
async def test_broken_and_hostile_documents_are_told(reader: Reader, data: bytes, told: str) -> None:
    import re

    try:
        text = await reader.read(data)
    except ToolFailed as error:
        text = str(error)
    assert re.search(told, text), text


async def test_a_missing_package_is_named_with_the_way_to_it(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)  # as where it is not installed
    told = await reader.fails(pdf("x"), "a.pdf")
    assert told.startswith("reading a.pdf needs the package pypdf, which is not installed") and "orkas-harness[docs]" in told


def test_stop_ends_the_reading() -> None:
    abort = Abort()
    abort.fire()
    with pytest.raises(Aborted):
        documents.extract(pdf(*["x"] * 3_000), "pdf", "a", abort)


async def test_pages_of_plain_text_are_refused(reader: Reader) -> None:
    assert "has no pages; use offset" in await reader.fails(b"text\n", page=2)


async def test_a_document_that_changed_is_read_anew(reader: Reader) -> None:
    assert await reader.read(docx("<w:p><w:r><w:t>one</w:t></w:r></w:p>")) == "one"
    assert await reader.read(docx("<w:p><w:r><w:t>three</w:t></w:r></w:p>")) == "three"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from(["docx", "odf", "xlsx"]))
def test_any_damage_is_a_sentence(place: int, byte: int, kind: str) -> None:
    whole = {
        "docx": lambda: docx("<w:p><w:r><w:t>one</w:t></w:r></w:p>"),
        "odf": lambda: odf("text", "<text:p>x</text:p>"),
        "xlsx": lambda: xlsx(A=[[1]]),
    }[kind]()
    data = bytearray(whole)
    data[place % len(data)] = byte
    try:
        told = document_worker.KINDS[kind](bytes(data), document_worker.Document(1, 10))
    except Exception as error:
        assert not isinstance(error, (SystemExit, MemoryError))
    else:
        assert told["total"] >= 0


async def test_rows_beyond_one_reading_are_reached(reader: Reader) -> None:
    data = xlsx(Big=[[i, "x" * 1_000] for i in range(3_000)], Next=[["end"]])
    text = await reader.read(data)
    assert "more than" in text
    assert "2501\t2500\t" in await reader.read(data, offset=2_502)
    assert (await reader.read(data, offset=3_002)).startswith("[sheet 2 of 2: Next]\n1\tend")
    assert "the text has 3,003 lines" in await reader.fails(data, offset=9_000)
    assert "1\t0\t" in await reader.read(data)


MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


async def test_what_a_word_file_holds_comes_once(reader: Reader) -> None:
    inner = f"<w:tbl><w:tr><w:tc>{paragraph('inner')}</w:tc></w:tr></w:tbl>"
    box = f"<w:txbxContent>{paragraph('in the box')}{paragraph('below')}</w:txbxContent>"
    body = (
        f"<w:tbl><w:tr><w:tc>{paragraph('outer')}{inner}</w:tc></w:tr></w:tbl>"
        f"<w:p {MC}><w:r><w:t>Before</w:t></w:r><w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice>"
        f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r></w:p>"
        '<w:p><w:r><w:t>Noted</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    )
    data = zipped({
        "[Content_Types].xml": "<Types/>", "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        "word/header1.xml": f"<w:hdr {W}>{paragraph('Secret draft')}</w:hdr>",
        "word/header2.xml": f"<w:hdr {W}>{paragraph('Secret draft')}</w:hdr>",
        "word/footnotes.xml": f'<w:footnotes {W}><w:footnote w:id="2">{paragraph("See below")}</w:footnote></w:footnotes>',
    })  # fmt: skip
    assert await reader.read(data) == (
        "| outer | inner | |\nBefore\nin the box\nbelow\nNoted[^2]\n[header]\nSecret draft\n[footnotes]\n[^2] See below"
    )


@pytest.mark.parametrize("junk", [b"\r\n", b"HTTP junk\r\n", b"\0\1\2\xff", b"x" * 900 + b"\n"])
async def test_a_pdf_behind_other_bytes_is_one(reader: Reader, junk: bytes) -> None:
    pytest.importorskip("pypdf")
    assert await reader.read(junk + pdf("Hello")) == "Hello"


async def test_a_text_that_speaks_of_pdf_is_text(reader: Reader) -> None:
    text = "head\n%PDF-1.4\nand so on\n"
    assert await reader.read(text.encode()) == text.rstrip("\n")
