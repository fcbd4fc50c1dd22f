"""The agent: the only place that wires provider, session, tools and policy together."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

from msgspec.structs import replace

from orkas.harness.context.budget import COMPACT_AT, Meter
from orkas.harness.context.calibration import Calibration
from orkas.harness.context.compaction import Compactor
from orkas.harness.fallback import Candidate, Succession, succeeding
from orkas.harness.policy import Policy
from orkas.harness.prompt import system_prompt
from orkas.harness.retry import MAX_RETRIES
from orkas.harness.runner import Runner
from orkas.harness.sessions.session import Session
from orkas.harness.statistics import Recorder
from orkas.harness.telling import telling
from orkas.harness.tool import Tool, ToolContext
from orkas.harness.turn import MAX_ROUNDS, Setup, Turn
from orkas.infra import environment
from orkas.infra.abort import Abort, Aborted
from orkas.infra.errors import OrkasError, UsageError
from orkas.infra.events import Compaction, Done, Event
from orkas.infra.known import hide
from orkas.infra.messages import Image, user_message
from orkas.infra.threads import in_thread
from orkas.providers.base import LLMProvider, Request, ThinkingLevel, ToolDef, Warmable
from orkas.providers.small import select_tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from orkas.harness.approvals import Approvals
    from orkas.harness.output import Output
    from orkas.harness.undo.keeper import Keeper
    from orkas.harness.undo.restore import Undone
    from orkas.infra.job import Job
    from orkas.infra.jobs import Jobs
    from orkas.providers.accounts.auth import Credentials

__all__ = ["Agent", "builtins"]

logging.getLogger("orkas").addHandler(logging.NullHandler())  # a library is silent until its user listens

Approve: TypeAlias = Literal["ask", "edits", "all", "none"]
Images: TypeAlias = Sequence["Image | str | os.PathLike[str]"]
"""Images of a user's message: ready ones, or paths of PNG, JPEG, GIF or WebP files."""


def builtins() -> list[Tool]:
    """The built-in tools: read_file, write_file, edit_file, apply_patch, list_files, search_files, shell, shell_job,
    read_result, web_fetch, web_search; and generate_image where ``image.model`` is set and there is a key for it."""
    from orkas.tools import builtins as make

    return make()


_HIDDEN = (
    "Your message holds a key or a password that this program uses; it was replaced by *** and not sent. What has to "
    "be written into a file, write there yourself."
)
_ENDING_S = 2.0
"""Seconds that a turn which was left half-way may take to end before the next one is refused."""


_ENDING_JOB_S = 10.0
"""Seconds after which a job that the kernel does not let go is not waited for."""


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    abort: Abort
    turn: weakref.ref[Any]
    """Dead once the caller dropped the turn."""

    @property
    def ending(self) -> bool:
        """The caller dropped the turn, and its loop can still end it."""
        return self.turn() is None and not self.loop.is_closed()


