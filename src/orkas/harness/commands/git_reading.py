"""The verbs and flags of git that only read. What its settings can start is looked at where the files are known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from orkas.infra.patterns import lazy

if TYPE_CHECKING:
    from orkas.harness.commands.survey import Kind, Piece, Survey

__all__ = ["QUIET", "ROWS", "checks_signatures", "reads"]

_SETTINGS = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null", "diff.ignoreSubmodules": "dirty"}
QUIET = {
    "GIT_CONFIG_PARAMETERS": " ".join(f"'{key}={value}'" for key, value in _SETTINGS.items()),
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""git without what its own settings and hooks could start while it only reads."""

_COMMON = (
    r"-[pqsvzwbarRuMCBnDtmc]+|-[UMCSGLnlX]?\d+(%|,.*)?|--"
    r"(stat(=.*)?|shortstat|numstat|dirstat|summary|name-only|name-status|patch|no-patch|raw|oneline|graph"
    r"|decorate(=\w+)?"
    r"|no-decorate|all|branches(=.*)?|tags(=.*)?|remotes(=.*)?|cached|staged|color(=\w+)?|no-color|word-diff(=\w+)?"
    r"|ignore-all-space|ignore-space-change|ignore-blank-lines|no-renames|find-renames(=.*)?|diff-filter=\w+"
    r"|abbrev(=\d+)?"
    r"|abbrev-commit|no-abbrev-commit|pretty(=.*)?|format=.*|date=.*|since=.*|until=.*|after=.*|before=.*|author=.*"
    r"|committer=.*|grep=.*|max-count=\d+|skip=\d+|follow|first-parent|merges|no-merges|reverse|topo-order|date-order"
    r"|no-ext-diff|no-textconv|exit-code|quiet|check|full-index|minimal|patience|histogram|unified=\d+|merge-base"
    r"|left-right|cherry-pick|no-pager|relative(=.*)?|submodule=(log|short)|ignore-submodules(=all)?|show-signature=no)"
)
ROWS: dict[str, str] = {
    "status": r"-[sbuvz]+|-u(no|normal|all)|--(short|branch|porcelain(=v\d)?|long|verbose|ignored(=\w+)?|show-stash"
    r"|untracked-files(=\w+)?|ahead-behind|no-ahead-behind|no-renames)",
    "diff": _COMMON, "log": _COMMON + r"|-[SGL].+|-i|-E|-F", "show": _COMMON, "whatchanged": _COMMON,
    "shortlog": r"-[sne]+|--(summary|numbered|email|all|no-merges|since=.*|until=.*)",
    "rev-parse": r"--(abbrev-ref|short(=\d+)?|show-toplevel|verify|quiet|git-dir|is-inside-work-tree|show-prefix"
    r"|symbolic-full-name|all|branches|tags|show-cdup|is-bare-repository)|-q",
    "rev-list": r"--(count|all|max-count=\d+|since=.*|until=.*|no-merges|left-right|objects)|-n?\d*",
    "ls-files": r"-[cdmoiskutvz]+|--(cached|deleted|modified|others|ignored|stage|exclude-standard|full-name"
    r"|error-unmatch)",
    "ls-tree": r"-[drtlz]+|--(name-only|full-name|full-tree)",
    "blame": r"-[wltfnsce]+|-L.*|-[MC]+\d*|--(date=.*|porcelain|line-porcelain|show-email)",
    "describe": r"--(tags|all|always|dirty|long|abbrev=\d+|match=.*|exact-match|contains)",
    "branch": r"-[avrl]+|-vv|--(all|remotes|list|show-current|merged|no-merged|contains|sort=.*|format=.*"
    r"|color(=\w+)?)",
    "tag": r"-l|-n\d*|--(list|sort=.*|merged|no-merged|contains|points-at|format=.*)",
    "remote": r"-v|--verbose", "stash": _COMMON, "reflog": r"-n?\d*|--(all|date=.*)",
    "cat-file": r"-[tspe]", "merge-base": r"--(is-ancestor|all|fork-point|octopus)", "name-rev": r"--(name-only|tags)",
    "for-each-ref": r"--(format=.*|sort=.*|count=\d+|merged|contains)", "show-ref": r"--(heads|tags|verify|quiet|hash)",
    "grep": r"-[nilLcwEFGPvqhHrIo]+|-[ABCe]|-[ABC]\d+|--(line-number|ignore-case|count|cached|untracked|name-only"
    r"|files-with-matches|word-regexp|extended-regexp|fixed-strings|perl-regexp|heading|break|show-function"
    r"|color(=\w+)?)",
    "count-objects": r"-[vH]+", "version": r"--build-options", "check-ignore": r"-[vnq]+",
    "config": r"--(list|get|get-all|get-regexp|show-origin|show-scope|name-only|local|global|null)|-[lz]",
    "cherry": r"-v|--abbrev(=\d+)?", "symbolic-ref": r"-q|--(quiet|short)",
    "show-branch": r"-[ar]+|--(all|remotes|current|topo-order|date-order|list|independent|merge-base|sparse|topics)",
    "apply": r"-[zR]|-p\d+|--(stat|numstat|summary|check|reverse)",
    "worktree": r"--porcelain|-v", "diff-tree": _COMMON, "diff-index": _COMMON, "diff-files": _COMMON,
}  # fmt: skip
_BARE_OK = {"branch": 0, "tag": 0, "remote": 0, "version": 0}
"""An argument beside the flags would make something, unless a flag asks for a list."""
_LISTS = lazy(r"-l|--(list|merged|no-merged|contains|points-at)")
_WORDS = {"stash": ("list", "show"), "worktree": ("list",), "reflog": ("show",)}
_TAKE_VALUES = ("log", "show", "diff", "grep", "blame", "rev-list", "reflog")
_VALUED = frozenset({"-n", "-e", "-A", "-B", "-C", "-S", "-G", "-L", "-U"})


