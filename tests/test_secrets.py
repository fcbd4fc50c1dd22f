"""A secret never shows itself; what is kept is kept for its owner alone, whole, in one place; canaries appear nowhere."""

from __future__ import annotations

import ast
import base64
import copy
import dataclasses
import itertools
import json
import logging
import os
import pickle
import re
import stat
import subprocess
import sys
import traceback
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orkas as orkas_package
from cli_support import environ, orkas
from orkas.infra import files, log
from orkas.infra.errors import StorageError, UsageError
from orkas.infra.known import Hider, hide
from orkas.infra.messages import encode
from orkas.infra.redact import redact
from orkas.infra.secrets import MASK, Secret, Store
from orkas.testing import FakeVendor, Refuse, call

VALUE = "Kx7-canary-Vq2mPz9"


# ---------------------------------------------------------------- the value


@pytest.mark.parametrize(
    "show",
    [
        str, repr, format, "{}".format, "{!r}".format, "{:>40}".format, "{0:s}".format, "%s".__mod__,
        lambda s: f"Bearer {s}", lambda s: "," .join([s]), lambda s: "a" + s, lambda s: s + "a", ascii, json.dumps,
        lambda s: json.dumps({"k": [s]}), lambda s: encode({"k": s}).decode(), lambda s: s.encode().decode(), str.upper,
        lambda s: repr([s]), lambda s: repr({"k": s}), lambda s: str(ValueError(s)), lambda s: s[:], lambda s: "".join(s),
        lambda s: pickle.dumps(s).decode("latin-1"), lambda s: repr(vars(type(s)).keys()), lambda s: s.tail,
        lambda s: repr(pickle.loads(pickle.dumps({"k": s}))), lambda s: s.replace("x", "y"), lambda s: repr(dir(s)),
    ],
)  # fmt: skip
def test_a_secret_never_shows_itself(show: Any) -> None:
    assert VALUE not in show(Secret(VALUE))


def test_a_secret_is_its_value_to_those_who_ask() -> None:
    secret = Secret(VALUE)
    assert secret.reveal() == VALUE and secret == Secret(VALUE) != Secret("another")
    assert secret != VALUE and secret != MASK and {secret: 1}[Secret(VALUE)] == 1
    assert copy.copy(secret).reveal() == copy.deepcopy({"k": secret})["k"].reveal() == VALUE
    assert Secret(secret) is secret and json.dumps(secret) == '"***"' == encode(secret).decode()
    assert Secret("a-long-key-whose-end-is-WXYZ").tail == "…WXYZ" and Secret("short").tail == MASK
    with pytest.raises(ValueError):
        Secret("")


@given(st.text(st.characters(exclude_categories=()), min_size=8), st.text(max_size=40))
def test_what_was_met_is_taken_out_of_any_text(value: str, around: str) -> None:
    value = f"Zq7~{value}"  # no word that other tests need
    Secret(value)
    assert value not in redact(f"{around}{value}{around}") or MASK in value


@pytest.mark.parametrize(
    "form",
    [
        str, lambda v: quote(v, safe=""), quote, quote_plus, lambda v: re.sub(r"%..", lambda found: found[0].lower(), quote(v, safe="")),
        lambda v: base64.b64encode(v.encode()).decode(), lambda v: base64.urlsafe_b64encode(v.encode()).decode(),
        lambda v: json.dumps(v)[1:-1], lambda v: json.dumps(v, ensure_ascii=False)[1:-1], escape, lambda v: v.encode().hex(),
    ],
)  # fmt: skip
def test_its_usual_disguises_are_known(form: Any) -> None:
    value = "no/usual+shape of=any <key> é\"x\\"
    Secret(value)
    assert redact(f"before {form(value)} after") == "before *** after" == hide(f"before {form(value)} after")


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_it_is_known_inside_of_what_was_encoded_with_more_around_it(before: bytes, after: bytes) -> None:
    value = "QxWm-canary-7Zk2pR9tL4vB"
    Secret(value)
    for to_base64 in (base64.b64encode, base64.urlsafe_b64encode):
        text = to_base64(before + value.encode() + after).decode()
        told = text[-(-8 * len(before) // 6) : 8 * (len(before) + len(value)) // 6]  # what tells nothing but the value
        assert told in text and told not in hide(text) and MASK in hide(text)
        assert text.startswith(hide(text).split(MASK)[0]) and text.endswith(hide(text).split(MASK)[-1])


@given(st.integers(0, 64))
def test_what_a_cut_leaves_of_it_does_not_tell_it(cut: int) -> None:
    value = "".join(f"{n:x}" for n in range(1_000, 1_020)) + "Vq2m"  # 64 characters
    Secret(value)
    assert len(value) == 64
    for part in (value[:cut], value[cut:]):
        assert len(hide(part).replace(MASK, "")) <= 32


VALUES = ("sure-canary-1-aaaaaaaaaaaaaaab", "aaaaaaab1-canary-2/with+signs", "short-c3")
PIECES = [*VALUES, *(base64.b64encode(v.encode()).decode() for v in VALUES), "sure-canary-1-", "aaaaaaa", "\n", "x" * 700, "plain words"]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(0, 4_000), max_size=12))
def test_in_pieces_as_in_one(pieces: list[str], cuts: list[int]) -> None:
    """Nothing of a value gets through because it came in two parts, and what is no value comes as it was."""
    for value in VALUES:
        Secret(value)
    data = "".join(pieces).encode()
    hider = Hider()
    told = b""
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    for start, stop in itertools.pairwise(edges):
        told += hider.feed(data[start:stop])
        assert hider.pending.startswith(sure := hider.sure()) and not any(sure.endswith(v.encode()[:7]) for v in VALUES[::2])
    told += hider.close()
    assert hider.close() == b"" and not any(v.encode() in told for v in PIECES[:6])
    plain = data
    for form in PIECES[:6]:
        plain = plain.replace(form.encode(), b"")
    if plain == data and b"sure-canary-1-aaaaaaa" not in data:  # so much of a value is hidden too
        assert told == data


