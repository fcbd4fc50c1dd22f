"""Which programs start others that they are given, and which only read what they are given. Data only."""

from __future__ import annotations

import re

from orkas.harness.commands.known import DISK, SHELLS
from orkas.infra.patterns import lazy

WRAPPERS: dict[str, tuple[str, ...]] = {
    "env": ("-u", "--unset", "-C", "--chdir", "-a", "--argv0"), "command": (), "builtin": (), "exec": ("-a",),
    "nohup": (), "time": ("-f", "-o", "--format", "--output"), "nice": ("-n", "--adjustment"), "noglob": (),
    "ionice": ("-c", "-n", "--class", "--classdata"), "timeout": ("-k", "-s", "--signal", "--kill-after"),
    "gtimeout": ("-k", "-s", "--signal", "--kill-after"), "setsid": (), "nocorrect": (),
    "stdbuf": ("-i", "-o", "-e", "--input", "--output", "--error"), "unbuffer": (),
    "chrt": ("-T", "-P", "-D", "--sched-runtime", "--sched-period", "--sched-deadline"),
    "taskset": (), "setarch": (), "linux64": (), "linux32": (), "busybox": (), "toybox": (),
    "strace": ("-o", "-e", "-p", "-s", "-u", "-E", "-a", "-b", "-I", "-O", "-S", "-P", "-X", "-U", "--output",
    "--trace"),
    "ltrace": ("-o", "-e", "-p", "-s", "-u", "-a", "-l", "-n", "-x", "-F", "-D", "-A", "-w"),
    "watch": ("-n", "--interval", "-q", "--equexit"), "flock": ("-w", "--timeout", "-E", "--conflict-exit-code"),
    "caffeinate": ("-t", "-w"), "prlimit": ("-p", "--pid", "-o", "--output"), "choom": ("-n",),
    "proot": ("-r", "-b", "-w"), "fakeroot": ("-i", "-s", "-l"), "faketime": (), "xvfb-run": ("-n", "-s", "-e", "-f"),
    "dbus-run-session": ("--config-file",), "systemd-run": ("-p", "-u", "--unit", "--property", "-E", "--setenv", "-M"),
    "systemd-inhibit": (), "systemd-cat": ("-t", "-p"), "catchsegv": (), "arch": ("-arch",), "trickle": ("-d", "-u"),
    "cpulimit": ("-l",), "firejail": (), "bwrap": (
        "--proc", "--dev", "--tmpfs", "--mqueue", "--dir", "--chdir", "--unsetenv", "--lock-file", "--sync-fd", "--uid",
        "--gid", "--hostname", "--exec-label", "--file-label", "--seccomp", "--add-seccomp-fd", "--block-fd",
        "--userns", "--userns2", "--pidns", "--cap-add", "--cap-drop", "--args", "--overlay-src", "--tmp-overlay",
        "--ro-overlay", "--perms", "--size", "--json-status-fd", "--info-fd", "--remount-ro", "--argv0"),
    "rlwrap": ("-f", "-a", "-P"), "winpty": (),
    "numactl": ("-N", "-m", "-C", "-p", "-i"), "torsocks": (), "proxychains": ("-f",), "proxychains4": ("-f",),
    "perf": ("-e", "-o", "-F", "-c", "-p", "-t", "-C", "-r", "-I", "--event", "--output"), "valgrind": (),
    "hyperfine": ("-w", "-r", "-n", "-m", "-M", "-L", "-P", "-S"), "guix": (), "nix": (),
    "nix-shell": ("-p", "-I", "-A", "--attr", "--packages"), "entr": (), "ld.so": ("--library-path", "--preload",
    "--argv0"),
    "watchexec": ("-w", "-e", "-i", "-f", "-s", "-d", "--watch", "--exts", "--ignore", "--filter", "--signal",
    "--debounce"),
    "nodemon": ("-w", "-e", "-i", "-d", "--watch", "--ext", "--ignore", "--delay", "--config", "--signal"),
    "direnv": (), "gdb": ("-x", "-p", "-d", "-cd"), "cgdb": (), "lldb": ("-n", "-p", "-w"), "rr": (), "cross-env": (),
    "dotenv": ("-e", "-f", "-p", "-c"), "dotenvx": ("-f", "-e"), "chronic": (), "ifne": ("-n",), "eatmydata": (),
    "softlimit": ("-m", "-o", "-f"), "chpst": ("-u", "-e", "-n", "-m"), "envdir": (), "setlock": (),
    "daemonize": ("-c", "-e", "-o", "-p"),
    "libtool": (), "gtime": ("-f", "-o"), "ccache": (), "sccache": (), "distcc": (), "heaptrack": ("-o",), "rustup": (),
    "fakechroot": (), "reptyr": (), "retry": ("-t", "-d"), "wait-for-it": (), "tini": ("-p", "-e"), "dumb-init": (),
    "s6-setuidgid": (), "start-stop-daemon": ("-p", "-n", "-u", "-c", "-d", "--pidfile", "--name", "--chuid",
    "--chdir"),
    "run-parts": (), "aws-vault": (), "op": (), "doppler": (), "infisical": (), "asdf": (), "mise": (), "pyenv": (),
    "rbenv": (), "nodenv": (), "volta": (), "fnm": (), "nvm": (), "sshpass": ("-p", "-f", "-d", "-P"),
    "cgexec": ("-g",), **dict.fromkeys(["mpirun", "mpiexec", "orterun", "prun"], (
        "-n", "-np", "-c", "-N", "-H", "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--map-by",
        "--bind-to", "--mca", "-x", "-wdir")),
    "srun": ("-n", "-N", "-p", "-c", "-t", "-J", "-A", "-w", "-x", "-G", "-o", "-e", "-i", "-D", "--ntasks", "--nodes",
    "--partition", "--time", "--mem", "--gres", "--account", "--job-name"),
    **dict.fromkeys(["vglrun", "optirun", "primusrun", "gamemoderun", "mangohud", "tsocks", "dbus-launch", "devbox",
    "devenv", "pkgx", "salloc", "aprun", "jsrun", "runcon", "pexec", "cset", "catatonit", "supervise",
    "box64", "box86", "wine", "wine64"], ()),
    **dict.fromkeys(["xterm", "konsole", "gnome-terminal", "alacritty", "kitty", "wezterm", "urxvt", "rxvt", "st",
    "lxterminal", "xfce4-terminal", "terminator", "tilix", "foot", "mate-terminal", "x-terminal-emulator"], (
        "-title", "-T", "-geometry", "-fn", "-bg", "-fg", "-n", "--title", "--working-directory", "-w")),
}  # fmt: skip
"""Programs whose arguments are, behind their own, another command; the flags that take a value."""

