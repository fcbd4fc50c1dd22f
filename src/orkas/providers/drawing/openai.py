"""``/images/generations``, and ``/images/edits`` where there are pictures to go by: OpenAI and who speaks like it."""

from __future__ import annotations

import base64
import json
import secrets
from typing import Any

from orkas.infra.messages import Block, Image
from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.drawing.shared import Shape, Whole, asked, listed, picture
from orkas.providers.writing.transform import endpoint, key_headers

__all__ = ["OpenAIImages"]

_SIZES = {
    "dall-e-3": {"square": "1024x1024", "landscape": "1792x1024", "portrait": "1024x1792"},
    "": {"square": "1024x1024", "landscape": "1536x1024", "portrait": "1024x1536"},
}
"""By the beginning of a model's name; the last entry holds for gpt-image models and what is new."""


class OpenAIImages:
    """The dialect, for pictures of one shape."""

    api = "openai_images"

    def __init__(self, shape: Shape = "", key_header: str = "") -> None:
        self._shape = shape
        self._key_header = key_header

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        words, images = asked(params)
        fields = {"model": params.model, "prompt": words, "n": "1"}
        if self._shape:
            sizes = next(found for start, found in _SIZES.items() if params.model.startswith(start))
            fields["size"] = sizes[self._shape]
        headers = {"accept": "application/json", **key_headers(api_key, self._key_header)}
        if images:
            kind, body = _form(fields, images)
            return Request(endpoint(base_url, "/images/edits"), {**headers, "content-type": kind}, body)
        body = json.dumps({**fields, "n": 1}, ensure_ascii=False).encode()
        url = endpoint(base_url, "/images/generations")
        return Request(url, {**headers, "content-type": "application/json"}, body)

    def reader(self, *, model: str) -> Reader:
        return Whole(model, self.api, _blocks)


def _blocks(body: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    for item in listed(body.get("data")):
        if (image := picture(item.get("b64_json"))) is not None:
            blocks.append(image)
        elif isinstance(url := item.get("url"), str) and url.lstrip()[:5].lower() == "data:":
            if (image := picture(url.lstrip())) is not None:
                blocks.append(image)
        elif isinstance(url, str) and url:
            blocks.append(Image(media_type="image/png", vendor={"url": url}))
    return blocks


def _form(fields: dict[str, str], images: list[Image]) -> tuple[str, bytes]:
    """Content type and body of a form with files."""
    mark = f"orkas-{secrets.token_hex(16)}"
    parts = [f'content-disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()]
    for at, image in enumerate(images, 1):
        name = f"{at}.{image.media_type.rpartition('/')[2]}"
        head = f'content-disposition: form-data; name="image[]"; filename="{name}"\r\ncontent-type: {image.media_type}'
        parts.append(head.encode() + b"\r\n\r\n" + base64.b64decode(image.data or "") + b"\r\n")
    edge = f"--{mark}\r\n".encode()
    return f"multipart/form-data; boundary={mark}", b"".join(edge + part for part in parts) + f"--{mark}--\r\n".encode()
