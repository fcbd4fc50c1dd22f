"""Getting a key or a token from a person: typed without echo, piped in, from a browser, or with a code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

import msgspec

from orkas.infra import environment
from orkas.infra.errors import UsageError
from orkas.infra.secrets import Secret
from orkas.infra.terminal import is_tty
from orkas.providers.accounts.logins import Token
from orkas.providers.vendors import OAuthClient, table, variable

__all__ = ["credential"]

_MAX_BYTES = 65_536


def credential(vendor: str, *, web: bool, device: bool, token: bool) -> Secret | Token:
    """What its user gives for this vendor.

    Raises:
        UsageError: nothing came, or what is no key; or the vendor has no such login.
        ProviderError: a login was refused or did not come about.
    """
    client = _client(vendor)
    if device:
        return _by_device(vendor, _need(client, "device_url", vendor))
    if web:
        return _by_browser(vendor, _need(client, "authorize_url", vendor))
    asked = client is not None and bool(client.authorize_url) and not token
    key = _typed(vendor, "token" if token else "key", browser=asked) if is_tty(sys.stdin) else _piped(vendor)
    if key is None:
        return _by_browser(vendor, _need(client, "authorize_url", vendor))
    return Token(access=key) if token else key


def _client(vendor: str) -> OAuthClient | None:
    """How one logs in there: the vendor's own way, changed by the configuration."""
    from orkas.infra import config

    own, given = table()[vendor].oauth, config.load().oauth(vendor)
    return msgspec.structs.replace(own or OAuthClient(), **given) if given else own


def _need(client: OAuthClient | None, field: str, vendor: str) -> OAuthClient:
    if client is None or not getattr(client, field):
        hint = f"store a key with `orkas auth login {vendor}`, or set vendors.{vendor}.oauth.{field} and the rest of it"
        raise UsageError(f"{vendor} offers no such login", hint=hint)
    return client


# A key


def _typed(vendor: str, what: str, *, browser: bool) -> Secret | None:
    """From the terminal, without echo. None: the browser is to be used."""
    from getpass import getpass

    rest = ", or press Enter to log in with a browser" if browser else ""
    text = getpass(f"Paste the {what} of {vendor}{rest} (it is not shown): ")
    if not text.strip() and browser:
        return None
    return _single(text, vendor)


def _piped(vendor: str) -> Secret:
    try:
        data = sys.stdin.buffer.read(_MAX_BYTES) if sys.stdin is not None else b""
    except (OSError, ValueError) as error:
        raise UsageError(f"standard input cannot be read: {error}", hint="paste the key in a terminal") from None
    return _single(data.decode("utf-8-sig", "replace"), vendor)


def _single(text: str, vendor: str) -> Secret:
    words = text.split()
    if not words:
        raise UsageError("no key came", hint=f"paste it after `orkas auth login {vendor}`, or pipe it in")
    if len(words) > 1 or not (words[0].isascii() and words[0].isprintable()):
        raise UsageError("what came is no key: a key is one word of plain characters", hint="copy it once more")
    return Secret(words[0])


# OAuth


def _by_browser(vendor: str, client: OAuthClient) -> Secret | Token:
    from orkas.providers.accounts.oauth import new_http
    from orkas.providers.accounts.oauth_login import browser_login

    def show(address: str) -> None:
        opened = _open(address)
        _say("Your browser should show this address now:" if opened else "Open this address in a browser:")
        _say(f"\n  {address}\n")
        _say("If that browser is on another machine, paste the address it ends at here and press Enter.")

    async def login() -> Secret | Token:
        http = new_http()
        try:
            return await browser_login(http, client, show=show, pasted=_pasted, client_secret=_client_secret(vendor))
        finally:
            await http.aclose()

    return _driven(login())


def _by_device(vendor: str, client: OAuthClient) -> Token:
    from orkas.providers.accounts.oauth import new_http
    from orkas.providers.accounts.oauth_login import device_login

    def show(address: str, code: str) -> None:
        _say(f"Open {address} on any device and type this code: {code}")

    async def login() -> Token:
        http = new_http()
        try:
            return await device_login(http, client, show=show, client_secret=_client_secret(vendor))
        finally:
            await http.aclose()

    got = _driven(login())
    assert isinstance(got, Token)
    return got


def _driven(login: Coroutine[Any, Any, Secret | Token]) -> Secret | Token:
    from orkas.product.cli.driving import drive

    got: list[Secret | Token] = []

    async def work() -> int:
        got.append(await login)
        return 0

    if drive(work()) != 0 or not got:
        raise KeyboardInterrupt
    return got[0]


def _client_secret(vendor: str) -> Secret | None:
    given = environment.environ.get(variable(vendor, "OAUTH_CLIENT_SECRET"), "").strip()
    return Secret(given) if given else None


async def _pasted() -> str:
    from orkas.infra.threads import in_thread

    return await in_thread(_line)


def _line() -> str:
    """One line of standard input, past its buffer, whose lock a thread must not hold when the program ends."""
    data = b""
    try:
        while not data.endswith(b"\n") and (more := os.read(sys.stdin.fileno(), _MAX_BYTES)):
            data += more
    except (AttributeError, OSError, ValueError):
        return ""
    return data.decode("utf-8", "replace")


def _say(text: str) -> None:
    """On stderr, whole: an address must not be cut or folded by us."""
    from orkas.infra.terminal import inert

    sys.stderr.write(inert(text) + "\n")
    sys.stderr.flush()


def _open(address: str) -> bool:
    """Show an address in the user's browser, where there is a screen; no secret of ours goes along."""
    from orkas.infra.redact import secret_name

    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not screen or not is_tty(sys.stderr) or "SSH_CONNECTION" in os.environ:
        return False
    env = {name: value for name, value in os.environ.items() if not secret_name(name)}
    try:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "webbrowser", address], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    return True