@pytest.mark.parametrize(
    "text",
    [
        "lm-studio", "use api_key='not-needed'", "ghp_short", "AKIAIOSFODNN7EXAMPLE", "sk-proj-abc", "xoxb-1", "-----BEGIN PRIVATE KEY-----",
        "grep -n 'BEGIN RSA PRIVATE KEY' *.pem", "password = os.environ['X']", "npm_config_registry=https://a.example/", "hf_hub_download(repo)",
        "postgres://postgres:postgres@localhost/db", "a" * 5_000,
    ],
)  # fmt: skip
def test_results_of_tools_keep_what_only_looks_like_a_key(text: str) -> None:
    Secret("lm-studio"), Secret("not-needed")
    assert hide(text) == text


def test_keys_of_a_certain_form_are_hidden_without_being_known() -> None:
    letters = "Kx7Vq2mPz9Lt4Rb8Wn3Ys6Ug1Hd5Jf0Ce" * 6
    key = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + letters + "\n-----END EC PRIVATE KEY-----"
    for value in (
        f"sk-ant-api03-{letters[:90]}", f"sk-proj-{letters[:120]}", f"ghp_{letters[:36]}", f"glpat-{letters[:20]}", "AKIAIOSFODNN7ABCDEFG",
        f"AIza{letters[:35]}", f"xoxb-123456789012-{letters[:24]}", f"npm_{letters[:36]}", f"sk_live_{letters[:24]}", key,
        f"github_pat_{letters[:22]}_{letters[:59]}", f"hf_{letters[:34]}",
    ):  # fmt: skip
        assert hide(f"it is {value} here") == "it is *** here", value
        hider = Hider()
        data = f"it is {value} here".encode()
        assert b"".join([*(hider.feed(bytes([b])) for b in data), hider.close()]) == b"it is *** here"


def test_who_may_ask_for_the_value() -> None:
    """Only who sends it, and who keeps it: the providers, the search engines, the store."""
    source = Path(orkas_package.__file__).parent
    asking = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "reveal":
                asking.add(str(path.relative_to(source)))
    assert {a for a in asking if not a.startswith("providers/")} == {
        "infra/secret.py", "infra/secrets.py", "tools/engines/brave.py", "tools/engines/tavily.py",
    }  # fmt: skip


def test_what_stands_around_a_secret_does_not_show_it() -> None:
    @dataclasses.dataclass
    class Plain:
        key: Secret

    class Struct(msgspec.Struct):
        key: Secret

    secret = Secret(VALUE)
    for around in (Plain(secret), Struct(secret), dataclasses.asdict(Plain(secret)), (secret,), Exception(secret), UsageError(f"it is {VALUE}")):
        assert VALUE not in repr(around) + str(around)
    assert VALUE not in encode(Struct(secret)).decode()
    try:
        raise ValueError("with locals")
    except ValueError as error:
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
        assert "secret = ***" in shown and VALUE not in shown


def test_several_keys_in_one_variable_are_each_a_secret() -> None:
    env = {"OPENAI_API_KEYS": "first-of-the-keys, second-of-the-keys"}
    assert redact("second-of-the-keys was refused, first-of-the-keys too", env) == "*** was refused, *** too"


