"""The place where keys and tokens are kept.

Kept in the system's keyring where the optional package ``keyring`` is installed and works, else in
``home()/secrets.json``, which its owner alone may read. That file also lists what is in the keyring, so that without a
stored secret the keyring is never touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from orkas.infra import files
from orkas.infra.errors import SessionLocked, StorageError
from orkas.infra.home import home
from orkas.infra.known import MASK
from orkas.infra.secret import Secret

__all__ = ["MASK", "Place", "Secret", "Store"]

Place: TypeAlias = Literal["keyring", "file"]
_LOCK_S = 10.0
"""Seconds that another process may take to write the file."""
_KEYRING_S = 60.0
"""Seconds that the keyring may take: it may be asking its user to unlock it."""


class Store:
    """Texts by name, each kept whole or not at all; safe for several processes.

    ``folder``: omitted: ``home()``, looked up at each use.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def path(self) -> Path:
        return (self._folder or home()) / "secrets.json"

    def places(self) -> dict[str, Place]:
        """What is kept, and where.

        Raises:
            StorageError: the file cannot be read, or must not be trusted.
        """
        return {name: "keyring" if "keyring" in entry else "file" for name, entry in self._entries().items()}

    def fallback(self) -> str:
        """Why something that belongs into the keyring is in the file; empty: nothing is. Raises as ``places``."""
        return next((str(e["because"]) for e in self._entries().values() if e.get("because")), "")

    def get(self, name: str) -> Secret | None:
        """What is kept under this name.

        Raises:
            StorageError: it cannot be read, or must not be trusted.
        """
        return self._value(name, self._entries().get(name))

    def stamp(self) -> object:
        """Something that is equal as long as nothing has changed; cheap."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size

    def update(self, name: str, change: Callable[[Secret | None], str | None], *, blind: bool = False) -> Secret | None:
        """Put what ``change`` makes of the present text under this name (None: remove it); durable when it returns.

        Nobody else writes in between. ``blind``: the present text is not read, and may be unreadable. Returns what is
        kept now.

        Raises:
            StorageError: nothing has changed.
        """
        with self._locked():
            entries = self._entries()
            entry = entries.get(name)
            old = None if blind else self._value(name, entry)
            new = change(old)
            if new is None:
                self._forget(name, entries.pop(name, None))
            elif old is None or old.reveal() != new:
                entries[name] = self._kept(name, entry, new)
            else:
                return old
            self._write(entries)
            return Secret(new) if new is not None else None

    # The file

    def _locked(self) -> files.Lock:
        lock = files.Lock(self.path.with_name("secrets.lock"), name="secrets")
        give_up = time.monotonic() + _LOCK_S
        while True:
            try:
                lock.acquire()
            except SessionLocked as error:
                if time.monotonic() > give_up:
                    raise StorageError(f"{self.path} is being written ({error.owner})", hint="try again") from None
                time.sleep(0.01)
            else:
                return lock

    def _entries(self) -> dict[str, dict[str, Any]]:
        data = self._read()
        if data is None:
            return {}
        try:
            content = json.loads(data)
            entries: dict[str, dict[str, Any]] = content["entries"]
            newer = content["version"] > 1
            sound = all(isinstance(e.get("file", e.get("keyring")), str) for e in entries.values())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            sound, newer = False, False
        if newer:
            raise StorageError(f"{self.path} was written by a newer version of Orkas", hint="use that one")
        if not sound:
            self._damaged()
        return entries

    def _damaged(self) -> NoReturn:
        raise StorageError(f"{self.path} is damaged", hint="remove it and log in again with `orkas auth login`")

    def _read(self) -> bytes | None:
        """The bytes of the file; None: there is none."""
        try:
            fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            hint = "make it readable for you alone (mode 0600)"
            raise StorageError(f"{self.path} cannot be read: {error.strerror}", hint=hint) from None
        with os.fdopen(fd, "rb") as file:
            _trust(self.path, os.fstat(fd))
            return file.read()

    def _write(self, entries: dict[str, dict[str, Any]]) -> None:
        if not entries:
            files.remove(self.path)
            return
        content = {"version": 1, "entries": entries}
        files.replace(self.path, json.dumps(content, ensure_ascii=False, indent=1).encode() + b"\n")

    # The keyring

    @property
    def _service(self) -> str:
        """Our name in the keyring, one per home."""
        return f"orkas {hashlib.sha256(os.fsencode(self.path.parent)).hexdigest()[:12]}"

    def _value(self, name: str, entry: dict[str, Any] | None) -> Secret | None:
        if entry is None:
            return None
        if "file" in entry:
            return Secret(entry["file"])
        try:
            text = _bounded(lambda: _keyring().get_password(entry["keyring"], name))
        except Exception as error:  # noqa: BLE001 - back ends raise whatever their system does
            what = f"the login of {name} is in the system's keyring, which cannot be read ({_reason(error)})"
            raise StorageError(what, hint=f"unlock it, or log in again with `orkas auth login {name}`") from None
        return Secret(text) if text else None

    def _kept(self, name: str, entry: dict[str, Any] | None, text: str) -> dict[str, Any]:
        """Put a text away; the entry that says where."""
        mark = secrets.token_hex(4)  # the file changes with each write, wherever the text is
        because = ""
        try:
            keyring = _keyring()
            _bounded(lambda: keyring.set_password(self._service, name, text))
            return {"keyring": self._service, "mark": mark}
        except ModuleNotFoundError:
            pass
        except Exception as error:  # noqa: BLE001 - back ends raise whatever their system does
            because = _reason(error)
        self._forget(name, entry)
        return {"file": text, "mark": mark} | ({"because": because} if because else {})

    def _forget(self, name: str, entry: dict[str, Any] | None) -> None:
        """Take a text out of the keyring, where there is one. What cannot be removed there no longer counts here."""
        if entry is not None and "keyring" in entry:
            with suppress(Exception):
                _bounded(lambda: _keyring().delete_password(entry["keyring"], name))


def _trust(path: Path, found: os.stat_result) -> None:
    """Refuse a file that somebody else could have written or can read.

    Raises:
        StorageError: one sentence, with the command that mends it.
    """
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{path} is no regular file", hint="remove it")
    if os.name == "nt":
        return
    if found.st_uid != os.geteuid():
        raise StorageError(f"{path} belongs to another user and is not read", hint=f"remove it, or chown it: {path}")
    if found.st_mode & 0o077:
        what = "written" if found.st_mode & 0o022 else "read"
        raise StorageError(f"{path} can be {what} by other users and is not read", hint=f"run: chmod 600 '{path}'")


def _keyring() -> Any:
    """The keyring in use.

    Raises:
        ModuleNotFoundError: the package is not installed.
        RuntimeError: it has no back end that is safer than a file.
    """
    from importlib import import_module

    found = import_module("keyring").get_keyring()
    if found.priority < 1:
        raise RuntimeError("it has no back end here")
    return found


def _bounded(call: Callable[[], Any]) -> Any:
    """``call`` in a thread that is not waited for without end: a locked keyring asks, and nobody may be there."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append((call(), None))
        except Exception as error:  # noqa: BLE001 - handed over to the caller
            outcome.append((None, error))

    thread = threading.Thread(target=work, name="orkas-keyring", daemon=True)
    thread.start()
    thread.join(_KEYRING_S)
    if not outcome:
        raise TimeoutError(f"no answer within {_KEYRING_S:.0f} s")
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())[:120].rstrip(".")
    return text or type(error).__name__