POSITIONALS = {
    "timeout": 1, "gtimeout": 1, "chrt": 1, "taskset": 1, "flock": 1, "faketime": 1, "setarch": 1, "perf": 1,
    "direnv": 2, "rr": 1, "guix": 1, "nix": 1, "envdir": 1, "setlock": 1, "doppler": 1, "infisical": 1, "rustup": 2,
    "aws-vault": 2, "op": 1, "asdf": 1, "mise": 1, "pyenv": 1, "rbenv": 1, "nodenv": 1, "volta": 1, "fnm": 1, "nvm": 2,
    "wait-for-it": 1, "s6-setuidgid": 1, "devbox": 1, "devenv": 1, "runcon": 1, "wezterm": 1,
}  # fmt: skip
"""How many arguments of its own a wrapper has before the command."""

TAKE_TWO = {"bwrap": (
    "--bind", "--bind-try", "--dev-bind", "--dev-bind-try", "--ro-bind", "--ro-bind-try", "--symlink", "--setenv",
    "--file", "--bind-data", "--ro-bind-data", "--chmod", "--overlay",
)}  # fmt: skip
"""Flags of wrappers that take two values."""

_TERMINAL = ("-e", "-x", "--command", "--execute", "--")
COMMAND_BEHIND: dict[str, tuple[str, ...]] = {
    "nix": ("-c", "--command"), "start-stop-daemon": ("--exec", "--startas", "-x", "-a"),
    **dict.fromkeys(["xterm", "konsole", "gnome-terminal", "alacritty", "urxvt", "rxvt", "st", "lxterminal",
    "xfce4-terminal", "terminator", "tilix", "mate-terminal", "x-terminal-emulator"], _TERMINAL),
}  # fmt: skip
"""Options of wrappers behind which all the rest is the command."""

