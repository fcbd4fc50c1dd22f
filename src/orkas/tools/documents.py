"""The text of PDF and Office documents: read by a process of its own, which may fail without harm."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import threading
import time
import zipfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import msgspec

from orkas.infra import process
from orkas.infra.abort import Abort
from orkas.infra.errors import ToolFailed

__all__ = ["MAX_BYTES", "Document", "extract", "is_pdf", "kind_of_document", "lines_of", "notes_of"]

MAX_BYTES = 64 * 1024 * 1024
MAX_SECONDS = 30.0
"""For one reading; the process itself gives up earlier where it can."""
_TICK_S = 0.05
_WORKER = Path(__file__).with_name("document_worker.py")
_NEEDED = {"pdf": ("pypdf",), "xlsx": ("openpyxl", "et_xmlfile")}
INSTALL = "python -m pip install 'orkas-harness[docs]'"
_PDF = re.compile(rb"(?:^|[\r\n\0\x80-\xff])%PDF-\d")
_PDF_WITHIN = 1_024
_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class Page(msgspec.Struct):
    name: str
    lines: list[str] = []
    cut: bool = False
    """It goes on beyond what is read at once."""
    titled: bool = False
    """A line of its own stands before it."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class Document(msgspec.Struct):
    unit: str
    """What it is made of: page, sheet or slide."""
    total: int
    first: int
    """The number of the first of ``pages``."""
    pages: list[Page] = []
    skipped: int = 0
    """Lines that were passed over."""
    cut: bool = False
    """There is more of what was asked for than was read at once."""


def kind_of_document(data: io.BufferedIOBase) -> str:
    """``pdf``, ``docx``, ``xlsx``, ``pptx`` or ``odf``; empty: none of these.

    Raises:
        ToolFailed: an Office file of before 2007, or an encrypted one.
    """
    data.seek(0)
    head = data.read(_PDF_WITHIN)
    if is_pdf(head, data):
        return "pdf"
    if head.startswith(_OLD):
        raise ToolFailed(
            "this is an Office file in the old binary form, or one with a password, and cannot be read; save it as"
            " docx, xlsx or pptx without one, or use a shell command (libreoffice --headless --convert-to)"
        )
    if not head.startswith(b"PK"):
        return ""
    with suppress(zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, UnicodeError):
        data.seek(0)
        names = set(zipfile.ZipFile(data).namelist())
        for kind, part in (
            ("docx", "word/document.xml"), ("xlsx", "xl/workbook.xml"), ("pptx", "ppt/presentation.xml"),
            ("odf", "content.xml"),
        ):  # fmt: skip
            if part in names and (kind != "odf" or "mimetype" in names):
                return kind
    return ""


def is_pdf(head: bytes, file: io.BufferedIOBase) -> bool:
    """Also one with other bytes in front, as readers allow within the first 1,024; a text that only speaks of PDF has
    no end of one.
    """
    if head.startswith(b"%PDF-"):
        return True
    if not _PDF.search(head[:_PDF_WITHIN]):
        return False
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _PDF_WITHIN))
    tail = file.read(_PDF_WITHIN)
    return b"startxref" in tail and b"%%EOF" in tail


def extract(
    data: bytes, kind: str, name: str, abort: Abort, *, first: int = 1, most: int = 1_000_000,
    skip: int = 0,
) -> Document:
    """The text from page ``first`` on and behind ``skip`` lines of it, as much as the bounds allow. Blocks, up to
    ``MAX_SECONDS``.

    Raises:
        ToolFailed: a package is missing, or the document is encrypted, broken or beyond the bounds.
        Aborted: Stop.
    """
    folders: dict[str, None] = {}
    for package in _NEEDED.get(kind, ()):
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise _missing(name, package)
        folders[str(Path(spec.submodule_search_locations[0]).parent)] = None
    if kind == "pdf" and (found := _PDF.search(data[:_PDF_WITHIN])):
        data = data[found.end() - len(b"%PDF-1") :]
    told = _asked([kind, str(first), str(most), str(skip), *folders], data, name, abort)
    if missing := told.get("missing"):
        raise _missing(name, str(missing))
    if "error" in told:
        raise ToolFailed(f"{name} cannot be read: {told['error']}")
    return msgspec.convert(told, Document)


def lines_of(document: Document) -> list[str]:
    """The text by lines; a line of its own stands before each page."""
    lines: list[str] = []
    for number, page in enumerate(document.pages, document.first):
        if page.titled:
            lines.append(f"[{document.unit} {number} of {document.total}{': ' if page.name else ''}{page.name}]")
        lines += page.lines
    return lines


def notes_of(document: Document) -> list[str]:
    """What of it is not there, and how to read it."""
    notes = []
    last = document.first + len(document.pages) - 1
    if document.pages and document.pages[-1].cut:
        notes.append(f"the text of {document.unit} {last} goes on beyond what is read at once; offset reads on there")
    if last < document.total:
        notes.append(f"{document.unit} {last} of {document.total}; page={last + 1} reads the next")
    return notes


def _missing(name: str, package: str) -> ToolFailed:
    return ToolFailed(f"reading {name} needs the package {package}, which is not installed; the user can do {INSTALL}")


def _asked(arguments: list[str], data: bytes, name: str, abort: Abort) -> dict[str, Any]:
    child = process.helper(_WORKER, *arguments)
    give_up = time.monotonic() + MAX_SECONDS
    inlet, child.stdin = child.stdin, None  # ``communicate`` would lose what it could not write before its time limit
    assert inlet is not None
    feeding = threading.Thread(target=_feed, args=(inlet, data), name="orkas-feed", daemon=True)
    feeding.start()
    try:
        while True:
            try:
                abort.check()
                out, _ = child.communicate(timeout=_TICK_S)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > give_up:
                    raise ToolFailed(f"{name} takes longer than {MAX_SECONDS:g} s to read; it may be broken") from None
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
        feeding.join()
    try:
        return dict(json.loads(out))
    except ValueError:
        raise ToolFailed(f"{name} cannot be read: the reader ended over it; it is broken or too large") from None


def _feed(inlet: IO[bytes], data: bytes) -> None:
    with suppress(OSError):  # it ended before it had read everything
        inlet.write(data)
    with suppress(OSError):
        inlet.close()
