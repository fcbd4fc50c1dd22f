"""What the block list says about programs that pack and unpack: where they write."""

from __future__ import annotations

import re

from orkas.harness.commands.judge import Judge
from orkas.harness.commands.options import meant
from orkas.harness.commands.words import Arg, Scope, Stdin

__all__ = ["pack", "tar", "unpack"]

_TAR_VALUED = "fbCgKNTVXFHIL"
_TAR_LONG = {
    "--create": "c", "--append": "r", "--update": "u", "--catenate": "A", "--concatenate": "A", "--extract": "x",
    "--get": "x", "--list": "t", "--file": "f", "--directory": "C", "--absolute-names": "P", "--transform": "s",
    "--xform": "s", "--one-top-level": "O", "--to-stdout": "", "--format": "",
}  # fmt: skip
"""Long options of tar by the letter that means the same; ``s`` and ``O`` have none."""


def tar(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if rest and not rest[0].sure and not rest[0].text:
        judge.ask(f"what {name} does is known only when it runs")
    if rest and re.match(r"[a-zA-Z]*[IF]", rest[0].text):
        judge.ask(f"{name} is told to run another program")
    _elsewhere(judge, name, [a.text for a in rest])
    told = _tar_options(rest)
    letters = {letter for letter, _ in told}
    if "P" in letters:
        judge.ask(f"{name} may write anywhere (absolute names)", seen=True)
    for letter, value in told:
        archive = letter == "f" and letters & set("cruA") and value.text != "-"
        if archive or (letter in "CO" and "x" in letters):
            judge.writes(value, scope)
        elif letter == "s" and "x" in letters and _renamed_out(value.text):
            judge.ask(f"{name} may write anywhere (it renames what it unpacks)", seen=True)


def _elsewhere(judge: Judge, name: str, words: list[str]) -> None:
    """An archive with a colon in its name lies on another machine, which ``tar`` starts a program to reach."""
    if "--force-local" in words:
        return
    for i, word in enumerate(words):
        found = re.fullmatch(rf"(?:-{'?' if i == 0 else ''}[a-zA-Z]*f|--fi[le]*=?)(.*)", word)
        file = (found[1] or (words[i + 1] if i + 1 < len(words) else "")) if found else ""
        if re.match(r"[^/:]+:", file):
            judge.ask(f"{name} starts a program that reaches another machine")


def _tar_options(rest: list[Arg]) -> list[tuple[str, Arg]]:
    """Each option by its letter, with its value."""
    found: list[tuple[str, Arg]] = []
    waiting: list[str] = []
    for i, arg in enumerate(rest):
        text = arg.text
        if waiting and not (text.startswith("-") and len(text) > 1):
            found.append((waiting.pop(0), arg))
        elif text.startswith("--"):
            letter = _TAR_LONG.get(meant(text, _TAR_LONG) or "", "")
            value = text.partition("=")[2]
            if "=" not in text and letter in ("f", "C", "s"):
                waiting.append(letter)
            elif letter:
                found.append((letter, Arg(value, arg.sure)))
        elif re.match(r"-[a-zA-Z]", text) or (i == 0 and re.fullmatch(r"[a-zA-Z]+", text)):
            _cluster(arg, found, waiting, old=not text.startswith("-"))
    return found


def _cluster(arg: Arg, found: list[tuple[str, Arg]], waiting: list[str], *, old: bool) -> None:
    """``-xzf FILE`` and the old ``xzf FILE``, in which the values stand behind all letters."""
    letters = arg.text.removeprefix("-")
    for at, letter in enumerate(letters):
        glued = letters[at + 1 :]
        if letter not in _TAR_VALUED:
            found.append((letter, Arg("")))
        elif old or not glued:
            waiting.append(letter)
        else:
            found.append((letter, Arg(glued, arg.sure)))
            return


def _renamed_out(expression: str) -> bool:
    parts = expression.split(expression[1:2]) if len(expression) > 1 else []
    return any(part.startswith(("/", "~")) or ".." in part for part in parts[2::3]) or "e" in "".join(parts[3:4])


def unpack(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``unzip``, ``7z``, ``cpio``."""
    words = [a.text for a in rest]
    if name == "unzip" and any(re.match(r"-[a-zA-Z]*:", w) for w in words):
        judge.ask("unzip may write anywhere (names that lead out)", seen=True)
    for i, arg in enumerate(rest):
        found = re.match({"unzip": r"-[a-zA-Z]*d", "cpio": "-D"}.get(name, "-o"), arg.text)
        if found and (glued := arg.text[found.end() :]):
            judge.writes(Arg(glued, arg.sure), scope)
        elif found and i + 1 < len(rest) and name in ("unzip", "cpio"):
            judge.writes(rest[i + 1], scope)
    extracts = name == "cpio" and any(re.match(r"-[a-z]*i|--extract", w) for w in words)
    if extracts and "--no-absolute-filenames" not in words:
        judge.ask("cpio may write anywhere (absolute names)", seen=True)
    if name.startswith("7z") and words[:1] and words[0] in ("a", "u", "d", "rn"):
        pack(judge, name, rest[1:], scope, stdin)


def pack(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``zip``: the first name is that of the archive."""
    archive = next((a for a in rest if not a.text.startswith("-")), None)
    if archive:
        judge.writes(archive, scope)
