"""What is known of models, short names, and vendors that the user adds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_support import environ, orkas
from orkas import Agent
from orkas.infra.errors import UsageError
from orkas.infra.home import home
from orkas.infra.messages import user_message
from orkas.providers import catalog
from orkas.providers.base import CompletionParams, Price, Rates
from orkas.providers.catalog import model_info
from orkas.providers.discovery import DEFAULT_MODELS
from orkas.providers.registry import resolve, short_names, split_model, vendor_names
from orkas.providers.vendors import shipped, table
from orkas.providers.vendors.own import own
from orkas.testing import FakeVendor, Say

FILE = Path(catalog.__file__).with_name("models.json")


def write(text: str) -> None:
    home().mkdir(parents=True, exist_ok=True)
    (home() / "config.toml").write_text(text, "utf-8")


# -- what is shipped


def test_every_fact_is_sane() -> None:
    data = json.loads(FILE.read_text("utf-8"))
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", data["as_of"]) and data["sources"]
    assert FILE.stat().st_size < 120_000
    for vendor, rows in data["vendors"].items():
        assert vendor in vendor_names() or vendor in ("bedrock", "cohere")
        for name in rows:
            info = model_info(vendor, name)
            assert name == name.lower() and info.tools
            assert info.context_window and info.max_output and 1_000 < info.context_window <= 12_000_000
            assert info.max_output < info.context_window
            if info.price is not None:
                assert_sane(info.price)


def assert_sane(price: Price) -> None:
    steps = [price.base, *(rates for _, rates in price.tiers)]
    assert all(0 <= r.input <= r.output * 4 or r.input == 0 for r in steps)
    assert all((r.cache_read or 0) <= r.input and (r.cache_write or 0) <= 2 * r.input for r in steps)
    assert list(price.tiers) == sorted(price.tiers, key=lambda tier: tier[0])
    assert all(later.input >= earlier.input for earlier, later in pairwise(steps))


@pytest.mark.parametrize(
    ("vendor", "model", "window", "price"),
    [
        ("anthropic", "claude-sonnet-4-5", 200_000, 3.0),
        ("anthropic", "claude-sonnet-4-5-20250929", 200_000, 3.0),
        ("anthropic", "claude-sonnet-4.5", 200_000, 3.0),
        ("anthropic", "claude-opus-9", 200_000, None),  # the next of its family: its price is not known
        ("openai", "gpt-4o-2024-11-20", 128_000, 2.5),
        ("openai-chat", "gpt-4o", 128_000, 2.5),
        ("openai", "GPT-4o", 128_000, 2.5),
        ("openai", "gpt-4o-nova", 128_000, None),
        ("openai", "gpt-5", 400_000, 1.25),
        ("openai", "gpt-5-nova", 400_000, None),
        ("google", "models/gemini-2.5-pro", 1_048_576, 1.25),
        ("vertex", "gemini-2.5-pro", 1_048_576, 1.25),
        ("vertex-anthropic", "claude-sonnet-4-5@20250929", 200_000, None),  # dearer in some places
        ("openrouter", "anthropic/claude-sonnet-4.5", 200_000, 3.0),
        ("openrouter", "anthropic/claude-sonnet-4.5:nitro", 200_000, None),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 3.3),
        ("bedrock", "xx.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, None),
        ("groq", "openai/gpt-oss-120b", 131_072, 0.15),
        ("openrouter", "nvidia/nemotron-3-nano-30b-a3b:free", 256_000, 0.0),
        ("azure", "gpt-4o", 128_000, None),  # a deployment may be called anything
        ("together", "somebody/glm-4.6-fp8", 200_000, None),
        ("custom", "gpt-4o", None, None),
        ("lmstudio", "gpt-oss-20b", None, 0.0),
        ("ollama", "qwen3:8b", 32_768, 0.0),  # what it is asked for
        ("ollama-chat", "qwen3:8b", None, 0.0),
        ("cohere", "command-a-vision-07-2025", 128_000, None),
        ("bedrock", "us.amazon.nova-pro-of-tomorrow-v1:0", 300_000, None),
        ("ollama", "qwen3-coder:480b-cloud", None, None),
        ("local", "anything", None, 0.0),
        ("openai", "never-heard-of", None, None),
        ("nobody", "never-heard-of", None, None),
    ],
)
def test_known_and_unknown(vendor: str, model: str, window: int | None, price: float | None) -> None:
    info = model_info(vendor, model)
    assert (info.context_window, info.price and info.price.base.input) == (window, price)
    assert info.max_output and info.max_output > 0


names = st.text(st.sampled_from(list("gpt-claude5.4o1:/@_ü")) | st.characters(codec="utf-8"), max_size=40)


@given(st.sampled_from([*shipped(), "bedrock", "nobody"]), names)
def test_any_name_has_safe_facts(vendor: str, name: str) -> None:
    info = model_info(vendor, name)
    assert info.max_output and (info.context_window is None or info.max_output < info.context_window)


def test_asking_reads_nothing_at_import_and_loads_no_http_stack() -> None:
    code = (
        "import orkas.providers.catalog as c, sys; print(c.lookup.facts.cache_info().currsize);"
        "c.model_info('openai', 'gpt-4o'); print('aiohttp' in sys.modules, 'orkas.infra.redact' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", "False"]


def test_every_default_and_every_short_name_is_known_with_its_price() -> None:
    for model in [*DEFAULT_MODELS.values(), *catalog.aliases().values()]:
        vendor, name = split_model(model)
        assert model_info(vendor, name).price is not None, model


# -- model strings


@pytest.mark.parametrize("name", ["sonnet", "opus", "haiku", "gpt", "gemini"])
def test_short_names_go_to_a_model(name: str) -> None:
    assert "/".join(split_model(name)) == catalog.aliases()[name] == "/".join(split_model(f" {name.upper()} "))


def test_an_alias_of_the_user_goes_first() -> None:
    write('[aliases]\nfast = "groq/llama-3.3-70b-versatile"\nsonnet = "openrouter/anthropic/claude-sonnet-4.5"\n')
    assert split_model("fast") == ("groq", "llama-3.3-70b-versatile")
    assert split_model("sonnet") == ("openrouter", "anthropic/claude-sonnet-4.5")
    assert split_model("opus")[0] == "anthropic"
    assert short_names()["fast"] == "groq/llama-3.3-70b-versatile"
    write('[aliases]\nlost = "nobody/x"\n')
    with pytest.raises(UsageError, match="unknown vendor 'nobody'"):
        split_model("lost")


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("gtp-4o", "openai/gpt-4o"),
        ("sonet", "sonnet"),
        ("antropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("nobody-at-all/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("mistrall", "mistral/MODEL"),
        ("xyzzy", "known vendors"),
    ],
)
def test_what_cannot_be_told_names_near_vendors_and_models(model: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_model(model)
    assert near in caught.value.hint


# -- vendors of the user's own

LAB = """
[vendors.my-lab]
base_url = "{url}"
keys = ["LAB_TOKEN"]
prefixes = ["lab-"]
quirks = {{ thinking = "reasoning_effort", max_tokens = "max_completion_tokens" }}