def checks_signatures(text: str) -> bool:
    """Whether a format or an order, in an argument or a setting, asks for signatures: another program looks at them."""
    return bool(re.search(r"%[ +-]?G|signature", text))


def reads(survey: Survey, rest: list[Piece]) -> tuple[Kind, str]:
    """A verb that only reads, with flags that do.

    Raises:
        Unknown: anything else.
    """
    from orkas.harness.commands.survey import Unknown

    if len(rest) == 1 and rest[0].fixed and rest[0].text == "--version":
        return "reads", ""
    before = survey.scope.cwd
    try:
        rest = _settle(survey, rest)
        if rest and rest[0].fixed and _names_another_machine(rest[0].text, [p.text for p in rest[1:]]):
            return "beyond", f"git {rest[0].text} reaches the network"
        if not rest or not rest[0].fixed or rest[0].text not in ROWS:
            raise Unknown(f"git {rest[0].text if rest else ''} is not known to only read".replace("  ", " "))
        folder = survey.scope.cwd
        if folder is None or folder.startswith(("/", "..")):
            raise Unknown("git works in another folder, whose settings can run programs")
        survey.works_in(folder)
        verb, args = rest[0].text, rest[1:]
        _only_asks(verb, args, *_sorted(verb, args))
        for piece in args:
            form = "%" in piece.text or piece.text.startswith(("--format", "--pretty", "--sort"))
            if (form and checks_signatures(piece.text)) or (not piece.fixed and piece.text.startswith("-")):
                raise Unknown(f"git {verb} may check signatures, which starts another program")
            survey.read(piece)
    finally:
        survey.scope.cwd = before
    return "reads", ""


_TRANSFERS = frozenset({"push", "fetch", "pull", "clone", "ls-remote", "fetch-pack", "send-pack"})
_ADDRESS = lazy(r"(?!file://)[\w+-]+://.*|[\w.-]+@[\w.-]+:.*", re.DOTALL)


def _names_another_machine(verb: str, words: list[str]) -> bool:
    return verb in _TRANSFERS and any(map(_ADDRESS.fullmatch, words))


def _settle(survey: Survey, rest: list[Piece]) -> list[Piece]:
    """What stands behind the options of git itself; ``-C`` goes to a folder below this one."""
    from orkas.harness.commands.survey import Unknown

    while rest and rest[0].fixed and rest[0].text in ("--no-pager", "--no-optional-locks", "-C"):
        if rest[0].text == "-C":
            if len(rest) < 2 or not rest[1].fixed or not rest[1].text or ".." in rest[1].text.split("/"):
                raise Unknown("git works in another folder, whose settings can run programs")
            survey.read(rest[1])
            survey.scope.cwd = survey.scope.path(rest[1].text)
            rest = rest[1:]
        rest = rest[1:]
    return rest


def _only_asks(verb: str, args: list[Piece], flags: list[str], words: list[str]) -> None:
    """That a verb which can also change something is told not to.

    Raises:
        Unknown: it is not.
    """
    from orkas.harness.commands.survey import Unknown

    if verb == "remote":
        fine = words in ([], ["show"]) or (len(words) == 2 and words[0] == "get-url")
    elif verb in _BARE_OK:
        fine = not words or any(_LISTS.fullmatch(f) for f in flags)
    elif verb in _WORDS:
        fine = (words[:1] or [""])[0] in (*_WORDS[verb], "" if verb == "reflog" else "?")
        fine = fine and (verb != "stash" or args[0].text == words[0])
    elif verb == "config":
        fine = any(f in ("-l", "--list", "--get", "--get-all", "--get-regexp") for f in flags)
        fine = fine or (len(words) == 1 and bool(re.fullmatch(r"[\w-]+(\..+)?\.[\w-]+", words[0])))
    elif verb == "symbolic-ref":
        fine = len(words) == 1
    elif verb == "apply":
        fine = any(f in ("--stat", "--numstat", "--summary", "--check") for f in flags)
    else:
        fine = True
    if not fine:
        raise Unknown(f"git {verb} may change something")


def _sorted(verb: str, args: list[Piece]) -> tuple[list[str], list[str]]:
    """Flags, all of which the row knows, and the rest."""
    from orkas.harness.commands.survey import Unknown

    row = re.compile(ROWS[verb], re.DOTALL)
    flags: list[str] = []
    words: list[str] = []
    only, i = False, 0
    while i < len(args):
        piece = args[i]
        i += 1
        if piece.wild and not only:
            raise Unknown(f"git {verb} with an argument that may be a flag")
        if only or not piece.text.startswith("-"):
            words.append(piece.text)
        elif piece.text == "--":
            only = True
        elif piece.text in _VALUED and piece.fixed and verb in _TAKE_VALUES:
            i += 1
        elif not piece.fixed or not row.fullmatch(piece.text):
            raise Unknown(f"git {verb} with {piece.text[:40]} is not known to only read")
        else:
            flags.append(piece.text)
    return flags, words
