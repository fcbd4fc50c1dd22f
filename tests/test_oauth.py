"""Tokens: renewed once by whoever is first, never lost to a loser; logging in with a browser, a paste, a code."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from auth_server import DEVICE, AuthServer, authority
from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.net import Http
from orkas.infra.secrets import Secret
from orkas.providers.accounts.auth import Grant, StoredLogin
from orkas.providers.accounts.logins import Login, Logins, Token
from orkas.providers.accounts.oauth import Refused, ask, checked, exchange, renew, token_of
from orkas.providers.accounts.oauth_login import browser_login, device_login
from orkas.providers.accounts.token_source import TokenSource
from orkas.providers.vendors import OAuthClient

ACCOUNT = "openai"


def client(server: AuthServer, **given: Any) -> OAuthClient:
    own = {"authorize_url": f"{server.url}/authorize", "token_url": f"{server.url}/token", "device_url": f"{server.url}/device"}
    return OAuthClient(**{"client_id": "ours", "scopes": "models.read models.use"} | own | given)


def stored(server: AuthServer, *, left: float = 3600.0, keys: tuple[Secret, ...] = ()) -> Token:
    """A token of this server in the store, with so many seconds left."""
    token = token_of(server.new_token(), client(server))
    token = Token(token.access, token.refresh, time.time() + left, 3600.0, token.client)
    Logins().put(ACCOUNT, Login(keys=keys, token=token))
    return token


def in_store() -> Token | None:
    login = Logins().get(ACCOUNT)
    return login.token if login else None


def refusal(status: int = 401) -> ProviderError:
    return ProviderError("no", class_="auth", status=status)


async def shown(source: StoredLogin) -> str:
    grant = await source.get()
    assert grant is not None and grant.bearer
    return grant.secret.reveal()


# ---------------------------------------------------------------- renewing


async def test_a_token_with_time_left_is_used_as_it_is() -> None:
    with authority() as server:
        token = stored(server)
        assert await shown(StoredLogin(ACCOUNT)) == token.access.reveal()
        assert server.forms == []


@pytest.mark.parametrize("left", [299.0, 1.0, -5.0])
async def test_a_token_is_renewed_before_it_ends_and_stored_before_it_is_used(left: float) -> None:
    with authority() as server:
        token = stored(server, left=left)
        assert token.refresh is not None
        got = await shown(StoredLogin(ACCOUNT))
        assert server.forms == [
            {"grant_type": "refresh_token", "refresh_token": token.refresh.reveal(), "client_id": "ours"}
        ]
        now = in_store()
        assert now is not None and now.access.reveal() == got != token.access.reveal()
        assert now.refresh is not None and now.refresh.reveal() in server.good_refresh
        assert now.expires is not None and 3500 < now.expires - time.time() <= 3600


async def test_a_short_life_has_a_short_skew() -> None:
    token = Token(Secret("a-token-of-20-s"), None, expires=1020.0, lifetime=20.0)
    assert [token.due(now) for now in (1000.0, 1015.0, 1017.0)] == [False, False, True]
    assert not Token(Secret("without-an-end")).due()


async def test_the_old_refresh_token_stays_where_no_new_one_comes() -> None:
    with authority() as server:
        token = stored(server, left=0)
        answer = {"access_token": "the-new-one-0001", "expires_in": "3600"}
        server.before = lambda form: (200, json.dumps(answer).encode())
        assert await shown(StoredLogin(ACCOUNT)) == "the-new-one-0001"
        now = in_store()
        assert now is not None and now.refresh == token.refresh and now.lifetime == 3600.0


async def test_after_a_401_it_is_renewed_once_and_a_second_401_is_the_end() -> None:
    with authority() as server:
        token = stored(server)
        source = StoredLogin(ACCOUNT)
        first = await source.get()
        assert first is not None
        second = await source.refused([first], refusal())
        assert second is not None and second.secret != token.access and server.renewals == 1
        assert await source.refused([first, second], refusal()) is None
        assert server.renewals == 1 and await source.get() == second


@pytest.mark.parametrize("status", [400, 402, 403, 404, 429, 500])
async def test_nothing_but_a_401_makes_it_renew_early(status: int) -> None:
    with authority() as server:
        stored(server)
        source = StoredLogin(ACCOUNT)
        grant = await source.get()
        assert grant is not None
        assert await source.refused([grant], refusal(status)) is None and server.forms == []


async def test_many_requests_at_once_renew_once() -> None:
    with authority() as server:
        token = stored(server, left=0)
        same, sources = StoredLogin(ACCOUNT), [StoredLogin(ACCOUNT) for _ in range(5)]
        got = await asyncio.gather(*(shown(source) for source in [same, same, same, *sources]))
        assert len(set(got)) == 1 and server.renewals == 1
        grants = [Grant(token.access, bearer=True)]
        again = await asyncio.gather(*(source.refused(grants, refusal()) for source in [same, *sources]))
        assert {g.secret.reveal() for g in again if g} == set(got) and server.renewals == 1


async def test_a_caller_that_gives_up_does_not_lose_the_answer() -> None:
    with authority() as server:
        stored(server, left=0)
        asked, go = threading.Event(), threading.Event()
        server.before = lambda form: (asked.set(), go.wait(20), None)[-1]  # type: ignore[func-returns-value]
        source = StoredLogin(ACCOUNT)
        caller = asyncio.create_task(source.get())
        assert await asyncio.to_thread(asked.wait, 20)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        go.set()
        await source.aclose()
        now = in_store()
        assert now is not None and now.refresh is not None and now.refresh.reveal() in server.good_refresh


@pytest.mark.parametrize("answer", [(500, b"{}"), (503, b"<html>"), (429, b'{"error": "slow_down"}'), (200, b"<html>")])
async def test_a_passing_failure_keeps_the_token_and_uses_what_is_left_of_it(answer: tuple[int, bytes]) -> None:
    with authority() as server:
        token = stored(server, left=60)
        server.before = lambda form: answer
        source = StoredLogin(ACCOUNT)
        assert await shown(source) == token.access.reveal() == await shown(source)
        assert len(server.forms) == 1  # not asked again at each request
        assert in_store() == token


async def test_a_passing_failure_of_a_dead_token_is_told_as_what_it_is_and_keeps_it() -> None:
    with authority() as server:
        token = stored(server, left=-1)
    with pytest.raises(ProviderError) as caught:  # nobody listens there any more
        await StoredLogin(ACCOUNT).get()
    assert caught.value.class_ == "connection" and in_store() == token


async def test_an_ended_login_is_forgotten_and_said() -> None:
    with authority() as server:
        token = stored(server, left=-1)
        server.good_refresh.clear()
        with pytest.raises(ProviderError) as caught:
            await StoredLogin(ACCOUNT).get()
        assert caught.value.class_ == "auth" and f"orkas auth login {ACCOUNT}" in caught.value.hint
        assert in_store() is None
        assert token.refresh is not None and token.refresh.reveal() not in str(caught.value)


async def test_a_misconfigured_client_keeps_the_token() -> None:
    with authority() as server:
        token = stored(server, left=-1)
        assert token.refresh is not None
        repeated = json.dumps({"error": "invalid_client", "error_description": f"no {token.refresh.reveal()}"}).encode()
        server.before = lambda form: (401, repeated)
        with pytest.raises(ProviderError) as caught:
            await StoredLogin(ACCOUNT).get()
        assert caught.value.class_ == "auth" and in_store() == token
        assert "refused the login: no ***" in str(caught.value)


async def test_a_loser_never_clears_what_the_winner_stored() -> None:
    """Somebody logs in anew while a renewal with the old token is under way and refused."""
    with authority() as server:
        stored(server, left=-1)

        def meanwhile(form: dict[str, str]) -> tuple[int, bytes]:
            stored(server, left=3000)
            return 400, b'{"error": "invalid_grant"}'

        server.before = meanwhile
        got = await shown(StoredLogin(ACCOUNT))
        now = in_store()
        assert now is not None and got == now.access.reveal() and got in server.good_access


async def test_a_renewal_never_overwrites_a_login_that_came_meanwhile() -> None:
    with authority() as server:
        stored(server, left=-1)
        later: list[Token] = []
        server.before = lambda form: later.append(stored(server, left=3000))
        got = await shown(StoredLogin(ACCOUNT))
        assert in_store() == later[0] and got == later[0].access.reveal()


async def test_a_logout_during_a_renewal_stays_one() -> None:
    with authority() as server:
        stored(server, left=-1)
        server.before = lambda form: Logins().put(ACCOUNT, None)
        await StoredLogin(ACCOUNT).get()
        assert in_store() is None


async def test_a_disk_that_refuses_the_new_token_does_not_lose_it() -> None:
    with authority() as server:
        token = stored(server, left=-1)
        folder = Logins().store.path.parent
        lock = folder / "secrets.lock"
        server.before = lambda form: lock.mkdir()  # nothing can be stored any more
        source = StoredLogin(ACCOUNT)
        got = await shown(source)
        assert got in server.good_access and in_store() == token
        assert await shown(source) == got and server.renewals == 1
        server.before = lambda form: lock.rmdir()
        second = await source.refused([Grant(Secret(got), bearer=True)], refusal())
        now = in_store()
        assert second is not None and now is not None and second.secret == now.access and server.renewals == 2


async def test_a_token_that_nobody_can_renew_is_used_to_its_end() -> None:
    Logins().put(ACCOUNT, Login(token=Token(Secret("brought-by-its-user"), expires=time.time() + 5)))
    source = StoredLogin(ACCOUNT)
    grant = await source.get()
    assert grant == Grant(Secret("brought-by-its-user"), bearer=True)
    assert await source.refused([grant], refusal()) is None
    Logins().put(ACCOUNT, Login(token=Token(Secret("brought-by-its-user"), expires=time.time() - 5)))
    with pytest.raises(ProviderError, match="has ended"):
        await source.get()
    assert in_store() is not None  # nothing is forgotten that its user has not forgotten


# ---------------------------------------------------------------- several processes

RENEW = f"""
import asyncio, sys
from orkas.infra.errors import ProviderError
from orkas.providers.accounts.auth import StoredLogin
async def main():
    source = StoredLogin({ACCOUNT!r})
    try:
        print((await source.get()).secret.reveal(), flush=True)
    except ProviderError as error:
        print("!", error.class_, flush=True)
    await source.aclose()
