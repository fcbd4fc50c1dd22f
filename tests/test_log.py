"""The log: nothing secret in it, nothing lost of it, never in the way."""

from __future__ import annotations

import base64
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_support import DEMO, environ, orkas
from orkas.infra import log
from orkas.infra.redact import MASK, mask_headers, redact, secret_name
from orkas.providers.errors import classify


@pytest.fixture
def logging_on() -> Iterator[logging.Logger]:
    log.setup()
    yield logging.getLogger("orkas.test")
    for handler in list(logging.getLogger().handlers):
        if type(handler).__module__ == log.__name__:
            logging.getLogger().removeHandler(handler)
            handler.close()
    logging.captureWarnings(False)
    logging.raiseExceptions = True


def records(path: Path | None = None) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path or log.path()).read_bytes().splitlines()]


SECRETS = [
    "sk-ant-api03-AbCdEf0123456789_-xyz", "sk-proj-abcdefghijklmnop", "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "xoxb-123456789012-abcdef", "AKIAIOSFODNN7EXAMPLE",
    "gsk_abcdefghijklmnopqrstuvwxyz012345", "hf_abcdefghijklmnopqrstuvwxyz",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
]  # fmt: skip
OPAQUE = "Zx81-plain-value"
CARRIERS = [
    "Authorization: Bearer {}", "authorization=Basic {}", '{{"api_key": "{}"}}', "{{'token': '{}'}}", "api_key={}",
    "X-Api-Key: {}",
    "password = {}", "OPENAI_API_KEY={}", "client_secret={} other=1", "https://user:{}@host/path", "refresh_token: {}",
    "https://host/file?X-Amz-Signature={}&X-Amz-Date=1", "https://host/?key={}", "https://host/?a=1&access_token={}#x",
    "Set-Cookie: session={}; Path=/", "Cookie: a=1; b={}", "https://h/b?sv=2020&sig={}&se=1", "--api-key={}",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
def test_the_shape_of_a_secret_is_enough(secret: str) -> None:
    for around in ("{}", "got {}.", "'{}'", "a={},b", "({})", "\n{}\n", "路{}"):
        assert secret not in redact(around.format(secret), {})
        assert MASK in redact(around.format(secret), {})


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_named_secret_needs_no_shape(carrier: str) -> None:
    cleaned = redact(carrier.format(OPAQUE), {})
    assert OPAQUE not in cleaned and MASK in cleaned
    assert redact(cleaned, {}) == cleaned


def test_secrets_of_the_environment_in_any_form() -> None:
    env = {"MY_API_KEY": "päss word/1+2=3", "HOME": "/home/somebody", "SHORT_TOKEN": "abc"}
    value = env["MY_API_KEY"]
    for form in (value, quote(value, safe=""), base64.b64encode(value.encode()).decode()):
        assert redact(f"x {form} y", env) == f"x {MASK} y"
    assert redact("/home/somebody abc", env) == "/home/somebody abc"


NAMES = [
    "PGPASSWORD", "MYSQL_PWD", "STRIPE_KEY", "OPENAI_KEY", "ENCRYPTION_KEY", "SMTP_PASS", "GITLAB_PAT", "SENTRY_DSN",
    "MY_TOKEN_V2", "clientSecret", "DB_PASSWORD_2",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_that_its_value_is_secret(name: str) -> None:
    assert "qwertyuiop99" not in redact("x qwertyuiop99 y", {name: "qwertyuiop99"})
    for pair in ("{}=qwertyuiop99", "{}: qwertyuiop99", '"{}": "qwertyuiop99"', "export {}='qwertyuiop99'"):
        assert "qwertyuiop99" not in redact(pair.format(name), {})


def test_passwords_within_addresses_are_secrets_and_plain_words_are_not() -> None:
    env = {"DATABASE_URL": "postgres://u:hidden-pw-1@h/d", "SORT_KEY": "created_at", "PWD": "/home/me/work"}
    assert redact("it was hidden-pw-1, in /home/me/work by created_at", env) == (
        f"it was {MASK}, in /home/me/work by created_at"
    )
    assert "8f3ad0c2b1e94d7a" not in redact("https://8f3ad0c2b1e94d7a@errors.example/1", {})


@pytest.mark.parametrize("unit", ["a.-", "a_", "1_", "A_", "aB3/", "https://", "_KEY", "token = ", "0"])
def test_redaction_takes_time_in_proportion(unit: str) -> None:
    begun = time.monotonic()
    redact(unit * (200_000 // len(unit)), {})
    assert time.monotonic() - begun < 5


def test_a_vendor_that_repeats_a_secret_is_masked_and_its_words_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "qwertyuiop99")
    body = json.dumps({"error": {"message": "Incorrect key: qwertyuiop99 DB_PASS=hunter22 for model basic-authentication"}})
    said = classify("x", 401, {}, body).message
    assert "qwertyuiop99" not in said and "hunter22" not in said and "for model basic-authentication" in said


def test_a_private_key_goes_whole() -> None:
    text = "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nb"
    assert redact(text, {}) == f"a\n{MASK}\nb"


@pytest.mark.parametrize(
    "text",
    [
        "input_tokens=512 output_tokens=9", "max_tokens: 4096", "the tokenizer: fast", "monkey=1",
        "key=value in a file",
        "task-1234567890-abcdef", "author: Ann", "risk-assessment-of-things", "https://host/path?page=2&sort=name",
        "basic authentication is needed", "def f(password: str, token: Optional[str]) -> None:", "token = next_token()",
        "Unexpected token: '}' at 4", "PRIMARY_KEY = user_id", "SORT_KEY: created_at", "TESTS_PASS: 12", "PWD=/home/me/x",
        "key = process.env.OPENAI_KEY", "SSH_KEY=/home/u/.ssh/id_rsa2", "ssh://git@github.com/a/b", "password: required",
        "self.token = self._tokens.get(name)", "the bearer token expired", "PUBLIC_KEY=abc123def456",
        "skip the secretary", "a/b/c.py:12: error", "keyword: x", "Bearer of news",
    ],
)  # fmt: skip
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text, {}) == text


@given(st.text(max_size=200))
def test_redaction_never_raises_and_is_idempotent(text: str) -> None:
    once = redact(text, {})
    assert redact(once, {}) == once


def test_headers_are_masked_by_name_and_by_value() -> None:
    shown = mask_headers(
        {"X-Api-Key": "abc", "authorization": "Bearer q", "x-note": "sk-abcdefghijkl", "accept": "text/plain"}
    )
    assert shown == {"X-Api-Key": MASK, "authorization": MASK, "x-note": MASK, "accept": "text/plain"}
    assert secret_name("OPENAI_API_KEY") and not secret_name("ORKAS_MODEL")


def test_a_record_is_one_line_of_json_for_the_user_alone(logging_on: logging.Logger) -> None:
    assert not log.path().exists()  # nothing is opened before the first record
    old = os.umask(0)
    try:
        logging_on.warning("two\nlines \ud800 with sk-abcdefghijklmnop", extra={"host": "x", "api_key": SECRETS[0]})
    finally:
        os.umask(old)
    (line,) = records()
    assert line["level"] == "warning" and line["logger"] == "orkas.test" and line["host"] == "x"
    assert "sk-" not in log.path().read_text()
    assert log.path().stat().st_mode & 0o777 == 0o600 and log.path().parent.stat().st_mode & 0o777 == 0o700


def test_a_traceback_is_redacted_before_it_is_cut(logging_on: logging.Logger) -> None:
    try:
        raise ValueError("x" * (log.MAX_TEXT - 150) + " Bearer abcdefghijklmnopqrstuvwxyz0123456789")
    except ValueError:
        logging_on.exception("it failed")
    (line,) = records()
    assert "abcdefgh" not in str(line["exc"]) and len(str(line["exc"])) < log.MAX_TEXT + 100


def test_files_are_put_aside_and_five_are_kept(logging_on: logging.Logger) -> None:
    for n in range(int(log.MAX_BYTES / 10_000 * (log.FILES + 2))):
        logging_on.info("%d %s", n, "y" * 10_000)
    files = sorted(log.path().parent.iterdir())
    assert len(files) == log.FILES
    assert all(f.stat().st_size <= log.MAX_BYTES + 11_000 and f.stat().st_mode & 0o777 == 0o600 for f in files)
    numbers = [
        int(str(r["msg"]).split()[0]) for f in sorted(files, reverse=True) if f != log.path() for r in records(f)
    ]
    numbers += [int(str(r["msg"]).split()[0]) for r in records()]
    ordered = sorted(numbers)
    assert ordered == list(range(ordered[0], ordered[-1] + 1))  # none is lost between the kept files


def test_several_processes_share_the_log_and_lose_no_line() -> None:
    code = (
        "import logging, sys; from orkas.infra import log; log.setup(); log.MAX_BYTES = 60_000\n"
        "for n in range(100): logging.getLogger('orkas').info('%s-%d %s', sys.argv[1], n, 'z' * 500)"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(i)], env=environ()) for i in range(4)]
    assert [p.wait(60) for p in running] == [0] * 4
    files = list(log.path().parent.iterdir())
    told = [str(r["msg"]).split()[0] for f in files for r in records(f)]
    assert sorted(told) == sorted(f"{i}-{n}" for i in range(4) for n in range(100))


def test_a_log_that_cannot_be_written_disturbs_nothing_and_the_doctor_tells() -> None:
    (Path(os.environ["ORKAS_HOME"]) / "logs").write_text("in the way")
    ran = orkas("run", "x", "--tools", "none", *DEMO)
    assert "logs" not in ran.err and "Traceback" not in ran.err
    assert "logs" in orkas("doctor").out
    assert log.check()


def test_the_terminal_stays_silent_without_debug() -> None:
    quiet = orkas("run", "x", "--cwd", "/no/such", *DEMO)
    loud = orkas("run", "x", "--cwd", "/no/such", "--debug", *DEMO)
    assert "Traceback" not in quiet.err and "Traceback" in loud.err
    assert quiet.status == loud.status == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_under_the_name_of_the_log_is_waited_for_by_nobody(logging_on: logging.Logger) -> None:
    log.path().parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(log.path())
    logging_on.warning("into nothing")
    log.path().unlink()
    logging_on.warning("into the log")
    assert [record["msg"] for record in records()] == ["into the log"]
