"""Bytes of the user's files as text that can be turned back into the same bytes."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from typing import BinaryIO

from orkas.infra.amounts import counted
from orkas.infra.patterns import lazy

__all__ = ["HEAD_BYTES", "Form", "form_in", "form_of", "kind_of_bytes", "size_said"]

HEAD_BYTES = 65_536
"""How much of a file decides whether it is a text at all."""
_JUDGED_BYTES = 64 * 1024 * 1024
"""How much of a text decides its encoding: as much as is edited."""
_PIECE_BYTES = 4 * 1024 * 1024

ANY = "any"
"""Value of ``Form.safe``: the guess is as good as certain."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16-LE: must be asked first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"), (b"%PDF-", "PDF document"), (b"PK\x03\x04", "ZIP archive or office document"),
    (b"\x1f\x8b", "gzip archive"), (b"BZh", "bzip2 archive"), (b"\xfd7zXZ\x00", "xz archive"),
    (b"(\xb5/\xfd", "zstd archive"), (b"7z\xbc\xaf'\x1c", "7-Zip archive"), (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program"), (b"SQLite format 3\x00", "SQLite database"), (b"OggS", "Ogg audio"),
    (b"ID3", "MP3 audio"), (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\x00asm", "WebAssembly module"), (b"BM", "BMP image"), (b"II*\x00", "TIFF image"), (b"MM\x00*", "TIFF image"),
)  # fmt: skip
_NEVER_TEXT = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b\x08", b"%PDF-")
"""Beginnings that no text has: such a file is a picture, an archive or a document, also a broken one."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a file writes its text. ``bom``: the mark in front, no part of the text."""

    encoding: str
    bom: bytes = b""
    errors: str = "strict"
    note: str = ""
    """What a reader should know; empty for plain UTF-8."""
    safe: str | None = None
    """Encoding only guessed: the characters that are right in whatever it truly is, beside ASCII. None: no guess."""

    def sure_of(self, char: str) -> bool:
        """The character can be added to the file: its bytes mean the same in every encoding the file may have."""
        return self.safe is None or char in self.safe or (self.safe == ANY and char > "\x7f")

    @property
    def lenient(self) -> str:
        """How to decode for showing alone: what is broken becomes U+FFFD."""
        return _EURO_SHOWN if self.errors == _EURO else "replace"

    def decode(self, data: bytes) -> str:
        """Raises UnicodeDecodeError when some of it is broken; never for forms without a mark in front."""
        return data[len(self.bom) :].decode(self.encoding, self.errors)

    def shown(self, data: bytes) -> str:
        """The text for showing alone, whatever is broken in it."""
        return data[len(self.bom) :].decode(self.encoding, self.lenient)

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError when the file's encoding has no such character."""
        return self.bom + text.encode(self.encoding, self.errors)


def form_of(data: bytes, *, whole: bool = True) -> Form | None:
    """The form of a text, None for binary data. ``whole`` False: the data is only the beginning of a file."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            if encoding == "utf-8" and not _decodes(data, encoding, whole):
                return Form(encoding, bom, "surrogateescape", _BROKEN)
            return Form(encoding, bom, note="" if encoding == "utf-8" else f"encoded as {encoding.upper()}")
    if data.startswith(_NEVER_TEXT):
        return None
    if b"\0" in data:
        encoding = _unmarked_utf16(data, whole)
        return Form(encoding, note=f"encoded as {encoding.upper()} without a mark", safe=ANY) if encoding else None
    if _decodes(data, "utf-8", whole):
        return Form("utf-8")
    if chinese := _chinese(data, whole):
        return chinese
    if _looks_like_utf8(data):
        return Form("utf-8", errors="surrogateescape", note=_BROKEN)
    if japanese := _japanese(data, whole):
        return japanese
    if _C1.search(data) and _decodes(data, "cp1252", whole):
        return Form("cp1252", note="not UTF-8: decoded as Windows-1252", safe="" if _RUN.search(data) else _SHARED)
    return Form("latin-1", note="not UTF-8: decoded as Latin-1", safe=_SHARED if _is_surely_latin(data) else "")


def form_in(file: BinaryIO) -> tuple[Form | None, bytes]:
    """The form of an open file and its first bytes. The beginning tells whether it is a text; the encoding is judged by
    all of it, up to 64 MB. Reads in pieces, and holds it whole only where it is not UTF-8.
    """
    file.seek(0)
    head = file.read(HEAD_BYTES)
    form = form_of(head, whole=len(head) < HEAD_BYTES)
    if form is None or len(head) < HEAD_BYTES or form.encoding.startswith(("utf-16", "utf-32")):
        return form, head
    if form.errors == "strict" and form.encoding == "utf-8" and _goes_on_as_utf8(file, head):
        return form, head
    file.seek(0)
    data = file.read(_JUDGED_BYTES)
    return form_of(data, whole=not file.read(1)) or form, head


def _goes_on_as_utf8(file: BinaryIO, data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    read = 0
    try:
        while data and read < _JUDGED_BYTES:
            decoder.decode(data)
            read += len(data)
            data = file.read(_PIECE_BYTES)
        decoder.decode(b"", not data)
    except UnicodeDecodeError:
        return False
    return True


_BROKEN = "some bytes are not valid UTF-8"


def _decodes(data: bytes, encoding: str, whole: bool, errors: str = "strict") -> bool:
    try:
        codecs.getincrementaldecoder(encoding)(errors).decode(data, whole)
    except UnicodeDecodeError:
        return False
    return True


def _unmarked_utf16(data: bytes, whole: bool) -> str:
    """UTF-16 without a byte-order mark: text with enough ASCII in it, all of it printable; empty: it is none."""
    if whole and len(data) % 2:
        return ""
    sample = data[: 2 * _SAMPLE]
    low, high = sample[::2].count(0), sample[1::2].count(0)
    encoding = "utf-16-le" if high > low else "utf-16-be"
    few, many = sorted((low, high))
    if few * 2 > many or many * 5 < len(sample) // 2 or not _decodes(data, encoding, whole):
        return ""
    text = sample.decode(encoding, "ignore")
    return encoding if text.translate(_BLANKS).isprintable() else ""


_BLANKS = dict.fromkeys(map(ord, "\t\n\r\f"))
_C1 = lazy(rb"[\x80-\x9f]")
_RUN = lazy(rb"[\x80-\xff]{3}")
_KANA = lazy("[\u3041-\u30ff]")
_JAPANESE = lazy("[\u3001-\u30ff\u4e00-\u9fff\uff01-\uff9f]")
_HALF = lazy("[\uff61-\uff9f]")
_RUNS = lazy("[^\x00-\x7f]{2,}")


def _japanese(data: bytes, whole: bool) -> Form | None:
    """Shift-JIS text: it decodes, nearly all that is not ASCII is Japanese, and a sixth or more of that is kana.

    With less of it (a table of names) words of two or more characters are taken as such, as a guess. Chinese in GBK
    decodes into kana of half width, which hardly anybody writes.
    """
    if not _decodes(data, "cp932", whole):
        return None
    text = data[: 2 * _SAMPLE].decode("cp932", "ignore")
    foreign = re.sub("[\x00-\x7f]+", "", text)
    if not foreign or len(_JAPANESE.findall(foreign)) < 0.9 * len(foreign):
        return None
    kana = len(_KANA.findall(foreign))
    note = "not UTF-8: decoded as Shift-JIS"
    if kana * 6 >= len(foreign):
        return Form("cp932", note=note, safe=ANY if kana >= 4 else "")
    in_words = sum(map(len, _RUNS.findall(text)))
    return Form("cp932", note=note, safe="") if not _HALF.search(foreign) and in_words >= 0.8 * len(foreign) else None


def _chinese(data: bytes, whole: bool) -> Form | None:
    """GB18030, or the GBK of Windows (code page 936), in which the byte 0x80 is the euro sign."""
    if _decodes(data, "gb18030", whole):
        form = Form("gb18030", note="not UTF-8: decoded as GB18030")
    elif b"\x80" in data and _decodes(data, "gbk", whole, _euro()):
        form = Form("gbk", errors=_EURO, note="not UTF-8: decoded as GBK")
    else:
        return None
    text = data.decode(form.encoding, form.lenient if not whole else form.errors)
    if not _is_chinese(text):
        return None
    return replace(form, safe=ANY if _is_surely_chinese(_foreign(text)) else "")


_EURO, _EURO_SHOWN = "orkas-euro", "orkas-euro-shown"


def _euro() -> str:
    """The name of the way in which a codec meets the euro sign of code page 936, which Python's ``gbk`` lacks."""
    codecs.register_error(_EURO, _met_euro)
    codecs.register_error(_EURO_SHOWN, _met_or_shown)
    return _EURO


def _met_euro(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError) and error.object[error.start : error.start + 1] == b"\x80":
        return "€", error.start + 1
    if isinstance(error, UnicodeEncodeError) and error.object[error.start] == "€":
        return b"\x80", error.start + 1
    raise error


def _met_or_shown(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return _met_euro(error)
    except UnicodeError:
        return codecs.replace_errors(error)


def _is_chinese(text: str) -> bool:
    """Nearly all that is not ASCII are common Chinese characters and punctuation."""
    foreign = _foreign(text)
    if _all_embedded(text):
        return False
    common = [c for c in foreign if re.match(_COMMON, c)]
    ordinary = sum(1 for c in common if _two_high_bytes(c))
    return len(foreign) > 0 and len(common) >= 0.9 * len(foreign) and ordinary >= 0.5 * len(foreign)


def _all_embedded(text: str) -> bool:
    """Nothing foreign but single characters beside Latin letters: letters with marks, as in "Größe", "über"."""
    text = text[:_SAMPLE]
    runs = _FOREIGN.findall(text)
    return bool(runs) and len(_EMBEDDED.findall(text)) == len(runs)


_FOREIGN = lazy("[^\x00-\x7f]+")
_EMBEDDED = lazy("(?<=[A-Za-z])[^\x00-\x7f](?![^\x00-\x7f])|(?<![^\x00-\x7f])[^\x00-\x7f](?=[A-Za-z])")


def _foreign(text: str) -> str:
    """What is not ASCII in a text: a sample from the beginning is enough to judge it."""
    found, size = [], 0
    for run in _FOREIGN.finditer(text):
        found.append(run.group())
        size += len(found[-1])
        if size >= _SAMPLE:
            break
    return "".join(found)[:_SAMPLE].replace("€", "")


_SAMPLE = 50_000
_COMMON = "[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]"


def _two_high_bytes(char: str) -> bool:
    """As in GB 2312: ordinary Chinese, rarely met by Latin-1 text by accident."""
    pair = char.encode("gb18030")
    return len(pair) == 2 and pair[0] >= 0xA1 and pair[1] >= 0xA1


_FREQUENT = frozenset("的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之")
_CHINESE_MARKS = frozenset("，。：；？！（）“”")


def _is_surely_chinese(foreign: str) -> bool:
    """GB18030 and not the EUC-KR, EUC-JP or Big5 that decodes as GB18030 too, into rare characters.

    The rule: a tenth of what is not ASCII is Chinese punctuation or among the fifty most frequent characters, which
    make up a third of Chinese text, and a comma of full width is there, which Korean and Japanese hardly use.
    """
    usual = sum(1 for c in foreign if c in _FREQUENT or c in _CHINESE_MARKS)
    return usual * 10 >= len(foreign) and "，" in foreign


_SHARED = "ÄÖÜßäöüÉéÁáÍíÓóÚúÇçËëÎîÔôÂâ"
"""Letters with one place in Latin-1, -2, -9, -15 and the Windows code pages 1250, 1252 and 1254."""
_NOT_LATIN = rb"[\x80-\xff]{3}|[\x80-\x9f]"


def _is_surely_latin(data: bytes) -> bool:
    """Some Latin alphabet: single letters among ASCII ones, nothing that only Cyrillic or East Asian text has."""
    return not re.search(_NOT_LATIN, data)


def _looks_like_utf8(data: bytes) -> bool:
    """More characters of several bytes than broken ones."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    several = len(text) - len(text.encode("ascii", "ignore")) - broken
    return several >= broken


def kind_of_bytes(head: bytes) -> str:
    """What binary data is, by its first bytes: a media type for images a model can see, else words."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp":
        return "MP4 or HEIF media"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "binary data")


def size_said(size: int) -> str:
    """A size in bytes for people: exact, with a rounded unit where that helps."""
    if size < 10_000:
        return counted(size, "byte")
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    raise AssertionError(size)
