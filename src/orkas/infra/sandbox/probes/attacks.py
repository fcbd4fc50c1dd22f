"""The hostile half of the probes: run inside the sandbox, each tries to get out. ``argv``: name, the world as JSON.

What only the inside can know is said by printing ``ESCAPED``; a secret that was reached is printed. All else is seen
from outside. Nothing here does harm where it succeeds. Standard library only; imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

World = dict[str, Any]
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def escaped(what: object) -> None:
    print("ESCAPED", what, flush=True)


@contextlib.contextmanager
def trying() -> Iterator[None]:
    """One of several ways: that it fails does not end the others."""
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        yield


def call(number: tuple[int, int], *arguments: object) -> int:
    return int(libc.syscall(number[0 if X86 else 1], *arguments))


# files


def write_outside(w: World) -> None:
    with trying():
        Path(w["canary"]).write_text("changed")
    with trying():
        Path(w["home"], ".bashrc").write_text("changed")
    with trying():
        Path(w["canary"]).unlink()


def write_tmp(w: World) -> None:
    for folder in ("/tmp", "/var/tmp", "/run", "/dev/shm"):
        with trying():
            Path(folder, w["token"]).write_text("here")


def read_keys(w: World) -> None:
    with trying():
        print(Path(w["home"], ".ssh", "id_probe").read_text())
    with trying():
        print(subprocess.run(["find", w["home"], "-type", "f", "-exec", "cat", "{}", "+"], capture_output=True).stdout)


def read_own_home(w: World) -> None:
    for path in ("", "sessions", "secrets.json"):
        with trying():
            print(os.listdir(os.path.join(w["orkas_home"], path)), "orkas-home-entry" if path == "" else "")
        with trying():
            print(Path(w["orkas_home"], path).read_text())


def write_through_link(w: World) -> None:
    for target in (w["canary"], os.path.join(w["home"], ".bashrc")):
        with trying():
            os.symlink(target, "link")
            Path("link").write_text("changed")
        with trying():
            os.unlink("link")


def move_out(w: World) -> None:
    Path("mine").write_text("mine")
    with trying():
        os.rename("mine", os.path.join(w["outside"], w["token"]))
    with trying():
        os.rename(w["canary"], "theirs")


def hard_links(w: World) -> None:
    with trying():
        os.link(w["canary"], "theirs")
        Path("theirs").write_text("changed")
    with trying():
        os.link(os.path.join(w["home"], ".ssh", "id_probe"), "key")
        print(Path("key").read_text())
    Path("mine").write_text("mine")
    with trying():
        os.link("mine", os.path.join(w["outside"], w["token"]))


def change_mode(w: World) -> None:
    with trying():
        os.chmod(w["canary"], 0o666)
    with trying():
        os.utime(w["canary"], (1, 1))


def swap_links(w: World) -> None:
    """A name that is a folder one moment and a way out the next, while something writes through it."""
    os.mkdir("real")
    Path("real/canary").write_text("")
    if os.fork() == 0:
        give_up = time.monotonic() + 0.6
        while time.monotonic() < give_up:
            for target in ("real", w["outside"]):
                with trying():
                    os.symlink(target, "next")
                    os.rename("next", "way")
        os._exit(0)
    give_up = time.monotonic() + 0.6
    while time.monotonic() < give_up:
        with trying():
            Path("way/canary").write_text("changed")
    os.wait()


# what other programs obey


def git_files(w: World) -> None:
    with trying(), open(".git/config", "a") as file:
        file.write("[core]\n\tfsmonitor = evil\n")
    with trying():
        Path(".git/hooks/pre-commit").write_text("evil")
    with trying():
        Path(".git/new").write_text("[core]\n\tfsmonitor = evil\n")
        os.rename(".git/new", ".git/config")
    with trying():
        os.rename(".git/hooks", ".git/old")
        os.mkdir(".git/hooks")
        Path(".git/hooks/pre-commit").write_text("evil")


def rename_git(w: World) -> None:
    for name in (".git", "nested"):
        with trying():
            os.rename(name, f"{name}.old")
    for git in (".git", "nested/.git"):
        with trying():
            os.makedirs(f"{git}/hooks", exist_ok=True)
            Path(git, "config").write_text("[core]\n\tfsmonitor = evil\n")
            Path(git, "hooks/post-checkout").write_text("evil")


def link_git(w: World) -> None:
    """The folder replaced by a link to another one, and a worktree's pointer turned."""
    os.makedirs("evil/hooks")
    Path("evil/config").write_text("[core]\n\tfsmonitor = evil\n")
    Path("evil/HEAD").write_text("ref: refs/heads/main\n")
    with trying():
        os.rename(".git", "away")
    with trying():
        os.symlink("evil", ".git")
    with trying():
        Path("tree/.git").write_text(f"gitdir: {os.getcwd()}/evil\n")
    with trying():
        os.unlink("tree/.git")
    with trying():
        os.symlink(f"{os.getcwd()}/evil", "tree/.git")


