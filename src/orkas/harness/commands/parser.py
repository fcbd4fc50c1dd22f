"""Parsing a shell command line: the grammar of POSIX shells and of the bash that runs it, nothing else.

What the parser does not know raises ``NotUnderstood``: the policy asks then. Nothing is executed or looked up here.
"""

from __future__ import annotations

import re

from orkas.harness.commands.syntax import (
    Command,
    Group,
    Lit,
    NotUnderstood,
    Part,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Sub,
    Var,
    Word,
)  # fmt: skip
from orkas.infra.patterns import lazy

__all__ = ["parse", "unescape"]

MAX_DEPTH = 30

_NAME = lazy(r"[A-Za-z_]\w*", re.ASCII)
_COPROC_NAME = lazy(r"[A-Za-z_]\w*[ \t]+(?=[{(]|(?:if|for|while|until|case)\s)")
_ASSIGN = lazy(r"([A-Za-z_]\w*)(\[[^]\s$`'\"]*\])?\+?=", re.ASCII)
_PARAMETER = lazy(r"[A-Za-z_]\w*|\d+|[@*#?$!-]", re.ASCII)
_OPERATOR = lazy(r":?[-=?+]|##?|%%?|//?|\^\^?|,,?|:|@", re.ASCII)
_PLAIN = lazy(r"[^\s;&|<>()'\"\\$`]+")
_PLAIN_QUOTED = lazy(r'[^"\\$`]+')
_TWO_WORDS = lazy(r"[A-Za-z_]\w*[ \t]+[A-Za-z_/-]*[A-Za-z_]", re.ASCII)
_REDIRECT = lazy(r"(\d+|\{[A-Za-z_]\w*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)", re.ASCII)
_ENDS = frozenset(" \t\n;&|<>()")
_RESERVED = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}", "in"})
_ANSI = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def parse(text: str, depth: int = 0) -> Script:
    """The whole text as a script.

    Raises:
        NotUnderstood: it is not.
    """
    parser = _Parser(text, depth)
    script = parser.script(frozenset())
    if parser.at < len(text):
        raise NotUnderstood(f"unexpected {text[parser.at : parser.at + 10]!r}")
    return script


