"""The text of a file such that it can be written back: same encoding, same bytes where nothing was changed."""

from __future__ import annotations

from orkas.infra.errors import ToolFailed
from orkas.tools.text import Form, form_of

__all__ = ["check_characters", "encoded", "form_kept", "fresh", "shows_whole"]

_SHOWN_BYTES = 8_000
"""So much of a file is shown at once where it was not what the model believed."""


def check_characters(text: str, what: str, old: str = "") -> None:
    """Nothing in it that was lost on the way: a half of a character that takes two units, as broken JSON escapes leave
    it, or U+FFFD, which stands for one by now. A file that holds U+FFFD (``old``) may keep it.

    Raises:
        ToolFailed: there is.
    """
    at = next((i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff"), -1) if not _sound(text) else -1
    if at < 0 and "\ufffd" not in old:
        at = text.find("\ufffd")
    if at >= 0:
        raise ToolFailed(
            f"{what} holds half a character or one that was lost (U+{ord(text[at]):04X}) in its line"
            f" {text.count(chr(10), 0, at) + 1}; nothing was changed. Send it whole, or write it as an escape"
        )


def _sound(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def form_kept(data: bytes, name: str) -> Form:
    """The form of the file, proven to give back the same bytes.

    Raises:
        ToolFailed: it is no text, or not one whose bytes can be kept.
    """
    form = form_of(data)
    try:
        if form is not None and form.encode(form.decode(data)) == data:
            return form
    except UnicodeError:
        pass
    raise ToolFailed(f"{name} is no text whose bytes can be kept exactly; change it with a shell command instead")


def encoded(form: Form, old: str, added: str, after: str, name: str) -> bytes:
    """The bytes of ``after``, which came of ``old`` by ``added``.

    Raises:
        ToolFailed: the encoding has no such character, or it is only guessed and this one could come out as another.
    """
    foreign = {c for c in added if c > "\x7f"}
    unsure = sorted(c for c in foreign if not form.sure_of(c) and c not in old)
    if unsure:
        raise ToolFailed(
            f"{name} is not UTF-8 and its encoding is only guessed ({form.encoding}), so {unsure[0]!r} could come out"
            " as another character; use plain ASCII, or convert the file to UTF-8 first (iconv in the shell)"
        )
    strange = sorted(c for c in foreign if form.encoding == "gb18030" and not _in_gbk(c))
    if strange and all(map(_in_gbk, set(old))):  # it may well be read by what knows GBK alone
        raise ToolFailed(
            f"{name} is encoded as GBK, which has no {strange[0]!r}; use other characters or convert it first"
        )
    try:
        return form.encode(after)
    except UnicodeEncodeError as error:
        char = error.object[error.start : error.end][:5]
        raise ToolFailed(
            f"{name} is encoded as {form.encoding}, which has no {char!r}; use other characters or convert it first"
        ) from None


def _in_gbk(char: str) -> bool:
    try:
        char.encode("gbk")
    except UnicodeEncodeError:
        return False
    return True


def shows_whole(data: bytes) -> bool:
    """``fresh`` shows all of it."""
    return len(data) <= _SHOWN_BYTES and form_of(data) is not None


def fresh(data: bytes, otherwise: str = "Read it again, then edit", head: str = "It is now") -> str:
    """The content as it is now where it is short, so that the model can go on at once."""
    form = form_of(data) if len(data) <= _SHOWN_BYTES else None
    if form is None:
        return f" {otherwise}"
    return f" {head}:\n{form.shown(data)}".encode("utf-8", "replace").decode()
