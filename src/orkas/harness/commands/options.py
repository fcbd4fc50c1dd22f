"""Options that start a program or name where something is written, by program; shortened ones are found too."""

from __future__ import annotations

import re
from collections.abc import Iterable

from orkas.infra.patterns import lazy

__all__ = ["RUNS", "RUNS_LONG", "WRITES", "meant", "runs_another", "written_by"]


def meant(text: str, options: Iterable[str], harmless: Iterable[str] = ()) -> str | None:
    """The one of these long options that an argument may stand for: in full, or shortened as ``getopt_long`` takes it.
    ``harmless``: others of the same beginning, which count when they are written in full."""
    name = text.partition("=")[0]
    if not re.match(r"--[A-Za-z]", name) or name in harmless:
        return None
    return next((option for option in options if option.startswith(name)), None)


_GCC = ["gcc", "g++", "cc", "c++", "clang", "clang++", "cpp", "gfortran"]
_TEX = ["tex", "latex", "pdftex", "pdflatex", "xelatex", "lualatex", "luatex", "latexmk", "xetex"]
_TAR = ["tar", "gtar", "bsdtar"]

RUNS: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(_TAR, lazy(r"^-[a-zA-Z]*[IF]")),
    "man": lazy(r"^-[PH]"),
    "zip": lazy(r"^-TT"),
    "ssh-keygen": lazy(r"^-D"),
    "curl": lazy(r"^-[sSfLk]*K"),
    "openssl": lazy(r"^-engine$"),
    **dict.fromkeys(["tcpdump", "dumpcap"], lazy(r"^-[a-zA-Z]*z")),
    "ssh-add": lazy(r"^-s"),
    "ip": lazy(r"^(exec|-batch|-b)$"),
    "lynx": lazy(r"^-editor"),
    **dict.fromkeys(_GCC, lazy(
        r"^(-wrapper$|-f(pass-)?plugin=|--?specs=.*/|-B.|-fuse-ld=.*/|-Xclang=?-load|-load$|--ld-path)")),
    "rustc": lazy(r"^(-C|--codegen)?=?linker=.*/"),
    "ld": lazy(r"^--?plugin(=|$)"),
    "javac": lazy(r"^(-J|--?processor-?path|-Xplugin)"),
    "wget": lazy(r"use_?askpass"),
    "aria2c": lazy(r"^--on-"),
    "java": lazy(r"^-XX:On"),
    "mvn": lazy(r"exec\.executable"),
    "rake": lazy(r"^-[epE]"),
    "pandoc": lazy(r"^(-[FL]|--pdf-engine=.*/)"),
    **dict.fromkeys(_TEX, lazy(
        r"^-?-(shell-escape|enable-write18|enable-pipes|e|(pdf|xe|lua)?latex=.*)$|\\write18")),
    **dict.fromkeys(["apt", "apt-get", "aptitude"], lazy(
        r"(?i)(pre|post)-?\w*-?invoke|(install-pkgs|hook|::pager|::editor|apt::(solver|planner)|dir::bin|::methods|proxy-auto)")),
    "dpkg": lazy(r"(?i)invoke|^--(pre|post)-"),
    "run-parts": lazy(r"."),
    "cargo": lazy(r"^(--config=?)?[\w.'\"-]*(wrapper|linker|runner|rustc|alias)[\w.'\"-]*\s*="),
    "go": lazy(r"^--?(exec|toolexec|vettool)(=|$)"),
    "gradle": lazy(r"^-I"),
}  # fmt: skip
"""Programs that run others when an argument looks like this."""

RUNS_LONG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_TAR, (
        "--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--info-script",
        "--new-volume-script", "--rmt-command")),
    "rg": ("--pre", "--hostname-bin"), "sort": ("--compress-program",), "split": ("--filter",),
    "man": ("--pager", "--html", "--preprocessor"), "zip": ("--unzip-command",), "curl": ("--config",),
    "wget": ("--use-askpass",), "nmap": ("--script",), "ctags": ("--options",), "pandoc": ("--filter", "--lua-filter"),
    "rsync": ("--rsh", "--rsync-path"), "helm": ("--post-renderer",), "rake": ("--execute", "--execute-print",
    "--execute-continue"), "gradle": ("--init-script",),
    **dict.fromkeys(["make", "gmake"], ("--eval",)),
    **dict.fromkeys(["npm", "pnpm"], ("--script-shell", "--node-options", "--shell", "--init-module")),
    "tcpdump": ("--postrotate-command",), "dpkg": ("--pre-invoke", "--post-invoke"),
}  # fmt: skip
"""Their long options that do."""
_HARMLESS_LONG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_TAR, ("--checkpoint", "--to-stdout")), "nmap": ("--script-help", "--script-updatedb"),
}  # fmt: skip


def runs_another(name: str, text: str) -> bool:
    """Whether this argument tells the program to start another one."""
    if (short := RUNS.get(name)) and short.search(text):
        return True
    return meant(text, RUNS_LONG.get(name, ()), _HARMLESS_LONG.get(name, ())) is not None


WRITES: dict[str, tuple[str, ...]] = {
    "javac": ("-d", "-s", "-h"), "ssh-keygen": ("-f",), "strace": ("-o", "--output"), "time": ("-o", "--output"),
    **dict.fromkeys(["pip", "pip3"], ("-t", "--target", "--prefix", "--root", "-d", "--dest")),
    "rsync": ("--log-file", "--backup-dir", "--temp-dir", "--partial-dir", "--write-batch"),
    "unzip": ("-d",), "cpio": ("-D",), "gpg": ("-o", "--output"), "openssl": ("-out", "-keyout"),
    "cargo": ("--root", "--target-dir", "--out-dir"), "tsc": ("--outDir", "--outFile", "--declarationDir"),
    "patch": ("-o", "--output", "-d", "--directory", "-r"),
    **dict.fromkeys(_TAR, ("--one-top-level", "--index-file")),
}  # fmt: skip
"""Options that name a file or a folder to write to, beside those that ``outputs`` knows for all programs."""


def written_by(name: str, texts: list[str]) -> list[str]:
    """The values of such options, glued or behind them."""
    found = []
    options = WRITES.get(name, ())
    long = [o for o in options if o.startswith("--")]
    for i, text in enumerate(texts):
        behind = texts[i + 1] if i + 1 < len(texts) else ""
        if meant(text, long):
            found.append(text.partition("=")[2] if "=" in text else behind)
        elif text in options:
            found.append(behind)
        elif text[:2] in options:
            found.append(text[2:].removeprefix("="))
    return [one for one in found if one]
