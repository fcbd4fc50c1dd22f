"""Mutation test of one module: change it in one place at a time, and see whether its tests notice.

    python scripts/mutate.py orkas.harness.pairing tests/test_pairing.py tests/test_outcome.py
    python scripts/mutate.py MODULE TEST… [--only N,N…] [--jobs 2] [--limit SECONDS] [options of pytest]

Needs the development environment and a system that can fork. Each mutant runs in a process of its own, forked from one
that has the heavy libraries loaded; the mutant is loaded in the place of the module and no file is changed. Prints the
mutants that survived and the score; ends with status 1 below 90 %. A survivor is either a test that is missing or a
change without effect.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
sys.path[:0] = [str(SOURCE), str(ROOT / "tests/crash")]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.BitOr: ast.BitAnd,
}  # fmt: skip
QUICK = [
    "-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:anyio", "-p", "no:cov",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
]  # fmt: skip
"""Nothing that only explains a failure, or that takes longer to load than a test to run."""
LOUD = {"__all__", "annotations"}


def changes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Every mutant: what was changed, and its source."""
    for parent in list(ast.walk(tree)):
        for field, value in ast.iter_fields(parent):
            for i, node in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(node, ast.AST) and _counts(node):
                    for what, new in _variants(node):
                        yield f"line {node.lineno}: {what}", _unparsed(tree, parent, field, i, new)


def _unparsed(tree: ast.Module, parent: ast.AST, field: str, i: int, new: ast.AST) -> str:
    """The source with one node exchanged."""
    old = getattr(parent, field)
    setattr(parent, field, [*old[:i], new, *old[i + 1 :]] if isinstance(old, list) else new)
    try:
        return ast.unparse(tree)
    finally:
        setattr(parent, field, old)


def _counts(node: ast.AST) -> bool:
    return hasattr(node, "lineno") and not getattr(node, "_spared", False)


def spare(tree: ast.Module) -> None:
    """Mark what is no behaviour: annotations, docstrings, the words of errors, ``__all__``, imports, assertions."""
    for node in ast.walk(tree):
        spared: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            spared.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            spared += [node.returns, *node.decorator_list]
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in LOUD for t in node.targets):
            spared.append(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            spared.append(node)
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert):
            spared.append(node)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            spared += [*node.exc.args, *node.exc.keywords]
        for each in spared:
            for inside in ast.walk(each) if each is not None else ():
                inside._spared = True  # type: ignore[attr-defined]


def _variants(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(ops=[op, *more]) if type(op) in COMPARISONS:
            other = COMPARISONS[type(op)]
            yield f"{_name(op)} → {other.__name__}", ast.Compare(node.left, [other(), *more], node.comparators)
        case ast.BoolOp():
            yield "and ↔ or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
            for i in range(len(node.values)):
                rest = [v for j, v in enumerate(node.values) if j != i]
                yield f"without operand {i + 1}", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.UnaryOp(op=ast.Not()):
            yield "without not", node.operand
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            changed = OPERATORS[type(op)]()
            yield f"{_name(op)} → {_name(changed)}", ast.BinOp(node.left, changed, node.right)
        case ast.Constant(value=bool()):
            yield f"{node.value} → {not node.value}", ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield f"{node.value} → {node.value + 1}", ast.Constant(node.value + 1)
        case ast.Constant(value=str() | bytes()) if node.value:
            other_text = "XX" if isinstance(node.value, str) else b"XX"
            yield f"{node.value!r} → {other_text!r}", ast.Constant(other_text)
        case ast.If() | ast.IfExp() | ast.While():
            yield "condition turned round", _turned(node)
        case ast.Return(value=value) if value is not None and ast.unparse(value) != "None":
            yield "return None", ast.Return(ast.Constant(None))
        case ast.Break():
            yield "break → continue", ast.Continue()
        case ast.Continue():
            yield "continue → break", ast.Break()
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "statement left out", ast.Pass()


def _name(node: ast.AST) -> str:
    return type(node).__name__


def _turned(node: ast.If | ast.IfExp | ast.While) -> ast.AST:
    other = copy.copy(node)
    other.test = ast.UnaryOp(ast.Not(), node.test)
    return other


def told(before: str, after: str) -> str:
    """The changed lines."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join("      " + line for line in list(lines)[3:])


def start(module: str, path: Path, code: str, tests: list[str], limit: float) -> int:
    """A process that runs the tests on the mutant: status 0 when they all pass."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.setpgid(0, 0)
        signal.setitimer(signal.ITIMER_REAL, limit)  # a mutant may run for ever: it is killed, and so found
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        from crash_broken import Instead

        sys.meta_path.insert(0, Instead(module, code, path))
        import pytest

        status = int(pytest.main([*QUICK, *tests]))
    finally:
        os._exit(status)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("module")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--only", help="these mutants alone, by number: 3,17")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a mutant may run")
    given, options = parser.parse_known_args()
    given.tests += options
    os.chdir(ROOT)
    os.environ.setdefault("ORKAS_EXAMPLES", "60")
    path = SOURCE.joinpath(*given.module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    spare(tree)
    before = ast.unparse(tree)
    for heavy in ("pytest", "pytest_asyncio.plugin", "hypothesis.stateful", "asyncio", "msgspec", "aiohttp"):
        with contextlib.suppress(ImportError):
            importlib.import_module(heavy)
    mutants = [m for m in dict.fromkeys(changes(tree)) if m[1] != before]
    chosen = [int(n) for n in given.only.split(",")] if given.only else list(range(len(mutants)))
    return judge(given, path, before, mutants, chosen)


def judge(given: argparse.Namespace, path: Path, before: str, mutants: list[tuple[str, str]], chosen: list[int]) -> int:
    began = time.monotonic()
    running: dict[int, int] = {}
    survived: list[int] = []
    waiting = chosen[::-1]
    assert _passes(given, path, before), "the tests fail without any change"
    while waiting or running:
        while waiting and len(running) < given.jobs:
            number = waiting.pop()
            running[start(given.module, path, mutants[number][1], given.tests, given.limit)] = number
        pid, status = os.wait()
        number = running.pop(pid)
        if (number + 1) % 50 == 0:
            print(f"… {number + 1} of {len(mutants)}", flush=True)
        if status == 0:
            survived.append(number)
            print(f"survived {number}, {mutants[number][0]}\n{told(before, mutants[number][1])}", flush=True)
    score = 1 - len(survived) / len(chosen)
    found, seconds = len(chosen) - len(survived), time.monotonic() - began
    print(f"{given.module}: {found} of {len(chosen)} found, {score:.1%}, {seconds:.0f} s")
    return 0 if score >= 0.9 else 1


def _passes(given: argparse.Namespace, path: Path, code: str) -> bool:
    _, status = os.waitpid(start(given.module, path, code, given.tests, given.limit), 0)
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
