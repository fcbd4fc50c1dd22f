"""The text of a file such that it can be written back: same encoding, same bytes where nothing was changed."""

from __future__ import annotations

from orkas.infra.errors import ToolFailed
from orkas.tools.text import Form, form_of

__all__ = ["encoded", "form_kept", "fresh"]


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
    try:
        return form.encode(after)
    except UnicodeEncodeError as error:
        char = error.object[error.start : error.end][:5]
        raise ToolFailed(
            f"{name} is encoded as {form.encoding}, which has no {char!r}; use other characters or convert it first"
        ) from None


def fresh(data: bytes) -> str:
    """The content as it is now where it is short, so that the model can go on at once."""
    form = form_of(data)
    text = form.decode(data) if form and len(data) <= 8_000 else None
    return " Read it again, then edit" if text is None else f" It is now:\n{text}".encode("utf-8", "replace").decode()
