"""The values of secrets that this process has met, taken out of whatever is shown, sent or written.

Looked for as they are, and in the disguises in which programs print them (``disguises``). Beside these only keys whose
form leaves no doubt are taken out, and private keys, so this is fit for text that must stay as it is: results of tools,
conversations.
``redact`` also knows what merely looks like a secret, for logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from orkas.infra.disguises import Finder, Span, finder, merged
from orkas.infra.patterns import lazy
from orkas.infra.shapes import BEGINNINGS, LONGEST, SHAPE

__all__ = [
    "MASK", "TELLING", "Hider", "Passing", "apart", "hide", "known", "met", "sources", "strip_userinfo", "telling",
    "without",
]  # fmt: skip

MASK = "***"
_MASK = MASK.encode()
_REMEMBERED = 1024
"""Values of this process that are looked for: the newest ones."""
TELLING = 8
"""Characters from which on a value is too rare to stand in a text by chance."""
_LINE = 40
"""Characters from which on a line of a value is a secret by itself."""
_PLACEHOLDERS = frozenset({
    "lm-studio", "not-needed", "no-key-required", "sk-no-key-required", "not-required", "placeholder", "anything",
    "your-api-key", "your_api_key", "dummy-key", "dummy_key", "changeme",
})  # fmt: skip
"""What people give as a key to servers that want none: words that stand in honest texts."""


class _Met:
    """What one process, or one part of it, has met."""

    def __init__(self) -> None:
        self.values: dict[str, None] = {}
        self.version = 0
        """Of the values; what is derived from them holds for one: no thread goes on with what came too early."""
        self.ready: tuple[int, Finder] = (0, finder(()))
        self.sources: dict[str, object] = {}


_met = _Met()


def met(value: str) -> None:
    """From here on this value is taken out, and each long line of one that has several."""
    values = _met.values
    if value in values:
        return
    for one in (value, *(line for line in _lines(value) if line not in values)):
        values[one] = None
    while len(values) > _REMEMBERED:
        with suppress(KeyError, RuntimeError, StopIteration):  # another thread was there first
            del values[next(iter(values))]
    _met.version += 1


def _lines(value: str) -> Iterable[str]:
    """Those of a private key or the like that tell it by themselves."""
    if "\n" in value or "\\n" in value:
        for line in value.replace("\\r", "").replace("\\n", "\n").splitlines():
            if len(line := line.strip()) >= _LINE and " " not in line:
                yield line


def known() -> tuple[str, ...]:
    """The values of the secrets this process has met. For the redactor alone."""
    return tuple(_met.values)


def sources() -> dict[str, object]:
    """What was looked through for secrets already, and as what it was found: kept with the values, so that it is read
    again where they are not known. For who looks for them."""
    return _met.sources


@contextmanager
def apart() -> Iterator[None]:
    """Within, nothing is known but what is met there; afterwards what was known before, and nothing of that. For a
    program that works for several people in turn, and for tests. Holds for the whole process."""
    global _met
    before, _met = _met, _Met()
    try:
        yield
    finally:
        _met = before


def telling(values: Iterable[str]) -> tuple[str, ...]:
    """Those that are rare enough to be looked for."""
    return tuple([v for v in values if len(v) >= TELLING and v not in _PLACEHOLDERS])


def _finder() -> Finder:
    now = _met
    version, ready = now.ready
    if version != now.version:
        version = now.version
        ready = finder(telling(tuple(now.values)))
        now.ready = version, ready
    return ready


def hide(text: str) -> str:
    """``text`` without the values of the secrets this process has met, in all their disguises, without what a cut left
    of a long one, and without keys of a form that leaves no doubt. Idempotent."""
    text = without(text, _finder())
    for beginning in BEGINNINGS:
        if beginning in text:
            return _PRIVATE_KEY.sub(MASK, _SHAPE.sub(MASK, text))
    return text


def without(text: str, values: Finder) -> str:
    """``text`` with stars in the place of these values."""
    data = text.encode("utf-8", "surrogatepass")
    spans = values.spans(data)
    return _masked(data, spans, 0, len(data)).decode("utf-8", "surrogatepass") if spans else text


def _masked(data: bytes, spans: list[Span], start: int, stop: int) -> bytes:
    """That part of ``data``, with stars for what of the spans is in it."""
    parts = []
    for begin, end in spans:
        if end > start and begin < stop:
            parts += [data[start:begin], _MASK]
            start = end
    return b"".join([*parts, data[start:stop]])


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
    """``hide`` for bytes that come in pieces: a value that lies across two of them is found, too."""

    def __init__(self) -> None:
        self._passed = b""  # the end of what was passed on, as it came
        self._held = b""

    @property
    def pending(self) -> bytes:
        """What is held back, because it could be the beginning of one."""
        return self._shown(ended=False)

    def feed(self, data: bytes) -> bytes:
        """What can be passed on now."""
        return self._pass(data, _far)

    def flow(self, data: bytes) -> bytes:
        """As ``feed``, for who waits for each piece: all but what may be the beginning of a value or key."""
        return self._pass(data, lambda whole: max(_far(whole), _beginning(whole)))

    def close(self) -> bytes:
        """The rest. Idempotent."""
        rest = self._shown(ended=True)
        self._passed = self._held = b""
        return rest

    def sure(self) -> bytes:
        """What of ``pending`` can be shown before more is there: all but the beginning of a value or key."""
        whole = self._passed + self._held
        spans = _spans(whole, ended=False)
        start = len(self._passed)
        return _masked(whole, spans, start, _between(spans, max(start, _beginning(whole)), start))

    def _pass(self, data: bytes, safe: Callable[[bytes], int]) -> bytes:
        whole = self._passed + self._held + data
        start = len(self._passed)
        spans = _spans(whole, ended=False)
        cut = min(safe(whole), len(whole))
        if (begun := whole.rfind(_PEM_BEGINS, -_LONGEST_PEM)) >= 0 and not any(a <= begun < b for a, b in spans):
            cut = min(cut, begun)
        cut = _between(spans, max(start, cut), start)
        self._held = whole[cut:]
        self._passed = whole[max(0, min(_finder().back(whole, cut), cut - LONGEST)) : cut]
        return _masked(whole, spans, start, cut)

    def _shown(self, *, ended: bool) -> bytes:
        whole = self._passed + self._held
        return _masked(whole, _spans(whole, ended=ended), len(self._passed), len(whole))


class Passing(Hider):
    """For what was freed of secrets before."""

    def feed(self, data: bytes) -> bytes:
        return data


def _between(spans: list[Span], cut: int, least: int) -> int:
    """``cut``, or the beginning of what it would cut in two."""
    return max(least, next((begin for begin, end in spans if begin < cut < end), cut))


def _far(data: bytes) -> int:
    """Up to where nothing of ``data`` can belong to what comes after it."""
    return min(_finder().back(data, len(data)) + 1, len(data) - LONGEST)


def _beginning(data: bytes) -> int:
    """From where on ``data`` may be the beginning of a value or key; its length: nowhere."""
    end = _finder().begins(data)
    if (begun := data.rfind(_PEM_BEGINS, 0, end)) >= 0 and b"-----END" not in data[begun:]:
        end = begun
    return min(end, found.start()) if (found := _LAST_KEY.search(data)) else end


_LAST_KEY = lazy(rb"(?<![A-Za-z0-9_-])(?:sk|gh|gl|AK|AS|AI|xo|hf|np|py|rk|SG)[A-Za-z0-9_.-]*\Z")


def _spans(data: bytes, *, ended: bool) -> list[Span]:
    """Values and keys of a certain form; a key that ends with the data may go on, unless that has ended."""
    found = _finder().spans(data)
    if not any(beginning in data for beginning in _BEGINNINGS):
        return found
    found += [one.span() for one in _PRIVATE_KEY_OF_BYTES.finditer(data)]
    found += [one.span() for one in _SHAPE_OF_BYTES.finditer(data) if ended or one.end() < len(data)]
    return merged(found) if found else found


def strip_userinfo(address: str) -> str:
    """A URL without the name and the password before its host."""
    scheme, mark, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if mark else address.rpartition("@")[2]
