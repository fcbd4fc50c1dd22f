"""What the block list says about single programs: one function a family, and the table that names them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from orkas.harness.commands import known
from orkas.harness.commands.words import HOME, Arg, Scope, Stdin

if TYPE_CHECKING:
    from orkas.harness.commands.danger import Judge

__all__ = ["judge_program", "shown"]


def judge_program(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """What speaks against this program with these arguments; ``stdin`` is what it reads."""
    if name in known.PRIVILEGE:
        judge.deny(f"{name} runs commands with the rights of another user")
    elif name in known.HALT:
        judge.deny(f"{name} stops or restarts the machine")
    elif name.startswith("mkfs") or (name in known.DISK and _changes_disk(rest)):
        judge.deny(f"{name} overwrites a disk")
    elif known.INTERPRETERS.match(name):
        interpreter(judge, name, rest, scope, stdin)
    elif rule := _RULES.get(name):
        rule(judge, name, rest, scope, stdin)
    if name in _WRITERS:
        scope.written |= {path for arg in rest if (path := _file_written(arg, scope))}


# programs that run what they are given


def shell(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``sh``, ``sh -c TEXT``, ``sh FILE``."""
    code = from_input = False
    i = 0
    while i < len(rest) and rest[i].text[:1] in ("-", "+") and len(rest[i].text) > 1:
        flag = rest[i].text
        if flag in ("--rcfile", "--init-file"):
            judge.ask("it loads a start-up file of its own")
            i += 1
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
    elif rest and not from_input and rest[0].text not in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
        judge.script_file(rest[0], scope)
    elif stdin:
        judge.fed(stdin, scope)


