"""What the block list says about git: it can throw work away, and many of its options run programs."""

from __future__ import annotations

import re

from orkas.harness.commands.files import is_vital
from orkas.harness.commands.judge import Judge
from orkas.harness.commands.options import meant
from orkas.harness.commands.words import Arg, Scope, Stdin
from orkas.infra.patterns import lazy

__all__ = ["git", "is_harmless"]

_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--super-prefix")
_HARMLESS_CONFIG = lazy(
    r"(user|author|committer|color|advice|column|status|log|tag|push|fetch|pull|branch|rerere|safe|help|format|notes|gc"
    r"|index|pack|feature|maintenance|rebase|stash|grep|blame|apply|versionsort|checkout|clone|commit|i18n|submodule)"
    r"\.[\w.*/-]+"
    r"|core\.(quotepath|autocrlf|safecrlf|eol|abbrev|filemode|ignorecase|longpaths|symlinks|bare|compression|whitespace"
    r"|precomposeunicode|commentchar|loglevel|logallrefupdates|preloadindex|untrackedcache|sparsecheckout.*|excludesfile"
    r"|repositoryformatversion|bigfilethreshold)"
    r"|init\.defaultbranch|protocol\.version|merge\.(conflictstyle|ff|renames|renamelimit|log|stat|tool)"
    r"|diff\.(renames|renamelimit|noprefix|mnemonicprefix|algorithm|colormoved|context|submodule|wserrorhighlight|tool)"
    r"|http\.(sslverify|postbuffer|lowspeedlimit|lowspeedtime|version|extraheader)"
    r"|remote\.[^=]+\.(url|fetch|pushurl|prune)",
    re.IGNORECASE,
)
"""Settings of git that run nothing; of all others it is not known."""
_CONFIG_RUNS = lazy(
    r"submodule\..*\.update|help\.browser|pull\.(twohead|octopus)|branch\..*\.mergeoptions"
    r"|.*(program|cmd|command|driver|editor|hook)$",
    re.IGNORECASE,
)
_CONFIG_READS = lazy(r"--(get.*|list|name-only|show-.*|unset.*|remove-section|help)|-l|list|get|unset")

_RUNS: dict[str, tuple[str, ...]] = {
    "rebase": ("-x", "--exec"), "grep": ("-O", "--open-files-in-pager"), "difftool": ("-x", "--extcmd", "-t", "--tool"),
    "mergetool": ("-t", "--tool"),
    "clone": ("-u", "--upload-pack", "-c", "--config", "--template"), "init": ("--template",),
    "fetch": ("--upload-pack",), "pull": ("--upload-pack",), "ls-remote": ("--upload-pack", "--exec"),
    "fetch-pack": ("--upload-pack", "--exec"), "push": ("--receive-pack", "--exec"),
    "send-pack": ("--receive-pack", "--exec"), "archive": ("--exec", "--remote"), "diff": ("--ext-diff",),
    "log": ("--ext-diff",), "show": ("--ext-diff",),
    "send-email": ("--smtp-server", "--sendmail-cmd", "--to-cmd", "--cc-cmd"),
    "cat-file": ("--textconv", "--filters"),
}  # fmt: skip
"""The options of a verb that take a program, a configuration or a template with hooks."""
_STRATEGIES = frozenset({"ort", "recursive", "resolve", "octopus", "ours", "subtree"})
"""The ways to merge that git has itself; any other is a program."""
_ALWAYS = frozenset({"filter-branch", "filter-repo", "daemon", "instaweb", "cvsserver", "shell", "upload-pack", "p4",
"remote-ext", "remote-fd"})  # fmt: skip
_KEPT = ("main", "master", "develop", "trunk", "release", "production")


