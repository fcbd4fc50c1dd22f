"""The screen with Markdown, colours and a changing last part: the block under way, running tools, a clock."""

from __future__ import annotations

import importlib
import threading
import time
from typing import TYPE_CHECKING, Literal, TextIO

from orkas.infra.amounts import counted
from orkas.infra.terminal import inert
from orkas.product.chat.live import Live
from orkas.product.chat.markdown import Block, Splitter
from orkas.product.chat.screen import Call, Screen
from orkas.product.chat.typed import PASTES_MARKED, PASTES_PLAIN
from orkas.product.chat.words import Tone, cells, clip, duration, fill, one_line, wrap

if TYPE_CHECKING:
    from orkas.product.chat.render import Renderer

__all__ = ["RichScreen"]

_RENDER = "orkas.product.chat.render"

_STYLES: dict[Tone, str] = {"bold": "1", "dim": "2", "good": "32", "warning": "33", "error": "31"}
_TYPED, _TYPED_ROWS = 4_000, 6
"""Characters, and lines, of a message under way that are shown: its end."""
_THINKING_ROWS = 3
"""Lines of the reasoning under way that are shown."""
_SHARE = 4
"""Drawing takes at most one part in so many of the time, however slow it is."""
_FRAME = 0.04
"""Least seconds between two drawings."""
_STYLED = 60_000
"""Characters of replies in one turn that are drawn as Markdown; what follows is shown as the plain lines it is."""


