"""What the block list says about programs that run code: shells, interpreters, tools with a language of their own."""

from __future__ import annotations

import itertools
import re

from orkas.harness.commands import known, runners
from orkas.harness.commands.awk import pipes_or_runs
from orkas.harness.commands.files import awk_writes, flags_and_targets, sed_writes
from orkas.harness.commands.judge import Judge
from orkas.harness.commands.options import meant
from orkas.harness.commands.scripts import does_more
from orkas.harness.commands.words import Arg, Scope, Stdin
from orkas.harness.commands.wrappers import environment
from orkas.infra.patterns import lazy

__all__ = ["awk", "editor", "interpreter", "language", "sed", "shell"]

_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_ASKS_ONLY = ("--version", "-V", "-v", "--help", "-h")


def shell(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``sh``, ``sh -c TEXT``, ``sh FILE``."""
    code = from_input = False
    i = 0
    while i < len(rest) and rest[i].text[:1] in ("-", "+") and len(rest[i].text) > 1:
        flag, _, value = rest[i].text.partition("=")
        if flag in ("--rcfile", "--init-file"):
            judge.ask("it loads a start-up file of its own")
            i += 1
        elif flag in ("--command", "--commands", "--init-command", "-C") and (value or flag != "-C" or name == "fish"):
            judge.string(Arg(value) if value else rest[i + 1] if i + 1 < len(rest) else Arg("", False), scope)
            i += not value
        elif flag == "--":
            i += 1
            break
        elif not flag.startswith("--"):
            code = code or "c" in flag
            from_input = from_input or "s" in flag
            i += flag.endswith(("o", "O"))
        i += 1
    rest = rest[i:]
    if code:
        judge.string(rest[0] if rest else Arg("", False), scope)
    elif rest and not from_input and rest[0].text not in _INPUT:
        judge.script_file(rest[0], scope)
    elif stdin:
        judge.fed(stdin, scope)


_LONG_CODE = lazy(
    r"--(eval|print|run|execute|expression|exec|interactive-eval|command)(=.*)?|eval|-Command|-EncodedCommand",
    re.DOTALL,
)
_RUN_BY_MODULE = ("timeit", "pdb", "code", "IPython")


def interpreter(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    base = re.sub(r"[\d.]+$", "", name)
    flags = known.CODE_FLAGS.get(base, "c")
    valued = known.CODE_VALUES.get(base, ())
    i = 0
    if base in ("perl", "ruby"):
        _changes_files(judge, rest, scope)
    while i < len(rest):
        text = rest[i].text
        if _gives_code(text, flags, valued):
            if base != "perl" or not _plain_perl(rest[i:]):
                judge.ask(f"{base} runs code from the command line")
            return
        if base in ("python", "pypy") and text.startswith("-m"):
            _module(judge, base, [Arg(text[2:]), *rest[i + 1 :]] if text != "-m" else rest[i + 1 :], scope, stdin)
            return
        if base == "deno" and i == 0:
            return
        i += 1
        if text in valued:
            i += 1
        elif not text.startswith("-") or text == "-":
            if text not in _INPUT:
                judge.script_file(rest[i - 1], scope)
                return
            break
    if stdin is None or any(a.text in _ASKS_ONLY for a in rest):
        return
    code = stdin.text(scope) if stdin.is_document else None
    if code is None:
        judge.ask(f"{base} runs what another program prints or a file holds")
    elif does_more(base, code):
        judge.ask(f"{base} runs code that starts programs or removes files")


def _changes_files(judge: Judge, rest: list[Arg], scope: Scope) -> None:
    """``perl -pi -e CODE FILE…``: it writes to the files."""
    if any(re.match(r"-[a-zA-Z0]*i(\.\w+)?(e|$)", a.text) for a in rest):
        for before, arg in itertools.pairwise(rest):
            if not arg.text.startswith("-") and not re.fullmatch(r"-[a-zA-Z0]*[eE]", before.text):
                judge.writes(arg, scope, changes=True)


def _gives_code(text: str, flags: str, valued: tuple[str, ...]) -> bool:
    """A flag that takes code, alone, in a cluster, or with the code glued to it."""
    if _LONG_CODE.fullmatch(text):
        return True
    if not re.match(r"-[A-Za-z]", text) or text.startswith("-M"):
        return bool(re.match(r"-[mM]", text) and re.search(r"[^\w:=,.-]", text))
    for letter in text[1:]:
        if letter in flags:
            return True
        if "-" + letter in valued or not letter.isalnum():
            return False
    return False


_PLAIN_PERL = lazy(
    r"s([/|#,!])(?:(?!\1|\(\?\??\{)[^\\@`]|\\.)*\1(?:(?!\1)[^\\@`$]|\\.|\$\d)*\1[gimsx]*;?"
    r"|(print )?(if|unless) /(?:(?!\(\?\??\{)[^\\@`/]|\\.)*/[ims]*;?|print;?|print if \$\. ?[<>=]+ ?\d+;?"
)


def _plain_perl(rest: list[Arg]) -> bool:
    """``perl -pe 's/a/b/'``: one substitution or one search, which can run nothing."""
    if not re.fullmatch(r"-[pnli0]*e|-i(\.\w+)?", rest[0].text) or len(rest) < 2:
        return False
    files = rest[2:]
    return bool(_PLAIN_PERL.fullmatch(rest[1].text.strip())) and not any(
        f.text.startswith(("-", "|")) or f.text.endswith("|") for f in files
    )


def _module(judge: Judge, base: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``-m timeit CODE``: ``rest`` begins with the module."""
    module = rest[0].text if rest else ""
    if rest and not rest[0].sure and not module:
        judge.ask(f"which module {base} runs is known only when it runs")
    harmless = module == "pdb" and not any(a.text.startswith(("-c", "--c")) for a in rest)
    if module in ("zipfile", "tarfile") and len(rest) > 2 and any(a.text in ("-e", "--extract") for a in rest):
        judge.writes(rest[-1], scope)
    if module.partition(".")[0] in _RUN_BY_MODULE and (len(rest) > 1 or stdin) and not harmless:
        judge.ask(f"{base} runs code from the command line")


def awk(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    program: list[str] = []
    i = 0
    while i < len(rest) and rest[i].text.startswith("-") and len(rest[i].text) > 1:
        flag = rest[i].text
        glued = flag[2:] if not flag.startswith("--") else flag.partition("=")[2]
        value = Arg(glued) if glued else rest[i + 1] if i + 1 < len(rest) else Arg("")
        kind = flag[:2] if not flag.startswith("--") else flag.partition("=")[0]
        i += 1
        if flag == "--":
            break
        if kind in ("-f", "-E", "--file", "--exec", "-i", "--include"):
            program.append(_awk_file(judge, name, value, scope, stdin))
        elif kind in ("-e", "--source"):
            program.append(value.text)
        elif kind in ("-l", "--load"):
            judge.ask(f"{name} loads an extension")
        elif kind not in ("-F", "-v", "--field-separator", "--assign"):
            continue
        i += not glued
    if not program and i < len(rest):
        if not rest[i].sure:
            judge.ask(f"{name} runs a text that is known only when it runs")
        program.append(rest[i].text)
    for text in program:
        if pipes_or_runs(text):
            judge.ask(f"{name} is told to run another program")
        awk_writes(judge, text, scope)


def _awk_file(judge: Judge, name: str, file: Arg, scope: Scope, stdin: Stdin | None) -> str:
    if file.text in _INPUT:
        text = stdin.text(scope) if stdin else ""
        if text is None:
            judge.ask(f"{name} runs what another program prints or a file holds")
        return text or ""
    judge.script_file(file, scope)
    return ""


_SED_RUNS = lazy(
    r"(^|[;{}\n\d$/!])[ \t]*e(\s|$)|[/|#,][gpiImM0-9]*e[gpiImM0-9]*$"
    r"|(^|[;}])\s*[wW][ \t]+/dev/(sd|nvme)"
)


def sed(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if any(_SED_RUNS.search(a.text) for a in rest):
        judge.ask(f"{name} is told to run another program")
    before = ("", "-e", "-f", "--expression", "--file", "-n", "-i")
    for last, arg in zip([Arg(""), *rest], rest, strict=False):
        wanted = last.text in before if not arg.text else arg.text in ("-e", "-f", "--expression=", "--file=")
        if wanted and not arg.sure:
            judge.ask(f"{name} runs a text that is known only when it runs")
    for i, arg in enumerate(rest[:-1]):
        if arg.text in ("-f", "--file") and rest[i + 1].text in _INPUT and stdin:
            judge.ask(f"{name} runs what another program prints or a file holds")
    sed_writes(judge, rest, scope)


_EDITOR_RUNS = lazy(
    r"\+.*[A-Za-z!:]|-(c|S|s|u|U|es?|l|w|W)$|-c.|-(batch|eval|f|script)$"
    r"|--(cmd|remote|server|eval|batch|script|load|funcall)"
)
_PAGER_RUNS = lazy(r"\+.*[!|]|--(lesskey|cmd)")


def editor(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``vim``, ``emacs``, ``less``: programs for a person, which take commands too."""
    pager = name in ("less", "more")
    runs = _PAGER_RUNS if pager else _EDITOR_RUNS
    for i, arg in enumerate(rest):
        if runs.match(arg.text) or (not pager and name != "emacs" and "!" in arg.text):
            judge.ask(f"{name} is told to run another program")
            inner = rest[i + 1].text if i + 1 < len(rest) and arg.text in ("-c", "--cmd") else arg.text
            if "!" in inner:
                judge.guess(inner.partition("!")[2], scope)
    if stdin and (name in ("ex", "ed", "red") or any(a.text in ("-es", "-e", "-E", "-Es") for a in rest)):
        judge.ask(f"{name} runs what it is fed")
    if name in ("vim", "vi", "nvim", "ex", "ed"):
        for target in flags_and_targets(rest)[1]:
            judge.writes(target, scope, changes=True)


def language(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """Calculators, macro processors, data bases, ``make``: their language has a word that starts a program."""
    runs = runners.ESCAPES[name]
    fed = stdin.text(scope) if stdin else ""
    if fed is None and name == "m4":
        judge.ask("m4 runs what it is fed")
    if any(runs.search(a.text) for a in rest) or (fed and runs.search(fed)):
        judge.ask(f"{name} is told to run another program")
    if name in ("make", "gmake", "ninja", "just"):
        _recipes(judge, name, rest, scope, stdin)


def _recipes(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``make -f FILE``: what it runs stands in this file."""
    for i, arg in enumerate(rest):
        text = arg.text
        if re.match(r"[A-Za-z_]\w*=", text):
            environment(judge, text)
        if meant(text, ("--file", "--makefile", "--justfile")):
            glued = text.partition("=")[2]
        elif text.startswith("-f"):
            glued = text[2:]
        else:
            continue
        file = Arg(glued, arg.sure) if glued else rest[i + 1] if i + 1 < len(rest) else Arg("")
        if file.text in _INPUT and stdin:
            judge.ask(f"{name} runs what it is fed")
        elif file.text not in _INPUT:
            judge.script_file(file, scope)
