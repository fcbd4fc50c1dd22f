"""How full the window is: an estimate, held against what the vendor last reported."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from orkas.harness.context.calibration import HIGHEST, LOWEST, Calibration, Learnt
from orkas.harness.context.sizes import message_size, tools_size
from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, Message, Thinking, Usage, UserMessage
from orkas.infra.tokens import estimate
from orkas.providers.base import CompletionParams, ModelInfo, ToolDef

__all__ = ["COMPACT_AT", "DEFAULT_OUTPUT", "DEFAULT_WINDOW", "Load", "Meter"]

COMPACT_AT = 0.6
"""Share of the usable window at which older messages are replaced by a summary."""
DEFAULT_WINDOW = 128_000
"""Assumed where nobody told the window and no refusal has taught it."""
DEFAULT_OUTPUT = 8_192
"""Kept free for the answer where nobody told how long it may get."""
_SMALLEST_WINDOW = 1_000
"""A window below is none: no model is that small, but limits a minute are."""
_MEASURED = 200
"""Estimate from which on a report says something about the model rather than about what stands around the text."""


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


class _Heard(msgspec.Struct, frozen=True):
    """The newest reply of this process, which describes the history whatever its time says."""

    usage: Usage
    model: str
    last: Message | None
    """What the request ended with."""
    added: int
    """What that weighs, if it was for this one request alone."""


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
        self.window = window
        """What was given explicitly for the model in use."""
        self._learnt = learnt or Calibration(keep=False)
        self._guessed: dict[str, int] = {}
        self._now = Learnt()
        self._model = ""
        self._known: dict[int, tuple[Message, int]] = {}
        self._sums = [0]
        self._last: Message | None = None
        self._report: _Report | None = None
        self._boundary: str | float | None = None  # when the newest summary was written; None: there is none
        self._stale = False  # only what is heard from now on describes the history
        self._heard: _Heard | None = None
        self._system = ""
        self._tools: Sequence[ToolDef] = ()
        self._fixed = 0
        self._sent: tuple[Load, bool] | None = None

    def load(self, params: CompletionParams, info: ModelInfo) -> Load:
        """What this request weighs.

        The window is what was given explicitly, at most what a refusal has taught; else what a refusal has taught;
        else what the catalogue knows; else ``DEFAULT_WINDOW``. What is kept for the answer is ``params.max_output``
        as it is; else what the model may write at most, but no more than half of what the fixed part leaves, so that
        a model whose answers could fill the window still has a history.
        """
        self._use(params.model)
        fixed_raw = self._fixed_of(params)
        self._grow(params.messages)
        ratio = self._now.ratio
        fixed = math.ceil(fixed_raw * ratio)
        window, told = self._window_of(info)
        reserve = params.max_output
        if reserve is None:
            reserve = max(0, min(info.max_output or DEFAULT_OUTPUT, (window - fixed) // 2))
        load = Load(self._messages(ratio), fixed, window, reserve)
        self._sent = load, told
        return load

    def size(self, messages: Sequence[Message]) -> int:
        """Tokens of these messages alone, for the model in use."""
        return math.ceil(sum(map(self._size, messages)) * self._now.ratio)

    def text(self, text: str) -> int:
        """Tokens of a text, for the model in use."""
        return math.ceil(estimate(text) * self._now.ratio)

    def heard(self, params: CompletionParams, reply: AssistantMessage) -> None:
        """A reply to this request came: what the vendor counted anchors and calibrates the next estimates.

        A count that is less than a quarter or more than four times of what we believe to have sent is no count of
        this request, and is ignored.
        """
        usage = reply.usage
        counted = _prompt(usage)
        if usage is None or counted is None:
            return
        self.vendor = self.vendor or reply.model.partition("/")[0]
        self._use(params.model)
        if reply.model and reply.model != self._model:
            return  # somebody else answered
        raw, added = self._weighed(params.messages)
        last = params.messages[-1] if params.messages else None
        self._heard = _Heard(usage, self._model, last, added)
        raw += self._fixed_of(params)
        if not _plausible(counted, raw):
            return
        if raw >= _MEASURED:
            self._now.measured(counted / raw)
        if self._now.window is not None and counted > self._now.window:
            self._now.window = None
        if counted > self._guessed.get(self._model, counted):
            del self._guessed[self._model]

    def refused(self, model: str, error: ProviderError) -> None:
        """The vendor called a request too long: learn the window from its words.

        Without a number the request itself is the measure: the window is below what we believe to have sent. That is
        kept for later sessions only where nobody has told the model's window.
        """
        sent, told = self._sent or (None, True)
        total = sent.messages + sent.fixed if sent else None
        window = error.window
        if window is not None and window >= _SMALLEST_WINDOW and (total is None or window <= HIGHEST * total):
            self._learnt.of(model).window = window
        elif total is not None and total >= _SMALLEST_WINDOW:
            if told:
                self._guessed[model] = min(total, self._guessed.get(model, total))
            else:
                self._learnt.of(model).window = total

    def forget(self) -> None:
        """The history was rewritten: what was reported before no longer describes it."""
        self._restart()
        self._stale = True
        self._heard = None

    def save(self) -> None:
        """Keep what was learnt for later sessions, if it is news. Never fails."""
        self._learnt.save()

    def _weighed(self, sent: Sequence[Message]) -> tuple[int, int]:
        """Our estimate of the messages of a request, and of the words among them that stand behind the history."""
        n = len(self._sums) - 1
        if len(sent) == n and (n == 0 or sent[-1] is self._last):
            return self._sums[n], 0
        if len(sent) == n + 1 and (n == 0 or sent[n - 1] is self._last):
            added = message_size(sent[n])
            return self._sums[n] + added, added
        return sum(map(self._size, sent)), 0

    def _use(self, model: str) -> None:
        full = f"{self.vendor}/{model}" if self.vendor else model
        if full != self._model:
            self._model = full
            self._now = self._learnt.of(full)
            self._restart()

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

    def _window_of(self, info: ModelInfo) -> tuple[int, bool]:
        """The window, and whether anybody told it."""
        learnt = self._now.window
        told = self.window or info.context_window
        window = min(self.window, learnt) if self.window and learnt else self.window or learnt or told
        window = window or DEFAULT_WINDOW
        return min(window, self._guessed.get(self._model, window)), told is not None

    def _messages(self, ratio: float) -> int:
        whole = self._sums[-1] * ratio
        report = self._report
        if report is None:
            return math.ceil(whole)
        after = self._sums[-1] - self._sums[report.upto]
        counted = report.total - (report.fixed + report.owned) * ratio
        covered = self._sums[report.upto] * ratio
        return math.ceil(max(counted, covered * LOWEST) + after * ratio)

    def _grow(self, messages: Sequence[Message]) -> None:
        """Look at what is new; at everything when this is not the history of before, grown."""
        sums = self._sums
        n = len(sums) - 1
        if n > len(messages) or (n and messages[n - 1] is not self._last):
            self._restart()
            sums, n = self._sums, 0
        if n == len(messages):
            return
        for i in range(n, len(messages)):
            m = messages[i]
            sums.append(sums[i] + self._size(m))
            if type(m) is AssistantMessage:
                if m.usage is not None:
                    self._consider(m, messages[i - 1] if i else None, i)
            elif type(m) is UserMessage and m.origin == "summary":
                self._summary(m.ts)
        self._last = messages[-1]
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
        counted = _prompt(usage)
        if usage is None or counted is None:
            return
        added = 0
        heard = self._heard
        if heard is not None and heard.usage is usage and heard.model == self._model:
            added = 0 if heard.last is before else heard.added
        elif not self._describes(reply):
            return
        if _plausible(counted, self._sums[i] + self._fixed + added):
            total = counted + self._reply(reply, usage, self._sums[i + 1] - self._sums[i])
            self._report = _Report(i + 1, total, self._fixed, added, reply.ts)

    def _describes(self, reply: AssistantMessage) -> bool:
        """Whether the report of a reply that was stored earlier still says something of this history."""
        if self._stale or not self._is_mine(reply.model):
            return False
        return self._boundary is None or _later(reply.ts, self._boundary)

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
        return counted if _plausible(counted, raw) else math.ceil(raw * self._now.ratio)


def _prompt(usage: Usage | None) -> int | None:
    """All tokens of a request, cached or not; None where the vendor did not say."""
    if usage is None or usage.input is None:
        return None
    return usage.input + (usage.cache_read or 0) + (usage.cache_write or 0)


def _plausible(counted: int, estimated: float) -> bool:
    return LOWEST * estimated <= counted <= HIGHEST * estimated


def _later(ts: str | float, than: str | float) -> bool:
    """Whether a time is known to lie behind another."""
    if isinstance(ts, str) and isinstance(than, str):
        return ts > than != ""
    if isinstance(ts, str) or isinstance(than, str):
        return False
    return ts > than
