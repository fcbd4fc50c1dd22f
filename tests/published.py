"""What vendors publish of their own APIs, asked whether a request is one of theirs.

OpenAI publishes a description, the others types in their clients: of these an unknown field is a fault too, though
the clients would let it pass. Where a client is not installed, its vendor is not asked.
"""

from __future__ import annotations

import base64
import binascii
import json
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union

import typing_extensions

from conftest import SHARED

OPENAPI = SHARED / "specs" / "openai-openapi.json"


class Misfit(AssertionError):
    """A request that the vendor's published types do not allow."""


def fault_in(api: str, body: Mapping[str, Any], path: str = "") -> str:
    """What is wrong with a request, by what its vendor publishes; empty: nothing, or nobody can be asked.

    ``path``: of the request's address, where Bedrock's has the model.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clients of vendors, imported on first use
        asked = _VENDORS[api]()
        return asked(body) if asked is not None else ""


def validated(body: dict[str, Any], api: str = "google") -> dict[str, Any]:
    """The same body.

    Raises:
        Misfit: it is none of the vendor's.
    """
    if fault := fault_in(api, body):
        raise Misfit(f"{api}: {fault}")
    return body


Ask = Callable[[Mapping[str, Any]], str]


@cache
def described(name: str) -> Ask | None:
    """OpenAI's description of its API: one request in it."""
    try:
        import jsonschema_rs
    except ImportError:
        return None
    if not OPENAPI.exists():
        return None
    schema = {
        "$ref": f"#/components/schemas/{name}",
        "components": _any_of(json.loads(OPENAPI.read_bytes())["components"]),
    }
    validator = jsonschema_rs.Draft202012Validator(schema)

    def ask(body: Mapping[str, Any]) -> str:
        return "; ".join(f"{e.instance_path}: {e.message[:300]}" for e in validator.iter_errors(body))

    return ask


@cache
def chat() -> Ask | None:
    ask = described("CreateChatCompletionRequest")
    if ask is None:
        return None

    def without_thought(message: Any) -> Any:
        """Mistral's models get their reasoning back as parts of a kind that OpenAI's do not have."""
        content = message.get("content")
        if not isinstance(content, list) or message.get("role") != "assistant":
            return message
        rest = [part for part in content if part.get("type") != "thinking"]
        return {**message, "content": rest or None}

    return lambda body: ask({**body, "messages": [without_thought(m) for m in body.get("messages", ())]})


def _any_of(value: Any) -> Any:
    """``oneOf`` with a discriminator means the one that the discriminator names; without it, one that fits."""
    if isinstance(value, dict):
        return {("anyOf" if k == "oneOf" else k): _any_of(v) for k, v in value.items()}
    return [_any_of(v) for v in value] if isinstance(value, list) else value


@cache
def anthropic() -> Ask | None:
    try:
        from anthropic.types import message_create_params as params
    except ImportError:
        return None

    def ask(body: Mapping[str, Any]) -> str:
        if "anthropic_version" in body:  # Vertex: the version in the body, the model in the path
            body = {"model": "m", **{k: v for k, v in body.items() if k != "anthropic_version"}}
        return misfit(body, params.MessageCreateParams) or ""

    return ask


@cache
def cohere() -> Ask | None:
    try:
        from cohere.v2.raw_client import RawV2Client
    except ImportError:
        return None
    hints = {k: v for k, v in typing.get_type_hints(RawV2Client.chat_stream).items() if k != "return"}

    def ask(body: Mapping[str, Any]) -> str:
        body = {k: v for k, v in body.items() if k != "stream"}  # the client adds it
        return _fields(body, hints, {"model", "messages"}, "") or ""

    return ask


@cache
def ollama() -> Ask | None:
    try:
        from ollama._types import ChatRequest
    except ImportError:
        return None
    server = {"truncate": bool, "shift": bool}  # which its Python client does not know
    hints = {name: field.annotation for name, field in ChatRequest.model_fields.items()} | server
    return lambda body: _fields(body, hints, {"model", "messages"}, "") or ""


@cache
def google() -> Ask | None:
    try:
        from google.genai import types as published
        from pydantic import TypeAdapter, ValidationError
    except ImportError:
        return None
    fields = {
        name: TypeAdapter(kind)
        for name, kind in {
            "contents": list[published.Content], "systemInstruction": published.Content, "tools": list[published.Tool],
            "toolConfig": published.ToolConfig, "generationConfig": published.GenerationConfig,
        }.items()
    }  # fmt: skip

    def ask(body: Mapping[str, Any]) -> str:
        for name, value in body.items():
            if name not in fields:
                return f"there is no field {name!r}"
            try:
                fields[name].validate_json(json.dumps(value))
            except ValidationError as error:
                return f"{name}: {error}"
        return ""

    return ask