def new_repository(w: World) -> None:
    for folder in ("fresh", "deep/er/fresh"):
        os.makedirs(f"{folder}/.git/hooks")
        os.makedirs(f"{folder}/.git/objects")
        os.makedirs(f"{folder}/.git/refs")
        Path(folder, ".git/HEAD").write_text("ref: refs/heads/main\n")
        Path(folder, ".git/config").write_text("[core] fsmonitor = evil\n[alias]\n\tstatus = !evil\n")
        Path(folder, ".git/hooks/pre-commit").write_text("evil")


def editor_files(w: World) -> None:
    for path in (".vscode/tasks.json", ".mcp.json", ".envrc", ".claude/settings.json", ".bashrc", ".orkas/config.toml"):
        with trying():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            Path(path).write_text("evil")


# network and sockets


def tcp(w: World) -> None:
    with trying():
        socket.create_connection(("127.0.0.1", w["tcp"]), 1).sendall(w["token"].encode())
    with trying():
        socket.create_connection(("1.1.1.1", 53), 1)
        escaped("the internet")


def udp(w: World) -> None:
    with trying(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(w["token"].encode(), ("127.0.0.1", w["udp"]))


def listen(w: World) -> None:
    with trying(), socket.socket() as server:
        server.bind(("127.0.0.1", w["free"]))
        server.listen()
        server.settimeout(1)
        server.accept()
        escaped("somebody outside came in")


def raw_packets(w: World) -> None:
    ways = [(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), (socket.AF_PACKET, socket.SOCK_RAW, 3),
            (socket.AF_NETLINK, socket.SOCK_RAW, 0), (40, socket.SOCK_STREAM, 0)]  # fmt: skip  # 40: AF_VSOCK
    for way in ways:
        with trying(), socket.socket(*way):
            escaped(way)


def abstract_socket(w: World) -> None:
    with trying(), socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + w["token"])
        client.sendall(b"hello")


def path_socket(w: World) -> None:
    for path in w["sockets"]:
        with trying(), socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"hello")


# other processes


def signal_outside(w: World) -> None:
    with trying():
        os.kill(w["target"], signal.SIGKILL)
    with trying():
        os.killpg(w["target"], signal.SIGKILL)
    with trying():
        signal.pidfd_send_signal(os.pidfd_open(w["target"]), signal.SIGKILL)


def environ_of_target(w: World) -> None:
    for pid in [w["target"], *(int(name) for name in os.listdir("/proc") if name.isdigit())]:
        with trying():
            print(Path(f"/proc/{pid}/environ").read_bytes().replace(b"\0", b" ").decode(errors="replace"))


