"""What generateContent refuses."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator
from typing import Any

from orkas.testing.rules.base import Rejection, has_lone_surrogate, no_json, objects, words

__all__ = ["DUMMY_SIGNATURES", "check_google", "generation"]

_TOP = words(
    "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent labels model"
    " modelArmorConfig serviceTier store"
)
_PARTS = words(
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse"
)
_BESIDE = words("thought thoughtSignature videoMetadata mediaResolution partMetadata")
_CALL = words("id name args partialArgs willContinue")
_RESPONSE = words("id name response parts willContinue scheduling")
_BLOB = words("mimeType data displayName")
_DECLARATION = words("name description parameters parametersJsonSchema response responseJsonSchema behavior")
_SCHEMA = words(
    "type format title description nullable enum items maxItems minItems properties required minProperties"
    " maxProperties minLength maxLength pattern example anyOf propertyOrdering default minimum maximum"
)
_TYPES = words("STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL")
_FORMATS = {"STRING": words("enum date-time"), "NUMBER": words("float double"), "INTEGER": words("int32 int64")}
_GENERATION = words(
    "temperature topP topK candidateCount maxOutputTokens stopSequences responseMimeType responseSchema"
    " responseJsonSchema responseModalities presencePenalty frequencyPenalty seed responseLogprobs logprobs"
    " thinkingConfig speechConfig mediaResolution imageConfig enableEnhancedCivicAnswers audioTimestamp"
)
_THINKING = words("includeThoughts thinkingBudget thinkingLevel")
_LEVELS = words("MINIMAL LOW MEDIUM HIGH")
_IMAGES = words("image/png image/jpeg image/webp image/heic image/heif")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
DUMMY_SIGNATURES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What Google's page on thought signatures gives for calls of other models."""

_CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
_RESPONSE_ORDER = "Please ensure that function response turn comes immediately after a function call turn."


def generation(model: str) -> tuple[int, int]:
    """The version in a model's name; names without one are taken for the newest."""
    found = re.search(r"gemini-(\d+)(?:\.(\d+))?", model)
    return (int(found[1]), int(found[2] or 0)) if found else (1, 0) if "gemma" in model else (3, 1)


def check_google(body: Any, *, model: str, signatures: Collection[str] | None = None) -> Rejection | None:
    """The refusal of this request body to ``model``, or None.

    ``signatures``: the thought signatures that were given out; any other is refused, but for the documented stand-in.
    None: any is taken for good. Field names count in both spellings, as Google's own reader has it.
    """
    return next(_faults(body, model, signatures), None)


def _faults(body: Any, model: str, signatures: Collection[str] | None) -> Iterator[Rejection]:
    if not isinstance(body, dict):
        yield no_json("google", "Root element must be a message.")
        return
    if has_lone_surrogate(body):
        yield no_json("google", "")
    body = _camel(body)
    yield from _unknown(body, _TOP, "")
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        yield _field("contents", "contents is not specified")
        return
    for i, content in enumerate(contents):
        yield from _content(content, i, model)
    turns = [_camel(c) for c in contents]
    yield from _order(turns)
    yield from _signatures(turns, model, signatures)
    yield from _system(body.get("systemInstruction"))
    yield from _tools(body)
    yield from _options(body.get("generationConfig"), model)
    yield from _form(body.get("generationConfig"), body, model)


def _camel(value: dict[str, Any]) -> dict[str, Any]:
    """The object with its own field names in camel case."""
    return {re.sub(r"_([a-z])", lambda m: m[1].upper(), str(k)): v for k, v in value.items()}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda m: "_" + m[1].lower(), name)


def _unknown(value: dict[str, Any], known: frozenset[str], at: str) -> Iterator[Rejection]:
    for name in sorted(value.keys() - known):
        where = f" at '{at}'" if at else ""
        yield Rejection(f'Invalid JSON payload received. Unknown name "{_snake(name)}"{where}: Cannot find field.')


def _field(at: str, what: str) -> Rejection:
    return Rejection(f"* GenerateContentRequest.{at}: {what}\n")


def _invalid(at: str, kind: str, value: Any) -> Rejection:
    return Rejection(f"Invalid value at '{at}' ({kind}), {str(value)[:80]!r}")


# ------------------------------------------------------------------ contents


