"""Every error we raise, on one screen.

OrkasError                   one plain sentence; ``hint`` says what to do next
├── UsageError               the caller asked for something that cannot be (exit status 2)
├── ProviderError            a model request failed; carries its class, HTTP status and waiting time
├── StorageError             something could not be saved or read (disk full, read-only home)
│   ├── SessionLocked        somebody else has the session open
│   ├── SessionMissing       there is no such session
│   └── SessionUnreadable    the file is there and cannot be read; never replaced by a fresh one
├── PolicyError              refused by policy (exit status 4)
├── OutputError              the answer has not the form that was asked for; its text is kept
└── ToolFailed               the tool ran and could not do it: told to the model, the turn goes on
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from orkas.infra.known import hide

__all__ = [
    "ErrorClass", "OrkasError", "OutputError", "PolicyError", "ProviderError", "SessionLocked", "SessionMissing",
    "SessionUnreadable", "StorageError", "ToolFailed", "UsageError", "exit_status",
]  # fmt: skip

ErrorClass: TypeAlias = Literal[
    "rate_limit", "overloaded", "timeout", "connection", "server", "auth", "quota", "invalid_request", "not_found",
    "content_filter", "context_overflow", "storage", "internal",
]  # fmt: skip
"""What kind of failure it was: decides what is done about it."""
_LONGEST_WAIT_S = 1e15
"""Beyond any calendar: what is longer is no time."""


class OrkasError(Exception):
    """Base of all our errors. ``str(error)`` is one sentence: what is wrong and, after a semicolon, the way out.

    Values of secrets that this process knows are taken out of it, whoever put them there.
    """

    origin: str | None = None
    """``web`` where its sentence holds words of strangers, framed: whoever tells it hands that on."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        message, hint = hide(message), hide(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class UsageError(OrkasError):
    pass


class ProviderError(OrkasError):
    """A model request failed.

    ``class_`` decides what happens next, ``status`` is the HTTP status (None: no answer), ``wait_s`` the seconds the
    vendor asked to wait (None: it did not say, or what it said is no time), ``window`` the tokens its model takes at
    most, where a refusal told.
    ``vague``: a refusal as too long that says nothing of tokens (a proxy's page, an empty body).
    ``botched``: the model wrote a call that its own vendor does not take; another try may be a better one.
    ``reached``: False when not even a connection came about. ``local``: the address is this machine's own.
    """

    answered = False
    """The vendor did what was asked (HTTP 200) and only its answer is of no use: it may have to be paid."""

    def __init__(
        self,
        message: str,
        *,
        class_: ErrorClass,
        status: int | None = None,
        wait_s: float | None = None,
        window: int | None = None,
        vague: bool = False,
        botched: bool = False,
        reached: bool = True,
        local: bool = False,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.class_: ErrorClass = class_
        self.status = status
        self.wait_s = wait_s if wait_s is not None and 0 <= wait_s <= _LONGEST_WAIT_S else None
        self.window = window
        self.vague = vague
        self.botched = botched
        self.reached = reached
        self.local = local

    @property
    def stalled(self) -> bool:
        """The connection stood, and nothing came over it for too long."""
        return self.class_ == "timeout" and self.status is None and self.reached


class StorageError(OrkasError):
    pass


class SessionLocked(StorageError):
    def __init__(self, name: str, owner: str) -> None:
        super().__init__(
            f"session {name!r} is already open ({owner})",
            hint="close it there, or use another session name",
        )
        self.owner = owner


class SessionMissing(StorageError):
    pass


class SessionUnreadable(StorageError):
    pass


class PolicyError(OrkasError):
    pass


class OutputError(OrkasError):
    pass


class ToolFailed(OrkasError):
    pass


def exit_status(class_: ErrorClass | None) -> int:
    """Exit status of a turn that failed with this class: 3 without usable credentials, else 1."""
    return 3 if class_ == "auth" else 1
