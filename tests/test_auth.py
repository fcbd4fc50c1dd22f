"""Where credentials come from, keys that stand in for one another, and ``orkas auth``."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from auth_server import authority
from cli_support import command, environ, orkas, start
from orkas import Agent, tool
from orkas.infra import config
from orkas.infra.errors import ProviderError
from orkas.infra.messages import text_of, user_message
from orkas.infra.secrets import Secret
from orkas.providers.accounts.auth import Grant, Keys, Resting, StoredLogin, credentials_for, environment_keys
from orkas.providers.accounts.logins import Login, Logins, Token
from orkas.providers.base import CompletionParams
from orkas.providers.http import HttpProvider
from orkas.providers.openai_chat import OpenAIChat
from orkas.providers.registry import resolve
from orkas.providers.vendors import OAuthClient, Vendor, table
from orkas.providers.vendors.own import own
from orkas.testing import FakeVendor, Refuse, call

KEY = "sk-test-the-good-key-0001"
BAD = "sk-test-the-wrong-key-9999"


def header(model: str, env: dict[str, str] | None = None, **given: Any) -> str:
    provider, name = resolve(model, environ=env or {}, **given)
    headers = provider.request(CompletionParams(model=name, messages=[user_message("hi")])).headers
    return headers.get("authorization") or headers.get("x-api-key") or ""


def params() -> CompletionParams:
    return CompletionParams(model="m", messages=[user_message("hi")])


def provider(vendor: FakeVendor, credentials: Any) -> HttpProvider:
    row = Vendor("openai_chat")
    return HttpProvider(
        "v", row, OpenAIChat("v"), base_url=vendor.base_url, credentials=credentials, key_name="V_API_KEY"
    )


def shown(vendor: FakeVendor) -> list[str]:
    return [r.headers["authorization"].removeprefix("Bearer ") for r in vendor.requests]


def refusal(class_: Any, status: int = 0, wait_s: float | None = None) -> ProviderError:
    return ProviderError("no", class_=class_, status=status, wait_s=wait_s)


# ---------------------------------------------------------------- where they come from


def test_given_before_environment_before_stored() -> None:
    assert header("openai/m") == ""
    Logins().put("openai", Login(keys=(Secret("stored"),)))
    env = {"OPENAI_API_KEY": "from-env"}
    assert header("openai/m") == "Bearer stored"
    assert header("openai/m", env) == "Bearer from-env"
    assert header("openai/m", env, api_key="given") == "Bearer given"
    assert header("openai/m", env, api_key=Secret("given")) == "Bearer given"
    assert header("openai-chat/m") == "Bearer stored"  # the same account
    assert header("anthropic/m") == ""


def test_one_variable_is_one_key_and_another_is_several() -> None:
    row = table()["anthropic"]

    def found(**env: str) -> tuple[str | None, list[str]]:
        name, keys = environment_keys("anthropic", row, env)
        return name, [key.reveal() for key in keys]

    assert found(ANTHROPIC_API_KEY=" a,b ") == ("ANTHROPIC_API_KEY", ["a,b"])
    assert found(ANTHROPIC_API_KEYS=" a, b\nc a,,") == ("ANTHROPIC_API_KEYS", ["a", "b", "c"])
    assert found(ANTHROPIC_API_KEYS="b,a", ANTHROPIC_API_KEY="a") == ("ANTHROPIC_API_KEY", ["a", "b"])
    assert found(ANTHROPIC_API_KEYS=" , ") == found() == (None, [])
    name, keys = environment_keys("google", table()["google"], {"GEMINI_API_KEY": "g", "GOOGLE_API_KEYS": "h"})
    assert name == "GEMINI_API_KEY" and [k.reveal() for k in keys] == ["g", "h"]


async def test_a_login_counts_from_when_it_is_stored_until_it_is_forgotten() -> None:
    source = StoredLogin("openai")
    assert await source.get() is None
    Logins().put("openai", Login(keys=(Secret("one"),)))
    assert await source.get() == Grant(Secret("one"))
    Logins().put("openai", Login(keys=(Secret("two"),)))
    assert await source.get() == Grant(Secret("two")) == source.peek()
    Logins().put("openai", None)
    assert await source.get() is None


async def test_a_login_that_cannot_be_trusted_is_said_unless_no_key_is_needed() -> None:
    Logins().put("openai", Login(keys=(Secret("one"),)))
    Logins().store.path.chmod(0o666)
    with pytest.raises(ProviderError, match="other users") as caught:
        await credentials_for("openai", table()["openai"], environ={}).get()
    assert caught.value.class_ == "auth" and "chmod" in caught.value.hint
    assert await credentials_for("ollama", table()["ollama"], environ={}).get() is None
    assert await credentials_for("openai", table()["openai"], environ={"OPENAI_API_KEY": "e"}).get() is not None


def test_a_token_goes_where_tokens_go_in_every_dialect() -> None:
    Logins().put("anthropic", Login(token=Token(Secret("a-token"))))
    asked, name = resolve("anthropic/claude-x", environ={})
    headers = asked.request(CompletionParams(model=name, messages=[user_message("hi")])).headers
    assert headers["authorization"] == "Bearer a-token" and "x-api-key" not in headers


@pytest.mark.parametrize("key", ["with a blank", "line\nbreak", "schlüssel", "nul\0"])
async def test_what_cannot_be_a_key_is_not_sent(key: str) -> None:
    with FakeVendor(["hi"]) as vendor:
        async with Agent("openai/m", base_url=vendor.base_url, api_key=key, tools=[]) as agent:
            done = await agent.run("hi")
    assert done.error is not None and done.error.class_ == "auth" and vendor.requests == []
    assert key not in done.error.message


# ---------------------------------------------------------------- several keys


async def asked(vendor: FakeVendor, keys: Keys) -> str:
    one = provider(vendor, keys)
    try:
        return text_of(await one.complete(params()))
    finally:
        await one.aclose()


def keys(*names: str, resting: Resting | None = None) -> Keys:
    return Keys([f"key-of-{name}-0000" for name in names], resting=resting or Resting())


@pytest.mark.parametrize(
    "fault",
    [Refuse(401), Refuse(403), Refuse(402, "Payment required"), Refuse(429, "You exceeded your current quota"),
     Refuse(429, "slow down"), Refuse(400, "Incorrect API key provided")],
)  # fmt: skip
async def test_a_fault_of_the_key_goes_to_the_next_one(fault: Refuse) -> None:
    with FakeVendor([fault, "hello"]) as vendor:
        assert await asked(vendor, keys("a", "b", "c")) == "hello"
        assert shown(vendor) == ["key-of-a-0000", "key-of-b-0000"]


@pytest.mark.parametrize(
    "fault",
    [Refuse(400, "bad request"), Refuse(400, "maximum context length is 10 tokens"), Refuse(404), Refuse(500),
     Refuse(529), Refuse(400, "flagged", code="content_filter"), Refuse(413), Refuse(503)],
)  # fmt: skip
async def test_a_fault_of_the_request_or_the_vendor_does_not(fault: Refuse) -> None:
    with FakeVendor([fault, "hello"]) as vendor:
        with pytest.raises(ProviderError):
            await asked(vendor, keys("a", "b"))
        assert shown(vendor) == ["key-of-a-0000"]


async def test_a_rate_limit_tries_one_other_key_and_is_told_with_its_wait() -> None:
    slow = Refuse(429, "slow down", headers={"retry-after": "7"})
    with FakeVendor([slow, Refuse(429, "slow down", headers={"retry-after": "9"}), "hello"]) as vendor:
        with pytest.raises(ProviderError) as caught:
            await asked(vendor, keys("a", "b", "c"))
        assert shown(vendor) == ["key-of-a-0000", "key-of-b-0000"] and caught.value.wait_s == 7


async def test_what_waiting_cures_is_told_before_what_it_does_not() -> None:
    with FakeVendor([Refuse(429, "slow down"), Refuse(401)]) as vendor:
        with pytest.raises(ProviderError) as caught:
            await asked(vendor, keys("a", "b"))
        assert caught.value.class_ == "rate_limit"


async def test_each_key_is_shown_once_and_the_last_refusal_is_told() -> None:
    with FakeVendor([Refuse(401)] * 3 + ["hello"]) as vendor:
        with pytest.raises(ProviderError) as caught:
            await asked(vendor, keys("a", "b", "c"))
        assert len(vendor.requests) == 3 and caught.value.class_ == "auth"


async def test_rotation_does_not_multiply_retries() -> None:
    env = {"OPENAI_API_KEYS": "pool-key-aa-1,pool-key-bb-1,pool-key-cc-1"}
    with FakeVendor([Refuse(429, headers={"retry-after": "0"})] * 50) as vendor:
        one, _ = resolve("openai/m", base_url=vendor.base_url, environ=env)
        agent = Agent(one, tools=[], max_retries=2)
        done = await agent.run("hi")
        await agent.aclose()
    assert done.error is not None and done.error.class_ == "rate_limit"
    assert len(vendor.requests) <= 2 * 3


@given(st.integers(1, 6), st.lists(st.sampled_from(["auth", "quota", "rate_limit", "server", "invalid_request", ""]), max_size=40))
def test_whatever_is_refused_no_key_is_shown_twice_to_one_request(count: int, faults: list[Any]) -> None:
    """A run of requests, each refused as the list says; an empty word is an answer."""

    async def play() -> None:
        resting = Resting(lambda: 0.0)
        pool, left = keys(*map(str, range(count)), resting=resting), list(faults)
        while left:
            grant = await pool.get()
            tried: list[Grant] = []
            while grant is not None and left:
                assert grant not in tried
                fault = left.pop(0)
                if not fault:
                    pool.accepted(grant)
                    break
                tried.append(grant)
                following = await pool.refused(tried, refusal(fault))
                assert following is None or fault in ("auth", "quota", "rate_limit")
                assert following is None or not resting.left(following.secret)
                grant = following
            assert len(tried) <= count

    asyncio.run(play())


async def test_a_refused_key_rests_and_comes_back() -> None:
    now = [0.0]
    resting = Resting(lambda: now[0])
    pool = keys("a", "b", resting=resting)
    first, second = await pool.get(), Grant(Secret("key-of-b-0000"))
    assert first is not None
    assert await pool.refused([first], refusal("auth", 401)) == second == await pool.get()
    assert await keys("a", "b", resting=resting).get() == second  # everybody in this process knows
    now[0] = 599.0
    assert await pool.get() == second
    now[0] = 600.0
    assert await pool.get() == first
    assert await pool.refused([first], refusal("rate_limit", 429, wait_s=5)) == second
    now[0] = 604.9
    assert await pool.get() == second
    assert await pool.refused([second], refusal("quota", 429)) is None  # the other one still rests
    assert await pool.get() == first  # nothing is ready: the one that will be soonest
    pool.accepted(first)
    assert resting.left(first.secret) == 0


async def test_a_single_key_never_rests() -> None:
    pool = keys("a")
    grant = await pool.get()
    assert grant is not None and await pool.refused([grant], refusal("auth", 401)) is None
    assert await pool.get() == grant


# ---------------------------------------------------------------- a token that ends in the middle of a turn


@tool
def echo(text: str) -> str:
    """Say it again.

    Args:
        text: what to say
    """
    return text


async def test_a_token_that_ends_on_the_third_request_is_renewed_once_and_nobody_notices() -> None:
    with authority() as server, FakeVendor(keys=server.good_access) as vendor:
        Logins().put("openai", Login(token=logged_in(server)))
        rounds = [[call("echo", text=str(n))] for n in range(4)]

        def ends(request: Any) -> Any:
            server.good_access.clear()
            return rounds[1]

        vendor.script([rounds[0], ends, *rounds[2:], "done"])
        one, _ = resolve("openai/m", base_url=vendor.base_url, environ={})
        agent = Agent(one, tools=[echo], max_retries=0)
        events = [event async for event in agent.stream("go")]
        await agent.aclose()
    done = events[-1]
    assert done.type == "done" and done.outcome == "completed" and done.text == "done"
    assert [r.status for r in vendor.requests] == [200, 200, 401, 200, 200, 200] and server.renewals == 1
    assert not [event for event in events if event.type == "retry"]


async def test_parallel_requests_with_an_ended_token_renew_once() -> None:
    with authority() as server, FakeVendor(["a"] * 4, keys=server.good_access) as vendor:
        Logins().put("openai", Login(token=logged_in(server)))
        server.good_access.clear()
        one, _ = resolve("openai/m", base_url=vendor.base_url, environ={})
        other, _ = resolve("openai/m", base_url=vendor.base_url, environ={})
        await asyncio.gather(*(p.complete(params()) for p in (one, one, other, other)))
        await one.aclose()
        await other.aclose()
    assert server.renewals == 1
    assert sorted(r.status for r in vendor.requests)[:4] == [200] * 4


async def test_a_new_token_that_is_refused_too_ends_the_turn_with_one_sentence() -> None:
    with authority() as server, FakeVendor([], keys=["nobody has this one"]) as vendor:
        Logins().put("openai", Login(token=logged_in(server)))
        one, _ = resolve("openai/m", base_url=vendor.base_url, environ={})
        with pytest.raises(ProviderError) as caught:
            await one.complete(params())
        await one.aclose()
    assert caught.value.class_ == "auth" and "orkas auth login openai" in caught.value.hint
    assert len(vendor.requests) == 2 and server.renewals == 1


async def test_stop_ends_a_turn_that_waits_for_a_token_and_the_token_is_kept() -> None:
    with authority() as server, FakeVendor(["never"]) as vendor:
        token = logged_in(server)
        Logins().put("openai", Login(token=structs.replace(token, expires=1.0)))
        asked, go_on = threading.Event(), threading.Event()
        server.before = lambda form: (asked.set(), go_on.wait(20), None)[-1]  # type: ignore[func-returns-value]
        agent = Agent("openai/m", base_url=vendor.base_url, tools=[])
        turn = asyncio.create_task(agent.run("hi"))
        assert await asyncio.to_thread(asked.wait, 20)
        agent.stop()
        done = await turn
        go_on.set()
        await agent.aclose()
    login = Logins().get("openai")
    assert done.outcome == "aborted" and vendor.requests == []
    assert login is not None and login.token is not None and login.token.access.reveal() in server.good_access
    assert login.token.access != token.access


def logged_in(server: Any) -> Token:
    from orkas.providers.accounts.oauth import token_of

    return token_of(server.new_token(), OAuthClient(token_url=f"{server.url}/token", client_id="ours"))


async def test_a_tool_that_finds_our_key_does_not_get_it_into_the_session() -> None:
    @tool
    def leak() -> str:
        """Say what it found."""
        return f"found {KEY} there, and {base64.b64encode(KEY.encode()).decode()}"

    with FakeVendor([[call("leak")], "done"]) as vendor:
        async with Agent("openai/m", base_url=vendor.base_url, api_key=KEY, tools=[leak]) as agent:
            events = [event async for event in agent.stream("go")]
    assert "found *** there, and ***" in vendor.requests[1].raw.decode() and KEY not in vendor.requests[1].raw.decode()
    assert KEY not in repr(events) + repr(agent.session.messages)


async def test_credentials_of_ones_own_are_asked_before_each_request() -> None:
    class Counting(Keys):
        asked = 0

        async def get(self) -> Grant | None:
            self.asked += 1
            return Grant(Secret(f"token-number-{self.asked}"), bearer=True)

    with FakeVendor([[call("echo", text="x")], "done"]) as vendor:
        async with Agent("openai/m", base_url=vendor.base_url, credentials=Counting(()), tools=[echo]) as agent:
            assert (await agent.run("go")).text == "done"
    assert shown(vendor) == ["token-number-1", "token-number-2"]


def test_a_client_of_ones_own_is_set_like_any_setting() -> None:
    for name, value in {"client_id": "of-my-own", "token_url": "https://auth.example/token", "scopes": "a b"}.items():
        assert orkas("config", "set", f"vendors.openai.oauth.{name}", value).status == 0
    listed = {row["key"]: row["value"] for row in orkas("config", "list", "--json").json}
    assert listed["vendors.openai.oauth.client_id"] == "of-my-own" and listed["vendors.openai.oauth.scopes"] == "a b"
    orkas("config", "set", "vendors.openai.oauth.client_secret", "x").refused(2)
    orkas("config", "set", "vendors.openai.oauth.token_url", "no address").refused(2, "address")


def test_a_client_of_ones_own_stands_beside_what_one_says_of_models_and_vendors() -> None:
    Path(os.environ["ORKAS_HOME"], "config.toml").write_text(
        '[vendors.openai.oauth]\nclient_id = "mine"\n'
        '[vendors.openai.catalog."gpt-x"]\ncontext_window = 50000\n'
        '[vendors.my-lab]\nbase_url = "https://llm.example/v1"\n'
        '[vendors.my-lab.oauth]\nclient_id = "lab"\ntoken_url = "https://auth.example/token"\n'
    )
    assert config.load().oauth("openai") == {"client_id": "mine"}
    assert config.load().oauth("my-lab") == {"client_id": "lab", "token_url": "https://auth.example/token"}
    assert not config.load().warnings and not own().mistakes
    assert resolve("my-lab/m")[0].base_url == "https://llm.example/v1"  # type: ignore[attr-defined]
    assert resolve("openai/gpt-x", api_key="k")[0].info("gpt-x").context_window == 50_000


# ---------------------------------------------------------------- orkas auth


def at(vendor: FakeVendor | None, **extra: str) -> dict[str, str]:
    url = vendor.base_url if vendor else "http://127.0.0.1:1"
    return environ(OPENAI_BASE_URL=f"{url}/v1", ANTHROPIC_BASE_URL=f"{url}/v1", **extra)


def test_a_piped_key_is_checked_stored_used_and_forgotten() -> None:
    with FakeVendor(["hello"], keys=[KEY]) as vendor:
        env = at(vendor)
        ran = orkas("auth", "login", "openai", input=f"{KEY}\n", env=env)
        assert (ran.status, ran.err) == (0, "") and KEY not in ran.out and "secrets.json" in ran.out
        assert vendor.requests[0].method == "GET" and vendor.requests[0].path.endswith("/models")
        file = Path(env["ORKAS_HOME"]) / "secrets.json"
        assert file.stat().st_mode & 0o777 == 0o600
        status = orkas("auth", "status", "openai", "--json", env=env)
        (row,) = status.json
        assert row["found"] and row["from"] == f"file {file}" and row["keys"] == ["…0001"] and KEY not in status.out
        assert row["live"] == {"ok": True, "reason": "accepted", "message": "openai accepts the credentials"}
        assert orkas("run", "--model", "openai/m", "hi", env=env).out == "hello\n"
        assert "openai" in orkas("doctor", env=env).out
        assert orkas("auth", "logout", "openai", env=env).status == 0 and not file.exists()
        assert orkas("run", "--model", "openai/m", "hi", env=env).status == 3
        assert orkas("auth", "logout", "openai", "--json", env=env).json == {"vendor": "openai", "forgotten": False}


def test_the_model_of_a_login_is_found_without_being_named() -> None:
    with FakeVendor(["hello"], keys=[KEY]) as vendor:
        env = at(vendor)
        assert orkas("auth", "login", "anthropic", input=KEY, env=env).status == 0
        ran = orkas("run", "hi", "--json", env=env)
        assert ran.events[-1]["model"].startswith("anthropic/") and ran.events[-1]["text"] == "hello"


def test_a_wrong_key_is_not_stored() -> None:
    with FakeVendor(keys=[KEY]) as vendor:
        ran = orkas("auth", "login", "openai", input=BAD, env=at(vendor))
        ran.refused(3, "nothing was stored")
        assert BAD not in ran.err and not (Path(os.environ["ORKAS_HOME"]) / "secrets.json").exists()


def test_without_a_network_it_is_stored_and_said() -> None:
    ran = orkas("auth", "login", "openai", "--json", input=KEY, env=at(None))
    assert ran.status == 0 and ran.json["live"]["reason"] == "network" and ran.json["live"]["ok"] is None
    assert "cannot be reached" in ran.err
    status = orkas("auth", "status", "openai", "--json", env=at(None))
    assert status.status == 0 and status.json[0]["live"]["reason"] == "network"


@pytest.mark.parametrize(
    ("status", "body", "ok", "reason"),
    [
        (401, b'{"error": {"message": "Incorrect API key provided"}}', False, "refused"),
        (403, b'{"error": {"message": "no"}}', False, "refused"),
        (400, b'{"error": {"message": "API key not valid"}}', False, "refused"),
        (402, b'{"error": {"message": "Payment required"}}', True, "quota"),
        (429, b'{"error": {"code": "insufficient_quota", "message": "x"}}', True, "quota"),
        (429, b'{"error": {"message": "slow down"}}', True, "rate_limit"),
        (500, b"", None, "unknown"), (404, b"", None, "unknown"), (200, b"{}", True, "accepted"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_told_apart(status: int, body: bytes, ok: bool | None, reason: str) -> None:
    with authority() as server:
        row = Vendor("openai_chat", models="/token")
        one = HttpProvider("v", row, OpenAIChat("v"), base_url=f"{server.url}", api_key=KEY, key_name="K")
        answering(server, status, body)
        found = await one.validate_auth()
        await one.aclose()
    assert (found.ok, found.reason) == (ok, reason)


def answering(server: Any, status: int, body: bytes) -> None:
    """Make every GET of this server answer so."""
    kind = server.RequestHandlerClass

    class Answering(kind):  # type: ignore[misc, valid-type]
        def do_GET(self) -> None:
            self._say(status, body)

    server.RequestHandlerClass = Answering


@pytest.mark.parametrize("words", [["sk-given-as-argument-01"], ["--add", "sk-given-as-argument-01"]])
def test_a_key_is_no_argument(words: Sequence[str]) -> None:
    ran = orkas("auth", "login", "openai", *words, env=at(None))
    ran.refused(2, "argument")
    assert "sk-given" not in ran.err


@pytest.mark.parametrize("typed", [b"", b"\n \n", b"two words", b"schl\xc3\xbcssel", b"\xff\xfe\x00"])
def test_what_is_no_key_is_refused(typed: bytes) -> None:
    orkas("auth", "login", "openai", input=typed, env=at(None)).refused(2, "key")


@pytest.mark.parametrize(
    "words", [["login", "nobody"], ["logout", "nobody"], ["login", "openai", "--web"], ["login", "openai", "--device"],
              ["login", "openai", "--web", "--token"], ["logout"], ["login", "custom"]],
)  # fmt: skip
def test_what_there_is_not_is_wrong_usage(words: Sequence[str]) -> None:
    orkas("auth", *words, input=KEY).refused(2)


def test_several_logins_stand_in_for_one_another() -> None:
    other = "sk-test-another-key-0002"
    with FakeVendor(["hello"], keys=[KEY, other]) as vendor:
        env = at(vendor)
        orkas("auth", "login", "openai", input=KEY, env=env)
        added = orkas("auth", "login", "openai", "--add", "--json", input=other, env=env)
        assert added.json["keys"] == ["…0001", "…0002"]
        vendor.keys = [other]
        assert orkas("run", "--model", "openai/m", "hi", env=env).out == "hello\n"
        vendor.keys = [KEY]
        assert orkas("auth", "login", "openai", "--json", input=KEY, env=env).json["keys"] == ["…0001"]


def test_the_environment_goes_before_and_that_is_said() -> None:
    with FakeVendor(keys=[KEY]) as vendor:
        env = at(vendor, OPENAI_API_KEYS="sk-test-of-the-environment-7777")
        ran = orkas("auth", "login", "openai", input=KEY, env=env)
        assert ran.status == 0 and "OPENAI_API_KEYS" in ran.err
        (row,) = orkas("auth", "status", "openai", "--json", env=env).json
        assert row["from"] == "environment OPENAI_API_KEYS" and row["keys"] == ["…7777"] and row["stored"]
        assert orkas("auth", "status", "openai", env=env).status == 3
        assert "OPENAI_API_KEYS" in orkas("auth", "logout", "openai", env=env).err


def test_a_token_of_ones_own() -> None:
    with FakeVendor(["hello"], keys=["a-bearer-token-of-my-own"]) as vendor:
        env = at(vendor)
        ran = orkas("auth", "login", "anthropic", "--token", input="a-bearer-token-of-my-own", env=env)
        assert ran.status == 0, ran.err
        (row,) = orkas("auth", "status", "anthropic", "--json", env=env).json
        assert row["state"] == "token found" and row["expires"] is None and row["live"]["ok"]
        assert orkas("run", "--model", "anthropic/claude-x", "hi", env=env).out == "hello\n"
        assert vendor.requests[-1].headers["authorization"] == "Bearer a-bearer-token-of-my-own"
        assert "x-api-key" not in vendor.requests[-1].headers


def test_a_file_that_others_may_write_is_one_sentence_everywhere() -> None:
    Logins().put("openai", Login(keys=(Secret(KEY),)))
    file = Logins().store.path
    file.chmod(0o666)
    env = at(None)
    ran = orkas("run", "--model", "openai/m", "hi", env=env)
    assert ran.status == 3 and ran.err.count("chmod 600") == 1
    assert orkas("auth", "status", env=env).err.count("chmod 600") == 1
    assert "chmod 600" in orkas("doctor", env=env).out
    orkas("auth", "login", "openai", input=KEY, env=env).refused(1, "chmod 600")
    assert file.stat().st_mode & 0o777 == 0o666


def test_a_damaged_login_is_replaced_by_a_new_one() -> None:
    Logins().store.update("openai", lambda old: '{"keys": 7}')
    with FakeVendor(keys=[KEY]) as vendor:
        env = at(vendor)
        ran = orkas("auth", "status", env=env)
        assert ran.status == 0 and "damaged" in ran.err and "unreadable login" in ran.out
        assert orkas("auth", "login", "openai", input=KEY, env=env).status == 0
        assert orkas("auth", "status", "openai", env=env).status == 0


def test_it_is_not_shown_while_it_is_typed() -> None:
    pexpect = pytest.importorskip("pexpect")
    with FakeVendor(keys=[KEY]) as vendor:
        child = pexpect.spawn(sys.executable, command("auth", "login", "openai")[1:], env=at(vendor), encoding="utf-8", timeout=30)
        child.expect("is not shown")
        child.sendline(KEY)
        child.expect(pexpect.EOF)
        assert KEY not in child.before and "stored" in child.before
        child.close()
        assert child.exitstatus == 0


# ---------------------------------------------------------------- with a browser


def browser_env(server: Any, **extra: str) -> dict[str, str]:
    """OpenRouter as the fake plays it: told by the configuration, as a user would."""
    oauth = {"authorize_url": f"{server.url}/authorize", "token_url": f"{server.url}/keys"}
    lines = [f'{name} = "{url}"' for name, url in oauth.items()]
    Path(os.environ["ORKAS_HOME"], "config.toml").write_text(
        f'[vendors.openrouter]\nbase_url = "{server.url}/v1"\n[vendors.openrouter.oauth]\n' + "\n".join(lines) + "\n"
    )
    return environ(**extra)


def shown_address(child: subprocess.Popen[bytes]) -> str:
    assert child.stderr is not None
    while line := child.stderr.readline().decode():
        if found := re.search(r"http://127\.0\.0\.1:\d+/authorize\S+", line):
            return found[0]
    raise AssertionError("no address was shown")


@pytest.mark.parametrize("way", ["browser", "paste"])
def test_openrouter_from_the_browser_to_the_answer(way: str) -> None:
    with authority() as server:
        env = browser_env(server)
        stdin = subprocess.PIPE if way == "paste" else subprocess.DEVNULL
        child = start("auth", "login", "openrouter", "--web", "--json", env=env, stdin=stdin)
        address = shown_address(child)
        if way == "browser":
            with urllib.request.urlopen(address) as page:
                assert page.status == 200
            out, err = child.communicate(timeout=60)
        else:
            from urllib.parse import parse_qsl, urlsplit

            back = server.authorize(dict(parse_qsl(urlsplit(address).query)))
            out, err = child.communicate(f"{back}\n".encode(), timeout=60)
        assert child.returncode == 0, err
        found = json.loads(out)
        assert found["live"]["ok"] is True and found["from"].startswith("file ") and len(server.keys) == 1
        assert server.keys[0] not in out.decode() + err.decode()
        status = orkas("auth", "status", "openrouter", "--json", env=env).json
        assert status[0]["keys"] == [f"…{server.keys[0][-4:]}"] and status[0]["live"]["ok"]
        assert "canary" not in orkas("config", "list", env=env).out


def test_openrouter_is_offered_in_a_terminal() -> None:
    pexpect = pytest.importorskip("pexpect")
    with authority() as server:
        child = pexpect.spawn(
            sys.executable, command("auth", "login", "openrouter")[1:], env=browser_env(server), encoding="utf-8",
            timeout=30, dimensions=(24, 2000),
        )  # fmt: skip
        child.expect("press Enter to log in with a browser")
        child.sendline("")
        child.expect(r"http://127\.0\.0\.1:\d+/authorize\S+")
        with urllib.request.urlopen(child.after) as page:
            assert b"logged in" in page.read()
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0 and len(server.keys) == 1


def test_a_login_with_a_code_by_a_client_of_ones_own() -> None:
    with authority() as server, FakeVendor(["hello"], keys=server.good_access) as vendor:
        server.before = lambda form: None
        Path(os.environ["ORKAS_HOME"], "config.toml").write_text(
            f'[vendors.openai.oauth]\ndevice_url = "{server.url}/device"\ntoken_url = "{server.url}/token"\n'
            'client_id = "of-my-own"\nscopes = "a b"\n'
        )
        env = at(vendor, OPENAI_OAUTH_CLIENT_SECRET="the-secret-of-my-client")
        hurried(server)
        ran = orkas("auth", "login", "openai", "--device", env=env)
        assert ran.status == 0 and "WDJB-MJHT" in ran.err, ran.err
        assert server.forms[0] == {"client_id": "of-my-own", "client_secret": "the-secret-of-my-client", "scope": "a b"}
        server.good_access.clear()
        assert orkas("run", "--model", "openai/m", "hi", env=env).out == "hello\n"
        assert server.forms[-1]["client_secret"] == "the-secret-of-my-client" and server.renewals == 1


def hurried(server: Any) -> None:
    """The device endpoint asks for a hundredth of a second between polls."""
    codes = {"device_code": "d-code", "user_code": "WDJB-MJHT", "verification_uri": server.url, "interval": 0.01}
    server.before = lambda form: (200, json.dumps(codes).encode()) if "grant_type" not in form else None


def test_stop_ends_a_login() -> None:
    import signal

    with authority() as server:
        child = start("auth", "login", "openrouter", "--web", env=browser_env(server), stdin=subprocess.PIPE)
        shown_address(child)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
        assert child.returncode == 130 and b"Traceback" not in err and not server.keys


def test_no_argument_of_any_process_holds_a_key() -> None:
    """What others can see of a login while it runs."""
    seen: list[bytes] = []
    with authority() as server:
        kind = server.RequestHandlerClass

        class Looking(kind):  # type: ignore[misc, valid-type]
            def do_GET(self) -> None:
                seen.append(subprocess.run(["ps", "-eo", "args"], capture_output=True).stdout)
                super().do_GET()

        server.RequestHandlerClass = Looking
        server.good_access.add(KEY)
        ran = orkas("auth", "login", "openai", input=KEY, env=environ(OPENAI_BASE_URL=f"{server.url}/v1"))
    assert ran.status == 0 and b"auth login openai" in seen[0] and KEY.encode() not in seen[0]
