"""git's configuration files: read by git's own grammar, and cut down to what runs no program."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from msgspec import Struct

__all__ = ["Entry", "entries", "harmless", "names_submodules"]


class Entry(Struct, frozen=True):
    """One variable. ``section`` and ``key`` in small letters; ``value`` as git puts it together."""

    section: str
    key: str
    value: str


_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:[ \t]+"(?:[^"\\\n]|\\.)*")?[ \t]*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_COMMENT = re.compile(r"[#;][^\n]*")
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}


def entries(text: str) -> Iterator[Entry]:
    """Every variable in its order, also beside its section's header, quoted, continued or before a comment.

    git gives up at what it does not understand; here the next line is gone on with.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    section, at = "", 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif found := _COMMENT.match(text, at):
            at = found.end()
        elif found := _SECTION.match(text, at):
            section, at = found[1].lower().partition(".")[0], found.end()
        elif found := _KEY.match(text, at):
            value, at = "", found.end()
            if text.startswith("=", at):
                value, at = _value(text, at + 1)
            yield Entry(section, found[1].lower(), value)
        else:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end


def _value(text: str, at: int) -> tuple[str, int]:
    """What stands behind ``=``, and where it ends."""
    parts: list[str] = []
    quoted = False
    solid = 0
    """So many parts do not end in a blank that is cut off."""
    while at < len(text):
        sign = text[at]
        at += 1
        if sign == "\n":
            break
        if sign == '"':
            quoted = not quoted
            solid = len(parts)
        elif sign == "\\":
            escaped = text[at : at + 1]
            at += 1
            if escaped != "\n":
                parts.append(_ESCAPED.get(escaped, escaped))
            solid = len(parts)
        elif sign in "#;" and not quoted:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif sign.isspace() and not quoted:
            if parts:
                parts.append(sign)
        else:
            parts.append(sign)
            solid = len(parts)
    return "".join(parts[:solid]), at


_HEADER = re.compile(r"\s*\[([A-Za-z0-9.-]+)(?:\s+\"([^\"\\]*)\")?\]\s*$")
_LINE = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*?))?\s*$")
_HARMLESS = {
    "core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
             "symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "sparsecheckout", "longpaths"},
    "user": {"name", "email", "useconfigonly"}, "init": {"defaultbranch"}, "pull": {"rebase", "ff"},
    "push": {"default", "autosetupremote"}, "remote": {"url", "fetch", "pushurl", "push", "tagopt", "prune"},
    "branch": {"remote", "merge", "rebase", "autosetuprebase"}, "submodule": {"active", "url"},
    "extensions": {"objectformat", "refstorage", "partialclone"}, "merge": {"ff", "conflictstyle"},
    "color": {"ui"}, "gc": {"auto"},
}  # fmt: skip


def harmless(config: str, work_tree: str = "") -> str:
    """The lines of a git configuration that only hold values; what could run a program is left out, and what leads to
    another work tree than this."""
    kept: list[str] = []
    section = ""
    for line in config.split("\n"):
        if header := _HEADER.fullmatch(line):
            section = header[1].lower()
            keep = section in _HARMLESS
        elif not line.strip() or line.lstrip()[0] in "#;":
            keep = True
        else:
            found = _LINE.fullmatch(line)
            keep = found is not None and (
                _is_harmless(section, found[1].lower(), found[2] or "")
                or (section, found[1].lower(), found[2]) == ("core", "worktree", work_tree or None)
            )
        if keep:
            kept.append(line)
    return "\n".join(kept)


_OF_SUBMODULES = {"path", "url", "branch", "ignore", "shallow", "fetchrecursesubmodules"}


def names_submodules(text: str) -> bool:
    """This ``.gitmodules`` only says which submodules there are, each below its folder, and where they come from."""
    within = False
    for line in text.split("\n"):
        if not line.strip():
            continue
        if header := _HEADER.fullmatch(line):
            within = header[1].lower() == "submodule" and bool(header[2]) and _stays_below(header[2])
            if not within:
                return False
            continue
        found = _LINE.fullmatch(line)
        key, value = (found[1].lower(), found[2] or "") if found else ("", "")
        if not within or not _is_harmless("submodule", key, value, _OF_SUBMODULES) or "#" in value or ";" in value:
            return False  # behind these signs comes a comment: git reads another value than stands there
        if key == "path" and not _stays_below(value):
            return False
    return True


def _stays_below(path: str) -> bool:
    parts = path.split("/")
    return not path.startswith("-") and not any(part in ("", "..") or part.lower() == ".git" for part in parts)


def _is_harmless(section: str, key: str, value: str, allowed: Container[str] | None = None) -> bool:
    if key not in (_HARMLESS.get(section, ()) if allowed is None else allowed):
        return False
    if "\r" in value or value.endswith("\\"):
        return False
    if key != "name" and ('"' in value or "\\" in value):  # words that git puts together otherwise than they look
        return False
    return not (key.endswith("url") and ("::" in value or "://-" in value or value.startswith("-")))