print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


def renewer() -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", RENEW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline() == "ready\n"
    return child


def go(*children: subprocess.Popen[str]) -> None:
    for child in children:
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()


def said(child: subprocess.Popen[str]) -> str:
    return child.communicate(timeout=60)[0].strip()


def test_processes_at_once_renew_once() -> None:
    with authority() as server:
        stored(server, left=0)
        children = [renewer() for _ in range(3)]
        go(*children)
        got = {said(child) for child in children}
        now = in_store()
        assert server.renewals == 1 and now is not None and got == {now.access.reveal()}


def test_who_is_killed_while_it_waits_holds_nobody_up() -> None:
    with authority() as server:
        stored(server, left=0)
        asked, release = threading.Event(), threading.Event()
        server.before = lambda form: (asked.set(), release.wait(20), None)[-1]  # type: ignore[func-returns-value]
        first, second = renewer(), renewer()
        go(first)
        assert asked.wait(20)
        go(second)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        server.before = lambda form: None
        release.set()
        heard, now = said(second), in_store()
        if now is None:  # the answer to the dead one had used the refresh token up: a strict server says so, and we do
            assert heard == "! auth"
        else:
            assert heard == now.access.reveal() and heard in server.good_access


@pytest.mark.parametrize("nth", range(10))
def test_a_kill_at_any_step_of_storing_leaves_the_old_or_the_new(nth: int) -> None:
    """The n-th call that changes the disk kills the process. What is on disk is whole, and others go on."""
    with authority() as server:
        token = stored(server, left=0)
        code = f"""
import os, signal
from orkas.infra import files
count = [0]
def deadly(name):
    real = getattr(files.Ops, name)
    def call(self, *args):
        count[0] += 1
        if count[0] > {nth}:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *args)
    return call
class Deadly(files.Ops):
    pass
for name in ("open", "write", "sync", "sync_folder", "rename", "link", "unlink"):
    setattr(Deadly, name, deadly(name))
ops = Deadly()
files.OPS = ops
files.replace.__kwdefaults__["ops"] = ops
""" + RENEW
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdout and child.stdout.readline() == "ready\n"
        go(child)
        got = said(child)
        assert child.returncode == (-signal.SIGKILL if nth < 9 else 0)  # a renewal makes nine such calls
        now = in_store()
        assert now is not None
        if now.access == token.access:
            assert got == ""  # what is not stored was never used
        else:
            assert now.access.reveal() in server.good_access
        assert stat.S_IMODE(Logins().store.path.stat().st_mode) == 0o600
        other = renewer()
        go(other)
        heard = said(other)
        assert heard in server.good_access or (heard == "! auth" and now.access == token.access)


