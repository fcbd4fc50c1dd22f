"""What the block list knows of programs: names, flags, folders. Data only."""

from __future__ import annotations

import re

from orkas.infra.patterns import lazy

PRIVILEGE = frozenset({
    "calife", "doas", "dzdo", "gksu", "gksudo", "gosu", "kdesu", "kdesudo", "newgrp", "pkexec", "please", "run0",
    "runuser", "su", "su-exec", "su-rs", "sudo", "sudo-rs", "sudo.ws", "sudoedit", "sudoreplay", "sux", "visudo",
})  # fmt: skip
"""Run commands with the rights of another user."""

HALT = frozenset({
    "halt", "kexec", "killall5", "poweroff", "reboot", "shutdown", "telinit",
})  # fmt: skip
"""Stop or restart the machine."""

DISK = frozenset({
    "badblocks", "blkdiscard", "btrfs", "cfdisk", "cgdisk", "cryptsetup", "debugfs", "diskutil", "dosfsck", "e2fsck",
    "fdisk", "fsck", "gdisk", "hdparm", "lvchange", "lvreduce", "lvremove", "mdadm", "mkdosfs", "mke2fs", "mkntfs",
    "mkswap", "newfs", "nvme", "parted", "pvcreate", "pvremove", "resize2fs", "sfdisk", "sg_format", "sgdisk",
    "tune2fs", "vgremove", "wipefs", "xfs_repair", "zfs", "zpool",
})  # fmt: skip
"""Overwrite disks unless merely asked to list."""

SHELLS = frozenset({
    "ash", "bash", "bosh", "csh", "dash", "elvish", "fish", "hush", "ksh", "ksh93", "lksh", "loksh", "mksh", "nu",
    "oil",
    "oksh", "osh", "pdksh", "posh", "rbash", "sash", "sh", "tcsh", "xonsh", "yash", "ysh", "zsh",
})  # fmt: skip
"""Run the text or file they are given."""

TOP = frozenset({
    "/Applications", "/Library", "/System", "/Users", "/Volumes", "/bin", "/boot", "/dev", "/etc", "/home", "/lib",
    "/lib32", "/lib64", "/media", "/mnt", "/nix", "/opt", "/private", "/private/etc", "/private/var", "/proc",
    "/root", "/run", "/sbin", "/snap", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin",
    "/usr/share", "/var", "/var/lib", "/var/log",
})  # fmt: skip
"""Folders whose loss breaks the system."""

ALWAYS_ASK: dict[str, str] = {
    **dict.fromkeys(["ssh", "mosh"], "it runs a command on another machine"),
    **dict.fromkeys(["chroot"], "it runs a command in another root"),
    **dict.fromkeys(["nsenter", "unshare"], "it runs a command in other namespaces"),
    **dict.fromkeys(["docker", "podman", "nerdctl", "docker-compose", "podman-compose", "buildah", "ctr", "crictl"],
    "containers can reach the whole machine"),
    **dict.fromkeys(["systemd-run"], "it starts a program outside of this session"),
    **dict.fromkeys(["crontab", "launchctl"], "it changes what runs later"),
    **dict.fromkeys(["at", "batch"], "it runs a command later"),
    **dict.fromkeys(["emulate", "compgen", "complete", "bind"], "it tells the shell to run a text later"),
    **dict.fromkeys(["lxc", "incus"], "it runs a command in a container"),
    **dict.fromkeys(["swapoff", "swapon", "losetup"], "it changes the memory or the devices of the machine"),
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
STARTS_WITH: dict[str, frozenset[str]] = {
    **dict.fromkeys(["docker", "podman", "nerdctl", "lxc", "incus"], frozenset({"run", "exec", "create", "launch"})),
    "kubectl": frozenset({"exec", "run", "debug"}), "gcloud": frozenset({"ssh", "run"}),
    **dict.fromkeys([
        "swapoff", "swapon", "losetup", "setcap", "mount", "umount", "insmod", "modprobe", "rmmod", "sysctl",
        "iptables", "nft", "ufw", "passwd", "useradd", "userdel", "usermod", "chsh",
    ], frozenset()),
}  # fmt: skip
"""Of these, those that start what they are given with these words alone; all others may with any."""


INTERPRETERS = lazy(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|wish|r|rscript|julia|pwsh|powershell|osascript"
    r"|expect|guile|groovy|jshell|irb|pry|ghc|ghci|scala|kotlin|elixir|iex|erl|racket|sbcl|clisp|octave|gnuplot|ipython"
    r"|raku|swipl)[\d.]*$"
)
CODE_FLAGS = {
    "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "php": "rRB", "lua": "e", "bun": "e", "julia": "eE",
    "osascript": "e", "luajit": "e", "raku": "e", "r": "e", "rscript": "e", "scala": "e", "kotlin": "e", "elixir": "e",
    "ghc": "e", "ghci": "e", "gnuplot": "e", "racket": "e", "swipl": "g", "iex": "e", "irb": "e", "pry": "e",
    "sbcl": "",
    "erl": "", "tclsh": "", "octave": "", "clisp": "x", "ipython": "c", "groovy": "e", "guile": "c", "deno": "",
}  # fmt: skip
"""Letters that take code from the command line; ``c`` for the rest."""
CODE_VALUES = {
    "python": ("-X", "-W", "--check-hash-based-pycs"), "pypy": ("-X", "-W"), "ipython": ("--profile",),
    "node": ("-r", "--require", "--import", "--loader", "-C", "--conditions", "--env-file"),
    "nodejs": ("-r", "--require", "--import", "--loader", "-C", "--conditions", "--env-file"),
    "ruby": ("-I", "-r", "-C", "-E", "-K", "-T", "-W"), "perl": ("-I", "-M", "-m", "-C", "-F", "-x", "-D"),
    "php": ("-c", "-d", "-z", "-S", "-t"), "lua": ("-l",), "julia": ("-p", "-t", "-L"), "erl": ("-s",),
}  # fmt: skip
"""Flags that take a value, which is no code."""

SCRATCH = ("/tmp/", "/var/tmp/", "/private/tmp/")  # noqa: S108 - what commands may name, not where we write
SYSTEM = ("/etc/", "/boot/", "/usr/", "/bin/", "/sbin/", "/lib", "/sys/", "/proc/sys", "/root/", "/opt/",
"/var/spool/", "/var/lib/", "/dev/mem")
SYSTEM_FILES = ("/etc/", "/boot/", "/usr/", "/bin/", "/sbin/", "/lib", "/sys/", "/proc/", "/dev/sd", "/dev/nvme")
"""What the operating system itself is made of."""
BLOCK_DEVICE = lazy(
    r"/dev/(sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme|mmcblk|loop\d|md\d|dm-|mapper/|disk|rdisk|sr\d|ram\d|nbd|zd\d"
    r"|mem$|kmem$|port$|\*|\?|\[)"
)
INVISIBLE = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)

BLANK = lazy(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable and print nothing."""

_UNREAD = lazy("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def plain_name(part: str) -> str:
    """A part of a path as those file systems take it that know no case, drop dots and blanks at the end and characters
    that print nothing, and have streams behind a colon."""
    return _UNREAD.sub("", part).partition(":")[0].strip().casefold().rstrip(". ")


def is_git(part: str) -> bool:
    """Whether a part of a path is ``.git`` to some file system."""
    return plain_name(part) == ".git" or re.fullmatch(r"git~\d", plain_name(part)) is not None
