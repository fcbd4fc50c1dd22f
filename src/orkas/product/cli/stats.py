"""``orkas stats``: tokens, cost, retries, compactions and tools, as they were used."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from orkas.infra.amounts import counted
from orkas.product.cli import out, parsing

if TYPE_CHECKING:
    from orkas.harness.statistics import Line

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas stats",
        description="What was used: tokens, cost, retries, compactions, tools and their errors.\n"
        "A cost with >= is a lower bound: that of some calls is not known. `failed`: the tool said that it could not;\n"
        "`broke`: it crashed or hung. Conversations in memory are not counted.",
        example="orkas stats --since 7d --by day",
    )
    own.add_argument("--session", metavar="ID", help="of this conversation alone")
    own.add_argument("--model", metavar="M", help="of this model alone: vendor/model, or a part of it")
    own.add_argument(
        "--since", metavar="DATE|7d", help="from this day on, or the last days (7d), hours (12h), weeks (2w)"
    )
    own.add_argument("--by", choices=("day", "model", "session", "tool"), help="one table, whole (default: a summary)")
    return parsing.common(own, _do)


def _do(options: argparse.Namespace) -> int:
    from orkas.harness import statistics
    from orkas.product import stats

    since = stats.since_moment(options.since) if options.since is not None else 0.0
    found = statistics.read(since)
    lines = [line for line in found.lines if _wanted(line, options)]
    made = stats.report(lines)
    if options.json:
        bys = stats.BYS if options.by is None else (options.by,)
        out.data({"since": options.since, **stats.as_json(made, bys), "skipped_lines": found.skipped})
        return 0
    if lines:
        out.lines(stats.as_lines(made, options.by))
    else:
        out.note(_nothing(options))
    if found.skipped:
        out.warning(f"not counted: {counted(found.skipped, 'damaged or foreign line')} in {statistics.folder()}")
    if problem := statistics.check():
        out.warning(f"nothing new can be kept in {statistics.folder()}: {problem}; `orkas doctor` says more")
    return 0


def _wanted(line: Line, options: argparse.Namespace) -> bool:
    session, model = options.session, options.model
    return (session is None or line.session == session) and (model is None or model in line.model)


def _nothing(options: argparse.Namespace) -> str:
    if options.session or options.model or options.since is not None:
        return "nothing was used that fits; `orkas stats` alone shows everything"
    return "nothing was used yet; what conversations on disk use is counted from the first one on"
