"""How full the window can be at most, told without weighing what is new."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from orkas.harness.context.calibration import LOWEST, plausible, prompt_of
from orkas.harness.context.sizes import MESSAGE, message_size
from orkas.infra.messages import AssistantMessage, Message, Text, ToolMessage, Usage, UserMessage
from orkas.infra.tokens import bounds, dearest

__all__ = ["Bound", "Trust"]

Trust: TypeAlias = Callable[[AssistantMessage, "str | float | None"], bool | None]
"""What the usage of a reply says of the history before it: True: the vendor counted that and nothing else. False: that,
and words that stood in this request alone. None: nothing. The second argument: when the newest summary was written."""


class Bound:
    """Follows a history from its beginning, or from where it was weighed last. Sizes are estimates, as ``message_size``
    gives them, but for what a vendor counted.
    """

    def __init__(self) -> None:
        self._seen = 0  # messages it covers; 0: it knows nothing
        self._last: Message | None = None
        self._boundary: str | float | None = None
        self._base = 0.0  # tokens of the beginning, for the model in use
        self._after = 0  # estimate of what follows that, at most
        self._least = 0  # estimate of all, at least
        self.most = 0
        """Estimate of all that was followed, at most."""
        self.unread = 0
        """Estimate of what came behind that, from its length alone, at the very most."""
        self._passed = 0  # messages of which at least the length was looked at
        self._newest: Message | None = None
        self.coarse = False
        """The beginning was judged by the lengths of its texts alone."""

    def start(
        self, count: int, last: Message | None, base: float, after: int, whole: int, boundary: str | float | None
    ) -> None:
        """So many messages weigh ``base`` tokens and an estimate of ``after``; the estimate of all is ``whole``.
        ``boundary``: when the newest summary among them was written."""
        self._reached(count, last)
        self._boundary = boundary
        self._base, self._after = base, after
        self._least = self.most = whole
        self.coarse = False

    def begin(
        self, messages: Sequence[Message], ratio: float, fixed: int, trust: Trust, *, closely: bool
    ) -> int:
        """The most that a history can weigh of which nothing is known yet, in tokens. Parameters as in ``follow``.

        ``closely``: look at the texts, at a fifth of the time that weighing them takes; else at nothing but their
        lengths.
        """
        self.start(0, None, 0.0, 0, 0, None)
        self.coarse = not closely
        weigh = self._text if closely else dearest
        texts: list[str] = []  # of messages that are nothing else and change nothing but the sums
        for m in messages:
            if closely or (text := _only_text(m)) is None:
                self._plain(texts)
                self._take(m, ratio, fixed, trust, weigh)
            else:
                texts.append(text)
        self._plain(texts)
        self._reached(len(messages), messages[-1] if messages else None)
        return self._told(ratio)

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
            self.unread += message_size(m, dearest)
            self._passed, self._newest = i + 1, m
        return self.unread <= room

    def follow(self, messages: Sequence[Message], ratio: float, fixed: int, trust: Trust) -> int | None:
        """The most that these messages can weigh, in tokens; None where they do not continue what is known.

        ``ratio``: tokens for one of our estimate. ``fixed``: estimate of what is no message.
        """
        n = self._seen
        if not n or n > len(messages) or messages[n - 1] is not self._last:
            return None
        for i in range(n, len(messages)):
            self._take(messages[i], ratio, fixed, trust, self._text)
        self._reached(len(messages), messages[-1])
        return self._told(ratio)

    def _told(self, ratio: float) -> int:
        return math.ceil(self._base + self._after * ratio)

    def _take(self, m: Message, ratio: float, fixed: int, trust: Trust, text: Callable[[str], int]) -> None:
        least, most = self._least + fixed, self.most + fixed  # of the request before
        size = message_size(m, text)
        self._least += MESSAGE
        self.most += size
        self._after += size
        if type(m) is AssistantMessage:
            if m.usage is not None and (counted := prompt_of(m.usage)) is not None:
                trusted = trust(m, self._boundary)
                if trusted is not None:
                    self._reported(m.usage, counted, size, ratio, (trusted, least, most))
        elif type(m) is UserMessage and m.origin == "summary":
            self._boundary = m.ts
            if self.most * ratio > self._base + self._after * ratio:  # what was reported before may be void
                self._base, self._after = 0.0, self.most

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

    def _plain(self, texts: list[str]) -> None:
        if texts:
            size = MESSAGE * len(texts) + sum(map(dearest, texts))
            self._least += MESSAGE * len(texts)
            self.most += size
            self._after += size
            texts.clear()

    def _text(self, text: str) -> int:
        least, most = bounds(text)
        self._least += least
        return most


def _only_text(m: Message) -> str | None:
    """The text of a message that holds nothing else a model is sent, tells no usage and is no summary."""
    content = m.content
    if len(content) != 1 or type(block := content[0]) is not Text or block.vendor is not None or m.vendor is not None:
        return None
    kind = type(m)
    if kind is AssistantMessage:
        return block.text if m.usage is None else None  # type: ignore[union-attr]
    return block.text if kind is ToolMessage or m.origin is None else None  # type: ignore[union-attr]
