"""What the block list knows of programs: names, flags, folders. Data only."""

from __future__ import annotations

import re

PRIVILEGE = frozenset({
    "doas", "dzdo", "gksu", "gksudo", "kdesu", "kdesudo", "pkexec", "please", "run0", "runuser", "su", "su-rs",
    "sudo", "sudo-rs", "sudoedit", "sux", "visudo",
})  # fmt: skip
"""Run commands with the rights of another user."""

HALT = frozenset({
    "halt", "kexec", "poweroff", "reboot", "shutdown", "telinit",
})  # fmt: skip
"""Stop or restart the machine."""

DISK = frozenset({
    "badblocks", "blkdiscard", "cfdisk", "cryptsetup", "diskutil", "fdisk", "gdisk", "hdparm", "lvremove",
    "mkdosfs", "mke2fs", "mkntfs", "mkswap", "newfs", "parted", "pvcreate", "sfdisk", "sgdisk", "vgremove",
    "wipefs", "zpool",
})  # fmt: skip
"""Overwrite disks unless merely asked to list."""

SHELLS = frozenset({
    "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "pdksh", "rbash", "sh", "tcsh", "yash", "zsh",
})  # fmt: skip
"""Run the text or file they are given."""

TOP = frozenset({
    "/Applications", "/Library", "/System", "/Users", "/Volumes", "/bin", "/boot", "/dev", "/etc", "/home", "/lib",
    "/lib32", "/lib64", "/media", "/mnt", "/nix", "/opt", "/private", "/private/etc", "/private/var", "/proc",
    "/root", "/run", "/sbin", "/snap", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin",
    "/usr/share", "/var", "/var/lib", "/var/log",
})  # fmt: skip
"""Folders whose loss breaks the system."""

WRAPPERS: dict[str, tuple[str, ...]] = {
    "env": ("-u", "--unset", "-C", "--chdir"), "command": (), "builtin": (), "exec": ("-a",), "nohup": (),
    "time": ("-f", "-o", "--format", "--output"), "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "-n", "--class", "--classdata"), "timeout": ("-k", "-s", "--signal", "--kill-after"),
    "gtimeout": ("-k", "-s", "--signal", "--kill-after"), "setsid": (),
    "stdbuf": ("-i", "-o", "-e", "--input", "--output", "--error"), "unbuffer": (), "chrt": ("-T", "-P", "-D"),
    "taskset": (), "setarch": (), "linux64": (), "linux32": (), "busybox": (), "toybox": (),
    "strace": ("-o", "-e", "-p", "-s", "-u", "-E"), "ltrace": ("-o", "-e", "-p", "-s", "-u"),
    "watch": ("-n", "--interval", "-d"), "flock": ("-w", "--timeout", "-E"), "caffeinate": ("-t", "-w"),
    "prlimit": (), "choom": ("-n",), "setpriv": (), "proot": ("-r", "-b", "-w"), "fakeroot": ("-i", "-s", "-l"),
    "faketime": (), "xvfb-run": ("-n", "-s", "-e", "-f"), "dbus-run-session": (),
    "systemd-run": ("-p", "-u", "--unit"), "systemd-inhibit": (), "catchsegv": (), "arch": ("-arch",),
    "trickle": ("-d", "-u"), "cpulimit": ("-l",), "firejail": (), "bwrap": (), "rlwrap": (), "winpty": (),
    "numactl": ("-N", "-m", "-C"), "torsocks": (), "proxychains": (), "proxychains4": (), "perf": ("-e", "-o"),
    "valgrind": (), "hyperfine": ("-w", "-r", "-n", "-m", "-M"),
    "nix-shell": (),
}  # fmt: skip
"""Programs whose arguments are, behind their own, another command; the flags that take a value."""

POSITIONALS = {
    "timeout": 1, "gtimeout": 1, "chrt": 1, "taskset": 1, "flock": 1, "faketime": 1, "setarch": 1, "perf": 1,
}  # fmt: skip
"""How many arguments of its own a wrapper has before the command."""

ALWAYS_ASK: dict[str, str] = {
    **dict.fromkeys(["ssh", "mosh"], "it runs a command on another machine"),
    **dict.fromkeys(["chroot"], "it runs a command in another root"),
    **dict.fromkeys(["nsenter", "unshare"], "it runs a command in other namespaces"),
    **dict.fromkeys(["docker", "podman", "nerdctl"], "containers can reach the whole machine"),
    **dict.fromkeys(["crontab", "launchctl"], "it changes what runs later"),
    **dict.fromkeys(["at", "batch"], "it runs a command later"),
    **dict.fromkeys(["script", "screen", "tmux"], "it runs a command in a terminal of its own"),
    **dict.fromkeys(["nc", "ncat", "netcat", "socat"], "it connects programs to the network"),
    **dict.fromkeys(["gcloud", "kubectl"], "it acts on another machine"),
    **dict.fromkeys(["fc"], "it runs an earlier command"),
    **dict.fromkeys(["enable"], "it changes the shell's own commands"),
    **dict.fromkeys(["hash"], "it changes which program a name runs"),
    **dict.fromkeys(["capsh"], "it changes the rights of a process"),
    **dict.fromkeys(["setcap"], "it changes the rights of a program"),
    **dict.fromkeys(["mount", "umount"], "it changes what is mounted"),
    **dict.fromkeys(["insmod", "modprobe", "rmmod", "sysctl"], "it changes the kernel"),
    **dict.fromkeys(["iptables", "nft", "ufw"], "it changes the firewall"),
    **dict.fromkeys(["passwd", "useradd", "userdel", "usermod", "chsh"], "it changes a user"),
}
"""Programs that only a person can judge, and why."""


