"""Refusals of real vendors, and the waiting times they ask for."""

from __future__ import annotations

import email.utils
import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from orkas.harness.retry import Retries
from orkas.infra.errors import ProviderError
from orkas.providers.errors import classify, mask
from orkas.providers.errors.waits import retry_after
from refusals import REFUSALS

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
BODIES = sorted(SHARED.glob("errors/*.json"))
WAITS = SHARED / "cases/04-errors/retry_after.jsonl"
RETRYABLE = {"rate_limit", "overloaded", "timeout", "connection", "server"}

needs_bodies = pytest.mark.skipif(not BODIES, reason="no recorded refusals at hand (set ORKAS_SHARED)")
needs_waits = pytest.mark.skipif(not WAITS.exists(), reason="no cases at hand (set ORKAS_SHARED)")


def word(class_: str) -> str:
    return "retryable" if class_ in RETRYABLE else "overflow" if class_ == "context_overflow" else class_


@needs_bodies
@pytest.mark.parametrize("path", BODIES, ids=lambda p: p.stem)
def test_class_and_wait(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_bytes())
    expected = case["expected"]
    received = case.get("received_at")
    now = datetime.fromisoformat(received.replace("Z", "+00:00")).timestamp() if received else None
    error = classify(case["vendor"], case["status"], case["headers"], case["body"].encode(), now=now)
    assert word(error.class_) in {expected["class"], *expected.get("acceptable_classes", [])}
    assert word(error.class_) not in expected.get("never", [])
    accepted = expected.get("acceptable_retry_after_s", [expected["retry_after_s"]])
    assert any(error.wait_s == (pytest.approx(a) if a is not None else None) for a in accepted)
    assert "\n" not in str(error) and len(str(error)) < 800


@needs_waits
def test_retry_after_header() -> None:
    for line in WAITS.read_text("utf-8").splitlines():
        case = json.loads(line)
        now = email.utils.parsedate_to_datetime(case["now"]).timestamp()
        got, want = retry_after({"retry-after": case["header"]}, now=now), case["seconds"]
        if want == "too_long":
            assert got is not None and got > 10_000, case
        elif isinstance(want, str):
            assert got in (None, float(want.split("_")[0])), case
        else:
            assert got == want, case


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("please try again in 174ms.", 0.174),
        ("try again in 3.89s", 3.89),
        ("try again in 9m38.016s.", 578.016),
        ("retry after 45 seconds.", 45),
        ("please retry in 48.939935699s.", 48.939935699),
        ("retry after 2 minutes", 120),
        ("please try again after 1 seconds", 1),
        ("your quota will reset after 3h12m5s.", 11_525),
        ("wait 10 seconds and", 10),
        ("available again in about 2 days", 172_800),
        ("try again in 0s", 0),
        ("try again in 1 hour, 5 minutes and 10 seconds", 3_910),
        ("try again in 1m 30s", 90),
        ("try again in 1 minute. the limit is 5 seconds", 60),
        ("retry after 1,200 seconds", 1_200),
        ("try again in  3 s", 3),
        ("retry after 2026-12-01t00:00:00z", None),
        ("retry after 10:05", None),
        ("try again later", None),
        ("please wait before trying", None),
        ("retry 3 times", None),
        ("wait 2026 tokens", None),
    ],
)
def test_waits_in_words(text: str, seconds: float | None) -> None:
    assert retry_after({}, text) == (None if seconds is None else pytest.approx(seconds))


def test_a_reset_in_epoch_milliseconds() -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1760000030000"}
    assert retry_after(headers, now=1_760_000_000) == pytest.approx(30)


def test_allowances_with_something_left_say_nothing() -> None:
    assert retry_after({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "6m0s"}) is None


def test_what_a_model_wrote_does_not_decide_the_class() -> None:
    body = {
        "error": {
            "message": "Tool call validation failed",
            "code": "tool_use_failed",
            "failed_generation": "insufficient_quota",
        }
    }
    assert classify("groq", 400, {}, json.dumps(body)).class_ == "invalid_request"