class Agent:
    """One conversation with one model and its tools.

    ``model``: a model string (``vendor/model`` or a bare name), a provider object, or None to take what is found:
    a key in the environment, a local server, the installed local model, the offline demo.
    ``tools``: tools, plain functions, or paths of Python files, which are run: every ``@tool`` in them; omitted: the
    built-in ones; ``[]``: none.
    ``session``: omitted: the conversation lives in memory.
    ``approve``: what happens to calls that need a yes: ``ask`` for it, ``edits`` (writing in the working folder is
    approved), ``all`` (everything is that nothing denies), ``none``. Where nobody can be asked they are denied.
    ``max_cost``: USD that one turn may cost: it ends before the request that would pass it. Needs a known price.
    ``cwd``: the folder the tools work in and may not leave; omitted: the current one.
    ``api_key``, or ``credentials`` that are asked before each request: instead of the environment and stored logins.
    ``sandbox``: False runs shell commands without walls, with all rights of the user. True: within the best ones that
    work here, and where none do they are refused.
    ``fallback``: who is asked when the model does not answer, one after another. ``base_url``, ``api_key`` and
    ``credentials`` go to models of the first one's vendor and to no other; ``context_window`` holds for a fallback
    only where nothing is known of its window, and ``max_output`` never raises what it can write.
    ``output``: the form of the final answer: a msgspec struct, dataclass, TypedDict, pydantic model, or a JSON Schema
    as a dict. ``run`` then gives it as a value of that type in ``done.output``; an answer that has not that form, also
    after it was asked for once more, fails the turn.

    Raises:
        UsageError: a model string names no known vendor, a tool cannot be offered, ``cwd`` is no folder, or ``output``
            describes no object.
    """

    def __init__(
        self,
        model: str | LLMProvider | None = None,
        *,
        tools: Iterable[Tool | Callable[..., Any] | str] | None = None,
        session: Session | None = None,
        system: str = "",
        cwd: str | os.PathLike[str] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        credentials: Credentials | None = None,
        approve: Approve = "ask",
        sandbox: bool = True,
        thinking: ThinkingLevel | None = None,
        fallback: str | LLMProvider | Sequence[str | LLMProvider] | None = None,
        output: Any = None,
        max_rounds: int = MAX_ROUNDS,
        max_retries: int = MAX_RETRIES,
        max_cost: float | None = None,
        context_window: int | None = None,
        max_output: int | None = None,
        compact_at: float = COMPACT_AT,
    ) -> None:
        _one_of("approve", approve, get_args(Approve))
        if thinking is not None:
            _one_of("thinking", thinking, get_args(ThinkingLevel))
        if session is not None and not isinstance(session, Session):
            raise UsageError(
                f"session must be a Session, not {session!r}", hint="open one by its name: Session.open(\"trip\")"
            )
        if max_rounds < 1:
            raise UsageError("max_rounds must be at least 1")
        if max_retries < 0:
            raise UsageError("max_retries must be 0 or more")
        if max_cost is not None and not 0 < max_cost < math.inf:
            raise UsageError("max_cost must be an amount of USD above 0")
        for name, size in (("context_window", context_window), ("max_output", max_output)):
            if size is not None and size < 1:
                raise UsageError(f"{name} must be at least 1, a number of tokens")
        if not 0 < compact_at <= 1:
            raise UsageError("compact_at must be above 0 and at most 1: a share of the usable window")
        self.session = session if session is not None else Session()
        self.cwd = _folder(cwd)
        self._told: list[str] = []
        self._tools = _by_name(tools, self._told)
        self._system = system
        self._output = _output(output)
        self._policy = Policy(approve)
        self._sandbox: Literal["find", "off"] = "find" if sandbox else "off"
        self._thinking: ThinkingLevel | None = thinking
        self._max_rounds = max_rounds
        self._max_retries = max_retries
        self._max_cost = max_cost
        learnt = Calibration(keep=self.session.files is not None)  # a session in memory leaves no trace
        self._window = context_window
        self._meter = Meter(window=context_window, compact_at=compact_at, learnt=learnt)
        self._compactor = Compactor()
        self._recorder = Recorder()
        self._max_output = max_output
        self._base_url, self._api_key, self._credentials = base_url, api_key, credentials
        self._first: Candidate | None = None
        self._fallbacks: list[Candidate] = []
        self._running: _Running | None = None
        self._approvals: Approvals | None = None
        self._keeper: Keeper | None = None
        self._kept_for: Session | None = None
        self._jobs: Jobs | None = None
        self._looked = False
        self._lock = threading.Lock()
        if model is not None:
            self.use(model)
        vendor = self._first.provider.id if self._first else "none"
        try:
            self._fallbacks = [self._candidate(m, vendor=vendor) for m in _listed(fallback)]
        except UsageError as error:
            raise UsageError(f"fallback: {error.message}", hint=error.hint) from None

    @property
    def model(self) -> str:
        """``vendor/model`` in use; empty until one was chosen."""
        return self._first.full_model if self._first else ""

    @property
    def tools(self) -> list[Tool]:
        return list(self._tools.values())

    def use(self, model: str | LLMProvider) -> None:
        """Take another model from the next turn on; the conversation goes on.

        Raises:
            UsageError: unknown vendor, an endpoint is missing, or there is a cost limit and the price is not known.
        """
        self._first = self._candidate(model, vendor="")

    def _candidate(self, model: str | LLMProvider, *, vendor: str) -> Candidate:
        """A model that may be asked. The address and key that were given are used for ``vendor`` alone; empty: any."""
        found = self._found(model, vendor)
        if self._max_cost is not None and found.provider.info(found.model).price is None:
            raise UsageError(
                f"a cost limit cannot be kept: the price of {found.full_model} is not known",
                hint="leave the limit out, or say the price in config.toml (docs/models.md); max_rounds limits a turn",
            )
        return found

    def _found(self, model: str | LLMProvider, vendor: str) -> Candidate:
        if not isinstance(model, str):
            if not all(hasattr(model, name) for name in ("id", "stream", "info")):
                raise UsageError(
                    f"model must be a string or a provider object, not {model!r}",
                    hint='write it as "vendor/model", such as "demo/offline"',
                )
            return Candidate(model, getattr(model, "model", "model"))
        from orkas.providers.registry import resolve, split_model

        if vendor in ("", split_model(model)[0]):
            return Candidate(*resolve(
                model, base_url=self._base_url, api_key=self._api_key, credentials=self._credentials
            ))  # fmt: skip
        return Candidate(*resolve(model))

    @property
    def approve(self) -> Approve:
        """What happens to calls that need a yes; may be set at any time, and holds from the next call on.

        Raises:
            UsageError: on setting it to anything but ask, edits, all, none.
        """
        return self._policy.mode

    @approve.setter
    def approve(self, mode: Approve) -> None:
        _one_of("approve", mode, get_args(Approve))
        self._policy.mode = mode

    def answer(self, id: str, answer: Literal["once", "session", "always", "no"], note: str = "") -> None:
        """Answer an ``approval`` event, by its ``id``; from any task or thread. ``note``: for the model, with a no.

        Raises:
            UsageError: this question is not open (any more), or does not offer this answer. Nothing has changed.
        """
        self._asking.answer(id, answer, note)

    def stream(self, prompt: str, images: Images = (), *, headless: bool = False) -> AsyncGenerator[Event, None]:
        """One turn, told as events; the last is ``done``. Paths of images are read and checked first.

        An ``approval`` event waits for ``answer``. ``headless``: nobody answers, so that what would be asked is denied.

        Leaving early ends the turn and leaves a valid session; ``contextlib.aclosing`` makes that happen at once.

        Raises:
            UsageError: the prompt is empty and there is no image, a turn is already running, or an image cannot be
                used. Nothing was sent or stored.
        """
        _check_prompt(prompt, images)
        myself: list[weakref.ref[Any]] = []
        turn = telling(lambda: self._turn(prompt, images, myself, headless=headless))
        myself.append(weakref.ref(turn))
        return turn

    async def _turn(self, prompt: str, images: Images, myself: list[weakref.ref[Any]], *, headless: bool) -> None:
        loaded = _loaded(images)
        abort = await self._begin(myself[0])
        self._policy.headless = headless
        try:
            environment.learn()
            if environment.unread(self.cwd):
                await in_thread(environment.learn_folder, self.cwd)
            said = hide(prompt)
            setup = await self._setup(abort)
            setup.told = [*([] if said == prompt else [_HIDDEN]), *self._told, *await self._healed()]
            self._told = []
            if self._keeper is not None:
                self._keeper.begin()
            await Runner(Turn(setup)).run(user_message(said, loaded))
        finally:
            self._meter.save()
            self._running = None

    async def run(self, prompt: str, images: Images = ()) -> Done:
        """``stream``, drained: the ``done`` event. Nobody can be asked: what would be asked is denied."""
        async with aclosing(self.stream(prompt, images, headless=True)) as events:
            async for event in events:
                if isinstance(event, Done):
                    if event.output is not None and self._output is not None:
                        return replace(event, output=self._output.typed(event.output))
                    return event
        raise AssertionError("a turn ends with done")

    async def compact(self, keep: str = "") -> Compaction:
        """Replace older messages by a summary now; ``keep``: what it is to keep. The archive keeps the messages.

        Raises:
            UsageError: there is nothing to summarise, or a turn is running.
            ProviderError: there is no summary to be had. Nothing was changed.
            StorageError: the new history could not be saved. Nothing was changed.
        """
        async with aclosing(self.compacting(keep)) as events:
            async for event in events:
                if isinstance(event, Compaction):
                    return event
        raise UsageError("stopped: nothing was compacted", hint="ask again")

    def compacting(self, keep: str = "") -> AsyncGenerator[Event, None]:
        """``compact``, told as events: retries, then ``compaction``; without the latter it was stopped."""
        myself: list[weakref.ref[Any]] = []
        work = telling(lambda: self._compact(keep, myself))
        myself.append(weakref.ref(work))
        return work

    async def _compact(self, keep: str, myself: list[weakref.ref[Any]]) -> None:
        abort = await self._begin(myself[0])
        try:
            setup = await self._setup(abort)
            setup.max_cost = None  # the limit of a turn; this was asked for
            turn = Turn(setup)
            await succeeding(turn, partial(self._compactor.run, turn, keep=hide(keep), forced=True))
        except Aborted:
            return
        finally:
            self._running = None
            self._meter.save()

    async def uncompact(self) -> int:
        """Take the newest compaction back; returns how many messages stand in the history again.

        Raises:
            UsageError: there is none to take back, or a turn is running.
            StorageError: nothing has changed.
        """
        if self._running is not None and self._running.turn() is not None:
            raise UsageError("a turn is running in this agent", hint="wait for its `done`, or call stop()")
        count = self.session.uncompact()
        self._meter.forget()
        return count

    async def undo(self) -> Undone:
        """Take back what the last turn of this conversation did to files, by tools and by commands; called again, the
        turn before it. Files that somebody else has changed since are left alone and named. The conversation stays.

        Raises:
            UsageError: there is nothing to take back, or a turn is running.
            StorageError: that it was taken back could not be written down.
        """
        if self._running is not None and self._running.turn() is not None:
            raise UsageError("a turn is running in this agent", hint="wait for its `done`, or call stop()")
        from orkas.harness.undo.restore import undo

        return await in_thread(undo, self.session.id)

    async def warm(self) -> None:
        """Let a model that has to load first do so, and read the prompt, ahead of the first question."""
        provider: object = self._first.provider if self._first else None
        if isinstance(provider, Warmable):
            with suppress(OrkasError):  # the first question meets the same trouble, and tells it
                await provider.warm(Turn(self._wired(Abort())).params())

    async def request(self) -> Request:
        """The request that the next turn would send for the history as it stands. Nothing is sent or stored.

        Raises:
            UsageError, ProviderError: the turn could not be sent either.
        """
        setup = await self._setup(Abort())
        return setup.provider.request(Turn(setup).params())

    def run_sync(self, prompt: str, images: Images = ()) -> Done:
        """``run`` for programs without an event loop.

        Raises:
            UsageError: called inside a running event loop; use ``await agent.run(...)`` there.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise UsageError("run_sync was called inside a running event loop", hint="use `await agent.run(…)` there")

        async def whole() -> Done:
            try:
                return await self.run(prompt, images)
            finally:
                await self.aclose()

        return asyncio.run(whole())

    def stop(self) -> None:
        """End the running turn within a second; from any task or thread. Without a running turn: nothing."""
        with self._lock:
            running = self._running
        if running is not None:
            with suppress(RuntimeError):  # its loop was closed in mid-turn: there is nothing left to stop
                running.loop.call_soon_threadsafe(running.abort.fire)

    def steer(self, text: str) -> str:
        """Say something to the running turn, from any task or thread: it goes out with the next request, after the
        results of the round under way. Durable when this returns; returns the id of its ``user_input`` event.

        Without a running turn it waits, also through a crash, and goes out at the beginning of the next one. So does
        what a turn leaves behind that was stopped, failed, or came to a limit.

        Raises:
            UsageError: it is empty or too long, or the session is closed.
            StorageError: it could not be saved; nothing of it is kept.
        """
        return self.session.inbox.steer(text)

    def queue(self, text: str) -> str:
        """Say something for when the turn would end: the same stream then goes on with it. Otherwise as ``steer``."""
        return self.session.inbox.queue(text)

    @property
    def jobs(self) -> list[Job]:
        """Commands in the background, those that ended lately included."""
        return self._jobs.listed() if self._jobs is not None else []

    async def stop_job(self, name: str) -> Job:
        """End a command in the background; returns when it has ended.

        Raises:
            UsageError: there is none of this name.
        """
        found = next((job for job in self.jobs if job.name == name), None)
        if found is None:
            names = ", ".join(job.name for job in self.jobs) or "none"
            raise UsageError(f"there is no background job {name!r}", hint=f"there are: {names}")
        found.told.add("user")
        found.stop()
        await in_thread(found.wait, _ENDING_JOB_S)
        return found

    async def aclose(self) -> None:
        """Give back network connections, and end the commands in the background. The agent and its session can still be
        used."""
        if self._jobs is not None:
            await in_thread(self._jobs.close)
        for candidate in self._candidates:
            await candidate.provider.aclose()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _begin(self, turn: weakref.ref[Any]) -> Abort:
        """Take the agent for a turn. One that its caller dropped half-way is given a moment to end."""
        give_up = time.monotonic() + _ENDING_S
        while (last := self._running) is not None and last.ending and time.monotonic() < give_up:
            await asyncio.sleep(0.001)  # a dropped generator tells nobody when it has ended
        with self._lock:
            if self._running is not None and not self._running.loop.is_closed():
                raise UsageError("a turn is already running in this agent", hint="wait for its `done`, or call stop()")
            self._running = _Running(asyncio.get_running_loop(), Abort(), turn)
            return self._running.abort

    async def _healed(self) -> list[str]:
        """What a killed process left is put right before the first turn: files half-done, commands still running."""
        if self._looked or self._keeper is None:
            return []
        self._looked = True
        from orkas.tools.changeset import heal, journal

        told = await in_thread(heal) if journal().is_dir() else []
        if self._jobs is not None:
            from orkas.infra.orphans import folder, reap

            count = await in_thread(reap) if folder().is_dir() else 0
            were = "A background job was" if count == 1 else f"{count} background jobs were"
            told += [f"{were} still running, left by an Orkas that was killed: ended now."] if count else []
        return told

    def _watching(self) -> Keeper | None:
        """Who watches the files for undo; None while no tool says that it changes any."""
        if self._keeper is None or self._kept_for is not self.session:
            if not any(hasattr(tool, "touches") for tool in self._tools.values()):
                return None
            from orkas.harness.undo.keeper import Keeper

            in_memory = self.session.files is None
            self._keeper, self._kept_for = Keeper(self.cwd, self.session.id, in_memory=in_memory), self.session
            if in_memory:
                weakref.finalize(self, self._keeper.forget)
        return self._keeper

    def _background(self) -> Jobs | None:
        """The commands in the background; None while no tool can start any."""
        if self._jobs is None and any(getattr(tool, "uses_jobs", False) for tool in self._tools.values()):
            from orkas.infra.jobs import Jobs

            self._jobs = Jobs()
            weakref.finalize(self, self._jobs.abandon).atexit = False  # at exit they are ended in order
        return self._jobs

    async def _setup(self, abort: Abort) -> Setup:
        if self._first is None:
            from orkas.providers.discovery import choose

            self.use((await in_thread(choose)).model or "")
        return self._wired(abort)

    @property
    def _asking(self) -> Approvals:
        if self._approvals is None:
            from orkas.harness.approvals import Approvals

            self._approvals = Approvals()
        return self._approvals

    @property
    def _candidates(self) -> list[Candidate]:
        return [self._first, *self._fallbacks] if self._first else self._fallbacks

    def _wired(self, abort: Abort) -> Setup:
        if self._recorder.session is not self.session:
            self._recorder = Recorder(self.session)
        succession = Succession(self._candidates, lambda candidate: self._seat(setup, candidate))
        setup = Setup(
            provider=succession.current.provider,
            model=succession.current.model,
            session=self.session,
            tools=self._tools,
            offered=(),
            policy=self._policy,
            context=ToolContext(
                self.cwd, abort, files=self.session.files, sandbox=self._sandbox, jobs=self._background(),
                undo=self._watching(),
            ),
            meter=self._meter,
            compactor=self._compactor,
            inbox=self.session.inbox,
            recorder=self._recorder,
            succession=succession,
            approvals=None if self._policy.headless else self._asking,
            output=self._output,
            thinking=self._thinking,
            max_rounds=self._max_rounds,
            max_retries=self._max_retries,
            max_cost=self._max_cost,
        )
        self._seat(setup, succession.current)
        return setup

    def _seat(self, setup: Setup, candidate: Candidate) -> None:
        """All of a turn that depends on who is asked. The first model's limits are what was given; those of a fallback
        are its own, within what was given."""
        info = candidate.provider.info(candidate.model)
        setup.provider, setup.model = candidate.provider, candidate.model
        self._meter.vendor = candidate.provider.id
        self._meter.window, setup.max_output = self._window, self._max_output
        if candidate is not self._first:
            self._meter.window = None if info.context_window else self._window
            if self._max_output and info.max_output:
                setup.max_output = min(self._max_output, info.max_output)
        offered = [ToolDef(t.name, t.description, t.parameters) for t in self._tools.values()]
        setup.offered = select_tools(offered) if info.small else offered
        extra = hide("\n\n".join(filter(None, (self._system, self._output.prompt if self._output else ""))))
        setup.system = system_prompt(self.cwd, self._tools, extra=extra, small=info.small)


def _output(shape: Any) -> Output | None:
    if shape is None:
        return None
    from orkas.harness.output import Output

    return Output(shape)


def _listed(fallback: str | LLMProvider | Sequence[str | LLMProvider] | None) -> Sequence[str | LLMProvider]:
    if fallback is None:
        return []
    return fallback if isinstance(fallback, Sequence) and not isinstance(fallback, str) else [fallback]


def _one_of(name: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise UsageError(f"{name} cannot be {given!r}", hint=f"it is one of {', '.join(allowed)}")


def _check_prompt(prompt: object, images: object) -> None:
    if not isinstance(prompt, str):
        raise UsageError(f"the prompt must be a string, not {prompt!r}", hint='say what to do: agent.run("…")')
    if not prompt.strip() and not images:
        raise UsageError("the prompt is empty", hint='say what to do: agent.run("…")')


def _loaded(images: Images | Image | str | os.PathLike[str]) -> list[Image]:
    if not images:
        return []
    from orkas.harness.images import load_image

    if isinstance(images, Image | str | os.PathLike):  # one is as good as a list of one
        images = [images]
    return [load_image(i) for i in images]


def _folder(cwd: str | os.PathLike[str] | None) -> Path:
    if cwd is None and os.name == "posix":
        return Path.cwd()  # as the system tells it: a folder, and without links
    path = Path(cwd or ".")
    if not path.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder", hint="give an existing folder to work in")
    return path.resolve()


_TOOLS = "give a list of functions and tools; orkas.builtins() is the list of the built-in ones"


def _check_list(tools: object) -> None:
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a list, not {tools!r}", hint=_TOOLS)


def _by_name(tools: Iterable[Tool | Callable[..., Any] | str] | None, told: list[str]) -> dict[str, Tool]:
    if tools is None:
        return {tool.name: tool for tool in builtins()}
    _check_list(tools)
    from orkas.harness.bare import check_tool

    named: dict[str, Tool] = {}
    for one in chain.from_iterable(_tools_of(given, told) for given in tools):
        check_tool(one)
        if one.name in named:
            raise UsageError(f"two tools are called {one.name!r}", hint="give one of them another name")
        named[one.name] = one
    return named


def _tools_of(given: Tool | Callable[..., Any] | str, told: list[str]) -> list[Tool]:
    """The tools that one entry of the list means. ``told`` takes what the user has to know."""
    if isinstance(given, str):
        return _tools_in(given, told)
    bare = hasattr(given, "run") and (hasattr(given, "parameters") or not callable(given))
    if isinstance(given, type) or not (bare or callable(given)):
        raise UsageError(f"{given!r} is no tool", hint=_TOOLS)
    from orkas.harness.functions import FunctionTool

    one = cast("Tool", given) if bare else FunctionTool(cast("Callable[..., Any]", given))
    if isinstance(one, FunctionTool) and one.unbound:
        raise UsageError(f"{one.name!r} is a method", hint="give the method of an object: tools=[thing.method]")
    return [one]


def _tools_in(name: str, told: list[str]) -> list[Tool]:
    """By the path of a Python file."""
    from orkas.harness.tool_file import is_tool_file, load_tools

    if not is_tool_file(name):
        raise UsageError(f"{name!r} is no tool", hint="a word in the list of tools is the path of a Python file")
    found = load_tools(name)
    names = ", ".join(tool.name for tool in found)
    told.append(f"The code of {str(Path(name).absolute())!r} was run; its tools ({names}) have all your rights.")
    return found
