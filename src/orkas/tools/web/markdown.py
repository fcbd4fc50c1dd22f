"""A tree of HTML as Markdown for a reader that pays by the word: headings, lists, tables, code and links stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import urljoin

import msgspec

from orkas.tools.web.html import Element, Node
from orkas.tools.web.styles import Sheet, declared, unseen

__all__ = ["Facts", "Reader", "hidden"]

_UNSEEN = frozenset([
    "script", "style", "template", "noscript", "head", "svg", "canvas", "iframe", "object", "embed", "audio",
    "video", "select", "option", "button", "input", "textarea", "map", "datalist", "rp", "title",
])  # fmt: skip
_INLINE = frozenset([
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "img", "ins", "kbd", "label", "mark", "math", "q", "rb", "rt", "ruby", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "picture", "source", "area", "nobr",
])  # fmt: skip
_SPACES = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_CLASSES = re.compile(r"(?:^|\s)(?:sr-only|visually-hidden|screen-reader-text|headerlink|anchor-link)(?:\s|$)")
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language|lang|highlight-source|brush:|highlight)[-\s]?([A-Za-z0-9+#_-]{1,20})(?=\s|$)"
)
_LONGEST_LINK = 2_000
_LONGEST_CELL = 2_000
_SPANNED = 20
_DEEPEST_MARKS = 8
"""Levels of lists and quotations that are shown by indents; deeper ones stay at the last."""


def hidden(element: Element, sheet: Sheet | None = None) -> bool:
    """Whether a reader of the page does not see it, as far as its own attributes and the page's ``sheet`` tell. Text
    that only machines read is no part of a page."""
    given = element.attributes
    if element.tag in _UNSEEN:
        return True
    if element.tag in ("html", "body"):
        return False
    if not given:
        return unseen(sheet.of(element)) if sheet else False
    if "hidden" in given or given.get("aria-hidden", "").lower() == "true" or _CLASSES.search(given.get("class", "")):
        return True
    own = declared(given["style"]) if "style" in given else {}
    if sheet:
        own = {**sheet.of(element), **own}
    return unseen(own)


class Facts(msgspec.Struct):
    """What is below each element of a tree, found in one pass from the leaves up; sets hold identities."""

    holders: set[int] = msgspec.field(default_factory=set)
    """Elements of words with blocks inside, as a link around a whole card."""
    heads: set[int] = msgspec.field(default_factory=set)
    """They are, or hold, the heading of a page."""
    layouts: set[int] = msgspec.field(default_factory=set)
    """They are, or hold, what no cell of a table of data has."""
    tables: set[int] = msgspec.field(default_factory=set)
    """They are, or hold, a table."""
    lengths: dict[int, int] = msgspec.field(default_factory=dict)
    """Characters of text."""

    @classmethod
    def of(cls, page: Element) -> Facts:
        facts = cls()
        facts._look(page)
        return facts

    def _look(self, element: Element) -> bool:
        """Says whether it is a block, or holds one."""
        me, tag = id(element), element.tag
        holds = False
        length = 0
        for child in element.children:
            if isinstance(child, str):
                length += len(child)
                continue
            holds = self._look(child) or holds
            length += self.lengths[id(child)]
            for marked in (self.heads, self.layouts, self.tables):
                if id(child) in marked:
                    marked.add(me)
        self.lengths[me] = length
        if tag == "h1":
            self.heads.add(me)
        if tag in _NO_DATA:
            self.layouts.add(me)
            if tag == "table":
                self.tables.add(me)
        if holds:
            self.holders.add(me)
        return holds or not (tag in _INLINE or tag in _UNSEEN)


_NO_DATA = frozenset(["table", "h1", "h2", "h3", "pre", "blockquote", "form"])
_STYLES = {
    "a": "a", "code": "code", "kbd": "code", "samp": "code", "tt": "code", "strong": "strong", "b": "strong",
    "em": "em", "i": "em", "cite": "em", "del": "del", "s": "del", "strike": "del", "sup": "sup", "rt": "rt", "q": "q",
    "math": "math",
}  # fmt: skip
"""Tags that mark words; those that mark alike mark once, however deep they are nested."""
_EVERY = 1_000
"""Elements between two looks at whether somebody wants it to end."""


class Reader:
    """``base``: the address that links are relative to; ``facts``: of a tree without what is hidden, whose parts are
    read. ``check`` is called now and then and may raise to end it."""

    def __init__(self, base: str, facts: Facts, check: Callable[[], None] = lambda: None) -> None:
        self._base = base
        self._facts = facts
        self._check = check
        self._read = 0
        self._depth = 0

    def _count(self) -> None:
        self._read += 1
        if not self._read % _EVERY:
            self._check()

    def blocks(self, element: Element) -> str:
        """Everything in the element, blocks with an empty line between."""
        return "\n\n".join(self._blocks(element.children))

    def _blocks(self, nodes: Sequence[Node]) -> list[str]:
        made: list[str] = []
        run: list[Node] = []
        for node in nodes:
            if isinstance(node, str) or (node.tag in _INLINE and id(node) not in self._facts.holders):
                run.append(node)
                continue
            self._end(run, made)
            self._count()
            made += [block for block in self._block(node) if block and not block.isspace()]
        self._end(run, made)
        return made

    def _end(self, run: list[Node], made: list[str]) -> None:
        if text := self.inline(run):
            made.append(text)
        run.clear()

    def _block(self, element: Element) -> list[str]:
        tag = element.tag
        if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            text = self.inline(element.children).replace("\n", " ")
            return [f"{'#' * int(tag[1])} {text}"] if text else []
        if tag in ("ul", "ol", "menu"):
            return [self._list(element)]
        if tag == "pre":
            return [_fenced(element)]
        if tag == "blockquote":
            return [self._marked("\n\n".join(self._deeper(element)), "> ", "> ")]
        if tag == "table":
            return self._table(element)
        if tag == "hr":
            return ["---"]
        if tag == "dl":
            return [self._definitions(element)]
        if tag == "summary":
            return [f"**{text}**"] if (text := self.inline(element.children)) else []
        return self._blocks(element.children)

    def _list(self, element: Element) -> str:
        items: list[str] = []
        number = int(start) if re.fullmatch(r"\d{1,6}", start := element.get("start")) else 1
        loose: list[Node] = []
        for child in element.children:
            if isinstance(child, str) or child.tag != "li":
                loose.append(child)  # a list in a list, without an item around it
                continue
            items += self._blocks(loose)
            loose = []
            mark = f"{number}. " if element.tag == "ol" else "- "
            if text := "\n".join(self._deeper(child)):
                items.append(self._marked(text, mark, " " * len(mark)))
                number += 1
        return "\n".join([*items, *self._blocks(loose)])

    def _deeper(self, element: Element) -> list[str]:
        self._depth += 1
        try:
            return self._blocks(element.children)
        finally:
            self._depth -= 1

    def _marked(self, text: str, first: str, others: str) -> str:
        """A block with a mark before its first line and one before the others."""
        if self._depth >= _DEEPEST_MARKS:
            return text
        return first + "\n".join(f"{others}{line}".rstrip() for line in text.split("\n"))[len(others) :]

    def _definitions(self, element: Element) -> str:
        lines: list[str] = []
        for child in element.children:
            if isinstance(child, str):
                continue
            if child.tag == "div" and any(not isinstance(c, str) and c.tag in ("dt", "dd") for c in child.children):
                lines.append(self._definitions(child))  # a group of them
                continue
            text = "\n".join(self._deeper(child))
            if child.tag == "dt" and text:
                lines.append(f"**{text}**" if "\n" not in text and "**" not in text else text)
            elif child.tag == "dd" and text:
                lines.append(self._marked(text, ": ", "  "))
            elif text:
                lines.append(text)
        return "\n".join(lines)

    # Tables

    def _table(self, table: Element) -> list[str]:
        rows = _rows(table)
        cells = [c for row in rows for c in row]
        captions = [c for c in table.children if not isinstance(c, str) and c.tag == "caption"]
        before = [f"**{text}**" for caption in captions if (text := self.inline(caption.children))]
        if max(map(len, rows), default=0) < 2 or self._is_layout(cells):
            return before + [block for cell in cells for block in self._blocks(cell.children)]
        texts = [[text for cell in row for text in self._cell(cell)] for row in rows]
        texts = [row for row in texts if any(row)]
        if not texts:
            return before
        width = max(map(len, texts))
        lines = [f"| {' | '.join(row)} |" for row in texts]
        lines.insert(1, "|" + " --- |" * width)
        return [*before, "\n".join(lines)]

    def _is_layout(self, cells: Sequence[Element]) -> bool:
        """A table that only puts things beside one another."""
        facts = self._facts
        if any(cell.tag == "th" for cell in cells) and not any(id(cell) in facts.tables for cell in cells):
            return False
        return any(id(cell) in facts.layouts or facts.lengths[id(cell)] > _LONGEST_CELL for cell in cells)

    def _cell(self, cell: Element) -> list[str]:
        """The text of a cell, and empty ones for the columns that it spans beside its own."""
        text = "<br>".join(self._blocks(cell.children)).replace("|", "\\|").replace("\n", "<br>")
        span = cell.get("colspan")
        more = min(int(span), _SPANNED) - 1 if re.fullmatch(r"[1-9]\d{0,3}", span) else 0
        return [text, *[""] * more]

    # Words

    def inline(self, nodes: Sequence[Node]) -> str:
        """Words in one paragraph; lines end where the page ends them."""
        text = "".join(self._words(nodes))
        lines = [_SPACES.sub(" ", line).strip() for line in text.split("\x00")]
        return "\n".join(lines).strip("\n")

    def _words(self, nodes: Sequence[Node], inside: frozenset[str] = frozenset()) -> list[str]:
        """Pieces, white space as it stands; NUL is the end of a line. ``inside``: marks that hold here already."""
        pieces: list[str] = []
        for node in nodes:
            if isinstance(node, str):
                pieces.append(node.replace("\x00", ""))
                continue
            self._count()
            if node.tag == "br":
                pieces.append("\x00")
            elif node.tag == "img":
                pieces.append(self._image(node))
            elif (style := _STYLES.get(node.tag)) and style not in inside:
                pieces.append(self._styled(node, "".join(self._words(node.children, inside | {style}))))
            else:
                pieces += self._words(node.children, inside)
                if node.tag not in _INLINE:
                    pieces.append(" ")
        return pieces

    def _styled(self, element: Element, text: str) -> str:
        if not text.strip("\x00 \t\r\n\f\v\xa0") and element.tag != "math":
            return text
        plain = _SPACES.sub(" ", text.replace("\x00", " "))
        match element.tag:
            case "a":
                return self._link(element, plain)
            case "code" | "kbd" | "samp" | "tt":
                return _around(plain, "`") if "`" not in plain else plain
            case "strong" | "b":
                return _around(plain, "**") if "\x00" not in text and "*" not in plain else text
            case "em" | "i" | "cite":
                return _around(plain, "*") if "\x00" not in text and "*" not in plain else text
            case "del" | "s" | "strike":
                return _around(plain, "~~")
            case "sup" if plain.strip().isalnum() and len(plain) <= 4:
                return f"^{plain.strip()}"
            case "rt":
                return f"({plain.strip()})" if plain.strip() else ""
            case "q":
                return _around(plain, '"')
            case "math" if element.get("alttext"):
                return f"${element.get('alttext')[:1000]}$"
        return text

    def _link(self, element: Element, text: str) -> str:
        inner = text.strip()
        target = self._absolute(element.get("href")) if inner else ""
        if not target or inner == target:
            return text
        before, after = text[: text.index(inner[0])], " " if text.endswith(" ") else ""
        return f"{before}[{inner}]({target}){after}"

    def _image(self, element: Element) -> str:
        """What a picture shows, and where it lies, in words: nothing that a display of Markdown would fetch."""
        told = _SPACES.sub(" ", element.get("alt")).strip()[:300]
        target = self._absolute(element.get("src"))
        return f"(image: {told.translate(_NO_BRACKETS)}{', ' if target else ''}{target})" if told else ""

    def _absolute(self, target: str) -> str:
        """A link that leads to another page; empty for all others."""
        target = "".join(target.split())
        if not target or target.startswith("#") or len(target) > _LONGEST_LINK:
            return ""
        try:
            whole = urljoin(self._base, target)
        except ValueError:
            return ""
        if not whole.lower().startswith(("http://", "https://", "mailto:")):
            return ""
        return whole.replace("(", "%28").replace(")", "%29") if whole.count("(") != whole.count(")") else whole


_NO_BRACKETS = str.maketrans("[]", "()")


def _around(text: str, mark: str) -> str:
    inner = text.strip()
    if not inner:
        return text
    return f"{' ' * text.startswith(' ')}{mark}{inner}{mark}{' ' * text.endswith(' ')}"


def _fenced(element: Element) -> str:
    code = _code_text(element).strip("\n")
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{_language(element)}\n{code}\n{fence}" if code.strip() else ""


def _code_text(element: Element) -> str:
    pieces: list[str] = []
    _code_pieces(element, pieces)
    return "".join(pieces).replace("\r\n", "\n")


def _code_pieces(element: Element, pieces: list[str]) -> None:
    for child in element.children:
        if isinstance(child, str):
            pieces.append(child)
        elif child.tag == "br":
            pieces.append("\n")
        else:
            _code_pieces(child, pieces)
            if child.tag in ("div", "p", "li", "tr") and not (pieces and pieces[-1].endswith("\n")):
                pieces.append("\n")


def _language(element: Element) -> str:
    for one in (element, *(c for c in element.children if not isinstance(c, str))):
        if found := _LANGUAGE.search(one.get("class")):
            return found[1].lower()
    return ""


def _rows(table: Element) -> list[list[Element]]:
    """The cells of each row, not those of tables inside."""
    rows: list[list[Element]] = []
    for child in table.children:
        if isinstance(child, str):
            continue
        if child.tag == "tr":
            rows.append([c for c in child.children if not isinstance(c, str) and c.tag in ("td", "th")])
        elif child.tag in ("thead", "tbody", "tfoot"):
            rows += _rows(child)
    return [row for row in rows if row]
