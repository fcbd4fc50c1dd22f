"""How full the window can be at most, told without weighing what is new."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from orkas.harness.context.calibration import LOWEST, plausible, prompt_of
from orkas.harness.context.sizes import MESSAGE, message_size
from orkas.infra.messages import AssistantMessage, Message, Usage, UserMessage
from orkas.infra.tokens import MOST, bounds

__all__ = ["Bound"]


class Bound:
    """Follows a history from where it was weighed last. Sizes are estimates, as ``message_size`` gives them, but for
    what a vendor counted.
    """

    def __init__(self) -> None:
        self._seen = 0  # messages it covers; 0: it knows nothing
        self._last: Message | None = None
        self._base = 0.0  # tokens of the beginning, for the model in use
        self._after = 0  # estimate of what follows that, at most
        self._least = 0  # estimate of all, at least
        self.most = 0
        """Estimate of all that was followed, at most."""
        self.unread = 0
        """Estimate of what came behind that, from its length alone, at the very most."""
        self._passed = 0  # messages of which at least the length was looked at
        self._newest: Message | None = None

    def start(self, count: int, last: Message | None, base: float, after: int, whole: int) -> None:
        """So many messages weigh ``base`` tokens and an estimate of ``after``; the estimate of all is ``whole``."""
        self._reached(count, last)
        self._base, self._after = base, after
        self._least = self.most = whole

    def _reached(self, count: int, last: Message | None) -> None:
        self._seen = self._passed = count
        self._last = self._newest = last
        self.unread = 0

    def forget(self) -> None:
        """The next history is another one."""
        self._seen = 0

    def passes(self, messages: Sequence[Message], room: float) -> bool:
        """Whether what came behind the followed messages is so short that it surely weighs no more than ``room``, an
        estimate. It is not read for this. False where that cannot be told."""
        n = self._passed
        if not self._seen or n > len(messages) or messages[n - 1] is not self._newest:
            return False
        for i in range(n, len(messages)):
            m = messages[i]
            if type(m) is UserMessage and m.origin == "summary":
                return False
            self.unread += MOST * message_size(m, len)
            self._passed, self._newest = i + 1, m
        return self.unread <= room

    def follow(
        self, messages: Sequence[Message], ratio: float, fixed: int, sure: Callable[[Usage], bool]
    ) -> int | None:
        """The most that these messages can weigh, in tokens; None where they do not continue what was weighed.

        ``ratio``: tokens for one of our estimate. ``fixed``: estimate of what is no message. ``sure``: the vendor
        counted the history before this reply, nothing else, and that is the newest that is known of it.
        """
        n = self._seen
        if not n or n > len(messages) or messages[n - 1] is not self._last:
            return None
        for i in range(n, len(messages)):
            self._take(messages[i], ratio, fixed, sure)
        if self._seen:
            self._reached(len(messages), messages[-1])
            return math.ceil(self._base + self._after * ratio)
        return None

    def _take(self, m: Message, ratio: float, fixed: int, sure: Callable[[Usage], bool]) -> None:
        least, most = self._least + fixed, self.most + fixed  # of the request before
        size = message_size(m, self._text)
        self._least += MESSAGE
        self.most += size
        self._after += size
        if type(m) is AssistantMessage:
            if m.usage is not None and (counted := prompt_of(m.usage)) is not None:
                self._reported(m.usage, counted, size, ratio, (sure(m.usage), least, most))
        elif type(m) is UserMessage and m.origin == "summary":
            self.forget()  # it may void what was reported before

    def _reported(
        self, usage: Usage, counted: int, size: int, ratio: float, request: tuple[bool, int, int]
    ) -> None:
        """A report that is sure to be believed takes the place of the sum; of one that may be, the larger counts."""
        sure, least, most = request
        if counted < LOWEST * least:
            return
        told = max(counted + (usage.output or 0), LOWEST * (self.most - size) * ratio)
        if not (sure and plausible(counted, least) and plausible(counted, most)):
            told = max(told, self._base + (self._after - size) * ratio)
        self._base, self._after = told, size

    def _text(self, text: str) -> int:
        least, most = bounds(text)
        self._least += least
        return most
