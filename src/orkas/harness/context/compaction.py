"""Before the window overflows, older messages make room: a summary stands for them, and the archive keeps them.

Promises: a compaction that told of itself has made the next request fit; nothing is replaced by a summary that is none;
the same messages are never summarised twice in vain; and whatever the model does, the run goes on, if need be with
notes that no model wrote.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from orkas.harness import pairing
from orkas.harness.context import facts, fold, plan, summary
from orkas.harness.context.budget import Load, Meter
from orkas.harness.context.facts import Fact
from orkas.harness.context.plan import Plan, Scales
from orkas.harness.context.policy import Budgets, least_saving, policy
from orkas.harness.taint import is_tainted
from orkas.harness.telling import tell
from orkas.harness.turn import Turn
from orkas.infra.errors import ProviderError, UsageError
from orkas.infra.events import Compaction, Event, Notice
from orkas.infra.messages import Message, UserMessage, encode
from orkas.infra.threads import in_thread

if TYPE_CHECKING:
    from orkas.harness.context.summariser import Summariser
    from orkas.harness.sessions.session import Session
    from orkas.providers.base import CompletionParams, LLMProvider

Budgeting: TypeAlias = Callable[[int, float], Budgets]

__all__ = ["Compactor"]

_PATIENCE = 3
"""Failures in a row after which no summary is asked for until the user speaks again."""
_LADDER = (1.0, 0.5, 0.25, 0.1, 0.0)
"""Shares of the budgets that are tried one after another when no model helps."""
_LEAST_ROOM = 200
"""Tokens for messages below which there is no conversation to be had: a summary alone needs most of them."""
_HALF = 0.5
"""Share of the user's last words below which it is told that the rest was not sent."""
_SURELY = 0.5
"""Share of a request that was refused as too long to which the next one is cut."""


class Compactor:
    """One for each session. Remembers what was tried in vain, so that nothing is tried twice.

    ``name``: the policy that says when and how much.
    """

    def __init__(self, name: str = "threshold") -> None:
        self._policy = policy(name)
        self._for: tuple[Session, LLMProvider, str] | None = None
        self._forget()

    def _know(self, turn: Turn) -> None:
        """What was learnt of another session or another model's window says nothing here."""
        setup = turn.setup
        known = self._for
        if known is None or known[0] is not setup.session or known[1] is not setup.provider or known[2] != setup.model:
            self._for = setup.session, setup.provider, setup.model
            self._forget()

    def _forget(self) -> None:
        self._failures = 0
        self._opened: str | None = None  # the user's last words when the breaker opened
        self._tried: set[str] = set()
        self._tested: str | None = None  # the user's last words for which a larger window was tried
        self._rest = 0  # what the messages must weigh before another attempt

    def due(self, turn: Turn, params: CompletionParams | None = None) -> bool:
        """Whether the next request must be preceded by a compaction. ``params``: that request, where it is known and
        is nothing but the history."""
        self._know(turn)
        setup, params = turn.setup, params or turn.params()
        info, meter = setup.provider.info(setup.model), setup.meter
        if meter.left(params, info):
            return False
        for load in meter.loads(params, info):
            if not self._asks(load, meter):
                meter.leave(params, info, load.usable * meter.compact_at - load.messages)
                return False
        return True

    def _asks(self, load: Load, meter: Meter) -> bool:
        """Whether so full a window asks for a compaction; a fuller one does, too."""
        if load.usable < _LEAST_ROOM or load.messages > load.usable:
            return True
        return load.over(meter.compact_at) and load.messages >= self._rest

    async def run(
        self, turn: Turn, *, keep: str = "", overflowed: bool = False, forced: bool = False
    ) -> None:
        """Make room. ``keep``: what the user wants the summary to keep. ``overflowed``: the vendor refused the request.
        ``forced``: the user asks for it, however little there is.

        Tells ``retry`` and ``compaction``, and a notice where a summary could not be had. ``compaction`` is not told
        when nothing was replaced. Where only a window that a refusal taught stands against sending the user's words as
        they are, nothing is replaced, and the vendor has to say so: once for these words.

        Raises:
            ProviderError: class ``context_overflow``: there is no way to make the next request fit. Says which part
                is too large. If ``forced`` also where there was no summary.
            UsageError: ``forced``, and there is nothing to summarise.
            Aborted: Stop was pressed; nothing was replaced.
            StorageError: the new history could not be saved; the old one stands.
        """
        self._know(turn)
        try:
            job = _Job(turn, self._policy.budgets, overflowed=overflowed, forced=forced)
        except ProviderError:
            if overflowed or not self._tests(turn):
                raise
            if not forced:
                return
            job = _Job(turn, self._policy.budgets, overflowed=False, forced=True)
        job.split()
        stuck = (job.plan.pointless and job.must) or job.quoted()
        if stuck and not overflowed and not forced and self._tests(turn):
            return
        if job.plan.pointless:
            self._nothing(job)
            return
        prose = ""
        if job.plan.older and self._may_ask(job, keep):
            summariser = job.summariser(keep)
            await summariser.run(job.load, whole=not overflowed)
            prose, reason = summariser.prose, summariser.reason
            if summariser.refused:
                prose = job.tightened(summariser.refused, prose)
            if prose and not await job.summarised(prose):
                prose, reason = "", "the summary does not make enough room"
                summariser.way_out = "go on first, until there is more to summarise"
            self._told(job, keep, prose, final=summariser.final)
            if not prose:
                if forced:
                    raise ProviderError(
                        f"the conversation could not be summarised: {reason}",
                        class_=summariser.class_,
                        hint=f"nothing was changed; {summariser.way_out}",
                    )
                await tell(Notice(turn.next_seq(), "warning", f"The conversation could not be summarised: {reason}."))
        if prose or await self._folded(job):
            await tell(await self._replace(job, "summary" if prose else "fold"))
            if quoted := job.quoted():
                await tell(Notice(turn.next_seq(), "warning", quoted))
        elif job.must and (overflowed or forced or not self._tests(turn)):
            raise _too_large(job)
        elif not job.must:
            self._rest = job.before + least_saving(job.budgets.trigger)

    def _tests(self, turn: Turn) -> bool:
        """Whether the next request goes out as it is, to find out how large the window is today."""
        setup = turn.setup
        spoken = _spoken(setup.session.messages)
        if self._tested == spoken or not setup.meter.test_window(setup.provider.info(setup.model)):
            return False
        self._tested = spoken
        return True

    def _nothing(self, job: _Job) -> None:
        """There is nothing that could be replaced."""
        if job.forced:
            raise UsageError("there is nothing to summarise yet", hint="go on with the conversation first")
        if job.must:
            raise _too_large(job)
        self._rest = job.before + least_saving(job.budgets.trigger)

    def _may_ask(self, job: _Job, keep: str) -> bool:
        if job.forced:
            return True
        if self._opened is not None and self._opened == job.spoken:
            return False
        return job.fingerprint(keep) not in self._tried

    def _told(self, job: _Job, keep: str, prose: str, *, final: bool) -> None:
        """Remember how asking went."""
        if prose:
            self._failures, self._opened = 0, None
            self._tried.clear()
            return
        self._tried.add(job.fingerprint(keep))
        self._failures += 1
        if final or self._failures >= _PATIENCE or self._opened is not None:
            self._opened = job.spoken

    async def _folded(self, job: _Job) -> bool:
        """Whether the history could be folded without a model; only where it has to be."""
        if job.forced or not (job.must or self._opened is not None or not job.plan.older):
            return False
        with job.turn.setup.context.abort.guard():
            return await in_thread(job.fold)

    async def _replace(self, job: _Job, method: str) -> Event:
        setup = job.turn.setup
        await setup.session.compact(job.history, job.history[0].id)
        setup.meter.forget()
        setup.recorder.compacted()
        load = _load(job.turn)
        self._rest = load.messages + least_saving(job.budgets.trigger) if load.messages > job.budgets.trigger else 0
        return Compaction(job.turn.next_seq(), job.before, job.after, "summary" if method == "summary" else "fold")