# ---------------------------------------------------------------- the file


def test_kept_for_its_owner_alone_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(tmp_path / "new" / "home")
        store.update("a", lambda old: VALUE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert [p.name for p in store.path.parent.iterdir()] == ["secrets.json"]


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.get("a") is None and store.stamp() is None and store.places() == {}
    assert store.update("a", lambda old: VALUE) == Secret(VALUE)
    stamp = store.stamp()
    assert store.update("b", lambda old: "é\n\"b") == Secret("é\n\"b") and store.stamp() != stamp
    assert Store(tmp_path).get("a") == Secret(VALUE) and Store(tmp_path).get("b") == Secret("é\n\"b")
    stamp = store.stamp()
    assert store.update("a", lambda old: old.reveal() if old else None) == Secret(VALUE) and store.stamp() == stamp
    store.update("a", lambda old: None)
    assert store.places() == {"b": "file"}
    store.update("b", lambda old: None)
    assert not store.path.exists() and store.update("b", lambda old: None) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o666, 0o777])
@pytest.mark.skipif(os.name == "nt", reason="no such modes there")
def test_a_file_that_others_may_open_is_not_read(tmp_path: Path, mode: int) -> None:
    store = Store(tmp_path)
    store.update("a", lambda old: VALUE)
    store.path.chmod(mode)
    for use in (lambda: store.get("a"), store.places, lambda: store.update("b", lambda old: "x")):
        with pytest.raises(StorageError) as caught:
            use()
        assert "other users" in caught.value.message and "chmod 600" in caught.value.hint
    assert VALUE in store.path.read_text()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.update("a", lambda old: VALUE)
    os.chown(store.path, 12345, -1)
    with pytest.raises(StorageError, match="another user"):
        store.get("a")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"\xff\xfe", b'{"version": 1}', b'{"version": 1, "entries": {"a": 7}}', b"[" * 9000,
     b'{"version": 1, "entries": {"a": {}}}', b'{"version": 1, "entries": []}', b'{"version":"x","entries":{}}'],
)  # fmt: skip
def test_a_damaged_file_is_said_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    store = Store(tmp_path)
    store.path.write_bytes(content)
    store.path.chmod(0o600)
    for use in (lambda: store.get("a"), lambda: store.update("a", lambda old: "x")):
        with pytest.raises(StorageError, match="damaged"):
            use()
    assert store.path.read_bytes() == content


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.path.write_text('{"version": 2, "entries": {}}')
    store.path.chmod(0o600)
    with pytest.raises(StorageError, match="newer"):
        store.update("a", lambda old: "x")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names there")
def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secrets.json", 0o600)
    with pytest.raises(StorageError, match="no regular file"):
        Store(tmp_path).get("a")


def test_each_failing_write_leaves_the_old(tmp_path: Path) -> None:
    """The n-th call that changes the disk fails, for every n, in a process of its own."""
    code = """
import errno, sys
from pathlib import Path
from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.secrets import Store
nth, count = int(sys.argv[2]), [0]
class Failing(files.Ops):
    pass
def failing(name):
    real = getattr(files.Ops, name)
    def call(self, *args):
        count[0] += 1
        if count[0] == nth:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *args)
    return call
for name in ("open", "write", "sync", "sync_folder", "rename"):
    setattr(Failing, name, failing(name))
ops = Failing()
files.OPS = ops
files.replace.__kwdefaults__["ops"] = ops
try:
    Store(Path(sys.argv[1])).update("a", lambda old: "the new one")
    print("done")
except StorageError as error:
    print("failed")
"""
    store = Store(tmp_path)
    outcomes = []
    for nth in range(1, 9):
        store.update("a", lambda old: "the old one")
        ran = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(nth)], capture_output=True, text=True, timeout=60)
        outcomes.append(ran.stdout.strip())
        kept = store.get("a")
        assert kept == Secret("the new one" if outcomes[-1] == "done" else "the old one"), (nth, ran.stderr)
    assert outcomes == ["failed"] * 6 + ["done"] * 2


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from orkas.infra.secrets import Store
store = Store(Path(sys.argv[1]))
for n in range(15):
    store.update("count", lambda old: str(int(old.reveal() if old else 0) + 1))
    store.update(f"{sys.argv[2]}-{n}", lambda old: "x")
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [child.wait(60) for child in children] == [0, 0]
    store = Store(tmp_path)
    assert store.get("count") == Secret("30") and len(store.places()) == 31


# ---------------------------------------------------------------- the keyring

