"""A program of its own: the text of a document that comes on stdin, as JSON on stdout.

It is started isolated, imports nothing of ours, opens no file, may write none, and has bounds for memory and processor
time: what a broken or hostile document does to a library ends with this process.

Arguments: the kind, the first page, how many pages at most, how many lines to pass over, then folders of the libraries.
"""

from __future__ import annotations

import io
import json
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

MAX_CHARS = 2_000_000
MAX_SECONDS = 20.0
MAX_PARTS = 20_000
MAX_UNPACKED = 300_000_000
MAX_COLUMNS = 200
MAX_MEMORY = 1_500_000_000

Pages = Iterator[tuple[str, Callable[[], Iterator[str]]]]


class Refused(Exception):
    """The document cannot be read; the words say why."""


class Document:
    """Pages that are read one after another until there is enough."""

    def __init__(self, first: int, most: int, skip: int) -> None:
        """``skip``: so many lines are passed over, the one that stands before each page counted."""
        self._first, self._most = first, most
        self._until = time.monotonic() + MAX_SECONDS
        self._room = MAX_CHARS
        self._skip = skip

    def read(self, unit: str, pages: list[tuple[str, Callable[[], Iterator[str]]]]) -> dict[str, Any]:
        if self._first > len(pages):
            raise Refused(f"there is no {unit} {self._first}: it has {len(pages)}")
        found: list[dict[str, Any]] = []
        wanted = self._skip
        asked = pages[self._first - 1 : self._first - 1 + self._most]
        for name, lines in asked:
            if self._room <= 0 or time.monotonic() > self._until:
                break
            found.append(self._page(name, lines, titled=len(pages) > 1 or bool(name)))
        told = {"unit": unit, "total": len(pages), "first": self._first, "pages": found}
        cut = len(found) < len(asked) or found[-1]["cut"]
        return {**told, "skipped": wanted - self._skip, "cut": cut}

    def _page(self, name: str, lines: Callable[[], Iterator[str]], *, titled: bool) -> dict[str, Any]:
        kept: list[str] = []
        cut = False
        begun = titled and self._passes()
        for line in _settled(lines()):
            if not self._passes():
                kept.append(line)
                self._room -= len(line) + 1
            if self._room <= 0 or time.monotonic() > self._until:
                cut = True
                break
        return {"name": name, "lines": kept, "cut": cut, "titled": titled and not begun}

    def _passes(self) -> bool:
        """One more line; True: it is passed over."""
        if not self._skip:
            return False
        self._skip -= 1
        return True


def _settled(lines: Iterator[str]) -> Iterator[str]:
    """Lines without any kind of line end in them, and without empty ones at the end."""
    empty = 0
    for whole in lines:
        for line in whole.splitlines() or [""]:
            if not line.strip():
                empty += 1
                continue
            yield from [""] * empty
            empty = 0
            yield line


def pdf(data: bytes, document: Document) -> dict[str, Any]:
    import pypdf
    from pypdf.errors import DependencyError

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted:
        try:
            opened = reader.decrypt("")
        except DependencyError:
            raise Refused("it is encrypted, which needs another package: python -m pip install cryptography") from None
        if not opened:
            raise Refused("it is protected by a password; ask the user for a copy without one")

    def lines_of(index: int) -> Callable[[], Iterator[str]]:
        return lambda: iter(reader.pages[index].extract_text().splitlines())

    return document.read("page", [("", lines_of(i)) for i in range(len(reader.pages))])


def xlsx(data: bytes, document: Document) -> dict[str, Any]:
    import openpyxl

    parts = _unpacked(data)
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True) if _uncounted(parts) else None

    def rows_of(sheet: Any) -> Callable[[], Iterator[str]]:
        def rows() -> Iterator[str]:
            if not hasattr(sheet, "iter_rows"):
                return  # a sheet that is a chart
            found = _cells(sheet)
            if formulas is not None:
                found = map(_filled, found, _cells(formulas[sheet.title]))
            for number, row in enumerate(found, 1):
                if text := _row(row):
                    yield f"{number}\t{text}"

        return rows

    return document.read("sheet", [(sheet.title, rows_of(sheet)) for sheet in book])