# ---------------------------------------------------------------- logging in with a browser


class Browser:
    """Opens the address it is shown and follows where that leads, in a thread of its own."""

    def __init__(self, change: Callable[[str], str] = lambda back: back) -> None:
        self.address = ""
        self.back = ""
        self.status = 0
        self.page = ""
        self._change = change
        self._thread = threading.Thread(target=self._go)

    def __call__(self, address: str) -> None:
        self.address = address
        self._thread.start()

    def close(self) -> None:
        self._thread.join()

    def _go(self) -> None:
        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *args: Any, **kwargs: Any) -> None:
                return None

        try:
            urllib.request.build_opener(Stay).open(self.address)
        except urllib.error.HTTPError as answer:
            self.back = self._change(answer.headers["location"])
            answer.close()
        if self.back:
            try:
                with urllib.request.urlopen(self.back) as page:
                    self.status, self.page = page.status, page.read().decode()
            except urllib.error.HTTPError as page:
                self.status, self.page = page.code, page.read().decode()
                page.close()


async def logged_in(own: OAuthClient, browser: Any, **options: Any) -> Token | Secret:
    http = Http()
    try:
        return await browser_login(http, own, show=browser, **options)
    finally:
        await http.aclose()
        if isinstance(browser, Browser):
            await asyncio.to_thread(browser.close)


