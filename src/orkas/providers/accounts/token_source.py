"""A token that stays good: renewed before it ends and once after a refusal, by one process at a time.

A refresh token may be good for one use only. So whoever renews holds a lock that all processes share, looks again at
what is stored, and stores the new token, flushed, before anybody uses it. What is stored is replaced or removed only
as long as it is still what was used.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from orkas.infra.errors import OrkasError, ProviderError, SessionLocked, StorageError
from orkas.infra.files import Lock
from orkas.infra.net import Http
from orkas.infra.secrets import Secret
from orkas.infra.threads import in_thread
from orkas.providers.accounts.logins import Login, Logins, Token

__all__ = ["TokenSource"]

_LOCK_S = 90.0
"""Seconds that another process may take to renew the token: more than a token endpoint is waited for."""
_PAUSE_S = 30.0
"""Seconds without another attempt after one that failed, while the old token is still good."""
_ENDING_S = 5.0
"""Seconds that a renewal under way may still take when its owner is closed."""
_log = logging.getLogger("orkas.auth")


class TokenSource:
    """The token of one account.

    ``client_secret``: of clients that have one. ``clock``: seconds since the epoch.
    """

    def __init__(
        self,
        account: str,
        logins: Logins,
        *,
        client_secret: Secret | None = None,
        http: Http | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._account = account
        self._logins = logins
        self._client_secret = client_secret
        self._http = http
        self._clock = clock
        self._pause_until = 0.0
        self._task: asyncio.Task[Token] | None = None
        self._unsaved: tuple[Token, Token] | None = None
        """What stands in the store and what should: the disk refused it."""

    async def good(self, token: Token) -> Token:
        """``token``, or its successor where it is about to end.

        Raises:
            ProviderError: class ``auth``: one has to log in again. Another class: it could not be renewed now, and it
                has ended.
        """
        token = self._newest(token)
        now = self._clock()
        alive = token.left(now) > 0
        if not token.due(now) or (alive and (now < self._pause_until or not token.renewable)):
            return token
        if not token.renewable:
            raise self._over("its token has ended")
        try:
            return await self.renewed(token)
        except ProviderError as error:
            if error.class_ == "auth" or not alive:
                raise
            self._pause_until = now + _PAUSE_S
            _log.warning("the token of %s could not be renewed yet: %s", self._account, error.message)
            return token

    async def renewed(self, used: Token) -> Token:
        """The successor of ``used``, made now unless somebody made it already. Raises as ``good``.

        A caller that is cancelled does not cancel the renewal: its answer may be the only good token there is.
        """
        task = self._task
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._task = asyncio.create_task(self._renewal(self._newest(used)))
            task.add_done_callback(_retrieved)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Let a renewal under way come to its end, for a moment; give back connections."""
        task = self._task
        if task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop():
            with suppress(OrkasError, TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), _ENDING_S)
        if self._http is not None:
            await self._http.aclose()

    def _newest(self, token: Token) -> Token:
        """What the disk refused to take goes on in memory."""
        if self._unsaved is not None and token.access == self._unsaved[0].access:
            return self._unsaved[1]
        return token

    async def _renewal(self, used: Token) -> Token:
        async with self._locked():
            login = await in_thread(self._read)
            if login is None or login.token is None:
                raise self._over("it was logged out")
            token = self._newest(login.token)
            if token.access != used.access and not token.due(self._clock()):
                return token  # somebody else was first
            return await self._renew(login.token, token)

    async def _renew(self, stored: Token, token: Token) -> Token:
        """``stored``: what stands on disk, the same as ``token`` unless the disk refused that."""
        from orkas.providers.accounts.oauth import Refused, new_http, renew

        if token.refresh is None or token.client is None:
            raise self._over("its token is no longer taken, and nobody can renew it")
        self._http = self._http or new_http()
        try:
            new = await renew(self._http, token.client, token.refresh, client_secret=self._client_secret)
        except Refused as error:
            if error.code != "invalid_grant":
                raise ProviderError(error.says, class_="auth", status=error.status, hint=self._way) from None
            return await self._cleared(stored)
        except OrkasError as error:
            if isinstance(error, ProviderError):
                raise
            raise ProviderError(error.message, class_="auth", hint=error.hint) from None
        return await self._kept(stored, new)

    async def _kept(self, stored: Token, new: Token) -> Token:
        try:
            now = await in_thread(self._swap, stored, new)
        except StorageError as error:
            _log.warning("the new token of %s is kept in memory alone: %s", self._account, error)
            self._unsaved = (stored, new)
            return new
        self._unsaved = None
        return now or new

    async def _cleared(self, used: Token) -> Token:
        """The refresh token is dead. Forget it, unless somebody logged in anew meanwhile."""
        self._unsaved = None
        with suppress(StorageError):
            now = await in_thread(self._swap, used, None)
            if now is not None and not now.due(self._clock()):
                return now
        raise self._over("its login has ended")

    def _swap(self, used: Token, new: Token | None) -> Token | None:
        """Store ``new`` if what is stored is still ``used``; the token that is stored now."""

        def change(old: Login | None) -> Login | None:
            if old is None or old.token != used:
                return old
            return Login(keys=old.keys, token=new)

        login = self._logins.update(self._account, change)
        return login.token if login is not None else None

    def _read(self) -> Login | None:
        try:
            return self._logins.get(self._account)
        except StorageError as error:
            raise ProviderError(error.message, class_="auth", hint=error.hint) from None

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None, None]:
        """Held by one renewal of this account at a time, in all processes. The system frees it when its holder dies."""
        lock = Lock(self._logins.store.path.with_name(f"login-{self._account}.lock"), name=self._account)
        give_up = time.monotonic() + _LOCK_S
        while not lock.held:
            try:
                lock.acquire()
            except SessionLocked as error:
                if time.monotonic() > give_up:
                    what = f"the token of {self._account} is being renewed ({error.owner}) and does not come"
                    raise ProviderError(what, class_="timeout", hint="try again") from None
                await asyncio.sleep(0.02)
            except StorageError as error:
                raise ProviderError(error.message, class_="storage", hint=error.hint) from None
        try:
            yield
        finally:
            lock.release()

    @property
    def _way(self) -> str:
        return f"log in again with `orkas auth login {self._account}`"

    def _over(self, why: str) -> ProviderError:
        return ProviderError(f"{self._account} is not logged in any more: {why}", class_="auth", hint=self._way)


def _retrieved(task: asyncio.Task[Token]) -> None:
    """Whoever waited has the error; nobody waiting is no fault."""
    if not task.cancelled():
        task.exception()