class RichScreen(Screen):
    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._lazy_renderer: Renderer | None = None
        self._live = Live(self.write, self.size)
        self._splitter = Splitter()
        self._told: list[tuple[str, list[str]]] = []
        """Blocks of the reply under way that are settled, with their lines: what may be taken back."""
        self._size = 0
        """Characters of replies that this turn has settled."""
        self._running = False
        self._typed = ""
        self._after: Literal["", "text", "line"] = ""
        """What stands above: nothing of this turn, the model's text, or a line of ours."""
        self._drawn: tuple[Block, int, list[str]] = (Block(""), 0, [])
        self._next_frame = 0.0

    def begin(self) -> None:
        super().begin()
        if self._lazy_renderer is None:  # it loads while the model thinks
            threading.Thread(target=importlib.import_module, args=(_RENDER,), daemon=True).start()
        self._running = True
        self._told, self._after, self._size = [], "", 0
        self.write(PASTES_MARKED)
        self._draw()

    def tick(self) -> None:
        if self._running and time.monotonic() >= self._next_frame:
            self._draw()

    def end(self) -> None:
        super().end()
        self.settle()
        self._running = False
        self._live.close()
        self.write(PASTES_PLAIN)

    def typed(self, text: str) -> None:
        self._typed = text
        if self._running:
            self._draw()

    def sent(self, id: str, text: str, when: str) -> None:
        super().sent(id, text, when)
        self._draw()

    def hold(self, text: str) -> None:
        super().hold(text)
        self._draw()

    def say(self, text: str, tone: Tone = "plain") -> None:
        self._say(inert(text).expandtabs(4).split("\n"), tone)

    def _say(self, lines: list[str], tone: Tone) -> None:
        self.settle()
        if tone != "plain":  # what is plain may be a result that is to be copied
            lines = [part for line in lines for part in wrap(line, self.width)]
        self._put([self._styled(line, tone) for line in lines])
        self._after = "line"

    def reply(self, text: str) -> None:
        self._commit(self._splitter.feed(text))
        if time.monotonic() >= self._next_frame:
            self._draw()

    def settle(self) -> None:
        self._commit(self._splitter.finish())

    def take_back(self, count: int) -> None:
        if not count:
            return
        whole = "".join(text for text, _ in self._told) + self._splitter.pending.text
        self._splitter = Splitter()
        if count > len(whole) or not self._live.take_back([line for _, lines in self._told for line in lines]):
            self.say(f"taken back: the last {counted(count, 'character')} above", "warning")
            return
        self._told = []
        self.reply(whole[: len(whole) - count])

    def _commit(self, blocks: list[Block]) -> None:
        settled: list[str] = []
        for block in blocks:
            lines = self._rendered(block, self.width)
            self._size += len(block.text)
            if lines:
                lines = [*self._gap(block), *lines]
                self._after = "text"
            self._told.append((block.text, lines))
            settled += lines
        if settled:
            self._live.draw(self._area() if self._running else [], settled)

    def _rendered(self, block: Block, width: int) -> list[str]:
        """The block as Markdown; as plain lines when the turn has written more than anybody reads."""
        if not block.text.strip():
            return []
        if self._size > _STYLED:
            lines = inert(block.text).expandtabs(4).strip("\n").split("\n")
            return [part for line in lines for part in wrap(line, width)]
        return self._renderer().markdown(block.source, width)

    def _gap(self, block: Block) -> list[str]:
        """An empty line between blocks, and between other lines and the reply."""
        return [""] if self._after and not block.before else []

    def _put(self, lines: list[str]) -> None:
        """Lines that are not the reply's end what may be taken back of it."""
        self._told = []
        self._live.draw(self._area() if self._running else [], lines)

    def _draw(self) -> None:
        begun = time.monotonic()
        self._live.draw(self._area())
        now = time.monotonic()
        self._next_frame = now + max(_FRAME, _SHARE * (now - begun))

    def _area(self) -> list[str]:
        """What still changes: the block under way, then what is being waited for."""
        area = self._pending()
        if area:
            area = [*self._gap(self._splitter.pending), *area]
        if self._thinking:
            area += [self._styled(line, "dim") for line in self._last_thoughts()]
        for call in self._calls.values():
            area += self._call_lines(call)
        if not self._calls:
            area.append(self._styled(self._clock(), "dim"))
        return area + self._said()

    def _said(self) -> list[str]:
        """What the user has sent and is typing, below everything else."""
        lines = []
        for text, when in [*self._sent.values(), *((text, "after this turn") for text in self._held)]:
            said = clip(one_line(text), max(8, self.width - cells(when) - 8), self.marks.more)
            lines.append(self._styled(f"> {said}  ({when})", "dim"))
        if self._typed:
            lines += self._line_under_way()
        return lines

    def _line_under_way(self) -> list[str]:
        """The end of what is typed, as the last lines of the screen, with a cursor."""
        lines = [part for line in self._typed[-_TYPED:].split("\n") for part in fill(inert(line), self.width - 3)]
        head = [self._styled("> ", "bold") if n == 0 else "  " for n in range(len(lines))]
        shown = [h + line for h, line in zip(head, lines, strict=True)]
        shown[-1] += "\x1b[7m \x1b[0m"
        return shown[-_TYPED_ROWS:]

    def _pending(self) -> list[str]:
        """The block under way; rendered anew only when it or the width changed."""
        block, width = self._splitter.pending, self.width
        if self._drawn[:2] != (block, width):
            lines = self._rendered(block, width)
            self._drawn = (block, width, lines)
        return list(self._drawn[2])

    def _last_thoughts(self) -> list[str]:
        tail = "".join(self._thinking[-200:])[-4000:].strip().split("\n")
        return [clip(inert(line), self.width - 1, self.marks.more) for line in tail[-_THINKING_ROWS:]]

    def _call_lines(self, call: Call) -> list[str]:
        took = duration(time.monotonic() - call.begun)
        text = clip(f"{call.name}  {call.about}".rstrip(), self.width - len(took) - 6, self.marks.more)
        lines = [f"{self._styled(self._spin(), 'good')} {self._styled(f'{text} {self.marks.dot} {took}', 'plain')}"]
        if call.progress:
            lines.append(self._styled("  " + clip(call.progress, self.width - 3, self.marks.more), "dim"))
        return lines

    def _clock(self) -> str:
        if self.asking:
            return clip("waiting for your answer " + self.marks.dot + " Ctrl-C stops", self.width - 1, self.marks.more)
        doing = "thinking " + self.marks.dot + " " if self._thinking else ""
        text = f"{self._spin()} {doing}{int(time.monotonic() - self._begun)} s {self.marks.dot} Ctrl-C stops"
        return clip(text, self.width - 1, self.marks.more)

    def _spin(self) -> str:
        return self.marks.spin[int(time.monotonic() * 10) % len(self.marks.spin)]

    def _renderer(self) -> Renderer:
        if self._lazy_renderer is None:
            from orkas.product.chat.render import Renderer

            self._lazy_renderer = Renderer(self.out)
        return self._lazy_renderer

    def _styled(self, line: str, tone: Tone) -> str:
        return f"\x1b[{_STYLES[tone]}m{line}\x1b[0m" if line and tone != "plain" else line

    def _line(self, head: str, tone: Tone, rest: str) -> None:
        self.settle()
        gap = [""] if self._after == "text" else []
        self._put([*gap, self._styled(head, tone) + rest])
        self._after = "line"

    def _started(self, call: Call) -> None:
        self._told = []
        self._draw()
