"""An answer of the web as a result: what it is, its text, what stands in the way, and a part of it at a time."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

import msgspec

from orkas.harness.tool import ToolResult
from orkas.infra import files
from orkas.infra.abort import Abort
from orkas.infra.amounts import counted
from orkas.infra.errors import StorageError, ToolFailed
from orkas.infra.messages import Image
from orkas.infra.pictures import fault
from orkas.tools.foreign import WEB, framed, plain
from orkas.tools.text import kind_of_bytes, size_said
from orkas.tools.web.charset import charset_of_header, decode, wide_form
from orkas.tools.web.getting import MAX_BYTES, Page

__all__ = ["PAGE_BYTES", "Read", "read_answer", "told"]

PAGE_BYTES = 24_000
"""UTF-8 bytes of one part of a page: about 6,000 tokens of English, 8,000 of Chinese."""
_EXCERPT = 1_500
"""Characters of what a server says beside a refusal."""
_SHOWN = 500
"""Characters of the address that was asked for, as it is shown; where a server leads on to stands within the marks."""
_VISIBLE = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Read(msgspec.Struct):
    """A page as it was read. ``url``: as it was asked for."""

    url: str
    told: str
    """One line about it, in our own words."""
    text: str = ""
    notes: list[str] = []
    image: Image | None = None
    failed: bool = False


def told(read: Read, offset: int, tool: str, folder: Path | None) -> ToolResult:
    """One part of the page as a result; the whole of a longer one is kept in ``folder``, named after the tool.

    Raises:
        ToolFailed: ``offset`` is beyond the end.
    """
    if read.image is not None:
        return ToolResult(read.told, [read.image], origin=WEB)
    if read.failed or not read.text:
        excerpt = f"\n{framed(read.text[:_EXCERPT], read.url)}" if read.text else ""
        return ToolResult(read.told + excerpt, is_error=read.failed, origin=WEB)
    return _part(read, offset, tool, folder)


def _part(read: Read, offset: int, tool: str, folder: Path | None) -> ToolResult:
    total = len(read.text)
    if offset > total:
        raise ToolFailed(f"offset {offset} is beyond the end: the text has {counted(total, 'character')}")
    end = _end(read.text, offset - 1)
    notes = list(read.notes)
    result = ToolResult("", origin=WEB)
    if offset > 1 or end < total:
        result.file, result.bytes, where = _store(read.text, tool, folder)
        more = f"; read on with offset={end + 1}" if end < total else ""
        notes.append(f"characters {offset:,} to {end:,} of {total:,}{more}{where}")
    lines = [read.told, framed(read.text[offset - 1 : end], read.url), *(f"[{note}]" for note in notes)]
    result.text = "\n".join(lines)
    return result


def _end(text: str, start: int) -> int:
    """Where a part that begins at ``start`` ends: at an end of a paragraph or line if there is one near."""
    data = text[start : start + PAGE_BYTES].encode()[:PAGE_BYTES]
    end = start + len(data.decode("utf-8", "ignore"))
    if end >= len(text):
        return len(text)
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, start + (end - start) * 3 // 4, end)
        if at > start:
            return at + len(mark)
    return end


def _store(text: str, tool: str, folder: Path | None) -> tuple[str | None, int | None, str]:
    """Keep the whole beside the session, to be searched there: file, size, and what to say of it."""
    if folder is None:
        return None, None, ""
    data = text.encode()
    path = folder / f"{tool}-{hashlib.sha256(data).hexdigest()[:32]}.txt"
    try:
        if not path.exists():
            files.replace(path, data)
    except (StorageError, OSError) as error:
        return None, None, f"; the whole could not be kept: {error}"
    return str(path), len(data), f"; to search all of it: read_result, file {path.name}"


# What a page is


def read_answer(page: Page, asked: str, abort: Abort, number: int = 0) -> Read:
    """Make text of a page, whatever it is. ``number``: of a document only this page, sheet or slide, from 1; 0: all.

    Blocks, a document up to half a minute.

    Raises:
        ToolFailed: it is of a kind that is not read, or cannot be.
        Aborted: Stop.
    """
    kind = page.headers.get("content-type", "").partition(";")[0].strip().lower()
    asked = plain(asked.strip())[:_SHOWN]
    kind = kind if kind in _kinds() else ""  # any other is the server's own words
    told = f"{asked}: {'by redirects, ' if page.moved else ''}HTTP {page.status}, {kind or 'of no known type'}"
    read = _read(page, told, kind, asked, abort, number)
    if page.moved and read.text and not read.failed:
        read.text = f"Address: {plain(page.url)}\n\n{read.text}"
    return read


@cache
def _kinds() -> frozenset[str]:
    """Types of content that have a name everywhere."""
    from mimetypes import MimeTypes

    return frozenset(MimeTypes(()).types_map[True].values()) | _MORE_KINDS


_MORE_KINDS = frozenset([
    "application/octet-stream", "application/xhtml+xml", "application/xml", "application/rss+xml",
    "application/atom+xml", "application/ld+json", "application/feed+json", "application/problem+json",
    "application/yaml", "application/toml", "application/x-ndjson", "application/json", "application/javascript",
    "text/javascript", "text/markdown", "text/yaml",
    "text/x-python", "text/x-rst", "text/xml", "image/webp", "image/avif", "application/zip", "application/gzip",
])  # fmt: skip


def _read(page: Page, told: str, kind: str, asked: str, abort: Abort, number: int) -> Read:
    if not page.body.strip():
        return _nothing(page, told, asked)
    head = page.body[:65_536]
    if (found := kind_of_bytes(head)) in _VISIBLE:
        return _picture(page, told, found, asked)
    if (document := _document(page, told, asked, abort, number)) is not None:
        return document
    if number:
        raise ToolFailed(f"{asked} is no document and has no pages", hint="use offset")
    if _is_binary(head, page):
        what = found if found != "binary data" else kind or found
        raise ToolFailed(
            f"{asked} is no text but {what} of {size_said(len(page.body))}",
            hint="web_fetch reads pages, text, documents and pictures; look for one of these",
        )
    return _text(page, told, kind, asked, abort)


def _nothing(page: Page, told: str, asked: str) -> Read:
    if page.status >= 400:
        return _refused(page, told, asked, "")
    return Read(asked, f"{told}. The page is empty: the server sent no text. Try another source.")


def _picture(page: Page, told: str, kind: str, asked: str) -> Read:
    if page.partial or (wrong := fault(page.body)):
        wrong = "did not arrive whole" if page.partial else wrong
        raise ToolFailed(f"{asked} is an image ({kind}, {size_said(len(page.body))}) that cannot be shown: it {wrong}")
    image = Image(media_type=kind, data=base64.b64encode(page.body).decode())
    return Read(asked, f"{told}. An image ({kind}), {size_said(len(page.body))}", image=image)


_NAMES = {"pdf": "PDF", "docx": "Word", "xlsx": "Excel", "pptx": "PowerPoint", "odf": "OpenDocument"}


def _document(page: Page, told: str, name: str, abort: Abort, number: int) -> Read | None:
    """The text of a PDF or Office document; None: it is none."""
    if not page.body.startswith((b"%PDF-", b"PK", b"\xd0\xcf\x11\xe0")):
        return None
    from orkas.tools import documents  # not before one is met

    kind = documents.kind_of_document(io.BytesIO(page.body))
    if not kind and not page.partial:
        if page.body.startswith(b"PK\x03\x04") and not zipfile.is_zipfile(io.BytesIO(page.body)):
            raise ToolFailed(f"{name} begins as a ZIP archive and is damaged", hint="look for another copy")
        return None
    if page.partial:
        most = size_said(MAX_BYTES)
        raise ToolFailed(f"{name} did not arrive whole, or is larger than {most}", hint="look for a smaller version")
    first, most_pages = (number, 1) if number else (1, 1_000_000)
    document = documents.extract(page.body, kind, name, abort, first=first, most=most_pages)
    size = f"{counted(document.total, document.unit)}"
    told = f"{told}. A document ({_NAMES[kind]}) of {size}"
    if not any(one.text.strip() for one in document.pages):
        return Read(name, f"{told} without text: it may be scanned. Try another source.")
    return Read(name, told, plain("\n".join(documents.lines_of(document))).strip(), documents.notes_of(document))


def _is_binary(head: bytes, page: Page) -> bool:
    """Judged by the bytes; what the server says of them is often wrong."""
    told_wide = "utf-16" in page.headers.get("content-type", "").lower()
    if told_wide or head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return False
    if b"\0" in head and wide_form(head[:16_384]):
        return False
    return b"\0" in head or len(head) - len(head.translate(None, _CONTROLS)) > len(head) // 50


_CONTROLS = bytes([*range(0x08), *range(0x0E, 0x1B), *range(0x1C, 0x20)])
"""Not escape, by which ISO-2022-JP changes its alphabet."""


def _text(page: Page, told: str, kind: str, asked: str, abort: Abort) -> Read:
    start = page.body[:1_024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    markup = "html" in kind or (
        kind not in ("text/plain", "text/markdown") and start.startswith((b"<!doctype html", b"<html"))
    )
    header = charset_of_header(page.headers.get("content-type", ""))
    decoded = decode(page.body, header, markup=markup or "xml" in kind, whole=not page.partial)
    notes = [f"encoding: {decoded.note}"] if decoded.note else []
    if decoded.text.count("\ufffd") > max(3, len(decoded.text) // 200) and not decoded.note:
        notes.append("many characters could not be decoded and are shown as \ufffd")
    if page.partial:
        notes.append(f"only the first {size_said(len(page.body))} were read; the rest did not come, or is too much")
    if markup:
        return _page(page, told, asked, decoded.text, notes, abort)
    text = plain(decoded.text).strip()
    return _refused(page, told, asked, text) if page.status >= 400 else Read(asked, told, text, notes)


def _page(page: Page, told: str, asked: str, html: str, notes: list[str], abort: Abort) -> Read:
    from orkas.tools.web.article import read_page
    from orkas.tools.web.verdict import is_challenge, sent_on, walls

    article = read_page(html, page.url, abort.check)
    if is_challenge(page.status, page.headers, html, article):
        what = "The site asks for proof of being a person (a captcha), so its text was not shown; try another source."
        return Read(asked, f"{told}. {what}", failed=True)
    text = plain(article.text).strip()
    if article.title and text:
        text = f"Title: {plain(article.title)}\n\n{text}"
    if page.status >= 400:
        return _refused(page, told, asked, text)
    said = walls(article, page.url, html)
    if article.cut:
        notes = [*notes, "the page has too many parts: only its beginning was read"]
    if on := sent_on(article, page.url):
        said.append("the page sends its reader on by itself, to the address at the end of its text")
        text = f"{text}\n\nSends on to: {on}".strip()
    if not text:
        why = f" {said[0][0].upper()}{said[0][1:]}." if said else " Try another source."
        return Read(asked, f"{told}. The page holds no text.{why}")
    return Read(asked, told, text, [*said, *notes])


def _refused(page: Page, told: str, asked: str, text: str) -> Read:
    from orkas.tools.web.verdict import status_said

    wait = page.headers.get("retry-after", "")
    later = f" It names a time: {wait} seconds." if wait.isdecimal() and len(wait) < 7 else ""
    return Read(asked, f"{told}. {status_said(page.status)}.{later}", text, failed=True)