class _Parser:
    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self._waiting: list[tuple[Redirect, str, bool, bool]] = []
        """Here-documents whose body begins on the next line: where it goes, its end, quoted, tabs removed."""

    # characters

    def _peek(self, text: str) -> bool:
        self._join_lines()
        return self.text.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self.at += len(text)
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise NotUnderstood(f"{text!r} is missing")

    def _join_lines(self) -> None:
        while self.text.startswith("\\\n", self.at):
            self.at += 2

    @property
    def _char(self) -> str:
        self._join_lines()
        return self.text[self.at : self.at + 1]

    def _blanks(self) -> None:
        while self._char and self._char in " \t":
            self.at += 1
        if self._char == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _new_lines(self) -> None:
        self._blanks()
        while self._char == "\n":
            self._new_line()
            self._blanks()

    def _new_line(self) -> None:
        self.at += 1
        waiting, self._waiting = self._waiting, []
        for redirect, end, quoted, no_tabs in waiting:
            redirect.target = self._here_document(end, quoted, no_tabs)

    def _here_document(self, end: str, quoted: bool, no_tabs: bool) -> Word:
        lines = []
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            line = self.text[self.at : stop]
            self.at = min(stop + 1, len(self.text))
            line = line.lstrip("\t") if no_tabs else line
            if line == end:
                break
            lines.append(line + "\n")
        body = "".join(lines)
        return [Lit(body, True)] if quoted else _Parser(body, self._deeper()).quoted_parts("")

    def _deeper(self) -> int:
        if self.depth >= MAX_DEPTH:
            raise NotUnderstood("it is nested too deep")
        return self.depth + 1

    # lists and pipelines

    def script(self, ends: frozenset[str]) -> Script:
        """Pipelines up to the end of the text, a closing parenthesis, or one of the reserved words ``ends``."""
        found: Script = []
        operator = ""
        self._new_lines()
        while self._char and self._char != ")" and not self._at_clause_end() and not self._at_end(ends):
            found.append(self._pipeline())
            found[-1].after = operator
            self._blanks()
            operator = "&&" if self._take("&&") else "||" if self._take("||") else ""
            if operator:
                self._new_lines()
                if not self._char:
                    raise NotUnderstood("it ends with an operator")
                continue
            if self._at_clause_end():
                break
            if self._take("&"):
                found[-1].background = True
            elif not self._take(";") and self._char not in ("\n", ")", ""):
                raise NotUnderstood(f"unexpected {self.text[self.at : self.at + 10]!r}")
            self._new_lines()
        return found

    def _at_clause_end(self) -> bool:
        return self._peek(";;") or self._peek(";&")

    def _at_end(self, ends: frozenset[str]) -> bool:
        word = self._reserved_ahead()
        if word in ends:
            return True
        if word in _RESERVED:
            raise NotUnderstood(f"unexpected {word!r}")
        return False

    def _reserved_ahead(self) -> str:
        """The plain word that comes next, quotes and expansions excluded."""
        self._join_lines()
        found = re.compile(r"[^\s;&|<>()'\"\\$`]+").match(self.text, self.at)
        if not found:
            return ""
        following = self.text[found.end() : found.end() + 1]
        return found.group() if following in ("", " ", "\t", "\n", ";", "&", "|", "<", ">", "(", ")") else ""

    def _pipeline(self) -> Pipeline:
        commands: list[Command] = []
        words: list[str] = []
        while True:
            self._blanks()
            while self._reserved_ahead() in ("!", "time"):
                words.append(f"{self._reserved_ahead()}{len(commands)}")
                self._word_of_grammar(self._reserved_ahead())
                if self._reserved_ahead() == "-p":
                    self._word_of_grammar("-p")
            commands.append(self._command())
            self._blanks()
            if self._peek("||") or not (self._take("|&") or self._take("|")):
                return Pipeline(commands, words=words)
            self._new_lines()

    def _word_of_grammar(self, word: str) -> None:
        if self._reserved_ahead() != word:
            raise NotUnderstood(f"{word!r} is missing")
        self.at += len(word)
        self._blanks()

    # commands

    def _command(self) -> Command:
        self.depth = self._deeper()
        try:
            group = self._group()
            if group is None:
                return self._simple()
            self._blanks()
            while redirect := self._redirect():
                group.redirects.append(redirect)
                self._blanks()
            return group
        finally:
            self.depth -= 1

    def _group(self) -> Group | None:
        if self._peek("((") and self._is_arithmetic():
            self.at += 2
            return Group("test", words=[self._arithmetic("))")])
        if self._take("("):
            body = self.script(frozenset())
            self._need(")")
            return Group("(", [body])
        word = self._reserved_ahead()
        if word == "{":
            return Group("{", [self._block("{", "}")])
        if word == "if":
            return Group("if", self._if())
        if word in ("while", "until"):
            condition = self._block(word, "do", keep=True)
            return Group("loop", [condition, self._block("do", "done")])
        if word in ("for", "select"):
            return self._for(word)
        if word == "case":
            return self._case()
        if word == "[[":
            return self._test()
        if word == "coproc":
            self._word_of_grammar(word)
            if named := _COPROC_NAME.match(self.text, self.at):
                self.at = named.end()
            return Group("{", [[Pipeline([self._command()], background=True)]])
        return self._function(word)

    def _block(self, start: str, *ends: str, keep: bool = False) -> Script:
        self._word_of_grammar(start)
        body = self.script(frozenset(ends))
        if self._reserved_ahead() not in ends:
            raise NotUnderstood(f"{ends[0]!r} is missing")
        if not keep:
            self._word_of_grammar(self._reserved_ahead())
        return body

    def _if(self) -> list[Script]:
        bodies = [self._block("if", "then", keep=True)]
        while True:
            bodies.append(self._block("then", "elif", "else", "fi", keep=True))
            if self._reserved_ahead() == "elif":
                bodies.append(self._block("elif", "then", keep=True))
                continue
            if self._reserved_ahead() == "else":
                bodies.append(self._block("else", "fi", keep=True))
            self._word_of_grammar("fi")
            return bodies

    def _for(self, word: str) -> Group:
        self._word_of_grammar(word)
        group = Group("for")
        if self._take("(("):
            group.words.append(self._arithmetic("))"))
        else:
            name = _NAME.match(self.text, self.at)
            if not name:
                raise NotUnderstood("a loop without a name")
            group.name = name.group()
            self.at = name.end()
            self._new_lines()
            if self._reserved_ahead() == "in":
                self._word_of_grammar("in")
                group.words = self._words_until("\n", ";")
            else:
                group.words = [[Var("@")]]
        self._blanks()
        self._take(";")
        self._new_lines()
        closing = ("{", "}") if self._reserved_ahead() == "{" else ("do", "done")
        group.bodies.append(self._block(*closing))
        return group

    def _case(self) -> Group:
        self._word_of_grammar("case")
        group = Group("case", words=[self._need_word()])
        self._new_lines()
        self._word_of_grammar("in")
        self._new_lines()
        while self._reserved_ahead() != "esac":
            self._take("(")
            self._blanks()
            group.words.append(self._need_word())
            self._blanks()
            while self._take("|"):
                self._blanks()
                group.words.append(self._need_word())
                self._blanks()
            self._need(")")
            group.bodies.append(self.script(frozenset({"esac"})))
            for operator in (";;&", ";;", ";&"):
                if self._take(operator):
                    break
            self._new_lines()
        self._word_of_grammar("esac")
        return group

    def _test(self) -> Group:
        """``[[ … ]]``: its operators do not matter here, the expansions in it do."""
        self._word_of_grammar("[[")
        group = Group("test")
        while self._reserved_ahead() != "]]":
            self._new_lines()
            if not self._char:
                raise NotUnderstood("']]' is missing")
            if self._char in "()<>&|;":
                self.at += 1
            elif self._reserved_ahead() != "]]":
                group.words.append(self._need_word())
            self._blanks()
        self._word_of_grammar("]]")
        return group

    def _function(self, word: str) -> Group | None:
        start = self.at
        if word == "function":
            self._word_of_grammar(word)
            name = self._reserved_ahead()
            self.at += len(name)
            self._blanks()
            if self._take("("):
                self._blanks()
                self._need(")")
        else:
            name = word
            self.at += len(name)
            self._blanks()
            if not name or "=" in name or not self._take("("):
                self.at = start
                return None
            self._blanks()
            self._need(")")
        self._new_lines()
        body = self._group()
        if body is None or not name:
            raise NotUnderstood("a function without a body")
        return Group("function", [[Pipeline([body])]], name=name)

    def _simple(self) -> Simple:
        found = Simple()
        while True:
            self._blanks()
            if redirect := self._redirect():
                found.redirects.append(redirect)
                continue
            if not found.words and (assignment := self._assignment()):
                found.assignments.append(assignment)
                continue
            word = self._word()
            if not word:
                break
            found.words.append(word)
            if found.words and self._declares(found):
                while assignment := self._assignment_after_blank():
                    found.assignments.append(assignment)
        if not (found.words or found.assignments or found.redirects):
            raise NotUnderstood(f"a command is missing before {self.text[self.at : self.at + 10]!r}")
        return found

    @staticmethod
    def _declares(found: Simple) -> bool:
        head = found.words[0]
        names = ("export", "declare", "local", "readonly", "typeset")
        return len(head) == 1 and isinstance(head[0], Lit) and head[0].text in names

    def _assignment_after_blank(self) -> tuple[str, list[Word]] | None:
        self._blanks()
        return self._assignment()

    def _assignment(self) -> tuple[str, list[Word]] | None:
        self._join_lines()
        found = _ASSIGN.match(self.text, self.at)
        if not found:
            return None
        self.at = found.end()
        name = found.group(1) + ("[]" if found.group(2) or found.group().endswith("+=") else "")
        if not self._take("("):
            return name, [self._word()]
        values = self._words_until(")")
        self._need(")")
        return name + "[]" * (not name.endswith("[]")), values

    def _words_until(self, *ends: str) -> list[Word]:
        words: list[Word] = []
        while True:
            self._blanks()
            if ends == (")",):
                self._new_lines()
            if not self._char or self._char in ends:
                return words
            words.append(self._need_word())

    def _redirect(self) -> Redirect | None:
        self._join_lines()
        found = _REDIRECT.match(self.text, self.at)
        if not found or (found.group(2) in "<>" and self.text.startswith("(", found.end())):
            return None
        self.at = found.end()
        operator = found.group(2)
        self._blanks()
        target = self._need_word()
        redirect = Redirect(operator, target, found.group(1) or "")
        if operator in ("<<", "<<-"):
            end = "".join(p.text if isinstance(p, Lit) else "$" for p in target)
            quoted = any(isinstance(p, Lit) and p.quoted for p in target)
            redirect.target = []
            self._waiting.append((redirect, end, quoted, operator == "<<-"))
        return redirect

    # words

    def _need_word(self) -> Word:
        word = self._word()
        if not word:
            raise NotUnderstood(f"a word is missing before {self.text[self.at : self.at + 10]!r}")
        return word

    def _word(self) -> Word:
        """The next word; empty when none begins here."""
        parts: Word = []
        while char := self._char:
            if char in "<>" and self.text.startswith("(", self.at + 1):
                self.at += 2
                parts.append(self._substitution(char + "("))
            elif char in _ENDS:
                if char == "(" and parts:
                    raise NotUnderstood("a pattern with parentheses")
                break
            else:
                parts += self._plain(_PLAIN) or self._piece(quoted=False)
        return _joined(parts)

    def _plain(self, run: re.Pattern[str], *, quoted: bool = False) -> list[Part]:
        """Characters that mean themselves, in one go."""
        found = run.match(self.text, self.at)
        if not found:
            return []
        self.at = found.end()
        return [Lit(found.group(), quoted)]

    def _piece(self, *, quoted: bool) -> list[Part]:
        """The next character, escape, quotation or expansion."""
        char = self._char
        self.at += 1
        if char == "\\":
            return self._escape(quoted)
        if char == "`":
            return [self._backticks(quoted)]
        if char == "$":
            return self._dollar(quoted)
        if not quoted and char == "'":
            return [self._single()]
        if not quoted and char == '"':
            parts = self.quoted_parts('"')
            return parts or [Lit("", True)]
        return [Lit(char, quoted)]

    def _escape(self, quoted: bool) -> list[Part]:
        char = self.text[self.at : self.at + 1]
        if quoted and char not in '$`"\\':
            return [Lit("\\", True)]
        self.at += len(char)
        return [Lit(char, True)]

    def _single(self) -> Lit:
        end = self.text.find("'", self.at)
        if end < 0:
            raise NotUnderstood("a quotation is not closed")
        text = self.text[self.at : end]
        self.at = end + 1
        return Lit(text, True)

    def quoted_parts(self, end: str) -> list[Part]:
        """What stands in double quotes, or in a here-document (``end`` empty: to the end of the text)."""
        parts: list[Part] = []
        while self._char:
            if end and self._take(end):
                return parts
            if self._char == '"' and not end:
                parts.append(Lit('"', True))
                self.at += 1
                continue
            parts += self._plain(_PLAIN_QUOTED, quoted=True) or self._piece(quoted=True)
        if end:
            raise NotUnderstood("a quotation is not closed")
        return parts

    def _dollar(self, quoted: bool) -> list[Part]:
        if self._char == "'" and not quoted:
            self.at += 1
            return [Lit(self._ansi(), True)]
        if self._char == '"' and not quoted:
            self.at += 1
            return self.quoted_parts('"') or [Lit("", True)]
        if self._peek("((") and self._is_arithmetic():
            self.at += 2
            return [Var("", quoted, "((", self._arithmetic("))"))]
        if self._take("("):
            return [self._substitution("$(", quoted=quoted)]
        if self._take("["):
            return [Var("", quoted, "((", self._arithmetic("]"))]
        if self._take("{"):
            return [self._parameter(quoted)]
        found = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!-]", re.ASCII).match(self.text, self.at)
        if not found:
            return [Lit("$", quoted)]
        self.at = found.end()
        return [Var(found.group(), quoted)]

    def _is_arithmetic(self) -> bool:
        """``((`` closes with ``))``; else two subshells begin."""
        level = 0
        for i in range(self.at, len(self.text)):
            level += {"(": 1, ")": -1}.get(self.text[i], 0)
            if level == 1 and self.text[i] == ")":
                return self.text.startswith("))", i)
        raise NotUnderstood("a parenthesis is not closed")

    def _arithmetic(self, end: str) -> Word:
        parts: Word = []
        level = 0
        while self._char:
            if level == 0 and self._take(end):
                return parts
            level += {"(": 1, ")": -1, "[": 1, "]": -1}.get(self._char, 0)
            if _TWO_WORDS.match(self.text, self.at):
                raise NotUnderstood("arithmetic that reads like a command")
            parts += self._piece(quoted=False)
        raise NotUnderstood(f"{end!r} is missing")

    def _substitution(self, kind: str, *, quoted: bool = False) -> Sub:
        self.depth = self._deeper()
        waiting, self._waiting = self._waiting, []
        script = self.script(frozenset())
        self._waiting = waiting
        self.depth -= 1
        self._need(")")
        return Sub(script, kind, quoted)

    def _backticks(self, quoted: bool) -> Sub:
        found = re.compile(r"((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if not found:
            raise NotUnderstood("a back quote is not closed")
        self.at = found.end()
        inner = re.sub(r'\\([`\\$"])' if quoted else r"\\([`\\$])", r"\1", found.group(1))
        return Sub(parse(inner, self._deeper()), "$(", quoted)

    def _parameter(self, quoted: bool) -> Var:
        indirect = self._char in "!#" and not self.text.startswith("}", self.at + 1)
        if indirect:
            self.at += 1
        found = _PARAMETER.match(self.text, self.at)
        if not found:
            raise NotUnderstood("an odd parameter expansion")
        self.at = found.end()
        operator = "!" if indirect else ""
        if self._char == "[":
            operator = "["
        elif operators := _OPERATOR.match(self.text, self.at):
            operator += operators.group()
            self.at = operators.end()
        operand: list[Part] = []
        while self._char != "}":
            if not self._char:
                raise NotUnderstood("'}' is missing")
            operand += self._piece(quoted=quoted)
        self.at += 1
        return Var("" if indirect else found.group(), quoted, operator, operand)

    def _ansi(self) -> str:
        """``$'…'`` decoded."""
        found = re.compile(r"((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.text, self.at)
        if not found:
            raise NotUnderstood("a quotation is not closed")
        self.at = found.end()
        return unescape(found.group(1))


def _joined(parts: Word) -> Word:
    """Neighbouring characters of one kind as one part."""
    joined: Word = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Lit) and isinstance(last, Lit) and last.quoted == part.quoted:
            joined[-1] = Lit(last.text + part.text, part.quoted)
        else:
            joined.append(part)
    return joined


_ESCAPE = lazy(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)


def unescape(text: str) -> str:
    """Backslash escapes as ``$'…'`` and ``printf`` know them."""
    return _ESCAPE.sub(lambda m: _unescaped(m.group(1)), text)


def _unescaped(code: str) -> str:
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else ""
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    if code[0] == "c" and len(code) > 1:
        return chr(ord(code[1]) & 0x1F)
    return _ANSI.get(code, "\\" + code)
