"""Where the credentials of a request come from: given, from the environment, or from a stored login, in this order."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from orkas.infra import environment
from orkas.infra.errors import ProviderError, StorageError
from orkas.infra.secrets import Secret
from orkas.infra.threads import in_thread
from orkas.providers.accounts.logins import Login, Logins
from orkas.providers.accounts.token_source import TokenSource
from orkas.providers.vendors import Vendor, variable

__all__ = ["RESTING", "Credentials", "Grant", "Keys", "Resting", "StoredLogin", "credentials_for", "environment_keys"]


class Grant(msgspec.Struct, frozen=True):
    """What one request shows: a key, or with ``bearer`` a token that goes into ``Authorization`` at any vendor."""

    secret: Secret
    bearer: bool = False


class Credentials(Protocol):
    """Asked before each request, and told how it went."""

    def peek(self) -> Grant | None:
        """What the next request would show; nothing is renewed. Raises as ``get``."""
        ...

    async def get(self) -> Grant | None:
        """For the next request; None: there is none.

        Raises:
            ProviderError: there is one, and it cannot be used.
        """
        ...

    async def refused(self, tried: Sequence[Grant], error: ProviderError) -> Grant | None:
        """Another one to make the same request with at once; None: there is none that would help.

        ``tried``: what it was made with, the last one refused by ``error``. Raises as ``get``.
        """
        ...

    def accepted(self, grant: Grant) -> None: ...

    async def aclose(self) -> None: ...


_REST_S: Mapping[str, float] = {"auth": 600.0, "quota": 3600.0, "rate_limit": 30.0}
"""Seconds for which a key that was refused for this class is not chosen, where the vendor named none."""
_LONGEST_REST_S = 3600.0


class Resting:
    """Keys that were refused lately, in this process. ``clock``: seconds of any origin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[Secret, float] = {}

    def rest(self, key: Secret, error: ProviderError) -> None:
        seconds = _REST_S[error.class_] if error.wait_s is None else error.wait_s
        self._until[key] = self._clock() + min(seconds, _LONGEST_REST_S)

    def left(self, key: Secret) -> float:
        """Seconds for which it should not be used; 0: it may be."""
        until = self._until.get(key)
        return 0.0 if until is None else max(0.0, until - self._clock())

    def wake(self, key: Secret) -> None:
        self._until.pop(key, None)


RESTING = Resting()


class Keys:
    """One key, or several that stand in for one another, used in their order.

    A key that is refused for itself (wrong, out of money, over its rate) rests, and the request goes to the next one.
    Nothing else makes it change: what one key refuses for what is in the request, the next one refuses too. ``bearer``:
    they are tokens that nobody can renew.
    """

    def __init__(self, keys: Iterable[str | Secret], *, bearer: bool = False, resting: Resting = RESTING) -> None:
        self._grants = [Grant(key, bearer) for key in dict.fromkeys(Secret(key) for key in keys)]
        self._resting = resting

    def peek(self) -> Grant | None:
        if len(self._grants) < 2:
            return self._grants[0] if self._grants else None
        return min(self._grants, key=lambda grant: self._resting.left(grant.secret))  # the first that is ready

    async def get(self) -> Grant | None:
        return self.peek()

    async def refused(self, tried: Sequence[Grant], error: ProviderError) -> Grant | None:
        if len(self._grants) < 2 or error.class_ not in _REST_S:
            return None
        self._resting.rest(tried[-1].secret, error)
        if error.class_ == "rate_limit" and len(tried) > 1:
            return None
        left = (g for g in self._grants if g not in tried and not self._resting.left(g.secret))
        return next(left, None)

    def accepted(self, grant: Grant) -> None:
        if len(self._grants) > 1:
            self._resting.wake(grant.secret)

    async def aclose(self) -> None:
        pass


