"""How full the window is: an estimate, held against what the vendor last reported."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from orkas.harness.context.bound import Bound
from orkas.harness.context.calibration import LOWEST, Calibration, Learnt, plausible, prompt_of
from orkas.harness.context.sizes import message_size, tools_size
from orkas.harness.context.windows import DEFAULT_WINDOW, Windows
from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, Message, Thinking, Usage, UserMessage
from orkas.infra.tokens import estimate
from orkas.providers.base import CompletionParams, ModelInfo, ToolDef

__all__ = ["COMPACT_AT", "DEFAULT_OUTPUT", "DEFAULT_WINDOW", "Load", "Meter"]

COMPACT_AT = 0.6
"""Share of the usable window at which older messages are replaced by a summary."""
DEFAULT_OUTPUT = 8_192
"""Kept free for the answer where nobody told how long it may get."""
_MEASURED = 200
"""Estimate from which on a report says something about the model rather than about what stands around the text."""

_UNREAD = 100_000
"""Tokens, at most, of a history not weighed yet that is weighed at the end of a turn only to learn from it. Judged by
its length: 50,000 characters, a third of a millisecond. Of a longer one is learnt when its weight matters."""
_AT_ONCE = 32_000
"""Tokens, at the very most (see ``tokens.dearest``), that are weighed at the end of a turn only to learn from them:
16,000 ASCII characters; it takes a tenth of a millisecond."""


class Load(msgspec.Struct, frozen=True):
    """Sizes in tokens."""

    messages: int
    """The messages alone."""
    fixed: int
    """System prompt and tool schemas."""
    window: int
    max_output: int
    """Kept free for the answer."""

    @property
    def usable(self) -> int:
        """What is left for messages. Not above 0: the fixed part alone does not fit."""
        return self.window - self.max_output - self.fixed

    @property
    def full(self) -> float:
        """Share of the usable window that the messages take; infinite where nothing is usable."""
        return self.messages / self.usable if self.usable > 0 else math.inf

    def over(self, share: float) -> bool:
        """Whether the messages take more than this share of the usable window. True where nothing is usable."""
        return self.full > share

    def misfit(self) -> str:
        """Why nothing is usable, as one sentence with the way out; empty where something is."""
        if self.usable > 0:
            return ""
        return (
            f"the system prompt and the tools take about {self.fixed:,} tokens and {self.max_output:,} are kept for "
            f"the answer, but the model's window has {self.window:,}; use fewer tools, a shorter system prompt or "
            "max_output, or a model with a larger window"
        )


class _Report(msgspec.Struct, frozen=True):
    """What a vendor counted for the beginning of the history."""

    upto: int
    """Messages it covers, the reply included."""
    total: int
    fixed: float
    """Our estimate of the part that is no message, as it was then."""
    owned: int
    """Estimated tokens of words that stood in that one request alone."""
    ts: str | float


class _Heard(msgspec.Struct, eq=False, gc=False):
    """A reply of this process, which describes the history whatever its time says."""

    usage: Usage
    counted: int
    model: str
    sent: Sequence[Message]
    """The messages of the request, and what grew behind them since."""
    upto: int
    """How many of them are history."""
    newest: Message | None
    """The last of these."""
    extra: Message | None
    """Words that stood behind the history in that one request alone."""
    fixed: int
    """Our estimate of the part that is no message."""
    most: int
    """Our estimate of the history, at most."""
    added: int = 0
    """What ``extra`` weighs."""


class _Room(msgspec.Struct, frozen=True):
    """How much may come without being weighed, as long as nothing else changes."""

    params: CompletionParams
    info: ModelInfo
    ratio: float
    estimate: float

    def holds(self, params: CompletionParams, info: ModelInfo, ratio: float) -> bool:
        """Whether nothing but messages has come since."""
        was = self.params
        return (
            params.model == was.model
            and params.system is was.system
            and params.tools is was.tools
            and params.max_output == was.max_output
            and ratio == self.ratio
            and (info is self.info or info == self.info)
        )


class Meter:
    """Estimates for one session and whatever model is in use.

    What the vendor counted for the last request is the base, our estimate only adds what came after. Where there is
    no such count (a new session, after a compaction, another model) the estimate is corrected by what was learnt of
    the model. ``learnt``: where that is kept.
    """

    def __init__(
        self, *, window: int | None = None, compact_at: float = COMPACT_AT, learnt: Calibration | None = None
    ) -> None:
        self.compact_at = compact_at
        self.vendor = ""
        """The vendor in use. Until it is told, the one that replied last."""
        self._learnt = learnt or Calibration(keep=False)
        self._windows = Windows(window, self._learnt)
        self._now = Learnt()
        self._model = ""
        self._known: dict[int, tuple[Message, int]] = {}
        self._sums = [0]
        self._last: Message | None = None
        self._report: _Report | None = None
        self._boundary: str | float | None = None  # when the newest summary was written; None: there is none
        self._stale = False  # only what is heard from now on describes the history
        self._heard: dict[int, _Heard] = {}  # by identity of the usage; those that wait, or the newest one
        self._waiting: list[_Heard] = []  # they calibrate once their requests are weighed
        self._bound = Bound()
        self._asked: tuple[CompletionParams, ModelInfo] | None = None  # of the newest request, unless it was weighed
        self._room: _Room | None = None
        self._length = 0  # of the history that was looked at last
        self._system = ""
        self._tools: Sequence[ToolDef] = ()
        self._fixed = 0
        self._sent: tuple[Load, int] | None = None

    @property
    def window(self) -> int | None:
        """The window that the user set for the model in use; None: it was not set."""
        return self._windows.given

    @window.setter
    def window(self, given: int | None) -> None:
        self._windows.given = given
        self._room = None

    def load(self, params: CompletionParams, info: ModelInfo) -> Load:
        """What this request weighs.

        The window: see ``Windows.of``. What is kept for the answer is ``params.max_output``
        as it is; else what the model may write at most, but no more than half of what the fixed part leaves, so that
        a model whose answers could fill the window still has a history.
        """
        self._use(params.model)
        self._settle()
        self._fixed_of(params)
        self._grow(params.messages, len(params.messages))
        self._length = len(params.messages)
        base, after = self._parts(self._now.ratio)
        self._bound.start(self._length, self._last, base, after, self._sums[-1], self._boundary)
        load, known = self._framed(math.ceil(base + after * self._now.ratio), params, info)
        self._sent, self._asked = (load, known), None
        return load

    def at_most(self, params: CompletionParams, info: ModelInfo) -> Load:
        """Never less full than what ``load`` says with what was learnt so far, and cheaper: what is new since the last
        ``load`` is not weighed, and a history that is new here is judged by the lengths of its texts."""
        self._use(params.model)
        fixed, ratio = self._fixed_of(params), self._now.ratio
        most = self._bound.follow(params.messages, ratio, fixed, self._trusts)
        if most is None:
            most = self._bound.begin(params.messages, ratio, fixed, self._trusts, closely=False)
        return self._bounded(most, params, info)

    def loads(self, params: CompletionParams, info: ModelInfo) -> Iterator[Load]:
        """What this request weighs at most, ever closer and ever dearer to tell; the last one is what it weighs. For
        who only wants to know whether it is too much: once it is not, the rest need not be looked at."""
        yield self.at_most(params, info)
        if self._bound.coarse and len(self._sums) == 1:  # what is weighed already needs no closer look
            fixed = self._fixed_of(params)
            most = self._bound.begin(params.messages, self._now.ratio, fixed, self._trusts, closely=True)
            yield self._bounded(most, params, info)
        yield self.load(params, info)

    def _bounded(self, most: int, params: CompletionParams, info: ModelInfo) -> Load:
        self._length = len(params.messages)
        self._asked = params, info
        return self._framed(most, params, info)[0]

    def leave(self, params: CompletionParams, info: ModelInfo, room: float) -> None:
        """Nobody needs to know how full the window is, until so many tokens have come behind these messages, which were
        weighed just now, or something else has changed."""
        ratio = self._now.ratio
        self._room = _Room(params, info, ratio, room / ratio) if room > 0 else None

    def left(self, params: CompletionParams, info: ModelInfo) -> bool:
        """Whether that still holds. It looks at the length of what is new, and at nothing else."""
        room = self._room
        if room is None or not room.holds(params, info, self._now.ratio):
            return False
        if not self._bound.passes(params.messages, room.estimate):
            return False
        self._length = len(params.messages)
        self._asked = params, info
        return True

    def _framed(self, messages: int, params: CompletionParams, info: ModelInfo) -> tuple[Load, int]:
        """What messages of that size make of the window, and the window without what refusals taught."""
        fixed = math.ceil(self._fixed * self._now.ratio)
        window, known = self._windows.of(self._model, info)
        reserve = params.max_output
        if reserve is None:
            reserve = max(0, min(info.max_output or DEFAULT_OUTPUT, (window - fixed) // 2))
        return Load(messages, fixed, window, reserve), known

    def size(self, messages: Sequence[Message]) -> int:
        """Tokens of these messages alone, for the model in use."""
        self._settle()
        return math.ceil(sum(map(self._size, messages)) * self._now.ratio)

    def text(self, text: str) -> int:
        """Tokens of a text, for the model in use."""
        self._settle()
        return math.ceil(estimate(text) * self._now.ratio)

    def heard(self, params: CompletionParams, reply: AssistantMessage) -> None:
        """A reply to this request came: what the vendor counted anchors and calibrates the next estimates.

        A count that is less than a quarter or more than four times of what we believe to have sent is no count of
        this request, and is ignored.
        """
        usage = reply.usage
        counted = prompt_of(usage)
        if usage is None or counted is None:
            return
        self.vendor = self.vendor or reply.model.partition("/")[0]
        self._use(params.model)
        if reply.model and reply.model != self._model:
            return  # somebody else answered
        sent, upto = params.messages, len(params.messages)
        extra = sent[-1] if upto == self._length + 1 else None
        if extra is not None:
            upto -= 1
        heard = _Heard(
            usage, counted, self._model, sent, upto, sent[upto - 1] if upto else None, extra, self._fixed_of(params),
            max(self._bound.most + self._bound.unread, self._waiting[-1].most if self._waiting else 0),
        )  # fmt: skip
        self._heard[id(usage)] = heard
        self._waiting.append(heard)

    def _settle(self, most: int | None = None) -> None:
        """Learn from the reports that wait: this is when their requests are weighed. ``most``: only from those of a
        smaller history."""
        waiting = self._waiting
        while waiting and (most is None or waiting[0].most <= most):
            self._measure(waiting.pop(0))
        if len(self._heard) > 1 and not waiting:
            self._heard = dict([self._heard.popitem()])

    def _measure(self, heard: _Heard) -> None:
        raw = self._weighed(heard)
        if raw is None or not plausible(heard.counted, raw):
            return
        if raw >= _MEASURED:
            self._now.measured(heard.counted / raw)
        self._windows.took(self._model, heard.counted)
        self._room = None

    def _weighed(self, heard: _Heard) -> int | None:
        """Our estimate of a request; None where its history has changed meanwhile."""
        sent, upto, n = heard.sent, heard.upto, len(self._sums) - 1
        if upto and (upto > len(sent) or sent[upto - 1] is not heard.newest):
            return None
        heard.added = message_size(heard.extra) if heard.extra is not None else 0
        around = heard.added + heard.fixed
        if n <= upto and (n == 0 or sent[n - 1] is self._last):
            self._grow(sent, upto)
            return self._sums[upto] + around
        return sum(map(self._size, sent[:upto])) + around

    def refused(self, model: str, error: ProviderError) -> bool:
        """The vendor called a request too long: learn the window from it. Returns whether a shorter history may cure it
        (see ``Windows.refused``)."""
        if self._asked is not None:
            self.load(*self._asked)
        self._room = None
        sent = self._sent
        return self._windows.refused(
            model, error, (sent[0].messages + sent[0].fixed, sent[0].fixed, sent[1]) if sent else None
        )

    def test_window(self, info: ModelInfo) -> bool:
        """Whether a larger window than refusals taught may be tried; then it is believed until the next refusal."""
        self._room = None
        return self._windows.test(self._model, info)

    def forget(self) -> None:
        """The history was rewritten: what was reported before no longer describes it."""
        self._settle()
        self._restart()
        self._bound.forget()
        self._stale = True
        self._heard.clear()

    def save(self) -> None:
        """Keep what was learnt for later sessions, if it is news. Never fails.

        At the end of a turn; something is learnt from each that the vendor counted, but no long text is weighed for it.
        """
        if self._waiting and (first := self._waiting[0].most) <= self._sums[-1] + _UNREAD:
            self._settle(first + _AT_ONCE)
        self._learnt.save()

    def _use(self, model: str) -> None:
        full = f"{self.vendor}/{model}" if self.vendor else model
        if full != self._model:
            self._settle()
            self._model = full
            self._now = self._learnt.of(full)
            self._restart()
            self._bound.forget()

    def _restart(self) -> None:
        self._sums, self._last, self._report, self._boundary = [0], None, None, None

    def _size(self, message: Message) -> int:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, message_size(message)
        return known[1]

    def _fixed_of(self, params: CompletionParams) -> int:
        """System prompt and tools, weighed again only when they change."""
        if params.system is not self._system or params.tools is not self._tools:
            if params.system != self._system or list(params.tools) != list(self._tools):
                self._fixed = estimate(params.system) + tools_size(params.tools)
            self._system, self._tools = params.system, params.tools
        return self._fixed

    def _parts(self, ratio: float) -> tuple[float, int]:
        """Tokens of what the vendor counted, and our estimate of what follows it."""
        report = self._report
        if report is None:
            return 0.0, self._sums[-1]
        counted = report.total - (report.fixed + report.owned) * ratio
        covered = self._sums[report.upto] * ratio
        return max(counted, covered * LOWEST), self._sums[-1] - self._sums[report.upto]

    def _grow(self, messages: Sequence[Message], upto: int) -> None:
        """Look at what is new among the first ``upto``; at all where this is not the history of before, grown."""
        sums = self._sums
        n = len(sums) - 1
        if n > upto or (n and messages[n - 1] is not self._last):
            self._restart()
            sums, n = self._sums, 0
        if n == upto:
            return
        for i in range(n, upto):
            m = messages[i]
            sums.append(sums[i] + self._size(m))
            if type(m) is AssistantMessage:
                if m.usage is not None:
                    self._consider(m, messages[i - 1] if i else None, i)
            elif type(m) is UserMessage and m.origin == "summary":
                self._summary(m.ts)
        self._last = messages[upto - 1]
        if len(self._known) > 2 * len(messages) + 64:
            alive = set(map(id, messages))
            self._known = {k: v for k, v in self._known.items() if k in alive}

    def _summary(self, ts: str | float) -> None:
        self._boundary = ts
        if self._report is not None and not _later(self._report.ts, ts):
            self._report = None

    def _consider(self, reply: AssistantMessage, before: Message | None, i: int) -> None:
        """Take what the vendor counted for this reply as the base, if it describes this history and this model."""
        usage = reply.usage
        counted = prompt_of(usage)
        if usage is None or counted is None:
            return
        added = 0
        heard = self._heard.get(id(usage))
        if heard is not None and heard.model == self._model:
            added = 0 if heard.extra is before else heard.added
        elif not self._describes(reply, self._boundary):
            return
        if plausible(counted, self._sums[i] + self._fixed + added):
            total = counted + self._reply(reply, usage, self._sums[i + 1] - self._sums[i])
            self._report = _Report(i + 1, total, self._fixed, added, reply.ts)

    def _trusts(self, reply: AssistantMessage, boundary: str | float | None) -> bool | None:
        """See ``Trust``: what ``_consider`` would make of a reply behind a summary of that time."""
        heard = self._heard.get(id(reply.usage))
        if heard is not None and heard.model == self._model:
            return heard.extra is None
        return True if self._describes(reply, boundary) else None

    def _describes(self, reply: AssistantMessage, boundary: str | float | None) -> bool:
        """Whether the report of a reply that was stored earlier still says something of this history, whose newest
        summary was written at ``boundary``."""
        if self._stale or not self._is_mine(reply.model):
            return False
        return boundary is None or _later(reply.ts, boundary)

    def _is_mine(self, model: str) -> bool:
        return model == self._model or (not self.vendor and model.partition("/")[2] == self._model)

    def _reply(self, reply: AssistantMessage, usage: Usage, raw: int) -> int:
        """What the reply weighs in the next request: what was counted for it, without reasoning that is not kept."""
        if usage.output is None:
            return math.ceil(raw * self._now.ratio)
        counted = usage.output
        if usage.reasoning:
            kept = AssistantMessage([b for b in reply.content if type(b) is Thinking])
            counted += math.ceil(message_size(kept) * self._now.ratio) - usage.reasoning
        return counted if plausible(counted, raw) else math.ceil(raw * self._now.ratio)


def _later(ts: str | float, than: str | float) -> bool:
    """Whether a time is known to lie behind another."""
    if isinstance(ts, str) and isinstance(than, str):
        return ts > than != ""
    if isinstance(ts, str) or isinstance(than, str):
        return False
    return ts > than
