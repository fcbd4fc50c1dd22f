"""The programs whose every effect is known: which of their flags only read, which write, and nothing else.

A program that is not here, or a flag that its row does not name, is unknown. A row is added only with the manual of the
program at hand: what can start another program, open a connection or write a file must not be in it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from orkas.harness.commands.sed_awk import plain_awk, plain_sed
from orkas.infra.patterns import lazy

if TYPE_CHECKING:
    from orkas.harness.commands.survey import Kind, Piece, Survey

__all__ = ["BUILTINS", "KNOWN", "NETWORK", "judge"]

BUILTINS = frozenset({":", "[", "break", "cd", "command", "continue", "echo", "exit", "false", "jobs", "printf", "pwd",
"read", "test", "true", "type", "ulimit"})  # fmt: skip
"""Run by the shell itself, whatever lies on ``PATH``."""

READ_ANY = frozenset({
    ":", "arch", "b2sum", "base32", "base64", "basename", "break", "cat", "cksum", "cmp", "comm", "continue", "cut",
    "df", "dir", "dirname", "du", "echo", "egrep", "exit", "expand", "expr", "factor", "false", "fgrep", "fmt", "fold",
    "free", "getconf", "grep", "groups", "head", "hexdump", "id", "join", "jq", "logname", "ls", "lscpu", "md5sum",
    "nl", "nproc", "numfmt", "od", "paste", "printenv", "pwd", "readlink", "realpath", "rev", "seq", "sha1sum",
    "sha224sum", "sha256sum", "sha384sum", "sha512sum", "sleep", "stat", "strings", "sum", "tac", "tail", "tr", "true",
    "tsort", "tty", "type", "uname", "unexpand", "uptime", "users", "vdir", "wc", "which", "who", "whoami",
})  # fmt: skip
"""Read and print, with any argument."""
_NO_FILES = frozenset({"echo", "printf", "seq", "expr", "tr", "sleep", "basename", "dirname", "exit", "type", "which"})
"""Their arguments name no files to read."""

_VERSIONS: dict[str, re.Pattern[str]] = {
    "--version": lazy(
        r"python[\d.]*|node|npm|ruby|perl|php|java|javac|gcc|g\+\+|clang|clang\+\+|make|cmake|uv|bash|ruff|mypy|tsc"
        r"|gh|docker|aws|curl|tar|rsync|ninja|black|shellcheck"
    ),
    "-version": lazy(r"javac?"), "-V": lazy(r"python[\d.]*|uv|curl|bash"),
    "-v": lazy(r"node|npm|ruby|perl|php"),
}  # fmt: skip
"""Programs that print their version and look at nothing of the folder before they do, when it is all they are told."""

_FLAGS: dict[str, re.Pattern[str]] = {
    "sort": lazy(
        r"-[bdfghiMnRrVcCmsuz]*(k[\d.,bdfgiMhnRrV]*|t.?)?|--(reverse|unique|check|stable|version-sort|month-sort"
        r"|numeric-sort|human-numeric-sort|general-numeric-sort|ignore-case|zero-terminated|(key|field-separator)=.+)"
    ),
    "uniq": lazy(r"-[cdDuiz]+|-[fsw]\d+|--(count|repeated|unique|ignore-case)"),
    "date": lazy(
        r"\+.*|-[uR]+|-d|-I\w*|--(utc|universal|rfc-email)|--(date|iso-8601|rfc-3339|reference)=.*", re.DOTALL
    ),
    "hostname": lazy(r"-[fsiIdA]"),
    "file": lazy(r"-[bikLhN0]+|--(brief|mime|mime-type|mime-encoding)"),
    "diff": lazy(
        r"-[abBdeiNqrswuyEZtTcn]+|-[UC] ?\d+|--(brief|recursive|unified(=\d+)?|context(=\d+)?|side-by-side|new-file"
        r"|ignore-case|ignore-all-space|ignore-space-change|ignore-blank-lines|color(=\w+)?|text|exclude=.*"
        r"|strip-trailing-cr|report-identical-files|suppress-common-lines)"
    ),
    "tree": lazy(r"-[adfilnpsugDFhCAqNrtU]+|-L\d*|-[IP]|--(dirsfirst|noreport|gitignore|prune|du|filelimit=\d+)"),
    "xxd": lazy(r"-[bpiuEe]|-(ps|postscript|plain)|-[lcsgo]\d*"),
    "column": lazy(r"-[tnexRr]+|-[sco].*|--table"),
    "cal": lazy(r"-[13ymjswhbC]+|-[ABdHN]"),
    "ps": lazy(r"-[eAfaldjyHFTwcLNx]+|-(e|A|a|ax|ef|x|el)o|-[opuCtgU].*|--(no-headers|forest|sort=.*)"),
    "nm": lazy(r"-[aAfgnprSuCD]+|--(demangle|dynamic|defined-only|undefined-only|extern-only)"),
    "readelf": lazy(r"-[halSsrdVnegIW]+|--(file-header|headers|sections|segments|symbols|dynamic|notes|wide)"),
    "size": lazy(r"-[ABdotx]+|--(totals|format=\w+)"),
    "lsblk": lazy(r"-[abdfilmnoprstJPST]+|--(all|json|fs|paths|list|output-all)"),
    "unzip": lazy(r"-(l|v|lv|Z|Z1|lq|ql)"), "gzip": lazy(r"-l|-lv|-vl|--list"),
    "zcat": lazy(r"-[fq]"), "pgrep": lazy(r"-[aflxnocvi]+|-[uUPGt]|--(full|list-full|list-name|count)"),
    "locale": lazy(r"-[am]"), "ulimit": lazy(r"-a|-[SH]a"), "jobs": lazy(r"-[lpnrs]"),
    "mkdir": lazy(r"-[pv]+|--(parents|verbose)"),
    "rmdir": lazy(r"-[pv]+|--(parents|verbose|ignore-fail-on-non-empty)"),
    "touch": lazy(r"-[acm]+|--no-create"),
    "cp": lazy(
        r"-[afinprRuvdLPT]+|--(recursive|archive|force|no-clobber|verbose|update|parents|preserve(=\w+)?)"
    ),
    "mv": lazy(r"-[finuvT]+|--(force|no-clobber|verbose|update)"),
    "rm": lazy(r"-[rRfdvi]+|--(recursive|force|verbose|dir)"),
    "tee": lazy(r"-[a]|--append"),
    "truncate": lazy(r"-s[\d+KMG-]*|-c|--size=[\d+KMG-]+"),
}  # fmt: skip
"""Flags by program, each alone in its row; all that is not named is unknown."""
_VALUED: dict[str, frozenset[str]] = {
    "sort": frozenset({"-k", "-t"}), "uniq": frozenset({"-f", "-s", "-w"}), "date": frozenset({"-d", "-r"}),
    "tree": frozenset({"-L", "-I", "-P"}), "xxd": frozenset({"-l", "-c", "-s", "-g", "-o"}),
    "truncate": frozenset({"-s"}),
    "column": frozenset({"-s", "-c", "-o"}), "diff": frozenset({"-U", "-C", "-x"}),
    "pgrep": frozenset({"-u", "-U", "-P", "-G", "-t"}), "cal": frozenset({"-A", "-B", "-m"}),
    "ps": frozenset({"-o", "-p", "-u", "-C", "-t", "-g", "-U",
    "-eo", "-Ao", "-ao", "-axo", "-efo", "-xo", "-elo"}),
    "lsblk": frozenset({"-o"}),
}  # fmt: skip
"""Flags that take the next argument."""
_AT_MOST = {"locale": 0, "ulimit": 0, "jobs": 0, "ps": 0, "uniq": 1, "xxd": 1, "hostname": 0, "date": 0, "cal": 2}
"""Arguments beside flags: one more would be written to, or set something."""
_NEED = {"unzip": lazy(r"-.?[lvZ]"), "gzip": lazy(r"-.?l|--list"), "ulimit": lazy("-")}
"""Programs that only read with one of these."""
_HELPED_BY = {"zcat": ("gzip",), "tar": ("gzip", "bzip2", "xz", "zstd", "lzip", "lzma", "lzop", "compress")}
"""Programs that others start to read what is packed."""
_WRITERS = frozenset({"mkdir", "rmdir", "touch", "cp", "mv", "rm", "tee", "truncate", "chmod"})

_RG_BAD = lazy(r"--(pre|se|hos|z)")
_RG_VALUED = frozenset("ABCEMTdefgjmrt")


def judge(survey: Survey, name: str, rest: list[Piece], *, alone: bool) -> tuple[Kind, str]:
    """What this program does with these arguments; see ``Survey.program``."""
    if rule := _RULES.get(name):
        return rule(survey, name, rest, alone)
    if name in READ_ANY:
        if name not in _NO_FILES:
            for piece in rest:
                survey.read(piece)
        _follows(survey, name, rest)
        return "reads", ""
    if name in _FLAGS:
        return _by_flags(survey, name, rest)
    if name == "openssl" and rest and rest[0].text in ("s_client", "s_time", "ocsp"):
        return "beyond", f"openssl {rest[0].text} reaches the network"
    flag = rest[0].text if len(rest) == 1 and rest[0].fixed else ""
    if (named := _VERSIONS.get(flag)) and named.fullmatch(name):
        return "reads", ""
    return _network(name) or _unknown(name)


_FOLLOWS = {
    "grep": r"-[A-Za-z]*R|--deref", "find": r"-L$|-follow$", "rg": r"-[A-Za-z]*L|--follow", "tree": r"-[A-Za-z]*l",
}  # fmt: skip


def _follows(survey: Survey, name: str, rest: list[Piece]) -> None:
    """A flag that follows every link it meets: where that leads is not known."""
    if (flag := _FOLLOWS.get(name)) and any(p.wild or re.match(flag, p.text) for p in rest):
        survey.outside.append("?")


def _unknown(name: str) -> tuple[Kind, str]:
    return "unknown", f"what {_short(name)} does is not known"


NETWORK = frozenset({
    "curl", "wget", "ssh", "scp", "sftp", "rsync", "ftp", "telnet", "ping", "dig", "nslookup", "host", "nc", "ncat",
    "netcat", "mosh", "lftp", "tftp", "whois", "traceroute", "aria2c", "http", "https", "httpie", "xh", "aws", "az",
    "gcloud", "gsutil", "s3cmd", "rclone", "gh", "glab", "hub",
})  # fmt: skip
"""Programs that are there to reach the network."""


def _network(name: str) -> tuple[Kind, str] | None:
    return ("beyond", f"{name} reaches the network") if name in NETWORK else None


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _odd(name: str, what: str) -> Exception:
    from orkas.harness.commands.survey import Unknown

    return Unknown(f"{name} with {_short(what)} is not known to be harmless")


def _split(name: str, rest: list[Piece], flags: re.Pattern[str], valued: frozenset[str]) -> list[Piece]:
    """The arguments beside the flags, all of which the row knows."""
    found: list[Piece] = []
    i, only = 0, False
    while i < len(rest):
        piece = rest[i]
        i += 1
        if piece.wild:
            raise _odd(name, "an argument that may be a flag")
        if only or not piece.text.startswith(("-", "+")) or piece.text == "-":
            found.append(piece)
        elif piece.text == "--":
            only = True
        elif not piece.fixed or not flags.fullmatch(piece.text):
            raise _odd(name, piece.text)
        elif piece.text in valued:
            if i >= len(rest) or not rest[i].fixed:  # a pattern may stand for several
                raise _odd(name, piece.text)
            i += 1
    return found


def _by_flags(survey: Survey, name: str, rest: list[Piece]) -> tuple[Kind, str]:
    if name == "ps" and len(rest) == 1 and rest[0].fixed and re.fullmatch(r"(aux|ax|axu)w*", rest[0].text):
        return "reads", ""
    if name == "sort" and (written := _sorted_into(survey, rest)):
        return written
    found = _split(name, rest, _FLAGS[name], _VALUED.get(name, frozenset()))
    if name in _AT_MOST and (len(found) > _AT_MOST[name] or not all(p.fixed for p in found)):
        raise _odd(name, found[-1].text)
    if name in _NEED and not any(_NEED[name].match(p.text) for p in rest):
        raise _odd(name, "this")
    survey.programs.extend(_HELPED_BY.get(name, ()))
    if name == "xxd" and found and rest[-1] is not found[-1]:
        raise _odd(name, "a flag behind its file, which it takes for a file to write")
    if name in _WRITERS:
        return _writes(survey, name, found)
    for piece in found:
        survey.read(piece)
    _follows(survey, name, rest)
    return "reads", ""


def _sorted_into(survey: Survey, rest: list[Piece]) -> tuple[Kind, str] | None:
    """``sort … -o FILE``."""
    at = next((i for i, p in enumerate(rest) if p.text == "-o" and p.fixed), None)
    if at is None or at + 1 >= len(rest):
        return None
    for piece in _split("sort", [*rest[:at], *rest[at + 2 :]], _FLAGS["sort"], _VALUED["sort"]):
        survey.read(piece)
    kind, _, reason = survey.written_to(rest[at + 1], "sort")
    return kind, reason


def _writes(survey: Survey, name: str, found: list[Piece]) -> tuple[Kind, str]:
    from orkas.harness.commands.survey import RANK

    worst: tuple[Kind, str] = ("reads", "") if name == "tee" else ("unknown", f"{name} is incomplete")
    if name == "cp":
        for piece in found[:-1]:
            survey.read(piece)
            if piece.fixed and found[-1].fixed and (path := survey.scope.path(found[-1].text)):
                survey.written.append(posixpath.join(path, posixpath.basename(piece.text.rstrip("/"))))
    for i, piece in enumerate(found[-1:] if name == "cp" else found):
        kind, _, reason = survey.written_to(piece, name)
        if i == 0 or RANK[kind] > RANK[worst[0]]:
            worst = kind, reason
    return worst


def _chmod(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    words = [p for p in rest if not (p.fixed and p.text in ("-R", "-v", "-f", "-c"))]
    if len(words) < 2 or not re.fullmatch(r"0?[0-7]{3}|[ugoa]*[+=-][rwxX]+(,[ugoa]*[+=-][rwxX]+)*", words[0].text):
        raise _odd(name, words[0].text if words else "nothing")
    if any(p.wild or p.text.startswith("-") for p in words[1:]):
        raise _odd(name, "an argument that may be a flag")
    return _writes(survey, name, words[1:])


def _find(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    from orkas.harness.commands.find_reading import reads

    found = reads(survey, rest)
    _follows(survey, name, rest)
    return found


def _rg(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    for piece in rest:
        if piece.wild or (piece.text.startswith("-") and not piece.fixed) or _RG_BAD.match(piece.text):
            raise _odd(name, piece.text)
        if re.match(r"-[A-Za-z0-9]", piece.text):
            letters = re.split(f"[{''.join(_RG_VALUED)}]", piece.text[1:], maxsplit=1)[0]
            if "z" in letters:
                raise _odd(name, piece.text)
        survey.read(piece)
    _follows(survey, name, rest)
    return "reads", ""


def _test(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    if any(p.wild or p.text in ("-v", "-R") for p in rest):
        raise _odd(name, "a test that may evaluate something")
    return "reads", ""


def _printf(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    if not rest or rest[0].wild or rest[0].text.startswith("-"):
        raise _odd(name, "a form that may be a flag")
    return "reads", ""


def _command(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    if len(rest) < 2 or not rest[0].fixed or rest[0].text not in ("-v", "-V"):
        raise _odd(name, rest[0].text if rest else "nothing")
    return "reads", ""


def _env(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    if rest:
        raise _odd(name, "arguments")
    return "reads", ""


def _cd(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    if len(rest) != 1:
        raise _odd(name, "this")
    survey.go(rest[0], alone=alone)
    return "reads", ""


def _read(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    """Only variables in small letters: the others can change what programs do."""
    if not all(p.fixed and re.fullmatch(r"-r|[a-z_][a-z0-9_]*", p.text) for p in rest) or len(rest) < 2:
        raise _odd(name, "this")
    return "reads", ""


def _sed(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    changes, files = plain_sed(rest)
    if not changes:
        for piece in files:
            survey.read(piece)
        return "reads", ""
    return _writes(survey, name, files)


def _awk(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    for piece in plain_awk(rest):
        if piece.text.startswith("/inet"):
            raise _odd(name, f"{piece.text}, which is a connection,")
        survey.read(piece)
    return "reads", ""


def _xargs(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    """What it starts, with arguments behind that nobody knows."""
    from orkas.harness.commands.survey import Piece

    i, marker = 0, ""
    while i < len(rest) and rest[i].fixed and rest[i].text.startswith("-"):
        text = rest[i].text
        if text in ("-n", "-P", "-L", "-d", "-I"):
            if i + 1 >= len(rest) or not rest[i + 1].fixed:
                raise _odd(name, text)
            marker = rest[i + 1].text if text == "-I" and i + 1 < len(rest) else marker
            i += 1
        elif not re.fullmatch(r"-0|-r|-t|-[nPL]\d+|--(null|no-run-if-empty)", text):
            raise _odd(name, text)
        i += 1
    inner = rest[i:]
    if not inner:
        return survey.program([Piece("echo"), Piece("", False, True, True)])
    if inner[0].text in BUILTINS - {"echo", "printf", "true", "false", "test", "["}:
        raise _odd(name, inner[0].text)
    unknown = Piece("", False, True, True)
    if marker:
        inner = [inner[0], *(unknown if marker in p.text else p for p in inner[1:])]
        if marker in inner[0].text:
            raise _odd(name, "a program that it is fed")
    else:
        inner = [*inner, unknown]
    return survey.program(inner)


def _timeout(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    if len(rest) < 2 or not re.fullmatch(r"[\d.]+[smhd]?", rest[0].text) or rest[1].text in BUILTINS | {"xargs"}:
        raise _odd(name, rest[0].text if rest else "nothing")
    return survey.program(rest[1:])


def _git(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    from orkas.harness.commands.git_reading import reads

    return reads(survey, rest)


_TAR_LISTS = lazy(r"-?[zjJav]*t[zjJav]*f[zjJav]*")
_TAR_PLAIN = lazy(r"-[zjJav]+|--(gzip|bzip2|xz|zstd|verbose|exclude=.*|wildcards)")


def _tar(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    """``tar tf FILE``: the names in an archive of this machine."""
    if not all(p.fixed and not p.wild for p in rest) or len(rest) < 2 or not _TAR_LISTS.fullmatch(rest[0].text):
        raise _odd(name, rest[0].text if rest else "nothing")
    if (rest[0].text.startswith("-") and not rest[0].text.endswith("f")) or ":" in rest[1].text:
        raise _odd(name, rest[1].text)
    flags = [p.text for p in rest[1:] if p.text.startswith("-")]
    if rest[1].text in flags or not all(map(_TAR_PLAIN.fullmatch, flags)):
        raise _odd(name, "an argument that may be a flag")
    survey.read(rest[1])
    survey.programs.extend(_HELPED_BY["tar"])
    return "reads", ""


def _getent(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    if not rest or not rest[0].fixed or rest[0].text not in ("passwd", "group", "services", "protocols", "shells"):
        raise _odd(name, rest[0].text if rest else "nothing")
    if any(p.wild or p.text.startswith("-") for p in rest[1:]):
        raise _odd(name, "an argument that may be a flag")
    return "reads", ""


def _pip(survey: Survey, name: str, rest: list[Piece], alone: bool) -> tuple[Kind, str]:
    words = [p.text for p in rest]
    shows = len(words) > 1 and words[0] == "show" and all(re.fullmatch(r"[A-Za-z]\S*|-f|--files", w) for w in words[1:])
    if not all(p.fixed for p in rest) or not (shows or words in (["--version"], ["-V"])):
        raise _odd(name, words[0] if words else "nothing")
    return "reads", ""


_Rule = Callable[["Survey", str, "list[Piece]", bool], "tuple[Kind, str]"]
_RULES: dict[str, _Rule] = {
    "find": _find, "rg": _rg, "test": _test, "[": _test, "printf": _printf, "command": _command, "env": _env,
    "cd": _cd, "read": _read, "sed": _sed, "awk": _awk, "mawk": _awk, "gawk": _awk, "xargs": _xargs, "git": _git,
    "timeout": _timeout, "chmod": _chmod, "tar": _tar, "getent": _getent, "pip": _pip, "pip3": _pip,
}  # fmt: skip
KNOWN = frozenset({*READ_ANY, *_FLAGS, *_RULES} - {"git", "gzip", "pip", "pip3", "tar", "unzip"})
"""Programs with a row here: what of them is harmless is known, flag by flag. Those of which a single use is known are
not among them."""
