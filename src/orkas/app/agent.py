"""The agent: one conversation with one model and its tools."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec.structs import replace

from orkas.app.companions import Companions
from orkas.app.given import (
    Approve,
    Images,
    check_limits,
    check_prompt,
    check_words,
    folder,
    listed,
    load_images,
    one_of,
    output_form,
)
from orkas.app.models import Models
from orkas.app.toolbox import Given, builtins, by_name
from orkas.app.turnstile import Turnstile
from orkas.harness.context.budget import COMPACT_AT, Meter
from orkas.harness.context.calibration import Calibration
from orkas.harness.context.compaction import Compactor
from orkas.harness.fallback import succeeding
from orkas.harness.policy import Policy
from orkas.harness.prompt import system_prompt
from orkas.harness.retry import MAX_RETRIES
from orkas.harness.runner import Runner
from orkas.harness.sessions.session import Session
from orkas.harness.setup import MAX_ROUNDS, Setup
from orkas.harness.statistics import Recorder
from orkas.harness.succession import Candidate, Succession
from orkas.harness.telling import telling
from orkas.harness.tool import Tool, ToolContext
from orkas.harness.turn import Turn
from orkas.infra import environment
from orkas.infra.abort import Abort, Aborted
from orkas.infra.errors import OrkasError, UsageError
from orkas.infra.events import Compaction, Done, Event
from orkas.infra.known import hide
from orkas.infra.messages import user_message
from orkas.infra.threads import in_thread
from orkas.providers.base import LLMProvider, Request, ThinkingLevel, ToolDef, Warmable
from orkas.providers.small import select_tools

if TYPE_CHECKING:
    from orkas.harness.undo.restore import Undone
    from orkas.infra.job import Job
    from orkas.providers.accounts.auth import Credentials

__all__ = ["Agent"]

logging.getLogger("orkas").addHandler(logging.NullHandler())  # a library is silent until its user listens

_HIDDEN = (
    "Your message holds a key or a password that this program uses; it was replaced by *** and not sent. What has to "
    "be written into a file, write there yourself."
)
_ENDING_JOB_S = 10.0
"""Seconds after which a job that the kernel does not let go is not waited for."""


class Agent:
    """One conversation with one model and its tools.

    ``model``: a model string (``vendor/model`` or a bare name), a provider object, or None to take what is found:
    a key in the environment, a local server, the installed local model, the offline demo.
    ``tools``: tools, plain functions, names of built-in tools, or paths of Python files, which are run: every
    ``@tool`` in them; omitted: the built-in ones; ``[]``: none.
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
        UsageError: a model string names no known vendor, a tool cannot be offered, ``cwd`` is no folder, ``output``
            describes no object, or another argument is not what it must be.
    """

    def __init__(
        self,
        model: str | LLMProvider | None = None,
        *,
        tools: Iterable[Given] | None = None,
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
        one_of("approve", approve, get_args(Approve))
        if thinking is not None:
            one_of("thinking", thinking, get_args(ThinkingLevel))
        if session is not None and not isinstance(session, Session):
            raise UsageError(
                f"session must be a Session, not {session!r}", hint="open one by its name: Session.open(\"trip\")"
            )
        one_of("sandbox", sandbox, (True, False))
        check_limits(
            max_rounds=max_rounds, max_retries=max_retries, max_cost=max_cost, context_window=context_window,
            max_output=max_output, compact_at=compact_at,
        )  # fmt: skip
        check_words(system=system, base_url=base_url, api_key=api_key, credentials=credentials)
        self.session = session if session is not None else Session()
        self.cwd = folder(cwd)
        self._told: list[str] = []
        self._told_rules = False
        self._tools = by_name(tools, self._told)
        self._system = system
        self._output = output_form(output)
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
        self._models = Models(
            base_url=base_url, api_key=api_key, credentials=credentials, priced=max_cost is not None
        )  # fmt: skip
        self._turnstile = Turnstile()
        self._companions = Companions(self.cwd, self._tools.values())
        if model is not None:
            self.use(model)
        self._models.fall_back(listed(fallback))

    @property
    def model(self) -> str:
        """``vendor/model`` in use; empty until one was chosen."""
        return self._models.first.full_model if self._models.first else ""

    @property
    def tools(self) -> list[Tool]:
        return list(self._tools.values())

    def use(self, model: str | LLMProvider) -> None:
        """Take another model from the next turn on; the conversation goes on.

        Raises:
            UsageError: unknown vendor, an endpoint is missing, or there is a cost limit and the price is not known.
        """
        self._models.use(model)

    @property
    def approve(self) -> Approve:
        """What happens to calls that need a yes; may be set at any time, and holds from the next call on.

        Raises:
            UsageError: on setting it to anything but ask, edits, all, none.
        """
        return self._policy.mode

    @approve.setter
    def approve(self, mode: Approve) -> None:
        one_of("approve", mode, get_args(Approve))
        self._policy.mode = mode

    def answer(self, id: str, answer: Literal["once", "session", "always", "no"], note: str = "") -> None:
        """Answer an ``approval`` event, by its ``id``; from any task or thread. ``note``: for the model, with a no.

        Raises:
            UsageError: this question is not open (any more), or does not offer this answer. Nothing has changed.
        """
        self._companions.approvals.answer(id, answer, note)

    def stream(self, prompt: str, images: Images = (), *, headless: bool = False) -> AsyncGenerator[Event, None]:
        """One turn, told as events; the last is ``done``. Paths of images are read and checked first.

        An ``approval`` event waits for ``answer``. ``headless``: nobody answers, so that what would be asked is denied.

        Leaving early ends the turn and leaves a valid session; ``contextlib.aclosing`` makes that happen at once.

        Raises:
            UsageError: the prompt is empty and there is no image, a turn is already running, or an image cannot be
                used. Nothing was sent or stored.
        """
        check_prompt(prompt, images)
        myself: list[weakref.ref[Any]] = []
        turn = telling(lambda: self._turn(prompt, images, myself, headless=headless))
        myself.append(weakref.ref(turn))
        return turn

    async def _turn(self, prompt: str, images: Images, myself: list[weakref.ref[Any]], *, headless: bool) -> None:
        loaded = load_images(images)
        abort = await self._turnstile.enter(myself[0])
        self._policy.headless = headless
        try:
            environment.learn()
            if environment.unread(self.cwd):
                await in_thread(environment.learn_folder, self.cwd)
            said = hide(prompt)
            setup = await self._setup(abort)
            setup.told = [] if said == prompt else [_HIDDEN]
            setup.told += [*self._told, *self._strange_rules(), *await self._companions.healed()]
            self._told = []
            if setup.context.undo is not None:
                setup.context.undo.begin()
            await Runner(Turn(setup), self._compactor).run(user_message(said, loaded))
        finally:
            self._meter.save()
            self._turnstile.leave()

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
        if not isinstance(keep, str):
            raise UsageError(f"keep must be a string, not {keep!r}", hint="say what the summary is to keep")
        myself: list[weakref.ref[Any]] = []
        work = telling(lambda: self._compact(keep, myself))
        myself.append(weakref.ref(work))
        return work

    async def _compact(self, keep: str, myself: list[weakref.ref[Any]]) -> None:
        abort = await self._turnstile.enter(myself[0])
        try:
            setup = await self._setup(abort)
            setup.max_cost = None  # the limit of a turn; this was asked for
            turn = Turn(setup)
            await succeeding(turn, partial(self._compactor.run, turn, keep=hide(keep), forced=True))
        except Aborted:
            return
        finally:
            self._turnstile.leave()
            self._meter.save()

    async def uncompact(self) -> int:
        """Take the newest compaction back; returns how many messages stand in the history again.

        Raises:
            UsageError: there is none to take back, or a turn is running.
            StorageError: nothing has changed.
        """
        self._turnstile.check_free()
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
        self._turnstile.check_free()
        from orkas.harness.undo.restore import undo

        return await in_thread(undo, self.session.id)

    async def warm(self) -> None:
        """Let a model that has to load first do so, and read the prompt, ahead of the first question."""
        provider: object = self._models.first.provider if self._models.first else None
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
        self._turnstile.stop()

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
        return jobs.listed() if (jobs := self._companions.jobs) is not None else []

    async def stop_job(self, name: str) -> Job:
        """End a command in the background; returns when it has ended.

        Raises:
            UsageError: there is none of this name.
        """
        found = next((job for job in self.jobs if job.name == name), None)
        if found is None:
            names = ", ".join(job.name for job in self.jobs)
            raise UsageError(
                f"there is no background job {name!r}", hint=f"there are {names}" if names else "nothing runs there"
            )
        found.told.add("user")
        found.stop()
        await in_thread(found.wait, _ENDING_JOB_S)
        return found

    async def aclose(self) -> None:
        """Give back network connections, and end the commands in the background. The agent and its session can still be
        used."""
        if (jobs := self._companions.jobs) is not None:
            await in_thread(jobs.close)
        await self._models.aclose()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _strange_rules(self) -> list[str]:
        """Rules of the user's that name no tool, told once."""
        if self._told_rules:
            return []
        self._told_rules = True
        with suppress(UsageError):  # each call is denied, and says why
            if rules := self._policy.rules:
                return rules.strange([*self._tools, *(tool.name for tool in builtins())])
        return []

    async def _setup(self, abort: Abort) -> Setup:
        await self._models.choose()
        return self._wired(abort)

    def _wired(self, abort: Abort) -> Setup:
        if self._recorder.session is not self.session:
            self._recorder = Recorder(self.session)
        succession = Succession(self._models.all, lambda candidate: self._seat(setup, candidate))
        setup = Setup(
            provider=succession.current.provider,
            model=succession.current.model,
            session=self.session,
            tools=self._tools,
            offered=(),
            policy=self._policy,
            context=ToolContext(
                self.cwd, abort, files=self.session.files, sandbox=self._sandbox, jobs=self._companions.background(),
                undo=self._companions.watching(self.session),
            ),
            meter=self._meter,
            inbox=self.session.inbox,
            recorder=self._recorder,
            succession=succession,
            approvals=None if self._policy.headless else self._companions.approvals,
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
        if candidate is not self._models.first:
            self._meter.window = None if info.context_window else self._window
            if self._max_output and info.max_output:
                setup.max_output = min(self._max_output, info.max_output)
        offered = [ToolDef(t.name, t.description, t.parameters) for t in self._tools.values()]
        setup.offered = select_tools(offered) if info.small else offered
        extra = hide("\n\n".join(filter(None, (self._system, self._output.prompt if self._output else ""))))
        setup.system = system_prompt(self.cwd, self._tools, extra=extra, small=info.small)


