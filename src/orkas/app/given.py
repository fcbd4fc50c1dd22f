"""What a caller may hand in, checked before anything begins."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from orkas.infra.errors import UsageError
from orkas.infra.messages import Image
from orkas.providers.base import LLMProvider

if TYPE_CHECKING:
    from orkas.harness.output import Output

__all__ = [
    "Approve",
    "Images",
    "check_limits",
    "check_prompt",
    "folder",
    "listed",
    "load_images",
    "one_of",
    "output_form",
]

Approve: TypeAlias = Literal["ask", "edits", "all", "none"]
Images: TypeAlias = Sequence["Image | str | os.PathLike[str]"]
"""Images of a user's message: ready ones, or paths of PNG, JPEG, GIF or WebP files."""


def check_limits(
    *, max_rounds: int, max_retries: int, max_cost: float | None, context_window: int | None, max_output: int | None,
    compact_at: float,
) -> None:  # fmt: skip
    for name, number in (("max_rounds", max_rounds), ("max_retries", max_retries), ("max_cost", max_cost),
                         ("context_window", context_window), ("max_output", max_output), ("compact_at", compact_at)):
        if number is not None and not isinstance(number, int | float):
            raise UsageError(f"{name} must be a number, not {number!r}")
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


def output_form(shape: Any) -> Output | None:
    if shape is None:
        return None
    from orkas.harness.output import Output

    return Output(shape)


def listed(fallback: str | LLMProvider | Sequence[str | LLMProvider] | None) -> Sequence[str | LLMProvider]:
    if fallback is None:
        return []
    return fallback if isinstance(fallback, Sequence) and not isinstance(fallback, str) else [fallback]


def one_of(name: str, given: object, allowed: tuple[object, ...]) -> None:
    if given not in allowed:
        raise UsageError(f"{name} cannot be {given!r}", hint=f"it is one of {', '.join(map(str, allowed))}")


def check_prompt(prompt: object, images: object) -> None:
    if not isinstance(prompt, str):
        raise UsageError(f"the prompt must be a string, not {prompt!r}", hint='say what to do: agent.run("…")')
    if not prompt.strip() and not images:
        raise UsageError("the prompt is empty", hint='say what to do: agent.run("…")')


def load_images(images: Images | Image | str | os.PathLike[str]) -> list[Image]:
    if not images:
        return []
    from orkas.harness.images import load_image

    if isinstance(images, Image | str | os.PathLike):  # one is as good as a list of one
        images = [images]
    return [load_image(i) for i in images]


def folder(cwd: str | os.PathLike[str] | None) -> Path:
    if cwd is None and os.name == "posix":
        return Path.cwd()  # as the system tells it: a folder, and without links
    path = Path(cwd or ".")
    if not path.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder", hint="give an existing folder to work in")
    return path.resolve()
