"""Seatbelt, the sandbox of macOS, as a profile in its language. Unverified: written after Apple's own profiles, its
text is tested, no Mac has run it here. Processes are not kept apart and limits are not set."""

from __future__ import annotations

import os
from pathlib import Path

from orkas.infra.sandbox.folders import is_below
from orkas.infra.sandbox.profile import Profile, Wrapping

__all__ = ["Seatbelt", "text"]

PROGRAM = "/usr/bin/sandbox-exec"


class Seatbelt:
    """Commands wrapped by ``sandbox-exec``."""

    name = "seatbelt (unverified)"
    after = False

    def wrap(self, profile: Profile) -> Wrapping:
        """The words that start a command inside."""
        temp = str(profile.temp / "tmp")
        env = {"TMPDIR": temp, "TMP": temp, "TEMP": temp}
        return Wrapping([PROGRAM, "-p", text(profile)], env=env, launcher=False)


def text(profile: Profile) -> str:
    """The profile: the last rule that matches counts, so the deeper path comes later."""
    lines = [
        "(version 1)", "(allow default)", "(deny file-write*)", "(deny signal)", "(allow signal (target self))",
        "(allow signal (target pgrp))", "(deny process-info* (target others))", "(deny mach-priv-task-port)",
        "(deny system-privilege)", "(deny nvram*)", "(deny iokit-open)",
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))',
    ]  # fmt: skip
    if not profile.network:
        lines += ["(deny network*)", "(allow network* (local ip \"localhost:*\") (remote ip \"localhost:*\"))"]
    lines.append("(deny network-outbound (remote unix-socket))")
    for path, rule in sorted(_rules(profile), key=lambda one: len(one[0].parts)):
        lines.append(rule.replace("{}", f"(subpath {_quoted(path)})"))
    for path in profile.protected:
        lines.append(f"(deny file-write* (subpath {_quoted(path)}))")
        lines += [
            f"(deny file-write-unlink (literal {_quoted(folder)}))"
            for folder in path.parents
            if is_below(folder, [profile.cwd])
        ]
    return "\n".join(lines)


def _rules(profile: Profile) -> list[tuple[Path, str]]:
    rules = [(path, "(deny file-read* file-write* {})") for path in profile.hidden]
    rules += [(path, "(allow file-read* {})") for path in profile.shown if is_below(path, profile.hidden)]
    return [*rules, *((path, "(allow file-read* file-write* {})") for path in (profile.temp, profile.cwd))]


def _quoted(path: Path) -> str:
    escaped = os.fspath(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
