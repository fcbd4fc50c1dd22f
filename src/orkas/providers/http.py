"""A vendor row, a dialect, the transport and its credentials, joined into one ``LLMProvider``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from functools import partial
from types import TracebackType

from msgspec.structs import replace

from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.messages import AssistantMessage, Message, calls_of
from orkas.infra.net import Answer, Http, Limits
from orkas.providers.accounts.auth import Credentials, Grant, Keys
from orkas.providers.base import (
    AuthStatus,
    CompletionParams,
    Dialect,
    ModelInfo,
    Part,
    Probing,
    Reader,
    Request,
    drained,
)  # fmt: skip
from orkas.providers.catalog import model_info, near
from orkas.providers.prefix import PrefixWatch
from orkas.providers.unthinking import Unthinking
from orkas.providers.vendors import Vendor
from orkas.providers.writing.output import Unconstrained
from orkas.providers.writing.transform import endpoint, wire_name

__all__ = ["HttpProvider"]

_SLOW = Limits(first_byte=600.0, idle=600.0)
"""For models on hardware of the user's own."""
_REFUSAL_S = 30.0
"""Seconds for which the words of a refusal are read, however slowly they come."""
_PROBE_S = 20.0
"""Seconds that a vendor may take to say what it thinks of a key."""


class HttpProvider:
    """One vendor at one address. Usage gets its cost where the vendor gave none and the price is known.

    ``credentials``: asked for a key or token before each request; ``api_key`` stands for one fixed key. ``key_name``
    are the variables that a missing key may be put into, in words. ``local``: no key is needed there.
    """

    def __init__(
        self,
        id: str,
        row: Vendor,
        dialect: Dialect,
        *,
        base_url: str,
        api_key: str | None = None,
        credentials: Credentials | None = None,
        key_name: str,
        local: bool = False,
        http: Http | None = None,
    ) -> None:
        self.id = id
        self.api = dialect.api
        self.base_url = base_url
        self._row = row
        self._dialect = dialect
        self._credentials: Credentials = credentials or Keys([api_key] if api_key else [])
        self._key_name = key_name
        self._local = local or row.local
        self._sound: Grant | None = None
        """The last one that can be put into a header."""
        self._unthinking = Unthinking()
        self._prefix = PrefixWatch(id)
        self._unconstrained = Unconstrained()
        self._http = http or Http(limits=_SLOW if row.slow else None)

    @property
    def ready(self) -> bool:
        """Whether a request could show a key, or needs none. Nothing is renewed or asked."""
        return self._local or self._credentials.peek() is not None

    def info(self, model: str) -> ModelInfo:
        return model_info(self.id, model)

    def speaking(self, dialect: Callable[[Vendor], Dialect]) -> HttpProvider:
        """The same vendor in another dialect: with the same address, credentials and connections, which this one
        closes."""
        return HttpProvider(
            self.id, self._row, dialect(self._row), base_url=self.base_url, credentials=self._credentials,
            key_name=self._key_name, local=self._local, http=self._http,
        )  # fmt: skip

    def request(self, params: CompletionParams) -> Request:
        return self._request(params, self._credentials.peek())

    def stream(self, params: CompletionParams) -> AbstractAsyncContextManager[_Reply]:
        return _Stream(self, params)

    async def _opened(self, params: CompletionParams) -> _Reply:
        """The reply under way, whatever it took to get it.

        Raises:
            ProviderError: the vendor refuses, and nothing that can be done here changes that.
        """
        grant = await self._grant()
        tried: list[Grant] = []
        told: ProviderError | None = None
        while True:
            asked = self._unconstrained.applied(self._unthinking.applied(params))
            request = self._request(asked, grant)
            answer = await self._http.ask(request.url, request.headers, request.body, patience=params.patience)
            if 200 <= answer.status < 300:  # some servers answer every POST with 201
                if grant is not None:
                    self._credentials.accepted(grant)
                return self._reply(answer, asked)
            with closing(answer):
                refusal = await self._refusal(answer, grant, params.model)
            if self._remedied(refusal, params, asked):
                continue
            told = _weightier(told, refusal)
            grant = await self._another(grant, tried, refusal)
            if grant is None:
                raise told

    def _remedied(self, refusal: ProviderError, params: CompletionParams, sent: CompletionParams) -> bool:
        """Whether the next request leaves out what this one was refused for. Each remedy is tried once."""
        if self._unthinking.learn(refusal, params, model=f"{self.id}/{params.model}", api=self.api):
            return True
        return self._unconstrained.learn(refusal, sent)

    def _request(self, params: CompletionParams, grant: Grant | None) -> Request:
        """The request that shows this. Raises as ``_key``."""
        return _shown(self._dialect.request(params, base_url=self.base_url, api_key=self._key(grant)), grant)

    @property
    def no_key(self) -> str:
        """What to say where there is none, as a clause."""
        return f"no API key for {self.id}: set {self._key_name}, or run `{self._login}`"

    def _key(self, grant: Grant | None) -> str | None:
        """The key that the dialect puts where its vendor wants it; None: there is none, or a token.

        Raises:
            ProviderError: class ``auth``: it cannot be put into a header.
        """
        if grant is None:
            return None
        key = grant.secret.reveal()
        if grant is not self._sound:
            if not _HEADER_VALUE.fullmatch(key):
                what = f"the API key for {self.id} holds characters that no key has"
                raise ProviderError(what, class_="auth", hint="copy it once more, without blanks and line ends")
            self._sound = grant
        return None if grant.bearer else key

    async def _grant(self) -> Grant | None:
        """What the next request shows.

        Raises:
            ProviderError: class ``auth``: there is nothing to show; or as the credentials say.
        """
        grant = await self._credentials.get()
        if grant is None and not self._local:
            raise ProviderError(self.no_key, class_="auth")
        return grant

    async def _another(self, grant: Grant | None, tried: list[Grant], refusal: ProviderError) -> Grant | None:
        """What the same request may be made with once more; each is shown once."""
        if grant is None:
            return None
        tried.append(grant)
        another = await self._credentials.refused(tried, refusal)
        return None if another in tried else another

    def _reply(self, answer: Answer, params: CompletionParams) -> _Reply:
        reader = self._dialect.reader(model=f"{self.id}/{params.model}")
        return _Reply(answer, reader, params, partial(self._heard, params, list(params.messages)))

    def _heard(self, params: CompletionParams, messages: list[Message], message: AssistantMessage) -> None:
        """The whole reply to a request with these messages, before anybody else sees it."""
        price = self.info(params.model).price
        if price is not None and message.usage is not None and message.usage.cost_usd is None:
            message.usage = replace(message.usage, cost_usd=price.cost(message.usage))
        self._prefix.heard(params, messages, message.usage, price)

    async def complete(self, params: CompletionParams) -> AssistantMessage:
        return await drained(self.stream(params))

    async def validate_auth(self) -> AuthStatus:
        """Ask for the list of models: the cheapest request that needs the key."""
        try:
            grant = await self._grant()
            error = await self._probed(grant)
            if error is not None and (another := await self._another(grant, [], error)) is not None:
                error = await self._probed(another)
        except ProviderError as problem:
            error = problem
        except UsageError as problem:
            return AuthStatus(None, problem.message)
        if error is None:
            return AuthStatus(True, f"{self.id} accepts the credentials", "accepted")
        if error.class_ == "auth":
            return AuthStatus(False, str(error), "refused" if error.status else "missing")
        if error.class_ in ("quota", "rate_limit"):
            return AuthStatus(True, f"the key is known, but {error.message}", error.class_)
        return AuthStatus(None, error.message, "network" if error.status is None else "unknown")

    async def aclose(self) -> None:
        await self._credentials.aclose()
        await self._http.aclose()

    async def _probed(self, grant: Grant | None) -> ProviderError | None:
        """What the cheapest request was refused for; None: it was not."""
        url, headers = self._probe(grant)
        try:
            async with asyncio.timeout(_PROBE_S), self._http.get(url, headers) as answer:
                return None if answer.status == 200 else await self._refusal(answer, grant)
        except TimeoutError:
            what = f"{self.id} did not answer within {_PROBE_S:.0f} s"
            return ProviderError(what, class_="timeout", hint="try again later")

    def _probe(self, grant: Grant | None) -> tuple[str, dict[str, str]]:
        if isinstance(self._dialect, Probing):
            own = self._dialect.probe(base_url=self.base_url, api_key=self._key(grant))
            return own.url, _shown(own, grant).headers
        sample = self._request(CompletionParams(model="probe", messages=[]), grant)
        headers = {k: v for k, v in sample.headers.items() if k not in ("content-type", "accept")}
        return endpoint(self.base_url, self._row.models), headers

    async def _refusal(self, answer: Answer, grant: Grant | None, model: str = "") -> ProviderError:
        from orkas.providers.errors import classify, mask  # only a failure needs the table

        body = await answer.read_all(within=_REFUSAL_S)
        if 300 <= answer.status < 400:
            target = mask(answer.headers.get("location", "another address")[:1000])
            return ProviderError(
                f"{self.id} answered HTTP {answer.status} and points to {target}", class_="invalid_request",
                status=answer.status, hint="set the base URL to the address it points to",
            )  # fmt: skip
        secrets = (grant.secret.reveal(),) if grant is not None else ()
        error = classify(self.id, answer.status, answer.headers, body, secrets=secrets)
        if grant is not None and grant.bearer and error.class_ == "auth":
            error.hint = f"log in again with `{self._login}`"
        if error.class_ == "not_found" and model and (found := near(model, self.id)):
            error.hint = f"did you mean {' or '.join(found)}?"
        return error

    @property
    def _login(self) -> str:
        return f"orkas auth login {self._row.account or self.id}"