def git(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    folder, rest = _global_options(judge, rest, scope)
    if not rest:
        return
    verb, args = rest[0].text, rest[1:]
    if not rest[0].sure and not verb:
        judge.ask("what git does is known only when it runs")
    _outputs(judge, verb, args, scope)
    if any(re.search(r"(^|=)ext::", a.text) for a in args):
        judge.ask("git is told to run another program (ext::)")
    if verb in _ALWAYS:
        judge.ask(f"git {verb} runs programs or rewrites everything")
    _options_that_run(judge, verb, args, scope)
    _strategies(judge, verb, args)
    _verbs_that_run(judge, verb, args, scope, stdin)
    if verb == "config":
        _config(judge, [a.text for a in args])
    words = [a.text for a in args]
    if _destroys(verb, words):
        if verb in ("clean", "checkout", "restore", "reset") and is_vital(folder):
            judge.deny(f"git {verb} would destroy what is in {folder}")
        judge.ask("git is told to throw work away", seen=True)


def _global_options(judge: Judge, rest: list[Arg], scope: Scope) -> tuple[str | None, list[Arg]]:
    """The folder that git works in, and what stands behind the options of git itself."""
    folder = scope.path(".")
    i = 0
    while i < len(rest) and rest[i].text.startswith("-"):
        text = rest[i].text
        glued = re.fullmatch(r"(-[cC])(.+)|(--[a-z-]+)=(.*)", text, re.DOTALL)
        flag = (glued.group(1) or glued.group(3)) if glued else text
        value = (glued.group(2) or glued.group(4) or "") if glued else rest[i + 1].text if i + 1 < len(rest) else ""
        i += 1 if glued or flag not in _VALUED or flag == "--exec-path" else 2
        if flag in ("-C", "--work-tree"):
            folder = scope.path(value)
        elif flag == "-c" and not is_harmless(value.partition("=")[0]):
            judge.ask("git is told to use a setting that can run another program")
        elif flag in ("--config-env", "--git-dir") or (flag == "--exec-path" and glued):
            judge.ask(f"git is told to take its settings or programs from elsewhere ({flag})")
    return folder, rest[i:]


def is_harmless(setting: str) -> bool:
    """A setting of git that runs nothing, as far as is known."""
    return bool(_HARMLESS_CONFIG.fullmatch(setting)) and not _CONFIG_RUNS.search(setting)


def _config(judge: Judge, words: list[str]) -> None:
    if any(_CONFIG_READS.fullmatch(w) for w in words):
        return
    if any(w in ("-e", "--edit", "edit") for w in words):
        judge.ask("git config starts an editor")
    i = 0
    bare: list[str] = []
    while i < len(words):
        if words[i] in ("-f", "--file", "--type", "--blob", "--default", "--comment", "--value"):
            i += 1
        elif not words[i].startswith("-"):
            bare.append(words[i])
        i += 1
    if bare[:1] == ["set"]:
        bare = bare[1:]
    if len(bare) > 1 and not is_harmless(bare[0]):
        judge.ask(f"git config sets {bare[0]}, which can run another program")


def _options_that_run(judge: Judge, verb: str, args: list[Arg], scope: Scope) -> None:
    for i, arg in enumerate(args):
        text = arg.text
        if text == "--":
            return
        for option in _RUNS.get(verb, ()):
            if (value := _value_of(option, text, _BESIDE.get(verb, ""))) is None:
                continue
            if option in ("-c", "--config"):
                setting = value or (args[i + 1].text if i + 1 < len(args) else "")
                if is_harmless(setting.partition("=")[0]):
                    continue
            shown = option in ("-x", "--exec", "--extcmd", "-u", "--upload-pack", "--receive-pack")
            judge.ask(f"git {verb} is told to run another program ({option})", seen=shown)
            if shown:
                judge.string(Arg(value) if value else args[i + 1] if i + 1 < len(args) else Arg(""), scope)


def _strategies(judge: Judge, verb: str, args: list[Arg]) -> None:
    options = ("-s", "--strategy") if verb in ("merge", "pull", "rebase") else ("--strategy",)
    if verb not in ("merge", "pull", "rebase", "cherry-pick", "revert"):
        return
    for i, arg in enumerate(args):
        for option in options:
            value = _value_of(option, arg.text)
            value = args[i + 1].text if value == "" and i + 1 < len(args) else value
            if value is not None and value not in _STRATEGIES:
                judge.ask(f"git {verb} is told to run another program ({option})")


_BESIDE = {"rebase": "iqvfkmnSr", "grep": "acEFGhHiIlLnopPqrvwWz", "clone": "qvlsn46", "difftool": "ydg"}
"""Short options of a verb behind which another may stand in the same argument."""


def _value_of(option: str, text: str, beside: str = "") -> str | None:
    """What is glued to the option, which may be shortened; ``beside``: letters that may stand before it. None: it is
    another one."""
    if not option.startswith("--"):
        found = re.fullmatch(rf"-[{beside}]*{option[1]}(.*)" if beside else rf"{option}(.*)", text, re.DOTALL)
        return found[1] if found else None
    name, _, value = text.partition("=")
    return value if meant(name, (option,)) else None


_OUTPUTS = ("--output", "--output-directory", "--index-output", "--export-marks")
_MAKES = {"worktree": ("add", "move"), "bundle": ("create",), "clone": (), "init": (), "submodule": ("add",)}


def _outputs(judge: Judge, verb: str, args: list[Arg], scope: Scope) -> None:
    """Files and folders that git is told to write to, beside its own."""
    for i, arg in enumerate(args):
        glued = arg.text.partition("=")[2]
        behind = args[i + 1] if i + 1 < len(args) else Arg("")
        if meant(arg.text, _OUTPUTS, ("--o", "--only", "--ours", "--others", "--objects", "--oneline")):
            judge.writes(Arg(glued, arg.sure) if glued else behind, scope)
        elif verb in ("format-patch", "archive") and arg.text.startswith("-o"):
            judge.writes(Arg(arg.text[2:], arg.sure) if arg.text[2:] else behind, scope)
    if verb in _MAKES:
        bare = [a for a in args if not a.text.startswith("-")]
        if not _MAKES[verb] or (bare and bare[0].text in _MAKES[verb]):
            for target in bare[0 if verb == "init" else 1 :]:
                if target.text.startswith("/") or verb == "bundle":  # a work tree beside the folder is usual
                    judge.writes(target, scope)


def _verbs_that_run(judge: Judge, verb: str, args: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    bare = [i for i, a in enumerate(args) if not a.text.startswith("-")]
    word = args[bare[0]].text if bare else ""
    if (verb, word) == ("submodule", "foreach"):
        judge.ask("git submodule foreach runs a command in each submodule", seen=True)
        behind = [args[i] for i in bare[1:]]
        if len(behind) == 1:
            judge.string(behind[0], scope)
        elif behind:
            judge.run(behind, scope)
    elif (verb, word) == ("bisect", "run"):
        judge.ask("git bisect runs a command again and again", seen=True)
        if args[bare[0] + 1 :]:
            judge.run(args[bare[0] + 1 :], scope, stdin)
    elif (verb, word) == ("hook", "run"):
        judge.ask("git runs a hook")


def _destroys(verb: str, words: list[str]) -> bool:
    short = {c for w in words if re.fullmatch(r"-[A-Za-z]+", w) for c in w[1:]}
    if verb == "clean":
        return "n" not in short and "--dry-run" not in words
    if verb == "push":
        forced = any(w.startswith(("--force", "--mirror", "--delete", "--prune")) for w in words)
        return forced or bool(short & {"f", "d"}) or any(re.match(r"\+|:.", w) for w in words)
    if verb == "reset":
        return any(len(w) > 3 and "--hard".startswith(w) for w in words)
    if verb in ("checkout", "restore", "switch"):
        words = [meant(w, ("--discard-changes", "--force"), ("--f",)) or w for w in words]
        if verb == "restore" and "--staged" in words and not any(w in ("--worktree", "-W") for w in words):
            return False
        return any(w in (".", "./", ":/", "*", "--force", "--discard-changes") for w in words) or "f" in short
    if verb == "branch":
        return "D" in short and any(w in _KEPT for w in words)
    gone = {
        "stash": {"drop", "clear"}, "reflog": {"expire", "delete"}, "update-ref": {"-d", "--stdin"},
        "gc": {"--prune=now", "--prune=all"}, "prune": {"--expire=now"},
    }  # fmt: skip
    return bool(gone.get(verb, set()) & set(words))
