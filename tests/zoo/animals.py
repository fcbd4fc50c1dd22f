"""Commands that are hard to run: each hangs, floods, hides, or turns on those who run it, in a way of its own."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ANIMALS", "Animal"]


class Animal(NamedTuple):
    name: str
    command: str
    told: str = ""
    """A pattern that is found in the result."""
    quick: bool = False
    """Among those that are always run."""
    tty: bool = False
    limit_s: float = 1.0
    soon: bool = False
    """It ends by itself at once, whatever its limit is."""
    walls: bool = False
    """Only inside the walls: without them it would harm the machine."""


LIMIT = r"time limit of 1 s reached"
LEFT = r"left running were ended with it"


def python(code: str) -> str:
    """The code as a command. It holds no double quote, dollar or backquote."""
    return f'python3 -c "{code}"'


DAEMON = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
IGNORE = "import signal, time\nfor n in range(1, 32):\n  n in (9, 17, 19) or signal.signal(n, signal.SIG_IGN)\n"

ANIMALS = [
    # who waits for input
    Animal("cat", "cat; echo on", r"\Aon\n\[exit code 0\]", quick=True, soon=True),
    Animal("read", "read x; echo got:$x", r"\Agot:\n", soon=True),
    Animal("python reads", python("print(repr(__import__('sys').stdin.read()))"), r"\A''\n", soon=True),
    Animal("the terminal", "exec 3<>/dev/tty && echo yes", r"No such device|cannot|exit code 1", quick=True, soon=True),
    Animal("the terminal again", "cat </dev/tty; echo on", r"on\n\[exit code 0\]", soon=True),
    Animal("a password", python("import getpass; getpass.getpass()"), r"EOFError", soon=True),
    Animal("an editor", "mkdir r; cd r; git init -q; git -c user.name=a -c user.email=b commit --allow-empty", r"exit code 1\]"),
    Animal("a pager", "cd /; git -c core.pager=less -p help -a | head -1; man bash | head -1", "exit code"),
    Animal("a terminal that nobody types at", "read -p 'sure? ' x", rf"sure\? *\n\[{LIMIT}", tty=True, quick=True),
    Animal("a password at a terminal", python("import getpass; getpass.getpass()"), r"Password: *\n\[time", tty=True),
    Animal("vi", "vi file || ex file", "exit code|time limit", tty=True),
    Animal("raw mode left on", "stty raw -echo; printf 'a\\rb\\n'; exit 3", r"exit code 3", tty=True, soon=True),
    # floods
    Animal("yes", "yes", LIMIT, quick=True),
    Animal("yes to stderr", "yes >&2", LIMIT),
    Animal("yes at a terminal", "yes", LIMIT, tty=True),
    Animal("both streams", "yes out & yes err >&2", "left running|time limit", quick=True),
    Animal("a line of 4 MB", "head -c 4000000 /dev/zero | tr '\\0' a", r"of 4,000,000 bytes left out", quick=True, limit_s=5),
    Animal("a line of 200 MB", "head -c 200000000 /dev/zero | tr '\\0' a", r"of 200,000,000 bytes left out", limit_s=15),
    Animal("/dev/zero", "cat /dev/zero", LIMIT, quick=True),
    Animal("/dev/urandom", "cat /dev/urandom", LIMIT),
    Animal("a million short lines", "seq 1 1000000", r"\n1000000\n\[exit code 0\]", limit_s=5),
    # bytes
    Animal("invalid bytes", r"printf '\377\376\000x\200'", "\\A\ufffd\ufffd\u2400x\ufffd\n", quick=True),
    Animal("all bytes", python("import os; os.write(1, bytes(range(256)))"), r"exit code 0\]"),
    Animal("an elf", "head -c 3000 /bin/sh", r"exit code 0\]"),
    Animal("scripts of the world", "echo 'héllo 世界 مرحبا 🏳️‍🌈 \u202e'", "世界 مرحبا 🏳️‍🌈 \ufffd", quick=True),
    Animal("half a character", r"printf 'a\360\237'", "\\Aa\ufffd\n"),
    Animal("clipboard and screen", r"printf '\033]52;c;aGk=\007\033[2Jciao\033[31m'", r"ciao", quick=True),
    Animal("clipboard at a terminal", r"printf '\033]52;c;aGk=\007\033[2Jciao'", r"\Aciao\n\[exit", tty=True),
    # who stays behind
    Animal("a child", "sleep 60 & echo ready", rf"\Aready\n\[.*{LEFT}", quick=True, soon=True),
    Animal("a session", "setsid sleep 60 & echo ready", LEFT, soon=True),
    Animal("nohup and disown", "nohup sleep 60 >/dev/null 2>&1 & disown; echo ready", LEFT, quick=True, soon=True),
    Animal("a daemon", python(DAEMON + "time.sleep(60)"), LEFT, quick=True, soon=True),
    Animal("a daemon without environment", "env -i setsid sleep 60 >/dev/null 2>&1 </dev/null & echo x", LEFT, soon=True),
    Animal("a daemon that ignores all", python(DAEMON + IGNORE + "time.sleep(60)"), LEFT, soon=True),
    Animal("a writer after the end", "(sleep 0.1; while :; do echo late; sleep 0.1; done) & echo first", LEFT, soon=True),
    Animal("a pipe in a grandchild", "(sh -c 'sleep 60 &') | cat & exec 1>&-; true", LEFT, soon=True),
    Animal("a coprocess", "coproc sleep 60; echo ready", LEFT, soon=True),
    Animal("a family", "for i in 1 2 3 4 5; do (sleep 60 & setsid sleep 60 &) ; done; echo x", LEFT, soon=True),
    Animal("a daemon at a terminal", "setsid sleep 60 & echo ready", "ready", tty=True, soon=True),
    # who does not listen
    Animal("TERM", "trap '' TERM; sleep 60; sleep 60", LIMIT, quick=True),
    Animal("TERM, HUP, INT", "trap '' TERM HUP INT QUIT; while :; do sleep 60; done", LIMIT, tty=True),
    Animal("every signal", python(IGNORE + "time.sleep(60)"), LIMIT, quick=True),
    Animal("an exit that never comes", "trap 'while :; do sleep 1; done' EXIT TERM; sleep 60", LIMIT),
    Animal("exit by exit", "trap 'trap - EXIT; exec sleep 60' EXIT; exit 1", LIMIT),
    Animal("it stops itself", "kill -STOP $$; echo on", LIMIT, quick=True),
    Animal("it stops its group", "sleep 60 & kill -STOP 0; echo on", LIMIT),
    Animal("it spawns when it is told to end", python(
        "import os, signal, time\nsignal.signal(15, lambda *a: [os.fork() for _ in range(3)])\nwhile True: time.sleep(1)"
    ), LIMIT),
    Animal("vfork and wait", python("import subprocess; subprocess.Popen(['sleep', '60'], close_fds=False).wait()"), LIMIT),
    Animal("busy", "while :; do :; done", LIMIT),
    # who turns on others
    Animal("its group", "kill -9 0; echo on", "exit code 137|killed", quick=True, soon=True),
    Animal("its parent", "kill -9 $PPID; sleep 60", "exit code|time limit"),
    Animal("its parent, politely", "kill -TERM $PPID; kill -STOP $PPID; kill -HUP $PPID; sleep 60", "exit code|time limit"),
    Animal("everybody", python("import os; os.kill(-1, 9)"), "exit code", walls=True),
    Animal("a fork bomb", python("import os, time\nfor _ in range(9): os.fork()\ntime.sleep(60)"), "time limit|more processes",
           walls=True, quick=True),
    Animal("a fork bomb without end", python("import os\nwhile True: os.fork()"), "time limit|more processes", walls=True),
    # what runs out
    Animal("descriptors", "ulimit -n 8; for i in 3 4 5 6 7 8 9; do eval \"exec $i</dev/null\"; done; ls", "exit code"),
    Animal("ulimit games", "ulimit -u 1 -v 1000; ls | cat; ulimit -t 1; echo on", "exit code"),
    Animal("a huge environment", "export X=$(head -c 100000 /dev/zero | tr '\\0' a); env | wc -c", r"\A1\d{5}\n", limit_s=3),
    Animal("too many arguments", "/bin/echo $(seq 1 2000000) | wc -c", "Argument list too long|exit code", limit_s=5),
    Animal("a giant sparse file", "truncate -s 15G big && wc -c <big >/dev/null & sleep 0.2; truncate -s 100T big", "too large|exit",
           limit_s=2),
    Animal("a full device", "cat /dev/zero >/dev/full", "No space left", quick=True, soon=True),
    Animal("a full tmpfs", "head -c 100000000 /dev/zero >/dev/shm/full || echo full", "full|denied", walls=True, limit_s=3),
    Animal("memory", python("x = []\nwhile True: x.append(bytearray(1 << 20)) if len(x) < 300 else None"), LIMIT),
    # places and ends
    Animal("a fifo that nobody reads", "mkfifo f; echo x >f", LIMIT, quick=True),
    Animal("a fifo that nobody writes", "mkfifo f; cat f", LIMIT),
    Animal("its folder is gone", "mkdir d; cd d; rmdir ../d; pwd; ls; sleep 0.1; cd /; echo on", r"on\n\[exit code 0\]"),
    Animal("stdout closed", "exec 1>&-; echo lost; sleep 0.2; echo x >&2", "x\n", quick=True, soon=True),
    Animal("all closed", "exec 0<&- 1>&- 2>&-; sleep 60", LIMIT),
    Animal("nothing to say", "true", r"\A\(no output\)\n\[exit code 0\]\Z", quick=True, soon=True),
    Animal("no such program", "no-such-program-here", "exit code 127", soon=True),
    Animal("no sense", "if then fi (", "exit code 2", soon=True),
    Animal("killed", "kill -SEGV $$", "killed by SIGSEGV", soon=True),
    Animal("a pipe that closes", "yes | head -1; echo ${PIPESTATUS[0]}", r"\Ay\n141\n", quick=True, soon=True),
]
