"""What was used, as a report: totals, and the same by day, model, session and tool; as lines of text and as JSON."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from orkas.harness.statistics import Line, ToolUse, day_of, summed
from orkas.infra.amounts import counted, usd
from orkas.infra.errors import UsageError
from orkas.infra.terminal import label

__all__ = ["BYS", "By", "Report", "as_json", "as_lines", "cost_text", "report", "since_moment"]

By: TypeAlias = Literal["day", "model", "session", "tool"]
BYS: tuple[By, ...] = get_args(By)
_DAYS_SHOWN = 14
"""Days of the table that nobody asked for; ``--by day`` shows all."""
_KEYS: dict[str, Callable[[Line], str]] = {
    "day": day_of,
    "model": lambda line: line.model,
    "session": lambda line: line.session,
}


class Report(msgspec.Struct):
    """Sums over the same lines. ``rows``: by day, model and session, the sum for each name."""

    total: Line
    rows: dict[str, dict[str, Line]]


def report(lines: Sequence[Line]) -> Report:
    """Sum up. Days in order, models and sessions by what they were used most."""
    total = Line(lines[0].t if lines else 0, "")
    rows = {by: summed(lines, key) for by, key in _KEYS.items()}
    for line in rows["day"].values():
        total.add(line)
    return Report(
        total,
        {
            "day": dict(sorted(rows["day"].items())),
            "model": dict(sorted(rows["model"].items(), key=_most)),
            "session": dict(sorted(rows["session"].items(), key=_most)),
        },
    )


def _most(row: tuple[str, Line]) -> tuple[int, str]:
    name, line = row
    return -(_prompt(line) + line.output), name


def _prompt(line: Line) -> int:
    return line.input + line.cache_read + line.cache_write


def cache_share(line: Line) -> float | None:
    """How much of what was sent came from the cache, 0 to 1; None when nothing is known to have been sent."""
    sent = _prompt(line)
    return line.cache_read / sent if sent else None


def cost_text(line: Line) -> str:
    """The cost; ``>=`` where that of some replies is not known, ``-`` where that of none is."""
    if line.unpriced >= line.calls:
        return "-"
    amount = usd(line.cost_usd)
    return f">= {amount}" if line.unpriced else amount


_COLUMNS: tuple[tuple[str, Callable[[Line], int]], ...] = (
    ("calls", lambda line: line.calls),
    ("input", lambda line: line.input),
    ("output", lambda line: line.output),
    ("reasoning", lambda line: line.reasoning),
    ("cache write", lambda line: line.cache_write),
    ("cache read", lambda line: line.cache_read),
    ("retries", lambda line: line.retries),
    ("compactions", lambda line: line.compactions),
)
_ALWAYS = ("calls", "input", "output")


def as_lines(made: Report, by: By | None = None) -> list[str]:
    """The tables as text. Without ``by``: models, the last days and tools; the last row of each is the total."""
    if by == "tool":
        return _tool_table(made.total.tools)
    if by is not None:
        return _table(by, made.rows[by], made.total)
    days = made.rows["day"]
    recent = dict(list(days.items())[-_DAYS_SHOWN:])
    lines = [*_table("model", made.rows["model"], made.total), "", *_table("day", recent, None)]
    if len(days) > len(recent):
        lines.append(f"and {counted(len(days) - len(recent), 'earlier day')}; `orkas stats --by day` shows all")
    if made.total.tools:
        lines += ["", *_tool_table(made.total.tools)]
    if made.total.unpriced:
        lines += ["", f"The cost of {made.total.unpriced:,} of {counted(made.total.calls, 'call')} is not known."]
    return lines


def _table(by: str, rows: dict[str, Line], total: Line | None) -> list[str]:
    """Columns that hold nothing but zeros are left out."""
    sums = [*rows.values(), *([total] if total is not None else [])]
    shown = [(name, of) for name, of in _COLUMNS if name in _ALWAYS or any(of(line) for line in sums)]
    names = [*(label(name, 40) or "(not known)" for name in rows), *(["total"] if total is not None else [])]
    table = [[by, *(name for name, _ in shown), "cached", "cost"]]
    for name, line in zip(names, sums, strict=True):
        share = cache_share(line)
        cached = "-" if share is None else f"{share:.0%}"
        table.append([name, *(f"{of(line):,}" for _, of in shown), cached, cost_text(line)])
    return _aligned(table)


def _tool_table(tools: dict[str, ToolUse]) -> list[str]:
    table = [["tool", "calls", "failed", "", "broke", ""]]
    for name, use in sorted(tools.items(), key=lambda row: (-row[1].calls, row[0])):
        failed, faults = (f"{n / use.calls:.0%}" if n and use.calls else "" for n in (use.failed, use.faults))
        table.append([label(name, 40), f"{use.calls:,}", f"{use.failed:,}", failed, f"{use.faults:,}", faults])
    return _aligned(table)


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Names to the left, numbers to the right."""
    widths = [max(len(row[n]) for row in table) for n in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def as_json(made: Report, bys: Iterable[By] = BYS) -> dict[str, Any]:
    """``total`` and, for each of ``bys``, a list ``by_<name>``. ``cost_usd``: the sum of what is known, null where
    nothing is; it is the whole cost when ``cost_complete``."""
    data: dict[str, Any] = {"total": _numbers(made.total)}
    for by in bys:
        if by == "tool":
            data["by_tool"] = [{"tool": name, **_use(use)} for name, use in sorted(made.total.tools.items())]
        else:
            data[f"by_{by}"] = [{by: name, **_numbers(line)} for name, line in made.rows[by].items()]
    return data


def _numbers(line: Line) -> dict[str, Any]:
    known = line.calls > line.unpriced
    used = ToolUse()
    for use in line.tools.values():
        used.calls += use.calls
        used.failed += use.failed
        used.faults += use.faults
    return {
        **{f: getattr(line, f) for f in ("calls", "input", "output", "cache_read", "cache_write", "reasoning")},
        "cache_share": cache_share(line),
        "cost_usd": line.cost_usd if known else None,
        "cost_complete": not line.unpriced,
        "uncounted": line.uncounted,
        "retries": line.retries,
        "compactions": line.compactions,
        "tool_calls": used.calls,
        "tools_failed": used.failed,
        "tools_broke": used.faults,
    }


def _use(use: ToolUse) -> dict[str, int]:
    return {"calls": use.calls, "failed": use.failed, "broke": use.faults}


_AGO = re.compile(r"([1-9][0-9]{0,3})([hdw])", re.ASCII)


def since_moment(text: str, now_s: float | None = None) -> float:
    """The moment that ``7d``, ``12h``, ``2w``, ``today`` or a date such as ``2026-11-30`` means, as Unix time.

    Days begin at midnight on the clock of this machine; ``7d`` is the last seven of them and what there is of today.

    Raises:
        UsageError: it means none.
    """
    from datetime import datetime, timedelta

    moment = datetime.fromtimestamp(time.time() if now_s is None else now_s)  # noqa: DTZ006 - the user's own clock
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    found = _AGO.fullmatch(text.strip().lower())
    try:
        if text.strip().lower() == "today":
            return midnight.timestamp()
        if found is None:
            return datetime.fromisoformat(text.strip()).timestamp()
        count = int(found[1])
        if found[2] == "h":
            return (moment - timedelta(hours=count)).timestamp()
        return (midnight - timedelta(days=count * (7 if found[2] == "w" else 1))).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{label(text, 40)!r} is no time to begin at", hint="say a date as 2026-11-30, or 7d, 12h, 2w, today"
        ) from None
