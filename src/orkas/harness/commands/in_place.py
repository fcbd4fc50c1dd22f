"""What the block list says about programs that change the files they are given, or write to the last of them."""

from __future__ import annotations

import re

from orkas.harness.commands.judge import Judge
from orkas.harness.commands.words import Arg, Scope, Stdin

__all__ = ["CHANGE", "WRITE_LAST", "changes", "writes_last"]

CHANGE: dict[str, re.Pattern[str]] = {
    "yq": re.compile(r"-i|--inplace"), "clang-format": re.compile(r"-i"), "prettier": re.compile(r"-w|--write"),
    "gofmt": re.compile(r"-w"), "goimports": re.compile(r"-w"), "autopep8": re.compile(r"-i|--in-place"),
    "eslint": re.compile(r"--fix"), "ruff": re.compile(r"--fix|format"),
    **dict.fromkeys(["black", "isort", "rustfmt", "dos2unix", "unix2dos"], re.compile(r"")),
    **dict.fromkeys(["gzip", "gunzip", "xz", "unxz", "bzip2", "bunzip2", "zstd", "unzstd", "lzma"], re.compile(r"")),
}  # fmt: skip
"""Programs that change their files, when one of their arguments is this one; an empty one: always."""
_ONLY_LOOK = re.compile(r"--(check|diff|stdout|list|test|to-stdout|version|help)|-[a-z]*[clt]")

WRITE_LAST: dict[str, str] = {
    "split": "abClnt", "uniq": "fsw", "ar": "", "convert": "", "magick": "", "ffmpeg": "", "wkhtmltopdf": "",
}  # fmt: skip
"""Programs that write to the last of at least two files; their letters that take the next argument."""


def changes(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    told = CHANGE[name]
    texts = [a.text for a in rest]
    if any(map(_ONLY_LOOK.fullmatch, texts)) or (told.pattern and not any(map(told.fullmatch, texts))):
        return
    for arg in rest:
        if not arg.text.startswith("-"):
            judge.writes(arg, scope, changes=True)


def writes_last(judge: Judge, name: str, rest: list[Arg], scope: Scope, stdin: Stdin | None) -> None:
    valued = re.compile(f"-[{WRITE_LAST[name]}]" if WRITE_LAST[name] else r"(?!)")
    files = [
        arg
        for before, arg in zip([Arg(""), *rest], rest, strict=False)
        if not valued.fullmatch(before.text) and (not arg.text.startswith("-") or arg.text == "-")
    ]
    if name == "ar":
        files = files[:2]
    if len(files) > 1:
        judge.writes(files[-1], scope, changes=True)
