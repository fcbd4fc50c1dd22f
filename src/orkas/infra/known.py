"""The values of secrets that this process has met, taken out of whatever is shown, sent or written.

Looked for exactly, and in the disguises in which programs print them: base64 (also inside of a longer text that was
encoded), percent-encoding, hexadecimal, escaped for JSON and HTML. Beside these only keys whose form leaves no doubt
are taken out, and private keys, so this is fit for text that must stay as it is: results of tools, conversations.
``redact`` also knows what merely looks like a secret, for logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from orkas.infra.patterns import lazy
from orkas.infra.shapes import BEGINNINGS, LONGEST, SHAPE

__all__ = ["MASK", "TELLING", "Hider", "Passing", "forms", "hide", "known", "met", "strip_userinfo"]

MASK = "***"
_MASK = MASK.encode()
_REMEMBERED = 1024
"""Values of this process that are looked for: the newest ones."""
TELLING = 8
"""Characters from which on a value is too rare to stand in a text by chance."""
_HALVED = 24
"""Characters from which on half a value tells too much: a clipped line may end in the middle of one."""
_PLACEHOLDERS = frozenset({
    "lm-studio", "not-needed", "no-key-required", "sk-no-key-required", "not-required", "placeholder", "anything",
    "your-api-key", "your_api_key", "dummy-key", "dummy_key", "changeme",
})  # fmt: skip
"""What people give as a key to servers that want none: words that stand in honest texts."""
_values: dict[str, None] = {}
_version = 0
"""Of the values; what is derived from them holds for one, so that no thread goes on with what came too early."""
_shown: tuple[int, tuple[str, ...]] = (0, ())
_needles: tuple[int, tuple[tuple[bytes, ...], int]] = (0, ((), 0))


def met(value: str) -> None:
    """From here on this value is taken out."""
    global _version
    if value in _values:
        return
    _values[value] = None
    if len(_values) > _REMEMBERED:
        with suppress(KeyError, RuntimeError, StopIteration):  # another thread was there first
            del _values[next(iter(_values))]
    _version += 1


def known() -> tuple[str, ...]:
    """The values of the secrets this process has met. For the redactor alone."""
    return tuple(_values)


@lru_cache(maxsize=8)
def forms(values: tuple[str, ...]) -> tuple[str, ...]:
    """These values as they are, and in their disguises; longest first."""
    found: set[str] = set()
    for value in values:
        found |= set(_forms(value))
    return tuple(sorted(found, key=len, reverse=True))


@lru_cache(maxsize=8)
def _halves(values: tuple[str, ...]) -> tuple[str, ...]:
    """Halves of the long ones: what a clipped text may hold of them."""
    return tuple(half for v in values if len(v) >= _HALVED for half in (v[: len(v) // 2], v[len(v) // 2 :]))


def _forms(value: str) -> Iterable[str]:
    import base64
    import json
    from html import escape
    from urllib.parse import quote, quote_plus

    raw = _raw(value)
    yield value
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], escape(value))
    for text in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield text
        yield _lower_escapes(text)
    yield raw.hex()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode()
        for before in range(3):  # bytes of a group of three that stand before it
            inside = encode(bytes(before) + raw).decode()
            yield inside[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]


def _raw(value: str) -> bytes:
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # not from an environment
        return value.encode("utf-8", "surrogatepass")


def _lower_escapes(text: str) -> str:
    """``%2F`` as ``%2f``."""
    head, *rest = text.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _telling() -> tuple[str, ...]:
    return tuple([v for v in known() if len(v) >= TELLING and v not in _PLACEHOLDERS])


def _looked_for() -> tuple[str, ...]:
    global _shown
    version, ready = _shown
    if version != _version:
        version = _version
        ready = (*forms(_telling()), *_halves(_telling()))
        _shown = version, ready
    return ready


def hide(text: str) -> str:
    """``text`` without the values of the secrets this process has met, in all their forms, without what a cut left of a
    long one, and without keys of a form that leaves no doubt. Idempotent."""
    for form in _looked_for():
        if form in text:
            text = text.replace(form, MASK)
    for beginning in BEGINNINGS:
        if beginning in text:
            return _PRIVATE_KEY.sub(MASK, _SHAPE.sub(MASK, text))
    return text


_SHAPE = lazy(SHAPE)
_SHAPE_OF_BYTES = lazy(SHAPE.encode())
_PEM = (
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[\sA-Za-z0-9+/=:,\\]|-(?!-)){80,20000}"
    r"-----END [A-Z ]{0,30}PRIVATE KEY-----"
)
_PRIVATE_KEY = lazy(_PEM)
_PRIVATE_KEY_OF_BYTES = lazy(_PEM.encode())
_PEM_BEGINS = b"-----BEGIN "
_LONGEST_PEM = 8_192
"""Bytes in which the end of a private key is waited for."""
_BEGINNINGS = tuple(one.encode() for one in BEGINNINGS)


class Hider:
    """``hide`` for bytes that come in pieces: a value that lies across two of them is found, too.

    ``pending``: what is held back, because it could be the beginning of one.
    """

    def __init__(self) -> None:
        self.pending = b""

    def feed(self, data: bytes) -> bytes:
        """What can be passed on now."""
        needles, longest = _bytes_looked_for()
        data = _shapeless(_hidden(self.pending + data, needles))
        cut = max(0, len(data) - max(longest - 1, LONGEST))
        if (begun := data.rfind(_PEM_BEGINS, -_LONGEST_PEM)) >= 0:
            cut = min(cut, begun)
        self.pending = data[cut:]
        return data[:cut]

    def flow(self, data: bytes) -> bytes:
        """As ``feed``, for who waits for each piece: all but what may be the beginning of a value or key."""
        passed = self.feed(data)
        sure = self.sure()
        self.pending = self.pending[len(sure) :]
        return passed + sure

    def close(self) -> bytes:
        """The rest. Idempotent."""
        rest, self.pending = _shapeless(self.pending, whole=True), b""
        return rest

    def sure(self) -> bytes:
        """What of ``pending`` can be shown before more is there: all but the beginning of a value or key."""
        data = self.pending
        for needle in _bytes_looked_for()[0]:
            at = data.find(needle[:1], max(0, len(data) - len(needle) + 1))
            while at >= 0:
                if needle.startswith(data[at:]):
                    data = data[:at]
                    break
                at = data.find(needle[:1], at + 1)
        if (begun := data.rfind(_PEM_BEGINS)) >= 0:
            data = data[:begun]
        return _LAST_KEY.sub(b"", data)


class Passing(Hider):
    """For what was freed of secrets before."""

    def feed(self, data: bytes) -> bytes:
        return data


_LAST_KEY = lazy(rb"(?<![A-Za-z0-9_-])(?:sk|gh|gl|AK|AS|AI|xo|hf|np|py|rk|SG)[A-Za-z0-9_.-]*\Z")


def _shapeless(data: bytes, *, whole: bool = False) -> bytes:
    """Without keys of a certain form; one that ends with the data may go on, unless that is ``whole``."""
    if not any(beginning in data for beginning in _BEGINNINGS):
        return data
    data = _PRIVATE_KEY_OF_BYTES.sub(_MASK, data)
    end = len(data)
    return _SHAPE_OF_BYTES.sub(lambda found: found[0] if found.end() == end and not whole else _MASK, data)


def _hidden(data: bytes, needles: tuple[bytes, ...]) -> bytes:
    for needle in needles:
        if needle in data:
            data = data.replace(needle, _MASK)
    return data


def _bytes_looked_for() -> tuple[tuple[bytes, ...], int]:
    """The forms as bytes, and the length of the longest; 0: there is none."""
    global _needles
    version, ready = _needles
    if version != _version:
        version = _version
        found = tuple(dict.fromkeys(_raw(form) for form in forms(_telling())))
        ready = found, max(map(len, found), default=0)
        _needles = version, ready
    return ready


def strip_userinfo(address: str) -> str:
    """A URL without the name and the password before its host."""
    scheme, mark, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if mark else address.rpartition("@")[2]
