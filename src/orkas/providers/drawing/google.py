"""Google: Gemini models that draw, by ``generateContent``, and Imagen, by ``predict``."""

from __future__ import annotations

import json
from typing import Any

from orkas.infra.messages import Block, Text
from orkas.providers.base import CompletionParams, Reader, Request
from orkas.providers.clouds.vertex import is_api_key
from orkas.providers.drawing.shared import Shape, Whole, asked, dig, listed, picture, refused
from orkas.providers.writing.transform import endpoint

__all__ = ["GoogleImages"]

_ASPECTS = {"square": "1:1", "landscape": "16:9", "portrait": "9:16"}
_STOPPED = frozenset({
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION", "IMAGE_OTHER",
})  # fmt: skip


class GoogleImages:
    """The dialect, for pictures of one shape."""

    api = "google_images"

    def __init__(self, shape: Shape = "", key_header: str = "", path: str = "") -> None:
        self._shape = shape
        self._key_header = key_header
        self._path = path or "/models/{model}"

    def request(self, params: CompletionParams, *, base_url: str, api_key: str | None) -> Request:
        imagen = params.model.startswith("imagen")
        body = _predict(params, self._shape) if imagen else _generate(params, self._shape)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if api_key and self._key_header == "authorization" and not is_api_key(api_key):
            headers["authorization"] = f"Bearer {api_key}"
        elif api_key:
            headers["x-goog-api-key"] = api_key
        path = self._path.format(model=params.model.removeprefix("models/"))
        url = endpoint(base_url, f"{path}:{'predict' if imagen else 'generateContent'}")
        return Request(url, headers, json.dumps(body, ensure_ascii=False).encode())

    def reader(self, *, model: str) -> Reader:
        return Whole(model, self.api, _blocks)


def _generate(params: CompletionParams, shape: Shape) -> dict[str, Any]:
    words, images = asked(params)
    parts: list[dict[str, Any]] = [{"text": words}]
    parts += [{"inlineData": {"mimeType": image.media_type, "data": image.data}} for image in images]
    config: dict[str, Any] = {"responseModalities": ["TEXT", "IMAGE"]}
    if shape:
        config["imageConfig"] = {"aspectRatio": _ASPECTS[shape]}
    return {"contents": [{"role": "user", "parts": parts}], "generationConfig": config}


def _predict(params: CompletionParams, shape: Shape) -> dict[str, Any]:
    """Imagen takes no pictures to go by: whoever asks knows (``ProviderError`` else)."""
    words, images = asked(params)
    if images:
        raise refused("this model takes no pictures to go by")
    parameters: dict[str, Any] = {"sampleCount": 1, "includeRaiReason": True}
    if shape:
        parameters["aspectRatio"] = _ASPECTS[shape]
    return {"instances": [{"prompt": words}], "parameters": parameters}


def _blocks(body: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    if blocked := dig(body, "promptFeedback", "blockReason"):
        raise refused(str(blocked))
    for candidate in listed(body.get("candidates"))[:1]:
        for part in listed(dig(candidate, "content", "parts")):
            image = picture(dig(part, "inlineData", "data"), dig(part, "inlineData", "mimeType"))
            if image is not None:
                blocks.append(image)
            elif isinstance(text := part.get("text"), str) and not part.get("thought"):
                blocks.append(Text(text=text))
        reason = candidate.get("finishReason")
        if reason in _STOPPED and not any(not isinstance(block, Text) for block in blocks):
            raise refused(str(candidate.get("finishMessage") or reason))
    for prediction in listed(body.get("predictions")):
        if (image := picture(prediction.get("bytesBase64Encoded"), prediction.get("mimeType"))) is not None:
            blocks.append(image)
        elif reason := prediction.get("raiFilteredReason"):
            raise refused(str(reason))
    return blocks