def _content(content: Any, i: int, model: str) -> Iterator[Rejection]:
    at = f"contents[{i}]"
    if not isinstance(content, dict):
        yield _invalid(at, "type.googleapis.com/google.ai.generativelanguage.v1beta.Content", content)
        return
    yield from _unknown(_camel(content), words("role parts"), at)
    if content.get("role", "user") not in ("user", "model", "function"):
        yield Rejection("Please use a valid role: user, model.")
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        yield _field(f"{at}.parts", "contents.parts must not be empty.")
        return
    for k, part in enumerate(parts):
        yield from _part(part, f"{at}.parts[{k}]", str(content.get("role", "user")), model)


def _part(part: Any, at: str, role: str, model: str) -> Iterator[Rejection]:
    part = _camel(part) if isinstance(part, dict) else {}
    yield from _unknown(part, _PARTS | _BESIDE, at)
    kinds = part.keys() & _PARTS
    if len(kinds) != 1:
        what = "required oneof field 'data' must have one initialized field"
        yield _field(f"{at}.data", what) if not kinds else _invalid(at, "oneof", "oneof field 'data' is already set")
        return
    kind = next(iter(kinds))
    value = part[kind]
    if kind == "text":
        if not isinstance(value, str):
            yield _invalid(f"{at}.text", "TYPE_STRING", value)
        elif not value.strip() and "thoughtSignature" not in part:
            yield Rejection(
                "Unable to submit request because it must have a text parameter. Add a text parameter and try again."
            )
    elif not isinstance(value, dict):
        yield _invalid(f"{at}.{_snake(kind)}", "message", value)
    elif kind == "inlineData":
        yield from _blob(_camel(value), f"{at}.inline_data")
    elif kind == "functionCall":
        yield from _call(_camel(value), f"{at}.function_call", role)
    elif kind == "functionResponse":
        yield from _response(_camel(value), f"{at}.function_response", model)


def _blob(blob: dict[str, Any], at: str) -> Iterator[Rejection]:
    yield from _unknown(blob, _BLOB, at)
    kind, data = str(blob.get("mimeType", "")), blob.get("data")
    if not kind:
        yield Rejection("mime_type must be set for inline_data.")
    elif kind.startswith("image/") and kind not in _IMAGES:
        yield Rejection(f"Unsupported MIME type: {kind}")
    if not isinstance(data, str) or not data:
        yield Rejection("Unable to process input image. Please retry or report in https://developers.generativeai.google")
    elif not data.startswith("<elided") and not _is_base64(data):
        yield Rejection(f"Invalid value at '{at}.data' (TYPE_BYTES), Base64 decoding failed for {data[:40]!r}")


def _is_base64(text: str) -> bool:
    """Base64 in either alphabet, padded or not."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        return False
    return True


def _call(call: dict[str, Any], at: str, role: str) -> Iterator[Rejection]:
    yield from _unknown(call, _CALL, at)
    if role != "model":
        yield Rejection(_CALL_ORDER)
    if not isinstance(call.get("name"), str) or not call["name"]:
        yield _field(f"{at}.name", "Name cannot be empty.")
    if not isinstance(call.get("args", {}), dict):
        yield _invalid(f"{at}.args", "type.googleapis.com/google.protobuf.Struct", call["args"])


def _response(response: dict[str, Any], at: str, model: str) -> Iterator[Rejection]:
    yield from _unknown(response, _RESPONSE, at)
    if not isinstance(response.get("name"), str) or not response["name"]:
        yield _field(f"{at}.name", "Name cannot be empty.")
    if not isinstance(response.get("response"), dict):
        kind = "type.googleapis.com/google.protobuf.Struct"
        yield _invalid(f"{at}.response", kind, response.get("response"))
    if response.get("parts") and generation(model) < (3, 0):
        yield Rejection("Multimodal function response is not supported for this model.")
    for k, part in enumerate(objects(response.get("parts"))):
        inner = _camel(part).get("inlineData")
        if isinstance(inner, dict):
            yield from _blob(_camel(inner), f"{at}.parts[{k}].inline_data")


def _order(turns: list[dict[str, Any]]) -> Iterator[Rejection]:
    if turns[0].get("role") == "model":
        yield Rejection(
            _CALL_ORDER
            if _of(turns[0], "functionCall")
            else "Please ensure that multiturn requests alternate between user and model, and begin with the user role."
        )
    if turns[-1].get("role") == "model":
        calls = _of(turns[-1], "functionCall")
        yield Rejection(_COUNT if calls else "Please ensure that multiturn requests end with a user role.")
    before: dict[str, Any] = {}
    for turn in turns:
        calls, answers = _of(before, "functionCall"), _of(turn, "functionResponse")
        if calls and len(calls) != len(answers):
            yield Rejection(_COUNT)
        elif answers and not calls:
            yield Rejection(_RESPONSE_ORDER)
        elif [c.get("name") for c in calls] != [a.get("name") for a in answers]:
            yield Rejection(f"{_RESPONSE_ORDER} The names of calls and responses differ.")
        elif any(a.get("id") not in (None, c.get("id")) for c, a in zip(calls, answers, strict=True) if c.get("id")):
            yield Rejection(f"{_RESPONSE_ORDER} The ids of calls and responses differ.")
        if before.get("role") == "model" and turn.get("role") == "model" and _of(turn, "functionCall"):
            yield Rejection(_CALL_ORDER)
        before = turn


def _of(turn: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    parts = [_camel(p) for p in objects(turn.get("parts"))]
    return [_camel(p[kind]) for p in parts if isinstance(p.get(kind), dict)]


# ------------------------------------------------------------------ signatures


def _signatures(turns: list[dict[str, Any]], model: str, given: Collection[str] | None) -> Iterator[Rejection]:
    start = max((i for i, t in enumerate(turns) if _is_user(t)), default=0)
    for i, turn in enumerate(turns):
        parts = [_camel(p) for p in objects(turn.get("parts"))]
        for part in parts:
            yield from _signature(part.get("thoughtSignature"), given)
        calls = [p for p in parts if isinstance(p.get("functionCall"), dict)]
        if calls and i > start and generation(model) >= (3, 0) and not calls[0].get("thoughtSignature"):
            name = calls[0]["functionCall"].get("name")
            yield Rejection(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{name}` , position {i + 1}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )


def _is_user(turn: dict[str, Any]) -> bool:
    """A turn of the user's own words: it begins a new turn, results of tools do not."""
    return turn.get("role", "user") == "user" and not _of(turn, "functionResponse")


