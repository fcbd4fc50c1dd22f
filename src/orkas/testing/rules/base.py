"""One refusal and its wire forms, and the checks that come before the body is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = [
    "Api", "Rejection", "blank", "check_http", "has_lone_surrogate", "model_missing", "no_json", "objects",
    "parse_body", "words",
]  # fmt: skip

Api: TypeAlias = Literal["openai", "responses", "anthropic", "google", "ollama", "bedrock", "cohere"]

MAX_BYTES = 32 * 1024 * 1024
"""Anthropic's documented limit of one request."""

_ANTHROPIC_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}  # fmt: skip
_GOOGLE_STATUSES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal as its vendor words it. ``str()`` is the message."""

    message: str
    status: int = 400
    type: str = ""
    """Empty: what the vendor sends with this status."""
    param: str | None = None
    code: str | None = None

    def __str__(self) -> str:
        return self.message

    def body(self, api: Api) -> bytes:
        """The JSON that goes over the wire in the form of this vendor."""
        if api == "anthropic":
            kind = self.type or _ANTHROPIC_TYPES.get(self.status, "api_error")
            error: dict[str, Any] = {"type": kind, "message": self.message}
            return json.dumps({"type": "error", "error": error, "request_id": "req_fake"}).encode()
        if api == "google":
            error = {"code": self.status, "message": self.message}
            error["status"] = self.type or _GOOGLE_STATUSES.get(self.status, "UNKNOWN")
            if self.code:
                info = {"reason": self.code, "domain": "googleapis.com"}
                error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **info}]
            return json.dumps({"error": error}).encode()
        if api == "ollama":
            return json.dumps({"error": self.message}).encode()
        if api == "bedrock":
            return json.dumps({"message": self.message}).encode()
        if api == "cohere":
            typed = {"error_type": self.code} if self.code else {}
            return json.dumps({"id": "fake", "message": self.message, **typed}).encode()
        kind = self.type or ("invalid_request_error" if self.status < 429 else "server_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return json.dumps({"error": error}).encode()


def check_http(
    api: Api, headers: Mapping[str, str], body_size: int, keys: Collection[str] | None = None
) -> Rejection | None:
    """Key, version and size. ``headers`` in lower case; ``keys``: the ones that are good, None for any."""
    if api == "anthropic":
        return next(_anthropic_http(headers, body_size, keys), None)
    if api == "google":
        return next(_google_http(headers, keys), None)
    if api in ("ollama", "bedrock", "cohere"):
        return _bearer_http(api, headers, keys)
    return next(_openai_http(headers, keys), None)


def _openai_http(headers: Mapping[str, str], keys: Collection[str] | None) -> Iterator[Rejection]:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if "api-key" in headers:  # Azure
        scheme, key = "bearer", headers["api-key"]
    if scheme.lower() != "bearer" or not key.strip():
        yield Rejection(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
            "auth (i.e. Authorization: Bearer YOUR_KEY).",
            401,
        )
    elif keys is not None and key not in keys:
        masked = key[:3] + "*" * max(len(key) - 7, 0) + key[-4:] if len(key) > 7 else "*" * len(key)
        yield Rejection(
            f"Incorrect API key provided: {masked}. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            401,
            code="invalid_api_key",
        )


def _anthropic_http(headers: Mapping[str, str], size: int, keys: Collection[str] | None) -> Iterator[Rejection]:
    key = headers.get("x-api-key") or headers.get("authorization", "").partition(" ")[2]
    if not key:
        yield Rejection("x-api-key header is required", 401)
    elif keys is not None and key not in keys:
        yield Rejection("invalid x-api-key", 401)
    if not headers.get("anthropic-version"):
        yield Rejection("anthropic-version: header is required")
    if size > MAX_BYTES:
        yield Rejection("Request exceeds the maximum size", 413)


def _google_http(headers: Mapping[str, str], keys: Collection[str] | None) -> Iterator[Rejection]:
    token = headers.get("authorization", "").partition(" ")[2]
    key = headers.get("x-goog-api-key") or token
    if not key:
        yield Rejection(
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or "
            "other form of API consumer identity to call this API.",
            403,
        )
    elif keys is not None and key not in keys:
        if token:
            yield Rejection("Request had invalid authentication credentials.", 401)
        yield Rejection("API key not valid. Please pass a valid API key.", code="API_KEY_INVALID")


_NO_KEY = {
    "ollama": Rejection("unauthorized", 401),
    "bedrock": Rejection("Missing Authentication Token", 403),
    "cohere": Rejection("no api key supplied", 401),
}
_WRONG_KEY = {
    "ollama": Rejection("unauthorized", 401),
    "bedrock": Rejection("The security token included in the request is invalid.", 403),
    "cohere": Rejection("invalid api token", 401),
}
_SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/[a-z0-9-]+/bedrock/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]+, Signature=[0-9a-f]{64}"
)


def _bearer_http(api: Api, headers: Mapping[str, str], keys: Collection[str] | None) -> Rejection | None:
    """``Bearer KEY``; for AWS also a signature, which counts as the key that signed it. Ollama needs none."""
    given = headers.get("authorization", "")
    scheme, _, key = given.partition(" ")
    if api == "bedrock" and (signed := _SIGNED.fullmatch(given)):
        scheme, key = "bearer", signed[1]
    if scheme.lower() != "bearer" or not key.strip():
        return _NO_KEY[api] if keys is not None or api != "ollama" else None
    return _WRONG_KEY[api] if keys is not None and key not in keys else None


def model_missing(api: Api, model: object) -> Rejection:
    """The refusal of a model that the account does not have."""
    if api == "anthropic":
        return Rejection(f"model: {model}", 404)
    if api == "responses":
        text = f"The requested model '{model}' does not exist."
        return Rejection(text, param="model", code="model_not_found")
    if api == "google":
        text = f"models/{model} is not found for API version v1beta, or is not supported for generateContent."
        return Rejection(text, 404)
    if api == "ollama":
        return Rejection(f"model '{model}' not found", 404)
    if api == "bedrock":
        return Rejection("The provided model identifier is invalid.")
    if api == "cohere":
        advice = "make sure the correct model ID was used and that you have access to the model."
        return Rejection(f"model '{model}' not found, {advice}", 404)
    text = f"The model `{model}` does not exist or you do not have access to it."
    return Rejection(text, 404, code="model_not_found")


def parse_body(api: Api, raw: bytes) -> Any:
    """The body as data, or the ``Rejection`` of one that is no JSON. Half a surrogate pair makes it none."""
    try:
        text = raw.decode()
        if (at := _lone_surrogate(text)) is not None:
            line = text.count("\n", 0, at) + 1
            column = at - text.rfind("\n", 0, at)
            return no_json(api, f"no low surrogate in string: line {line} column {column} (char {at})")
        return json.loads(text)
    except ValueError as error:
        return no_json(api, str(error))


def no_json(api: Api, why: str) -> Rejection:
    """The refusal of a body that is no JSON."""
    if api == "anthropic":
        return Rejection(f"The request body is not valid JSON: {why}")
    if api == "google":
        return Rejection(f"Invalid JSON payload received. {why}".strip())
    if api == "ollama":
        return Rejection(f"invalid character in request: {why}")
    if api == "bedrock":
        return Rejection("Unable to parse request body", 400)
    if api == "cohere":
        return Rejection(f"invalid json syntax: {why}")
    return Rejection(
        "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP "
        "library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON. If you have "
        "trouble figuring out how to fix this, please contact us through our help center at help.openai.com.)"
    )


def _lone_surrogate(text: str) -> int | None:
    """Where the first escape stands that is half of a surrogate pair without its other half."""
    high_ends = -1
    high_at = 0
    for match in _ESCAPE.finditer(text):
        code = int(match[1], 16) if match[1] else 0
        if 0xDC00 <= code < 0xE000:
            if match.start() != high_ends:
                return match.start()
            high_ends = -1
            continue
        if high_ends >= 0:
            return high_at
        if 0xD800 <= code < 0xDC00:
            high_at, high_ends = match.start(), match.end()
    return high_at if high_ends >= 0 else None


def has_lone_surrogate(value: Any) -> bool:
    """Whether a string inside plain data holds half a surrogate pair."""
    if isinstance(value, str):
        return any(0xD800 <= ord(c) < 0xE000 for c in value)
    if isinstance(value, dict):
        return any(has_lone_surrogate(k) or has_lone_surrogate(v) for k, v in value.items())
    return isinstance(value, list) and any(map(has_lone_surrogate, value))


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; what is no list or no object counts as absent."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def blank(text: Any) -> bool:
    """A string without a visible character."""
    return isinstance(text, str) and not text.strip()


def words(text: str) -> frozenset[str]:
    """The set of the words of a line, for tables of field names."""
    return frozenset(text.split())
