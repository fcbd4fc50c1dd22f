"""What the block list says about programs that remove, change or write files and devices."""

from __future__ import annotations

import fnmatch
import re

from orkas.harness.commands import known, runners
from orkas.harness.commands.judge import Judge
from orkas.harness.commands.options import written_by
from orkas.harness.commands.words import HOME, Arg, Scope, Stdin, shown
from orkas.infra.patterns import lazy

__all__ = [
    "WRITERS", "awk_writes", "dd", "file_written", "find_removes", "flags_and_targets", "is_system", "is_vital", "mv",
    "on_tree", "outputs", "removes", "rm", "sed_writes", "writer",
]  # fmt: skip

_RECURSIVE = lazy(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r(e(c(u(r(s(i(v(e)?)?)?)?)?)?)?)?")


def rm(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``rm``, ``unlink``, ``rmdir``, with folders in them or not."""
    flags, targets = flags_and_targets(rest)
    if "--no-preserve-root" in flags:
        judge.deny("it removes everything, the root folder included")
    vital = any(is_vital(scope.path(t.text)) for t in targets)
    if vital or any(_RECURSIVE.fullmatch(f) for f in flags):
        removes(judge, targets, scope, name, narrow=False)
        return
    for target in targets:
        path = scope.path(target.text) if target.text else None
        if path and is_system(path):
            judge.deny(f"{name} would remove {path}, which belongs to the system")
        elif path and path.startswith((HOME + "/", *known.SYSTEM, "/var/", "/home/")) and _outside(path):
            judge.ask(f"{name} reaches outside the working folder: {shown(target.text)}", seen=True)


def removes(judge: Judge, targets: list[Arg], scope: Scope, what: str, *, narrow: bool) -> None:
    """``narrow``: only part of what is below the targets goes."""
    for target in targets:
        path = scope.path(target.text) if target.text else None
        if not target.sure:
            judge.ask(f"{what}: what it touches is known only when it runs", seen=True)
        elif path is None:
            judge.ask(f"{what}: where it works is not known", seen=True)
        elif is_vital(path) or (not narrow and is_system(path)):
            judge.deny(f"{what} would destroy {shown(target.text)}")
        elif not narrow and path in (".", "*", "./*", ".*"):
            judge.ask(f"{what} would remove everything in the working folder", seen=True)
        elif not narrow and path.rpartition("/")[2].casefold() == ".git":
            judge.ask(f"{what} would remove the history of a repository", seen=True)
        elif path == ".." or path.startswith("../") or (path.startswith("/") and _outside(path)):
            judge.ask(f"{what} reaches outside the working folder: {shown(target.text)}", seen=True)


def _outside(path: str) -> bool:
    return not path.startswith(known.SCRATCH)


def find_removes(judge: Judge, command: list[Arg], roots: list[Arg], scope: Scope, *, narrow: bool) -> None:
    """What ``find`` starts for each file removes or changes it, be it in the text of a shell."""
    program = command[0].program
    if program in known.SHELLS | {"env", "xargs", "busybox", "toybox"}:
        found = re.search(r"\b(rm|unlink|shred|chmod|chown|mv|truncate)\b", " ".join(a.text for a in command[1:]))
        program = found.group() if found else program
    if program in ("rm", "grm", "unlink", "rmdir", "shred", "chmod", "chown", "chgrp", "mv", "truncate"):
        removes(judge, roots, scope, f"find and {program}", narrow=narrow)


def on_tree(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``chmod -R`` and the like: the first argument is no path."""
    flags, targets = flags_and_targets(rest)
    if name in ("setfacl", "chattr"):
        targets = [Arg(""), *[t for t in targets if "/" in t.text or t.text == "."]]
    if any(scope.path(t.text) == "/" for t in targets[1:]):
        judge.deny(f"{name} would change the root folder")
    if any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*", f) or f == "--recursive" for f in flags):
        removes(judge, targets[1:], scope, f"{name} -R", narrow=True)
    if name == "chmod" and targets and re.match(r"[0-7]*[2-7][0-7]{3}$|.*[+=][rwxXt]*s", targets[0].text):
        judge.ask("chmod lets a program run with the rights of its owner", seen=True)
    for target in targets[1:]:
        judge.writes(target, scope, changes=True)


def mv(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    _, targets = flags_and_targets(rest)
    into = any(a.text.startswith(("-t", "--t")) for a in rest)
    removes(judge, targets if into else targets[:-1], scope, name, narrow=True)
    if targets:
        judge.writes(targets[-1], scope)


def dd(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    for arg in rest:
        if arg.text.startswith("of="):
            if not arg.sure and arg.text[3:]:
                judge.ask(f"where {name} writes is known only when it runs", seen=True)
            judge.writes(Arg(_at_home(arg.text[3:]), arg.sure), scope)


_WRITES_ALL = (
    "tee", "shred", "truncate", "sponge", "touch", "fallocate", "mknod", "mkfifo", "ex", "ed", "csplit",
)  # fmt: skip


def writer(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``tee``, ``cp`` and others that write to the files they are given."""
    flags, targets = flags_and_targets(rest)
    for target in targets if name in _WRITES_ALL else targets[-1:]:
        if name != "xxd" or any("r" in f for f in flags):
            judge.writes(target, scope)
    if name == "rsync" and any(a.text.startswith("--del") for a in rest):
        removes(judge, targets[-1:], scope, "rsync --delete", narrow=True)
    if name in ("rsync", "scp", "sftp"):
        _remote_copy(judge, name, rest)


def _remote_copy(judge: Judge, name: str, rest: list[Arg]) -> None:
    asked = ("-e", "--rsh", "--rsync-path") if name == "rsync" else ("-S", "-F", "-D", "-J")
    command = re.compile(r"(-o)?\s*(proxycommand|localcommand|permitlocalcommand|knownhostscommand|include)", re.I)
    if any(a.text.startswith(asked) or re.match(r"-[a-z]+e$", a.text) or command.match(a.text) for a in rest):
        judge.ask(f"{name} starts a program that it is given")


_OUTPUT = lazy(
    r"(?:--(?:out[\w-]*|directory-prefix|target[\w-]*|dump-header|cookie-jar|trace|install[\w-]*)|-[A-Za-z]*[oOtP]|-out)"
    r"=?(.*)",
    re.DOTALL,
)


def outputs(judge: Judge, name: str, rest: list[Arg], scope: Scope) -> None:
    """Options that name a file or a folder to write to, as most programs spell them: ``-o``, ``--output``, ``-t``."""
    for text in written_by(name, [a.text for a in rest]):
        if name != "ssh-keygen" or not any(re.match(r"-[lyFBeLHR]", a.text) for a in rest):
            judge.writes(Arg(_at_home(text)), scope)
    if name in runners.READERS - runners.COMPILERS:
        return
    for i, arg in enumerate(rest):
        found = _OUTPUT.fullmatch(arg.text) if arg.text.startswith("-") else None
        if not found or (name in ("sort", "ssh", "docker", "split") and arg.text.startswith("-t")):
            continue
        if found.group(1):
            judge.writes(Arg(_at_home(found.group(1)), arg.sure), scope)
        elif i + 1 < len(rest) and not rest[i + 1].text.startswith("-"):
            judge.writes(rest[i + 1], scope)


def _at_home(text: str) -> str:
    return HOME + text[1:] if text.startswith("~/") else text


def sed_writes(judge: Judge, rest: list[Arg], scope: Scope) -> None:
    in_place = any(re.match(r"-[nErsuz]*i|--in-place", a.text) for a in rest)
    script_by_option = any(re.match(r"-[nErsuz]*[ef]|--(expression|file)", a.text) for a in rest)
    files = flags_and_targets(rest)[1]
    for file in (files if script_by_option else files[1:]) if in_place else []:
        judge.writes(file, scope, changes=not file.text)
    for arg in rest:
        for path in re.findall(r"(?:^|[\s;}/\d$,|#])[wW]\s*(/[^\s;}]+)", arg.text):
            if path.startswith(("/etc", "/dev", "/usr", "/bin", "/root", "/boot", "/home", "/lib", "/proc", "/sys")):
                judge.writes(Arg(path), scope)
        for path in re.findall(r"(?:^|[\s;}/\d$,|#gpI])[wW]\s+(\.\./[^\s;}]+)", arg.text):
            judge.writes(Arg(path), scope)


def awk_writes(judge: Judge, program: str, scope: Scope) -> None:
    for path in re.findall(r'>\s*"((?:[/~]|\.\./)[^"]*)"', program):
        judge.writes(Arg(path), scope)


def flags_and_targets(rest: list[Arg]) -> tuple[list[str], list[Arg]]:
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


def is_vital(path: str | None) -> bool:
    """The root, a folder of the system, the home folder of anybody, or all that is in one of them."""
    if path is None or not path.startswith("/"):
        return False
    parts = path.strip("/").split("/")
    if parts[-1] in ("*", ".*", "**", "{*,.*}", "?*", "*.*", ".[!.]*", "[!.]*"):
        path = "/" + "/".join(parts[:-1])
    path = path.rstrip("/") or "/"
    if path == "/" or path in known.TOP or re.fullmatch(r"/(home|Users)/[^/]+", path):
        return True
    first = path.split("/")[1]
    return any(c in "*?[" for c in first) and any(fnmatch.fnmatchcase(top, path) for top in known.TOP)


def is_system(path: str) -> bool:
    """A file of the operating system itself, not of what was installed beside it."""
    return path.startswith(known.SYSTEM_FILES) and not path.startswith("/usr/local/")


WRITERS = frozenset({
    "tee", "cp", "mv", "ln", "install", "curl", "wget", "sed", "dd", "base64", "unzip", "tar", "patch", "rsync",
    "truncate",
})  # fmt: skip


def file_written(arg: Arg, scope: Scope) -> str | None:
    """An argument of one of ``WRITERS``, taken as a file that it wrote unless it is a flag."""
    text = arg.text.removeprefix("of=").removeprefix("--output=")
    if text.startswith("-o") and len(text) > 2:
        text = text[2:]
    if "://" in text:  # what is fetched lies under the last part of its address
        text = re.split(r"[?#]", text, maxsplit=1)[0].rpartition("/")[2]
    return None if not text or text.startswith("-") else scope.path(text)