def _signature(signature: Any, given: Collection[str] | None) -> Iterator[Rejection]:
    if signature is None or signature in DUMMY_SIGNATURES:
        return
    if not isinstance(signature, str) or (not signature.startswith("<elided") and not _is_base64(signature)):
        yield _invalid("thought_signature", "TYPE_BYTES", "Base64 decoding failed")
    elif given is not None and signature not in given:
        yield Rejection("Corrupted thought signature.")


# ------------------------------------------------------------------ system, tools, options


def _system(system: Any) -> Iterator[Rejection]:
    if system is None:
        return
    parts = objects(system.get("parts")) if isinstance(system, dict) else []
    if not parts or not all(isinstance(p.get("text"), str) and p["text"].strip() for p in parts):
        yield _field("system_instruction.parts", "contents.parts must not be empty.")


_TOOLS = words(
    "functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext fileSearch googleMaps computerUse"
    " enterpriseWebSearch retrieval"
)


def _tools(body: dict[str, Any]) -> Iterator[Rejection]:
    tools = body.get("tools", [])
    seen: set[str] = set()
    for t, tool in enumerate(objects([tools] if isinstance(tools, dict) else tools)):
        yield from _unknown(_camel(tool), _TOOLS, f"tools[{t}]")
        for k, declared in enumerate(objects(_camel(tool).get("functionDeclarations"))):
            yield from _declaration(_camel(declared), f"tools[{t}].function_declarations[{k}]")
            name = str(declared.get("name"))
            if name in seen:
                yield Rejection(f"Duplicate function declaration found: {name}")
            seen.add(name)
    config = body.get("toolConfig", {})
    calling = _camel(config).get("functionCallingConfig", {}) if isinstance(config, dict) else {}
    mode = calling.get("mode", "AUTO") if isinstance(calling, dict) else calling
    if mode not in ("AUTO", "NONE", "ANY", "VALIDATED"):
        yield _invalid("tool_config.function_calling_config.mode", "Mode", mode)
    elif mode == "ANY" and not seen:
        yield Rejection("Function calling config is set without function_declarations.")


def _declaration(declared: dict[str, Any], at: str) -> Iterator[Rejection]:
    yield from _unknown(declared, _DECLARATION, at)
    if not isinstance(declared.get("name"), str) or not _NAME.fullmatch(declared["name"]):
        yield _field(
            f"{at}.name",
            "[FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be alphameric "
            "(a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64.",
        )
    if "parametersJsonSchema" in declared:
        if "parameters" in declared:
            yield Rejection("Only one of `parameters` and `parameters_json_schema` can be set.")
        json_schema = declared["parametersJsonSchema"]
        if not isinstance(json_schema, dict) or json_schema.get("type") != "object":
            yield _field(f"{at}.parameters_json_schema", "parameters schema should be of type OBJECT")
    elif isinstance(declared.get("parameters"), dict):
        yield from _schema(declared["parameters"], f"{at}.parameters", top=True)
    elif declared.get("parameters") is not None:
        yield _invalid(f"{at}.parameters", "Schema", declared["parameters"])