def environ_of_parents(w: World) -> None:
    pid = os.getpid()
    while pid > 0:
        with trying():
            print(Path(f"/proc/{pid}/environ").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        pid = int(stat.rpartition(")")[2].split()[1])


def trace_target(w: World) -> None:
    """Whoever is traced like this dies with the tracer."""
    libc.ptrace(0x4206, w["target"], None, ctypes.c_void_p(0x100000))  # PTRACE_SEIZE, PTRACE_O_EXITKILL


def memory_of_target(w: World) -> None:
    for pid in (w["target"], 1, os.getppid()):
        for path in (f"/proc/{pid}/root{w['home']}/.ssh/id_probe", f"/proc/{pid}/cwd/../home/.ssh/id_probe"):
            with trying():
                print(Path(path).read_text())
    with trying(), open(f"/proc/{w['target']}/mem", "rb", buffering=0) as memory:
        memory.seek(w["address"])
        print(memory.read(64))
    buffer = ctypes.create_string_buffer(64)

    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    ours, theirs = Vector(ctypes.addressof(buffer), 64), Vector(w["address"], 64)
    libc.process_vm_readv(w["target"], ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    print(buffer.raw)


def limits_of_target(w: World) -> None:
    with trying():
        resource.prlimit(w["target"], resource.RLIMIT_NOFILE, (77, 77))


def stay_alive(w: World) -> None:
    """Two forks, two sessions, no environment, no open files: and then on."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            for descriptor in range(64):
                with trying():
                    os.close(descriptor)
            waits = "until test -e over; do sleep 0.1; done"
            os.execve("/bin/sh", ["sh", "-c", f"{waits}; echo on > late; exec sleep 30.{w['number']}"], {})
        os._exit(0)
    os.wait()


def watch_home(w: World) -> None:
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    if descriptor >= 0 and libc.inotify_add_watch(descriptor, os.path.join(w["home"], ".ssh").encode(), 0xFFF) >= 0:
        escaped("it sees what happens in the home")


# the kernel


def settings_of_the_kernel(w: World) -> None:
    for path in ("/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness", "/proc/sys/net/ipv4/ip_forward"):
        with trying():
            same = Path(path).read_text()
            Path(path).write_text(same)
            escaped(path)
    with trying(), open("/proc/sysrq-trigger", "wb"):
        escaped("sysrq")


def groups(w: World) -> None:
    for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"):
        with trying():
            os.mkdir(os.path.join(folder, w["token"]))
    for path in ("/sys/fs/cgroup/cgroup.procs", "/sys/kernel/mm/transparent_hugepage/enabled"):
        with trying(), open(path, "r+b"):
            escaped(path)


def device_nodes(w: World) -> None:
    for number in (os.makedev(254, 0), os.makedev(253, 0), os.makedev(8, 0), os.makedev(259, 0), os.makedev(1, 1)):
        for kind in (0o060600, 0o020600):
            with trying():
                os.mknod("node", kind, number)
                escaped("a device was made")
            with trying():
                os.unlink("node")
    for name in ("sda", "vda", "nvme0n1", "dm-0", "mem", "kmem", "port", "kvm", "fuse", "net/tun", "vsock"):
        with trying(), open(f"/dev/{name}", "rb"):
            escaped(name)


def new_namespaces(w: World) -> None:
    if libc.unshare(0x1000_0000) == 0:
        escaped("a user namespace")
    for flag in (0x2_0000, 0x4000_0000, 0x2000_0000):
        if libc.unshare(flag) == 0:
            escaped(hex(flag))
    pid = call((56, 220), 0x1000_0000 | signal.SIGCHLD, None, None, None, None)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        escaped("a child in a user namespace")
    done = subprocess.run(["unshare", "-Ur", "true"], capture_output=True)
    if done.returncode == 0:
        escaped("unshare")


def mounts(w: World) -> None:
    os.mkdir("spot")
    if libc.mount(b"tmpfs", b"spot", b"tmpfs", 0, None) == 0:
        libc.umount2(b"spot", 2)
        escaped("mounted")
    if libc.umount2(w["home"].encode(), 2) == 0:
        escaped("unmounted")
    if call((428, 428), -100, b"/", 1) >= 0 or call((430, 430), b"tmpfs", 0) >= 0 or libc.chroot(b".") == 0:
        escaped("a mount in other words")


def gain_rights(w: World) -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    if status["NoNewPrivs"].strip() != "1":
        escaped("programs may give rights")
    if int(status["CapEff"], 16) or int(status["CapPrm"], 16):
        escaped(status["CapEff"])
    for program in ("sudo -n id", "pkexec id", "su -c id"):
        done = subprocess.run(program.split(), capture_output=True, stdin=subprocess.DEVNULL, timeout=2, check=False) \
            if any(os.access(f"{d}/{program.split()[0]}", os.X_OK) for d in ("/bin", "/usr/bin")) else None  # fmt: skip
        if done and done.returncode == 0 and os.getuid() != 0:
            escaped(program)
    with trying():
        os.setuid(0 if os.getuid() else 1)
        escaped("another user")


def kernel_keys(w: World) -> None:
    if call((248, 217), b"user", w["token"].encode(), b"x", 1, -3) > 0 or call((250, 219), 0, -3, 0) > 0:
        escaped("a key")


def kernel_doors(w: World) -> None:
    if call((425, 425), 4, ctypes.create_string_buffer(256)) >= 0:
        escaped("io_uring")
    if call((323, 282), 1) >= 0:
        escaped("userfaultfd")
    if call((321, 280), 0, ctypes.create_string_buffer((1).to_bytes(4, "little") * 4, 128), 128) >= 0:
        escaped("bpf")
    attributes = ctypes.create_string_buffer((1).to_bytes(4, "little") + (112).to_bytes(4, "little"), 112)
    if call((298, 241), attributes, 0, -1, -1, 0) >= 0:
        escaped("perf")
    if X86 and libc.syscall(0x4000_0000 | 39) >= 0:
        escaped("x32")
    if call((304, 265), -100, ctypes.create_string_buffer(128), 0) >= 0:
        escaped("open by handle")


def terminals(w: World) -> None:
    for path in ("/dev/tty", w["terminal"]):
        with trying():
            descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY)
            os.write(descriptor, w["token"].encode())
            libc.ioctl(descriptor, 0x5412, ctypes.c_char_p(b"x"))
    for path in ("/dev/console", "/dev/tty1", "/dev/vcs1", "/dev/uinput"):
        with trying():
            os.close(os.open(path, os.O_RDWR | os.O_NOCTTY))
            escaped(path)


def kernel_log(w: World) -> None:
    buffer = ctypes.create_string_buffer(4096)
    if libc.klogctl(3, buffer, 4096) > 0:
        escaped("the log was read")
    for path in ("/dev/kmsg", "/proc/kmsg", "/proc/kcore", "/proc/kallsyms-none"):
        with trying(), open(path, "rb", buffering=0):
            escaped(path)


# exhaustion


def fork_bomb(w: World) -> None:
    give_up = time.monotonic() + 1
    made = 0
    while time.monotonic() < give_up and made < 6_000:
        try:
            pid = os.fork()
        except OSError:
            time.sleep(0.01)
            continue
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
    time.sleep(0.7)


def memory(w: World) -> None:
    whole = []
    try:
        for _ in range(16):
            whole.append(bytearray(b"x" * (64 << 20)))
            time.sleep(0.05)
    except MemoryError:
        return
    escaped("1 GiB")


def disk_and_files(w: World) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with trying(), open("large", "wb") as file:
        file.truncate(1 << 36)
    with trying(), open("large", "wb") as file:
        file.seek(1 << 35)
        file.write(b"x")
    opened = []
    with trying():
        for _ in range(w["files"] + 100):
            opened.append(os.open("/dev/null", os.O_RDONLY))
        escaped("open files without end")


def core_dump(w: World) -> None:
    with trying():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if os.fork() == 0:
        os.abort()
    if os.WCOREDUMP(os.wait()[1]):
        escaped("a dump was written")


if __name__ == "__main__":
    globals()[sys.argv[1]](json.loads(sys.argv[2]))
