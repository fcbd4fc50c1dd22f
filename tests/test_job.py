"""A whole job, as a user sees it: the command, a strict vendor on a socket, real tools in a real folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orkas import Session
from orkas.testing import FakeVendor, VendorRequest, call

BROKEN = "def mean(xs):\n    return sum(xs) / len(x)\n"
CHECK = "from stats import mean\nassert mean([1, 2, 3]) == 2\nprint('all good')\n"


def last_result(request: VendorRequest) -> str:
    """What the tool said last, in either dialect."""
    message = request.body["messages"][-1]
    if message["role"] == "tool":
        return str(message["content"])
    block = message["content"][-1]
    return "".join(b["text"] for b in block["content"]) if isinstance(block["content"], list) else str(block["content"])


def expecting(text: str, *reply: Any) -> Any:
    """A step of the model that is taken only if the last result says ``text``."""

    def step(request: VendorRequest) -> list[Any]:
        assert text in last_result(request), last_result(request)
        return list(reply)

    return step


STEPS = [
    ["I will look around first. ", call("list_files"), call("search_files", pattern="def mean")],
    expecting("stats.py:1", call("read_file", path="stats.py")),
    expecting("len(x)", call("shell", command=f"{sys.executable} check.py")),
    expecting("NameError", "There it is. ", call("edit_file", path="stats.py", old_text="len(x)", new_text="len(xs)")),
    expecting("len(xs)", call("shell", command=f"{sys.executable} check.py")),
    expecting("all good", call("teleport", to="prod")),
    expecting("There is no tool", call("read_file", path="../secret.txt")),
    expecting("outside", call("write_file", path="notes/done.md", content="mean is right now\n")),
    expecting("done.md", call("shell", command="git --version && sudo reboot")),
    expecting("sudo", "Fixed: `len(x)` was meant to be `len(xs)`; the check passes."),
]


@pytest.mark.parametrize("model", ["custom/m", "anthropic/claude-sonnet-4-5"])
def test_a_job_of_many_steps(model: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("not yours")
    (folder / "stats.py").write_text(BROKEN)
    (folder / "check.py").write_text(CHECK)
    with FakeVendor(STEPS) as vendor:
        row = model.partition("/")[0].upper()
        env = {**os.environ, f"{row}_BASE_URL": vendor.base_url, f"{row}_API_KEY": "sk-test"}
        command = [sys.executable, "-m", "orkas", "run", "--json", "--model", model, "--session", "job", "--approve", "all", "--cwd", str(folder)]
        ran = subprocess.run([*command, "The mean is wrong. Fix it."], env=env, capture_output=True, text=True, timeout=60)
        assert [r.status for r in vendor.requests] == [200] * len(STEPS), ran.stdout[-600:]
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    done = events[-1]
    assert (ran.returncode, done["type"], done["outcome"], done["rounds"]) == (0, "done", "completed", len(STEPS)), ran.stderr
    assert done["text"].startswith("Fixed")
    assert [e["seq"] for e in events] == list(range(len(events)))
    assert done["tools"]["shell"] == {"calls": 3, "errors": 2}
    assert done["tools"]["teleport"] == {"calls": 1, "errors": 1}
    assert (folder / "stats.py").read_text() == BROKEN.replace("len(x)", "len(xs)")
    assert (folder / "notes/done.md").read_text() == "mean is right now\n"
    assert len(Session.read("job").messages) == 2 * len(STEPS) + 1
