"""The command ``orkas``: finds the command, loads its room alone, and turns every ending into an exit status.

Exit status: 0 done · 1 failed · 2 wrong usage · 3 no usable credentials · 4 refused by policy · 130 stopped.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from orkas.infra import environment, terminal
from orkas.infra.errors import OrkasError, PolicyError, ProviderError, UsageError, exit_status
from orkas.infra.hiding import hide_memory
from orkas.product.cli import out

__all__ = ["COMMANDS", "STOPPED", "main"]

STOPPED = 130
"""Exit status after Ctrl-C or SIGTERM."""

COMMANDS = {
    "run": "one turn without a terminal: prints the answer, or events as JSON lines",
    "session": "conversations on disk: list, show, search, export, import, fork, rewind, undo, compact, uncompact, "
    "check, repair, delete",
    "request": "show the request the next turn would send; nothing is sent",
    "models": "vendors and models; refresh windows and prices, install the local model",
    "auth": "login, logout, status: store a key or token, forget it, say where keys come from",
    "config": "settings: list, get, set, unset, path",
    "tool": "list the tools, with files of your own; run one as the model would",
    "trash": "files that undo and the file tools took away: list them, put one back (list, restore)",
    "policy": "check what the policy says of a command; list and revoke what was approved for always (grants, revoke)",
    "stats": "what was used: tokens, cost, retries, tools and their errors",
    "doctor": "check this installation",
}
"""Every command and its line of help. Its room is the module of the same name here."""


def main(argv: Sequence[str] | None = None, *, listens: bool = False) -> int:
    """Run one command; returns its exit status. Never raises.

    ``argv`` None: it is this program, and takes what is secret out of its environment. Who calls it with words of its
    own keeps that. ``listens``: Ctrl-C ended the process until now; while this runs it stops the work.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words[: words.index("--")] if "--" in words else "--debug" in words
    try:
        if listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _prepare(withdraw=argv is None)
        status = _dispatch(words, debug=debug)
        sys.stdout.flush()
    except SystemExit as leaving:  # code of the user's own
        status = leaving.code if isinstance(leaving.code, int) else 2
    except KeyboardInterrupt:
        status = STOPPED
    except BrokenPipeError:
        status = 0  # the reader has what it wanted
        terminal.discard_stdout()
    except (OrkasError, OSError) as error:
        status = _tell(error, debug=debug)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a sentence for the user, the log has the rest
        status = _tell_fault(error, debug=debug)
    if listens:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _flushed(status)


def _prepare(*, withdraw: bool) -> None:
    gc.set_threshold(10_000)  # a start makes much that stays, and 700 would have it looked through again and again
    terminal.prepare()
    hide_memory()
    if withdraw:
        environment.withdraw()


def _dispatch(words: list[str], *, debug: bool) -> int:
    from orkas.infra import log

    log.setup(debug=debug)
    while words[:1] == ["--debug"]:
        words = words[1:]
    name = "chat"
    if words and not words[0].startswith("-"):
        name, words = _known(words[0]), words[1:]
    room = import_module(f"orkas.product.cli.{name}")
    try:
        arguments = room.parser().parse_args(words)
    except SystemExit:  # after --help and --version
        return 0
    return int(arguments.do(arguments))


def _known(word: str) -> str:
    if word in COMMANDS:
        return word
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    raise UsageError(
        f"there is no command {word!r}",
        hint=f"did you mean `orkas {near[0]}`?" if near else "`orkas --help` lists them; a prompt goes to `orkas run`",
    )


def _tell(error: OrkasError | OSError, *, debug: bool) -> int:
    if debug:
        out.traceback(error)
    out.error(*_sentence(error))
    match error:
        case UsageError():
            return 2
        case PolicyError():
            return 4
        case ProviderError():
            return exit_status(error.class_)
    return 1


def _sentence(error: OrkasError | OSError) -> tuple[str, str]:
    if isinstance(error, OrkasError):
        return error.message, error.hint
    said = error.strerror or str(error) or type(error).__name__
    if error.filename:
        way = "check who owns it, and its mode" if isinstance(error, PermissionError) else ""
        return f"{error.filename}: {said}", way
    if isinstance(error, FileNotFoundError) and not _folder_is_there():
        return "the current folder is not there any more", "go to another one, or name one with --cwd"
    return f"the output could not be written: {said}", "make room for it, or send it elsewhere"


def _folder_is_there() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - whether there is one, not which
    except OSError:
        return False
    return True


def _tell_fault(error: Exception, *, debug: bool) -> int:
    import logging

    logging.getLogger("orkas.cli").error("a fault of ours", exc_info=error)
    out.error(
        f"a fault in Orkas: {type(error).__name__}: {error}", "" if debug else "run it again with --debug to see where"
    )
    return 1


def _flushed(status: int) -> int:
    """Nothing stays buffered that could fail, with a complaint, while the interpreter ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            if stream is sys.stdout:
                terminal.discard_stdout()
    return status
