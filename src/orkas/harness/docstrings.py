"""What a docstring says of a function and of each parameter, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import inspect
import re

__all__ = ["split"]

_PARAMETERS = frozenset({
    "args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments",
})  # fmt: skip
_RESULTS = frozenset({"returns", "return", "yields"})
_OTHERS = frozenset({
    "raises", "raise", "except", "exceptions", "warns", "example", "examples", "note", "notes", "see also",
    "references", "attributes", "warning", "warnings",
})  # fmt: skip
_SECTIONS = _PARAMETERS | _RESULTS | _OTHERS
_FIELD = re.compile(r":(\w+)\s*([^:]*):\s?(.*)")
_PARAMETER_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_ENTRY = re.compile(
    r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?:\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\])?\s*(?::|--?(?=\s))(?:\s+(.*)|$)"
)
"""``name (type): text`` of Google; ``name : type`` of NumPy matches as well, its text is the type."""


def split(doc: str) -> tuple[str, dict[str, str]]:
    """The description for the model, and a note for each parameter that has one.

    The description is what stands before the first section, and what is said of the result.
    """
    parts = _sections(inspect.cleandoc(doc).splitlines())
    head, notes = _fields(parts.pop("", []))
    results: list[str] = []
    for name, lines in parts.items():
        title, numpy = name.rstrip("-"), name.endswith("-")
        if title in _PARAMETERS:
            notes |= _numpy(lines) if numpy else _google(lines)
        elif title in _RESULTS and (text := _joined(lines)):
            results.append(f"Returns: {text}")
    return "\n\n".join(filter(None, ["\n".join(head).strip(), *results])), {k: v for k, v in notes.items() if v}


def _sections(lines: list[str]) -> dict[str, list[str]]:
    """Lines by the title they stand under; a title with a line below it, as NumPy writes it, ends in ``-``."""
    parts: dict[str, list[str]] = {"": []}
    current = parts[""]
    skip = False
    for at, line in enumerate(lines):
        if skip:
            skip = False
            continue
        title = line.strip().removesuffix(":").lower()
        under = lines[at + 1].strip() if at + 1 < len(lines) else ""
        skip = len(under) > 2 and not under.strip("-") and bool(line) and not line[0].isspace()
        if title in _SECTIONS and not line[0].isspace() and (skip or line.rstrip().endswith(":")):
            current = parts.setdefault(title + "-" * skip, [])
        else:
            skip = False
            current.append(line)
    return parts


def _google(lines: list[str]) -> dict[str, str]:
    """Entries at the smallest indent, each with the lines below it."""
    return _entries(lines, inline=True)


def _numpy(lines: list[str]) -> dict[str, str]:
    return _entries(lines, inline=False)


def _entries(lines: list[str], *, inline: bool) -> dict[str, str]:
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines:
        at_entry = bool(line.strip()) and len(line) - len(line.lstrip()) == indent
        if not at_entry:
            for name in names:
                found[name].append(line)
            continue
        match = _ENTRY.fullmatch(line.strip())
        given = match[1] if match else ("" if inline else line.strip())
        names = [n.strip().lstrip("*") for n in given.split(",") if n.strip().lstrip("*").isidentifier()]
        for name in names:
            found[name] = [match[2] or ""] if match and inline else []
    return {name: _joined(text) for name, text in found.items()}


def _fields(lines: list[str]) -> tuple[list[str], dict[str, str]]:
    """Sphinx: ``:param type name: text``. What stands before the first field, the notes, and what is returned."""
    head: list[str] = []
    notes: dict[str, list[str]] = {}
    current = head
    for line in lines:
        match = _FIELD.fullmatch(line.strip()) if line.startswith(":") else None
        if match is None:
            current.append(line)
        elif match[1] in _PARAMETER_FIELDS and match[2].strip():
            current = notes.setdefault(match[2].split()[-1].lstrip("*"), [])
            current.append(match[3])
        elif match[1] in ("return", "returns"):
            head = ["\n".join(head).rstrip(), "", f"Returns: {match[3]}"]
            current = head
        else:
            current = []
    return head, {name: _joined(text) for name, text in notes.items()}


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
