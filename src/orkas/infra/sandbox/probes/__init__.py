"""Forty ways out of the sandbox, tried for real. ``run`` gives one result a probe.

Success is told from outside: canary files, a live process of the same user, sockets that somebody listens on, a
secret that turns up in what was printed. What only the inside can see (a system call that succeeds) it says itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from orkas.infra.process import attempt, launch
from orkas.infra.sandbox.finding import Backend
from orkas.infra.sandbox.making import profile
from orkas.infra.sandbox.probes.world import World
from orkas.infra.sandbox.profile import Limits
from orkas.infra.sandbox.restorer import Restorer

__all__ = ["PROBES", "Probe", "Result", "run"]


class Probe(Struct, frozen=True):
    """One way out."""

    name: str
    tries: str
    """What it tries, as the end of "it tries to …"."""
    out: Callable[[World], bool]
    """Whether it got out, seen from outside."""


class Result(Struct, frozen=True):
    """How it went. ``detail``: what the inside said, for who looks into it."""

    name: str
    tries: str
    contained: bool
    detail: str = ""


LIMITS = Limits(processes=100, memory=256 << 20, file=64 << 20, files=1_000)
_TIME_S = 6.0
SECRET = "ORKAS_PROBE_SECRET"  # noqa: S105 - the name of a variable
"""A canary in our own environment, for attacks on it."""


def run(backend: Backend | None, only: str | None = None) -> Iterator[Result]:
    """Try every probe, or one, against a backend (None: without walls), each in a fresh world.

    Wants ``HOME`` and ``ORKAS_HOME`` to be folders made for this (``orkas.infra.sandbox.probes.__main__``).
    """
    with World(LIMITS) as world:
        for probe in PROBES:
            if only in (None, probe.name):
                world.fresh()
                yield _tried(probe, backend, world)


_ATTACKS = Path(__file__).with_name("attacks.py")


def _tried(probe: Probe, backend: Backend | None, world: World) -> Result:
    import shlex

    words = [sys.executable, "-I", "-S", str(_ATTACKS), probe.name, world.told()]
    start = launch(shlex.join(words), cwd=world.work)
    notes: list[str] = []
    if backend is not None:
        made = profile(world.work, env=start.env, limits=LIMITS)
        restorer = Restorer(made, everything=backend.after, notes=notes)
        start = launch(shlex.join(words), cwd=world.work, wrapping=backend.wrap(made))
        start.gone = restorer.settle
    with world.watched():
        code, said = attempt(start, _TIME_S)
    world.said = said.decode(errors="replace")
    secrets = (world.secret, os.environ.get(SECRET) or world.secret)
    out = code is None or probe.out(world) or any(word in world.said for word in ("ESCAPED", *secrets))
    return Result(probe.name, probe.tries, not out, "; ".join([world.said.strip()[-300:], *notes]))


def _evil(world: World, *paths: str) -> bool:
    """Something that git, a shell or an editor would obey says what the probe wrote."""
    for path in paths:
        for found in world.work.glob(path):
            try:
                if "evil" in found.read_text(errors="replace"):
                    return True
            except OSError:
                continue
    return False


def _late(world: World) -> bool:
    (world.work / "over").touch()  # the command has ended: whoever is left of it says so
    time.sleep(1)
    return (world.work / "late").exists() or world.runs(f"30.{world.number}")


_GIT = (".git/config", ".git/hooks/*", "nested/.git/config", "nested/.git/hooks/*", "tree/.git")
_quiet: Callable[[World], bool] = lambda _world: False  # noqa: E731 - a table entry
_changed: Callable[[World], bool] = lambda world: world.changed  # noqa: E731

PROBES = (
    Probe("write_outside", "write and remove files outside of the working folder", _changed),
    Probe("write_tmp", "leave a file in the machine's temporary folders", lambda w: w.left_behind),
    Probe("read_keys", "read a key in the home folder", _quiet),
    Probe("write_through_link", "write outside through a symbolic link", _changed),
    Probe("move_out", "move a file out of the working folder, and another in", _changed),
    Probe("hard_links", "reach files by hard links, in and out", _changed),
    Probe("tcp", "connect by TCP", lambda w: w.heard("tcp")),
    Probe("udp", "send by UDP", lambda w: w.heard("udp")),
    Probe("listen", "let somebody outside connect", lambda w: w.reached),
    Probe("raw_packets", "open raw, packet, netlink and vsock sockets", _quiet),
    Probe("abstract_socket", "connect to an abstract socket", lambda w: w.heard("abstract")),
    Probe("path_socket", "connect to sockets in the file system (docker, ssh-agent, D-Bus)", lambda w: w.heard("path")),
    Probe("signal_outside", "kill a process outside", lambda w: not w.target_lives),
    Probe("environ_of_target", "read the environment of a process outside", _quiet),
    Probe("trace_target", "trace a process outside", lambda w: not w.target_lives),
    Probe("change_mode", "change mode and times of a file outside", lambda w: w.mode_changed),
    Probe("git_files", "change .git/config and .git/hooks", lambda w: _evil(w, *_GIT)),
    Probe("rename_git", "rename .git, or a folder above it, and make another", lambda w: _evil(w, *_GIT)),
    Probe("link_git", "put a link in place of .git, turn a worktree's pointer",
          lambda w: _evil(w, ".git/config", "tree/.git/config") or w.pointer_turned),
    Probe("new_repository", "make a new repository that runs programs", lambda w: _evil(
        w, "fresh/.git/config", "deep/er/fresh/.git/config", "fresh/.git/hooks/pre-commit",
        "deep/er/fresh/.git/hooks/pre-commit")),
    Probe("editor_files", "write what editors, shells and agents obey", lambda w: _evil(
        w, ".vscode/*", ".mcp.json", ".envrc", ".claude/*", ".bashrc", ".orkas/*")),
    Probe("swap_links", "win a race with a link that is swapped", _changed),
    Probe("memory_of_target", "read another process's memory, root and folder", _quiet),
    Probe("limits_of_target", "change the limits of a process outside", lambda w: w.limits_changed),
    Probe("settings_of_the_kernel", "write below /proc/sys", _quiet),
    Probe("groups", "make or change control groups, write below /sys",
          lambda w: w.group_made),
    Probe("environ_of_parents", "read the environment of Orkas itself", _quiet),
    Probe("device_nodes", "make and open devices", _quiet),
    Probe("new_namespaces", "make a namespace of its own", _quiet),
    Probe("mounts", "mount, unmount, change the root", _quiet),
    Probe("gain_rights", "gain rights by programs that give them", _quiet),
    Probe("kernel_keys", "use the kernel's keys", _quiet),
    Probe("kernel_doors", "open io_uring, bpf, perf, userfaultfd and the x32 calls", _quiet),
    Probe("terminals", "type into, or write on, a terminal", lambda w: w.terminal_touched),
    Probe("kernel_log", "read the kernel's log and memory", _quiet),
    Probe("fork_bomb", "start processes without end", lambda w: w.crowded_s > 0.4),
    Probe("memory", "use memory without end", _quiet),
    Probe("disk_and_files", "fill the disk with one file, open files without end",
          lambda w: any(p.stat().st_size > LIMITS.file for p in w.work.glob("large"))),
    Probe("stay_alive", "leave a process behind that nobody knows", _late),
    Probe("watch_home", "watch the home folder", _quiet),
)  # fmt: skip
