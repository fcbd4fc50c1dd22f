"""Bytes of a page as text: by its mark, its header, its own word, then by a guess that is told."""

from __future__ import annotations

import codecs
import re

import msgspec

from orkas.tools.text import form_of

__all__ = ["Decoded", "charset_of_header", "decode", "wide_form"]

_SEEN = 16_384
"""Bytes in which a page may say how it is encoded; the standard says 1,024, and many need more."""
_META = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)
_XML = re.compile(rb"\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
_MEANT = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
    "big5": "big5hkscs", "utf-16": "utf-16-le", "utf-8-sig": "utf-8",
}  # fmt: skip
"""What a label means in the web's own practice (WHATWG Encoding)."""
_ALIASES = {
    "x-sjis": "shift_jis", "windows-31j": "cp932", "ks_c_5601-1987": "euc_kr", "x-gbk": "gbk", "unicode": "utf-8",
    "x-euc-jp": "euc_jp", "x-mac-cyrillic": "mac_cyrillic", "x-cp1251": "cp1251", "win-1251": "cp1251",
    "windows-874": "cp874", "dos-874": "cp874", "x-big5": "big5", "iso-8859-8-i": "iso8859-8",
}  # fmt: skip
_TEXT = re.compile(
    r"utf-8|utf-16-[bl]e|cp125\d|cp866|cp874|cp932|cp949|gb18030|big5hkscs|euc_jp|iso2022_jp|hz|iso8859-\d+|koi8-[ru]|mac[-_]\w+"
)
"""Encodings that a page may have: no program is run, and nothing is unpacked, by the name of one."""


class Decoded(msgspec.Struct):
    text: str
    note: str = ""
    """What a reader should know of how it was decoded; empty when there is nothing to doubt."""


def charset_of_header(content_type: str) -> str:
    found = re.search(r"charset\s*=\s*[\"']?([\w:.-]{2,40})", content_type, re.IGNORECASE)
    return found[1] if found else ""


def decode(body: bytes, header: str, *, markup: bool, whole: bool = True) -> Decoded:
    """The text of a body. ``header``: the charset that the server named; ``markup``: the body may name one itself;
    ``whole`` False: its end may be missing."""
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return Decoded(body[len(mark) :].decode(encoding, "replace"))
    if (wide := wide_form(body[:_SEEN], header)) and not (header and _codec(header) not in ("", wide)):
        said = "" if _codec(header) == wide else f"without a word on its encoding: read as {wide}, a guess"
        return Decoded(body.decode(wide, "replace"), said)
    named = _named(body, header, markup=markup)
    surely = _foreign(body) >= 4 and _is_utf8(body, whole=whole)  # no other text is that by accident
    for encoding in dict.fromkeys(["utf-8"] if surely else [*named, "utf-8"]):
        if (text := _clean(body, encoding, whole=whole)) is not None:
            wrong = named and encoding != named[0]
            if wrong:
                return Decoded(text, f"said to be {named[0]} and read as {encoding}")
            return Decoded(text, _undecoded(body, header, _own(body) if markup else ""))
    return _guessed(body, named)


def _named(body: bytes, header: str, *, markup: bool) -> list[str]:
    """What server and page say, who is believed first. A page that is markup and UTF-16 could not have said so."""
    told, own = _codec(header), _codec(_own(body)) if markup else ""
    own = "utf-8" if own.startswith("utf-16") else own
    told = "" if told.startswith("utf-16") and b"\0" not in body and b" " in body else told  # it has none of its zeros
    both = [own, told] if told == "cp1252" else [told, own]  # that is what servers say without looking
    return [name for name in both if name]


def _undecoded(body: bytes, *labels: str) -> str:
    """What is to be said where a page is in an encoding by which text is hidden from whoever checks it."""
    utf7 = any(label.lower().replace("_", "-") in ("utf-7", "utf7", "unicode-1-1-utf-7") for label in labels)
    return "said to be utf-7, which is not decoded: words may be missing" if utf7 and b"+" in body else ""


def wide_form(body: bytes, header: str = "") -> str:
    """UTF-16 without a mark, by its bytes: its letters of ASCII have zeros beside them, and all on one side; empty: it
    is none. ``header``: the charset that was named, if one was."""
    zeros = (body[0::2].count(0), body[1::2].count(0))
    told = _codec(header)
    if told.startswith("utf-16") and any(zeros):
        return told
    if sum(zeros) * 16 < len(body) or min(zeros) * 20 > max(zeros):
        return ""
    encoding = "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    text = body[: len(body) // 2 * 2].decode(encoding, "replace")
    odd = sum(1 for c in text if not (c.isprintable() or c in "\t\r\n\f") or c == "\ufffd")
    return encoding if len(text) >= 4 and odd * 50 <= len(text) else ""


