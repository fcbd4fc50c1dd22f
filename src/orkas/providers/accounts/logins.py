"""Stored logins: what ``orkas auth login`` leaves behind for an account."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import msgspec

from orkas.infra.errors import StorageError
from orkas.infra.secrets import Place, Secret, Store
from orkas.providers.vendors import OAuthClient

__all__ = ["Login", "Logins", "Token"]

SKEW_S = 300.0
"""A token is renewed when it has less than this many seconds left …"""
_SHARE = 0.2
"""… or less than this share of its life, for tokens that live shortly."""


class Token(msgspec.Struct, frozen=True):
    """A bearer token. ``client`` None: the user brought it, and nobody can renew it."""

    access: Secret
    refresh: Secret | None = None
    expires: float | None = None
    """Seconds since the epoch; None: nobody said."""
    lifetime: float | None = None
    """Seconds from its making to its end."""
    client: OAuthClient | None = None

    @property
    def renewable(self) -> bool:
        return self.refresh is not None and self.client is not None

    def left(self, now: float | None = None) -> float:
        """Seconds until it ends; infinite when nobody said."""
        return float("inf") if self.expires is None else self.expires - (time.time() if now is None else now)

    def due(self, now: float | None = None) -> bool:
        """Whether it should be renewed before it is used."""
        skew = SKEW_S if self.lifetime is None else min(SKEW_S, _SHARE * self.lifetime)
        return self.left(now) <= skew


class Login(msgspec.Struct, frozen=True):
    """What is kept for one account: keys in the order in which they are used, or a token."""

    keys: tuple[Secret, ...] = ()
    token: Token | None = None


class Logins:
    """The logins in a store, by account."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store or Store()

    def places(self) -> dict[str, Place]:
        """Accounts with a login, and where it is kept. Raises StorageError."""
        return self.store.places()

    def get(self, account: str) -> Login | None:
        """
        Raises:
            StorageError: it cannot be read, must not be trusted, or is damaged.
        """
        return _load(account, self.store.get(account))

    def update(self, account: str, change: Callable[[Login | None], Login | None]) -> Login | None:
        """Keep what ``change`` makes of the present login (None: forget it). Nobody else writes in between.

        Durable when it returns. Returns what is kept now.

        Raises:
            StorageError: nothing has changed.
        """

        def changed(old: Secret | None) -> str | None:
            new = change(_load(account, old))
            return _dump(new) if new is not None and (new.keys or new.token) else None

        return _load(account, self.store.update(account, changed))

    def put(self, account: str, login: Login | None) -> None:
        """Keep this login (None: forget it) in place of whatever is there, also of what cannot be read.

        Raises:
            StorageError: nothing has changed.
        """
        self.store.update(account, lambda _: _dump(login) if login is not None else None, blind=True)


def _load(account: str, text: Secret | None) -> Login | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text.reveal(), type=Login, dec_hook=_secret)
    except (msgspec.MsgspecError, ValueError):  # its words would show a piece of it
        raise StorageError(
            f"the stored login of {account} is damaged", hint=f"log in again with `orkas auth login {account}`"
        ) from None


def _secret(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("no secret")


def _dump(login: Login) -> str:
    """The only place where secrets become text, on the way into the store."""
    token = None
    if (t := login.token) is not None:
        token = {
            "access": t.access.reveal(), "refresh": t.refresh.reveal() if t.refresh else None, "expires": t.expires,
            "lifetime": t.lifetime, "client": msgspec.to_builtins(t.client) if t.client else None,
        }  # fmt: skip
    return json.dumps({"keys": [key.reveal() for key in login.keys], "token": token})
