"""OAuth 2.0 as public clients use it: asking a token endpoint. What a vendor says is data of an ``OAuthClient``."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.net import Http, Limits
from orkas.infra.secrets import Secret
from orkas.providers.accounts.logins import Token
from orkas.providers.errors import mask
from orkas.providers.vendors import OAuthClient

__all__ = ["Pkce", "Refused", "ask", "checked", "exchange", "new_http", "renew"]

_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LIMITS = Limits(connect=10.0, first_byte=30.0, idle=15.0)
_WHOLE_S = 60.0
"""Seconds that one answer may take from its question to its end."""
_TRANSIENT = frozenset([408, 425, 429, 500, 502, 503, 504])


class Refused(Exception):
    """The server's own no. ``code``: the error of RFC 6749 5.2 or RFC 8628 3.5; ``says``: one sentence."""

    def __init__(self, code: str, says: str, status: int) -> None:
        super().__init__(says)
        self.code = code
        self.says = says
        self.status = status


class Pkce(NamedTuple):
    """Proof that who asks for the token is who began the login (RFC 7636, S256)."""

    verifier: Secret
    challenge: str

    @classmethod
    def new(cls) -> Pkce:
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        return cls(Secret(verifier), base64.urlsafe_b64encode(digest).rstrip(b"=").decode())


def new_http() -> Http:
    """A transport with the patience that a token endpoint deserves."""
    return Http(limits=_LIMITS)


def checked(url: str, what: str) -> str:
    """An address that secrets may be sent to: https, or this machine.

    Raises:
        UsageError: it is none.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"):
        return url
    said = f"{what} is {url!r}, which is not safe for secrets" if url else f"{what} is not configured"
    raise UsageError(said, hint="give an address that begins with https://")


async def exchange(
    http: Http, client: OAuthClient, code: Secret, pkce: Pkce, redirect: str, *, client_secret: Secret | None = None
) -> Token | Secret:
    """What a login gives for its code: a token, or a key from a vendor that gives keys.

    Raises:
        Refused: the server said no.
        ProviderError: it could not be asked, or answered with what is neither.
    """
    if client.gives == "key":
        form = {"code": code.reveal(), "code_verifier": pkce.verifier.reveal(), "code_challenge_method": "S256"}
        return _key(await ask(http, client.token_url, form, as_json=True), client)
    form = {
        "grant_type": "authorization_code", "code": code.reveal(), "redirect_uri": redirect,
        "code_verifier": pkce.verifier.reveal(),
    }  # fmt: skip
    return token_of(await ask(http, client.token_url, form | _who(client, client_secret)), client)


async def renew(http: Http, client: OAuthClient, refresh: Secret, *, client_secret: Secret | None = None) -> Token:
    """A new token for a refresh token, which that uses up where the server rotates them. Raises as ``exchange``."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh.reveal()}
    return token_of(await ask(http, client.token_url, form | _who(client, client_secret)), client, refresh)


async def begin_device(http: Http, client: OAuthClient, *, client_secret: Secret | None = None) -> dict[str, Any]:
    """The codes of a device login (RFC 8628 3.2). Raises as ``exchange``."""
    form = _who(client, client_secret) | ({"scope": client.scopes} if client.scopes else {})
    return await ask(http, client.device_url, form)


async def poll_device(
    http: Http, client: OAuthClient, device_code: Secret, *, client_secret: Secret | None = None
) -> Token:
    """The token of a device login, once its user agreed. Raises as ``exchange``."""
    form = {"grant_type": _DEVICE_GRANT, "device_code": device_code.reveal()} | _who(client, client_secret)
    return token_of(await ask(http, client.token_url, form), client)


async def ask(http: Http, url: str, form: Mapping[str, str], *, as_json: bool = False) -> dict[str, Any]:
    """One question to an OAuth endpoint.

    Raises:
        Refused: its own no, whatever the status.
        ProviderError: no answer, one that says to come back later, or none of its kind.
        UsageError: the address is not one for secrets.
    """
    body = json.dumps(form).encode() if as_json else urlencode(form).encode()
    kind = "application/json" if as_json else "application/x-www-form-urlencoded"
    headers = {"content-type": kind, "accept": "application/json"}
    host = urlsplit(url).hostname
    try:
        async with (
            asyncio.timeout(_WHOLE_S),
            http.post(checked(url, "the OAuth address"), headers, body) as answer,
        ):
            status, data = answer.status, await answer.read_all()
    except TimeoutError:
        raise ProviderError(f"{host} did not answer a login in time", class_="timeout", hint="try again") from None
    content = _object(data)
    if content is not None and (code := _error_code(content)) and status not in _TRANSIENT:
        raise Refused(code, _says(host, content, code, form), status)
    if status in _TRANSIENT or status >= 500:
        raise ProviderError(f"{host} answered HTTP {status} to a login", class_="server", status=status)
    if status >= 300:
        raise Refused("", f"{host} answered HTTP {status} to a login", status)
    if content is None:
        raise ProviderError(f"{host} gave no usable answer to a login", class_="server", status=status)
    return content


def token_of(content: Mapping[str, Any], client: OAuthClient, refresh: Secret | None = None) -> Token:
    """The token in an answer. ``refresh``: kept where the answer brings no new one.

    Raises:
        ProviderError: there is no bearer token in it.
    """
    access, kind = content.get("access_token"), content.get("token_type")
    if not isinstance(access, str) or not access or (isinstance(kind, str) and kind.lower() != "bearer"):
        raise ProviderError(f"{urlsplit(client.token_url).hostname} gave no bearer token", class_="auth")
    new = content.get("refresh_token")
    lifetime = _seconds(content.get("expires_in"))
    return Token(
        access=Secret(access),
        refresh=Secret(new) if isinstance(new, str) and new else refresh,
        expires=None if lifetime is None else time.time() + lifetime,
        lifetime=lifetime,
        client=client,
    )


def _key(content: Mapping[str, Any], client: OAuthClient) -> Secret:
    key = content.get("key")
    if not isinstance(key, str) or not key:
        raise ProviderError(f"{urlsplit(client.token_url).hostname} gave no key", class_="auth")
    return Secret(key)


def _who(client: OAuthClient, client_secret: Secret | None) -> dict[str, str]:
    named = {"client_id": client.client_id} if client.client_id else {}
    return named | ({"client_secret": client_secret.reveal()} if client_secret else {})


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < 1e10 else None


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _error_code(content: Mapping[str, Any]) -> str:
    """The error's name; where it is an object, as some vendors write it, the name in that."""
    error = content.get("error")
    if isinstance(error, dict):
        error = error.get("code") or error.get("type") or error.get("message") or "error"
    return str(error)[:100] if error else ""


def _says(host: str | None, content: Mapping[str, Any], code: str, form: Mapping[str, str]) -> str:
    """The server's words without what we sent it, which some repeat."""
    error = content.get("error")
    said = content.get("error_description") or (error.get("message") if isinstance(error, dict) else None) or code
    text = " ".join(mask(str(said)[:2000], [v for k, v in form.items() if k in _SENT]).split())[:300]
    return f"{host} refused the login: {text.rstrip('.')}"


_SENT = ("code", "code_verifier", "refresh_token", "device_code", "client_secret")