CODE_OPTIONS: dict[str, tuple[str, ...]] = {
    "flock": ("-c", "--command"), "nix-shell": ("--run", "--command"), "nodemon": ("-x", "--exec"),
    "hyperfine": ("--prepare", "-p", "--setup", "--cleanup", "--conclude", "-c", "-s"),
    "gdb": ("-ex", "-iex", "--eval-command", "-eval-command"), "lldb": ("-o", "-O", "--one-line"),
}  # fmt: skip
"""Options of wrappers whose value is a command line."""

_UV = (
    "--with", "--with-requirements", "--with-editable", "--python", "-p", "--extra", "--group", "--env-file",
    "--project", "--directory", "--index-url", "--index", "--package", "--only-group", "--no-group", "-w", "--from",
)  # fmt: skip
_NODE = ("-w", "--workspace", "-p", "--package", "--prefix", "-C", "--dir", "--filter", "-F", "--cwd")
_RUN = ("run", "exec")
RUNNERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "uv": (_UV, ("run",)), "uvx": (_UV, ()), "rye": ((), ("run",)), "pipx": (("--spec", "--python", "--pip-args"),
    ("run",)),
    "poetry": (("-C", "-P", "--directory", "--project"), _RUN), "pipenv": (("--python",), _RUN), "pdm": (("-p",
    "--project", "-g"), _RUN),
    "hatch": (("-e", "--env"), ("run",)), "bundle": (("--gemfile",), ("exec",)), "pixi": (("-e", "--environment"),
    _RUN),
    "conda": (("-n", "-p", "--name", "--prefix", "--cwd"), ("run",)), "mamba": (("-n", "-p", "--name", "--prefix"),
    ("run",)),
    "micromamba": (("-n", "-p", "--name", "--prefix"), ("run",)), "npm": (_NODE, ("exec", "x")), "pnpm": (_NODE,
    ("exec", "dlx")),
    "yarn": (_NODE, ("exec", "dlx")), "npx": (_NODE, ()), "bunx": (_NODE, ()), "pnpx": (_NODE, ()),
}  # fmt: skip
"""Runners of a project's programs: the flags that take a value; the verbs behind which a program stands (none: at
once)."""

START_OTHERS = frozenset({
    "entr", "watchexec", "parallel", "expect", "concurrently", "foreman", "honcho", "pm2", "forever", "screen", "tmux",
    "at", "batch", "supervisord", "ts", "tsp", "nq", "sem", "daemon", "open", "xdg-open", "ssh-agent", "dtach",
    "abduco", "socat", "tcpsvd",
})  # fmt: skip
"""Not wrappers in the table above, but known to start what they are given."""

MAY_BE_TOLD = SHELLS | DISK | {"rm", "dd", "env", "xargs", "find", "busybox", "nohup", "chmod", "chown", "exec",
"command"}
"""Words among the arguments of an unknown program that are looked at as if it ran them."""

