"""Replies made of bytes, and the ways in which a reply goes wrong.

A reply is anything with ``respond(request)``; what it answers is sent byte for byte. Faults wrap another reply, so
that each combines with each: ``Late(Cut(Say(["hello"]), after=40), 0.5)``.

A folder of recorded traffic holds ``response.sse`` (or ``.json``, ``.ndjson``, ``.txt``, ``.eventstream``) and
``response.meta.json`` with ``status`` and ``headers``; ``request.json`` and ``expected.json`` are read if there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from orkas.testing.rendering import Say, as_json, as_stream
from orkas.testing.rules.base import Api, Rejection

__all__ = ["RESET", "Asked", "Cut", "Late", "Recording", "Refuse", "Reply", "Response", "Whole", "load", "load_tree"]


class _Reset(Enum):
    RESET = "reset"


RESET = _Reset.RESET
"""In place of further bytes: the connection is reset (RST), as when a proxy dies."""

Step: TypeAlias = bytes | float | _Reset
"""Bytes go out in one write of their own; a number is a pause in seconds, infinity lasts until the client leaves."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reply may know of the request it answers."""

    api: Api
    stream: bool
    body: dict[str, Any]
    """The request's, with the model in it where its vendor names that in the path."""
    as_list: bool = False
    """A stream that is to be one JSON list (Google, without ``alt=sse``)."""


@dataclass(slots=True)
class Response:
    """One HTTP answer. Its steps are finite; without a ``RESET`` among them it ends well-formed, whole or not."""

    status: int
    headers: dict[str, str]
    steps: Iterator[Step]
    delay_s: float = 0.0
    """Before the first byte of the head."""


_STREAMS = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}


class Reply(Protocol):
    def respond(self, asked: Asked) -> Response: ...


@dataclass(frozen=True, slots=True)
class Spoken:
    """A script's words in the dialect of the request: events when it asked for a stream, else one JSON body."""

    say: Say

    def respond(self, asked: Asked) -> Response:
        if not asked.stream:
            body = as_json(self.say, asked.api, asked.body)
            return Response(200, {"content-type": "application/json"}, iter([body]))
        if asked.as_list:
            from orkas.testing.rendering_google import google_list

            return Response(200, {"content-type": "application/json"}, google_list(self.say, asked.body))
        kind = _STREAMS.get(asked.api, "text/event-stream; charset=utf-8")
        headers = {"content-type": kind, "cache-control": "no-cache"}
        return Response(200, headers, as_stream(self.say, asked.api, asked.body))


@dataclass(frozen=True, slots=True)
class Recording:
    """Recorded bytes, sent as they are.

    ``cut``: offsets at which the body is cut into writes, or the size of each write; None: one write. ``pace_s``: the
    pause between two writes; without one a reader may find several writes in one read.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | Sequence[int] | None = None
    pace_s: float = 0.0
    name: str = ""
    request: dict[str, Any] | None = None
    """What was sent to get this answer, if known: ``method``, ``url``, ``headers``, ``body``."""
    expected: dict[str, Any] | None = None
    """What a correct reader gets out of it, if the folder says so."""

    def respond(self, asked: Asked) -> Response:
        return Response(self.status, {"content-type": _kind_of(self.body), **self.headers}, self._steps())

    def _steps(self) -> Iterator[Step]:
        for i, piece in enumerate(self._pieces()):
            if i and self.pace_s:
                yield self.pace_s
            yield piece

    def _pieces(self) -> list[bytes]:
        if isinstance(self.cut, int):
            return [self.body[at : at + self.cut] for at in range(0, len(self.body), self.cut)]
        places = sorted({0, len(self.body), *(at for at in self.cut or () if 0 < at < len(self.body))})
        return [self.body[a:b] for a, b in pairwise(places)]


def _kind_of(body: bytes) -> str:
    start = body.lstrip()[:1]
    if start in (b"{", b"["):
        return "application/json"
    return "text/html" if start == b"<" else "text/event-stream"


@dataclass(frozen=True, slots=True)
class Refuse:
    """An HTTP error. ``body`` None: the vendor's own form around ``message``; text or bytes go out as they are."""

    status: int
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes | None = None
    code: str | None = None

    def respond(self, asked: Asked) -> Response:
        body = self.body.encode() if isinstance(self.body, str) else self.body
        if body is None:
            words = self.message or _WORDS.get(self.status, "The request failed.")
            body = Rejection(words, self.status, code=self.code).body(asked.api)
        return Response(self.status, {"content-type": _kind_of(body), **self.headers}, iter([body]))