class StoredLogin:
    """What ``orkas auth login`` stored for an account. Read on first use, and again when it has changed.

    ``optional``: at a vendor that needs no key, a login that cannot be read is as good as none.
    """

    def __init__(
        self,
        account: str,
        logins: Logins | None = None,
        *,
        optional: bool = False,
        client_secret: Secret | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._account = account
        self._logins = logins or Logins()
        self._optional = optional
        self._tokens = TokenSource(account, self._logins, client_secret=client_secret, clock=clock)
        self._stamp: object = ()
        self._login: Login | None = None
        self._keys = Keys(())

    def peek(self) -> Grant | None:
        if self._logins.store.stamp() != self._stamp:
            self._take()
        return self._grant()

    async def get(self) -> Grant | None:
        stamp = self._logins.store.stamp()
        if stamp != self._stamp:
            if stamp is None:
                self._take()  # nothing to read
            else:
                await in_thread(self._take)  # the keyring may have to ask
        token = self._login.token if self._login is not None else None
        if token is None:
            return self._keys.peek()
        return Grant((await self._tokens.good(token)).access, bearer=True)

    async def refused(self, tried: Sequence[Grant], error: ProviderError) -> Grant | None:
        token = self._login.token if self._login is not None else None
        if token is None:
            return await self._keys.refused(tried, error)
        if error.status != 401 or len(tried) > 1:
            return None
        if not token.renewable:
            return await self._successor(tried[-1])
        used = token if token.access == tried[-1].secret else msgspec.structs.replace(token, access=tried[-1].secret)
        return Grant((await self._tokens.renewed(used)).access, bearer=True)

    def accepted(self, grant: Grant) -> None:
        self._keys.accepted(grant)

    async def aclose(self) -> None:
        await self._tokens.aclose()

    async def _successor(self, refused: Grant) -> Grant | None:
        """A token that its user put into the store meanwhile."""
        now = await self.get()
        return now if now is not None and now != refused else None

    def _grant(self) -> Grant | None:
        if self._login is not None and self._login.token is not None:
            return Grant(self._login.token.access, bearer=True)
        return self._keys.peek()

    def _take(self) -> None:
        stamp = self._logins.store.stamp()
        try:
            login = self._logins.get(self._account) if stamp is not None else None
        except StorageError as error:
            if not self._optional:
                raise ProviderError(error.message, class_="auth", hint=error.hint) from None
            login = None
        self._login = login
        self._keys = Keys(login.keys if login is not None else ())
        self._stamp = stamp


def credentials_for(
    vendor: str,
    row: Vendor,
    *,
    api_key: str | Secret | None = None,
    environ: Mapping[str, str] = environment.environ,
    logins: Logins | None = None,
) -> Credentials:
    """Where the requests to this vendor get theirs from: the given key, the environment, the stored login."""
    if keys := [api_key] if api_key else environment_keys(vendor, row, environ)[1]:
        return Keys(keys)
    secret = environ.get(variable(vendor, "OAUTH_CLIENT_SECRET"), "").strip()
    return StoredLogin(
        row.account or vendor, logins, optional=row.local, client_secret=Secret(secret) if secret else None
    )


def environment_keys(vendor: str, row: Vendor, environ: Mapping[str, str]) -> tuple[str | None, list[Secret]]:
    """The keys in the environment, in the order in which they are used, and the variable that has the first one.

    ``<ROW>_API_KEY`` is exactly one key; ``<ROW>_API_KEYS`` more of them, separated by commas or blanks. At Bedrock the
    secret half of an access key, which signs the requests, stands for a key where there is none.
    """
    found: list[tuple[str, str]] = []
    single = ((name, environ.get(name, "").strip()) for name in row.key_variables(vendor))
    found += [pair for pair in single if pair[1]][:1]
    for name in row.pool_variables(vendor):
        found += [(name, key) for key in re.split(r"[,\s]+", environ.get(name, "")) if key]
    if not found and row.dialect == "bedrock":
        from orkas.providers.clouds.aws import SECRET, signer

        found += [(SECRET, signs.secret)] if (signs := signer(environ)) is not None else []
    return (found[0][0] if found else None), [Secret(key) for key in dict.fromkeys(key for _, key in found)]