def test_secrets_never_appear() -> None:
    body = b'{"error": {"message": "Incorrect API key provided: sk-proj-abcdefghijklmnop; my-own-key"}}'
    text = str(classify("openai", 401, {}, body, secrets=["my-own-key"]))
    assert "abcdefghijklmnop" not in text and "my-own-key" not in text
    assert "***" in text
    assert mask("Bearer abcdefghijklmnopqrst") == "***"


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"[[[]]]", b"\xff\xfe", b"{" * 5_000, b'{"error": null}', b'"text"']
)
@pytest.mark.parametrize("status", [200, 400, 418, 500])
def test_any_body_has_a_class_and_a_sentence(body: bytes, status: int) -> None:
    error = classify("v", status, {}, body)
    assert str(error)
    assert error.class_


@pytest.mark.parametrize(
    "words",
    ["model not found", "The model `gpt-4.1` does not exist", "model 'llama3.2:3b' not found, try pulling it first"],
)
@pytest.mark.parametrize("status", [200, 400])
def test_an_unknown_model_is_told_by_the_words(words: str, status: int) -> None:
    for body in ({"error": words}, {"error": {"message": words}}):
        assert classify("v", status, {}, json.dumps(body)).class_ == "not_found"


@pytest.mark.parametrize(
    ("error", "end"),
    [
        ({}, "why"), (True, "why"), ({"message": ""}, "why"), ({"code": 500}, "why (500)"),
        ({"type": "oops"}, "why (oops)"),
    ],
)  # fmt: skip
def test_an_error_without_a_message_gets_a_plain_sentence(error: object, end: str) -> None:
    body = json.dumps({"error": error})
    assert str(classify("v", 200, {}, body)) == f"v reported an error without saying {end}"
    assert classify("v", 500, {}, body).message == f"v answered HTTP 500 without saying {end}"


@pytest.mark.parametrize(
    "unit",
    ["exceeds the limit ", "<script ", "<style>", "<!--", "<", "</", "model ", "model.x", "maximum ", "{", "[", "9", "9,", "a.",
     "sk-a", "Bearer ", "context length is ", "try again in 9", "max_tokens exceeds ", '\\"', "\\u0000", "key=", "://a:"],
)  # fmt: skip
def test_a_huge_body_is_read_in_a_moment(unit: str) -> None:
    text = (unit * 1_000_000)[:1_000_000]
    begun = time.process_time()
    for body in (text, "<html>" + text, json.dumps({"error": {"message": text, "code": text}}), json.dumps([{"a": text}] * 2)):
        error = classify("v", 400, {"retry-after": text[:4_000]}, body)
        assert error.message and len(error.message) < 800
    assert time.process_time() - begun < 2.5, "all four of them; a quadratic pattern takes minutes"


def test_the_end_of_a_long_message_decides_too() -> None:
    body = json.dumps({"error": {"message": "x " * 50_000 + "this model's maximum context length is 8192 tokens"}})
    error = classify("v", 400, {}, body)
    assert (error.class_, error.window) == ("context_overflow", 8_192)


ABSURD = "9" * 400


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"retry-after": f"Fri, 31 Dec {ABSURD} 23:59:59 GMT"}, {}),
        ({"retry-after": "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"}, {}),
        ({"retry-after": "Fri, 31 Dec 2026 23:59:59 +99999999999999999999"}, {}),
        ({"retry-after": "Fri, 31 Dec 0001 23:59:59 +9959"}, {}),
        ({"retry-after": ABSURD}, {}), ({"retry-after": "inf"}, {}), ({"retry-after-ms": "nan"}, {}),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{ABSURD}h"}, {}),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "0001-01-01T00:00:00+23:59"}, {}),
        ({}, {"details": [{"retryDelay": f"{ABSURD}s"}]}), ({}, {"retry_after": float("inf")}),
        ({}, {"retry_after": int(ABSURD)}), ({}, {"message": f"try again in {ABSURD}s"}),
        ({}, {"message": f"try again in {ABSURD}h{ABSURD}m{ABSURD}.{ABSURD}s"}),
    ],
)  # fmt: skip
def test_absurd_waits_are_ignored_and_the_class_stays(headers: dict[str, str], error: dict[str, Any]) -> None:
    told = classify("v", 429, headers, json.dumps({"error": {"message": "slow down", **error}}))
    assert told.class_ == "rate_limit" and told.wait_s in (None, 0.0)
    assert Retries().wait(told) < 60


