"""What the offline demo understands, and what it makes of a tool's result. Plain rules, no cleverness."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from re import Match, Pattern
from typing import Any

from orkas.infra.messages import ToolCall, ToolMessage, text_of

__all__ = ["HELP", "UNKNOWN", "Option", "Want", "conclude", "understand"]

_REAL = (
    "For real answers give Orkas a model: set a key such as ANTHROPIC_API_KEY, start a local server such as Ollama, "
    "or run `orkas models install local` (1.1 GB, no key)."
)
HELP = (
    "I can list the files here, say which is the largest or smallest, read a file or its first or last lines, count "
    "its lines, search for a word, find files by name, create a file with a text, replace a text in a file, and run a "
    f"command. {_REAL}"
)
UNKNOWN = (
    'I have no rule for that. Try "list the files", "which is the largest file?", "read notes.txt", "search for milk", '
    f'"create hello.txt with the text: Hello" or "run `date`". {_REAL}'
)
_SHOWN_LINES = 12
_LONGEST = 20_000
"""Characters of a question that the rules are tried on: their time grows with its square."""


@dataclass(frozen=True, slots=True)
class Option:
    """One tool call that would do; ``preface`` is said before it."""

    tool: str
    arguments: dict[str, Any]
    preface: str


@dataclass(frozen=True, slots=True)
class Want:
    """What was asked: ways to do it, best first, and how to tell the result. Without options: just ``answer``."""

    kind: str
    options: tuple[Option, ...] = ()
    about: str = ""
    """The file, pattern or command it is about."""
    count: int = 0
    """Lines wanted; for ``size``: 1 the largest, -1 the smallest."""
    answer: str = ""
    then_read: bool = False


def understand(question: str) -> Want | None:
    """The first rule that fits; None: no rule does."""
    if len(question) > _LONGEST:
        return None
    asked = _POLITE.sub("", question.strip())
    for pattern, want in _RULES:
        if (found := pattern.fullmatch(asked)) is not None:
            return want(found)
    return None


def conclude(want: Want, rounds: Sequence[tuple[ToolCall, ToolMessage]]) -> str | Want:
    """One or two sentences about the last result, or the next step."""
    call, result = rounds[-1]
    text, notes = _without_notes(text_of(result))
    if call.name == "read_file" and want.kind != "count":  # a file may end in a line that looks like a note
        text = text_of(result).rstrip() if text else text
    if result.is_error:
        said = [line for line in (*text.splitlines(), *notes) if line.strip()]
        return f"That did not work: {said[0] if said else 'the tool gave no reason'}"
    if want.then_read and call.name == "search_files":
        return _read_first_hit(want, text)
    if want.then_read:
        return _show(str((call.arguments or {}).get("path", "")), text)
    return _CONCLUSIONS[want.kind](want, text)


# --- rules -----------------------------------------------------------------------------------------------------------


def _bare(text: str) -> str:
    """Without the quotes around it and the punctuation after it."""
    text = text.strip()
    quoted = re.fullmatch(r"""[`'"“‘](.+)[`'"”’][.?!]?""", text, re.S)
    return quoted[1] if quoted else re.sub(r"(?<=\w)[.?!,;:]+$", "", text)


def _write(m: Match[str]) -> Want:
    path, text = _bare(m["file"]), m["text"].strip()
    quoted = re.fullmatch(r"""[`'"“‘](.*)[`'"”’][.]?""", text, re.S)
    content = (quoted[1] if quoted else text) + "\n"
    return Want("write", (Option("write_file", {"path": path, "content": content}, f"I will write {path}."),), path)


def _replace(m: Match[str]) -> Want:
    path, old, new = _bare(m["file"]), _bare(m["old"]), _bare(m["new"])
    arguments = {"path": path, "old_text": old, "new_text": new}
    return Want("replace", (Option("edit_file", arguments, f"I will edit {path}."),), path)


def _run(m: Match[str]) -> Want:
    command = m["ticked"] or _bare(m["plain"])
    return Want("run", (Option("shell", {"command": command}, f"I will run `{command}`."),), command)


def _count(m: Match[str]) -> Want:
    path = _bare(m["file"])
    preface = f"I will count the lines of {path}."
    return Want("count", (
        Option("shell", {"command": f"wc -l < {shlex.quote(path)}"}, preface),
        Option("read_file", {"path": path}, preface),
    ), path)  # fmt: skip


def _ends(m: Match[str]) -> Want:
    path, count = _bare(m["file"]), int(m["n"] or (1 if m["lines"] == "line" else 10))
    if m["which"].lower() in ("first", "head", "top"):
        option = Option("read_file", {"path": path, "limit": count}, f"I will read the beginning of {path}.")
        return Want("first", (option,), path, count)
    preface = f"I will read the end of {path}."
    return Want("last", (
        Option("shell", {"command": f"tail -n {count} {shlex.quote(path)}"}, preface),
        Option("read_file", {"path": path}, preface),
    ), path, count)  # fmt: skip


def _size(m: Match[str]) -> Want:
    sign = -1 if m["which"].lower() == "smallest" else 1
    return Want("size", (Option("list_files", {"path": "."}, "I will look at the files here."),), ".", sign)


def _literal(text: str) -> str:
    """As a regular expression that finds just this text; a text without special characters stays as it is."""
    return re.sub(r"([][\\^$.|?*+(){}])", r"\\\1", text)


def _named(m: Match[str]) -> Want:
    name = _bare(m["name"])
    pattern = _literal(name)
    if "*" in name or "?" in name:
        wild = pattern.replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        pattern = f"(^|/){wild}$"
    arguments = {"pattern": pattern, "names_only": True}
    return Want("named", (Option("search_files", arguments, f"I will look for files named {name}."),), name)


def _search(m: Match[str]) -> Want:
    word = _bare(m["word"])
    option = Option("search_files", {"pattern": _literal(word)}, f"I will search the files here for {word}.")
    return Want("search", (option,), word, then_read=bool(m.groupdict().get("read")))


def _read(m: Match[str]) -> Want:
    path = _bare(m["file"])
    return Want("read", (Option("read_file", {"path": path}, f"I will read {path}."),), path)


def _list(m: Match[str]) -> Want:
    path = _bare(m.groupdict().get("folder") or ".")
    return Want("list", (Option("list_files", {"path": path}, "I will look."),), path)


def _remember(m: Match[str]) -> Want:
    what = m["what"].strip()
    return Want("say", answer=(
        "I cannot remember anything between conversations. I can write it into a file: ask me to "
        f'"create notes.md with the text: {what}".'
    ))  # fmt: skip


def _rule(pattern: str, want: Callable[[Match[str]], Want]) -> tuple[Pattern[str], Callable[[Match[str]], Want]]:
    return re.compile(pattern, re.I | re.S | re.X), want


_POLITE = re.compile(
    r"^(?:(?:please|hi|hello|hey|ok|now|can you|could you|would you)\b[,!.]?\s*)+(?=\S)|,?\s*\bplease[.!]?$", re.I
)
_FILE = r"""(?:(?:the\ )?(?:file\ )?)(?P<file>`[^`]+`|'[^']+'|"[^"]+"|[^\s,:;]+?)"""
_NEW_FILE = r"""(?:(?:a\ |the\ )?(?:new\ )?(?:text\ )?(?:file\ )?(?:called\ |named\ )?)""" + _FILE
_HERE = r"""(?:\ (?:in|of)\ (?:this|the|my)(?:\ current)?\ (?:folder|directory))?(?:\ here)?"""
_END = r"""[.?!]*"""
_TEXT = r"""(?:the\ )?(?:text|content|contents|words?|line|sentence)?"""

_WORD = r"(?:the\ (?:word|text)\ )?(?P<word>.+?)"
_BY = r"(?:with|by|to|into)"
_FILES = r"(?:the\ |my\ )?files"

_RULES = [
    _rule(
        rf"(?:create|make|write|save)\ {_NEW_FILE},?\ (?:with|containing|that\ says|saying)"
        rf"\ ?{_TEXT}\s*[:,]?\s*(?P<text>.+)",
        _write,
    ),
    _rule(rf"(?:write|save|put)\ {_TEXT}\s*:?\s*(?P<text>.+?)\ (?:into|in|to|as)\ {_NEW_FILE}{_END}", _write),
    _rule(rf"(?:replace|change)\ (?P<old>.+?)\ {_BY}\ (?P<new>.+?)\ in\ {_FILE}{_END}", _replace),
    _rule(rf"in\ {_FILE},?\ (?:replace|change)\ (?P<old>.+?)\ {_BY}\ (?P<new>.+?){_END}", _replace),
    _rule(
        r"(?:run|execute)\ (?:the\ |this\ )?(?:shell\ )?(?:command\ ?)?:?\s*"
        r"(?:`(?P<ticked>[^`]+)`.*|(?P<plain>.+))",
        _run,
    ),
    _rule(
        rf"(?:count\ (?:the\ )?lines\ (?:of|in)|how\ many\ lines\ (?:does|are\ in|are\ there\ in|has))"
        rf"\ {_FILE}(?:\ have)?{_END}",
        _count,
    ),
    _rule(
        rf"(?:(?:show|read|print|give|tell)\ )?(?:me\ )?(?:what\ (?:is|are)\ )?(?:the\ )?"
        rf"(?P<which>first|last|head|tail|top|end)(?:\ (?P<n>\d{{1,4}}))?(?:\ (?P<lines>lines?))?"
        rf"\ (?:of|in)\ {_FILE}{_END}",
        _ends,
    ),
    _rule(r"(?=.*\b(?:files?|one|space)\b).*\b(?P<which>largest|biggest|smallest)\b.*", _size),
    _rule(
        rf"(?:find|search\ for|look\ for|list)\ (?:all\ |the\ |a\ |any\ )*files?"
        rf"\ (?:named|called|matching|like|ending\ (?:in|with))\ (?P<name>.+?){_HERE}{_END}",
        _named,
    ),
    _rule(rf"find\ (?:all\ )?(?P<name>\*\.\w+)(?:\ files)?{_HERE}{_END}", _named),
    _rule(
        rf"(?:find|search\ for|look\ for)\ (?:the\ |a\ )?file"
        rf"\ (?:that\ (?:contains|mentions|says|has)|containing|with)\ {_WORD}"
        rf"(?:,?\ (?:and|then)\ (?:then\ )?(?P<read>read|show|open|print)\b.*)?{_END}",
        _search,
    ),
    _rule(
        rf"(?:in\ )?(?:which|what)\ (?:\w+\ )?files?\ (?:here\ )?(?:contains?|mentions?|has|have|says?|does)"
        rf"\ {_WORD}(?:\ appear|\ occur)?{_END}",
        _search,
    ),
    _rule(rf"(?:search|grep)\ (?:(?:my|the|all)\ (?:the\ )?files\ )?(?:for\ )?{_WORD}{_HERE}{_END}", _search),
    _rule(rf"where\ is\ (?P<word>.+?)\ (?:defined|mentioned|used){_END}", _search),
    _rule(rf"(?:list|show|what\ are)\ (?:me\ )?(?:all\ )?{_FILES}{_HERE}{_END}", _list),
    _rule(
        rf"(?:list|show|what\ are)\ (?:me\ )?(?:all\ )?{_FILES}\ (?:in|of)\ (?:the\ folder\ )?(?P<folder>\S+?){_END}",
        _list,
    ),
    _rule(
        rf"what(?:'s|\ is|\ files\ are|\ do\ we\ have|\ files\ do\ I\ have|\ files\ are\ there)"
        rf"(?:\ (?:here|there))?{_HERE}{_END}|ls(?:\ (?P<folder>\S+))?|dir",
        _list,
    ),
    _rule(rf"(?:read|show|open|print|display|cat)\ (?:me\ )?(?:what\ is\ in\ )?{_FILE}{_END}", _read),
    _rule(rf"what(?:'s|\ is)\ in\ {_FILE}{_END}", _read),
    _rule(rf"what\ does\ {_FILE}\ (?:say|contain){_END}", _read),
    _rule(r"(?:find|look\ for)\ (?P<word>.+)", _search),
    _rule(r"remember\ (?:that\ |this:?\ )?(?P<what>.+)", _remember),
    _rule(
        r"(?:help|hi|hello|hey|who\ are\ you|what\ (?:can|do)\ you\ do|what\ are\ you)\b.*",
        lambda _: Want("say", answer=HELP),
    ),
]


def _reading(path: str) -> tuple[Option, ...]:
    return (Option("read_file", {"path": path}, f"I will read {path}."),)


# --- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listing:
    files: list[tuple[str, int]] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def _without_notes(text: str) -> tuple[str, list[str]]:
    """The result itself, and the notes in square brackets that tools put below it."""
    lines = text.rstrip().splitlines()
    notes: list[str] = []
    while lines and re.fullmatch(r"\[.+\]", lines[-1]):
        notes.insert(0, lines.pop()[1:-1])
    body = "\n".join(lines)
    return ("" if body in ("(no output)", "(empty file)") else body), notes


def _listing(text: str) -> _Listing:
    """Entries of ``list_files``: size and name, or name and size; folders end with a slash."""
    found = _Listing()
    for line in text.splitlines():
        if folder := re.fullmatch(r"\s*(?:dir\s\s)?(.+/)", line):
            found.folders.append(folder[1])
        elif sized := re.fullmatch(r"\s*(\d+)\s\s(.+)", line):
            found.files.append((sized[2], int(sized[1])))
        elif sized := re.fullmatch(r"(.+?)\s+(\d+) bytes", line):
            found.files.append((sized[1], int(sized[2])))
    return found


def _hits(text: str) -> list[tuple[str, str, str]]:
    found = (re.fullmatch(r"(.+?):(\d+):\s?(.*)", line) for line in text.splitlines())
    return [(m[1], m[2], m[3]) for m in found if m]


def _and(names: Sequence[str], most: int = 8) -> str:
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else [*names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _things(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _show(name: str, text: str) -> str:
    lines = text.splitlines()
    if not lines:
        return f"{name} is empty."
    rest = len(lines) - _SHOWN_LINES
    shown = "\n".join(lines[:_SHOWN_LINES])
    more = f"\n\nThat is its beginning; {_things(rest, 'more line')} follow." if rest > 0 else ""
    return f"{name} says:\n\n{shown}{more}"


def _tell_list(want: Want, text: str) -> str:
    found = _listing(text)
    if not (found.files or found.folders):
        return "There is nothing here." if want.about == "." else f"There is nothing in {want.about}."
    parts = []
    if found.files:
        verb = "is" if len(found.files) == 1 else "are"
        parts.append(f"There {verb} {_things(len(found.files), 'file')}: {_and([name for name, _ in found.files])}.")
    if found.folders:
        parts.append(f"{'Folders' if len(found.folders) > 1 else 'One folder'}: {_and(found.folders)}.")
    return " ".join(parts)


def _tell_size(want: Want, text: str) -> str:
    files = _listing(text).files
    if not files:
        return "There are no files here."
    name, size = (max if want.count > 0 else min)(files, key=lambda f: f[1])
    return f"The {'largest' if want.count > 0 else 'smallest'} file here is {name} with {size:,} bytes."


def _tell_search(want: Want, text: str) -> str:
    hits = _hits(text)
    if not hits:
        return f"I found {want.about} in no file here."
    files = list(dict.fromkeys(name for name, _, _ in hits))
    if len(hits) == 1:
        name, line, said = hits[0]
        return f"{want.about} is in {name}, line {line}: {said.strip()}"
    name, line, said = hits[0]
    return f"{want.about} is in {_and(files)}, {len(hits)} times; first in {name}, line {line}: {said.strip()}"


def _read_first_hit(want: Want, text: str) -> str | Want:
    hits = _hits(text)
    if not hits:
        return f"I found {want.about} in no file here."
    return Want("read", _reading(hits[0][0]), hits[0][0])


def _tell_named(want: Want, text: str) -> str:
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        return f"There is no file named {want.about} here."
    return f"I found {_things(len(names), 'file')}: {_and(names)}."


def _tell_count(want: Want, text: str) -> str:
    count = int(text) if text.strip().isdigit() else len(text.splitlines())
    return f"{want.about} has {_things(count, 'line')}."


def _tell_first(want: Want, text: str) -> str:
    lines = text.splitlines()[: want.count]
    if len(lines) == 1:
        return f"The first line of {want.about} is: {lines[0]}"
    return f"The first {_things(len(lines), 'line')} of {want.about}:\n\n" + "\n".join(lines)


def _tell_last(want: Want, text: str) -> str:
    lines = text.splitlines()[-want.count :]
    if len(lines) == 1:
        return f"The last line of {want.about} is: {lines[0]}"
    return f"The last {_things(len(lines), 'line')} of {want.about}:\n\n" + "\n".join(lines)


def _tell_run(want: Want, text: str) -> str:
    lines = text.splitlines()
    if not lines:
        return f"`{want.about}` ran and printed nothing."
    if len(lines) == 1:
        return f"`{want.about}` printed: {lines[0]}"
    return f"`{want.about}` printed {_things(len(lines), 'line')}:\n\n" + "\n".join(lines[:_SHOWN_LINES])


_CONCLUSIONS: dict[str, Callable[[Want, str], str]] = {
    "list": _tell_list,
    "size": _tell_size,
    "search": _tell_search,
    "named": _tell_named,
    "count": _tell_count,
    "first": _tell_first,
    "last": _tell_last,
    "run": _tell_run,
    "read": lambda want, text: _show(want.about, text),
    "write": lambda want, _text: f"I wrote {want.about}.",
    "replace": lambda want, _text: f"I replaced the text in {want.about}.",
    "say": lambda want, _text: want.answer,
}