[vendors.my-lab.catalog."lab-1"]
context_window = 50_000
max_output = 4_000
images = false
price = {{ input = 1, output = 2.5 }}
"""


async def test_a_vendor_that_is_added_while_we_run_does_a_turn() -> None:
    assert "my-lab" not in vendor_names()
    with FakeVendor([Say(["hello"])] * 3, keys=["secret"]) as vendor:
        write(LAB.format(url=vendor.base_url + "/v1"))
        agent = Agent("my-lab/lab-1", tools=[], api_key="secret", thinking="low")
        done = await agent.run("hi")
        await agent.aclose()
        body = vendor.requests[0].body
        assert body is not None and body["reasoning_effort"] == "low"
    assert (done.text, done.model) == ("hello", "my-lab/lab-1")
    assert done.usage.cost_usd == pytest.approx((10 * 1 + 5 * 2.5) / 1e6)
    assert split_model("lab-2") == ("my-lab", "lab-2")
    info = model_info("my-lab", "lab-1")
    assert (info.context_window, info.max_output, info.images) == (50_000, 4_000, False)
    assert model_info("my-lab", "lab-2").context_window is None and model_info("my-lab", "lab-2").price is None
    write("")
    assert "my-lab" not in vendor_names()


def test_the_commands_know_it() -> None:
    with FakeVendor([Say(["hello"])], keys=["secret"]) as vendor:
        write(LAB.format(url=vendor.base_url + "/v1"))
        env = environ(LAB_TOKEN="secret")
        assert orkas("run", "hi", "--model", "my-lab/lab-1", env=env).out == "hello\n"
    assert "key found" in orkas("auth", "status", "my-lab", env=env).out
    assert "MY_LAB_API_KEY" in orkas("auth", "status", "my-lab").out
    [row] = orkas("models", "--vendor", "my-lab", "--json").json
    assert (row["model"], row["context_window"], row["price"]["output"]) == ("my-lab/lab-1", 50_000, 2.5)
    assert "my-lab" in orkas("models").out
    doctor = orkas("doctor", env=environ(LAB_TOKEN="secret", ORKAS_MODEL="my-lab/lab-1"))
    assert "my-lab: LAB_TOKEN is set" in doctor.out and "my-lab/lab-1 is used" in doctor.out
    assert "secret" not in doctor.out.replace("secrets", "")


def test_a_prefix_of_the_user_goes_first_and_two_of_them_are_a_question() -> None:
    write("[vendors.a]\nbase_url='http://a'\nprefixes=['gpt-']\n")
    assert split_model("gpt-4o") == ("a", "gpt-4o")
    write("[vendors.a]\nbase_url='http://a'\nprefixes=['x-']\n[vendors.b]\nbase_url='http://b'\nprefixes=['x-']\n")
    with pytest.raises(UsageError) as caught:
        split_model("x-1")
    assert "a/x-1 or b/x-1" in caught.value.hint


async def test_a_model_that_the_vendor_does_not_have_names_the_nearest() -> None:
    with FakeVendor(models=["gpt-4o"]) as vendor:
        agent = Agent("openai-chat/gpt-4oo", tools=[], base_url=vendor.base_url, api_key="k")
        done = await agent.run("hi")
        await agent.aclose()
    assert done.error is not None and done.error.class_ == "not_found"
    assert "did you mean openai-chat/gpt-4o" in done.error.message


def test_what_the_user_says_of_a_known_model_counts() -> None:
    write('[vendors.openai.catalog."gpt-4o"]\ncontext_window = 64_000\n[vendors.custom.catalog.m]\nprice = {input=2, output=3}\n')
    table()
    info = model_info("openai", "gpt-4o")
    assert (info.context_window, info.max_output) == (64_000, 16_384) and info.price is not None
    assert model_info("custom", "m").price == Price(Rates(2.0, 3.0))
    assert Agent("custom/m", base_url="http://h", max_cost=1.0).model == "custom/m"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[vendors.lab]\ndialect = 'opnai'", "openai_chat, anthropic, google"),
        ("[vendors.lab]\nbase_ulr = 'http://x'", "did you mean 'base_url'"),
        ("[vendors.lab]\nquirks = { thinkin = 'x' }", "'thinkin' in quirks; did you mean 'thinking'"),
        ("[vendors.lab]\nquirks = { ids = 'ten' }", "chat, anthropic, nine"),
        ("[vendors.lab]\nquirks = 3", "quirks must be a table"),
        ("[vendors.lab]\nkeys = 'X'", "keys must be a list"),
        ("[vendors.lab]\nkeys = ['sk-abcdefghijkl']", "names of environment variables"),
        ("[vendors.lab]\nkeys = ['not a name']", "names of environment variables"),
        ("[vendors.lab]\napi_key = 'abc'", "LAB_API_KEY"),
        ("[vendors.lab]\nown = true", "no field 'own'"),
        ("[vendors.lab]\nbase_url = 'ftp://x'", "http://"),
        ("[vendors.lab]\nslow = 'yes'", "slow must be true or false"),
        ("[vendors.lab]\nmodels = 'models'", "begins with /"),
        ("[vendors.lab]\nprefixes = ['Lab-']", "lower case"),
        ("[vendors.lab]\nbase_url = 'https://x/{place}/v1'", "braces stand for"),
        ("[vendors.lab]\nbase_url = 'https://x/{region}/v1'", "braces stand for"),
        ("[vendors.lab]\ndialect = 'google'\nquirks = { model_path = '/{x}' }", "braces stand for"),
        ("[vendors.lab]\ndialect = 'anthropic'\nquirks = { model_path = '/{' }", "braces stand for"),
        ("[vendors.lab]\ndialect = 'google'\nquirks = { model_path = '/{model.__class__}' }", "braces stand for"),
        ("[vendors.lab]\nkey_header = 'x key'", "the name of a header"),
        ("[vendors.lab]\nkey_header = 'Content-Type'", "the name of a header"),
        ('[vendors.lab]\nquirks = { cache_header = "a\\nb: c" }', "the name of a header"),
        ("[vendors.lab]\nquirks = { cache_key = 'messages' }", "something else than a key"),
        ("[vendors.lab.catalog.m]\nprice = { input = nan, output = 1 }", "must be a number"),
        ("[vendors.lab.catalog.m]\nprice = { input = inf, output = 1 }", "a number up to 1000000"),
        ("[vendors.lab.catalog.m]\nprice = { input = 1 }", "lacks 'output'"),
        ("[vendors.lab.catalog.m]\nprice = { input = -1, output = 1 }", "a number from 0 on"),
        ("[vendors.lab.catalog.m]\nwindow = 3", "did you mean 'context_window'"),
        ("[vendors.lab.catalog.m]\ncontext_window = 3", "a whole number from 1000 on"),
        ("[vendors]\nlab = 3", "must be a table"),
        ("vendors = 3", "must be a table"),
        ("[vendors.Lab]\nbase_url = 'http://x'", "lower-case"),
        ("[vendors.local]\nbase_url = 'http://x'", "another name"),
        ("[vendors.openai]\ndialect = 'anthropic'", "openai is known already"),
        ("[aliases]\nx = 'no-vendor'", "an alias is"),
        ("[aliases]\n'a/b' = 'x/y'", "an alias is"),
        ("[aliases]\nx = 3", "an alias is"),
    ],
)
def test_a_mistake_is_one_sentence_and_costs_only_its_table(text: str, words: str) -> None:
    write(f"{text}\n[vendors.good]\nbase_url = 'http://good/v1'\n" if text != "vendors = 3" else text)
    [said] = own().mistakes.values()
    assert words in said and str(home() / "config.toml") in said and "\n" not in said
    assert ("good" in vendor_names()) == (text != "vendors = 3")
    assert split_model("openai/gpt-4o") == ("openai", "gpt-4o")


def test_a_mistake_is_told_where_it_matters() -> None:
    write("[vendors.lab]\nbase_ulr = 'http://x'\n")
    assert "base_ulr" in orkas("run", "hi", "--model", "demo/offline").err
    orkas("run", "hi", "--model", "lab/m").refused(2, "no field 'base_ulr'")
    assert "base_ulr" in orkas("doctor").out
    write("broken = [")
    assert own().mistakes == {} and "openai" in vendor_names()  # told by whoever reads the settings


def test_the_working_folder_adds_no_vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text("[vendors.evil]\nbase_url = 'http://evil/v1'\n[aliases]\nsonnet = 'evil/m'\n")
    (tmp_path / "vendors.toml").write_text("[evil]\nbase_url = 'http://evil/v1'\n")
    monkeypatch.chdir(tmp_path)
    assert "evil" not in vendor_names() and split_model("sonnet")[0] == "anthropic"


# -- thinking, as each vendor documents it


@pytest.mark.parametrize(
    ("model", "off", "low", "medium", "high"),
    [
        ("openai-chat/gpt-5", *({"reasoning_effort": e} for e in ("minimal", "low", "medium", "high"))),
        ("openai-chat/gpt-5.2", *({"reasoning_effort": e} for e in ("none", "low", "medium", "high"))),
        ("openai-chat/gpt-6-sol", *({"reasoning_effort": e} for e in ("none", "low", "medium", "high"))),
        ("openai-chat/o3", {}, *({"reasoning_effort": e} for e in ("low", "medium", "high"))),
        ("openai-chat/gpt-4o", {}, {}, {}, {}),
        ("openai-chat/gpt-5-chat-latest", {}, {}, {}, {}),
        ("xai/grok-4", {}, {}, {}, {}),
        ("xai/grok-3-mini", *({"reasoning_effort": e} for e in ("low", "low", "high", "high"))),
        ("xai/grok-4.3-latest", *({"reasoning_effort": e} for e in ("none", "low", "medium", "high"))),
        ("xai/grok-4.5", *({"reasoning_effort": e} for e in ("low", "low", "medium", "high"))),
        ("groq/openai/gpt-oss-120b", *({"reasoning_effort": e} for e in ("low", "low", "medium", "high"))),
        ("groq/qwen/qwen3-32b", *({"reasoning_effort": e} for e in ("none", "default", "default", "default"))),
        ("groq/llama-3.3-70b-versatile", {}, {}, {}, {}),
        ("cerebras/gpt-oss-120b", *({"reasoning_effort": e} for e in ("low", "low", "medium", "high"))),
        ("cerebras/zai-glm-4.7", {"reasoning_effort": "none"}, {}, {}, {}),
        ("mistral/mistral-small-latest", *({"reasoning_effort": e} for e in ("none", "high", "high", "high"))),
        ("mistral/magistral-medium-latest", {}, {}, {}, {}),
        ("together/openai/gpt-oss-20b", *({"reasoning_effort": e} for e in ("low", "low", "medium", "high"))),
        ("fireworks/accounts/fireworks/models/kimi-k2p6", *({"reasoning_effort": e} for e in ("low", "low", "medium", "high"))),
        ("fireworks/accounts/fireworks/models/glm-5p1", *({"reasoning_effort": e} for e in ("none", "high", "high", "high"))),
        ("perplexity/sonar-reasoning-pro", *({"reasoning_effort": e} for e in ("low", "low", "medium", "high"))),
        ("perplexity/sonar", {}, {}, {}, {}),
        ("openrouter/a/b", {"reasoning": {"enabled": False}}, *({"reasoning": {"effort": e}} for e in ("low", "medium", "high"))),
        ("vercel/a/b", {"reasoning": {"enabled": False}}, *({"reasoning": {"effort": e}} for e in ("low", "medium", "high"))),
        ("deepseek/deepseek-v4-flash", {"thinking": {"type": "disabled"}}, *[{"thinking": {"type": "enabled"}}] * 3),
        ("moonshot/kimi-k2.5", {"thinking": {"type": "disabled"}}, *[{"thinking": {"type": "enabled"}}] * 3),
        ("zai/glm-4.7", {"thinking": {"type": "disabled"}}, *[{"thinking": {"type": "enabled"}}] * 3),
        ("alibaba/qwen3-max", {"enable_thinking": False}, *[{"enable_thinking": True}] * 3),
        ("vllm/m", *({"chat_template_kwargs": {"enable_thinking": on}} for on in (False, True, True, True))),
        ("llamacpp/m", *({"chat_template_kwargs": {"enable_thinking": on}} for on in (False, True, True, True))),
        ("ollama-chat/m", *({"reasoning_effort": e} for e in ("none", "low", "medium", "high"))),
        ("lmstudio/m", {}, {}, {}, {}),
        ("nvidia/openai/gpt-oss-120b", *({"reasoning_effort": e} for e in ("low", "low", "medium", "high"))),
        ("github-models/openai/gpt-5", *({"reasoning_effort": e} for e in ("minimal", "low", "medium", "high"))),
        ("github-models/openai/gpt-5-chat", {}, {}, {}, {}),
        ("anthropic/claude-sonnet-5-5", {"thinking": {"type": "disabled"}},
         *({"thinking": {"type": "adaptive"}, "output_config": {"effort": e}} for e in ("low", "medium", "high"))),
        ("anthropic/claude-haiku-4-5", {"thinking": {"type": "disabled"}},
         *({"thinking": {"type": "enabled", "budget_tokens": n}} for n in (2_048, 8_192, 15_360))),
    ],
)  # fmt: skip
def test_thinking_is_told_as_the_vendor_documents_it(model: str, off: Any, low: Any, medium: Any, high: Any) -> None:
    provider, name = resolve(model, api_key="k", environ={})

    def told(level: Any) -> dict[str, Any]:
        params = CompletionParams(model=name, messages=[user_message("hi")], thinking=level)
        body: dict[str, Any] = json.loads(provider.request(params).body)
        fields = ("reasoning_effort", "reasoning", "thinking", "enable_thinking", "chat_template_kwargs", "output_config")
        return {field: body[field] for field in fields if field in body}

    assert told(None) == {}
    assert (told("off"), told("low"), told("medium"), told("high")) == (off, low, medium, high)


# -- what is printed


def test_models_are_listed_with_what_is_known_of_them() -> None:
    human = orkas("models", "--vendor", "anthropic")
    assert re.search(r"claude-haiku-4-5 +200,000 +64,000 +1 +5 +0.1 +1.25 +images reasons tools", human.out)
    assert catalog.as_of() in human.err
    rows = {row["model"]: row for row in orkas("models", "--vendor", "openai", "--json").json}
    assert rows["openai/gpt-4o"]["price"] == {
        "input": 2.5, "output": 10.0, "cache_read": 1.25, "cache_write": None, "tiers": [],
    }  # fmt: skip
    assert rows["openai/gpt-6-sol"]["price"]["tiers"][0]["above"] == 272_000
