"""Arguments that put another program, configuration or folder in the place of the one that a rule means: what a rule
allows of a command is not allowed with them. Long options count in every shortened form."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

import msgspec

from orkas.harness.commands import known, runners
from orkas.harness.commands.known import is_git
from orkas.harness.commands.reading import NETWORK

__all__ = ["behind_runner", "replaces"]


class _Row(msgspec.Struct, frozen=True):
    """Options of a program beside those that say the same of every program."""

    long: tuple[str, ...] = ()
    short: str = ""
    """Letters that replace, wherever they stand in a cluster."""
    valued: str = ""
    """Letters that take a value, so that what is behind them is no letter."""
    other: str = r"(?!)"
    """Whatever else does, as a pattern of the whole argument."""


def _row(long: str = "", short: str = "", valued: str = "", other: str = r"(?!)") -> _Row:
    return _Row(tuple(long.split()), short, valued, other)


_EVERYWHERE = re.compile(
    r"--?(?:[\w-]*[-_])?(?:config|configs|cfg|kubeconfig|config-?file|rc-?file|settings|shell|exec|exec-?path|executable|command"
    r"|cmd|program|wrapper|launcher|linker|plugin|plugins|preload|require|import|loader|eval|script|hook|pager|editor"
    r"|prefix|cwd|chdir|directory|dir|root|root-?dir|work-?dir|base-?dir|out-?dir|output|makefile|manifest-?path"
    r"|node-?options|env-?file|interpreter|registry|index-url|toolchain|sysroot|plugins?-?dir|workspace-?root)",
    re.IGNORECASE,
)
"""Long options, with one dash or two, by the way in which most programs call them."""
_SAFE = frozenset({"--co", "--no-config", "--no-shell", "--no-plugins", "--command-timeout"})
"""Whole names that look as if they replaced something."""

_MAKE = _row("file makefile directory include-dir eval", "fCIE", "jlOoW")
_NODE = _row(
    "script-shell prefix node-options dir cwd userconfig globalconfig init-module call shell use-node-version "
    "modules-dir global-dir",
    "Cc", "wFp",
)  # fmt: skip
_TAR = _row(
    "use-compress-program info-script new-volume-script to-command rsh-command rmt-command checkpoint-action directory "
    "absolute-names one-top-level transform xform index-file remove-files volno-file",
    "CIFPg", "fbHKLNTVX",
)  # fmt: skip
_CC = _row(other=r"-wrapper.*|-fplugin.*|--?specs.*|-B.*|-Xclang|-load|-fuse-ld=.*|-Xassembler|-Xlinker|-Wl,.*|-Wa,.*"
    r"|-fpass-plugin.*|-iplugindir.*|-ld-path.*|@.*")  # fmt: skip
_PYTEST = _row(
    "rootdir confcutdir config-file basetemp junit-xml junitxml override-ini pdbcls debug log-file cov-config",
    "pco", "kmnrW",
)  # fmt: skip
_ADDRESS = r"[\w+-]+://.*|[\w.-]+@[\w.-]+:.*"
_ROWS: dict[str, _Row] = {
    **dict.fromkeys(["make", "gmake"], _MAKE),
    "ninja": _row("", "fC", "jkld"),
    "just": _row("shell justfile working-directory shell-arg set command chooser dotenv-path", "fdc"),
    **dict.fromkeys(["npm", "pnpm", "yarn", "bun"], _NODE),
    **dict.fromkeys(["tar", "gtar", "bsdtar"], _TAR),
    "cargo": _row("config manifest-path target-dir out-dir artifact-dir lockfile-path", "CZ", "jpF"),
    "go": _row(
        other=r"--?(exec|toolexec|vettool|C|overlay|modfile|pkgdir|(ld|gc|asm|gccgo)flags|compiler)(=.*)?"
    ),
    **dict.fromkeys(["gcc", "g++", "cc", "c++", "clang", "clang++"], _CC),
    "rustc": _row("sysroot codegen", "CZ", "oLl"),
    **dict.fromkeys(["pytest", "py.test"], _PYTEST),
    "cmake": _row(
        "toolchain", "PEC", "SBGDU",
        r"-D\w*(COMPILER|LAUNCHER|PROGRAM|LINKER|TOOLCHAIN|INCLUDE|EXECUTABLE)\w*(:\w+)?=.*",
    ),
    **dict.fromkeys(["eslint", "prettier", "stylelint"], _row(
        "rulesdir resolve-plugins-relative-to plugin parser format", "cfo",
    )),
    "tsc": _row("project build", "pb"),
    **dict.fromkeys(["jest", "vitest", "mocha", "ava"], _row(
        "config rootDir globalSetup globalTeardown setupFiles setupFilesAfterEnv transform testEnvironment runner "
        "reporters resolver require reporter", "crR", "tgk",
    )),
    "mvn": _row("file settings global-settings toolchains", "fsgt", "DPpl"),
    "gradle": _row("build-file settings-file init-script project-dir gradle-user-home include-build", "bcIpg", "Dx"),
    "rake": _row("rakefile require execute execute-print rakelib libdir load-system", "frepRIE"),
    "tox": _row("override workdir root conf", "cx", "e"),
    "nox": _row("noxfile", "f", "sekt"),
    "pre-commit": _row("config", "c"),
    "terraform": _row(other=r"--?(chdir|plugin-dir|state|backend-config)(=.*)?"),
    "hg": _row("config repository cwd", "R"),
    "svn": _row("config-option config-dir editor-cmd diff-cmd diff3-cmd"),
    "bundle": _row("gemfile path"),
    "composer": _row("working-dir", "d"),
    "uv": _row("with with-requirements with-editable python project directory config-file env-file from", "p"),
    "zip": _row("unzip-command move", "TmO", "x"),
    "unzip": _row("", "d"),
    "rsync": _row("rsh rsync-path config partial-dir", "e"),
    **dict.fromkeys(["curl", "wget"], _row("config proxy unix-socket engine use-askpass execute", "KUe", "XHAdboOu")),
    "git rebase": _row("exec strategy", "xs", "XC"),
    "git merge": _row("strategy", "s", "mXF"),
    "git pull": _row("strategy upload-pack", "s", "X", _ADDRESS),
    "git cherry-pick": _row("strategy", "", "m"),
    "git revert": _row("strategy", "", "m"),
    "git fetch": _row("upload-pack", other=_ADDRESS),
    "git push": _row("receive-pack exec repo", "", "o", _ADDRESS),
    "git archive": _row("output remote exec", "o"),
    "git apply": _row("unsafe-paths directory"),
    "git am": _row("directory", "", "p"),
    "git format-patch": _row("output-directory", "o"),
    "git clone": _row("upload-pack config template separate-git-dir bundle-uri", "uc", "bjo"),
    "git init": _row("template separate-git-dir"),
    "git grep": _row("open-files-in-pager", "O", "eABCfm"),
    "git difftool": _row("extcmd tool gui", "xtg"),
    "git mergetool": _row("tool gui", "tg"),
    "git worktree": _row("", "", "bB"),
}  # fmt: skip
_ASSIGNS = frozenset({"make", "gmake", "cmake", "just", "ninja", "rake", "task"})
"""Programs to which ``NAME=value`` is a variable of a recipe, which may name what it runs."""
_PLAIN_VALUE = re.compile(r"[\w.,:+-]*")
_OF_MAKE = re.compile(r"\.?SHELL(FLAGS)?|(GNU)?M(AKE)?FLAGS|MAKE(FILES|OVERRIDES)?|.*(EVAL|COMMAND|CMD)", re.IGNORECASE)
_AWAY = re.compile(r"(?:-{0,2}[\w.-]+=|-[A-Za-z]*|@)?(?:/|~|\.\.(?:/|$)).*|.*/\.\.(?:/.*|$)", re.DOTALL)
_TAME = re.compile(r"-[sSfLivkI46]+|--(silent|show-error|fail|location|include|verbose|compressed|head)")


def replaces(words: Sequence[str], argv: Sequence[str]) -> bool:
    """Whether ``argv``, which begins with the words of a rule, goes on with something that the rule does not mean."""
    runner = behind_runner(argv)
    if runner >= len(words):
        return True
    inner, extra, own = argv[runner:], argv[len(words) :], len(words) - runner
    name = _name(inner[0]) if inner else ""
    if _is_script(name, inner, own):
        return False
    if name in NETWORK and len(words) > 1 and not all(map(_TAME.fullmatch, extra)):
        return True
    if any(_AWAY.fullmatch(arg) or any(map(is_git, re.split(r"[/=]", arg))) for arg in extra):
        return True
    if name in _ASSIGNS and any(map(_odd_assignment, extra)):
        return True
    return _any_odd(_row_of(name, inner), extra, old_style=name in ("tar", "gtar", "bsdtar") and own == 1)


def behind_runner(argv: Sequence[str]) -> int:
    """Where the program begins that a runner of projects or ``python -m`` starts; 0: it is none."""
    name = _name(argv[0])
    if known.INTERPRETERS.match(name) and len(argv) > 2 and argv[1] == "-m":
        return 2
    if name not in runners.RUNNERS:
        return 0
    valued, verbs = runners.RUNNERS[name]
    at = _next(argv, 1, valued)
    if verbs:
        if at >= len(argv) or argv[at] not in verbs:
            return 0
        at = _next(argv, at + 1, valued)
    return min(at, len(argv))


def _next(argv: Sequence[str], at: int, valued: Sequence[str]) -> int:
    """The next argument that is no option."""
    while at < len(argv) and argv[at].startswith("-"):
        if argv[at] == "--":
            return at + 1
        at += 2 if argv[at] in valued else 1
    return at


def _name(program: str) -> str:
    return posixpath.basename(program).casefold()


def _is_script(name: str, argv: Sequence[str], own: int) -> bool:
    """A script that the rule names: what its arguments mean is its own affair."""
    if argv and "/" in argv[0] and not argv[0].startswith("/"):
        return True
    runs = known.INTERPRETERS.match(name) or name in known.SHELLS
    return bool(runs) and any(not arg.startswith("-") for arg in argv[1:own])


def _row_of(name: str, argv: Sequence[str]) -> _Row:
    return _ROWS.get(f"git {argv[1]}" if name == "git" and len(argv) > 1 else name, _row())


def _any_odd(row: _Row, extra: Iterable[str], *, old_style: bool = False) -> bool:
    for at, arg in enumerate(extra):
        if arg == "--":
            return False
        if _is_odd(row, arg) or (old_style and at == 0 and not arg.startswith("-") and _letter(row, arg)):
            return True
    return False


def _is_odd(row: _Row, arg: str) -> bool:
    name = arg.partition("=")[0]
    if re.fullmatch(row.other, arg, re.DOTALL):
        return True
    if not arg.startswith("-") or name in _SAFE:
        return False
    if _EVERYWHERE.fullmatch(name):
        return True
    if arg.startswith("--"):
        return len(name) > 2 and any(f"--{long}".casefold().startswith(name.casefold()) for long in row.long)
    return _letter(row, arg[1:])


def _letter(row: _Row, cluster: str) -> bool:
    """A letter that replaces something, before one behind which a value begins."""
    for letter in cluster:
        if letter in row.short:
            return True
        if letter in row.valued or not letter.isalpha():
            return False
    return False


def _odd_assignment(arg: str) -> bool:
    name, equals, value = arg.partition("=")
    name = name.rstrip(":+?!")
    if not equals or name.startswith("-") or not re.fullmatch(r"[\w.]+", name):
        return False
    return bool(_OF_MAKE.fullmatch(name)) or not _PLAIN_VALUE.fullmatch(value) or ".." in value
