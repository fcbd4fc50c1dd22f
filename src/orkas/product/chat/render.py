"""Finished Markdown as coloured lines. Imports rich, so it is imported on first use only."""

from __future__ import annotations

import io
import re
from typing import Any, ClassVar, TextIO

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, emphasis
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.measure import Measurement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from orkas.infra.terminal import inert

__all__ = ["Renderer"]

_TRAILING = re.compile(r"(?: |(\x1b\[[\d;]*m))+$")
_CODES = re.compile(r"\x1b\[[\d;]*m")


class _Heading(Heading):
    """Headings at the left, in bold, without boxes."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield self.text


class _Code(CodeBlock):
    """Code without frame, padding or line breaks of our own, so that it can be copied as it is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        syntax = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default")
        text = syntax.highlight(code) if syntax.lexer is not None and self.lexer_name != "text" else Text(code, "cyan")
        text.rstrip()
        nested = options.max_width < console.width
        text.no_wrap, text.overflow = not nested, "fold" if nested else "ignore"
        yield text


class _Table(TableElement):
    """A table; one that the terminal is too narrow for is shown row by row instead of being cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if not isinstance(table, Table):
                yield table
                continue
            for column in table.columns:
                column.overflow = "fold"
            if Measurement.get(console, options, table).minimum <= options.max_width:
                yield table
            else:
                yield from self._as_rows()

    def _as_rows(self) -> list[Text]:
        heads = [c.content for c in self.header.row.cells] if self.header and self.header.row else []
        rows = self.body.rows if self.body else []
        lines = []
        for row in rows:
            for i, cell in enumerate(row.cells):
                head = Text.assemble((heads[i].plain, "bold"), ": ") if i < len(heads) else Text()
                lines.append(head + cell.content)
            lines.append(Text())
        return lines or heads


class _Markdown(Markdown):
    """CommonMark with tables. HTML is text here: ``Vec<String>`` must not lose its tail."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements, "heading_open": _Heading, "fence": _Code, "code_block": _Code, "table_open": _Table,
    }  # fmt: skip

    def __init__(self, source: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.markup = source
        self.parsed = _parser.parse(source)


def _stars_only(state: StateInline, silent: bool) -> bool:
    """Emphasis by stars; underscores belong to names, as in ``__init__.py``."""
    return state.src[state.pos] != "_" and emphasis.tokenize(state, silent)


_parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
_parser.inline.ruler.at("emphasis", _stars_only)
_THEME = Theme({"markdown.code": "cyan", "markdown.item.number": "bold", "markdown.block_quote": "dim"})


class Renderer:
    """Makes lines with colours (SGR) and no other control code, whatever the source holds."""

    def __init__(self, out: TextIO) -> None:
        colours: Any = Console(file=out).color_system
        self._console = Console(
            file=io.StringIO(), force_terminal=True, color_system=colours, legacy_windows=False,
            markup=False, emoji=False, highlight=False, force_interactive=False, theme=_THEME,
        )  # fmt: skip

    def markdown(self, source: str, width: int) -> list[str]:
        """The lines of a block of Markdown at this width, without blank ones around and without trailing spaces."""
        return self._lines(_Markdown(inert(source)), width)

    def _lines(self, renderable: Markdown, width: int) -> list[str]:
        console = self._console
        console.width = max(8, width)
        with console.capture() as caught:
            console.print(renderable, crop=False)
        lines = [_without_trailing(line) for line in caught.get().split("\n")]
        while lines and not _CODES.sub("", lines[-1]):
            lines.pop()
        while lines and not _CODES.sub("", lines[0]):
            lines.pop(0)
        return lines


def _without_trailing(line: str) -> str:
    return _TRAILING.sub(lambda m: "".join(_CODES.findall(m[0])), line)