def _schema(schema: Any, at: str, *, top: bool = False) -> Iterator[Rejection]:
    if not isinstance(schema, dict):
        yield _invalid(at, "type.googleapis.com/google.ai.generativelanguage.v1beta.Schema", schema)
        return
    schema = _camel(schema)
    yield from _unknown(schema, _SCHEMA, at)
    choices = schema.get("anyOf")
    if choices is not None:
        if schema.keys() - {"anyOf"}:
            told = "specified other fields alongside any_of. When using any_of, it must be the only field set."
            yield Rejection(f"{at} {told}")
        for i, choice in enumerate(objects(choices)):
            yield from _schema(choice, f"{at}.any_of[{i}]")
        return
    kind = schema.get("type")
    if isinstance(kind, int):  # the number of the enum in place of its name
        return
    if not isinstance(kind, str) or kind.upper() not in _TYPES:
        yield _invalid(f"{at}.type", "type.googleapis.com/google.ai.generativelanguage.v1beta.Type", kind)
        return
    kind = kind.upper()
    if top and kind != "OBJECT":
        yield _field(at, "parameters schema should be of type OBJECT")
    if "format" in schema and str(schema["format"]) not in _FORMATS.get(kind, ()):
        known = " and ".join(map(repr, sorted(_FORMATS.get(kind, ()))))
        yield _field(f"{at}.format", f"only {known} are supported for {kind} type")
    enum = schema.get("enum")
    if enum is not None and not (isinstance(enum, list) and enum and all(isinstance(e, str) and e for e in enum)):
        yield _field(f"{at}.enum", "cannot be empty.")
    elif enum is not None and kind != "STRING":
        yield _field(f"{at}.enum", "only allowed for STRING type")
    if kind == "ARRAY" and "items" not in schema:
        yield _field(f"{at}.items", "missing field.")
    if "items" in schema:
        yield from _schema(schema["items"], f"{at}.items")
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    for i, inner in enumerate(properties.values()):
        yield from _schema(inner, f"{at}.properties[{i}].value")
    required = schema.get("required")
    for i, name in enumerate(required if isinstance(required, list) else ()):
        if str(name) not in properties:
            yield _field(f"{at}.required[{i}]", "property is not defined")


def _form(options: Any, body: dict[str, Any], model: str) -> Iterator[Rejection]:
    if not isinstance(options, dict):
        return
    options = _camel(options)
    kind, schema = options.get("responseMimeType"), options.get("responseJsonSchema")
    if schema is not None and kind != "application/json":
        yield _field("generation_config.response_json_schema", "only allowed with response_mime_type application/json")
    if schema is not None and not isinstance(schema, dict):
        yield _invalid("generation_config.response_json_schema", "type.googleapis.com/google.protobuf.Value", schema)
    if kind == "application/json" and body.get("tools") and generation(model) < (3, 0):
        yield Rejection("Function calling with a response mime type: 'application/json' is unsupported")


def _options(options: Any, model: str) -> Iterator[Rejection]:
    if not isinstance(options, dict):
        return
    options = _camel(options)
    yield from _unknown(options, _GENERATION, "generation_config")
    limit = options.get("maxOutputTokens")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        yield _field("generation_config.max_output_tokens", "max_output_tokens must be positive.")
    thinking = options.get("thinkingConfig")
    if not isinstance(thinking, dict):
        return
    thinking = _camel(thinking)
    yield from _unknown(thinking, _THINKING, "generation_config.thinking_config")
    version, level, budget = generation(model), thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if version < (2, 5):
        yield Rejection("Thinking is not enabled for this model.")
    if level is not None and budget is not None:
        yield Rejection("You can only set only one of thinking budget and thinking level.")
    if level is not None and version < (3, 0):
        yield Rejection("Thinking level is not supported for this model.")
    few = ("MINIMAL", "MEDIUM") if version == (3, 0) else ("MINIMAL",)
    if level is not None and (str(level).upper() not in _LEVELS or ("pro" in model and str(level).upper() in few)):
        yield Rejection(f"Thinking level {level} is not supported for this model.")
    if budget == 0 and "pro" in model:
        yield Rejection("Budget 0 is invalid. This model only works in thinking mode.")