READERS = frozenset({
    # show and look
    "cat", "tac", "nl", "head", "tail", "bat", "batcat", "most", "pg", "echo", "print", "ls", "ll", "la", "dir",
    "exa", "eza", "lsd", "tree", "stat", "file", "wc", "cksum", "md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum",
    "which", "whereis", "whatis", "apropos", "info", "help", "tldr", "cheat", "type", "whence", "locate", "mlocate",
    "plocate",
    "basename", "dirname", "realpath", "readlink", "strings", "hexdump", "od", "hd", "figlet", "cowsay", "say",
    "banner",
    "pgrep", "pidof", "ps", "top", "htop", "lsof", "id", "groups", "getent", "finger", "users", "who", "w", "last",
    "du", "df",
    "notify-send", "logger", "wall", "ldd", "nm", "objdump", "readelf", "size", "date", "uname", "hostname",
    "journalctl", "dmesg",
    # search and transform
    "grep", "egrep", "fgrep", "zgrep", "ggrep", "ack", "ag", "ugrep", "rga", "pcregrep", "git-grep", "jq", "yq",
    "gron", "fx", "xmllint",
    "fzf", "sk", "cut", "tr", "uniq", "comm", "join", "paste", "column", "fold", "fmt", "expand", "rev", "seq", "look",
    "diff", "cmp", "sdiff", "colordiff", "delta", "wdiff", "diffstat", "test", "[", "[[", "expr", "true", "false", ":",
    "aspell", "hunspell", "codespell", "cspell", "vale", "markdownlint", "shellcheck", "hadolint", "yamllint",
    "pandoc", "mdcat", "glow",
    "tokei", "cloc", "scc", "ctags", "trans", "dict", "wn",
    # files and folders
    "mkdir", "touch", "basenc", "gzip", "gunzip", "zcat", "xz", "bzip2", "zstd", "mktemp", "code", "subl", "nano",
    "micro", "cd", "export",
    # packages, builds and tests; words behind them are names
    "apt", "apt-get", "apt-cache", "apt-file", "aptitude", "dpkg", "dpkg-query", "rpm", "dnf", "yum", "pacman",
    "apk", "brew", "port",
    "snap", "flatpak", "pip", "pip3", "gem", "cargo", "go", "rustc", "cmake", "meson", "bazel", "gradle", "mvn",
    "dotnet", "composer",
    "mix", "stack", "cabal", "opam", "luarocks", "cpan", "cpanm", "pytest", "py.test", "tox", "nox", "jest",
    "vitest", "mocha", "ava",
    "rspec", "phpunit", "bats", "ctest", "playwright", "cypress", "karma", "ruff", "mypy", "black", "flake8",
    "pylint", "isort",
    "eslint", "prettier", "tsc", "gcc", "g++", "clang", "cc", "c++", "javac", "task", "rake", "invoke", "fab",
    "nix-env",
    # notes and requests of a project
    "gh", "glab", "hub", "jira", "tig", "svn", "hg", "aws", "az", "terraform", "http", "httpie", "xh", "aider",
    "redis-cli", "mongosh",
    "declare", "typeset", "local", "readonly", "let", "unset", "return", "exit", "jobs", "fg", "bg", "disown",
    "kill", "history",
    "ulimit", "umask", "getopts", "wait", "times", "shopt", "suspend", "logout", "dirs", "caller", "unalias",
    "break", "continue",
})  # fmt: skip
"""Programs for which the name of another among their arguments is a word to look for, to show or to name."""
RECIPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(["make", "gmake"], ("Makefile", "makefile", "GNUmakefile")), "just": ("justfile", "Justfile"),
    **dict.fromkeys(["npm", "pnpm", "yarn", "bun", "npx"], ("package.json",)), "task": ("Taskfile.yml",),
    "cargo": ("build.rs", "Cargo.toml"), "pytest": ("conftest.py",), "tox": ("tox.ini",), "rake": ("Rakefile",),
    "pre-commit": (".pre-commit-config.yaml",), "gradle": ("build.gradle",), "cmake": ("CMakeLists.txt",),
}  # fmt: skip
"""Programs that run what stands in a file of the working folder."""
COMPILERS = frozenset({"gcc", "g++", "clang", "cc", "c++", "rustc", "javac", "go", "pandoc", "tsc", "touch", "cargo",
"gh", "xmllint", "zstd", "ctags"})
"""Of these, those that write where an option says."""

ESCAPES: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(["make", "gmake"], lazy(r"^(-E|MAKEFLAGS=|GNUMAKEFLAGS=|\.SHELLFLAGS)|\$\(shell")),
    **dict.fromkeys(["bc", "dc"], lazy(r"!\s*[A-Za-z/]")),
    "m4": lazy(r"syscmd|esyscmd"),
    **dict.fromkeys(["sqlite3", "sqlite", "duckdb"], lazy(
        r"(?mi)^[ \t]*\.(sh|sy|read\s*\||import\s+['\"]?\||o\w*\s+['\"]?\|)|load_extension|^-A$|\bedit\s*\(")),
    **dict.fromkeys(["psql", "mysql", "mariadb"], lazy(
        r"(?mi)\\!|\b(from|to)\s+program\b|^[ \t]*(system|source)\s|\|[ \t]*$")),
    **dict.fromkeys(["ftp", "sftp", "lftp", "telnet", "gdb", "lldb", "cgdb"], lazy(
        r"(?m)^[ \t]*(!|shell\b|make\b|platform shell|python\b|pipe\b)")),
    **dict.fromkeys(["ninja", "just"], lazy(r"^--(shell|command|set-shell)")),
}  # fmt: skip
"""What starts a program in the languages of these."""
