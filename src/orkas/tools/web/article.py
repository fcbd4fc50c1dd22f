"""Which part of a page is what it is about. Pure functions over its tree; nothing is loaded or run."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from orkas.tools.web.html import Element, Node, parse
from orkas.tools.web.markdown import Facts, Reader, hidden
from orkas.tools.web.styles import Sheet

__all__ = ["Article", "read_page"]

_FURNITURE = frozenset(["nav", "footer", "aside", "header", "dialog"])
_ROLES = frozenset(["navigation", "banner", "contentinfo", "search", "dialog", "alertdialog", "complementary", "menu"])
_CONSENT = re.compile(r"cookie|consent|gdpr|onetrust|didomi|usercentrics", re.IGNORECASE)
_BLOCKS = frozenset([
    "p", "li", "td", "th", "pre", "blockquote", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "figcaption",
])  # fmt: skip
_LINKS_WEIGH = 0.3
"""Words of a link, beside others: lists of links are rarely what a page is about."""
_MOSTLY = 0.75
"""A part that holds so much of the words is the page; what stands around it is furniture."""

_LITTLE = 40
"""Characters of text with which a page has hardly said anything."""


class Article(msgspec.Struct):
    title: str
    text: str
    """Markdown."""
    cut: bool = False
    """The page has more elements than are read."""
    refresh: str = ""
    """Where the page sends its reader by itself."""


def read_page(html: str, url: str, check: Callable[[], None] = lambda: None) -> Article:
    """The main text of a page as Markdown, its links made absolute. ``check`` is called now and then and may raise to
    end it."""
    page = parse(html, check)
    title, base, refresh = "", url, ""
    sheet = Sheet()
    for element in page.walk():
        if element.tag == "title" and not title:
            title = " ".join(element.text().split())[:300]
        elif element.tag == "base" and element.get("href"):
            base = element.get("href") if "://" in element.get("href") else url
        elif element.tag == "meta" and element.get("http-equiv").lower() == "refresh":
            refresh = re.sub(r"(?i)^.{0,30}?url\s*=\s*", "", element.get("content")[:2_000]).strip(" '\"")
        elif element.tag == "body":
            break
    for element in page.walk():
        if element.tag == "style" and element.children:
            sheet.read("".join(c for c in element.children if isinstance(c, str)))
    _bare(page, sheet, check)
    facts = Facts.of(page)
    removed: list[tuple[Element, list[Node]]] = []
    _tidy(page, facts, removed)
    weights: dict[int, float] = {}
    _weigh(page, weights)
    reader = Reader(base, facts, check)
    text = reader.blocks(_main(page, weights))
    if len(text) < _LITTLE:  # nothing stood out: everything that can be seen, rather than little
        for element, children in removed:
            element.children = children
        text = max(text, reader.blocks(page), key=len)
    return Article(title, text, "cut" in page.attributes, refresh)


def _bare(page: Element, sheet: Sheet, check: Callable[[], None]) -> None:
    """Take out what no reader sees: it is no part of the page, whichever of its parts is read."""
    waiting = [page]
    seen = 0
    while waiting:
        element = waiting.pop()
        seen += 1
        if not seen % 1_000:
            check()
        element.children = [c for c in element.children if isinstance(c, str) or not hidden(c, sheet)]
        waiting.extend(c for c in element.children if not isinstance(c, str))


def _tidy(element: Element, facts: Facts, removed: list[tuple[Element, list[Node]]], inside: bool = False) -> None:
    """Take out what surrounds the text of every page of a site. ``removed``: how it was."""
    inside = inside or element.tag in ("main", "article") or element.get("role") == "main"
    kept = [c for c in element.children if isinstance(c, str) or not _is_furniture(c, facts, inside)]
    if len(kept) < len(element.children):
        removed.append((element, element.children))
        element.children = kept
    for child in kept:
        if not isinstance(child, str):
            _tidy(child, facts, removed, inside)


def _is_furniture(element: Element, facts: Facts, inside: bool) -> bool:
    """``inside``: of the text itself, where a header is its head."""
    if element.tag == "nav" or element.get("role") in _ROLES:
        return True
    if element.tag in _FURNITURE and not (inside and element.tag in ("header", "aside")):
        return element.tag != "header" or id(element) not in facts.heads
    marks = f"{element.get('id')} {element.get('class')}"
    return bool(_CONSENT.search(marks)) and element.tag not in ("html", "body", "main", "article")


def _weigh(element: Element, weights: dict[int, float], *, counts: bool = False, link: bool = False) -> float:
    """What the words of each element weigh, kept by the element's identity. Words outside of blocks count a little."""
    counts = counts or element.tag in _BLOCKS
    link = link or element.tag == "a"
    worth = (1.0 if counts else 0.2) * (_LINKS_WEIGH if link else 1.0)
    total = 0.0
    for child in element.children:
        if isinstance(child, str):
            total += len(child.strip()) * worth
        else:
            total += _weigh(child, weights, counts=counts, link=link)
    weights[id(element)] = total
    return total


def _main(page: Element, weights: dict[int, float]) -> Element:
    """The part that the page itself calls its text, if there is something in it; else the smallest that holds most of
    the words."""
    whole = weights[id(page)]
    for named in (_named(page, "main"), _named(page, "article")):
        if len(named) == 1 and weights[id(named[0])] >= 0.3 * whole:
            articles = _named(named[0], "article") if named[0].tag != "article" else []
            heavy = [a for a in articles if weights[id(a)] >= _MOSTLY * weights[id(named[0])]]
            return heavy[0] if len(heavy) == 1 else named[0]
    chosen = page
    while True:
        enough = _MOSTLY * weights[id(chosen)]
        inner = [c for c in chosen.children if not isinstance(c, str) and weights[id(c)] >= enough]
        if not inner or inner[0].tag in _BLOCKS or inner[0].tag in ("table", "ul", "ol", "dl", "tbody", "tr"):
            return chosen
        chosen = inner[0]


def _named(within: Element, name: str) -> list[Element]:
    """The outermost elements of that name or role below."""
    found: list[Element] = []
    waiting = [c for c in reversed(within.children) if not isinstance(c, str)]
    while waiting:
        element = waiting.pop()
        if element.tag == name or element.get("role") == name:
            found.append(element)
        else:
            waiting.extend(c for c in reversed(element.children) if not isinstance(c, str))
    return found
