"""Watches a turn for loops: the model is nudged first, then stopped.

What counts is whether a round brought anything new: a call that was not made before in this turn, or another result
of it. As long as it does, nothing is a loop, however often a call comes back: tests after each edit, pages, a status
that moves. Counting begins when nothing is new. A wrong stop is worse than a late one: whatever waits for something is
given many times the patience, and where real time passes meanwhile it is not counted at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from orkas.harness.sameness import (
    canonical,
    is_empty,
    is_poll,
    is_unfinished,
    same_page,
    steady,
    without_echo,
    without_volatile,
)
from orkas.harness.tool import Tool
from orkas.infra.events import ToolCount
from orkas.infra.messages import Image, Message, ToolCall, ToolMessage, UserMessage, text_of
from orkas.providers.small import REPEATED

__all__ = ["STATUS_TOKENS", "Governor", "Limits", "Ruling", "converging", "plain_status", "status_request"]

MAX_UNUSABLE = 3
"""Rounds in a row in which no call could be run at all before the turn is ended."""


class Limits(msgspec.Struct, frozen=True):
    """How many times, without anything new in between, until the model is told and until the turn is ended."""

    nudge: int
    stop: int


EXACT = Limits(3, 5)
"""The same call with the same result; the counts are those of the original system."""
NEAR = Limits(6, 12)
"""The same call but for ids and times, or with a result that differs only in such."""
SAME_ERROR = Limits(4, 8)
"""Rounds in which other calls failed with the very same words."""
BARREN = Limits(8, 40)
"""Rounds of other calls from which nothing was learnt: nothing found, or failures in words that others had."""
WAITING = Limits(40, 400)
"""In the place of all these where something is waited for, yet no time passes; and where other calls succeed without
telling anything that was not known, as pages that are alike."""

WAITED_S = 10.0
"""Seconds that a round's tools took from which on real time has passed."""
_PATIENCE = 4
"""Rounds after one that waited which belong to it: look, wait, look at the log, look again."""
_LONG = 200
"""Characters of a result that does not come twice by chance."""

STATUS_TOKENS = 1_200
"""The longest status answer after a stop; the original system's bound."""
_QUOTED = 160


class Ruling(msgspec.Struct, frozen=True):
    """What follows from the rounds so far. ``nudge``: words for the next request only. ``stop``: the sentence for the
    user when the turn must end. ``ask``: the model can still be asked for a status."""

    nudge: str = ""
    stop: str = ""
    ask: bool = False


_GO_ON = Ruling()


class _Seen(msgspec.Struct, gc=False):
    """The results of one call so far. The first is only kept until a second one has to be compared."""

    last: int
    unread: str | None
    raw: set[int] | None = None
    steady: set[int] | None = None

    def news(self, result: int, text: str) -> str:
        """``new``; ``again``, what it said last time, but for clocks; or ``back``, what it said before that."""
        before, self.last = self.last, result
        if result == before:
            return "again"
        if self.raw is None:
            self.raw = {before}
        if result in self.raw:
            return "back"
        self.raw.add(result)
        if self.steady is None:
            assert self.unread is not None, "the first text waits for the second"
            self.steady, self.unread = {hash(steady(self.unread))}, None
        plain = hash(steady(text))
        known = plain in self.steady
        self.steady.add(plain)
        return "again" if known else "new"


