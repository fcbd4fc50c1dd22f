"""``orkas run``: one turn. The answer, and only the answer, goes to stdout; everything about it to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Protocol

from orkas.infra.amounts import counted
from orkas.infra.errors import StorageError, exit_status
from orkas.infra.events import (
    Compaction,
    Done,
    ErrorInfo,
    Event,
    Notice,
    Retry,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    UserInput,
    encode,
)
from orkas.infra.messages import Usage
from orkas.infra.messages import encode as encode_scrubbed
from orkas.infra.terminal import inert, is_tty, label
from orkas.product.cli import out, parsing
from orkas.product.cli.driving import drive, stopping

if TYPE_CHECKING:
    from collections.abc import Callable

    from orkas.app import Agent
    from orkas.harness.sessions.session import Session
    from orkas.infra.messages import Image

__all__ = ["do", "parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas run",
        description="Run one turn: the answer on stdout, what the tools do on stderr.\n"
        "With a prompt and piped input, the input is given to the model as context.",
        example='git diff | orkas run "Write a commit message for this"',
        stray=_stray,
    )
    own.add_argument("prompt", metavar="PROMPT|-", nargs="?", help="what to do; - or nothing: read it from stdin")
    parsing.model_options(own)
    parsing.turn_options(own)
    own.add_argument(
        "--schema", metavar="FILE", help="a JSON Schema: the answer is one JSON object that matches it"
    )
    own.add_argument("--ephemeral", action="store_true", help="keep the conversation in memory alone")
    own.add_argument("--max-cost", metavar="USD", type=parsing.amount, help="limit for the cost of the turn")
    return parsing.common(own, do)


def _stray(words: list[str]) -> str:
    return "" if any(word.startswith("-") for word in words) else 'put the prompt in quotes: orkas run "what to do"'


def do(options: argparse.Namespace) -> int:
    with out.alone() if options.json else nullcontext():
        return _do(options)


def _do(options: argparse.Namespace) -> int:
    from orkas.harness.images import load_image
    from orkas.product.cli.agents import agent_for, session_for
    from orkas.product.cli.stdin import prompt_of

    agent = agent_for(options)
    images = [load_image(path) for path in options.image]
    prompt = prompt_of(options.prompt, alone=bool(images))
    unsaved: list[Done] = []
    ended: list[Done] = []
    with _closing(_told(session_for, options), unsaved) as session:
        agent.session = session
        told = len(session.warnings)
        for text in session.warnings:
            out.warning(text)
        show = JsonLines() if options.json else Plain(data=options.schema is not None)
        status = drive(_turn(agent, prompt, images, show, unsaved, ended))
        for text in session.warnings[told:]:
            out.warning(text)
        vain = _in_vain(options, session, ended)
        if not unsaved and not vain:
            _tell_session(agent)
    if vain:
        from orkas.harness.sessions import shelf

        with suppress(StorageError):  # then it stays; how the turn ended was told
            shelf.delete(session.id)
    return status


def _in_vain(options: argparse.Namespace, session: Session, ended: list[Done]) -> bool:
    """The conversation is new and holds one question, which was never sent because there is no key: it is not kept."""
    if options.session is not None or options.continue_ or session.path is None or len(session.messages) != 1:
        return False
    return any(done.error is not None and done.error.class_ == "auth" and done.error.status is None for done in ended)


@contextmanager
def _closing(session: Session, unsaved: list[Done]) -> Iterator[Session]:
    """The session, closed in the end; that it cannot be saved is not told again where the turn ended with it."""
    try:
        yield session
    except BaseException:
        with suppress(StorageError):
            session.close()
        raise
    try:
        session.close()
    except StorageError:
        if not unsaved:
            raise


def _told(open_session: Callable[[argparse.Namespace], Session], options: argparse.Namespace) -> Session:
    """The session; one that cannot be opened ends the turn before it began, and is told as such to who reads events."""
    try:
        return open_session(options)
    except StorageError as error:
        if options.json:
            failed = ErrorInfo("storage", str(error))
            JsonLines().tell(Done(0, "failed", "", "error", "", options.session or "", 0, Usage(), {}, failed))
        raise


class Show(Protocol):
    def tell(self, event: Event) -> None:
        """Show one event.

        Raises:
            OSError: nobody reads any more, or what is read cannot be written.
        """
        ...


async def _turn(
    agent: Agent, prompt: str, images: list[Image], show: Show, unsaved: list[Done], ended: list[Done]
) -> int:
    """The turn, shown. A reader that left stops it: the session ends whole, as after Ctrl-C.

    ``ended`` takes the end of the turn, ``unsaved`` also that of one that could not be saved.
    """
    done: Done | None = None
    unwritten: OSError | None = None
    try:
        with stopping(agent.stop):
            async with aclosing(agent.stream(prompt, images, headless=True)) as events:
                async for event in events:
                    if isinstance(event, Done):
                        done = event
                    try:
                        if unwritten is None:
                            show.tell(event)
                    except OSError as error:
                        unwritten = error
                        out.discard()
                        agent.stop()
    finally:
        await agent.aclose()
    if unwritten is not None and not isinstance(unwritten, BrokenPipeError):
        raise StorageError(
            f"the output could not be written: {unwritten.strerror}", hint="free space or send it elsewhere"
        )
    assert done is not None, "a turn ends with done"
    ended.append(done)
    if done.error is not None and done.error.class_ == "storage":
        unsaved.append(done)
    return _status(done)


def _status(done: Done) -> int:
    if done.outcome == "aborted":
        return 130
    if done.outcome == "completed":
        return 0
    out.error(done.error.message if done.error else "the turn failed")
    return exit_status(done.error.class_ if done.error else None)


def _tell_session(agent: Agent) -> None:
    """What is not on disk, or where to go on: never a way to resume what was not saved."""
    session = agent.session
    if session.unsaved:
        lost = counted(session.unsaved, "message")
        out.warning(f"the end of the conversation is not saved ({lost}): the disk did not take it")
    elif session.path is not None and is_tty(sys.stderr):
        out.note(f"session {session.id} (go on: orkas run --session {session.id} …)")


class JsonLines:
    """One event a line, out at once."""

    def tell(self, event: Event) -> None:
        try:
            record = encode(event)
        except UnicodeEncodeError:  # half a character in a name or an argument
            record = encode_scrubbed(event)
        out.raw(record)


class Plain:
    """Text as it comes, on stdout; tools and notices, short, on stderr. Thinking is not shown.

    ``data``: the answer is data: only what was found good stands on stdout, once it is.
    """

    def __init__(self, *, data: bool = False) -> None:
        self._data = data
        self._screen = is_tty(sys.stdout)
        self._open = False
        """The last line of text has not ended yet."""

    def tell(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._text("" if self._data else event.text)
            case Done(output=dict()):
                out.data(event.output)
            case ThinkingDelta() | ToolProgress():
                pass
            case _:
                self._end_line()
                _tell_about(event)

    def _text(self, text: str) -> None:
        if text:
            sys.stdout.write(inert(text, screen=self._screen))
            sys.stdout.flush()
            self._open = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._open:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open = False


def _tell_about(event: Event) -> None:
    match event:
        case ToolStart():
            out.note(f"· {event.name} {_brief(event.input)}".rstrip())
        case ToolEnd(is_error=True):
            out.note(f"  {event.name} failed: {label(event.result, 160)}")
        case Retry():
            void = "; what was written of this answer is void" if event.discard else ""
            soon = f"; trying again in {event.wait_s:.0f} s" if event.wait_s else ""
            out.note(f"· {event.reason}{void}{soon}")
        case Compaction():
            how = "summarised" if event.method == "summary" else "folded without a summary"
            out.note(f"· older messages were {how} ({event.tokens_before:,} → {event.tokens_after:,} tokens)")
        case UserInput():
            out.note(f"· said earlier, and sent now: {label(event.text, 160)}")
        case Notice(level="info"):
            out.note(event.text)
        case Notice():
            out.warning(event.text)


def _brief(given: dict[str, Any] | None) -> str:
    """The arguments of a call on one line: the only text as it is, else JSON."""
    values = list((given or {}).values())
    if len(values) == 1 and isinstance(values[0], str):
        return label(values[0], 120)
    return label(encode_scrubbed(given).decode(), 120) if values else ""
