"""What the block list says about tools that start others in a way of their own: ``cmake``, ``gh``, ``fzf``."""

from __future__ import annotations

import re

from orkas.harness.commands.judge import Judge
from orkas.harness.commands.words import Arg, Scope, Stdin
from orkas.infra.patterns import lazy

__all__ = ["cmake", "fzf", "gh"]

_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_CMAKE_VERBS: dict[str, tuple[str, ...]] = {
    "env": ("env",), "time": ("time",), "rm": ("rm",), "remove": ("rm",), "remove_directory": ("rm", "-r"),
    "copy": ("cp",), "copy_directory": ("cp", "-r"), "copy_if_different": ("cp",), "rename": ("mv",),
    "copy_directory_if_different": ("cp", "-r"), "touch": ("touch",), "touch_nocreate": ("touch",), "tar": ("tar",),
    "make_directory": ("mkdir",), "create_symlink": ("ln", "-s"), "create_hardlink": ("ln",),
}  # fmt: skip
"""What the verbs of ``cmake -E`` do, as the program that does the same."""


def cmake(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``cmake -E VERB``, which is a program in itself, and scripts."""
    if rest and rest[0].text == "-E":
        _cmake_verb(judge, rest[1:], scope, stdin)
        return
    for i, arg in enumerate(rest):
        if re.match(r"-DCMAKE_\w*(COMPILER|LAUNCHER|LINKER|MAKE_PROGRAM)(:\w+)?=(?!/usr/|/opt/)[^=]*/", arg.text):
            judge.ask(f"{name} is told to run another program")
        if re.match(r"-[PC](?!MAKE)", arg.text):
            file = Arg(arg.text[2:], arg.sure) if arg.text[2:] else rest[i + 1] if i + 1 < len(rest) else Arg("", False)
            if file.text in _INPUT:
                judge.ask(f"{name} runs what it is fed")
            else:
                judge.script_file(file, scope)


def _cmake_verb(judge: Judge, words: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    verb = words[0].text if words else ""
    if verb == "chdir" and len(words) > 2:
        inner = scope.copy()
        inner.cwd = scope.path(words[1].text)
        judge.run(words[2:], inner, stdin)
    elif verb in _CMAKE_VERBS:
        judge.run([*(Arg(word) for word in _CMAKE_VERBS[verb]), *words[1:]], scope, stdin)


def gh(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``gh alias set x '!COMMAND'`` and the programs that extensions are."""
    words = [a.text for a in rest]
    if words[:2] in (["extension", "exec"], ["extensions", "exec"], ["ext", "exec"]):
        judge.ask("gh is told to run another program")
    if words[:1] == ["alias"] and any(w.startswith("!") or w in ("-s", "--shell", "import") for w in words[1:]):
        judge.ask("gh is told to run another program")
        for word in words[2:]:
            if word.startswith("!"):
                judge.guess(word[1:], scope)


_FZF_ACTION = lazy(
    r"(?:execute(?:-silent)?|become|reload(?:-sync)?|preview|transform[\w-]*)[:(\[{~!@#$%^&*;/|](.*)", re.DOTALL
)
_FZF_COMMANDS = ("--preview", "--with-shell", "--listen-unsafe")


def fzf(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """What it shows beside a line, and what its keys do."""
    for i, arg in enumerate(rest):
        flag, _, glued = arg.text.partition("=")
        value = Arg(glued, arg.sure) if glued else rest[i + 1] if i + 1 < len(rest) else Arg("")
        if flag in _FZF_COMMANDS:
            judge.string(value, scope)
        elif flag == "--bind":
            for action in _FZF_ACTION.findall(value.text):
                judge.string(Arg(re.sub(r"[)\]]+(\+.*)?$", "", action), value.sure), scope)