_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")
"""What a key may look like where it goes into a header."""


def _shown(request: Request, grant: Grant | None) -> Request:
    """The request with the token of the grant, where it is one."""
    if grant is not None and grant.bearer:
        request.headers["authorization"] = f"Bearer {grant.secret.reveal()}"
    return request


def _weightier(first: ProviderError | None, second: ProviderError) -> ProviderError:
    """What is told of several refusals of one request: one that waiting cures, else the last."""
    return first if first is not None and first.class_ == "rate_limit" else second


def _renamed(params: CompletionParams) -> dict[str, str]:
    """Wire name → own name of the tools whose names no vendor takes."""
    return {wire: tool.name for tool in params.tools if (wire := wire_name(tool.name)) != tool.name}


class _Stream:
    """A reply for one ``async with``."""

    __slots__ = ("_params", "_provider", "_reply")

    def __init__(self, provider: HttpProvider, params: CompletionParams) -> None:
        self._provider = provider
        self._params = params

    async def __aenter__(self) -> _Reply:
        self._reply = await self._provider._opened(self._params)
        return self._reply

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reply.close()


class _Reply:
    """A ``Completion``: one list of parts per network read. Calls get back the names that tools have here.

    ``told``: sees the whole message before anybody else does.
    """

    __slots__ = ("_answer", "_ended", "_message", "_params", "_reader", "_told")

    def __init__(
        self, answer: Answer, reader: Reader, params: CompletionParams, told: Callable[[AssistantMessage], None]
    ) -> None:
        self._answer = answer
        self._reader = reader
        self._params = params
        self._told = told
        self._message: AssistantMessage | None = None
        self._ended = False

    @property
    def message(self) -> AssistantMessage:
        assert self._message is not None, "read the message after the stream ended"
        return self._message

    def __aiter__(self) -> _Reply:
        return self

    async def __anext__(self) -> list[Part]:
        while not self._ended:
            parts = self._reader.feed(await self._next_bytes())
            self._answer.brisk = self._reader.brisk
            if self._reader.done and not self._ended:
                self._ended = True
                await self._answer.drain()
            if parts:
                return parts
        if self._message is None:
            self._message = message = self._reader.close()
            if calls := calls_of(message):
                renamed = _renamed(self._params)
                for call in calls if renamed else ():
                    call.name = renamed.get(call.name, call.name)
            self._told(message)
        raise StopAsyncIteration

    def close(self) -> None:
        self._answer.close()

    async def _next_bytes(self) -> bytes:
        try:
            data = await self._answer.read()
        except ProviderError:
            try:  # cut or silent after the end of the reply itself (no closing marker): nothing is lost
                self._reader.close()
            except ProviderError:
                pass
            else:
                self._ended = True
                return b""
            raise
        if not data:
            self._ended = True
        return data
