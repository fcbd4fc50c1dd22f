"""HTML as a tree: what a browser without scripts would make of it, near enough to read it.

One pass, linear in the length whatever the page holds; the standard library's parser is not, and takes minutes for
pages that were made for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from html import unescape as _unescape

__all__ = ["Element", "Node", "parse", "unescape"]

_MOST = 250_000
"""Elements of a page; what follows is not read. Ten times what the longest pages of manuals have."""
_ATTRIBUTES = 64
"""Of one element."""
_DEEPEST = 150
"""Levels of nesting that are kept apart; deeper elements lie beside one another there."""
_NAME = re.compile(r"[A-Za-z][^\s/>]*")
_QUOTES = ("\"", "'")
_ATTRIBUTE = re.compile(r"[\s/]*+([^\s/>][^\s/>=]*+)(?:\s*+=\s*+([^\s>\"'][^\s>]*+)?)?")
_GAP = re.compile(r"[\s/]*+")
VOID = frozenset([
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
])  # fmt: skip
_RAW = frozenset(["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "template"])
"""Their content is text up to their own end tag."""
_SHUT = {
    "li": ({"li"}, {"ul", "ol", "menu"}), "dt": ({"dt", "dd"}, {"dl"}), "dd": ({"dt", "dd"}, {"dl"}),
    "tr": ({"tr", "td", "th"}, {"table"}), "td": ({"td", "th"}, {"tr", "table"}), "th": ({"td", "th"}, {"tr", "table"}),
    "tbody": ({"tbody", "thead", "tfoot", "tr", "td", "th"}, {"table"}),
    "thead": ({"tbody", "thead", "tfoot", "tr", "td", "th"}, {"table"}),
    "tfoot": ({"tbody", "thead", "tfoot", "tr", "td", "th"}, {"table"}),
    "option": ({"option"}, {"select"}), "a": ({"a"}, {"td", "th", "table"}),
}  # fmt: skip
"""Tag → what its start ends when that is open, and how far out is looked."""
_ENDS_P = frozenset([
    "address", "article", "aside", "blockquote", "details", "div", "dl", "fieldset", "figure", "footer", "form",
    "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
])  # fmt: skip


class Element:
    """``children``: texts and elements, in order. Attribute names are lower case."""

    __slots__ = ("attributes", "children", "tag")

    def __init__(self, tag: str, attributes: dict[str, str] | None = None) -> None:
        self.tag = tag
        self.attributes = attributes or {}
        self.children: list[Node] = []

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in order."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting.extend(c for c in reversed(element.children) if not isinstance(c, str))

    def text(self) -> str:
        """All the words below, without scripts and styles."""
        pieces: list[str] = []
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if isinstance(node, str):
                pieces.append(node)
            elif node.tag not in ("script", "style", "template"):
                waiting.extend(reversed(node.children))
        return "".join(pieces)


Node = str | Element


_LONG_REFERENCE = re.compile(r"&#(?:0*+([0-9]*+)|[xX]0*+([0-9a-fA-F]*+));?")
_DIGITS = 7
"""Of the last character that there is."""


def unescape(text: str) -> str:
    """The text with its character references read; one that names no character is U+FFFD, however long it is."""
    return _unescape(_LONG_REFERENCE.sub(_bounded, text)) if "&" in text else text


def _bounded(found: re.Match[str]) -> str:
    if len(found[0]) <= _DIGITS + 2:
        return found[0]
    hexadecimal = found[2] is not None
    digits = (found[2] if hexadecimal else found[1]) or "0"
    return "\ufffd" if len(digits) > _DIGITS else f"&#{'x' * hexadecimal}{digits};"


_EVERY = 1_000
"""Elements between two looks at whether somebody wants it to end."""


def parse(text: str, check: Callable[[], None] = lambda: None) -> Element:
    """The tree of a page, below an element without a name. Never fails: whatever is no markup is text.

    That element has the attribute ``cut`` when the page has more elements than are read. ``check`` is called now and
    then and may raise to end it.
    """
    builder = _Builder(check)
    at, end = 0, len(text)
    while at < end and builder.elements < _MOST:
        opened = text.find("<", at)
        if opened < 0:
            builder.words(text[at:])
            break
        if opened > at:
            builder.words(text[at:opened])
        at = _markup(text, opened, builder)
    if builder.elements >= _MOST:
        builder.root.attributes["cut"] = ""
    return builder.root


def _markup(text: str, at: int, builder: _Builder) -> int:
    """Read what begins with ``<`` at this place; returns where it ends."""
    following = text[at + 1 : at + 2]
    if following == "!" or following == "?":
        return _comment(text, at)
    closing = following == "/"
    name = _NAME.match(text, at + 1 + closing)
    if name is None:
        if closing:
            return _behind(text, ">", at + 2)
        builder.words("<")
        return at + 1
    tag = name[0].lower()
    if closing:
        builder.close(tag)
        return _behind(text, ">", name.end())
    attributes, at, alone = _attributes(text, name.end())
    if at > len(text):
        return at  # the page ends within a tag: it is none
    builder.open(tag, attributes, alone=alone)
    if tag in _RAW:
        return _raw(text, at, tag, builder)
    return at


def _comment(text: str, at: int) -> int:
    if not text.startswith("<!--", at):
        if text.startswith("<![CDATA[", at):
            return _behind(text, "]]>", at)
        return _behind(text, ">", at)
    if text.startswith((">", "->"), at + 4):
        return _behind(text, ">", at)
    return _behind(text, "-->", at + 4)


def _behind(text: str, mark: str, at: int) -> int:
    """Where the next mark ends; behind the end of the text when there is none."""
    found = text.find(mark, at)
    return found + len(mark) if found >= 0 else len(text) + 1


def _attributes(text: str, at: int) -> tuple[dict[str, str], int, bool]:
    """The attributes of a tag, where it ends, and whether it closes itself."""
    given: dict[str, str] = {}
    while found := _ATTRIBUTE.match(text, at):
        value, at = found[2] or "", found.end()
        if text[at : at + 1] in _QUOTES and found[0].rstrip().endswith("="):
            end = text.find(text[at], at + 1)
            if end < 0:
                return given, len(text) + 1, False
            value, at = text[at + 1 : end], end + 1
        if len(given) < _ATTRIBUTES:
            given.setdefault(found[1].lower(), unescape(value))
    if gap := _GAP.match(text, at):
        at = gap.end()
    return given, (at + 1 if text[at : at + 1] == ">" else len(text) + 1), text[at - 1] == "/"


def _raw(text: str, at: int, tag: str, builder: _Builder) -> int:
    """The content of an element that holds no elements."""
    end = at
    while True:
        end = text.find("</", end)
        if end < 0:
            end = len(text)
            break
        name = text[end + 2 : end + 3 + len(tag)].lower()
        if name.startswith(tag) and not name[len(tag) :].isalnum():
            break
        end += 2
    if tag in ("title", "textarea"):
        builder.words(text[at:end])
    elif tag == "style":
        builder.raw(text[at:end])
    builder.close(tag)
    return _behind(text, ">", end)


_INLINE = frozenset([
    "a", "abbr", "b", "big", "cite", "code", "em", "font", "i", "kbd", "label", "mark", "q", "s", "samp", "small",
    "span", "strong", "sub", "sup", "u", "var",
])  # fmt: skip
_TABLE = frozenset([
    "table", "tbody", "td", "tfoot", "th", "thead", "tr",
])  # fmt: skip


class _Builder:
    def __init__(self, check: Callable[[], None]) -> None:
        self.root = Element("")
        self._check = check
        self.elements = 0
        self._open = [self.root]
        self._counts: dict[str, int] = {}

    def words(self, text: str) -> None:
        self._open[-1].children.append(unescape(text))

    def raw(self, text: str) -> None:
        self._open[-1].children.append(text)

    def open(self, tag: str, attributes: dict[str, str], *, alone: bool) -> None:
        if tag in _ENDS_P:
            self._shut({"p"}, _ENDS_P - {"p"})
        if tag in _SHUT:
            self._shut(*_SHUT[tag])
        element = Element(tag, attributes)
        self.elements += 1
        if not self.elements % _EVERY:
            self._check()
        self._open[-1].children.append(element)
        if tag in VOID or (alone and tag in ("svg", "path", "use", "g", "circle", "rect")):
            return
        if len(self._open) < _DEEPEST or tag in _RAW:
            self._open.append(element)
            self._counts[tag] = self._counts.get(tag, 0) + 1

    def close(self, tag: str) -> None:
        """End the nearest such element, and all in it. A stray end tag ends neither a cell around it nor, where it is
        one of words, a block."""
        if not self._counts.get(tag):
            return
        for n in range(len(self._open) - 1, 0, -1):
            inner = self._open[n].tag
            if inner == tag:
                self._cut(n)
                return
            if (inner in _TABLE and tag not in _TABLE) or (tag in _INLINE and inner in _ENDS_P):
                return

    def _shut(self, which: Set[str], within: Set[str]) -> None:
        """End the outermost open element of these that lies inside of everything in ``within``."""
        if not any(self._counts.get(tag) for tag in which):
            return
        place = 0
        for n in range(len(self._open) - 1, 0, -1):
            tag = self._open[n].tag
            if tag in which:
                place = n
            elif tag in within:
                break
        if place:
            self._cut(place)

    def _cut(self, place: int) -> None:
        for ended in self._open[place:]:
            self._counts[ended.tag] -= 1
        del self._open[place:]
