"""What both dialects of pictures share: what is asked for, and a body that comes in one piece."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, Block, Image, Text, new_id, now, scrub
from orkas.providers.base import CompletionParams, Part

__all__ = ["SHAPES", "Shape", "Whole", "address_of", "asked", "dig", "listed", "picture", "refused"]

Shape: TypeAlias = Literal["", "square", "landscape", "portrait"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
_MOST = 64 * 1024 * 1024
"""Bytes of one reply; the largest pictures have a third of it."""


def asked(params: CompletionParams) -> tuple[str, list[Image]]:
    """The words and the pictures of the newest message."""
    content = params.messages[-1].content if params.messages else []
    words = "\n".join(block.text for block in content if isinstance(block, Text))
    return words, [block for block in content if isinstance(block, Image)]


_DATA = re.compile(r"data:([\w.+-]{1,40}/[\w.+-]{1,40})?[^,]{0,200},", re.IGNORECASE)


def picture(data: Any, kind: Any = None) -> Image | None:
    """A picture that came as base64, in lines, as an address that holds it (``data:``) or plainly; its type told by its
    own bytes."""
    if not isinstance(data, str) or not data:
        return None
    if found := _DATA.match(data):
        data, kind = data[found.end() :], found[1] or kind
    data = "".join(data.split()).rstrip("=")
    data = data.translate(_ORDINARY) + "=" * (-len(data) % 4)
    try:
        head = base64.b64decode(data, validate=True)[:16]
    except (ValueError, binascii.Error):
        return None
    own = {b"\x89PNG": "image/png", b"RIFF": "image/webp", b"GIF8": "image/gif"}.get(head[:4])
    if head[:3] == b"\xff\xd8\xff":
        own = "image/jpeg"
    return Image(media_type=own or (kind if isinstance(kind, str) else "image/png"), data=data) if head else None


_ORDINARY = str.maketrans("-_", "+/")
"""The alphabet of addresses as that of mail."""


def address_of(image: Image) -> str:
    """Where the vendor keeps the picture, when it gave no bytes; a stranger's word."""
    url = (image.vendor or {}).get("url")
    return url if isinstance(url, str) else ""


def dig(value: Any, *path: str) -> Any:
    """What lies there, if it is there."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def listed(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def refused(why: str) -> ProviderError:
    what = f"the vendor does not draw this: {why[:300]}"
    return ProviderError(what, class_="content_filter", hint="ask for another picture")


class Whole:
    """A reader of a body that is one JSON value. ``read`` makes blocks of it, or raises ``ProviderError``."""

    brisk = False

    def __init__(self, model: str, api: str, read: Callable[[dict[str, Any]], list[Block]]) -> None:
        self.done = False
        self._model, self._api, self._read = model, api, read
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Part]:
        self._size += len(data)
        if not data or self._size > _MOST:
            self.done = True
        else:
            self._pieces.append(data)
        return []

    def close(self) -> AssistantMessage:
        try:
            return self._closed()
        except ProviderError as error:
            error.answered = True  # whatever is wrong with it, it was drawn
            raise

    def _closed(self) -> AssistantMessage:
        if self._size > _MOST:
            raise ProviderError(f"the picture is larger than {_MOST // 2**20} MB", class_="invalid_request")
        whole = b"".join(self._pieces)
        if whole.strip() and whole.lstrip()[:1] not in (b"{", b"["):  # asking again would only be paid again
            what = "the vendor answered with something else than JSON"
            raise ProviderError(what, class_="invalid_request", hint="check its base URL")
        try:
            body = json.loads(whole)
        except (ValueError, RecursionError):
            what = "the reply broke off" if whole.strip() else "the reply was empty"
            raise ProviderError(what, class_="connection", hint="try again") from None
        blocks = self._read(scrub(body) if isinstance(body, dict) else {})
        if not any(isinstance(block, Image) for block in blocks):
            words = " ".join(block.text for block in blocks if isinstance(block, Text))
            said = f" and said: {words[:300]}" if words else ""
            raise ProviderError(f"the model sent no picture{said}", class_="invalid_request", hint="say it differently")
        return AssistantMessage(blocks, self._model, self._api, "stop", id=new_id(), ts=now())

    def partial(self) -> AssistantMessage:
        return AssistantMessage([], self._model, self._api, "error", id=new_id(), ts=now())
