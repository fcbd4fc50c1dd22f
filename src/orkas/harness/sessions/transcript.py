"""A conversation as a text for people: Markdown, or one HTML page that loads nothing and runs nothing."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Sequence

from orkas.infra.errors import StorageError
from orkas.infra.messages import AssistantMessage, Block, Image, Message, Text, Thinking, ToolCall, ToolMessage, encode
from orkas.infra.terminal import inert

__all__ = ["to_html", "to_markdown"]

_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}"
    "section{border-left:4px solid #888;padding:.1rem 1rem;margin:1rem 0}"
    ".user{border-color:#2563eb}.assistant{border-color:#16a34a}.tool{border-color:#a16207}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:.5rem 0}"
    "pre.code{font:13px/1.45 ui-monospace,monospace;background:#8882;padding:.5rem}"
    "img{max-width:100%}h2{font-size:.9rem;margin:.3rem 0;color:#666}"
)


def to_markdown(title: str, messages: Sequence[Message]) -> str:
    """The conversation as Markdown. Calls and results stand in fences that nothing inside can close."""
    parts = [f"# Session {title}"]
    for number, message in enumerate(messages, 1):
        parts.append(f"## {number}. {_heading(message)}")
        parts += [_markdown(b, isinstance(message, ToolMessage)) for b in message.content]
    return "\n\n".join(p for p in parts if p) + "\n"


def to_html(title: str, messages: Sequence[Message], media: Callable[[str], bytes]) -> str:
    """The conversation as one page. ``media`` reads a picture that lies in a file, or raises StorageError."""
    name = html.escape(inert(title))
    body = "\n".join(_section(n, m, media) for n, m in enumerate(messages, 1))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n<body><h1>Session {name}</h1>\n{body}\n</body></html>\n"
    )


def _heading(message: Message) -> str:
    if isinstance(message, ToolMessage):
        state = "interrupted" if message.synthetic else "error" if message.is_error else "result"
        return f"Tool {state} ({_label(message.tool_call_id)})"
    if isinstance(message, AssistantMessage):
        return "Assistant" + (f" ({_label(message.model)})" if message.model else "")
    if message.origin == "summary":
        return "Summary of earlier messages"
    return f"Picture of a tool ({_label(message.tool_call_id)})" if message.origin == "tool_image" else "User"


def _label(text: str | None) -> str:
    return " ".join(inert(text or "").split())


def _markdown(block: Block, fenced: bool) -> str:
    match block:
        case Text():
            return _fence(block.text) if fenced else inert(block.text)
        case Thinking():
            return "\n".join("> " + line for line in inert(block.text).split("\n")) if block.text else ""
        case ToolCall():
            return f"Call of `{_label(block.name).replace('`', '')}`:\n\n{_fence(_arguments(block))}"
        case Image():
            return f"[picture, {_label(block.media_type)}]"
        case _:
            return f"[{_label(block.kind)}]"


def _fence(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{inert(text)}\n{fence}"


def _arguments(call: ToolCall) -> str:
    if call.arguments is None:
        return call.arguments_raw or ""
    try:
        return json.dumps(call.arguments, ensure_ascii=False, indent=1)
    except RecursionError:  # too deeply nested for lines of their own
        return encode(call.arguments).decode()


def _section(number: int, message: Message, media: Callable[[str], bytes]) -> str:
    kinds: dict[type, str] = {ToolMessage: "tool", AssistantMessage: "assistant"}
    kind = kinds.get(type(message), "user")
    blocks = "\n".join(filter(None, (_html(b, kind == "tool", media) for b in message.content)))
    heading = html.escape(_heading(message))
    return f'<section class="{kind}" id="m{number}"><h2>{number}. {heading}</h2>\n{blocks}\n</section>'


def _html(block: Block, code: bool, media: Callable[[str], bytes]) -> str:
    match block:
        case Text():
            return _pre(block.text, code)
        case Thinking():
            return f"<details><summary>Thinking</summary>{_pre(block.text, False)}</details>" if block.text else ""
        case ToolCall():
            return f"<div>Call of <b>{html.escape(_label(block.name))}</b></div>{_pre(_arguments(block), True)}"
        case Image():
            return _picture(block, media)
        case _:
            return f"<div>[{html.escape(_label(block.kind))}]</div>"


def _pre(text: str, code: bool) -> str:
    start = '<pre class="code">' if code else "<pre>"
    return f"{start}{html.escape(inert(text))}</pre>"


def _picture(image: Image, media: Callable[[str], bytes]) -> str:
    """The picture inside the page, its bytes encoded anew so that nothing else can stand in the attribute."""
    kind = html.escape(_label(image.media_type))
    if image.media_type not in _PICTURES:
        return f"<div>[picture, {kind}]</div>"
    try:
        data = media(image.file) if image.file else base64.b64decode(image.data or "", validate=True)
    except (StorageError, ValueError):
        return f"<div>[picture, {kind}, cannot be read]</div>"
    return f'<img alt="picture" src="data:{kind};base64,{base64.b64encode(data).decode()}">'
