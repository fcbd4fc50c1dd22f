"""What the block list says about programs that change the files they are given, or write to the last of them."""

from __future__ import annotations

import re

from orkas.harness.commands.judge import Judge
from orkas.harness.commands.words import Arg, Scope, Stdin
from orkas.infra.patterns import lazy

__all__ = ["CHANGE", "WRITE_LAST", "changes", "writes_last"]

CHANGE: dict[str, re.Pattern[str]] = {
    "yq": lazy(r"-i|--inplace"), "clang-format": lazy(r"-i"), "prettier": lazy(r"-w|--write"),
    "gofmt": lazy(r"-w"), "goimports": lazy(r"-w"), "autopep8": lazy(r"-i|--in-place"),
    "eslint": lazy(r"--fix"), "ruff": lazy(r"--fix|format"),
    **dict.fromkeys(["black", "isort", "rustfmt", "dos2unix", "unix2dos"], lazy(r"")),
    **dict.fromkeys(["gzip", "gunzip", "xz", "unxz", "bzip2", "bunzip2", "zstd", "unzstd", "lzma"], lazy(r"")),
}  # fmt: skip
"""Programs that change their files, when one of their arguments is this one; an empty one: always."""
_ONLY_LOOK = lazy(r"--(check|diff|stdout|list|test|to-stdout|version|help)|-[a-z]*[clt]")

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