INTERPRETERS = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|rscript|julia|pwsh|osascript|expect|guile|groovy|jshell)"
    r"[\d.]*$"
)
CODE_FLAGS = {
    "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "php": "rRB", "lua": "e", "bun": "e", "julia": "eE",
    "osascript": "e", "rscript": "e", "groovy": "e", "guile": "c", "deno": "",
}  # fmt: skip
"""Letters that take code from the command line; ``c`` for the rest."""

SPAWNS = re.compile(
    r"os\.system|subprocess|popen|pty\.spawn|os\.exec|os\.spawn|child_process|execSync|\bsystem\b|\bexec\b|backtick"
    r"|shell_exec|passthru|proc_open|`|%x|Process\.|rmtree|unlinkSync|rmSync",
    re.IGNORECASE,
)
"""Code of an interpreter that starts programs or removes trees."""

SCRATCH = ("/tmp/", "/var/tmp/", "/private/tmp/")  # noqa: S108 - what commands may name, not where we write
SYSTEM = ("/etc/", "/boot/", "/usr/", "/bin/", "/sbin/", "/lib", "/sys/", "/proc/sys", "/root/")
BLOCK_DEVICE = re.compile(
    r"/dev/(sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme|mmcblk|loop\d|md\d|dm-|mapper/|disk|rdisk|sr\d|ram\d|nbd|zd\d"
    r"|mem$|kmem$|port$|\*|\?|\[)"
)
RISKY_VARIABLES = re.compile(
    r"(LD_|DYLD_|BASH_ENV$|ENV$|PATH$|SHELLOPTS$|BASHOPTS$|PROMPT_COMMAND$|PS4$|IFS$|PERL5|RUBYOPT$|RUBYLIB$"
    r"|PYTHON(STARTUP|PATH|HOME|INSPECT|WARNINGS|BREAKPOINT)$|NODE_OPTIONS$|JAVA_TOOL_OPTIONS$|_JAVA_OPTIONS$"
    r"|GIT_(SSH|SSH_COMMAND|EDITOR|PAGER|EXTERNAL_DIFF|ASKPASS|CONFIG|PROXY_COMMAND|EXEC_PATH|SEQUENCE_EDITOR)"
    r"|GIT_(TEMPLATE_DIR|DIR)$|PAGER$|MANPAGER$|EDITOR$|VISUAL$|BROWSER$|LESSOPEN$|LESSCLOSE$|SSH_ASKPASS"
    r"|SUDO_ASKPASS|TAR_OPTIONS$|MAKEFLAGS$|ORKAS_)"
)
"""Variables that change what later programs run. ``PYTHONPATH`` and its like load code."""
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)

SHADY = {
    "git": re.compile(
        r"^(-c|--config-env.*|--exec-path=.*|--upload-pack.*|--receive-pack.*|--extcmd.*|-x|--exec.*|filter-branch|bisect|!.*)$"
    ),
    "tar": re.compile(
        r"^(--to-command|--checkpoint-action|--use-compress-program|-I|--rsh-command|--info-script|-F|--new-volume-script)"
    ),
    "sed": re.compile(r"(^|[;}\n\d$/])\s*e(\s|$)|/[gpiI0-9]*e[gpiI0-9]*$|(^|[;}])\s*[wW]\s+/dev/(sd|nvme)"),
    "awk": re.compile(r"system\s*\(|\|\s*(getline|\"|&)|\"\s*\||print[^;}]*\|"),
    "rg": re.compile(r"^--(pre|hostname-bin)(=|$)"),
    "sort": re.compile(r"^--compress-program"),
    "man": re.compile(r"^(-P|--pager|-H|--html)"),
    "vim": re.compile(r"^[+-]|!"),
    "less": re.compile(r"^\+.*!"),
    "zip": re.compile(r"^(-TT|--unzip-command)"),
    "split": re.compile(r"^--filter"),
    "gdb": re.compile(r"^-(ex|x|-batch|-command|-eval)"),
    "make": re.compile(r"^(--eval|SHELL=)"),
    "ssh-keygen": re.compile(r"^-D"),
    "curl": re.compile(r"^(-K|--config)$"),
    "wget": re.compile(r"^--use-askpass"),
    "openssl": re.compile(r"^-engine$"),
}  # fmt: skip
SHADY |= {
    "gawk": SHADY["awk"], "mawk": SHADY["awk"], "nawk": SHADY["awk"], "gsed": SHADY["sed"], "gtar": SHADY["tar"],
    "bsdtar": SHADY["tar"], "vi": SHADY["vim"], "nvim": SHADY["vim"], "ex": SHADY["vim"], "view": SHADY["vim"],
    "gmake": SHADY["make"],
}  # fmt: skip
"""Programs that run others when an argument looks like this."""