class _Job:
    """One compaction: what is weighed, split and put together."""

    def __init__(self, turn: Turn, budgets: Budgeting, *, overflowed: bool, forced: bool) -> None:
        setup = turn.setup
        self.turn = turn
        self.forced = forced
        self.load = load = _load(turn)
        if load.usable < _LEAST_ROOM:
            raise ProviderError(load.misfit() or _cramped(load), class_="context_overflow")
        self.messages = pairing.repair(setup.session.messages).messages
        self.must = overflowed or load.messages > load.usable
        self.budgets = budgets(load.usable, setup.meter.compact_at)
        estimate = setup.meter.size(self.messages)
        self._scale = min(4.0, max(0.25, load.messages / estimate)) if estimate else 1.0
        self.before = self._weigh(self.messages)
        self.limit = int(load.usable * 0.9)
        if overflowed:
            self.limit = min(self.budgets.trigger, int(self.before * _SURELY))
            self.budgets = self.budgets.harder(self.limit)
        self.scales = Scales(self._weigh, self._text, self._keep)
        self.earlier, self.known = summary.read(self.messages)
        self.foreign = is_tainted(self.messages)
        self.history: list[Message] = []
        self.after = 0
        self.plan: Plan

    @property
    def spoken(self) -> str:
        return _spoken(self.messages)

    def quoted(self) -> str:
        """That less than half of the user's last words is sent, as one sentence; empty where it is not so."""
        last = _last_spoken(self.messages)
        kept = next((m for m in self.plan.staying if last is not None and pairing.speaks(m) and m.id == last.id), last)
        if last is None or kept is None or kept is last:
            return ""
        whole, sent = self._weigh([last]), self._weigh([kept])
        if sent >= whole * _HALF:
            return ""
        return (
            f"Only about {sent:,} of the {whole:,} tokens of your message are sent, its beginning and its end: the "
            f"model's window has {self.load.window:,}. Take a model with a larger window, or put long material into a "
            "file and name the file."
        )

    def split(self) -> None:
        budgets = self.budgets
        if self.forced and self.before <= budgets.trigger:
            budgets = budgets.harder(self.before // 2)
            budgets = msgspec.structs.replace(budgets, request=self.budgets.request, summary=self.budgets.summary)
        self.plan = plan.make(self.messages, budgets, self.limit, self.scales)

    def tightened(self, refused: int, prose: str) -> str:
        """A request of ``refused`` tokens was too long: nothing larger is tried. Returns the prose with notes on what
        now has to go, too."""
        self.limit = min(self.limit, int(refused * _SURELY))
        self.budgets = self.budgets.harder(self.limit)
        covered = {id(m) for m in self.plan.older}
        self.plan = plan.make(self.messages, self.budgets, self.limit, self.scales)
        more = [m for m in self.plan.older if id(m) not in covered]
        if not prose or not more:
            return prose
        room = max(0, self.budgets.summary - self._text(prose))
        return f"{prose}\n\n{fold.fold('', more, tokens=room, size=self._text)}"

    def fingerprint(self, keep: str) -> str:
        """The same for the same messages to be replaced, by the same model with the same wishes."""
        older = self.plan.older
        ends = encode([self.turn.setup.full_model, keep, len(older), older[:1], older[-1:]]) if older else b""
        return hashlib.sha256(ends + encode([m.id for m in older])).hexdigest()

    def summariser(self, keep: str) -> Summariser:
        from orkas.harness.context.summariser import Summariser

        return Summariser(self.turn, self.plan.older, tokens=self.budgets.summary, keep=keep)

    async def summarised(self, prose: str) -> bool:
        """Put the new history together; whether it is worth it and fits."""
        with self.turn.setup.context.abort.guard():
            ledger = await in_thread(self._ledger, self.plan, self.budgets)
        for share in (1.0, 0.5, 0.0):
            self._compose(prose, ledger[: math.ceil(len(ledger) * share)], self.plan)
            if self._pays() and self.after <= self._goal(self.plan):
                return True
        return False

    def fold(self) -> bool:
        """The same without a model: as much as fits, and less and less until it does."""
        for share in _LADDER:
            budgets = self.budgets.harder(int(self.budgets.trigger * share))
            split = plan.make(self.messages, budgets, self.limit, self.scales)
            if split.pointless:
                continue
            self._compose(self._notes(split, budgets), self._ledger(split, budgets), split)
            fits = self.after <= (self._goal(split) if share else self.limit)
            if fits and self.after < self.before and (self.must or self._pays()):
                self.plan = split
                return True
        return False

    def _notes(self, split: Plan, budgets: Budgets) -> str:
        if not split.older:
            return self.earlier or "Nothing is left out here but parts of long messages, which say so themselves."
        return fold.fold(self.earlier, split.older, tokens=budgets.summary, size=self._text)

    def _ledger(self, split: Plan, budgets: Budgets) -> list[Fact]:
        room = budgets.ledger
        if self.before <= self.budgets.trigger:
            room = min(room, self._weigh(split.older) // 4)
        return facts.collect(self.known, split.older, tokens=room, size=self._text)

    def _compose(self, prose: str, ledger: Sequence[Fact], split: Plan) -> None:
        first: UserMessage = summary.framed(prose, ledger, foreign=self.foreign)
        self.history = [first, *split.staying]
        self.after = self._weigh(self.history)

    def _pays(self) -> bool:
        return self.before - self.after >= least_saving(self.before)

    def _goal(self, split: Plan) -> int:
        """What the new history may weigh: the trigger, unless the user's own words alone leave no room for it."""
        words = self._weigh([m for m in split.staying if pairing.speaks(m)])
        return self.limit if words > self.budgets.request else self.budgets.trigger

    def _weigh(self, messages: Sequence[Message]) -> int:
        return math.ceil(self.turn.setup.meter.size(messages) * self._scale)

    def _text(self, text: str) -> int:
        return math.ceil(self.turn.setup.meter.text(text) * self._scale)

    def _keep(self, text: str, name: str) -> str | None:
        return self.turn.setup.session.keep(text, name=name)


def _last_spoken(messages: Sequence[Message]) -> Message | None:
    return next((m for m in reversed(messages) if pairing.speaks(m)), None)


def _spoken(messages: Sequence[Message]) -> str:
    """What tells one turn of the user from the next."""
    last = _last_spoken(messages)
    return "" if last is None else last.id or hashlib.sha256(encode(last)).hexdigest()


def _load(turn: Turn) -> Load:
    setup = turn.setup
    return setup.meter.load(turn.params(), setup.provider.info(setup.model))


def _cramped(load: Load) -> str:
    return (
        f"the system prompt and the tools take about {load.fixed:,} tokens of the model's window of {load.window:,} "
        f"and leave {load.usable:,} for the conversation; use fewer tools, a shorter system prompt, or a model with a "
        "larger window"
    )


def _too_large(job: _Job) -> ProviderError:
    load = job.load
    part = plan.too_large(job.messages, job.scales) if job.messages else "the request"
    return ProviderError(
        f"the conversation does not fit the model's window of {load.window:,} tokens: {part}",
        class_="context_overflow",
        hint="put long material into a file and name the file, or take a model with a larger window",
    )
