"""The parent of one command: a small program between us and the shell, on Linux.

Whoever loses his parent becomes a child of this program and not of ``init`` (it is a "subreaper"), so everything that
came of the command can be found by parentage, even what left its session and dropped its environment. It is a
program of its own because the setting belongs to a whole process: set in ours, it would hand the orphans of the
embedding program to us, and somebody would have to reap them.

It also keeps our environment out of ``/proc/$PPID``: its own is the clean one of the command. Whoever looks one
level further up still finds ours, as every process of the same user can.

When whoever started it dies, by SIGKILL too, it ends the command and everything that came of it.

Started by path without site packages; imports only what the interpreter has loaded or built in. ``argv``: number of
the status pipe, then the command. Writes the process number of the command and, when it has ended, its exit code
(negative: the signal), each with a newline; ends when no descendant is left.
"""

from __future__ import annotations

import os
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL, _SIGTERM = 9, 15


def main() -> None:
    status = int(sys.argv[1])
    os.set_inheritable(status, False)
    _arm()
    _undo_coercion()
    command = os.fork()
    if command == 0:
        _become(sys.argv[2:])
    os.dup2(0, 1)  # the output of the command ends with its last writer, and that are not we
    os.dup2(0, 2)
    _tell(status, command)
    while True:
        try:
            pid, raw = os.wait()
        except ChildProcessError:
            return
        if pid == command:
            _tell(status, os.waitstatus_to_exitcode(raw))
            os.close(status)


def _arm() -> None:
    """Adopt orphans; be told by SIGTERM when the thread that started us is gone."""
    import _signal  # type: ignore[import-not-found]  # the part of signal that is built in

    _signal.signal(_SIGTERM, _end_all)
    try:
        import _ctypes  # ctypes itself costs 2 ms more

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None: this program
        _ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
        _ctypes.call_function(prctl, (_PR_SET_PDEATHSIG, _SIGTERM, 0, 0, 0))
    except (ImportError, AttributeError, OSError):
        return  # an interpreter without it: groups, sessions and marks still find nearly everybody


def _end_all(*_: object) -> None:
    """Kill our children until there are none: those of a child that died become ours."""
    own = os.getpid()
    while children := _read(f"/proc/{own}/task/{own}/children").split():
        for child in children:
            try:
                os.kill(int(child), _SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.wait()
        except ChildProcessError:
            break
    os._exit(0)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes long to load
            return file.read()
    except OSError:
        return b""


def _become(argv: list[str]) -> None:
    import _signal

    try:
        _signal.signal(_SIGTERM, _signal.SIG_DFL)
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # the interpreter ignores them; a shell must not
            _signal.signal(number, _signal.SIG_DFL)
        os.setsid()
        os.execv(argv[0], argv)  # noqa: S606 - the shell itself was chosen by us
    except OSError as error:
        os.write(2, f"{argv[0]} could not be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _undo_coercion() -> None:
    """The interpreter sets LC_CTYPE where the locale is C; the command gets the environment we were started with."""
    given = _read("/proc/self/environ")
    if given and not any(entry.startswith(b"LC_CTYPE=") for entry in given.split(b"\0")):
        os.environ.pop("LC_CTYPE", None)


def _tell(status: int, number: int) -> None:
    try:
        os.write(status, b"%d\n" % number)
    except OSError:
        return  # nobody listens any more; the children must be waited for all the same


if __name__ == "__main__":
    main()
    os._exit(0)
