"""What is typed into a running job: for one that may run what it is told, each line is a command.

A list of those who run what they read is never complete, so it is the other way round: who is not known to take data
may run it, and only an answer that is no command to anybody passes as what it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from orkas.harness.commands.danger import judged
from orkas.harness.commands.effects import effects_of
from orkas.harness.commands.known import ALWAYS_ASK, INTERPRETERS, PRIVILEGE, SHELLS

if TYPE_CHECKING:
    from orkas.infra.jobs import Jobs

__all__ = ["Level", "judge_typing", "takes_commands"]

Level: TypeAlias = Literal["allow", "edits", "ask", "deny"]
"""``edits``: asked, unless writing in the working folder is approved."""

_PROMPTS = frozenset({
    "--debug", "--debugger", "--interactive", "--pdb", "--trace", "-i", "adb", "aider", "awk", "bc", "bconsole",
    "bpython", "busybox", "cgdb", "claude", "clj", "clojure", "codex", "console", "cqlsh", "dbshell", "dc", "debug",
    "debugger", "deno", "duckdb", "ed", "emacs", "eval", "ex", "fdisk", "ftp", "gawk", "gdb", "gemini", "ghci",
    "gs", "htop", "inspect", "ipdb", "jdb", "kak", "lein", "less", "lftp", "lldb", "lynx", "m4", "man", "mariadb",
    "mawk", "maxima", "mc", "micro", "mongo", "mongosh", "more", "most", "mutt", "mysql", "nano", "nawk", "nvim",
    "ocaml", "orkas", "parallel", "parted", "pdb", "pg", "psql", "ranger", "red", "redis-cli", "repl", "rlwrap",
    "sage", "screen", "script", "sftp", "shell", "source", "sqlcmd", "sqlite", "sqlite3", "sqlplus", "tclsh",
    "telnet", "tig", "top", "toybox", "utop", "vi", "view", "vifm", "vim", "vimdiff", "w3m", "watch", "xargs",
    "zellij",
})  # fmt: skip
"""Words of a command line behind which stands somebody who runs what is typed: with them not even a yes is plain."""
_WORD = re.compile(r"[\w.+-]+")
_QUOTES = re.compile(r"['\"\\]")
_UNTOLD = re.compile(r"[$`*?\[{]")
"""Words that are others when the shell has read them."""
_PLAIN = re.compile(r"[ \t]*(?:[yYnN]|yes|no|Yes|No|YES|NO|[0-9]{1,4})?[ \t]*")
"""What answers a question and, whoever gets it, says nothing else."""
_HARMLESS_KEYS = frozenset({"ctrl-c", "ctrl-d", "ctrl-\\"})
"""They end a program or its input and say nothing to it."""
_LOOKING = ("list", "read", "stop")


def takes_commands(command: str) -> bool:
    """Whether a job of this command may run what is typed to it, or start somebody who does: all but those of which it
    is known that what they read is data to them."""
    effects = effects_of(command)  # what is in the tables, flag by flag, starts nothing but a pager
    return effects.kind not in ("reads", "writes") or "git" in effects.programs


def _is_prompt(command: str) -> bool:
    """Whether somebody who runs what is typed is named in it. Too often rather than too seldom: any word counts."""
    command = _QUOTES.sub("", command)
    if _UNTOLD.search(command):
        return True
    for word in _WORD.findall(command.casefold()):
        name = word.removesuffix(".exe")
        if name in SHELLS or name in _PROMPTS or name in ALWAYS_ASK or name in PRIVILEGE or INTERPRETERS.match(name):
            return True
    return False


def _is_plain(text: object, keys: object) -> bool:
    """A yes, a no, a number or an empty line."""
    if text is not None and not (isinstance(text, str) and all(_PLAIN.fullmatch(one) for one in text.split("\n"))):
        return False
    return keys is None or (isinstance(keys, list) and set(map(str, keys)) <= _HARMLESS_KEYS | {"enter"})


def judge_typing(arguments: Mapping[str, Any], jobs: Jobs | None) -> tuple[Level, list[str]]:
    """Judge a call of ``shell_job``. What a wrong call is, the tool says."""
    if arguments.get("action") in _LOOKING or jobs is None:
        return "allow", []
    job = next((job for job in jobs.listed() if job.name == str(arguments.get("job")).strip()), None)
    text, keys = arguments.get("text"), arguments.get("keys")
    if job is None or (not text and isinstance(keys, list) and set(map(str, keys)) <= _HARMLESS_KEYS):
        return "allow", []
    if not takes_commands(job.command):
        if job.beyond:
            return "ask", [f"it types into {job.name}, which runs beyond the sandbox"]
        return "edits", [f"it types into {job.name}"]
    if _is_plain(text, keys) and not job.beyond and not _is_prompt(job.command):
        return "edits", [f"it answers {job.name}"]
    found = judged(text).findings if isinstance(text, str) else ()
    if denied := [finding.reason for finding in found if finding.level == "deny"]:
        return "deny", denied
    asked = dict.fromkeys(finding.reason for finding in found)
    return "ask", [*asked, f"it types into {job.name}, which runs what it is told"]