async def test_a_browser_comes_back_with_a_token() -> None:
    with authority() as server:
        browser = Browser()
        token = await logged_in(client(server), browser)
        assert isinstance(token, Token) and token.access.reveal() in server.good_access and token.renewable
        asked = {k: v[0] for k, v in parse_qs(urlsplit(browser.address).query).items()}
        assert asked.pop("state") and asked.pop("code_challenge") and asked["code_challenge_method"] == "S256"
        assert asked["scope"] == "models.read models.use" and asked["client_id"] == "ours"
        assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1" and browser.status == 200
        assert server.forms[0]["redirect_uri"] == asked["redirect_uri"] and token.access.reveal() not in browser.page


async def test_a_browser_comes_back_with_a_key_in_the_way_of_openrouter() -> None:
    with authority() as server:
        browser = Browser()
        key = await logged_in(client(server, token_url=f"{server.url}/keys", gives="key", client_id=""), browser)
        assert isinstance(key, Secret) and [key.reveal()] == server.keys
        assert set(parse_qs(urlsplit(browser.address).query)) == {"callback_url", "code_challenge", "code_challenge_method"}
        assert set(server.forms[0]) == {"code", "code_verifier", "code_challenge_method"}


@pytest.mark.parametrize("gives", ["token", "key"])
async def test_what_does_not_belong_to_this_login_is_refused(gives: str) -> None:
    with authority() as server:

        def forged(back: str) -> str:
            parts = urlsplit(back)
            path = parts.path if gives == "token" else "/callback/of-somebody-else"
            return parts._replace(path=path, query=urlencode({"code": "stolen", "state": "of-somebody-else"})).geturl()

        browser = Browser(forged)
        with pytest.raises(ProviderError, match="does not belong") as caught:
            await logged_in(client(server, gives=gives), browser)
        assert caught.value.class_ == "auth" and browser.status == 400 and server.forms == []


async def test_a_user_who_says_no_is_believed() -> None:
    with authority() as server:

        def no(back: str) -> str:
            state = parse_qs(urlsplit(back).query)["state"][0]
            query = urlencode({"error": "access_denied", "error_description": "The user said no", "state": state})
            return urlsplit(back)._replace(query=query).geturl()

        with pytest.raises(ProviderError, match="The user said no"):
            await logged_in(client(server), Browser(no))


