"""The parent of one command: a small program between us and the shell, on Linux.

Whoever loses his parent becomes a child of this program and not of ``init`` (it is a "subreaper"), so everything that
came of the command can be found by parentage, even what left its session and dropped its environment. It is a
program of its own because the setting belongs to a whole process: set in ours, it would hand the orphans of the
embedding program to us, and somebody would have to reap them.

It also keeps our environment out of ``/proc/$PPID``: its own is the clean one of the command. Whoever looks one
level further up still finds ours, as every process of the same user can. Its own memory and descriptors are closed to
the command ("not dumpable"): what it tells of the end of the command cannot be forged through ``/proc``.

When whoever started it dies, by SIGKILL too, it ends the command and everything that came of it. In a sandbox with
namespaces it is the first process inside: orphans come to it anyway, and when it dies everybody inside dies.

Started by path without site packages; imports only what the interpreter has loaded or built in. ``argv``: number of
the status pipe, number of the file with the plan of the sandbox or ``-``, then the command. Writes the process number
of the command (as it is called inside) and, when it has ended, its exit code (negative: the signal), each with a
newline; ends when no descendant is left.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than all the rest
    from collections.abc import Callable

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECCOMP = 1, 24, 22
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 36, 38, 4
_SIGINT, _SIGKILL, _SIGTERM = 2, 9, 15
_TIOCSCTTY = 0x540E
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_ON_FILES = 1 | 2 | 4 | 1 << 14 | 1 << 15
"""The rights of Landlock that a rule on something else than a folder may hold."""
_LOOK_S = 0.1
"""Between two looks at what the command uses."""
TOO_MANY, TOO_MUCH = -1_000, -2_000
"""Told instead of the exit code of a command that was ended for its processes, or for its memory."""


def main() -> None:
    status = int(sys.argv[1])
    os.set_inheritable(status, False)
    plan = _plan(sys.argv[2])
    _undo_coercion()
    prctl = _prctl()
    _close_to_others(prctl, needed=bool(plan))
    if not plan.get("namespace"):
        _arm(prctl)
    _look_at_places(plan.get("places", ()))
    libc = _libc() if plan.get("landlock") or plan.get("seccomp") else None
    command = os.fork()
    if command == 0:
        prctl(_PR_SET_DUMPABLE, 1)
        _become(sys.argv[3:], plan, libc)
    _let_go()
    _tell(status, command)
    ended_for = _watch(plan) if plan else [0]
    while True:
        try:
            pid, raw = os.wait()
        except ChildProcessError:
            return
        if pid == command:
            _tell(status, ended_for[0] or os.waitstatus_to_exitcode(raw))
            os.close(status)


def _let_go() -> None:
    """Its input and output are the command's alone: they end with the last who uses them, and that are not we."""
    empty = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(empty, number)
    os.close(empty)


def _plan(number: str) -> dict:  # type: ignore[type-arg]  # plain values of our own making
    if number == "-":
        return {}
    import marshal

    with open(int(number), "rb") as file:  # noqa: PTH123 - a descriptor
        return marshal.loads(file.read())  # type: ignore[no-any-return]  # noqa: S302 - written by who started us


def _look_at_places(places: list[tuple[str, int, int]]) -> None:
    """What was mounted is what was looked at before: a command in the background may have exchanged it for a link."""
    for path, device, number in places:
        try:
            info = os.lstat(path)
        except OSError:
            info = None
        if info is None or (info.st_dev, info.st_ino) != (device, number):
            os.write(2, os.fsencode(path) + b" was exchanged while the sandbox was made; run the command again\n")
            os._exit(127)


def _prctl() -> Callable[[int, int], bool]:
    """``prctl`` with two arguments; False where the interpreter cannot call it."""
    try:
        import _ctypes  # ctypes itself costs 2 ms more

        function = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None: this program
    except (ImportError, AttributeError, OSError):
        return lambda _option, _value: False
    return lambda option, value: _ctypes.call_function(function, (option, value, 0, 0, 0)) == 0


def _close_to_others(prctl: Callable[[int, int], bool], *, needed: bool) -> None:
    """Nobody opens our memory or descriptors through ``/proc``, nor ends us from the keyboard. In a sandbox it is
    needed: without it the command could write to our status, or run in our place."""
    import _signal  # type: ignore[import-not-found]  # the part of signal that is built in

    _signal.signal(_SIGINT, _signal.SIG_IGN)
    if not prctl(_PR_SET_DUMPABLE, 0) and needed:
        os.write(2, b"the launcher could not be closed to the command\n")
        os._exit(127)


def _arm(prctl: Callable[[int, int], bool]) -> None:
    """Adopt orphans; be told by SIGTERM when the thread that started us is gone. Where the interpreter cannot, groups,
    sessions and marks still find nearly everybody."""
    import _signal

    _signal.signal(_SIGTERM, _end_all)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_PDEATHSIG, _SIGTERM)


def _end_all(*_: object) -> None:
    """Kill our children until there are none: those of a child that died become ours."""
    _kill_children()
    os._exit(0)


def _kill_children() -> None:
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


