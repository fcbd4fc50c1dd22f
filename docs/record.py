"""Record a real chat as an SVG: run it at a pseudo-terminal, type into it, draw what the terminal shows at the end.

    python docs/record.py --out docs/chat.svg --say "What is in this folder?" -- orkas --model local

Each ``--say`` is typed when the prompt is back. Nothing is made up: the picture is the terminal's own content, read by
a terminal emulator (pyte) after the program ran. Needs ``pip install pyte rich``.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import itertools
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from pathlib import Path

import pyte
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.color import ColorParseError
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

_PROMPT = re.compile(r"(?:^|\n)> ?$")
_QUESTION = re.compile(r"\[y/N\] ?$")
_SVG = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's picture without its web fonts: an image in a page may load nothing."""
_BROKEN_CODE = re.compile(r"\x1b(\[[\d;?]*)?$")
_COLOURS = {"brown": "yellow", "brightbrown": "bright_yellow"}


class Recorder:
    """A program at a terminal of its own."""

    def __init__(self, command: list[str], columns: int, rows: int) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self._held = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            os.environ.pop("NO_COLOR", None)
            os.execvp(command[0], command)  # noqa: S606
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float) -> bool:
        """Take in what comes within so many seconds; False when the program has ended."""
        if select.select([self._terminal], [], [], seconds)[0]:
            try:
                data = os.read(self._terminal, 65536)
            except OSError:
                return False
            text = self._held + self._decode(data)
            cut = _BROKEN_CODE.search(text)
            end = cut.start() if cut else len(text)
            self._held = text[end:]
            self._stream.feed(text[:end].replace("\x1b[2m", "\x1b[38;5;245m"))  # pyte knows no faint text: grey
            return bool(data)
        return True

    def wait_for_prompt(self, limit: float) -> None:
        """Until an empty prompt stands there, and stays for a moment."""
        deadline, since = time.monotonic() + limit, 0.0
        while time.monotonic() < deadline:
            if not self.read(0.1):
                raise SystemExit(f"the program ended:\n{self.text()}")
            text = self.text()
            if _QUESTION.search(text):
                self.type("n\r")
            since = (since or time.monotonic()) if _PROMPT.search(text) else 0.0
            if since and time.monotonic() - since > 0.5:
                return
        raise SystemExit(f"no prompt within {limit:.0f} s:\n{self.text()}")

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())
        self.read(0.3)

    def end(self) -> None:
        """Leave as a person would."""
        os.write(self._terminal, b"\x04")
        while self.read(2):
            pass
        os.waitpid(self._pid, 0)

    def text(self) -> str:
        return "\n".join(line.plain for line in self.lines()).rstrip("\n")

    def lines(self) -> list[Text]:
        """All the terminal ever showed, oldest first, without the empty end."""
        rows = [*self.screen.history.top, *(self.screen.buffer[y] for y in range(self.screen.lines))]
        lines = [self._line(row) for row in rows]
        while lines and not lines[-1].plain:
            lines.pop()
        return lines

    def _line(self, row: dict[int, pyte.screens.Char]) -> Text:
        line = Text()
        cells = [row[x] for x in range(self.screen.columns)]
        for style, run in itertools.groupby(cells, key=_style):
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        return line


def _style(char: pyte.screens.Char) -> Style:
    colour = _COLOURS.get(char.fg, char.fg)
    colour = re.sub(r"^bright(?!_)", "bright_", colour)
    if re.fullmatch(r"[0-9a-f]{6}", colour):
        colour = f"#{colour}"
    try:
        return Style(color=None if colour == "default" else colour, bold=char.bold, italic=char.italics,
                     underline=char.underscore)  # fmt: skip
    except ColorParseError:
        return Style(bold=char.bold)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/chat.svg"))
    parser.add_argument("--say", action="append", default=[], help="type this at the prompt (repeatable)")
    parser.add_argument("--columns", type=int, default=88)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--limit", type=float, default=300, help="seconds a turn may take")
    parser.add_argument("--skip", type=int, default=0, help="lines at the top to leave out")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    recorder = Recorder(options.command, options.columns, options.rows)
    for text in options.say:
        recorder.wait_for_prompt(options.limit)
        recorder.type(text)
        recorder.type("\r")
    recorder.wait_for_prompt(options.limit)
    lines = recorder.lines()[options.skip : -1]  # without the prompt that waits
    while lines and not lines[-1].plain:
        lines.pop()
    recorder.end()
    with Path(os.devnull).open("w") as nowhere:
        console = Console(
            record=True, width=options.columns, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        for line in lines:
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
        svg = console.export_svg(title="orkas", theme=MONOKAI, code_format=_SVG, unique_id="orkas")
    options.out.write_text(svg, encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines in {options.out}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