async def test_other_visitors_are_sent_away_and_do_not_end_the_login() -> None:
    with authority() as server:

        def first_others(back: str) -> str:
            parts = urlsplit(back)
            with pytest.raises(urllib.error.HTTPError) as missing:
                urllib.request.urlopen(parts._replace(path="/favicon.ico", query="").geturl())
            missing.value.close()
            with pytest.raises(urllib.error.HTTPError) as posted:
                urllib.request.urlopen(back, data=b"x")
            posted.value.close()
            assert (missing.value.code, posted.value.code) == (404, 404)
            with socket.create_connection((parts.hostname or "", parts.port or 0)) as noise:
                noise.sendall(b"\x16\x03\x01 no http at all\r\n\r\n")
                assert b"400" in noise.recv(100)
            return back

        browser = Browser(first_others)
        assert isinstance(await logged_in(client(server), browser), Token) and browser.status == 200


async def test_it_listens_on_loopback_alone_and_no_longer_than_the_login() -> None:
    with authority() as server:
        ports: list[int] = []

        def look(back: str) -> str:
            ports.append(urlsplit(back).port or 0)
            sockets = Path("/proc/net/tcp")
            listening = [line.split() for line in sockets.read_text().splitlines()[1:]] if sockets.exists() else []
            where = {row[1] for row in listening if row[3] == "0A" and int(row[1].partition(":")[2], 16) == ports[0]}
            assert all(at.startswith("0100007F:") for at in where)
            return back

        await logged_in(client(server), Browser(look))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]))


async def test_the_address_may_be_pasted_instead() -> None:
    with authority() as server:
        opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        typed = ["what?", "https://example.org/unfinished", ""]

        async def pasted() -> str:
            if typed[0] == "what?":
                return typed.pop(0)
            query = {k: v[0] for k, v in parse_qs(urlsplit(await opened).query).items()}
            return f"  {server.authorize(query)}\n"

        token = await logged_in(client(server), opened.set_result, pasted=pasted)
        assert isinstance(token, Token) and token.access.reveal() in server.good_access


async def test_a_pasted_address_of_another_login_is_refused() -> None:
    with authority() as server:

        async def pasted() -> str:
            return "http://127.0.0.1:1/callback?code=x&state=y"

        with pytest.raises(ProviderError, match="does not belong"):
            await logged_in(client(server), lambda address: None, pasted=pasted)


async def test_nobody_comes_back() -> None:
    async def silence() -> str:
        return ""

    with authority() as server, pytest.raises(ProviderError) as caught:
        await logged_in(client(server), lambda address: None, pasted=silence, timeout_s=0.05)
    assert caught.value.class_ == "timeout"


async def test_a_code_without_its_proof_buys_nothing() -> None:
    from orkas.providers.accounts.oauth import Pkce

    with authority() as server:
        pkce = Pkce.new()
        query = {"redirect_uri": "http://127.0.0.1:1/callback", "state": "s"}
        back = server.authorize(query | {"code_challenge": pkce.challenge, "code_challenge_method": "S256"})
        code = Secret(parse_qs(urlsplit(back).query)["code"][0])
        http = Http()
        with pytest.raises(Refused):
            await exchange(http, client(server), code, Pkce.new(), query["redirect_uri"])
        await http.aclose()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("authorize_url", ""), ("authorize_url", "http://login.example/a"), ("token_url", "http://10.0.0.1/t"),
        ("token_url", "file:///etc/passwd"), ("redirect_url", "http://example.org/callback"), ("redirect_url", "http://0.0.0.0/c"),
    ],
)  # fmt: skip
async def test_addresses_that_secrets_are_not_sent_to(field: str, value: str) -> None:
    with authority() as server, pytest.raises(UsageError):
        await logged_in(client(server, **{field: value}), lambda address: None)


def test_addresses_that_they_are_sent_to() -> None:
    for url in ("https://auth.example/token", "http://127.0.0.1:1/t", "http://localhost/t"):
        assert checked(url, "it") == url


async def test_a_taken_port_is_said() -> None:
    with authority() as server, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=str(port)):
            await logged_in(client(server, redirect_url=f"http://localhost:{port}/auth/callback"), lambda address: None)


async def test_a_registered_redirect_address_is_kept_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with authority() as server:
        browser = Browser()
        await logged_in(client(server, redirect_url=f"http://localhost:{port}/auth/callback"), browser)
        assert server.forms[0]["redirect_uri"] == f"http://localhost:{port}/auth/callback"


