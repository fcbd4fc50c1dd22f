"""The environment of this program, and what of it is secret.

``environ`` is what was set when we started, whoever took it away since: the rooms that look for keys read it here. A
program of ours takes secret variables out of ``os.environ`` at its start (``withdraw``), so that neither a library nor
a child finds them there. A library leaves the environment of the program it is part of alone, and only remembers the
values (``learn``), so that they are taken out of what is shown. Of the working folder only the values of well-known
files of secrets are remembered (``learn_folder``), for the same end: nothing in it sets anything.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from orkas.infra import known
from orkas.infra.patterns import lazy

__all__ = ["environ", "holds_secrets", "learn", "learn_folder", "learn_text", "unread", "withdraw"]

_WORDS = frozenset([
    "KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "PAT",
    "CREDENTIAL", "CREDENTIALS", "DSN", "AUTH", "COOKIE", "WEBHOOK",
])  # fmt: skip
_ENDINGS = ("PASSWORD", "PASSWD", "SECRET", "TOKEN", "APIKEY")
"""Of one word: ``PGPASSWORD``."""
_PUBLIC = frozenset(["PUBLIC", "CACHE"])
_ABOUT = frozenset([
    "URL", "URI", "HOST", "PORT", "FILE", "PATH", "DIR", "NAME", "USER", "USERNAME", "EMAIL", "ENDPOINT", "TTL", "TYPE",
    "EXPIRES", "EXPIRY", "ALGORITHM", "LENGTH", "SIZE", "LIMIT", "HEADER", "PREFIX", "SOCK", "BACKEND", "TIMEOUT",
])  # fmt: skip
"""Last words of names that are about a secret and hold none."""
_withdrawn: dict[str, str] = {}


class _Environ(Mapping[str, str]):
    def __getitem__(self, name: str) -> str:
        try:
            return os.environ[name]
        except KeyError:
            return _withdrawn[name]

    def __iter__(self) -> Iterator[str]:
        yield from os.environ
        yield from (name for name in tuple(_withdrawn) if name not in os.environ)

    def __len__(self) -> int:
        return sum(1 for _ in self)


environ: Mapping[str, str] = _Environ()


def withdraw() -> None:
    """Take what is secret out of ``os.environ``. For programs of ours, at their start, never on import. What the
    network (proxies) and the keyring (``KEYRING_…``) read there themselves stays."""
    for name, value in list(os.environ.items()):
        values = _secrets(name, value)
        for one in values:
            known.met(one)
        if values and not name.upper().endswith("_PROXY") and not name.startswith("KEYRING_"):
            _withdrawn[name] = value
            del os.environ[name]


def learn() -> None:
    """Remember the secrets of the environment, which is left as it is. Cheap enough for every turn."""
    learned = known.sources()
    for name, value in os.environ.items():
        if learned.get(name) != value:
            learned[name] = value
            for one in _secrets(name, value):
                known.met(one)


_STAGES = ("", ".local", ".development", ".production", ".staging", ".test", ".dev", ".prod")
_FILES = (
    *(f".env{stage}" for stage in _STAGES), *(f".env{stage}.local" for stage in _STAGES[2:6]),
    ".envrc", ".npmrc", ".pypirc", ".netrc", ".git/config", ".git-credentials", ".yarnrc.yml", ".docker/config.json",
    ".aws/credentials", "credentials.json", "service-account.json", "auth.json", "id_rsa", "id_ed25519", "id_ecdsa",
    ".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/id_ecdsa", "key.pem", "private.pem", "privkey.pem", "private.key",
    "server.key",
)  # fmt: skip
_MOST = 262_144
"""Bytes of such a file that are looked at."""
_Stamp: TypeAlias = tuple[int, int, int]


def learn_folder(folder: Path) -> None:
    """Remember the secrets in the ``.env`` files, the git settings and the like of a working folder, as far as they
    are new. Blocks; never raises."""
    for path, stamp in unread(folder):
        with suppress(OSError):
            learn_text(_read(Path(path)))
            known.sources()[path] = stamp


def unread(folder: Path) -> list[tuple[str, _Stamp]]:
    """Those of these files that are there and were not read as they are now. Cheap enough for every turn."""
    found = []
    for name in _FILES:
        path = f"{folder}/{name}"
        try:
            there = os.stat(path)  # noqa: PTH116 - a Path costs more than the call
        except OSError:
            continue
        stamp = there.st_ino, there.st_mtime_ns, there.st_size
        if known.sources().get(path) != stamp and stat.S_ISREG(there.st_mode):
            found.append((path, stamp))
    return found


def holds_secrets(name: str) -> bool:
    """Whether a file of that name is there for secrets. An example of one is not."""
    example = name.endswith((".example", ".sample", ".template", ".dist", ".defaults"))
    return name in _FILES or (name.startswith(".env.") and not example)


def learn_text(text: str) -> None:
    """Remember the secrets in a text of such a file: ``NAME=value``, ``"name": "value"``, the passwords of a
    ``.netrc``, addresses with a password, private keys."""
    for found in (*_PRIVATE_KEY.finditer(text), *_NETRC.finditer(text)):
        known.met(found[1])
    for line in text.splitlines():
        for found in (*_ASSIGNED.finditer(line), *_FIELD.finditer(line)):
            _learn_pair(found[1].lstrip("_").replace("-", "_").replace(".", "_"), found[2].strip(" \t\"',"))
        if "://" in line and "@" in line:
            for address in _ADDRESS.findall(line):
                for one in _userinfo(address):
                    if len(one) >= known.TELLING:
                        known.met(one)


def _learn_pair(name: str, value: str) -> None:
    found = _secrets(name, value)
    if name == "auth":  # as docker keeps it: name and password, encoded
        from binascii import Error, a2b_base64

        with suppress(Error, UnicodeDecodeError, ValueError):
            found += [part for part in [a2b_base64(value).decode().partition(":")[2]] if len(part) >= known.TELLING]
    for one in found:
        if len(one) >= _SURE or any(c.isdecimal() for c in one):
            known.met(one)


_PRIVATE_KEY = lazy(
    r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!-)){80,20000}-----END [A-Z ]{0,30}PRIVATE KEY-----)"
)
_NETRC = lazy(r"(?m)^[ \t]*(?:machine[ \t]+\S{1,300}|default)\s[^#]{0,400}?\bpassword\s+(\S{8,})")
_FIELD = lazy(r"(?:^|[\s{,])[\"']?([A-Za-z_][\w.-]{0,100})[\"']?\s*:\s*(\"[^\"]*\"|'[^']*'|(?<=\s)[^\s\"',]+)")
_ASSIGNED = lazy(r"^\s*(?:export\s+)?[^\s=]{0,200}?([A-Za-z_][\w.-]{0,100})\s*=\s*(.+)")
_ADDRESS = lazy(r"[a-z][a-z0-9+.-]{0,30}://[^\s/\"']{1,1024}@", re.IGNORECASE)
_SURE = 20
"""Characters from which on a value without a digit is taken for a secret and not for a word."""


def _read(path: Path) -> str:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        return file.read(_MOST).decode("utf-8", "replace")


def _secrets(name: str, value: str) -> list[str]:
    """What of a variable is secret."""
    words = name.upper().split("_")
    secret = not _WORDS.isdisjoint(words) or words[-1].endswith(_ENDINGS)
    if words[-1] in _ABOUT or not _PUBLIC.isdisjoint(words):
        secret = "WEBHOOK" in words
    if "-----BEGIN" in value:  # the lines of a key, which are told from those around them
        return [found[1] for found in _PRIVATE_KEY.finditer(value)]
    found = [part for part in value.replace(",", " ").split() if _telling(part)] if secret else []
    if "://" in value and "@" in value:
        found += [part for part in _userinfo(value) if len(part) >= known.TELLING]
    return found


def _telling(value: str) -> bool:
    """No path, address, number or plain word: those stand in honest texts. The address of a webhook is a secret."""
    ordinary = value.isdecimal() or value.isalpha() or value.startswith(("/", "~/", "./"))
    ordinary = ordinary or (value.startswith(("http://", "https://")) and "hook" not in value)
    return len(value) >= known.TELLING and not ordinary


def _userinfo(value: str) -> list[str]:
    """The password in an address, or a token that stands alone there."""
    host = value.partition("://")[2].partition("/")[0]
    name, colon, password = host.rpartition("@")[0].partition(":")
    if not colon:
        return [name] if any(c.isdecimal() for c in name) and len(name) >= 16 else []
    from urllib.parse import unquote

    return list(dict.fromkeys([password, unquote(password)]))
