"""A conversation as one HTML page that loads nothing and runs nothing."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from orkas.harness.sessions.transcript import arguments_of, heading, label_of, span, tool_names
from orkas.infra.amounts import counted
from orkas.infra.errors import StorageError
from orkas.infra.messages import AssistantMessage, Block, Image, Message, Text, Thinking, ToolCall, ToolMessage
from orkas.infra.terminal import inert

__all__ = ["to_html"]

Media = Callable[[str], bytes]

_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_STYLE = (
    ":root{color-scheme:light dark;--text:#1f2328;--page:#fff;--faint:#59636e;--box:#f3f4f6;--line:#d1d9e0;"
    "--user:#2563eb;--assistant:#16a34a;--tool:#a16207;--failed:#c62828}"
    "@media(prefers-color-scheme:dark){:root{--text:#e6e8eb;--page:#15181c;--faint:#9aa4af;--box:#22272e;--line:#3a424c;"
    "--user:#6ea8fe;--assistant:#4ade80;--tool:#e0b252;--failed:#ff8a80}}"
    "body{font:16px/1.55 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:var(--text);"
    "background:var(--page)}"
    "h1{font-size:1.4rem;margin:0}header p,h2,summary{color:var(--faint)}header p{margin:.2rem 0 1.5rem}"
    "h2{font-size:.85rem;font-weight:600;margin:.2rem 0}h2 time{font-weight:400;margin-left:.5rem}"
    "section{border-left:4px solid var(--line);padding:.1rem 1rem;margin:1rem 0}"
    ".user{border-color:var(--user)}.assistant{border-color:var(--assistant)}.tool{border-color:var(--tool)}"
    ".failed{border-color:var(--failed)}.background{border-left-style:dashed}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:.4rem 0}"
    "pre.code,summary code{font:13px/1.45 ui-monospace,monospace}"
    "pre.code{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:.5rem .7rem}"
    "details{margin:.4rem 0}summary{cursor:pointer;overflow-wrap:anywhere}summary b{color:var(--text)}"
    ".note{color:var(--faint);font-size:.9rem}img{max-width:100%;border-radius:6px}"
)
_FENCE = re.compile(r"(`{3,})[^`]*$")
_OPEN_LINES = 3
"""Lines of a result up to which it is shown unfolded."""
_GIST = 80
"""Characters of what is folded that its line shows."""


def to_html(title: str, messages: Sequence[Message], media: Media) -> str:
    """The conversation as one page. ``media`` reads a picture that lies in a file, or raises StorageError.

    Calls, results, reasoning and summaries of what was compacted are folded; light or dark as the reader's system is.
    """
    name = html.escape(inert(title))
    tools = tool_names(messages)
    body = "\n".join(_section(n, m, media, tools) for n, m in enumerate(messages, 1))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width"><meta name="generator" content="Orkas">'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n<body>"
        f"<header><h1>Session {name}</h1><p>{html.escape(span(messages))} · times in UTC</p></header>\n"
        f"{body}\n</body></html>\n"
    )


def _section(number: int, message: Message, media: Media, tools: Mapping[str, str]) -> str:
    parts = [_html(block, message, media) for block in message.content]
    if isinstance(message, ToolMessage) and message.synthetic:
        parts.insert(0, '<div class="note">Written by Orkas: the real result is missing.</div>')
    stamp = html.escape(label_of(message.ts[:16].replace("T", " "))) if isinstance(message.ts, str) else ""
    time = f"<time>{stamp}</time>" if stamp else ""
    said = html.escape(heading(message, tools))
    body = "\n".join(filter(None, parts))
    return f'<section class="{_kind(message)}" id="m{number}"><h2>{number}. {said}{time}</h2>\n{body}\n</section>'


def _kind(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return "tool synthetic failed" if message.synthetic else "tool failed" if message.is_error else "tool"
    if isinstance(message, AssistantMessage):
        return "assistant"
    return "user background" if message.origin == "summary" else "user"


def _html(block: Block, message: Message, media: Media) -> str:
    match block:
        case Text():
            return _text(block, message)
        case Thinking():
            return _folded("Thinking", _pre(block.text)) if block.text else ""
        case ToolCall():
            given = arguments_of(block)
            name = f"Call of <b>{html.escape(label_of(block.name))}</b> <code>{_gist(' '.join(given.split()))}</code>"
            return _folded(name, _code(given))
        case Image():
            return _picture(block, media)
        case _:
            return f"<div>[{html.escape(label_of(block.kind))}]</div>"


def _text(block: Text, message: Message) -> str:
    if not isinstance(message, ToolMessage):
        shown = "".join(_prose(block.text))
        background = getattr(message, "origin", None) == "summary"
        return _folded("Summary", shown) if background else shown + _whole(block)
    lines = block.text.rstrip("\n").split("\n")
    shown = _code(block.text)
    if len(lines) > _OPEN_LINES:
        shown = _folded(f"{counted(len(lines), 'line')} <code>{_gist(lines[0])}</code>", shown)
    return shown + _whole(block)


def _whole(block: Text) -> str:
    """Where the whole of a preview lies."""
    if not block.file:
        return ""
    size = f", {block.bytes:,} bytes," if block.bytes is not None else ""
    return f'<div class="note">A preview; the whole{size} is kept as {html.escape(label_of(block.file))}.</div>'


def _prose(text: str) -> Iterator[str]:
    """Text of a person or a model, fenced code as code; a fence that nothing closes reaches to the end."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        opens = mark is not None and not fence
        closes = mark is not None and fence and len(mark[1]) >= len(fence) and not line.strip("` \t")
        if not opens and not closes:
            lines.append(line)
            continue
        yield _block(lines, code=bool(fence))
        lines, fence = [], mark[1] if mark is not None and opens else ""
    yield _block(lines, code=bool(fence))


def _block(lines: list[str], *, code: bool) -> str:
    text = "\n".join(lines).strip("\n")
    return "" if not text else _code(text) if code else _pre(text)


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def _gist(text: str) -> str:
    return html.escape(label_of(text if len(text) <= _GIST else text[:_GIST] + "…"))


def _pre(text: str) -> str:
    return f"<pre>{html.escape(inert(text))}</pre>"


def _code(text: str) -> str:
    return f'<pre class="code">{html.escape(inert(text))}</pre>'


def _picture(image: Image, media: Media) -> str:
    """The picture inside the page, its bytes encoded anew so that nothing else can stand in the attribute."""
    kind = html.escape(label_of(image.media_type))
    if image.media_type not in _PICTURES:
        return f"<div>[picture, {kind}]</div>"
    try:
        data = media(image.file) if image.file else base64.b64decode(image.data or "", validate=True)
    except (StorageError, ValueError):
        return f"<div>[picture, {kind}, cannot be read]</div>"
    return f'<img alt="picture" src="data:{kind};base64,{base64.b64encode(data).decode()}">'
