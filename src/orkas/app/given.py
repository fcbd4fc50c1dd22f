"""What a caller may hand in, checked before anything begins."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
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
    "check_words",
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
    _whole("max_rounds", max_rounds, 1)
    _whole("max_retries", max_retries, 0)
    for name, size in (("context_window", context_window), ("max_output", max_output)):
        if size is not None:
            _whole(name, size, 1, of=" of tokens")
    if max_cost is not None and not (_is_number(max_cost) and 0 < max_cost < math.inf):
        raise UsageError(f"max_cost must be an amount of USD above 0, not {max_cost!r}")
    if not (_is_number(compact_at) and 0 < compact_at <= 1):
        raise UsageError(f"compact_at must be a share of the usable window, above 0 and at most 1, not {compact_at!r}")


def _whole(name: str, given: object, least: int, *, of: str = "") -> None:
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise UsageError(f"{name} must be a whole number{of}, {least} or more, not {given!r}")


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def check_words(*, system: object, base_url: object, api_key: object, credentials: object) -> None:
    for name, given in (("system", system), ("base_url", base_url), ("api_key", api_key)):
        if not isinstance(given, str) and (given is not None or name == "system"):
            raise UsageError(f"{name} must be a string, not a value of type {type(given).__name__}")
    if credentials is not None and not all(hasattr(credentials, name) for name in ("peek", "get", "refused")):
        raise UsageError(
            f"credentials cannot be a value of type {type(credentials).__name__}",
            hint="it is an object with peek, get, refused, accepted and aclose; a plain key is api_key",
        )


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


def load_images(images: object) -> list[Image]:
    if not images:
        return []
    from orkas.harness.images import load_image

    if isinstance(images, Image | str | os.PathLike):  # one is as good as a list of one
        images = [images]
    if not isinstance(images, Iterable) or isinstance(images, bytes):
        raise UsageError(f"images must be a list, not {images!r}", hint="of paths, or of orkas.Image")
    return [load_image(i) for i in images]


def folder(cwd: str | os.PathLike[str] | None) -> Path:
    if cwd is None:
        return Path.cwd() if os.name == "posix" else Path().resolve()  # POSIX tells it without links
    if not isinstance(cwd, str | os.PathLike) or not os.fspath(cwd):
        raise UsageError(f"cwd must be a folder to work in, not {cwd!r}", hint="leave it out for the current one")
    shown = repr(str(cwd)) if len(str(cwd)) <= 200 else f"{str(cwd)[:200]!r}…"
    try:
        path = Path(cwd).resolve()
        if path.is_dir():
            return path
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = error.strerror if isinstance(error, OSError) else None
        raise UsageError(f"{shown} is no folder to work in: {why or error}", hint="give an existing folder") from None
    raise UsageError(f"{shown} is not a folder", hint="give an existing folder to work in")