@cache
def bedrock() -> Ask | None:
    try:
        import botocore.session
        from botocore.validate import ParamValidator
    except ImportError:
        return None
    service = botocore.session.Session().get_service_model("bedrock-runtime")
    shape, validator = service.operation_model("ConverseStream").input_shape, ParamValidator()

    def ask(body: Mapping[str, Any]) -> str:
        report = validator.validate({**body, "modelId": "m"}, shape)
        return report.generate_report() if report.has_errors() else _blobs(body)

    return ask


def _blobs(value: Any, name: str = "") -> str:
    """On the wire a blob is base64, which its type does not tell."""
    if isinstance(value, Mapping):
        return next(filter(None, (_blobs(v, k) for k, v in value.items() if k != "json")), "")
    if isinstance(value, list):
        return next(filter(None, (_blobs(v) for v in value)), "")
    if name in ("bytes", "redactedContent"):
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return f"{name} is no base64"
    return ""


_VENDORS: dict[str, Callable[[], Ask | None]] = {
    "openai": chat, "responses": lambda: described("CreateResponse"),
    "anthropic": anthropic, "google": google, "ollama": ollama, "bedrock": bedrock, "cohere": cohere,
}  # fmt: skip


# ------------------------------------------------------------------ a value and a Python type


def misfit(value: Any, kind: Any, at: str = "") -> str | None:
    """Why a value out of JSON does not have this type; None: it has."""
    kind = _bare(kind)
    if kind in (Any, object):
        return None
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _any(value, parts, at)
    if origin is Literal:
        return None if value in parts else f"{at} is {value!r}, not one of {parts}"
    if typing_extensions.is_typeddict(kind):
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        return _fields(value, hints, kind.__required_keys__, at)
    if hasattr(kind, "model_fields"):
        return _model(value, kind, at)
    sort = origin or kind
    if isinstance(sort, type) and sort is not str and issubclass(sort, Mapping):
        return _each(value.items(), parts[1], at) if isinstance(value, dict) else f"{at} is no object"
    if sort in (list, Iterable, Sequence, typing.Iterable, typing.Sequence) or sort in _SEQUENCES:
        return _each(enumerate(value), parts[0], at) if isinstance(value, list) else f"{at} is no list"
    return None if _plain(value, kind) else f"{at} is {str(value)[:80]!r}, not {getattr(kind, '__name__', kind)}"


_SEQUENCES = {types.GenericAlias, Iterable, Sequence}


def _bare(kind: Any) -> Any:
    """Without what only says something about it."""
    while True:
        if typing.get_origin(kind) in _MARKS:
            kind = typing.get_args(kind)[0]
        elif isinstance(kind, typing_extensions.TypeAliasType):
            kind = kind.__value__
        else:
            return kind


_MARKS = (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired, typing.Required)


def _plain(value: Any, kind: Any) -> bool:
    if kind in (None, type(None)):
        return value is None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(kind, type) and kind in (str, bool) and isinstance(value, kind)


def _any(value: Any, kinds: tuple[Any, ...], at: str) -> str | None:
    """A type that is told apart from the others by its name for itself says best what is wrong."""
    if any(
        hasattr(kind, "model_fields") for kind in kinds
    ):  # Ollama's client also takes any mapping: that says nothing
        kinds = tuple(kind for kind in kinds if typing.get_origin(kind) is None)
    faults = [misfit(value, kind, at) for kind in kinds]
    if None in faults:
        return None
    told = [f for f in faults if f and not f.startswith((f"{at}.type is", f"{at}.role is"))]
    return max(told or [f"{at} fits none of {len(kinds)} types"], key=lambda f: f.partition(" ")[0].count("."))


def _each(items: Iterable[tuple[Any, Any]], kind: Any, at: str) -> str | None:
    return next((fault for key, value in items if (fault := misfit(value, kind, f"{at}.{key}"))), None)


def _fields(value: Any, hints: Mapping[str, Any], required: Iterable[str], at: str) -> str | None:
    if not isinstance(value, dict | Mapping):
        return f"{at} is no object"
    for name, item in value.items():
        if name not in hints:
            return f"{at} has no field {name!r}"
        if fault := misfit(item, hints[name], f"{at}.{name}"):
            return fault
    return next((f"{at} lacks {name!r}" for name in required if name not in value), None)


def _model(value: Any, kind: Any, at: str) -> str | None:
    if kind.__name__ == "Parameters":  # a JSON Schema, of which the type tells the beginning only
        return None if isinstance(value, dict) else f"{at} is no object"
    if kind.__name__ == "Image" and kind.__module__.startswith("ollama"):
        return None if isinstance(value, str) else f"{at} is no base64"
    hints, required = {}, set()
    for name, field in kind.model_fields.items():
        wire = next((m.alias for m in field.metadata if hasattr(m, "alias")), None) or field.alias or name
        hints[wire] = field.annotation
        if field.is_required():
            required.add(wire)
    return _fields(value, hints, required, at)
