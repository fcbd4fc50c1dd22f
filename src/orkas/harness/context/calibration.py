"""What was learnt of each model: how its counts relate to our estimates, and the window its refusals told."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec

from orkas.infra import files
from orkas.infra.errors import StorageError
from orkas.infra.home import home
from orkas.infra.messages import Usage

__all__ = ["Calibration", "Learnt", "plausible", "prompt_of"]

_log = logging.getLogger("orkas.calibration")

LOWEST, HIGHEST = 0.25, 4.0
"""Ratios outside are no measure of a vocabulary but of something else (a proxy, a fake, a cut prompt)."""
SMALLEST = 1_000
"""A number below is no window of a model: nothing could be done in it."""
_SMOOTHING = 0.3
"""Weight of a new measure once a few are known; the first ones are averaged."""
_MATERIAL = 0.02
"""Change of the ratio, relative, that is worth a write."""
_FILE_BYTES = 10_000_000
"""What is larger is none of ours."""
_DAY_S = 86_400.0
"""A window that a refusal told is believed so long: servers are started anew with another one."""
_DATED_ANEW_S = 3_600.0
"""The same window, told again this much later, is worth a write."""
_MODELS = 200
"""Models kept; the one learnt about longest ago goes first."""


def plausible(counted: int, estimated: float) -> bool:
    """Whether a count can be one of what was estimated so."""
    return LOWEST * estimated <= counted <= HIGHEST * estimated


def prompt_of(usage: Usage | None) -> int | None:
    """All tokens of a request, cached or not; None where the vendor did not say."""
    if usage is None or usage.input is None:
        return None
    return usage.input + (usage.cache_read or 0) + (usage.cache_write or 0)


class Learnt(msgspec.Struct, omit_defaults=True):
    """What is known of one model."""

    ratio: float = 1.0
    """Tokens the vendor counts for one of ours."""
    measures: int = 0
    window: int | None = None
    """Tokens the model takes at most, as a refusal told. None: none did."""
    told: float = 0.0
    """When it did, in seconds since the epoch."""

    @property
    def fresh_window(self) -> int | None:
        """The window, where a refusal told it within a day."""
        return self.window if self.window is not None and abs(time.time() - self.told) < _DAY_S else None

    def refused(self, window: int) -> None:
        """A refusal told the window just now."""
        self.window, self.told = window, time.time()

    def measured(self, ratio: float) -> None:
        """One more report. Implausible ones must not come here."""
        self.measures = min(self.measures + 1, 1_000_000)
        weight = max(1 / self.measures, _SMOOTHING)
        self.ratio = min(HIGHEST, max(LOWEST, self.ratio + weight * (ratio - self.ratio)))

    @property
    def sane(self) -> bool:
        known = self.window is None or self.window >= SMALLEST
        return LOWEST <= self.ratio <= HIGHEST and self.measures >= 0 and known


class _File(msgspec.Struct):
    version: int
    models: dict[str, dict[str, object]]


class Calibration:
    """One file for all models. Reading and writing never fail a turn: without the file everything is learnt anew.

    ``path``: omitted: ``calibration.json`` at the root of what Orkas stores.
    ``keep``: False: what others have learnt is used, and nothing is written (sessions in memory leave no trace).
    """

    def __init__(self, path: Path | None = None, *, keep: bool = True, ops: files.Ops = files.OPS) -> None:
        self._given = path
        self._keep = keep
        self._ops = ops
        self._models: dict[str, Learnt] | None = None
        self._stored: dict[str, Learnt] = {}

    @property
    def _path(self) -> Path:
        return self._given or home() / "calibration.json"

    def of(self, model: str) -> Learnt:
        """What is known of ``vendor/model``; the caller may change it."""
        if self._models is None:
            self._models = self._read()
            self._stored = {name: _copy(one) for name, one in self._models.items()}
        return self._models.setdefault(model, Learnt())

    def save(self) -> None:
        """Write what has changed materially, if anything has. What others wrote meanwhile stays."""
        changed = [name for name in self._models or {} if self._news(name)] if self._keep else []
        if not changed:
            return
        assert self._models is not None
        known = self._read()
        for name in changed:
            known.pop(name, None)
            known[name] = self._models[name]
            self._stored[name] = _copy(self._models[name])  # also after a failure: tried once, not on every turn
        rows = {name: msgspec.to_builtins(one) for name, one in list(known.items())[-_MODELS:]}
        try:
            files.replace(self._path, msgspec.json.encode(_File(1, rows)), ops=self._ops)
        except StorageError as error:
            _log.warning("what was learnt of models is not kept: %s", error)

    def _news(self, model: str) -> bool:
        now, then = (self._models or {})[model], self._stored.get(model, Learnt())
        if now.window != then.window or (now.window is not None and abs(now.told - then.told) > _DATED_ANEW_S):
            return True
        return abs(now.ratio / then.ratio - 1) > _MATERIAL

    def _read(self) -> dict[str, Learnt]:
        """What the file tells; a damaged or newer one tells what can be read of it."""
        try:
            rows = msgspec.json.decode(files.read(self._path, most=_FILE_BYTES), type=_File).models
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.warning("what was learnt of models cannot be read: %s", error)
            return {}
        found: dict[str, Learnt] = {}
        for name, row in rows.items():
            try:
                one = msgspec.convert(row, Learnt)
            except msgspec.ValidationError:
                continue
            if one.sane:
                found[name] = one
        return found


def _copy(one: Learnt) -> Learnt:
    return msgspec.structs.replace(one)