def _is_utf8(body: bytes, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(body, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _own(body: bytes) -> str:
    head = body[:_SEEN]
    found = _XML.search(head) or _META.search(head)
    return found[1].decode("ascii") if found else ""


def _codec(label: str) -> str:
    """Python's codec for a label of the web; empty for none that a text has."""
    name = label.strip().lower()
    try:
        known = codecs.lookup(_ALIASES.get(name, name)).name if name else ""
    except LookupError:
        return ""
    known = _MEANT.get(known, known)
    return known if _TEXT.fullmatch(known) else ""


def _clean(body: bytes, encoding: str, *, whole: bool) -> str | None:
    """The text when the body really is so encoded. One byte in a thousand may be wrong: pages are put together."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    text = decoder.decode(body, final=whole)
    wrong = text.count("\ufffd") - body.count("\ufffd".encode())
    if wrong > max(1, len(body) // 1_000) or (encoding == "utf-8" and wrong > _foreign(body) // 20):
        return None
    return None if encoding.startswith("cp125") and not _is_letters(text) else text


def _foreign(body: bytes) -> int:
    return len(body) - len(body.translate(None, _HIGH))


_HIGH = bytes(range(0x80, 0x100))
_CYRILLIC = re.compile("[а-яА-ЯёЁ]")
_CONTROLS = re.compile("[\x80-\x9f]")


def _is_letters(text: str) -> bool:
    """Not the debris that UTF-8 makes of itself in a code page of one byte."""
    return len(re.findall("[ÃÂÐÑ][\x80-\xbf€-™]|â€", text)) * 20 <= len(re.findall("[^\x00-\x7f]", text))


def _guessed(body: bytes, named: list[str]) -> Decoded:
    said = f"said to be {named[0]}, which it is not" if named else "without a word on its encoding"
    sample = body[:200_000]
    if _is_chinese(sample):
        return Decoded(body.decode("gb18030", "replace"), f"{said}: read as gb18030, a guess")
    for encoding in ("cp1251", "koi8-r"):
        if _is_cyrillic(sample, encoding):
            return Decoded(body.decode(encoding, "replace"), f"{said}: read as {encoding}, a guess")
    for encoding in ("cp932", "euc_jp"):
        if _is_japanese(sample, encoding):
            return Decoded(body.decode(encoding, "replace"), f"{said}: read as {encoding}, a guess")
    form = form_of(sample, whole=len(sample) == len(body))
    encoding = form.encoding if form is not None else "utf-8"
    encoding = "cp1252" if encoding == "latin-1" else encoding
    return Decoded(body.decode(encoding, "replace"), f"{said}: read as {encoding}, a guess; characters may be wrong")


def _is_cyrillic(body: bytes, encoding: str) -> bool:
    """Letters, and small ones as words are written: one of the two encodings read as the other turns cases round."""
    letters = _CYRILLIC.findall(body.decode(encoding, "replace"))
    return len(letters) >= max(1, 0.85 * _foreign(body)) and sum(1 for c in letters if c.islower()) * 2 > len(letters)


_COMMON = frozenset(
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多天而能好都然没日"
    "于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长网页内容新闻信息站点登录首关编码简体"
)
"""Signs that stand in every page of Chinese, and by chance in few readings of something else."""


def _is_chinese(body: bytes) -> bool:
    """Signs of Chinese alone, without a broken one, and the most common ones among them."""
    decoder = codecs.getincrementaldecoder("gb18030")("replace")
    foreign = re.findall("[^\x00-\x7f]", decoder.decode(body))
    signs = sum(1 for c in foreign if "\u4e00" <= c <= "\u9fa5" or c in "，。、；：？！“”‘’（）《》【】…—·　")
    common = sum(1 for c in foreign if c in _COMMON)
    return len(foreign) >= 4 and signs * 50 >= len(foreign) * 49 and common * 8 >= len(foreign)


def _is_japanese(body: bytes, encoding: str) -> bool:
    text = body.decode(encoding, "replace")
    foreign = re.findall("[^\x00-\x7f]", text)
    kana = sum(1 for c in foreign if "\u3041" <= c <= "\u30ff")
    return bool(foreign) and kana * 4 >= len(foreign) and text.count("\ufffd") * 50 <= len(foreign)
