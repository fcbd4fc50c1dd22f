"""Logging in: with a browser that comes back to this machine, with a pasted address, or with a code on another device.

The redirect address listens on 127.0.0.1 alone, for one answer that must bring back what nobody can guess.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.net import Http
from orkas.infra.secrets import Secret
from orkas.providers.accounts.logins import Token
from orkas.providers.accounts.oauth import Pkce, Refused, begin_device, checked, exchange, poll_device
from orkas.providers.vendors import OAuthClient

__all__ = ["LOGIN_S", "browser_login", "device_login"]

LOGIN_S = 600.0
"""Seconds that a person may take."""
_HEAD_BYTES = 16_384
_HEAD_S = 10.0
_INTERVAL_S = 5.0
"""Between two questions of a device login, where the server names none; also what ``slow_down`` adds (RFC 8628)."""


async def browser_login(
    http: Http,
    client: OAuthClient,
    *,
    show: Callable[[str], None],
    pasted: Callable[[], Awaitable[str]] | None = None,
    client_secret: Secret | None = None,
    timeout_s: float = LOGIN_S,
) -> Token | Secret:
    """Authorization code with PKCE. ``show`` gets the address to open; ``pasted`` waits for the redirect address as
    its user pastes it, for browsers on another machine, and is asked again after what is none.

    Raises:
        ProviderError: class ``auth``: refused, or not for this login. Class ``timeout``: nobody came back.
        UsageError: the client has no addresses, or the port is taken.
    """
    checked(client.authorize_url, "the authorize_url")
    checked(client.token_url, "the token_url")
    pkce, state = Pkce.new(), secrets.token_urlsafe(24)
    async with _listening(client, state) as (redirect, answer):
        show(_authorize_address(client, pkce, state, redirect))
        code = await _first(answer, pasted, state, timeout_s)
    with _as_provider_error():
        return await exchange(http, client, code, pkce, redirect, client_secret=client_secret)


async def device_login(
    http: Http,
    client: OAuthClient,
    *,
    show: Callable[[str, str], None],
    client_secret: Secret | None = None,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> Token:
    """Device code (RFC 8628). ``show`` gets the address to open on any device and the code to type there.

    Raises:
        ProviderError: class ``auth``: refused or no longer valid; another class: the server cannot be asked.
        UsageError: the client has no addresses.
    """
    checked(client.device_url, "the device_url")
    checked(client.token_url, "the token_url")
    with _as_provider_error():
        begun = await begin_device(http, client, client_secret=client_secret)
    device_code, left = begun.get("device_code"), _number(begun.get("expires_in"), LOGIN_S)
    address, code = begun.get("verification_uri") or begun.get("verification_url"), begun.get("user_code")
    if not (isinstance(device_code, str) and device_code and isinstance(address, str) and isinstance(code, str)):
        raise ProviderError(f"{urlsplit(client.device_url).hostname} began no login with a code", class_="auth")
    show(address, code)
    interval = _number(begun.get("interval"), _INTERVAL_S)
    while left > 0:
        await sleep(interval)
        left -= interval
        try:
            return await poll_device(http, client, Secret(device_code), client_secret=client_secret)
        except Refused as error:
            if error.code == "slow_down":
                interval += _INTERVAL_S
            elif error.code != "authorization_pending":
                raise _refused(error) from None
        except ProviderError as error:
            if error.class_ not in ("connection", "timeout", "server"):
                raise
            interval *= 2  # RFC 8628 3.5: back off while the server cannot be reached
    raise ProviderError("the code was not used in time", class_="auth", hint="begin the login again")


def _authorize_address(client: OAuthClient, pkce: Pkce, state: str, redirect: str) -> str:
    query = {"code_challenge": pkce.challenge, "code_challenge_method": "S256"}
    if client.gives == "key":
        query = {"callback_url": redirect} | query  # the state is in the path of that: nothing else comes back
    else:
        named = {"client_id": client.client_id} if client.client_id else {}
        scoped = {"scope": client.scopes} if client.scopes else {}
        query = {"response_type": "code", "redirect_uri": redirect, "state": state} | named | scoped | query
    mark = "&" if urlsplit(client.authorize_url).query else "?"
    return client.authorize_url + mark + urlencode(query)


async def _first(
    answer: asyncio.Future[Secret],
    pasted: Callable[[], Awaitable[str]] | None,
    state: str,
    timeout_s: float,
) -> Secret:
    """The code, from whichever way it comes first."""
    typing = asyncio.ensure_future(_from_paste(pasted, state)) if pasted is not None else None
    waited: set[asyncio.Future[Secret]] = {answer} if typing is None else {answer, typing}
    try:
        done, _ = await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise ProviderError(f"nobody logged in within {timeout_s:.0f} s", class_="timeout", hint="try again")
        return done.pop().result()
    finally:
        if typing is not None:
            typing.cancel()
            with suppress(asyncio.CancelledError, ProviderError):
                await typing


async def _from_paste(pasted: Callable[[], Awaitable[str]], state: str) -> Secret:
    """The code in an address that was pasted. Without anybody who pastes this never ends."""
    while True:
        text = (await pasted()).strip()
        if not text:
            await asyncio.Event().wait()
        if "://" in text or text.startswith("localhost"):
            parts = urlsplit(text if "://" in text else f"http://{text}")
            return _code(parts.path, parts.query, state)


def _code(path: str, query: str, state: str) -> Secret:
    """The code that came back, once it is proven to belong to this login.

    Raises:
        ProviderError: it does not, or the login was refused.
    """
    said = dict(parse_qsl(query))
    shown = said.get("state") or path.rpartition("/")[2]
    if not hmac.compare_digest(shown.encode(), state.encode()):
        hint = "begin the login again, and use the address that is shown then"
        raise ProviderError("what came back does not belong to this login", class_="auth", hint=hint)
    if error := said.get("error"):
        says = " ".join((said.get("error_description") or error).split())[:300]
        raise ProviderError(f"the login was refused: {says}", class_="auth", hint="begin the login again")
    if not said.get("code"):
        raise ProviderError("the login came back without a code", class_="auth", hint="begin the login again")
    return Secret(said["code"])


@asynccontextmanager
async def _listening(client: OAuthClient, state: str) -> AsyncGenerator[tuple[str, asyncio.Future[Secret]], None]:
    """The redirect address and what will come to it."""
    host, port, path = _redirect(client, state)
    answer: asyncio.Future[Secret] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            status, text = await _answered(reader, answer, path, state)
            page = f"<!doctype html><meta charset=utf-8><title>Orkas</title><p>{text}</p>".encode()
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(page)}\r\n"
                "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n".encode()
                + page
            )
            with suppress(OSError):
                await writer.drain()
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(serve, "127.0.0.1", port, limit=_HEAD_BYTES)
    except OSError as error:
        what = f"port {port} of this machine cannot be listened on: {error.strerror or error}"
        raise UsageError(what, hint="end the program that has it, or set another redirect_url") from None
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://{host}:{port}{path}", answer
    finally:
        server.close()
        await asyncio.sleep(0)  # the page that says so goes out
        if answer.done() and not answer.cancelled():
            answer.exception()


def _redirect(client: OAuthClient, state: str) -> tuple[str, int, str]:
    """Host, port and path of the redirect address.

    Raises:
        UsageError: the configured one is not on this machine.
    """
    parts = urlsplit(client.redirect_url or "http://127.0.0.1/callback")
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost"):
        said = f"the redirect_url {client.redirect_url!r} is not on this machine"
        raise UsageError(said, hint="write it as http://127.0.0.1:PORT/callback")
    path = parts.path.rstrip("/") or "/callback"
    return parts.hostname, parts.port or 0, f"{path}/{state}" if client.gives == "key" else path


async def _answered(
    reader: asyncio.StreamReader, answer: asyncio.Future[Secret], path: str, state: str
) -> tuple[str, str]:
    """Take one request; status and words of the page for its browser."""
    try:
        async with asyncio.timeout(_HEAD_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        parts = urlsplit(target)
    except (TimeoutError, ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return "400 Bad Request", "This is no request."
    if method != "GET" or not parts.path.startswith(path.removesuffix(f"/{state}")):
        return "404 Not Found", "There is nothing here."
    if answer.done():
        return "410 Gone", "This login is over."
    try:
        answer.set_result(_code(parts.path, parts.query, state))
    except ProviderError as error:
        answer.set_exception(error)
        return "400 Bad Request", "The login failed. The terminal says why."
    return "200 OK", "You are logged in. You can close this page and go back to the terminal."


class _as_provider_error:
    """The server's no as an error of ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Refused):
            raise _refused(error) from None


def _refused(error: Refused) -> ProviderError:
    return ProviderError(error.says, class_="auth", status=error.status, hint="begin the login again")


def _number(value: Any, default: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    return number if 0 < number < 1e6 else default
