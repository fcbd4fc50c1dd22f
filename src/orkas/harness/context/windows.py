"""How many tokens a model takes: what was given, what refusals taught, what the catalogue says.

What a refusal taught is believed, but never for good: it can always be tested by a request, and grows again.
"""

from __future__ import annotations

from orkas.harness.context.calibration import HIGHEST, Calibration
from orkas.infra.errors import ProviderError
from orkas.providers.base import ModelInfo

__all__ = ["DEFAULT_WINDOW", "Windows"]

DEFAULT_WINDOW = 128_000
"""Assumed where nobody told the window and no refusal has taught it."""
_SMALLEST = 1_000
"""A number below is no window: no model is that small, but limits a minute are."""
_LEAST_GUESS = 4_096
"""Nothing below is concluded from a refusal without a number."""
_TELLING = 0.3
"""Share of the window from which on a refusal that says nothing of tokens is believed to be about them."""


class Windows:
    """The windows of the models that one agent uses. Models are named ``vendor/model``.

    ``given``: what the caller says, for whatever model; None: nothing.
    """

    def __init__(self, given: int | None, learnt: Calibration) -> None:
        self.given = given
        self._learnt = learnt
        self._told: dict[str, int] = {}  # by refusals that this agent met
        self._guessed: dict[str, int] = {}  # from refusals without a number, that this agent met
        self._tested: set[str] = set()  # what others learnt of these is no longer believed

    def of(self, model: str, info: ModelInfo) -> tuple[int, int]:
        """The window, and what it would be if no refusal had taught less.

        A caller who gives one is believed until a refusal to this very agent says otherwise; what was learnt in
        earlier sessions only counts where the caller gives none.
        """
        known = self.given or info.context_window or DEFAULT_WINDOW
        learnt = None if self.given or model in self._tested else self._learnt.of(model).fresh_window
        told = self._told.get(model)
        window = min(self.given, told) if self.given and told else told or learnt or known
        return min(window, self._guessed.get(model, window)), known

    def refused(self, model: str, error: ProviderError, sent: tuple[int, int, int] | None) -> bool:
        """A request was called too long. ``sent``: tokens of it all and of its fixed part as we believe, and the
        window without what refusals taught.

        A number in the refusal is kept for later sessions, with its date. Without one the request itself is the
        measure, for this agent alone, and never so low that no conversation would be left. A refusal that does not
        even speak of tokens teaches nothing where the request was small. Returns whether a shorter history may
        cure it.
        """
        total, fixed, known = sent or (None, 0, 0)
        window = error.window
        if window is not None and window >= _SMALLEST and (total is None or window <= HIGHEST * total):
            self._told[model] = window
            self._learnt.of(model).refused(window)
        elif total is not None and not (error.vague and total < _TELLING * known):
            guess = max(total, _LEAST_GUESS, 2 * fixed)
            self._guessed[model] = min(guess, self._guessed.get(model, guess))
        return not error.vague or total is None or total >= _LEAST_GUESS

    def took(self, model: str, counted: int) -> None:
        """The vendor counted so many tokens and replied: a window below is none."""
        learnt = self._learnt.of(model)
        if learnt.window is not None and counted > learnt.window:
            learnt.window = None
        for taught in (self._told, self._guessed):
            if counted > taught.get(model, counted):
                del taught[model]

    def test(self, model: str, info: ModelInfo) -> bool:
        """Forget what refusals taught until the next one; False where they taught nothing less than is known."""
        window, known = self.of(model, info)
        if window >= known:
            return False
        self._told.pop(model, None)
        self._guessed.pop(model, None)
        self._tested.add(model)
        return True
