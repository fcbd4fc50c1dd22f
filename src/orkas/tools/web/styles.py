"""What a page hides by its styles, as far as its own words tell: attributes, and simple rules of its ``<style>``.

Nothing is laid out and no style sheet is loaded. What only a whole browser could tell, such as words in the colour of
what lies behind their parent, or under a picture, is not found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from orkas.tools.web.html import Element

__all__ = ["Sheet", "declared", "unseen"]

Style = Mapping[str, str]

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_LONGEST = 4_000
"""Characters of a ``style`` attribute that are read."""
_RULES = 2_000
"""Of all style sheets of a page; what follows is not read."""
_ALIKE = 16
"""Rules that are kept for one class, id or tag."""
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))(px|pt|em|rem|ex|ch|vh|vw|vmin|vmax|cm|mm|in|%)?")
_AS_PX = {"": 1.0, "px": 1.0, "pt": 1.33, "%": 0.16, "vh": 8.0, "vw": 12.0, "vmin": 8.0, "vmax": 12.0,
          "cm": 38.0, "mm": 3.8, "in": 96.0, "ex": 8.0, "ch": 8.0}  # fmt: skip
"""Pixels of a unit, about; all others are some 16."""
_LEGIBLE_PX = 2.0
"""Letters below this are points."""
_OFF_PX = -999.0
"""So far to the left, or above, nobody scrolls."""
_FAR_OFF_PX = -4_999.0
"""What is moved less, from where it would stand, may be a row of pictures that slides."""
_OF_HIDING = frozenset([
    "display", "visibility", "content-visibility", "opacity", "font", "font-size", "color", "background",
    "background-color", "background-image", "position", "left", "top", "right", "bottom", "text-indent", "margin-left",
    "height", "width", "max-height", "min-height", "min-width", "overflow", "overflow-x", "overflow-y", "clip",
    "clip-path", "transform", "filter", "padding", "padding-top", "padding-bottom",
])  # fmt: skip
_COLOURS = {
    "white": "ffffff", "black": "000000", "red": "ff0000", "blue": "0000ff", "green": "008000", "yellow": "ffff00",
    "gray": "808080", "grey": "808080", "silver": "c0c0c0", "transparent": "",
}  # fmt: skip


def declared(text: str) -> dict[str, str]:
    """The declarations that can hide something, in small letters; of several for one property the last."""
    found: dict[str, str] = {}
    text = text[:_LONGEST]
    if "/*" in text:
        text = _COMMENT.sub(" ", text)
    for one in text.lower().split(";"):
        name, colon, value = one.partition(":")
        name = name.strip()
        if colon and name in _OF_HIDING:
            found[name] = " ".join(value.replace("!important", "").split())
    return found


def unseen(style: Style) -> bool:
    """Whether a reader sees nothing of what is so styled."""
    if not style:
        return False
    get = style.get
    return (
        get("display") == "none"
        or get("visibility") in ("hidden", "collapse")
        or get("content-visibility") == "hidden"
        or _share(get("opacity", "")) < 0.05
        or _share(_inside(get("filter", ""), "opacity")) < 0.05
        or _pixels(get("font-size", "")) < _LEGIBLE_PX
        or _pixels(get("font", "").partition("/")[0].rpartition(" ")[2]) < _LEGIBLE_PX
        or _colourless(style)
        or _away(style)
        or _shut(style)
    )


def _pixels(value: str, unknown: float = 1e9) -> float:
    found = _NUMBER.fullmatch(value)
    return float(found[1]) * _AS_PX.get(found[2] or "", 16.0) if found else unknown


def _share(value: str) -> float:
    found = _NUMBER.fullmatch(value)
    if found is None or found[2] not in (None, "%"):
        return 1.0
    return float(found[1]) / (100.0 if found[2] else 1.0)


def _inside(value: str, function: str) -> str:
    """What stands in the brackets of a function, if the value begins with it."""
    return value[len(function) + 1 :].rstrip(" )") if value.startswith(f"{function}(") else ""


def _colourless(style: Style) -> bool:
    colour = _colour(style.get("color", ""))
    if colour is None:
        return False
    behind = _colour(style.get("background-color", "") or style.get("background", ""))
    pictured = style.get("background-image", "none") != "none"
    return colour == "" or (colour == behind and not pictured)


def _colour(value: str) -> str | None:
    """A colour as six digits, empty: one that is not seen; None: not known."""
    if value in _COLOURS:
        return _COLOURS[value]
    if found := re.fullmatch(r"#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})", value):
        digits = found[1] if len(found[1]) > 4 else "".join(2 * c for c in found[1])
        return "" if digits[6:] == "00" else digits[:6]
    found = re.fullmatch(r"rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})(?:[\s,/]+([\d.]+)(%?))?\s*\)", value)
    if found is None:
        return None
    if found[4] and found[4].strip("0.") == "":
        return ""
    return "".join(f"{min(int(found[n]), 255):02x}" for n in (1, 2, 3))


def _away(style: Style) -> bool:
    """Moved to where nobody looks."""
    if _pixels(style.get("text-indent", "")) <= _OFF_PX or _pixels(style.get("margin-left", "")) <= _OFF_PX:
        return True
    far = {"absolute": _OFF_PX, "fixed": _OFF_PX, "relative": _FAR_OFF_PX}.get(style.get("position", ""))
    if far and any(_pixels(style.get(side, "")) <= far for side in ("left", "top", "right", "bottom")):
        return True
    moved = style.get("transform", "")
    if any(_pixels(_first(_inside(moved, name))) <= _FAR_OFF_PX for name in ("translate", "translatex", "translatey")):
        return True
    return any(_pixels(_first(_inside(moved, name))) == 0 for name in ("scale", "scalex", "scaley", "scale3d"))


def _first(value: str) -> str:
    return value.partition(",")[0].strip()


def _shut(style: Style) -> bool:
    """Cut off, or in a box without room."""
    if inside := _inside(style.get("clip", ""), "rect"):
        parts = inside.replace(",", " ").split()
        if all(abs(_pixels(part)) <= 1 for part in parts):
            return True
    path = style.get("clip-path", "")
    inset = [_pixels(part) for part in _inside(path, "inset").split()[:1]]
    if inset and inset[0] >= 50 * _AS_PX["%"] and "%" in path:
        return True
    if _inside(path, "circle").partition(" ")[0] in ("0", "0px", "0%"):
        return True
    hides = any(style.get(name, "").startswith(("hidden", "clip")) for name in ("overflow", "overflow-x", "overflow-y"))
    padded = any(_pixels(style.get(name, "0"), 1.0) > 0 for name in ("padding", "padding-top", "padding-bottom"))
    flat = any(_is_nothing(style.get(name, "")) for name in ("height", "max-height")) and "min-height" not in style
    narrow = _is_nothing(style.get("width", "")) and "min-width" not in style
    return hides and (flat or narrow) and not padded


def _is_nothing(size: str) -> bool:
    """A pixel at most. A share of a box that is not known may be much, except none."""
    return _pixels(size) <= 1 and (not size.endswith("%") or _pixels(size) == 0)


# Style sheets


class _Rule(msgspec.Struct, frozen=True):
    tag: str
    id: str
    classes: frozenset[str]
    style: dict[str, str]
    weight: tuple[int, int, int, int]
    """Of its selector, then its place: which of two rules holds."""
    simple: bool
    """The whole selector is known; else it holds for some of these elements and not for others."""

    def meets(self, tag: str, id: str, classes: frozenset[str]) -> bool:
        return (not self.tag or self.tag == tag) and (not self.id or self.id == id) and self.classes <= classes


_COMPOUND = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+)*)", re.IGNORECASE)


_MOVING = ("opacity", "transform", "filter")
"""What style sheets hide in this way is mostly text that a script or an animation brings in."""
_LONGEST_SELECTOR = 200


class Sheet:
    """The simple rules of a page's own styles: by tag, class and id.

    What stands within ``@media`` and the like is left out, and what hides by opacity or transformation. Where a rule
    that is not simple might show an element again, it is not taken for hidden."""

    def __init__(self) -> None:
        self._rules: dict[str, list[_Rule]] = {}
        self._count = 0

    def read(self, text: str) -> None:
        """Take in the content of one ``<style>``."""
        for selectors, body in _top_level(_COMMENT.sub(" ", text)):
            if self._count >= _RULES:
                return
            style = {name: value for name, value in declared(body).items() if name not in _MOVING}
            if not style:
                continue
            for selector in selectors.split(",")[:50]:
                if len(selector) <= _LONGEST_SELECTOR:
                    self._add(selector.strip(), style)

    def _add(self, selector: str, style: dict[str, str]) -> None:
        last = re.split(r"[\s>+~]+", selector)[-1]
        bare = re.sub(r":{1,2}[\w-]+(?:\([^()]*\))?|\[[^\]]*\]", "", last)
        found = _COMPOUND.fullmatch(bare)
        if found is None or not bare or bare == "*":
            return
        names = re.findall(r"[.#][\w-]+", found[2])
        classes = frozenset(name[1:] for name in names if name[0] == ".")
        id = next((name[1:] for name in names if name[0] == "#"), "")
        tag = (found[1] or "").lower().replace("*", "")
        self._count += 1
        weight = (1 if id else 0, len(classes), 1 if tag else 0, self._count)
        simple = bare == selector
        if not simple and unseen(style):
            return  # hides some of them only
        key = f"#{id}" if id else f".{min(classes)}" if classes else tag
        alike = self._rules.setdefault(key, [])
        if len(alike) < _ALIKE:
            alike.append(_Rule(tag, id, classes, style, weight, simple))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, element: Element) -> dict[str, str]:
        """What the rules say of this element; nothing where a rule that is not simple might say otherwise."""
        id = element.get("id")
        classes = frozenset(element.get("class").split())
        keys = [element.tag, f"#{id}", *(f".{name}" for name in classes)]
        met = [
            rule for key in keys if key in self._rules
            for rule in self._rules[key] if rule.meets(element.tag, id, classes)
        ]  # fmt: skip
        style: dict[str, str] = {}
        for rule in sorted((rule for rule in met if rule.simple), key=lambda rule: rule.weight):
            style.update(rule.style)
        for rule in met:
            if not rule.simple:
                for name in rule.style:
                    style.pop(name, None)
        return style


def _top_level(text: str) -> Iterator[tuple[str, str]]:
    """Selectors and declarations of the rules that stand in no other."""
    at = 0
    while (opened := text.find("{", at)) >= 0:
        selectors = text[at:opened].rpartition(";")[2].strip()
        if selectors.startswith("@"):
            at = _behind_block(text, opened)
            continue
        closed = text.find("}", opened)
        if closed < 0:
            return
        yield selectors.rpartition("}")[2].strip()[-2_000:], text[opened + 1 : closed]
        at = closed + 1


def _behind_block(text: str, opened: int) -> int:
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, opened):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.end()
    return len(text)