_WORDS = {
    401: "Invalid authentication credentials",
    403: "Your account does not have permission to use this model.",
    429: "Rate limit reached. Please try again later.",
    500: "Internal server error",
    503: "Our servers are currently overloaded. Please try again later.",
    529: "Overloaded",
}


@dataclass(frozen=True, slots=True)
class Cut:
    """The first ``after`` bytes of another reply's body; then the connection is reset, the body ends as if it were
    whole (``end``), or nothing more comes until the client leaves (``stall``)."""

    reply: Reply | Say
    after: int
    how: Literal["reset", "end", "stall"] = "reset"

    def respond(self, asked: Asked) -> Response:
        response = as_reply(self.reply).respond(asked)
        response.steps = self._steps(response.steps)
        return response

    def _steps(self, steps: Iterator[Step]) -> Iterator[Step]:
        left = self.after
        for step in steps:
            if not isinstance(step, bytes):
                yield step
                continue
            if left > 0:
                yield step[:left]
            left -= len(step)
            if left <= 0:
                break
        if self.how == "reset":
            yield RESET
        elif self.how == "stall":
            yield math.inf


@dataclass(frozen=True, slots=True)
class Late:
    """Another reply whose first byte comes after ``seconds``; infinity: never, the request hangs."""

    reply: Reply | Say
    seconds: float = math.inf

    def respond(self, asked: Asked) -> Response:
        response = as_reply(self.reply).respond(asked)
        response.delay_s += self.seconds
        return response


@dataclass(frozen=True, slots=True)
class Whole:
    """One JSON body, also to a request that asked for a stream."""

    reply: Reply | Say

    def respond(self, asked: Asked) -> Response:
        return as_reply(self.reply).respond(replace(asked, stream=False))


def as_reply(reply: Reply | Say) -> Reply:
    return Spoken(reply) if isinstance(reply, Say) else reply


_OWN_HEADERS = {"transfer-encoding", "content-length", "content-encoding", "connection", "keep-alive"}
"""Set by whoever sends, and not true of stored bytes."""


def load(folder: str | Path, *, cut: int | Sequence[int] | None = None, pace_s: float = 0.0) -> Recording:
    """The recording in this folder.

    Raises:
        FileNotFoundError: there is no ``response.*`` or no ``response.meta.json`` in it.
    """
    folder = Path(folder)
    meta = json.loads((folder / "response.meta.json").read_bytes())
    bodies = [p for p in sorted(folder.glob("response.*")) if p.name != "response.meta.json"]
    if not bodies:
        raise FileNotFoundError(f"no response.* in {folder}")
    headers = {k.lower(): str(v) for k, v in meta.get("headers", {}).items() if k.lower() not in _OWN_HEADERS}
    return Recording(
        bodies[0].read_bytes(), meta["status"], headers, cut, pace_s, folder.name,
        _optional(folder / "request.json"), _optional(folder / "expected.json"),
    )  # fmt: skip


def load_tree(root: str | Path) -> Iterator[tuple[Path, Recording]]:
    """Every recording below ``root`` with its folder, in order of the paths."""
    for meta in sorted(Path(root).rglob("response.meta.json")):
        yield meta.parent, load(meta.parent)


def _optional(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    value = json.loads(path.read_bytes())
    return value if isinstance(value, dict) else None
