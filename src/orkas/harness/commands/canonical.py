"""A parsed command line written again so that only one reading of it is left: each argument in quotes."""

from __future__ import annotations

from collections.abc import Mapping

from orkas.harness.commands.syntax import Group, Lit, Pipeline, Script, Simple, Sub, Var, Word

__all__ = ["in_quotes", "quoted"]


class _NotPlain(Exception):
    """A construct that is not written again."""


def quoted(script: Script, before: Mapping[int, str] | None = None) -> str | None:
    """The same commands with all that is literal in quotes; None where it holds loops, documents or braces.
    ``before``: what is put before some simple commands, each named by its ``id``."""
    try:
        return _Writer(before or {}).script(script)
    except _NotPlain:
        return None


class _Writer:
    def __init__(self, before: Mapping[int, str]) -> None:
        self._before = before

    def script(self, script: Script) -> str:
        text = ""
        for pipeline in script:
            glue = f" {pipeline.after} " if pipeline.after else "; " if text else ""
            text += glue + self.pipeline(pipeline)
        return text

    def pipeline(self, pipeline: Pipeline) -> str:
        if pipeline.background or any(word != "!0" for word in pipeline.words) or len(pipeline.words) > 1:
            raise _NotPlain
        commands = []
        for command in pipeline.commands:
            if isinstance(command, Group):
                if command.kind != "(" or command.redirects:
                    raise _NotPlain
                commands.append(f"( {self.script(command.bodies[0])} )")
            else:
                commands.append(self.simple(command))
        return ("! " if pipeline.words else "") + " | ".join(commands)

    def simple(self, command: Simple) -> str:
        if command.assignments or not command.words:
            raise _NotPlain
        words = [self.word(word) for word in command.words]
        for redirect in command.redirects:
            if redirect.operator in ("<<", "<<-"):
                raise _NotPlain
            words.append(f"{redirect.source}{redirect.operator} {self.word(redirect.target)}")
        return self._before.get(id(command), "") + " ".join(words)

    def word(self, word: Word) -> str:
        text = ""
        bare = "".join(part.text for part in word if isinstance(part, Lit) and not part.quoted)
        if "{" in bare and ("," in bare or ".." in bare):
            raise _NotPlain
        for i, part in enumerate(word):
            if isinstance(part, Lit):
                text += in_quotes(part.text) if part.quoted else _bare(part.text, first=i == 0, sets="[" in bare)
            elif isinstance(part, Var):
                if part.operator or part.operand:
                    raise _NotPlain
                text += f'"${{{part.name}}}"' if part.quoted else f"${{{part.name}}}"
            else:
                text += self.substitution(part)
        return text

    def substitution(self, part: Sub) -> str:
        if part.kind == ">(":
            raise _NotPlain
        inner = f"{part.kind} {self.script(part.script)} )"
        return f'"{inner}"' if part.quoted else inner


def in_quotes(text: str) -> str:
    """Also a word that needs none: in quotes it is no reserved word and no assignment."""
    return "'" + text.replace("'", "'\\''") + "'"


def _bare(text: str, *, first: bool, sets: bool) -> str:
    """Unquoted characters: patterns and the home folder keep their meaning, all others lose it."""
    found, plain = "", ""
    if first and (text == "~" or text.startswith("~/")):
        found, text = "~", text[1:]
        if text:
            found, text = "~/", text[1:]
    for char in text:
        if char in "*?" or (sets and char in "[]!^-"):
            found += in_quotes(plain) if plain else ""
            plain = ""
            found += char
        else:
            plain += char
    if plain or not found:
        found += in_quotes(plain)
    return found
