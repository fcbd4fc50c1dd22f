"""What lies around the sandbox while it is probed: canaries, a live process, listeners, a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orkas.infra.sandbox.plan import threads
from orkas.infra.sandbox.profile import Limits

__all__ = ["World"]

_TARGET = """
import ctypes, os, time
buffer = ctypes.create_string_buffer(os.environ["PROBE_SECRET"].encode())
print(ctypes.addressof(buffer), flush=True)
time.sleep(60)
"""
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"


class World:
    """A working folder with a repository in it, and everything it must not reach. Goes as a whole; ``fresh`` before
    each probe."""

    def __init__(self, limits: Limits) -> None:
        self.token = f"orkas-probe-{secrets.token_hex(6)}"
        self.secret = f"secret-{secrets.token_hex(12)}"
        self.number = int.from_bytes(os.urandom(3)) + 1
        self.said = ""
        self.reached = False
        """Somebody outside could connect to who listens inside."""
        self.crowded_s = 0.0
        """How long there were far more processes than a command may have on top of those of the machine."""
        self.target: subprocess.Popen[bytes] | None = None
        self._limits = limits
        self._heard: set[str] = set()
        self._closing = contextlib.ExitStack()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> World:
        base = Path(os.path.realpath(tempfile.mkdtemp(prefix="orkas-probe-")))
        self._closing.callback(shutil.rmtree, base, ignore_errors=True)
        self.work, self.outside = base / "work", base / "outside"
        self.home, self.orkas_home = Path(os.environ["HOME"]), Path(os.environ["ORKAS_HOME"])
        self.canary = self.outside / "canary"
        self._sockets(base)
        self._terminal()
        return self

    def fresh(self) -> None:
        """Everything as at the beginning."""
        for folder in (self.work, self.outside):
            shutil.rmtree(folder, ignore_errors=True)
        self._files()
        if self.target is None or self.target.poll() is not None:
            self._start_target()
        self._heard.clear()
        self.said, self.reached, self.crowded_s = "", False, 0.0

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(5)
        self._closing.close()

    def told(self) -> str:
        """What the attack is told: everything, as JSON."""
        told: dict[str, Any] = {
            "token": self.token, "number": self.number, "canary": str(self.canary), "outside": str(self.outside),
            "home": str(self.home), "orkas_home": str(self.orkas_home), "tcp": self._tcp, "udp": self._udp,
            "free": self._free, "sockets": [str(p) for p in self._paths], "target": self._living.pid,
            "runner": os.getpid(), "address": self._address, "terminal": self._tty, "files": self._limits.files,
        }  # fmt: skip
        return json.dumps(told)

    def _files(self) -> None:
        for folder in (self.work, self.outside, self.home / ".ssh", self.orkas_home / "sessions"):
            folder.mkdir(parents=True, exist_ok=True)
        self.canary.write_text("canary")
        self.canary.chmod(0o600)
        self._mtime = self.canary.stat().st_mtime
        (self.home / ".ssh" / "id_probe").write_text(self.secret)
        (self.home / ".bashrc").write_text("canary")
        (self.orkas_home / "secrets.json").write_text(self.secret)
        for git in (self.work / ".git", self.work / "nested" / ".git"):
            for name in ("hooks", "objects", "refs", "worktrees/tree"):
                (git / name).mkdir(parents=True)
            (git / "HEAD").write_text("ref: refs/heads/main\n")
            (git / "config").write_text(_CONFIG)
        (self.work / "tree").mkdir()
        (self.work / "tree" / ".git").write_text(f"gitdir: {self.work}/.git/worktrees/tree\n")
        (self.work / ".mcp.json").write_text("{}")

    def _sockets(self, base: Path) -> None:
        self._paths = [base / "docker.sock", self.home / "agent.sock"]
        self.home.mkdir(parents=True, exist_ok=True)
        for path in self._paths:
            path.unlink(missing_ok=True)
            self._listen("path", socket.AF_UNIX, str(path))
        if sys.platform.startswith("linux"):
            self._listen("abstract", socket.AF_UNIX, "\0" + self.token)
        self._tcp = self._listen("tcp", socket.AF_INET, ("127.0.0.1", 0))
        self._udp = self._listen("udp", socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self._free = unused.getsockname()[1]

    def _listen(self, name: str, family: int, address: Any, kind: int = socket.SOCK_STREAM) -> Any:
        server = self._closing.enter_context(socket.socket(family, kind))
        server.bind(address)
        server.settimeout(0.1)
        if kind == socket.SOCK_STREAM:
            server.listen()
        self._thread(self._serve, name, server)
        return server.getsockname()[1] if family == socket.AF_INET else None

    def _serve(self, name: str, server: socket.socket) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                if server.type == socket.SOCK_DGRAM:
                    server.recv(100)
                else:
                    server.accept()[0].close()
                self._heard.add(name)

    def _thread(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _start_target(self) -> None:
        self.target = target = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _TARGET], env={"PROBE_SECRET": self.secret}, stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL, cwd=self.outside.parent, start_new_session=True,
        )  # fmt: skip
        self._closing.callback(target.wait)
        self._closing.callback(target.kill)
        assert target.stdout is not None
        self._closing.callback(target.stdout.close)
        self._address = int(target.stdout.readline())
        if sys.platform.startswith("linux"):
            self._files_before = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)

    def _terminal(self) -> None:
        self._master, slave = pty.openpty()
        self._tty = os.ttyname(slave)
        os.set_blocking(self._master, False)
        for descriptor in (self._master, slave):
            self._closing.callback(os.close, descriptor)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Meanwhile who listens inside is looked for, and processes are counted."""
        over = threading.Event()
        before = self._processes()
        most = 2 * self._limits.processes + threads()

        def look() -> None:
            last = time.monotonic()
            while not over.wait(0.02):
                crowded = self._processes() - before > most
                self.crowded_s += time.monotonic() - last if crowded else 0
                last = time.monotonic()
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._free), 0.2):
                    self.reached = True

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @staticmethod
    def _processes() -> int:
        return sum(name.isdigit() for name in os.listdir("/proc")) if os.path.isdir("/proc") else 0

    def heard(self, name: str) -> bool:
        """Somebody came to this listener."""
        time.sleep(0.15)  # what was sent may still be on its way
        return name in self._heard

    @property
    def changed(self) -> bool:
        """A file outside is not as it was, or one is new."""
        if not self.canary.is_file() or self.canary.read_text() != "canary":
            return True
        return (self.home / ".bashrc").read_text() != "canary" or len(os.listdir(self.outside)) != 1

    @property
    def mode_changed(self) -> bool:
        info = self.canary.stat()
        return info.st_mode & 0o777 != 0o600 or info.st_mtime != self._mtime

    @property
    def left_behind(self) -> bool:
        found = [Path(folder, self.token) for folder in ("/tmp", "/var/tmp", "/run", "/dev/shm")]  # noqa: S108
        left = [path for path in found if path.exists()]
        for path in left:
            path.unlink()
        return bool(left)

    @property
    def group_made(self) -> bool:
        """There is a control group with our name; it is taken away."""
        found = [path for depth in ("", "*/") for path in Path("/sys/fs/cgroup").glob(f"{depth}{self.token}")]
        for path in found:
            with contextlib.suppress(OSError):
                path.rmdir()
        return bool(found)

    @property
    def target_lives(self) -> bool:
        time.sleep(0.1)
        return self._living.poll() is None

    @property
    def _living(self) -> subprocess.Popen[bytes]:
        assert self.target is not None, "a world is fresh before it is probed"
        return self.target

    @property
    def limits_changed(self) -> bool:
        return resource.prlimit(self._living.pid, resource.RLIMIT_NOFILE) != self._files_before

    @property
    def pointer_turned(self) -> bool:
        pointer = self.work / "tree" / ".git"
        expected = f"gitdir: {self.work}/.git/worktrees/tree\n"
        return pointer.is_symlink() or not pointer.is_file() or pointer.read_text() != expected

    @property
    def terminal_touched(self) -> bool:
        try:
            return bool(os.read(self._master, 100))
        except OSError:
            return False

    @staticmethod
    def runs(words: str) -> bool:
        """A process with these words in its command line."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if words.encode() in path.read_bytes():
                    return True
        return False
