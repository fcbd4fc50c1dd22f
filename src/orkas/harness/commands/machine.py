"""What the block list says about programs that stop the machine, change its services or lend its rights."""

from __future__ import annotations

import re

from orkas.harness.commands.judge import Judge
from orkas.harness.commands.words import Arg, Scope, Stdin
from orkas.infra.patterns import lazy

__all__ = ["bus", "changes_disk", "init", "kill", "lends_rights", "pkill", "rtcwake", "systemctl"]

_STOPS = (
    "poweroff", "reboot", "halt", "kexec", "soft-reboot", "suspend", "hibernate", "hybrid-sleep",
    "suspend-then-hibernate", "sleep", "rescue", "emergency",
)  # fmt: skip
_STOPPING_UNIT = lazy(
    r"(systemd-)?(poweroff|reboot|halt|kexec|soft-reboot|suspend|hibernate|hybrid-sleep|sleep|rescue|emergency|shutdown"
    r"|exit|ctrl-alt-del|runlevel[016]|final|umount)\.(target|service)"
)
_LOOKS = lazy(r"status|show|cat|help|list-.*|is-.*|get-default|show-.*|seat-status|user-status|session-status")


def systemctl(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``systemctl`` and ``loginctl``. An option's value may stand before the verb, so each bare word counts."""
    words = [a.text for a in rest if not a.text.startswith("-")]
    if not words or _LOOKS.fullmatch(words[0]):
        return
    stopping = next((w for w in words if w in _STOPS or _STOPPING_UNIT.fullmatch(w)), "")
    if stopping:
        judge.deny(f"{name} {stopping} stops or restarts the machine")
    else:
        judge.ask(f"{name} {words[0]} changes the services or sessions of the machine")


def init(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    if rest and rest[0].text in ("0", "6", "1", "s", "S"):
        judge.deny("init changes the run level of the machine")


_BUS_STOPS = lazy(r"power_?off|reboot|halt|suspend|hibernate|kexec|hybridsleep|shut_?down", re.IGNORECASE)


def bus(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """Calls of services: ``busctl``, ``dbus-send`` and the like."""
    if any(_BUS_STOPS.search(a.text) for a in rest):
        judge.deny(f"{name} would stop or restart the machine")
    elif any(a.text in ("call", "set-property", "emit") or a.text.startswith(("--dest", "--method")) for a in rest):
        judge.ask(f"{name} calls a service of the machine")


def rtcwake(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    asks = re.compile(r"(-m|--mode=)?(no|show)|-h|--help|-V|--version|--list-modes")
    if rest and not any(asks.fullmatch(a.text) for a in rest):
        judge.deny("rtcwake sends the machine to sleep")


def kill(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """``-1`` as a process is every process; as the first argument it is a signal. 1 is the first process of all."""
    words = [a.text for a in rest]
    if words[:1] and words[0] in ("-s", "-n", "--signal"):
        words = words[2:]
    elif words[:1] and words[0].startswith("-") and words[0] != "--":
        if words[0] in ("-l", "-L", "--list", "--table"):
            return
        words = words[1:]
    if any(re.fullmatch(r"-0*1|\+?0*1", w) for w in words):
        judge.deny("kill would end every process or the first of all")
    elif any("$PPID" in w for w in words):
        judge.ask("kill would end the process that runs the command", seen=True)


_MATCHES_MANY = lazy(r"[.*^$]*|-[a-zA-Z]*[uUGgst]|--(user|euid|uid|group|session).*|-u.+")


def pkill(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """By name: ``init``, or a pattern that everything matches."""
    words = [a.text for a in rest]
    if any(w in ("init", "systemd", "launchd", "systemd-logind", "sshd", "dbus-daemon") for w in words):
        judge.deny(f"{name} would end a process that the machine needs")
    elif any(_MATCHES_MANY.fullmatch(w) for w in words):
        judge.ask(f"{name} would end more processes than one program's", seen=True)
    elif name != "skill" and any(_meets_us(w, whole=name == "killall") for w in words if not w.startswith("-")):
        judge.ask(f"{name} may end the process that runs the command", seen=True)


def _meets_us(pattern: str, *, whole: bool) -> bool:
    try:
        found = re.compile(pattern, re.IGNORECASE)
    except re.error:
        return True
    return bool(found.fullmatch("orkas") or found.fullmatch("python3") if whole else found.search("python3 -m orkas"))


def lends_rights(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    """Programs that lend the rights of another user with some of their options or verbs only."""
    words = [a.text for a in rest]
    if name == "setpriv":
        lends = any(re.match(r"--(re?u|ru|eu|re?g|rg|eg|g|init)|--(inh|ambient)-caps=\+", w) for w in words)
    elif name == "machinectl":
        lends = any(w in ("shell", "login") for w in words)
    else:
        lends = not (words and re.match(r"(run|scan|test|new|lsp|help|completions)$|-p|--|-h$|-V$", words[0]))
    if lends:
        judge.deny(f"{name} runs commands with the rights of another user")
    elif name != "setpriv":
        return
    inner = next((i for i, w in enumerate(words) if not w.startswith("-")), len(words))
    if rest[inner:]:
        judge.run(rest[inner:], scope, stdin)


_ASKS = (
    "-l", "--list", "-h", "--help", "--version", "-V", "list", "status", "print", "show", "get", "usage", "id-ctrl",
    "--detail", "--examine", "-D", "-E", "smart-log", "check", "filesystem", "version", "help",
)  # fmt: skip


def changes_disk(rest: list[Arg]) -> bool:
    """Not merely asked to list."""
    return bool(rest) and not any(a.text in _ASKS for a in rest)
