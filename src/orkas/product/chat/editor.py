"""Where the user types: one call, one whole input, of one line or many.

``PromptEditor`` stands on prompt_toolkit; ``LineEditor`` on ``input()`` with readline, for dumb terminals, pipes and
installs without the extra. Both raise ``EOFError`` when there is no more, ``KeyboardInterrupt`` for Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orkas.infra.messages import well_formed
from orkas.product.chat.history import History
from orkas.product.chat.words import continues

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

__all__ = ["Editor", "LineEditor", "PromptEditor", "completions", "continues", "quiet"]

_AT = re.compile(r"(?:^|\s)@(\S*)$")
_MOST = 200
"""File names offered at once."""
_AHEAD = 0.1
"""Seconds after the prompt appeared in which keys were pressed before it did."""
_PASTED = 0.02
"""Seconds in which the next line of a paste is there; what was waiting before the prompt are inputs of their own."""
_BURST = 0.01
"""Seconds between two keys that no hand is fast enough for."""


class Editor(Protocol):
    async def read(self, prompt: str, begun: str = "") -> str:
        """One input. ``begun``: what was typed of it before the prompt was there."""
        ...

    def remember(self, text: str) -> None:
        """An input that was typed elsewhere belongs to the history too."""
        ...

    def leave(self, error: BaseException) -> None:
        """Make a running ``read`` raise ``error``; called in the loop's thread."""
        ...


def completions(
    text: str, cwd: Path, commands: Iterable[str], values: Callable[[str], Iterable[str]] = lambda _: ()
) -> list[tuple[str, str]]:
    """What may stand at the end of ``text``: pairs of the part that is replaced and what replaces it.

    ``values``: what may follow a command.
    """
    if found := re.fullmatch(r"(/\w+) (\S*)", text):
        return [(found[2], value) for value in values(found[1]) if value.startswith(found[2])]
    if text.startswith("/") and "\n" not in text and " " not in text:
        return [(text, name) for name in commands if name.startswith(text)]
    if found := _AT.search(text):
        return [(found[1], name) for name in _files(found[1], cwd)]
    return []


def _files(typed: str, cwd: Path) -> list[str]:
    """Paths below the working folder that begin as ``typed``; folders end with a slash."""
    folder, _, start = typed.rpartition("/")
    top = f"{folder}/" if folder or typed.startswith("/") else ""
    names = []
    with contextlib.suppress(OSError), os.scandir(cwd / (top or ".")) as entries:
        for entry in entries:
            hidden = entry.name.startswith(".") and not start.startswith(".")
            if entry.name.startswith(start) and not hidden and entry.name.isprintable():
                names.append(top + entry.name + ("/" if entry.is_dir() else ""))
    return sorted(names)[:_MOST]


@contextlib.contextmanager
def quiet(descriptor: int) -> Iterator[None]:
    """Keys pressed while a turn runs are not echoed into its output; each can be read at once.

    Ctrl-C and Ctrl-Z keep their meaning. The terminal's settings are put back on every way out.
    """
    try:
        import termios

        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError):  # no terminal, or a system that has other ones
        yield
        return
    except termios.error:
        yield
        return
    silent = [*before]
    silent[0] &= ~termios.ICRNL  # Enter and a line feed stay two things
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    try:
        termios.tcsetattr(descriptor, termios.TCSANOW, silent)
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