# ---------------------------------------------------------------- logging in with a code


class Naps:
    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


async def by_code(own: OAuthClient, naps: Naps) -> Token:
    http = Http()
    try:
        return await device_login(http, own, show=lambda address, code: shown_codes.append(code), sleep=naps)
    finally:
        await http.aclose()


shown_codes: list[str] = []


async def test_a_device_login_waits_as_it_is_told() -> None:
    with authority() as server:
        server.device = ["authorization_pending", "slow_down", "authorization_pending"]
        naps = Naps()
        token = await by_code(client(server), naps)
        assert token.access.reveal() in server.good_access and token.renewable
        assert naps.taken == [5, 5, 10, 10] and "WDJB-MJHT" in shown_codes
        assert server.forms[0] == {"client_id": "ours", "scope": "models.read models.use"}
        assert server.forms[-1] == {"grant_type": DEVICE, "device_code": "device-code-of-the-fake", "client_id": "ours"}


@pytest.mark.parametrize("code", ["expired_token", "access_denied", "invalid_grant"])
async def test_a_device_login_that_is_over(code: str) -> None:
    with authority() as server:
        server.device = ["authorization_pending", code]
        with pytest.raises(ProviderError) as caught:
            await by_code(client(server), Naps())
        assert caught.value.class_ == "auth" and len(server.forms) == 3


async def test_a_code_that_nobody_uses_ends() -> None:
    with authority() as server:
        server.device = ["authorization_pending"] * 1000
        naps = Naps()
        with pytest.raises(ProviderError, match="not used in time"):
            await by_code(client(server), naps)
        assert sum(naps.taken) == 900


async def test_a_device_login_survives_a_server_that_is_away_for_a_moment() -> None:
    with authority() as server:
        answers: list[tuple[int, bytes] | None] = [None, (503, b""), (502, b"<html>"), None]
        server.before = lambda form: answers.pop(0)
        naps = Naps()
        assert (await by_code(client(server), naps)).renewable
        assert naps.taken == [5, 10, 20]


async def test_errors_that_come_with_status_200_are_errors() -> None:
    with authority() as server:
        server.device = []
        answers: list[tuple[int, bytes] | None] = [None, (200, b'{"error": "authorization_pending"}'), None]
        server.before = lambda form: answers.pop(0)
        assert (await by_code(client(server), Naps())).renewable


# ---------------------------------------------------------------- the token endpoint


@pytest.mark.parametrize(
    "body", [b'{"token_type": "Bearer"}', b'{"access_token": ""}', b'{"access_token": 7}', b'{"access_token":"x","token_type":"mac"}']
)
async def test_what_is_no_bearer_token(body: bytes) -> None:
    with authority() as server:
        server.before = lambda form: (200, body)
        http = Http()
        with pytest.raises(ProviderError, match="no bearer token"):
            await renew(http, client(server), Secret("r"))
        await http.aclose()


@pytest.mark.parametrize("expires", [None, "soon", -1, 0, True and "1e99"])
def test_a_lifetime_that_is_none_is_not_one(expires: Any) -> None:
    with authority() as server:
        token = token_of({"access_token": "x", "expires_in": expires}, client(server))
        assert token.expires is None and not token.due()


async def test_redirects_are_not_followed_with_a_token() -> None:
    with authority() as server:
        server.before = lambda form: (307, b"")
        http = Http()
        with pytest.raises(Refused):
            await ask(http, f"{server.url}/token", {"refresh_token": "r"})
        await http.aclose()
        assert len(server.forms) == 1


async def test_a_client_secret_goes_along_and_is_not_told() -> None:
    with authority() as server:
        server.before = lambda form: (400, json.dumps({"error": "x", "error_description": form["client_secret"]}).encode())
        http = Http()
        with pytest.raises(Refused) as caught:
            await renew(http, client(server), Secret("r"), client_secret=Secret("the-secret-of-a-client"))
        await http.aclose()
        assert "the-secret-of-a-client" not in str(caught.value) and "***" in str(caught.value)


async def test_a_source_waits_for_what_is_under_way_when_it_is_closed_and_no_more() -> None:
    source = TokenSource(ACCOUNT, Logins())
    await source.aclose()
    await source.aclose()
