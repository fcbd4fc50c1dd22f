"""What the block list says about single programs: the table of rules, and the rules of the shell's own commands."""

from __future__ import annotations

import re
from collections.abc import Callable

from orkas.harness.commands import code, files, known, machine, runners, wrappers
from orkas.harness.commands.files import find_removes, removes
from orkas.harness.commands.git import git
from orkas.harness.commands.judge import Judge
from orkas.harness.commands.words import HOME, Arg, Scope, Stdin, runs_when_evaluated

__all__ = ["HAVE_RULES", "judge_program"]

_EVALUATES = frozenset({
    "let", "declare", "typeset", "local", "readonly", "export", "unset", "test", "[", "read", "mapfile", "readarray",
    "printf", "wait", "getopts", "((",
})  # fmt: skip


def judge_program(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """What speaks against this program with these arguments; ``stdin`` is what it reads."""
    if name in known.PRIVILEGE:
        judge.deny(f"{name} runs commands with the rights of another user")
    elif name in known.HALT:
        judge.deny(f"{name} stops or restarts the machine")
    elif name.startswith("mkfs") or ((name in known.DISK or name.startswith("fsck.")) and machine.changes_disk(rest)):
        judge.deny(f"{name} overwrites a disk")
    elif re.match(r"ld(-linux.*|-musl.*|64|\.so.*|-\d.*)?\.so(\.\d+)?$", name):
        wrappers.wrapper(judge, "ld.so", rest, scope, stdin)
    elif known.INTERPRETERS.match(name):
        code.interpreter(judge, name, rest, scope, stdin)
    elif rules := _RULES.get(name):
        for rule in rules:
            rule(judge, name, rest, scope, stdin)
    elif name not in runners.READERS:
        wrappers.find_names(judge, name, rest, scope, stdin)
    if name not in runners.READERS - runners.COMPILERS and name not in ("find", "git", "rg"):
        files.outputs(judge, name, rest, scope)
    if name in _EVALUATES:
        _evaluated(judge, name, rest)
    for recipe in runners.RECIPES.get(name, ()):
        judge.script_file(Arg(recipe), scope)
    if name in files.WRITERS:
        scope.written |= {path for arg in rest if (path := files.file_written(arg, scope))}


def _evaluated(judge: Judge, name: str, rest: list[Arg]) -> None:
    """The shell's own commands that take names or arithmetic run what stands in their subscripts."""
    texts = [a.text for a in rest]
    if name == "printf":
        texts = texts[1:2] if texts[:1] == ["-v"] else []
    elif name in ("test", "["):
        texts = texts if any(t in ("-v", "-R") for t in texts) else []
    if any(runs_when_evaluated(t) or (name == "let" and ("$(" in t or "`" in t)) for t in texts):
        judge.ask(f"{name} runs what stands in the subscript of a variable")


# programs that run what they are given


def eval_(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if not rest:
        return
    if not all(a.sure for a in rest):
        judge.ask("eval runs a text that is known only when it runs")
    judge.text(" ".join(a.text for a in rest), scope)


def source(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if rest and rest[0].text in ("/dev/stdin", "-") and stdin:
        judge.fed(stdin, scope)
    elif rest:
        judge.script_file(rest[0], scope)


def trap(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if rest and rest[0].text not in ("-", "-l", "-p", ""):
        judge.string(rest[0], scope)


def alias(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    for arg in rest:
        if "=" in arg.text:
            judge.ask("an alias changes what a later word runs")
            judge.text(arg.text.partition("=")[2], scope.copy())


def find(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    while rest and re.fullmatch(r"-[HLPEXdsx]+|-O\d|-D|-f", rest[0].text):
        if name not in ("fd", "fdfind") and re.fullmatch(r"-[xX]", rest[0].text):
            break
        if name in ("fd", "fdfind") and rest[0].text in ("-x", "-X", "-d", "-E"):
            break
        rest = rest[2 if rest[0].text == "-D" else 1 :]
    texts = [a.text for a in rest]
    first = next((i for i, t in enumerate(texts) if t.startswith("-") or t in ("(", "!")), len(rest))
    roots, tests = rest[:first] or [Arg(".")], rest[first:]
    words = [a.text for a in tests]
    for flag in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"):
        for i, word in enumerate(words):
            if word == flag:
                stop = next((j for j in range(i + 1, len(words)) if words[j] in (";", "+")), len(words))
                _find_runs(judge, tests[i + 1 : stop], roots, len(words) > stop - i + 2, scope)
    if "-delete" in words:
        removes(judge, roots, scope, "find -delete", narrow=len(words) > 1)
    for flag in ("-fprint", "-fprintf", "-fls", "-fprint0"):
        if flag in words[:-1]:
            judge.writes(tests[words.index(flag) + 1], scope)


def _find_runs(judge: Judge, command: list[Arg], roots: list[Arg], narrow: bool, scope: Scope) -> None:
    if command:
        find_removes(judge, command, roots, scope, narrow=narrow)
        judge.run([a for a in command if a.text != "{}"], scope)


# programs with a way to run others


_RUN_ELSEWHERE = ("ssh", "chroot", "nsenter", "unshare", "docker", "podman")


_HARMLESS = frozenset({
    "--help", "--version", "-h", "-V", "-l", "-a", "--list", "version", "info", "ps", "images", "logs", "inspect", "ls",
    "list", "get", "describe", "status", "stats", "top", "history",
})  # fmt: skip


def shady_flags(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if any(runners.SHADY[name].search(a.text) for a in rest):
        judge.ask(f"{name} is told to run another program")


def always_ask(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """A program that only a person can judge, unless it is merely asked for a list."""
    if name not in ("ssh", "mosh") and (rest[0].text in _HARMLESS if rest else name in ("mount", "hash", "enable")):
        return
    words = known.STARTS_WITH.get(name)
    judge.ask(known.ALWAYS_ASK[name], seen=words is not None and not any(a.text in words or not a.sure for a in rest))
    for i, arg in enumerate(rest):
        if " " in arg.text:
            judge.string(arg, scope)
        if name in _RUN_ELSEWHERE and arg.program in known.PRIVILEGE | known.HALT:
            judge.run(rest[i:], scope, stdin)
            return


def reads_names(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``read``, ``mapfile``, ``printf -v``: variables get values from elsewhere."""
    if name == "printf" and (len(rest) < 2 or rest[0].text != "-v"):
        return
    for i, arg in enumerate(rest):
        if name != "printf" and re.match(r"-[a-zA-Z]*C", arg.text):
            glued = arg.text.partition("C")[2]
            judge.string(Arg(glued, arg.sure) if glued else rest[i + 1] if i + 1 < len(rest) else Arg(""), scope)
    names = [rest[1].text] if name == "printf" else [a.text for a in rest if a.text.isidentifier()]
    for variable in names:
        scope.variables[variable] = Arg("", False)


def set_(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    scope.positional = scope.positional or any(not a.text.startswith(("-", "+")) or a.text == "--" for a in rest)


def cd(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    target = next((a for a in rest if a.text == "-" or not a.text.startswith("-")), Arg(HOME))
    told = target.sure and target.text and target.text != "-" and not target.pattern and name != "popd"
    scope.cwd = scope.path(target.text) if told else None


_Rule = Callable[["Judge", str, list[Arg], Scope, "Stdin | None"], None]


def _table(*rows: tuple[_Rule, list[str]]) -> dict[str, list[_Rule]]:
    table: dict[str, list[_Rule]] = {}
    for rule, names in rows:
        for name in names:
            table.setdefault(name, []).append(rule)
    return table


_RULES = _table(
    (wrappers.wrapper, list(runners.WRAPPERS)),
    (wrappers.project_runner, list(runners.RUNNERS)),
    (wrappers.xargs, ["xargs", "gxargs", "parallel"]),
    (shady_flags, list(runners.SHADY)),
    (always_ask, list(known.ALWAYS_ASK)),
    (code.shell, list(known.SHELLS)),
    (code.awk, ["awk", "gawk", "mawk", "nawk", "goawk"]),
    (code.sed, ["sed", "gsed", "ssed"]),
    (code.editor, ["vim", "vi", "nvim", "ex", "view", "gvim", "vimdiff", "ed", "red", "emacs", "less", "more"]),
    (code.language, list(runners.ESCAPES)),
    (git, ["git"]),
    (wrappers.cmake, ["cmake"]),
    (find, ["find", "gfind", "fd", "fdfind"]),
    (files.rm, ["rm", "grm", "unlink", "rmdir"]),
    (files.on_tree, ["chmod", "chown", "chgrp", "setfacl", "chattr"]),
    (files.writer, ["tee", "cp", "gcp", "install", "shred", "truncate", "rsync", "ln", "sponge", "xxd", "scp", "sftp"]),
    (files.writer, ["ddrescue", "fallocate", "touch", "patch"]),
    (files.unpack, ["tar", "gtar", "bsdtar", "unzip", "7z", "7za", "7zr", "cpio"]),
    (files.mv, ["mv", "gmv"]),
    (files.dd, ["dd", "dcfldd", "dc3dd", "gdd"]),
    (machine.systemctl, ["systemctl", "loginctl"]),
    (machine.init, ["init"]),
    (machine.bus, ["busctl", "dbus-send", "gdbus", "qdbus"]),
    (machine.rtcwake, ["rtcwake"]),
    (machine.kill, ["kill"]),
    (machine.pkill, ["pkill", "killall", "skill"]),
    (machine.lends_rights, ["sg", "machinectl", "setpriv"]),
    (reads_names, ["read", "mapfile", "readarray", "printf"]),
    (cd, ["cd", "pushd", "popd"]),
    (source, ["source", "."]),
    (set_, ["set", "shift"]),
    (eval_, ["eval"]),
    (trap, ["trap"]),
    (alias, ["alias"]),
)  # fmt: skip
HAVE_RULES = frozenset(_RULES)
"""Programs of which it is known what they start of what they are given."""