class Governor:
    """One for each turn. ``small``: the model is a small one, which is told at once when it repeats a call.
    ``clock``: seconds, for the time that tools take."""

    def __init__(
        self, tools: Mapping[str, Tool], *, small: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tools = tools
        self.small = small
        self._clock = clock
        self._began: float | None = None  # when the first tool of the round was started
        self.answer_only = False
        """The next request asks for an answer without tools."""
        self._forget()

    def _forget(self) -> None:
        self._unusable = 0
        self._called: set[bytes] = set()
        self._seen: dict[int, _Seen] = {}
        self._results: set[int] = set()  # of errors, and of what is long or empty: whoever gave them
        self._last: dict[str, ToolCall] = {}  # the newest call of each tool
        self._looks: list[_Look] = []  # the last round
        self._exact: dict[int, int] = {}
        self._near: dict[int, int] = {}
        self._progress()

    def _progress(self) -> None:
        """Something new: counting begins again, with this round, once another one brings nothing."""
        self._fresh = True
        self._same_error = self._barren = 0
        self._patience = 0
        self._nudged = False

    def refusal(self, call: ToolCall) -> str:
        """Why this call is not run; empty when it is. Small models repeat a call whose result they have."""
        if self._began is None:
            self._began = self._clock()
        if not self.small:
            return ""
        key = canonical([call.name, call.arguments])
        self.answer_only = key in self._called
        self._called.add(key)
        return REPEATED if self.answer_only else ""

    def judge(self, calls: Sequence[ToolCall], results: Sequence[Message]) -> Ruling:
        """Take in one round: its calls and all that came of them, results in order and pictures of tools."""
        took = 0.0 if self._began is None else self._clock() - self._began
        self._began = None
        usable = [c for c in calls if c.arguments is not None and c.name.strip() in self._tools]
        self._unusable = 0 if usable or not calls else self._unusable + 1
        if self._unusable >= MAX_UNUSABLE:
            return Ruling(stop=f"Stopped: the model's tool calls could not be read {MAX_UNUSABLE} times in a row.")
        outcomes = [m for m in results if type(m) is ToolMessage]
        pictures = _pictures(results) if len(outcomes) < len(results) else {}
        looks = [_Look(c, m, pictures.get(m.tool_call_id, "")) for c, m in zip(calls, outcomes, strict=False)]
        return self._weigh(looks, took) if looks else Ruling()

    def _weigh(self, looks: list[_Look], took: float) -> Ruling:
        news = [self._news(look) for look in looks]
        before, self._looks = self._looks, looks
        if "new" in news:
            self._progress()
            return _GO_ON
        if self._fresh:
            self._exact = {look.exact: 1 for look in before}
            self._near = {look.near: 1 for look in before}
            self._fresh = False
        waits = any(is_poll(look.call.name, look.call.arguments) or look.unfinished for look in looks)
        slow = took >= WAITED_S and not all(look.is_error for look in looks)
        if waits and slow:
            self._patience = _PATIENCE
            return Ruling()
        same = [look.near for look in before] == [look.near for look in looks]
        moves = same and set(news) == {"back"}  # the same asked again, and it goes up and down
        waits = waits or slow or moves or "page" in news
        patient = waits or self._patience > 0
        self._patience = _PATIENCE if waits else max(0, self._patience - 1)
        return self._count(looks, news, patient=patient)

    def _news(self, look: _Look) -> str:
        """What the call brought: ``new``, ``again``, ``back``; or, of a call that is new but tells nothing: ``error``,
        ``barren``, ``page``."""
        last, self._last[look.call.name] = self._last.get(look.call.name), look.call
        seen = self._seen.get(look.near)
        if seen is not None:
            return seen.news(look.result, look.text)
        self._seen[look.near] = _Seen(look.result, look.text)
        if not (look.is_error or len(look.text) >= _LONG or is_empty(look.text)):
            return "new"
        if self._unheard(look.result):
            return "new" if not look.is_error or self._unheard(look.complaint) else "barren"
        if look.is_error:
            return "error"
        paged = last is not None and same_page(last.arguments or {}, look.call.arguments or {})
        return "page" if paged or not is_empty(look.text) else "barren"

    def _unheard(self, result: int) -> bool:
        """Nobody has said this before; it is known from now on."""
        known = result in self._results
        self._results.add(result)
        return not known

    def _count(self, looks: list[_Look], news: list[str], *, patient: bool) -> Ruling:
        """Nothing was new. Calls of one round count once, however many of them are the same."""
        exact = max(_counted(self._exact, {look.exact for look in looks}))
        near = max(_counted(self._near, {look.near for look in looks}))
        if not set(news) <= {"again", "back"}:
            self._barren += 1
        self._same_error = self._same_error + 1 if all(look.is_error for look in looks) and "error" in news else 0
        found = [
            (EXACT, exact, _AGAIN),
            (NEAR, near, _ALMOST),
            (SAME_ERROR, self._same_error + 1 if self._same_error else 0, _FAILING),
            (BARREN, self._barren, _NOTHING),
        ]
        about = looks[0] if len(looks) == 1 else max(looks, key=lambda look: self._near[look.near])
        rulings = [
            _rule(WAITING if patient else limits, count, words, about, again=self._nudged)
            for limits, count, words in found
        ]
        ruling = next((r for r in rulings if r.stop), None) or next((r for r in rulings if r.nudge), Ruling())
        self._nudged = self._nudged or bool(ruling.nudge)
        return ruling

    def spoken(self) -> None:
        """The user has spoken: what was repeated before does not count any more."""
        self._forget()
        self.answer_only = False


class _Look:
    """A call and its result, hashed once."""

    __slots__ = ("_key", "call", "is_error", "near", "result", "text")

    def __init__(self, call: ToolCall, result: ToolMessage, pictures: str) -> None:
        given = call.arguments if call.arguments is not None else call.arguments_raw
        kept = without_volatile(given)
        key = canonical(given)
        self.call = call
        self.text = text_of(result) + pictures
        self.is_error = result.is_error
        self.result = hash((result.is_error, self.text))
        self.near = hash((call.name, key if kept is given else canonical(kept)))
        self._key = key

    @property
    def exact(self) -> int:
        return hash((self.call.name, self._key, self.result))

    @property
    def complaint(self) -> int:
        """What an error says whatever the call was about."""
        return hash(("complaint", without_echo(self.text, self.call.arguments)))

    @property
    def unfinished(self) -> bool:
        return is_unfinished(self.text, is_error=self.is_error)


def _pictures(messages: Sequence[Message]) -> dict[str, str]:
    """What tells the pictures of each call from others."""
    found: dict[str, str] = {}
    for message in messages:
        if type(message) is UserMessage and message.tool_call_id:
            for block in message.content:
                if isinstance(block, Image):
                    mark = f" [picture {hash(block.file or block.data)}]"
                    found[message.tool_call_id] = found.get(message.tool_call_id, "") + mark
    return found


def _counted(counter: dict[int, int], keys: set[int]) -> list[int]:
    for key in keys:
        counter[key] = counter.get(key, 0) + 1
    return [counter[key] for key in keys]


class _Words(msgspec.Struct, frozen=True):
    """What repeats, for the model; and why the turn ends, for the user."""

    model: str
    user: str


_AGAIN = _Words(
    "You have made the same call {count} times with the same result, and nothing has changed in between: {call}. "
    "It will not bring anything else.",
    "the same call of `{name}` brought the same result {count} times",
)
_ALMOST = _Words(
    "You have made practically the same call {count} times, only ids or times differ, and nothing new came of it: "
    "{call}.",
    "practically the same call of `{name}` was made {count} times and brought nothing new",
)
_FAILING = _Words(
    "Your tool calls have failed {count} times in a row with the same error: “{result}”. Other arguments do not help.",
    "tool calls failed {count} times in a row with the same error",
)
_NOTHING = _Words(
    "In {count} rounds of tool calls you have learnt nothing new; the last was {call}.",
    "{count} rounds of tool calls in a row brought nothing new",
)
_INSTEAD = (
    " Do something else: use what you already know, look at the cause, take another tool or other arguments; or, if"
    " you are stuck, tell the user what is missing and ask."
)
_LAST = (
    " You were told before. If this goes on the turn will be ended. Do not make this call again: take another way now,"
    " or answer the user without tools and say what you could not do."
)


def _rule(limits: Limits, count: int, words: _Words, look: _Look, *, again: bool) -> Ruling:
    """``again``: the model was told before. Nobody is stopped who was not, also where patience has just ended."""
    if count < limits.nudge:
        return Ruling()
    call = f"{look.call.name} {canonical(look.call.arguments).decode(errors='replace')}"
    about = {"count": count, "name": _clipped(look.call.name), "call": _clipped(call), "result": _clipped(look.text)}
    if count >= limits.stop and again:
        return Ruling(stop=f"Stopped because the turn repeated itself: {words.user.format(**about)}.", ask=True)
    if count < limits.stop and count not in (limits.nudge, (limits.nudge + limits.stop) // 2, limits.stop - 1):
        return Ruling()
    return Ruling(nudge=words.model.format(**about) + (_LAST if again else _INSTEAD))


def _clipped(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


# --- words around the end of a turn -------------------------------------------------------------------------------


def converging(rounds: int, most: int) -> str:
    """A nudge when four fifths of the rounds are used: to come to an end in time. Empty at any other moment."""
    if most < 10 or rounds != most * 4 // 5:
        return ""
    return (
        f"{rounds} of the {most} rounds of this turn are used, {most - rounds} are left. Finish what matters most, "
        "begin nothing new, and answer before they are used up."
    )


def status_request(stop: str) -> str:
    """Asks the model for a status, once its turn has to end."""
    return (
        f"{stop} This is your last message of the turn, and tools cannot be called any more. Tell the user in plain "
        "text, in the language of the conversation and in at most 150 words: what was done, what is missing and why, "
        "and what the user can do now. Claim nothing that the results above do not show."
    )


def plain_status(tools: Mapping[str, ToolCount], last_error: str) -> str:
    """The status where the model gives none: what ran how often, and the last error."""
    used = [
        f"{name} {count.calls} {'times' if count.calls > 1 else 'time'}"
        + (f" ({count.errors} failed)" if count.errors else "")
        for name, count in tools.items()
    ]
    parts = [f"Tools that ran in this turn: {', '.join(used)}." if used else "No tool ran in this turn."]
    if last_error:
        parts.append(f"The last error was: “{_clipped(last_error)}”.")
    parts.append("Say “continue” to go on, or say what should be done in another way.")
    return " ".join(parts)