class PromptEditor:
    """Many lines (Alt+Enter, Ctrl-J, a backslash at the end), a paste as one input, completion, history.

    Raises:
        ImportError: prompt_toolkit is not installed.
    """

    def __init__(
        self, history: History, cwd: Callable[[], Path], commands: Iterable[str], on_expand: Callable[[], None],
        values: Callable[[str], Iterable[str]] = lambda _: (), about: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.output.defaults import create_output
        from prompt_toolkit.output.vt100 import Vt100_Output

        output = create_output(stdout=sys.stdout)
        if isinstance(output, Vt100_Output):
            output.enable_cpr = False  # an answer that comes late would be typed into the next program
        names = list(commands)
        self._begun = self._changed = 0.0
        self._session: PromptSession[str] = PromptSession(
            history=_kept(history),
            multiline=True,
            key_bindings=_bindings(on_expand, self._is_enter),
            completer=_completer(cwd, names, values, about or {}),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            prompt_continuation=lambda width, _line, _soft: " " * width,
            output=output,
            enable_suspend=True,
        )
        self._session.default_buffer.on_text_changed += self._note_change

    async def read(self, prompt: str, begun: str = "") -> str:
        from prompt_toolkit.formatted_text import FormattedText

        self._begun = time.monotonic()
        text = await self._session.prompt_async(FormattedText([("bold", prompt)]), default=begun, handle_sigint=False)
        return well_formed(text)

    def remember(self, text: str) -> None:
        self._session.history.append_string(text)

    def _note_change(self, _buffer: object) -> None:
        self._changed = time.monotonic()

    def _is_enter(self, *, last: bool) -> bool:
        """A line feed is Ctrl-J when a hand pressed it; it is Enter when it was waiting for the prompt, or ends a burst
        of text: so programs and slow terminals send it."""
        now = time.monotonic()
        return now - self._begun < _AHEAD or (last and now - self._changed < _BURST)

    def leave(self, error: BaseException) -> None:
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(exception=error)


def _kept(history: History) -> Any:
    from prompt_toolkit.history import History as Base

    class Kept(Base):
        def load_history_strings(self) -> Iterable[str]:
            return reversed(history.entries())

        def store_string(self, string: str) -> None:
            history.add(string)

    return Kept()


def _completer(
    cwd: Callable[[], Path], names: list[str], values: Callable[[str], Iterable[str]], about: Mapping[str, str]
) -> Any:
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document

    class Names(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterator[Completion]:
            for old, new in completions(document.text_before_cursor, cwd(), names, values):
                yield Completion(new, start_position=-len(old), display_meta=about.get(new))

    return Names()


def _bindings(on_expand: Callable[[], None], is_enter: Callable[..., bool]) -> KeyBindings:
    from prompt_toolkit.application import run_in_terminal
    from prompt_toolkit.filters import is_searching
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.search import stop_search

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        chosen = buffer.complete_state is not None and buffer.complete_state.current_completion is not None
        if chosen and not buffer.text.startswith("/"):
            buffer.complete_state = None  # Enter takes the file that was chosen in the menu
        elif continues(buffer.document.current_line_before_cursor):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        if is_enter(last=not event.key_processor.input_queue):
            enter(event)
        else:
            event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            _set_aside(event.current_buffer)
        else:
            event.app.exit(exception=KeyboardInterrupt)

    @keys.add("c-c", filter=is_searching)
    def _(event: KeyPressEvent) -> None:
        stop_search()

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        run_in_terminal(on_expand)

    return keys


def _set_aside(buffer: Buffer) -> None:
    """Empty the line; the Up key brings it back."""
    buffer.append_to_history()
    buffer.reset()


class LineEditor:
    """``input()``: editing and history where readline is, plain lines elsewhere. ``signals`` is held while it waits.

    A paste of many lines is one input, as far as a terminal without bracketed paste lets us know.
    """

    def __init__(
        self,
        history: History,
        cwd: Callable[[], Path],
        commands: Iterable[str],
        signals: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._history = history
        self._signals = signals
        self._typed = sys.stdin.isatty()
        if self._typed and sys.stdout.isatty():
            _set_up_readline(history, cwd, list(commands))

    async def read(self, prompt: str, begun: str = "") -> str:
        with self._signals():
            text = begun + well_formed(self._whole(prompt if self._typed else ""))
        if self._typed and text.strip():
            self._history.add(text)
        return text

    def remember(self, text: str) -> None:
        self._history.add(text)
        with contextlib.suppress(ImportError):
            import readline

            readline.add_history(text.replace("\n", " "))

    def leave(self, error: BaseException) -> None:
        raise error  # only a signal gets here while input() waits, and that is raised in place

    def _whole(self, prompt: str) -> str:
        ahead = self._waiting()
        lines = [input(prompt)]
        while continues(lines[-1]) or (not ahead and self._waiting(_PASTED)):
            if continues(lines[-1]):
                lines[-1] = lines[-1][:-1]
            try:
                lines.append(input(""))
            except EOFError:
                break
        return "\n".join(lines)

    def _waiting(self, seconds: float = 0) -> bool:
        """Something was typed, or pasted, that was not read yet."""
        if not self._typed or os.name == "nt":
            return False
        return bool(select.select([sys.stdin], [], [], seconds)[0])


def _set_up_readline(history: History, cwd: Callable[[], Path], names: list[str]) -> None:
    """Editing, history and completion for ``input()``, where the system has readline."""
    try:
        import readline
    except ImportError:
        return
    readline.parse_and_bind("set enable-bracketed-paste off")  # it writes escape codes
    readline.parse_and_bind("tab: complete")
    readline.set_completer_delims(" \t\n@")
    readline.set_auto_history(False)
    readline.clear_history()
    for entry in history.entries():
        readline.add_history(entry.replace("\n", " "))

    def complete(text: str, state: int) -> str | None:
        before = readline.get_line_buffer()[: readline.get_endidx()]
        found = [new for old, new in completions(before, cwd(), names) if text == old or new.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