@pytest.mark.parametrize("wait", [1e15, 1e300, float("inf"), float("nan"), -1.0, -float("inf")])
def test_a_wait_beyond_all_calendars_ends_with_its_class(wait: float) -> None:
    retries = Retries()
    try:
        assert 0 <= retries.wait(ProviderError("busy", class_="rate_limit", wait_s=wait)) <= 60
    except ProviderError as error:
        assert error.class_ == "rate_limit" and str(error)


def test_a_web_page_is_reduced_to_its_words() -> None:
    page = b"<html><head><style>p {color: red}</style></head><body><h1>502 Bad Gateway</h1>" + b"<p>x</p>" * 9_000
    text = str(classify("v", 502, {"content-type": "text/html"}, page))
    assert "502 Bad Gateway" in text and "color" not in text and len(text) < 800


@pytest.mark.parametrize(("vendor", "status", "body", "classes"), REFUSALS)
def test_refusals_in_other_words(vendor: str, status: int, body: Any, classes: str) -> None:
    error = classify(vendor, status, {}, body if isinstance(body, str) else json.dumps(body))
    assert word(error.class_) in classes.split("|"), str(error)
    assert error.window is None or error.class_ == "context_overflow"


@pytest.mark.parametrize(
    ("words", "window"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 178,959 + 64,000 > 200,000", 200_000),
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.", 8_192),
        ("prompt token count of 138898 exceeds the limit of 64000", 64_000),
        ("Your request exceeded model token limit: 262144 (requested: 291351)", 262_144),
        ("Prompt contains 40960 tokens, too large for model with 32768 maximum context length", 32_768),
        ("The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("Range of input length should be [1, 1000000]", 1_000_000),
        ("This model's maximum prompt length is 131072 but the request contains 136973 tokens.", 131_072),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096),
        ("the request exceeds the available context size, n_ctx = 2048", 2_048),
        ("the model is loaded with context length of only 4096 tokens, which is not enough", 4_096),
        ("Too many input tokens. Max input tokens: 128000, request input token count: 150000", 128_000),
        ("`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 10000 `inputs` tokens", 8_193),
        ("The prompt is too long: 140000, model maximum context length: 131071", 131_071),
        ("The decoder prompt (length 40962) is longer than the maximum model length of 40960.", 40_960),
        ("the input tokens 9000 cannot exceed the total tokens limit 8192 for this model: context length", 8_192),
        ("the context window of this model is 128k tokens: context length exceeded", 128_000),
        ("Input is too long for requested model: context length exceeded", None),
        ("invalid params, context window exceeds limit (2013)", None),
        ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 30601.", None),
        ("Request too large: context length of 70 MB, the limit of 33554432 bytes is exceeded", None),
        ("prompt too long; exceeded max context length by 1234 tokens", None),
    ],
)
def test_the_window_that_a_refusal_tells(words: str, window: int | None) -> None:
    for body in ({"error": {"message": words}}, {"error": words}, {"error": {"message": json.dumps({"error": words})}}):
        error = classify("v", 400, {}, json.dumps(body))
        assert (error.class_, error.window) == ("context_overflow", window)


def test_the_window_as_a_field() -> None:
    body = {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 4_096}}
    assert classify("llamacpp", 400, {}, json.dumps(body)).window == 4_096


def test_a_rate_limit_tells_no_window() -> None:
    body = {"error": {"message": "Rate limit of 40,000 input tokens per minute: maximum context length 200000"}}
    assert classify("v", 429, {}, json.dumps(body)).window is None