def _watch(plan: dict) -> list[int]:  # type: ignore[type-arg]
    """Look again and again at the memory of the whole command, which no limit of a process holds, and for root at the
    number of processes, which the kernel does not count. What is too much is ended; the list says for what."""
    import _signal

    most, inside, memory = plan["most"], plan["namespace"], plan["memory"]
    threads, free, shared = _machine(), _memory(b"MemAvailable:"), _memory(b"Shmem:")
    ended_for = [0]

    def look(*_: object) -> None:
        if most and (len(os.listdir("/proc")) > most if inside else _machine() - threads > most):  # noqa: PTH208
            ended_for[0] = TOO_MANY
        elif free - _memory(b"MemAvailable:") > memory // 4 and _used(inside, shared, memory) > memory:
            ended_for[0] = TOO_MUCH
        else:
            return
        if inside:
            os.kill(-1, _SIGKILL)
        else:
            _kill_descendants()

    _signal.signal(_signal.SIGALRM, look)
    _signal.setitimer(_signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
    return ended_for


def _memory(name: bytes) -> int:
    """Bytes as the kernel counts them for the whole machine: what it could still give (``MemAvailable``), what lies in
    shared memory and in files in memory, which need not be mapped by anybody (``Shmem``)."""
    return _field(_read("/proc/meminfo"), name)


def _used(inside: bool, shared: int, enough: int) -> int:
    """Bytes that the command holds. At first what its processes share counts for each, which costs little to know; only
    where that is enough, for all of them together, and with it what nobody has mapped."""
    names = [n for n in os.listdir("/proc") if n.isdigit()] if inside else list(map(str, _descendants()))  # noqa: PTH208
    pages = {name: _read(f"/proc/{name}/statm").split() for name in names}
    size = os.sysconf("SC_PAGE_SIZE")
    resident = {name: int(fields[1]) * size for name, fields in pages.items() if len(fields) > 1}
    beyond = max(0, _memory(b"Shmem:") - shared)
    most = sum(resident.values()) + beyond
    if most <= enough:
        return most
    own = mapped = 0
    for name, alone in resident.items():
        told = _read(f"/proc/{name}/smaps_rollup")
        own += _field(told, b"Pss_Anon:") if told else alone  # one that closed itself to us counts whole
        mapped += _field(told, b"Pss_Shmem:")
    return own + max(mapped, beyond)


def _field(told: bytes, name: bytes) -> int:
    """A number of kilobytes in one of the kernel's tables, as bytes."""
    _, _, rest = told.partition(name)
    return int(rest.split(None, 1)[0]) * 1024 if rest else 0


def _machine() -> int:
    """Threads of the whole machine."""
    return int(_read("/proc/loadavg").split()[3].partition(b"/")[2])


def _kill_descendants() -> None:
    """End all that came of us: first stopped, so that nobody starts another, then killed."""
    for number in (19, _SIGKILL):  # SIGSTOP
        known: set[int] = set()
        while fresh := _descendants() - known:
            known |= fresh
            for pid in fresh:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue


def _descendants() -> set[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and (stat := _read(f"/proc/{name}/stat")):
            children.setdefault(int(stat[stat.rfind(b")") + 2 :].split(None, 2)[1]), []).append(int(name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            found.add(pid)
            waiting.append(pid)
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes long to load
            return file.read()
    except OSError:
        return b""


def _become(argv: list[str], plan: dict, libc: object) -> None:  # type: ignore[type-arg]
    import _signal

    try:
        for number in (_SIGTERM, _SIGINT):
            _signal.signal(number, _signal.SIG_DFL)
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # the interpreter ignores them; a shell must not
            _signal.signal(number, _signal.SIG_DFL)
        os.setsid()
        if os.isatty(0):
            import fcntl

            fcntl.ioctl(0, _TIOCSCTTY, 0)
        if plan:
            _limit(plan["limits"])
            _confine(plan, libc)
        os.execv(argv[0], argv)  # noqa: S606 - the shell itself was chosen by us
    except OSError as error:
        os.write(2, f"{argv[0]} could not be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _limit(limits: list[tuple[int, int]]) -> None:
    """Each as given, or as it was where that is less. The kernel shall end the command before it ends others."""
    import resource

    for which, most in limits:
        soft, hard = resource.getrlimit(which)
        hard = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (hard if soft == resource.RLIM_INFINITY else min(soft, hard), hard))
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write("800")
    except OSError:
        return


def _libc() -> object:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _confine(plan: dict, libc: object) -> None:  # type: ignore[type-arg]
    """Rules and filter, never to be taken off. Whatever of it cannot be set in force ends the start.

    Raises:
        OSError: the kernel refuses.
    """
    if libc is None:
        return
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))  # type: ignore[attr-defined]
    if plan.get("powerless") and os.geteuid() == 0:
        capability = 0
        while libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:  # type: ignore[attr-defined]
            capability += 1
    if rules := plan.get("landlock"):
        _restrict(rules, libc)
    if program := plan.get("seccomp"):
        import ctypes

        buffer = ctypes.create_string_buffer(program, len(program))
        header = (len(program) // 8).to_bytes(8, sys.byteorder) + ctypes.addressof(buffer).to_bytes(8, sys.byteorder)
        _checked(libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0))  # type: ignore[attr-defined]


def _restrict(rules: dict, libc: object) -> None:  # type: ignore[type-arg]
    syscall = libc.syscall  # type: ignore[attr-defined]
    handled = b"".join(rules[name].to_bytes(8, sys.byteorder) for name in ("fs", "net", "scoped"))
    size = len(handled) if rules["scoped"] else 16 if rules["net"] else 8
    ruleset = _checked(syscall(_LANDLOCK_CREATE, handled, size, 0))
    for path, rights in rules["rules"]:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # gone meanwhile: nothing to allow
        is_folder = os.fstat(folder).st_mode & 0o170000 == 0o040000
        fitting = rights if is_folder else rights & _ON_FILES
        rule = fitting.to_bytes(8, sys.byteorder) + folder.to_bytes(4, sys.byteorder)
        _checked(syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0))
        os.close(folder)
    _checked(syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, f"the sandbox was refused by the kernel ({os.strerror(number)})")
    return result


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
