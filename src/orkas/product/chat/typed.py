"""What is typed while a turn runs: bytes of the terminal → a line under way and whole inputs.

A small editor for one message: Backspace, Ctrl-U, Ctrl-W, Alt+Enter or a backslash for a new line, a paste as one
piece. Everything else that keys send is left out.
"""

from __future__ import annotations

import codecs
import re

from orkas.product.chat.words import continues

__all__ = ["PASTES_MARKED", "PASTES_PLAIN", "Typed"]

PASTES_MARKED, PASTES_PLAIN = "\x1b[?2004h", "\x1b[?2004l"
"""Ask the terminal to mark what is pasted, and to stop that."""

_PIECE = re.compile(
    r"\x1b\[200~(?P<paste>.*?)\x1b\[201~"
    r"|\x1b[\r\n](?P<line>)"
    r"|\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|[^\[O])"
    r"|(?P<key>[\x00-\x1f\x7f])"
    r"|(?P<text>[^\x00-\x1f\x7f]+)",
    re.DOTALL,
)
_CUT = re.compile(r"\x1b(?:\[200~(?:(?!\x1b\[201~).)*|\[[0-9;?]*[ -/]*|O)?\Z", re.DOTALL)
"""A sequence whose end has not come yet."""
_LAST_WORD = re.compile(r"\S*\s*\Z")


class Typed:
    """``text`` is the message under way; ``ended`` is set by Ctrl-D on an empty one."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = False
        self._rest = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data: bytes) -> list[str]:
        """Take in what came from the terminal; the inputs that Enter has ended, in order."""
        text = self._rest + self._decode(data)
        cut = _CUT.search(text)
        self._rest = text[cut.start() :] if cut else ""
        entered: list[str] = []
        for piece in _PIECE.finditer(text, 0, cut.start() if cut else len(text)):
            if piece["paste"] is not None:
                self.text += piece["paste"].replace("\r\n", "\n").replace("\r", "\n")
            elif piece["line"] is not None:
                self.text += "\n"
            elif piece["text"] is not None:
                self.text += piece["text"]
            elif piece["key"] is not None:
                self._key(piece["key"], entered)
        return entered

    def take(self) -> str:
        """The message under way, which begins anew."""
        text, self.text, self._rest = self.text, "", ""
        return text

    def _key(self, key: str, entered: list[str]) -> None:
        match key:
            case "\r" | "\n" if continues(self.text):
                self.text = self.text[:-1] + "\n"
            case "\r" | "\n":
                entered.append(self.text)
                self.text = ""
            case "\x7f" | "\b":
                self.text = self.text[:-1]
            case "\x15":
                self.text = ""
            case "\x17":
                self.text = _LAST_WORD.sub("", self.text)
            case "\x04" if not self.text:
                self.ended = True
            case _:
                return
