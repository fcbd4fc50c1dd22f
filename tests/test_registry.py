"""Model strings, addresses and keys."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from orkas import providers
from orkas.infra.errors import UsageError
from orkas.infra.messages import user_message
from orkas.providers.base import CompletionParams, Request
from orkas.providers.catalog import Gemini, anthropic_thinking, gemini, model_info
from orkas.providers.registry import resolve, split_model, vendor_names
from orkas.providers.vendors import table

FLOOR = Path(providers.__path__[0])
STUDIO, VERTEX = "https://generativelanguage.googleapis.com/v1beta", "aiplatform.googleapis.com"
GEMINI = "publishers/google/models/m:streamGenerateContent?alt=sse"


def request(model: str, environ: dict[str, str] | None = None, **given: Any) -> Request:
    provider, name = resolve(model, environ=environ or {}, **given)
    return provider.request(CompletionParams(model=name, messages=[user_message("hi")]))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("anthropic", "write anthropic/MODEL, such as anthropic/claude"),
        ("local", "orkas models install local"),
        ("demo", "such as demo/offline"),
        ("demo/nope", "the demo is demo/offline"),
    ],
)
def test_a_vendor_alone_is_no_model(model: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        resolve(model, environ={})


@pytest.mark.parametrize(
    ("model", "vendor", "name"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-sonnet-4.5:free", "openrouter", "anthropic/claude-sonnet-4.5:free"),
        ("openai-chat/gpt-4o", "openai-chat", "gpt-4o"),
        ("OpenAI/gpt-4o", "openai", "gpt-4o"),
        ("claude-3-5-haiku-latest", "anthropic", "claude-3-5-haiku-latest"),
        ("gpt-5", "openai", "gpt-5"),
        ("o3-mini", "openai", "o3-mini"),
        ("chatgpt-4o-latest", "openai", "chatgpt-4o-latest"),
        ("gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("mistral-large-latest", "mistral", "mistral-large-latest"),
        ("codestral-2501", "mistral", "codestral-2501"),
        ("grok-4", "xai", "grok-4"),
        ("deepseek-chat", "deepseek", "deepseek-chat"),
        ("kimi-k2", "moonshot", "kimi-k2"),
        ("glm-4.7", "zai", "glm-4.7"),
        ("qwen3-max", "alibaba", "qwen3-max"),
        ("sonar", "perplexity", "sonar"),
        ("llama3.2:3b", "ollama", "llama3.2:3b"),
        ("mistral:7b", "ollama", "mistral:7b"),
        (" OpenAI / gpt-5 ", "openai", "gpt-5"),
    ],
)
def test_split(model: str, vendor: str, name: str) -> None:
    assert split_model(model) == (vendor, name)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("antropic/claude", ("antropic", "anthropic")),
        ("nonsense/model", ("nonsense", "openai")),
        ("my-model", ("my-model", "vendor/my-model")),
        ("openai/", ("openai/", "openai/MODEL")),
        ("openai/ ", ("openai/", "openai/MODEL")),
        ("google/\udce9x", ("characters", "anew")),
        ("openai/gpt\u200b-5", ("characters", "anew")),
        ("openai:gpt-5", ("colon", "openai/gpt-5")),
        ("Anthropic:claude-sonnet-5", ("colon", "anthropic/claude-sonnet-5")),
        ("", ("no model", "ORKAS_MODEL")),
        ("  ", ("no model", "ORKAS_MODEL")),
    ],
)
def test_what_cannot_be_told_is_wrong_usage_with_a_way_out(model: str, words: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(model, environ={})
    assert words[0] in caught.value.message
    assert words[1] in caught.value.hint


@pytest.mark.parametrize(
    ("model", "environ", "url"),
    [
        ("openai/gpt-4o", {}, "https://api.openai.com/v1/responses"),
        ("openai-chat/gpt-4o", {"OPENAI_BASE_URL": "http://h:1/x"}, "http://h:1/x/chat/completions"),
        ("openai-chat/gpt-4o", {}, "https://api.openai.com/v1/chat/completions"),
        ("openai/gpt-4o", {"OPENAI_BASE_URL": "http://h:1"}, "http://h:1/v1/responses"),
        ("openai/gpt-4o", {"OPENAI_BASE_URL": "http://h:1/"}, "http://h:1/v1/responses"),
        ("openai/gpt-4o", {"OPENAI_BASE_URL": "http://h/a/responses"}, "http://h/a/responses"),
        ("openai/gpt-4o", {"OPENAI_BASE_URL": "http://h/a/chat/completions"}, "http://h/a/responses"),
        ("openai-chat/m", {"OPENAI_BASE_URL": "http://h/a/chat/completions"}, "http://h/a/chat/completions"),
        ("azure/m", {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"},
         "https://r.openai.azure.com/openai/v1/responses"),
        ("azure/m", {"AZURE_BASE_URL": "r.openai.azure.com"}, "https://r.openai.azure.com/openai/v1/responses"),
        ("azure/m", {"AZURE_BASE_URL": "https://h/x?api-version=1"}, "https://h/x/responses?api-version=1"),
        ("anthropic/claude-x", {}, "https://api.anthropic.com/v1/messages"),
        ("anthropic/claude-x", {"ANTHROPIC_BASE_URL": "https://h"}, "https://h/v1/messages"),
        ("custom/m", {"CUSTOM_BASE_URL": "localhost:9000"}, "http://localhost:9000/v1/chat/completions"),
        ("custom/m", {"CUSTOM_BASE_URL": "https://h/api?v=1"}, "https://h/api/chat/completions?v=1"),
        ("ollama/m", {}, "http://127.0.0.1:11434/api/chat"),
        ("ollama/m", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/api/chat"),
        ("ollama/m", {"OLLAMA_HOST": "box:1234"}, "http://box:1234/api/chat"),
        ("ollama/m", {"OLLAMA_BASE_URL": "https://o.example/v1"}, "https://o.example/api/chat"),
        ("ollama/m", {"OLLAMA_BASE_URL": "https://o.example/x/v1/"}, "https://o.example/x/api/chat"),
        ("ollama/m", {"OLLAMA_BASE_URL": "https://o.example/api"}, "https://o.example/api/chat"),
        ("ollama/m", {"OLLAMA_BASE_URL": "https://o.example/api/chat"}, "https://o.example/api/chat"),
        ("cohere/m", {"COHERE_BASE_URL": "https://h/v2/chat"}, "https://h/v2/chat"),
        ("ollama-chat/m", {}, "http://127.0.0.1:11434/v1/chat/completions"),
        ("ollama-chat/m", {"OLLAMA_HOST": "box:1234"}, "http://box:1234/v1/chat/completions"),
        ("command-a-03-2025", {}, "https://api.cohere.com/v2/chat"),
        ("cohere/m", {"COHERE_BASE_URL": "https://h/compatibility/v1"}, "https://h/v2/chat"),
        ("bedrock/m", {"AWS_REGION": "us-east-1"}, "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream"),
        ("bedrock/m", {"BEDROCK_BASE_URL": "h"}, "https://h/model/m/converse-stream"),
        ("groq/m", {}, "https://api.groq.com/openai/v1/chat/completions"),
        ("groq/m", {"GROQ_BASE_URL": "http://h"}, "http://h/openai/v1/chat/completions"),
        ("gemini-2.5-pro", {}, f"{STUDIO}/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("google/models/gemini-x", {}, f"{STUDIO}/models/gemini-x:streamGenerateContent?alt=sse"),
        ("google/a?b#c", {}, f"{STUDIO}/models/a%3Fb%23c:streamGenerateContent?alt=sse"),
        ("google/m", {"GOOGLE_BASE_URL": "https://h?v=1"}, "https://h/v1beta/models/m:streamGenerateContent?v=1&alt=sse"),
        ("vertex/m", {"GOOGLE_CLOUD_PROJECT": "p"}, f"https://{VERTEX}/v1beta1/projects/p/locations/global/{GEMINI}"),
        (
            "vertex/m", {"GOOGLE_VERTEX_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-east5"},
            f"https://us-east5-{VERTEX}/v1beta1/projects/p/locations/us-east5/{GEMINI}",
        ),
        (
            "vertex/m", {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "eu"},
            f"https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/{GEMINI}",
        ),
        ("vertex/m", {"VERTEX_API_KEY": "AIzaX"}, f"https://{VERTEX}/v1beta1/{GEMINI}"),
        ("google/m", {"GOOGLE_BASE_URL": "http://h/v1beta/models/old:streamGenerateContent"}, "http://h/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("vertex/m", {"VERTEX_BASE_URL": "http://h/x"}, f"http://h/x/{GEMINI}"),
        ("vertex/m", {"VERTEX_BASE_URL": "http://h/x/publishers/google/models/old:generateContent"}, f"http://h/x/{GEMINI}"),
        ("vertex/m", {"VERTEX_BASE_URL": "h:1/x"}, f"https://h:1/x/{GEMINI}"),
        (
            "vertex/m", {"VERTEX_BASE_URL": "localhost:1/", "GOOGLE_CLOUD_PROJECT": "p"},
            f"http://localhost:1/v1beta1/projects/p/locations/global/{GEMINI}",
        ),
        (
            "vertex/m", {"VERTEX_BASE_URL": "http://h:1", "GOOGLE_CLOUD_PROJECT": "p"},
            f"http://h:1/v1beta1/projects/p/locations/global/{GEMINI}",
        ),
        ("custom/m", {"CUSTOM_BASE_URL": "https://h/v1#top"}, "https://h/v1/chat/completions"),
        (
            "vertex-anthropic/claude-x@1", {"GOOGLE_CLOUD_PROJECT": "p"},
            f"https://{VERTEX}/v1/projects/p/locations/global/publishers/anthropic/models/claude-x@1:streamRawPredict",
        ),
    ],
)
def test_addresses(model: str, environ: dict[str, str], url: str) -> None:
    assert request(model, environ).url == url


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h:port", "http://[::1"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("custom/m", base_url=url, environ={})
    assert "address" in caught.value.message


@pytest.mark.parametrize("vendor", ["custom", "azure"])
def test_some_vendors_need_an_address(vendor: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(f"{vendor}/m", environ={})
    assert "base URL" in caught.value.message and f"{vendor.upper()}_BASE_URL" in caught.value.hint


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "GOOGLE_CLOUD_PROJECT"),
        ({"VERTEX_API_KEY": "ya29.token"}, "GOOGLE_CLOUD_PROJECT"),
        ({"GOOGLE_CLOUD_PROJECT": "p/../q"}, "GOOGLE_CLOUD_PROJECT"),
        ({"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "evil.example/"}, "GOOGLE_CLOUD_LOCATION"),
    ],
)
def test_vertex_needs_a_project_and_plain_names(environ: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("vertex/gemini-2.5-pro", environ=environ)
    assert words in caught.value.hint


@pytest.mark.parametrize(
    ("model", "environ", "header", "value"),
    [
        ("openai/m", {"OPENAI_API_KEY": "k"}, "authorization", "Bearer k"),
        ("openai-chat/m", {"OPENAI_API_KEY": " k\n"}, "authorization", "Bearer k"),
        ("anthropic/m", {"ANTHROPIC_API_KEY": "k"}, "x-api-key", "k"),
        ("google/m", {"GEMINI_API_KEY": "k"}, "x-goog-api-key", "k"),
        ("google/m", {"GOOGLE_API_KEY": "a", "GEMINI_API_KEY": "b"}, "x-goog-api-key", "a"),
        ("google/m", {"GOOGLE_API_KEY": "ya29.t"}, "authorization", "Bearer ya29.t"),
        ("vertex/m", {"VERTEX_API_KEY": "t", "GOOGLE_CLOUD_PROJECT": "p"}, "authorization", "Bearer t"),
        ("vertex/m", {"CLOUDSDK_AUTH_ACCESS_TOKEN": "t", "GOOGLE_CLOUD_PROJECT": "p"}, "authorization", "Bearer t"),
        ("vertex/m", {"GOOGLE_VERTEX_API_KEY": "AQ.x"}, "x-goog-api-key", "AQ.x"),
        ("vertex-anthropic/m", {"VERTEX_ANTHROPIC_API_KEY": "t", "GOOGLE_CLOUD_PROJECT": "p"}, "authorization", "Bearer t"),
        ("huggingface/m", {"HF_TOKEN": "k"}, "authorization", "Bearer k"),
        ("azure/m", {"AZURE_API_KEY": "k", "AZURE_BASE_URL": "https://h/openai/v1"}, "api-key", "k"),
    ],
)
def test_keys(model: str, environ: dict[str, str], header: str, value: str) -> None:
    assert request(model, environ).headers[header] == value


def test_a_given_key_comes_before_the_environment() -> None:
    assert request("openai/m", {"OPENAI_API_KEY": "env"}, api_key="given").headers["authorization"] == "Bearer given"


APIS = (
    "openai_responses", "openai_chat", "anthropic_messages", "google_generate_content", "ollama_chat",
    "bedrock_converse", "cohere_chat", "demo",
)  # fmt: skip


@pytest.mark.parametrize("vendor", [*vendor_names(), "lab"])
async def test_a_missing_key_is_told_with_every_variable_that_works_and_no_other(vendor: str) -> None:
    if vendor == "lab":
        row = '[vendors.lab]\nbase_url = "https://lab.example/v1"\nkeys = ["LAB_TOKEN"]\n'
        (Path(os.environ["ORKAS_HOME"]) / "config.toml").write_text(row)
    row = table().get(vendor)
    if row is None or row.local:
        return
    place = {"AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"}
    place |= {} if row.base_url else {row.url_variables(vendor)[0]: "https://there.example/v1"}

    async def refusal(environ: dict[str, str]) -> str:
        provider, _ = resolve(f"{vendor}/m", environ=place | environ)
        try:
            return provider.no_key if not provider.ready else ""  # type: ignore[attr-defined]
        finally:
            await provider.aclose()

    told = await refusal({})
    assert f"no API key for {vendor}: set " in told and f"or run `orkas auth login {row.account or vendor}`" in told
    named = re.findall(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", told)
    pair = [name for name in named if name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    assert set(row.key_variables(vendor)) == {*named} - {*pair}
    for names in [[name] for name in named if name not in pair] + [pair] * bool(pair):
        assert await refusal(dict.fromkeys(names, "one-key-of-mine-7")) == "", names
    assert vendor != "lab" or "LAB_TOKEN" in told
    assert vendor != "bedrock" or pair


def test_every_row_resolves() -> None:
    for vendor in vendor_names():
        model = "offline" if vendor == "demo" else "some/model"
        provider, name = resolve(f"{vendor}/{model}", base_url="http://h/v1", api_key="k", environ={})
        assert (provider.id, name) == (vendor, model)
        assert provider.api in APIS


def test_rows_claim_no_prefix_twice() -> None:
    claimed = [p for row in table().values() for p in row.prefixes]
    assert len(claimed) == len(set(claimed))


def test_the_table_a_program_reads_is_the_one_that_people_edit() -> None:
    rows = tomllib.loads((FLOOR / "vendors" / "vendors.toml").read_text("utf-8"))
    assert json.loads((FLOOR / "vendors" / "vendors.json").read_text("utf-8")) == rows, "run scripts/vendors.py"


def test_resolving_loads_no_http_stack() -> None:
    code = (
        "import sys; from orkas.providers.registry import resolve; resolve('openai/m'); print('aiohttp' in sys.modules)"
    )
    path = ":".join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}, check=True
    )
    assert done.stdout.strip() == "False"


def test_known_and_unknown_models() -> None:
    assert model_info("openrouter", "anthropic/claude-sonnet-4.5").context_window == 200_000
    assert model_info("openai", "gpt-4.1-mini").context_window == 1_047_576
    assert not model_info("deepseek", "deepseek-chat").images
    unknown = model_info("custom", "gpt-4o")
    assert unknown.context_window is None and unknown.max_output


@pytest.mark.parametrize(
    ("model", "style"),
    [
        ("claude-3-5-sonnet-20240620", ""), ("claude-3-haiku-20240307", ""), ("claude-2.1", ""),
        ("claude-3-7-sonnet-latest", "budget"), ("claude-sonnet-4-20250514", "budget"), ("claude-sonnet-4-5", "budget"),
        ("claude-haiku-4-5-20251001", "budget"), ("claude-opus-4-1", "budget"), ("claude-opus-4-6", "adaptive"),
        ("claude-sonnet-5", "adaptive"), ("claude-fable-5", "adaptive"),
        ("claude-sonnet-4-5@20250929", "budget"), ("claude-opus-4-7@default", "adaptive"),
    ],
)  # fmt: skip
def test_how_claude_thinks(model: str, style: str) -> None:
    assert anthropic_thinking(model) == style


LEVELS = Gemini("level", "minimal", signatures=True, media_results=True)


@pytest.mark.parametrize(
    ("model", "traits"),
    [
        ("gemini-1.5-flash", Gemini(json_schema=False)), ("gemini-2.0-flash-exp", Gemini(json_schema=False)),
        ("gemma-3-27b-it", Gemini(json_schema=False)), ("gemini-2.5-flash-image", Gemini()),
        ("gemini-2.5-pro", Gemini("budget", 128)), ("models/gemini-2.5-flash-lite", Gemini("budget", 0)),
        ("gemini-3-pro-preview", Gemini("level", "low", False, True, True)),
        ("gemini-3.1-pro-preview", Gemini("level", "low", True, True, True)),
        ("gemini-3-flash-preview", LEVELS), ("gemini-3.8-flash", LEVELS), ("gemini-flash-latest", LEVELS),
    ],
)  # fmt: skip
def test_what_gemini_models_take(model: str, traits: Gemini) -> None:
    assert gemini(model) == traits