_UNCOUNTED = re.compile(rb"(?:</f>|<f\b[^>]*/>)\s*(?:<v\s*/>|<v>\s*</v>|</c>)")


def _uncounted(parts: zipfile.ZipFile) -> bool:
    """Some formula has no value: the program that wrote the file did not reckon."""
    sheets = [name for name in parts.namelist() if name.startswith("xl/worksheets/")]
    return any(_UNCOUNTED.search(parts.read(name)) for name in sheets)


def _cells(sheet: Any) -> Iterator[Any]:
    sheet.reset_dimensions()
    return iter(sheet.iter_rows(values_only=True, max_col=MAX_COLUMNS))


def _filled(values: Any, formulas: Any) -> list[Any]:
    """Values, and the formula where there is none."""
    return [getattr(f, "text", f) if value is None else value for value, f in zip(values, formulas, strict=False)]


def _row(cells: Any) -> str:
    texts = ["" if cell is None else " ".join(str(cell).split("\n")) for cell in cells]
    while texts and not texts[-1]:
        texts.pop()
    return "\t".join(texts)


def docx(data: bytes, document: Document) -> dict[str, Any]:
    parts = _unpacked(data)
    return document.read("page", [("", lambda: _word(parts))])


def _word(parts: zipfile.ZipFile) -> Iterator[str]:
    """The text, then what stands beside it: each kind under a line of its own."""
    root = _tree(parts, "word/document.xml")
    yield from _word_blocks(next((e for e in root if _tag(e) == "body"), root))
    names = sorted(parts.namelist())
    for kind in ("header", "footer"):
        found = [_word_blocks(_tree(parts, name)) for name in names if re.fullmatch(rf"word/{kind}\d*\.xml", name)]
        said = dict.fromkeys(line for lines in found for line in lines if line.strip())  # one for each kind of page
        yield from [f"[{kind}]", *said] if said else []
    for kind in ("footnote", "endnote", "comment"):
        if f"word/{kind}s.xml" in names:
            yield from _word_notes(_tree(parts, f"word/{kind}s.xml"), kind)


def _word_notes(root: ElementTree.Element, kind: str) -> Iterator[str]:
    told = False
    for note in (e for e in root if _tag(e) == kind):
        text = " ".join(line for line in _word_blocks(note) if line.strip())
        if text:
            if not told:
                yield f"[{kind}s]"
                told = True
            yield f"[{_mark(kind)}{_attribute(note, 'id')}] {text}"


def _mark(kind: str) -> str:
    return {"footnote": "^", "endnote": "^e", "comment": "^c"}[kind]


def _attribute(element: ElementTree.Element, name: str) -> str:
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def _word_blocks(parent: ElementTree.Element) -> Iterator[str]:
    for element in parent:
        kind = _tag(element)
        if kind == "p":
            yield from _word_paragraph(element).split("\n")
        elif kind == "tbl":
            for row in _within(element, "tr"):
                yield "| " + " | ".join(" ".join(_word_blocks(cell)) for cell in _within(row, "tc")) + " |"
        elif kind in ("sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag"):
            yield from _word_blocks(element)


def _within(parent: ElementTree.Element, wanted: str) -> Iterator[ElementTree.Element]:
    """Rows or cells of this very table, whatever is wrapped around them; not those of a table inside it."""
    for element in parent:
        if _tag(element) == wanted:
            yield element
        elif _tag(element) not in ("tbl", "tc"):
            yield from _within(element, wanted)


