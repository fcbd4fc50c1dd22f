"""A vendor row, a dialect, the transport and a key, joined into one ``LLMProvider``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.messages import AssistantMessage, calls_of
from orkas.infra.net import Answer, Http, Limits
from orkas.providers.base import AuthStatus, CompletionParams, Dialect, ModelInfo, Part, Reader, Request, drained
from orkas.providers.catalog import model_info
from orkas.providers.output import Unconstrained
from orkas.providers.transform import wire_name
from orkas.providers.unthinking import Unthinking
from orkas.providers.vendors import Vendor

__all__ = ["HttpProvider"]

_SLOW = Limits(first_byte=600.0, idle=600.0)
"""For models on hardware of the user's own."""


class HttpProvider:
    """One vendor at one address with one key.

    ``key_name`` is the variable that a missing key should be put into. ``local``: no key is needed there.
    """

    def __init__(
        self,
        id: str,
        row: Vendor,
        dialect: Dialect,
        *,
        base_url: str,
        api_key: str | None,
        key_name: str,
        local: bool = False,
        http: Http | None = None,
    ) -> None:
        self.id = id
        self.api = dialect.api
        self.base_url = base_url
        self._row = row
        self._dialect = dialect
        self._key = api_key or None
        self._key_name = key_name
        self._local = local or row.local
        self._unthinking = Unthinking()
        self._unconstrained = Unconstrained()
        self._http = http or Http(limits=_SLOW if row.slow else None)

    def info(self, model: str) -> ModelInfo:
        return model_info(self.id, model)

    def request(self, params: CompletionParams) -> Request:
        return self._dialect.request(params, base_url=self.base_url, api_key=self._key)

    @asynccontextmanager
    async def stream(self, params: CompletionParams) -> AsyncGenerator[_Reply, None]:
        self._need_key()
        while True:
            sent = self._unconstrained.applied(self._unthinking.applied(params))
            async with self._post(sent) as answer:
                if answer.status == 200:
                    yield self._reply(answer, params)
                    return
                refusal = await self._refusal(answer)
            if not self._remedied(refusal, params, sent):
                raise refusal

    def _remedied(self, refusal: ProviderError, params: CompletionParams, sent: CompletionParams) -> bool:
        """Whether the next request leaves out what this one was refused for. Each remedy is tried once."""
        if self._unthinking.learn(refusal, params, model=f"{self.id}/{params.model}", api=self.api):
            return True
        return self._unconstrained.learn(refusal, sent)

    def _post(self, params: CompletionParams) -> AbstractAsyncContextManager[Answer]:
        request = self.request(params)
        return self._http.post(request.url, request.headers, request.body, patience=params.patience)

    def _reply(self, answer: Answer, params: CompletionParams) -> _Reply:
        return _Reply(answer, self._dialect.reader(model=f"{self.id}/{params.model}"), _renamed(params))

    async def complete(self, params: CompletionParams) -> AssistantMessage:
        return await drained(self.stream(params))

    async def validate_auth(self) -> AuthStatus:
        """Ask for the list of models: the cheapest request that needs the key."""
        try:
            self._need_key()
            url, headers = self._probe()
            async with self._http.get(url, headers) as answer:
                if answer.status == 200:
                    return AuthStatus(True, f"{self.id} accepts the credentials")
                error = await self._refusal(answer)
        except ProviderError as problem:
            error = problem
        except UsageError as problem:
            return AuthStatus(None, problem.message)
        if error.class_ == "auth":
            return AuthStatus(False, error.message)
        if error.class_ in ("quota", "rate_limit"):
            return AuthStatus(True, f"the key is known, but {error.message}")
        return AuthStatus(None, error.message)

    async def aclose(self) -> None:
        await self._http.aclose()

    def _probe(self) -> tuple[str, dict[str, str]]:
        from urllib.parse import urlsplit, urlunsplit

        sample = self.request(CompletionParams(model="probe", messages=[]))
        parts = urlsplit(self.base_url)
        base = parts.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/messages")
        path = base + self._row.models
        headers = {k: v for k, v in sample.headers.items() if k not in ("content-type", "accept")}
        return urlunsplit(parts._replace(path=path)), headers

    def _need_key(self) -> None:
        if self._key is None and not self._local:
            raise ProviderError(f"no API key for {self.id}: set {self._key_name}", class_="auth")

    async def _refusal(self, answer: Answer) -> ProviderError:
        from orkas.providers.errors import classify  # only a failure needs the table

        body = await answer.read_all()
        if 300 <= answer.status < 400:
            target = answer.headers.get("location", "another address")
            return ProviderError(
                f"{self.id} answered HTTP {answer.status} and points to {target}", class_="invalid_request",
                status=answer.status, hint="set the base URL to the address it points to",
            )  # fmt: skip
        secrets = (self._key,) if self._key else ()
        return classify(self.id, answer.status, answer.headers, body, secrets=secrets)


def _renamed(params: CompletionParams) -> dict[str, str]:
    """Wire name → own name of the tools whose names no vendor takes."""
    return {wire: tool.name for tool in params.tools if (wire := wire_name(tool.name)) != tool.name}


class _Reply:
    """A ``Completion``: one list of parts per network read. Calls get back the names that tools have here."""

    __slots__ = ("_answer", "_ended", "_message", "_reader", "_renamed")

    def __init__(self, answer: Answer, reader: Reader, renamed: dict[str, str]) -> None:
        self._answer = answer
        self._reader = reader
        self._renamed = renamed
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
            for call in calls_of(message) if self._renamed else ():
                call.name = self._renamed.get(call.name, call.name)
        raise StopAsyncIteration

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