def interpreter(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    base = re.sub(r"[\d.]+$", "", name)
    flags = known.CODE_FLAGS.get(base, "c")
    for i, arg in enumerate(rest):
        text = arg.text
        if text in ("--eval", "--print", "--run", "eval", "-Command", "-EncodedCommand") or (
            re.fullmatch(r"-[A-Za-z]+", text) and any(c in flags for c in text[1:])
        ):
            judge.ask(f"{base} runs code from the command line")
            return
        if text.startswith("-") and text not in ("-", "-m"):
            continue
        if text == "-m" or (base == "deno" and i == 0):
            return
        if text not in ("-", "/dev/stdin"):
            judge.script_file(arg, scope)
            return
        break
    if stdin is None or any(a.text in ("--version", "-V", "-v", "--help", "-h") for a in rest):
        return
    code = stdin.text(scope) if stdin.is_document else None
    if code is None:
        judge.ask(f"{base} runs what another program prints or a file holds")
    elif known.SPAWNS.search(code):
        judge.ask(f"{base} runs code that starts programs or removes files")


_ENV_STRING = re.compile(r"(?:-[iv0]*S|--split-string)=?(.*)", re.DOTALL)


def wrapper(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """A program whose arguments are, after its own, another command."""
    takes = known.WRAPPERS[name]
    i = 0
    while i < len(rest):
        text = rest[i].text
        if text == "--":
            i += 1
            break
        if text == "-" and name == "env":
            i += 1
            continue
        if not text.startswith("-") or text == "-":
            if name in ("env", "busybox") and re.match(r"[A-Za-z_]\w*=", text):
                _environment(judge, text)
                i += 1
                continue
            break
        if name == "env" and (found := _ENV_STRING.match(text)):
            words = [a.text for a in rest[i + 1 :]]
            judge.string(Arg(" ".join([found.group(1), *words])), scope)
            return
        if name == "command" and text in ("-v", "-V"):
            return
        i += 2 if text in takes and "=" not in text else 1
    i += known.POSITIONALS.get(name, 0)
    if i + 1 < len(rest) and rest[i].text in ("-c", "--command", "--run"):
        judge.string(rest[i + 1], scope)
    elif i < len(rest):
        judge.run(rest[i:], scope, stdin)


def _environment(judge: Judge, assignment: str) -> None:
    name = assignment.partition("=")[0]
    if known.RISKY_VARIABLES.match(name):
        judge.ask(f"it sets {name}, which can change what later programs run")


def xargs(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    i = 0
    takes = ("-I", "-n", "-L", "-P", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file",
             "--replace", "--max-lines", "-J", "-R", "-S", "-j", "--jobs")  # fmt: skip
    while i < len(rest) and rest[i].text.startswith("-"):
        i += 2 if rest[i].text in takes else 1
    if i >= len(rest):
        if name == "parallel":
            judge.ask("parallel runs lines that another program prints")
        return
    inner = rest[i:]
    if "{}" in inner[0].text:
        judge.ask("which program it runs is known only when it runs")
    fed = _words_fed(stdin, scope)
    if fed is None:
        _unknown_arguments(judge, inner[0].program)
        fed = [Arg("", False)] if inner[0].program in ("rm", "sh", "bash", "env") else []
    judge.run([*inner, *fed], scope)


def _unknown_arguments(judge: Judge, program: str) -> None:
    if program in ("rm", "rmdir", "unlink", "shred", "mv", "dd", "chmod", "chown") or program in known.SHELLS:
        judge.ask(f"{program} gets its arguments from another program")


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
    while rest and re.fullmatch(r"-[HLP]|-O\d", rest[0].text):
        rest = rest[1:]
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
        _removes(judge, roots, scope, "find -delete", narrow=len(words) > 1)
    for flag in ("-fprint", "-fprintf", "-fls", "-fprint0"):
        if flag in words[:-1]:
            judge.writes(tests[words.index(flag) + 1], scope)


def _find_runs(judge: Judge, command: list[Arg], roots: list[Arg], narrow: bool, scope: Scope) -> None:
    if not command:
        return
    if command[0].program in ("rm", "shred", "chmod", "chown", "mv"):
        _removes(judge, roots, scope, f"find and {command[0].program}", narrow=narrow)
    judge.run([a for a in command if a.text != "{}"], scope)


def project_runner(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``uv run …``, ``npm exec …``; behind their other verbs stands no program (``npm run x`` names a script)."""
    verbs = ("exec",) if name in ("npm", "pnpm", "yarn") else ("run", "exec")
    if rest and rest[0].text in verbs:
        words = rest[1:]
        while words and words[0].text.startswith("-"):
            words = words[1:]
        if words:
            judge.run(words, scope, stdin)


# programs that destroy

_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r(e(c(u(r(s(i(v(e)?)?)?)?)?)?)?)?")


def rm(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    flags, targets = _flags_and_targets(rest)
    if "--no-preserve-root" in flags:
        judge.deny("it removes everything, the root folder included")
    vital = any(_is_vital(scope.path(t.text)) for t in targets)
    doubtful = any(not a.sure and not a.text for a in rest)
    if any(_RECURSIVE.fullmatch(f) for f in flags) or (doubtful and vital):
        _removes(judge, targets, scope, "rm", narrow=False)


def on_tree(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``chmod -R`` and the like: the first argument is no path."""
    flags, targets = _flags_and_targets(rest)
    if any(scope.path(t.text) == "/" for t in targets[1:]):
        judge.deny(f"{name} would change the root folder")
    if any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*", f) or f == "--recursive" for f in flags):
        _removes(judge, targets[1:], scope, f"{name} -R", narrow=True)


def mv(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    _, targets = _flags_and_targets(rest)
    _removes(judge, targets[:-1], scope, name, narrow=True)
    if targets:
        judge.writes(targets[-1], scope)


def _removes(judge: Judge, targets: list[Arg], scope: Scope, what: str, *, narrow: bool) -> None:
    """``narrow``: only part of what is below the targets goes."""
    for target in targets:
        path = scope.path(target.text) if target.text else None
        if not target.sure:
            judge.ask(f"{what}: what it touches is known only when it runs")
        elif path is None:
            judge.ask(f"{what}: where it works is not known")
        elif _is_vital(path):
            judge.deny(f"{what} would destroy {shown(target.text)}")
        elif not narrow and path in (".", "*", "./*", ".*"):
            judge.ask(f"{what} would remove everything in the working folder")
        elif path == ".." or path.startswith("../") or (path.startswith("/") and not path.startswith(known.SCRATCH)):
            judge.ask(f"{what} reaches outside the working folder: {shown(target.text)}")


def dd(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    for arg in rest:
        if arg.text.startswith("of="):
            if not arg.sure:
                judge.ask("where dd writes is known only when it runs")
            judge.writes(Arg(arg.text[3:], arg.sure), scope)


def writer(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``tee``, ``cp`` and others that write to the files they are given."""
    _, targets = _flags_and_targets(rest)
    for target in targets if name in ("tee", "shred", "truncate", "sponge") else targets[-1:]:
        judge.writes(target, scope)
    if name == "rsync" and any(a.text.startswith("--del") for a in rest):
        _removes(judge, targets[-1:], scope, "rsync --delete", narrow=True)
    if name == "rsync" and any(a.text == "-e" or a.text.startswith(("--rsh", "--rsync-path")) for a in rest):
        judge.ask("rsync starts a program that it is given")


def systemctl(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    verbs = ("poweroff", "reboot", "halt", "kexec", "soft-reboot", "suspend", "hibernate", "rescue", "emergency")
    verb = next((a.text for a in rest if not a.text.startswith("-")), "")
    if verb in verbs:
        judge.deny(f"{name} {verb} stops or restarts the machine")


def init(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if rest and rest[0].text in ("0", "6", "1", "s", "S"):
        judge.deny("init changes the run level of the machine")


# programs with a way to run others


def shady_flags(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    pattern = known.SHADY[name]
    if any(pattern.search(a.text) for a in rest):
        judge.ask(f"{name} is told to run another program")
    if name == "git" and _git_destroys([a.text for a in rest]):
        judge.ask("git is told to throw work away")


_RUN_ELSEWHERE = ("ssh", "chroot", "nsenter", "unshare", "docker", "podman")


_HARMLESS = frozenset({
    "--help", "--version", "-h", "-V", "-l", "-a", "--list", "version", "info", "ps", "images", "logs", "inspect", "ls",
    "list", "get", "describe", "status", "stats", "top", "history",
})  # fmt: skip


def always_ask(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """A program that only a person can judge, unless it is merely asked for a list."""
    if name not in ("ssh", "mosh") and (rest[0].text in _HARMLESS if rest else name in ("mount", "hash", "enable")):
        return
    judge.ask(known.ALWAYS_ASK[name])
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
    names = [rest[1].text] if name == "printf" else [a.text for a in rest if a.text.isidentifier()]
    for variable in names:
        scope.variables[variable] = Arg("", False)


def set_(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    scope.positional = scope.positional or any(not a.text.startswith(("-", "+")) or a.text == "--" for a in rest)


def cd(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    target = next((a for a in rest if a.text == "-" or not a.text.startswith("-")), Arg(HOME))
    told = target.sure and target.text and target.text != "-" and not target.pattern and name != "popd"
    scope.cwd = scope.path(target.text) if told else None


def _words_fed(stdin: Stdin | None, scope: Scope) -> list[Arg] | None:
    """Arguments that xargs makes of its input; None: not known."""
    text = stdin.text(scope) if stdin else None
    return None if text is None else [Arg(word) for word in text.split()]


def _flags_and_targets(rest: list[Arg]) -> tuple[list[str], list[Arg]]:
    flags, targets = [], []
    over = False
    for arg in rest:
        if arg.text == "--" and not over:
            over = True
        elif arg.text.startswith("-") and len(arg.text) > 1 and not over:
            flags.append(arg.text)
        else:
            targets.append(arg)
    return flags, targets


def _is_vital(path: str | None) -> bool:
    """The root, a folder of the system, the home folder of anybody, or all that is in one of them."""
    if path is None or not path.startswith("/"):
        return False
    parts = path.strip("/").split("/")
    if parts[-1] in ("*", ".*", "**", "{*,.*}", "?*", ".[!.]*", "[!.]*"):
        path = "/" + "/".join(parts[:-1])
    path = path.rstrip("/") or "/"
    if path == "/" or path in known.TOP or re.fullmatch(r"/(home|Users)/[^/]+", path):
        return True
    first = path.split("/")[1]
    return any(c in "*?[" for c in first) and any(fnmatch.fnmatchcase(top, path) for top in known.TOP)


def shown(path: str) -> str:
    return path.replace(HOME, "~", 1)


def _changes_disk(rest: list[Arg]) -> bool:
    """Not merely asked to list."""
    asking = ("-l", "--list", "-h", "--help", "--version", "-V", "list", "status", "print")
    return bool(rest) and not any(a.text in asking for a in rest)


_WRITERS = frozenset({
    "tee", "cp", "mv", "ln", "install", "curl", "wget", "sed", "dd", "base64", "unzip", "tar", "patch", "rsync",
    "truncate",
})  # fmt: skip


def _file_written(arg: Arg, scope: Scope) -> str | None:
    """An argument of one of ``_WRITERS``, taken as a file that it wrote unless it is a flag."""
    text = arg.text.removeprefix("of=").removeprefix("--output=")
    if text.startswith("-o") and len(text) > 2:
        text = text[2:]
    return None if not text or text.startswith("-") or "://" in text else scope.path(text)


def _git_destroys(words: list[str]) -> bool:
    verb = next((w for w in words if not w.startswith("-")), "")
    if verb == "clean":
        return not any(w in ("-n", "--dry-run") for w in words)
    return (verb == "push" and any(w in ("-f", "--force", "--mirror", "--delete") for w in words)) or (
        verb == "reset" and "--hard" in words
    )


_Rule = Callable[["Judge", str, list[Arg], Scope, "Stdin | None"], None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(known.WRAPPERS, wrapper),
    **dict.fromkeys(known.SHADY, shady_flags),
    **dict.fromkeys(known.ALWAYS_ASK, always_ask),
    **dict.fromkeys(known.SHELLS, shell),
    **dict.fromkeys(["xargs", "gxargs", "parallel"], xargs),
    **dict.fromkeys(["find", "gfind", "fd", "fdfind"], find),
    **dict.fromkeys(
        ["uv", "poetry", "pipenv", "pdm", "hatch", "bundle", "conda", "npm", "pnpm", "yarn"], project_runner
    ),
    **dict.fromkeys(["rm", "grm"], rm),
    **dict.fromkeys(["chmod", "chown", "chgrp"], on_tree),
    **dict.fromkeys(["tee", "cp", "install", "shred", "truncate", "rsync", "ln", "sponge"], writer),
    **dict.fromkeys(["read", "mapfile", "readarray", "printf"], reads_names),
    **dict.fromkeys(["cd", "pushd", "popd"], cd),
    **dict.fromkeys(["source", "."], source),
    **dict.fromkeys(["systemctl", "loginctl"], systemctl),
    **dict.fromkeys(["set", "shift"], set_),
    "eval": eval_,
    "trap": trap,
    "alias": alias,
    "mv": mv,
    "dd": dd,
    "init": init,
}