def _word_paragraph(paragraph: ElementTree.Element) -> str:
    text, prefix = [], ""
    for element in _word_runs(paragraph):
        kind = _tag(element)
        if kind == "t":
            text.append(element.text or "")
        elif kind == "tab" and not element.attrib:
            text.append("\t")
        elif kind in ("br", "cr"):
            text.append("\n")
        elif kind == "txbxContent":
            text.append("\n".join(["", *_word_blocks(element), ""]))
        elif kind in ("footnoteReference", "endnoteReference", "commentReference"):
            text.append(f"[{_mark(kind.removesuffix('Reference'))}{_attribute(element, 'id')}]")
        elif kind == "pStyle":
            value = next(iter(element.attrib.values()), "")
            if found := re.fullmatch(r"[Hh]eading ?(\d)|Title", value):
                prefix = "#" * int(found[1] or 1) + " "
        elif kind == "numPr":
            prefix = prefix or "- "
    return prefix + "".join(text).strip("\n") if text else ""


def _word_runs(parent: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """What a paragraph is made of, in order. A drawing that comes in two forms comes once; the inside of a text box is
    left to whoever asks for it.
    """
    for element in parent:
        if _tag(element) == "Fallback":
            continue
        yield element
        if _tag(element) != "txbxContent":
            yield from _word_runs(element)


def pptx(data: bytes, document: Document) -> dict[str, Any]:
    parts = _unpacked(data)
    links = {
        e.get("Id", ""): "ppt/" + e.get("Target", "").removeprefix("/ppt/")
        for e in _tree(parts, "ppt/_rels/presentation.xml.rels")
    }
    order = [
        links.get(next((v for k, v in e.attrib.items() if k.endswith("}id")), ""), "")
        for e in _tree(parts, "ppt/presentation.xml").iter()
        if _tag(e) == "sldId"
    ]
    return document.read("slide", [("", _slide(parts, name)) for name in order if name in parts.namelist()])


def _slide(parts: zipfile.ZipFile, name: str) -> Callable[[], Iterator[str]]:
    def lines() -> Iterator[str]:
        for element in _tree(parts, name).iter():
            if _tag(element) == "p" and (text := "".join(_drawn(element)).strip()):
                yield from text.split("\n")

    return lines


def _drawn(paragraph: ElementTree.Element) -> Iterator[str]:
    for element in paragraph.iter():
        if _tag(element) == "t":
            yield element.text or ""
        elif _tag(element) == "br":
            yield "\n"


def odf(data: bytes, document: Document) -> dict[str, Any]:
    """OpenDocument: a text, the tables of a spreadsheet, or the pages of a presentation."""
    root = _tree(_unpacked(data), "content.xml")
    body = next((e for e in root if _tag(e) == "body"), root)
    content = body[0] if len(body) else body
    kind = _tag(content)
    if kind == "spreadsheet":
        tables = [e for e in content if _tag(e) == "table"]
        return document.read("sheet", [(_named(t), _odf_lines(t, numbered=True)) for t in tables])
    if kind == "presentation":
        slides = [e for e in content if _tag(e) == "page"]
        return document.read("slide", [(_named(s), _odf_lines(s)) for s in slides])
    return document.read("page", [("", _odf_lines(content))])


def _named(element: ElementTree.Element) -> str:
    return next((value for key, value in element.attrib.items() if key.endswith("}name")), "")


def _odf_lines(parent: ElementTree.Element, *, numbered: bool = False) -> Callable[[], Iterator[str]]:
    return lambda: _odf_rows(parent) if numbered else _odf_blocks(parent)


def _odf_rows(table: ElementTree.Element) -> Iterator[str]:
    number = 1
    for row in _odf_table_rows(table):
        cells: list[str] = []
        for cell in row:
            if len(cells) < MAX_COLUMNS:
                text = " ".join(_odf_blocks(cell))
                cells += [text] * min(_repeated(cell, "columns"), MAX_COLUMNS)
        if text := _row(cells[:MAX_COLUMNS]):
            yield f"{number}\t{text}"
        number += _repeated(row, "rows")


def _odf_table_rows(parent: ElementTree.Element) -> Iterator[ElementTree.Element]:
    for element in parent:
        if _tag(element) == "table-row":
            yield element
        elif _tag(element) != "table":
            yield from _odf_table_rows(element)


def _repeated(element: ElementTree.Element, what: str) -> int:
    value = next((v for k, v in element.attrib.items() if k.endswith(f"}}number-{what}-repeated")), "1")
    return int(value) if value.isdecimal() and len(value) < 9 else 1


def _odf_blocks(parent: ElementTree.Element) -> Iterator[str]:
    for element in parent:
        kind = _tag(element)
        if kind == "h":
            level = next((v for k, v in element.attrib.items() if k.endswith("}outline-level")), "1")
            yield "#" * min(int(level) if level.isdecimal() else 1, 6) + " " + _odf_text(element)
        elif kind == "p":
            yield from _odf_text(element).split("\n")
        elif kind == "list-item":
            yield from (f"- {line}" for line in _odf_blocks(element))
        elif kind == "table-row":
            yield "| " + " | ".join(" ".join(_odf_blocks(cell)) for cell in element) + " |"
        elif kind not in ("annotation", "tracked-changes", "notes"):
            yield from _odf_blocks(element)


def _odf_text(element: ElementTree.Element) -> str:
    parts = [element.text or ""]
    for child in element:
        match _tag(child):
            case "s":
                count = next((v for k, v in child.attrib.items() if k.endswith("}c")), "1")
                parts.append(" " * min(int(count) if count.isdecimal() else 1, 1_000))
            case "tab":
                parts.append("\t")
            case "line-break":
                parts.append("\n")
            case "annotation" | "note":
                pass
            case _:
                parts.append(_odf_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _unpacked(data: bytes) -> zipfile.ZipFile:
    """The parts of the document, none of them read yet, and not too much of it."""
    parts = zipfile.ZipFile(io.BytesIO(data))
    infos = parts.infolist()
    if any(info.flag_bits & 1 for info in infos):
        raise Refused("it is protected by a password; ask the user for a copy without one")
    if len(infos) > MAX_PARTS or sum(info.file_size for info in infos) > MAX_UNPACKED:
        raise Refused(f"it unpacks to more than {MAX_UNPACKED // 1_000_000} MB, which no ordinary document does")
    for info in infos:
        if info.filename.endswith((".xml", ".rels")):
            with parts.open(info) as part:
                if b"<!DOCTYPE" in part.read(4_096):
                    raise Refused("it defines names of its own (a DOCTYPE), which no ordinary document does")
    return parts


def _tree(parts: zipfile.ZipFile, name: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(parts.read(name))  # noqa: S314 - no DOCTYPE, bounded, in a process of its own
    except KeyError:
        raise Refused(f"it is broken: {name} is missing") from None


KINDS: dict[str, Callable[[bytes, Document], dict[str, Any]]] = {
    "pdf": pdf, "xlsx": xlsx, "docx": docx, "pptx": pptx, "odf": odf,
}  # fmt: skip


def _bounded() -> None:
    try:
        import resource

        for what, most in (
            (resource.RLIMIT_AS, MAX_MEMORY), (resource.RLIMIT_CPU, int(MAX_SECONDS) + 5), (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):  # fmt: skip
            resource.setrlimit(what, (most, most))
    except (ImportError, ValueError, OSError):
        return  # the time limit of the caller holds all the same


def main() -> None:
    kind, (first, most, skip) = sys.argv[1], map(int, sys.argv[2:5])
    sys.path.extend(sys.argv[5:])
    _bounded()
    sys.setrecursionlimit(3_000)
    told: dict[str, Any]
    try:
        told = KINDS[kind](sys.stdin.buffer.read(), Document(first, most, skip))
    except Refused as why:
        told = {"error": str(why)}
    except ImportError as error:
        told = {"error": "", "missing": str(error.name)}
    except MemoryError:
        told = {"error": "it takes more memory than any ordinary document"}
    except RecursionError:
        told = {"error": "it is nested deeper than any ordinary document"}
    except Exception as error:  # noqa: BLE001 - a library meets a broken document: whatever it says of it
        told = {"error": f"it is broken ({type(error).__name__}: {str(error)[:200]})"}
    sys.stdout.buffer.write(json.dumps(told).encode("ascii"))


if __name__ == "__main__":
    main()