BACK_END = """
import json, os, pathlib
import keyring.backend, keyring.errors
class Keyring(keyring.backend.KeyringBackend):
    priority = 5
    @property
    def file(self):
        return pathlib.Path(os.environ["RING"])
    def load(self):
        if os.environ.get("RING_TROUBLE"):
            raise keyring.errors.KeyringLocked(os.environ["RING_TROUBLE"])
        return json.loads(self.file.read_text()) if self.file.exists() else {}
    def get_password(self, service, name):
        return self.load().get(f"{service}/{name}")
    def set_password(self, service, name, text):
        self.file.write_text(json.dumps(self.load() | {f"{service}/{name}": text}))
    def delete_password(self, service, name):
        ring = self.load()
        del ring[f"{service}/{name}"]
        self.file.write_text(json.dumps(ring))
"""
KEY = "the-key-in-the-ring-0001"


def ring(tmp_path: Path, **extra: str) -> dict[str, str]:
    """An environment whose keyring is a back end of ours, found as any back end is."""
    pytest.importorskip("keyring")
    (tmp_path / "ring_of_ours.py").write_text(BACK_END)
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    return environ(
        PYTHONPATH=path, PYTHON_KEYRING_BACKEND="ring_of_ours.Keyring", RING=str(tmp_path / "ring.json"), **extra
    )


def test_a_keyring_that_works_is_used(tmp_path: Path) -> None:
    with FakeVendor(keys=[KEY]) as vendor:
        env = ring(tmp_path, OPENAI_BASE_URL=f"{vendor.base_url}/v1")
        ran = orkas("auth", "login", "openai", input=KEY, env=env)
        assert (ran.status, ran.err) == (0, "") and "keyring" in ran.out
        file = Path(env["ORKAS_HOME"]) / "secrets.json"
        assert KEY in (tmp_path / "ring.json").read_text() and KEY not in file.read_text()
        status = orkas("auth", "status", "openai", "--json", env=env)
        assert status.json[0]["from"] == "keyring" and status.json[0]["live"]["ok"] is True
        assert status.json[0]["keys"] == ["…0001"] and KEY not in status.out
        locked = orkas("auth", "status", "openai", env={**env, "RING_TROUBLE": "it is locked"})
        assert "it is locked" in locked.out + locked.err and locked.status == 3
        again = orkas("auth", "login", "openai", input=KEY, env=env)
        assert again.status == 0
        assert orkas("auth", "logout", "openai", env=env).status == 0
        assert KEY not in (tmp_path / "ring.json").read_text() and not file.exists()


def test_a_keyring_that_fails_is_said_once_and_the_file_is_used(tmp_path: Path) -> None:
    with FakeVendor(keys=[KEY]) as vendor:
        trouble = {"RING_TROUBLE": "no such collection"}
        env = ring(tmp_path, OPENAI_BASE_URL=f"{vendor.base_url}/v1", DEEPSEEK_BASE_URL=f"{vendor.base_url}/v1")
        assert orkas("auth", "login", "openai", input=KEY, env=env).status == 0
        for name in ("openai", "deepseek"):  # openai moves out of the ring
            assert orkas("auth", "login", name, input=KEY, env=env | trouble).status == 0
        status = orkas("auth", "status", env=env)
        assert status.err.count("no such collection") == 1 and "secrets.json" in status.err
        assert orkas("doctor", env=env).out.count("no such collection") == 1
        assert (Path(env["ORKAS_HOME"]) / "secrets.json").read_text().count(KEY) == 2


