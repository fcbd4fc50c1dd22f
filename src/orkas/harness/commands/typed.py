"""What is typed into a running job: for one that runs what it is told, each line is a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from orkas.harness.commands.danger import findings_of
from orkas.harness.commands.effects import effects_of
from orkas.harness.commands.known import ALWAYS_ASK, INTERPRETERS, PRIVILEGE, SHELLS

if TYPE_CHECKING:
    from orkas.infra.jobs import Jobs

__all__ = ["Level", "judge_typing", "takes_commands"]

Level: TypeAlias = Literal["allow", "edits", "ask", "deny"]
"""``edits``: asked, unless writing in the working folder is approved."""

_PROMPTS = frozenset({
    "adb", "awk", "bc", "bpython", "busybox", "cmd", "cqlsh", "dc", "duckdb", "ed", "emacs", "ex", "ftp", "gawk", "gdb",
    "lftp", "lldb", "m4", "mawk", "mongo", "mongosh", "mutt", "mysql", "mariadb", "nano", "parallel", "pdb", "psql",
    "redis-cli", "rlwrap", "sftp", "source", "sqlcmd", "sqlite", "sqlite3", "sqlplus", "telnet", "vi", "vim", "nvim",
    "vimdiff", "watch", "xargs", "zellij", "eval", "less", "more", "man", "claude", "codex", "gemini", "orkas", "aider",
    "make", "gmake", "npm", "npx", "pnpm", "yarn", "uv", "poetry", "rails", "django-admin", "manage.py",
})  # fmt: skip
"""Programs that run what is typed, or start one that does, though some only read when nobody types."""
_WORD = re.compile(r"[\w.+-]+")
_QUOTES = re.compile(r"['\"\\]")
_UNTOLD = re.compile(r"(?:^|[\s;&|(])\.{0,2}/|[$`*?\[{]")
"""A program by its path, or words that are others when the shell has read them."""
_HARMLESS_KEYS = frozenset({"ctrl-c", "ctrl-d", "ctrl-\\"})
"""They end a program or its input and say nothing to it."""
_LOOKING = ("list", "read", "stop")


def takes_commands(command: str) -> bool:
    """Whether a job of this command may run what is typed to it. Only programs that are known to take it as data are
    trusted not to: those that read, or write files of the working folder, and start nothing. Too often rather than too
    seldom: also any word that could name a shell or an interpreter counts."""
    command = _QUOTES.sub("", command)
    if _UNTOLD.search(command):
        return True
    for word in _WORD.findall(command.casefold()):
        name = word.removesuffix(".exe")
        if name in SHELLS or name in _PROMPTS or name in ALWAYS_ASK or name in PRIVILEGE or INTERPRETERS.match(name):
            return True
    return effects_of(command).kind not in ("reads", "writes")


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
    found = findings_of(text) if isinstance(text, str) else []
    if denied := [reason for level, reason in found if level == "deny"]:
        return "deny", denied
    return "ask", [*(reason for _, reason in found), f"it types into {job.name}, which runs what it is told"]