def test_without_a_login_no_keyring_is_loaded(tmp_path: Path) -> None:
    code = "import sys; from orkas.product.cli import main; main(sys.argv[1:]); assert 'keyring' not in sys.modules"
    env = ring(tmp_path)
    for words in (["auth", "status"], ["doctor"], ["request", "--model", "openai/m"]):
        ran = subprocess.run([sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr


# ---------------------------------------------------------------- twelve canaries

CANARIES = {
    "environment": "canaryENVIRON01xq",
    "pool": "canaryPOOLKEY02xq",
    "second of the pool": "canaryPOOLKEY03xq",
    "stored key": "canarySTORED04xq",
    "access token": "canaryACCESS05xq",
    "refresh token": "canaryREFRESH06xq",
    "client secret": "canaryCLIENT07xq",
    "password in an address": "canaryADDRESS08xq",
    "token in a query": "canaryQUERY09xq",
    "argument": "canaryARGUMENT10xq",
    "another program's": "canaryOTHER11xq",
    "piped": "canaryPIPED12xq",
}


def everything_written(home: Path) -> dict[str, str]:
    """All that lies in a home but the file that is there for secrets."""
    return {
        str(path.relative_to(home)): path.read_text("utf-8", "replace")
        for path in home.rglob("*")
        if path.is_file() and path.name != "secrets.json"
    }


def nowhere(text: str, where: str) -> None:
    forms = [form for value in CANARIES.values() for form in (value, base64.b64encode(value.encode()).decode())]
    found = [form for form in forms if form in text]
    assert not found, f"{found} in {where}"


def test_twelve_canaries_appear_nowhere(tmp_path: Path) -> None:
    """Every command with ``--debug``, a vendor that repeats what it was shown, tools that print their environment."""
    from orkas.providers.accounts.logins import Login, Logins, Token
    from orkas.providers.vendors import OAuthClient

    c = CANARIES
    tool = call("shell", command="env; cat /proc/self/environ | tr '\\0' '\\n'; ps -ef; cat /proc/$PPID/cmdline | tr '\\0' ' '")

    def repeating(request: Any) -> Any:
        shown = f"{request.headers.get('authorization')} {request.headers}"
        return Refuse(401, f"Incorrect API key provided: {shown}")

    with FakeVendor(strict=False) as vendor:
        host = vendor.base_url.removeprefix("http://")
        base = f"http://user:{c['password in an address']}@{host}/v1?api_key={c['token in a query']}"
        env = environ(
            OPENAI_API_KEY=c["environment"], OPENAI_API_KEYS=f"{c['pool']},{c['second of the pool']}",
            OPENAI_BASE_URL=f"http://{host}/v1", DEEPSEEK_BASE_URL=f"http://{host}/v1", XAI_BASE_URL=f"http://{host}/v1",
            CUSTOM_BASE_URL=base, GROQ_OAUTH_CLIENT_SECRET=c["client secret"], GROQ_BASE_URL=f"http://{host}/v1",
            SOME_DB_PASSWORD=c["another program's"],
        )  # fmt: skip
        client = OAuthClient(token_url=f"http://{host}/token", client_id="ours")
        token = Token(Secret(c["access token"]), Secret(c["refresh token"]), client=client)
        Logins().put("groq", Login(token=token))
        Logins().put("deepseek", Login(keys=(Secret(c["stored key"]),)))
        said: dict[str, str] = {}

        def ran(*words: str, replies: Any = (), **options: Any) -> None:
            vendor.script(replies)
            done = orkas(*words, env=env, cwd=tmp_path, **options)
            said[" ".join(words[:3])] = done.out + done.err

        for model, shown in (("openai/m", 3), ("deepseek/m", 1), ("groq/m", 1), ("custom/m", 1)):
            ran("run", "--model", model, "hi", "--json", "--debug", replies=[[tool], *[repeating] * shown])
        ran("request", "--model", "openai/m", "--debug")
        ran("request", "--model", "custom/m")
        ran("auth", "login", "xai", "--debug", input=c["piped"])
        ran("auth", "login", "xai", c["argument"], "--debug")
        for words in (
            ["auth", "status"], ["auth", "status", "--json"], ["auth", "status", "openai", "--debug"], ["doctor", "--json"],
            ["models", "--json"], ["config", "list", "--json"], ["stats", "--json"], ["auth", "logout", "groq", "--debug"],
        ):  # fmt: skip
            ran(*words)
        seen = str([(r.path, r.headers) for r in vendor.requests])
        sent = ["environment", "pool", "second of the pool", "stored key", "access token", "piped", "token in a query"]
        assert all(c[name] in seen for name in sent)  # they were in use, all of them
    for where, text in said.items():
        nowhere(text, f"orkas {where}")
    written = everything_written(Path(env["ORKAS_HOME"]))
    assert any("sessions" in name for name in written) and any("shell" in text for text in written.values())
    for where, text in written.items():
        nowhere(text, where)


def test_a_crash_report_and_a_log_with_debug_hide_them() -> None:
    secret = Secret("canaryLOGGED13xq-of-no-shape")
    root = logging.getLogger()
    before = root.handlers[:]
    log.setup(debug=False)
    try:
        logger = logging.getLogger("orkas.test")
        logger.warning("a %s and a %s", secret, secret.reveal(), extra={"shown": secret.reveal()})
        try:
            raise RuntimeError(f"it was {secret.reveal()}")
        except RuntimeError:
            logger.exception("a crash")
        text = log.path().read_text()
        assert "a *** and a ***" in text and "it was ***" in text and secret.reveal() not in text
    finally:
        for handler in set(root.handlers) - set(before):
            root.removeHandler(handler)
            handler.close()
    assert files.holder(log.path().with_name("nothing")) is None
