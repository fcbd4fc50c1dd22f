"""Undo of what a turn did to files: through the agent with real tools, and through the commands."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import orkas
from cli_support import orkas as orkas_command
from orkas import Agent, Session, tool
from orkas.harness import trash
from orkas.harness.undo import keeper as keeping
from orkas.harness.undo import records
from orkas.harness.undo.keeper import Keeper
from orkas.harness.undo.restore import Undone, undo
from orkas.harness.undo.scan import TooLarge, scan
from orkas.infra.errors import StorageError, UsageError
from orkas.infra.events import Notice
from orkas.testing import ScriptedProvider, call
from test_chat import Start, start  # noqa: F401 - the chat at a terminal, as a fixture

CHILD_ENV = os.environ | {"PYTHONPATH": str(Path(orkas.__file__).parents[1])}


def snapshot(folder: Path) -> dict[str, Any]:
    """Every path with its kind, mode and content."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        mode = stat.S_IMODE(info.st_mode)
        what = os.readlink(path) if path.is_symlink() else "folder" if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder))] = (what, None if path.is_symlink() else mode)
    return found


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "sub").mkdir()
    (folder / "sub/b.bin").write_bytes(bytes(range(256)) * 2_000)
    (folder / "sub/link").symlink_to("../a.txt")
    (folder / "empty").mkdir()
    return folder


def agent_with(work: Path, *turns: list[Any], session: Session | None = None) -> Agent:
    replies: list[Any] = []
    for calls in turns:
        replies += [[c] for c in calls] + ["done"]
    return Agent(ScriptedProvider(replies), cwd=work, session=session, approve="all")


async def turn(agent: Agent) -> list[Any]:
    return [event async for event in agent.stream("go")]


def shell(command: str) -> Any:
    return call("shell", command=command)


async def test_everything_a_turn_did_is_taken_back(work: Path) -> None:
    before = snapshot(work)
    agent = agent_with(work, [
        call("write_file", path="new/deep/x.txt", content="x"),
        call("edit_file", path="a.txt", old_text="a", new_text="A"),
        shell("rm sub/b.bin && mv run.sh go.sh && rmdir empty && rm sub/link && ln -s new sub/link && mkdir -p m/n"),
        shell("chmod 600 a.txt && echo more >> a.txt && head -c 300000 /dev/zero > big"),
        call("apply_patch", patch="*** Begin Patch\n*** Delete File: go.sh\n*** Add File: sub/c\n+c\n*** End Patch"),
    ])  # fmt: skip
    await turn(agent)
    assert snapshot(work) != before
    done = await agent.undo()
    assert snapshot(work) == before
    assert done.refused == []
    assert done.restored == ["a.txt", "empty", "run.sh", "sub/b.bin", "sub/link"]
    assert set(done.removed) >= {"big", "m", "m/n", "new", "new/deep", "new/deep/x.txt", "sub/c"}
    assert {"big", "go.sh", "new/deep/x.txt", "sub/c"} <= {entry.path for entry in trash.entries()}
    with pytest.raises(UsageError, match="nothing to take back"):
        await agent.undo()


@pytest.mark.parametrize("path", ["n" * 300, "a/" * 3_000 + "b"])
async def test_a_file_that_cannot_be_is_nothing_to_tell_of(work: Path, path: str) -> None:
    @tool
    def mine(path: str) -> str:
        return path

    mine.touches = lambda arguments, _context: [Path(arguments["path"])]
    before = snapshot(work)
    patch = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    agent = Agent(
        ScriptedProvider([
            [call("write_file", path=path, content="x")], [call("apply_patch", patch=patch)], [call("mine", path=path)], "done",
        ]),
        cwd=work, approve="all", tools=[*orkas.builtins(), mine],
    )  # fmt: skip
    events = await turn(agent)
    assert [event for event in events if isinstance(event, Notice)] == []
    results = [event.result for event in events if event.type == "tool_end"]
    assert ["is too long" in result for result in results] == [True, True, False]
    assert snapshot(work) == before


async def test_turns_are_taken_back_one_after_another(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")], [shell("ls")], [call("edit_file", path="a.txt", old_text="1\n", new_text="2")])
    states = [snapshot(work)]
    for _ in range(3):
        await turn(agent)
        states.append(snapshot(work))
    await agent.undo()
    assert snapshot(work) == states[2] == states[1]
    await agent.undo()
    assert snapshot(work) == states[0]
    with pytest.raises(UsageError):
        await agent.undo()


async def test_what_somebody_changed_since_is_left_and_named(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt; echo 2 > run.sh; mkdir made; touch made/own; rm sub/b.bin")])
    await turn(agent)
    (work / "a.txt").write_text("mine")
    (work / "made/other").write_text("mine")
    (work / "sub/b.bin").write_text("mine")
    done = await agent.undo()
    assert (work / "a.txt").read_text() == "mine" and (work / "sub/b.bin").read_text() == "mine"
    assert (work / "made/other").read_text() == "mine" and not (work / "made/own").exists()
    assert (work / "run.sh").read_text() == "#!/bin/sh\n" and os.access(work / "run.sh", os.X_OK)
    assert sorted(done.refused) == [
        "a.txt: it was changed after the turn",
        "made: the folder holds files that are not of this turn",
        "sub/b.bin: it was changed after the turn",
    ]
    assert "left a.txt: it was changed after the turn" in done.lines


async def test_a_file_of_the_user_where_a_folder_was_stays(work: Path) -> None:
    agent = agent_with(work, [shell("rm -r sub; echo 1 > a.txt")])
    await turn(agent)
    (work / "sub").write_text("mine")
    done = await agent.undo()
    assert (work / "sub").read_text() == "mine" and done.restored == ["a.txt"]
    assert sorted(done.refused) == [
        "sub/b.bin: a folder on the way to it is a file now", "sub/link: a folder on the way to it is a file now",
        "sub: it was changed after the turn",
    ]  # fmt: skip
    assert not done.again


async def test_a_full_disk_is_told_in_plain_words(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")])
    await turn(agent)
    ran = subprocess.run(
        [sys.executable, "-c", FULL, agent.session.id], capture_output=True, text=True,
        env=CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]},
    )  # fmt: skip
    assert ran.stdout == "left a.txt: the disk is full\nwhat failed is tried again by the next undo\n", ran.stderr
    assert (await agent.undo()).restored == ["a.txt"]


FULL = """
import sys
from orkas.harness.undo.restore import undo
import errno, os
real = os.replace
def full(*args, **more):
    if str(args[1]).endswith("a.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return real(*args, **more)
os.replace = full
print(*undo(sys.argv[1]).lines, sep="\\n")
"""


DEEP = "d=$(printf 'q%.0s' {1..200}); for i in $(seq 30); do"


async def test_paths_longer_than_the_system_takes_are_covered(work: Path) -> None:
    subprocess.run(["bash", "-ec", f"{DEEP} mkdir $d; cd $d; done; echo x > x; ln -s x l; echo o > o"], cwd=work, check=True)
    read = f"{DEEP} cd $d; done; cat x o; readlink l; ls"
    before = subprocess.check_output(["bash", "-ec", read], cwd=work)
    agent = agent_with(work, [shell(f"{DEEP} cd $d; done; echo y > x; rm l o; mkdir n; echo n > n/n"), shell("echo 1 > a.txt")])
    events = await turn(agent)
    assert not [event for event in events if isinstance(event, Notice)]
    assert subprocess.run(["bash", "-ec", read], cwd=work).returncode != 0
    done = await agent.undo()
    assert done.refused == [] and (work / "a.txt").read_text() == "a\n"
    assert subprocess.check_output(["bash", "-ec", read], cwd=work) == before


@pytest.mark.parametrize("making", [
    "for i in range(1000): os.mkdir('d'); os.chdir('d')",
    "for i in range(400): os.mkdir('d'); os.chdir('d'); open('f', 'w').write(str(i))",
    "for i in range(4000): open(f'd{i}', 'w').write(str(i))",
])  # fmt: skip
async def test_undo_takes_time_as_there_is_to_do(work: Path, making: str) -> None:
    agent = agent_with(work, [shell(f'{sys.executable} -c "import os\n{making}"')], [shell("rm -r d*")])
    await turn(agent)
    await turn(agent)
    for _ in range(2):
        began = time.process_time()
        done = await agent.undo()
        assert done.refused == [] and len(done.restored) + len(done.removed) >= 800
        assert time.process_time() - began < 5, "quadratic work takes minutes"
    assert sorted(path.name for path in work.iterdir()) == ["a.txt", "empty", "run.sh", "sub"]


async def test_a_change_of_the_user_in_the_midst_of_a_turn_is_not_lost(work: Path) -> None:
    @tool
    def user() -> str:
        """The user saves a file while the turn runs."""
        (work / "a.txt").write_text("by the user")
        return "ok"

    replies = [[shell("echo 1 > a.txt")], [call("user")], [shell("echo 2 >> a.txt")], "done"]
    agent = Agent(ScriptedProvider(replies), cwd=work, tools=[*orkas.builtins(), user], approve="all")
    await turn(agent)
    done = await agent.undo()
    assert done.refused == ["a.txt: somebody else changed it during the turn"]
    assert (work / "a.txt").read_text() == "by the user2\n"


async def test_a_file_that_the_user_saves_between_turns_is_theirs(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > x")], [shell("echo 2 > y")])
    await turn(agent)
    (work / "a.txt").write_text("by the user")
    await turn(agent)
    await agent.undo()
    await agent.undo()
    assert (work / "a.txt").read_text() == "by the user"
    assert not (work / "x").exists() and not (work / "y").exists()


async def test_nothing_is_restored_through_a_link_or_a_hard_link(work: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.bin").write_text("victim")
    (outside / "v").write_text("1\n")
    agent = agent_with(work, [shell("echo 1 > a.txt; echo 1 > run.sh; rm sub/b.bin")])
    await turn(agent)
    (work / "a.txt").unlink()
    (work / "a.txt").symlink_to(outside / "v")
    (work / "run.sh").unlink()
    os.link(outside / "v", work / "run.sh")
    (work / "run.sh").chmod(0o755)
    shutil.rmtree(work / "sub")
    (work / "sub").symlink_to(outside)
    done = await agent.undo()
    assert (outside / "v").read_text() == "1\n" and (outside / "b.bin").read_text() == "victim"
    assert sorted(text.partition(":")[0] for text in done.refused) == ["a.txt", "run.sh", "sub/b.bin"]
    assert "sub/b.bin: a folder on the way to it is a link now" in done.refused
    assert "run.sh: it has other names (hard links), which would be cut off" in done.refused


async def test_a_turn_that_only_reads_leaves_no_trace(work: Path) -> None:
    agent = agent_with(work, [call("read_file", path="a.txt"), call("list_files"), call("search_files", pattern="a")])
    await turn(agent)
    assert not records.folder().exists()
    with pytest.raises(UsageError, match="nothing to take back"):
        await agent.undo()


async def test_a_function_of_the_program_costs_nothing(work: Path) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    agent = Agent(ScriptedProvider([[call("add", a=1, b=2)], "3"]), cwd=work, tools=[add])
    await turn(agent)
    assert not records.folder().exists()


async def test_file_tools_look_at_their_files_alone(work: Path) -> None:
    watch = Keeper(work, "s")
    watch.begin()
    watch.before("write_file", [work / "a.txt"])
    (work / "a.txt").write_text("A")
    watch.after()
    assert (watch.scans, watch.told()) == (0, [])
    assert undo("s").restored == ["a.txt"]
    assert (work / "a.txt").read_text() == "a\n"


async def test_contents_are_read_once(work: Path) -> None:
    for i in range(300):
        (work / f"f{i}").write_text(str(i))
    past = time.time() - 60
    for path in work.rglob("*"):
        os.utime(path, (past, past), follow_symlinks=False)
    time.sleep(0.06)  # younger files may change again without another time
    watch = Keeper(work, "s")
    watch.begin()
    for _ in range(3):
        watch.before("shell", None)
        watch.after()
    assert (watch.scans, watch.contents) == (6, 303)
    (work / "f7").write_text("seven")
    watch.before("shell", None)
    watch.after()
    assert watch.contents <= 305
    other = Keeper(work, "t")
    other.begin()
    other.before("shell", None)
    assert other.contents <= 1, "the next program finds what is kept"


async def test_a_change_that_hides_its_time_is_seen(work: Path) -> None:
    agent = agent_with(work, [shell("touch -r a.txt /tmp/$$; printf 'b\\n' > a.txt; touch -r /tmp/$$ a.txt; rm /tmp/$$")])
    await turn(agent)
    assert (work / "a.txt").read_text() == "b\n"
    await agent.undo()
    assert (work / "a.txt").read_text() == "a\n"


async def test_rebuilt_folders_and_git_are_left_out(work: Path) -> None:
    for name in ("node_modules/x", ".git/objects", "env", "target", "__pycache__"):
        (work / name).mkdir(parents=True)
        (work / name / "f").write_text("x")
    (work / "env/pyvenv.cfg").write_text("")
    (work / "target/CACHEDIR.TAG").write_text("")
    (work / ".env").write_text("kept although git ignores it")
    (work / ".gitignore").write_text(".env\n")
    paths = set(scan(work).states)
    assert {".env", ".gitignore", "env", "target"} <= paths
    assert not [p for p in paths if p.endswith("/f")]
    with pytest.raises(TooLarge):
        scan(work, most=3)


async def test_file_tools_are_taken_back_also_where_no_scan_looks(work: Path) -> None:
    before = snapshot(work)
    agent = agent_with(work, [call("write_file", path="node_modules/x.js", content="1"), shell("echo 1 > a.txt")])
    await turn(agent)
    assert (await agent.undo()).refused == []
    assert snapshot(work) == before


async def test_what_is_too_large_is_told_and_refused(work: Path) -> None:
    with (work / "huge").open("wb") as file:
        file.truncate(keeping.MAX_FILE + 1)
    agent = agent_with(work, [shell("rm huge; echo 1 > a.txt")])
    told = [event.text for event in await turn(agent) if isinstance(event, Notice)]
    assert len(told) == 1 and "1 file here (huge): it keeps files up to 16 MB" in told[0]
    done = await agent.undo()
    assert done.restored == ["a.txt"]
    assert done.refused == ["huge: its content before the turn was not kept"]


async def test_a_large_file_that_the_turn_made_is_removed(work: Path) -> None:
    agent = agent_with(work, [shell("head -c 17000000 /dev/zero > huge")])
    await turn(agent)
    assert (await agent.undo()).removed == ["huge"]
    assert not (work / "huge").exists()


async def test_what_a_stopped_command_did_is_taken_back(work: Path) -> None:
    before = snapshot(work)
    agent = agent_with(work, [shell("echo 1 > a.txt; touch started; sleep 60")])
    running = asyncio.create_task(agent.run("go"))
    while not (work / "started").exists():
        await asyncio.sleep(0.01)
    agent.stop()
    assert (await running).outcome == "aborted"
    (work / "b.txt").touch()
    await agent.undo()
    (work / "b.txt").unlink()
    assert snapshot(work) == before


def hole(path: Path, size: int) -> None:
    """A large file that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)


LARGE = keeping.MAX_FILE + 5


async def test_a_large_file_that_was_moved_gets_its_name_back(work: Path) -> None:
    (work / "deep").mkdir()
    for name in ("big", "deep/big", "sub/big"):
        hole(work / name, LARGE + len(name))
    before = snapshot(work)
    agent = agent_with(work, [shell("mv big moved; mv deep/big empty/; rmdir deep; mv sub other; chmod 600 moved")])
    await turn(agent)
    done = await agent.undo()
    assert done.refused == []
    assert snapshot(work) == before


async def test_what_may_be_all_that_is_left_of_a_file_stays(work: Path) -> None:
    hole(work / "big", LARGE)
    agent = agent_with(work, [shell("cp big copy; rm big; echo new > small")])
    await turn(agent)
    done = await agent.undo()
    assert sorted(done.refused) == [
        "big: its content before the turn was not kept",
        "copy: it may be what is left of a file whose content was not kept",
    ]
    assert (work / "copy").exists() and not (work / "small").exists()


@pytest.mark.parametrize("command", [
    "mv node_modules lib", "mv node_modules sub/lib && echo 1 > sub/lib/x/m.js", "mv env away",
    "touch sub/CACHEDIR.TAG; rm sub/b.bin", "mv sub new && ln -s new sub", "mkfifo pipe; mkdir n; mkfifo n/p; echo 1 > n/x",
    "rm a.txt; mkfifo a.txt", "ln a.txt b.txt", "rm a.txt; mkdir a.txt; echo 1 > a.txt/1", "mv a.txt x; mv run.sh a.txt",
    "rm -r sub; echo 1 > sub", "chmod 000 run.sh; echo 1 > sub/new; chmod 000 sub", "rm oldpipe",
    "touch \"$(printf 'caf\\351')\"; echo 1 > a.txt", "mv sub \"$(printf 'caf\\351')\"",
])  # fmt: skip
async def test_any_command_is_taken_back(work: Path, command: str) -> None:
    (work / "node_modules/x").mkdir(parents=True)
    (work / "node_modules/x/m.js").write_text("js")
    (work / "env").mkdir()
    (work / "env/pyvenv.cfg").touch()
    os.mkfifo(work / "oldpipe")
    before = described(work)
    agent = agent_with(work, [shell(command)])
    events = await turn(agent)
    assert not [event for event in events if isinstance(event, Notice)], events
    assert described(work) != before
    done = await agent.undo()
    assert done.refused == [], done
    if "lib/x/m.js" in command:
        before |= {"node_modules/x/m.js": described(work)["node_modules/x/m.js"]}
    assert described(work) == before


def described(folder: Path) -> dict[str, Any]:
    """Every path with its kind, mode, content and attributes, pipes included."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        what = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = info.st_mode, what
    return found


async def test_a_mode_alone_leaves_the_file_what_it_is(work: Path) -> None:
    info = (work / "a.txt").stat()
    agent = agent_with(work, [shell("chmod 600 a.txt"), shell("echo 2 > run.sh")])
    past = (work / "run.sh").stat().st_mtime_ns
    await turn(agent)
    assert sorted((await agent.undo()).restored) == ["a.txt", "run.sh"]
    now = (work / "a.txt").stat()
    assert (now.st_ino, now.st_mtime_ns, now.st_mode) == (info.st_ino, info.st_mtime_ns, info.st_mode)
    assert (work / "run.sh").stat().st_mtime_ns == past


async def test_attributes_stay(work: Path) -> None:
    try:
        os.setxattr(work / "a.txt", "user.k", b"v")
    except OSError:
        pytest.skip("this file system has no attributes")
    agent = agent_with(work, [shell("echo 1 > a.txt")])
    await turn(agent)
    await agent.undo()
    assert (work / "a.txt").read_text() == "a\n" and os.getxattr(work / "a.txt", "user.k") == b"v"


async def test_what_failed_is_tried_again_before_an_older_turn(tmp_path: Path) -> None:
    for at in range(1, 100):  # the n-th change of the file system fails
        work = tmp_path / str(at)
        work.mkdir()
        (work / "a").write_text("0")
        agent = agent_with(work, [call("write_file", path="b", content="1")], [
            call("edit_file", path="a", old_text="0", new_text="2"), call("write_file", path="c/d", content="2"),
        ])  # fmt: skip
        await turn(agent)
        older = snapshot(work)
        await turn(agent)
        failing = subprocess.run(
            [sys.executable, "-c", FAILING, agent.session.id, str(at)], capture_output=True, text=True,
            env=CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]},
        )  # fmt: skip
        assert failing.returncode in (0, 1), failing.stderr
        said = []
        if snapshot(work) != older or failing.returncode:
            said = (await agent.undo()).lines
        assert snapshot(work) == older, (at, failing.stdout, said)
        await agent.undo()
        assert set(snapshot(work)) == {"a"}
        if "none failed" in failing.stdout:
            break
    assert at > 10


async def test_what_fails_for_good_is_given_up_at_last(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > run.sh")], [shell("mkdir made; touch made/x")])
    for _ in range(2):
        await turn(agent)
    stubborn = FAILING.replace("if left == 0", "if name == 'unlink'").replace("os._exit", "os._exit")
    for _ in range(records.MAX_TRIES):
        assert (work / "made/x").exists()
        subprocess.run(
            [sys.executable, "-c", stubborn, agent.session.id, "0"], check=True, capture_output=True,
            env=CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]},
        )  # fmt: skip
    assert (await agent.undo()).restored == ["run.sh"]


FAILING = """
import errno, os, sys
from orkas.harness.undo.restore import undo
left = int(sys.argv[2])
def failing(name):
    real = getattr(os, name)
    def call(*args, **more):
        global left
        left -= 1
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **more)
    setattr(os, name, call)
for name in ("write", "unlink", "replace", "rename", "rmdir", "mkdir", "link", "fchmod", "fsync"):
    failing(name)
try:
    print(undo(sys.argv[1]).lines)
except Exception as error:
    print(error)
    sys.exit(1)
print("none failed" if left > 0 else "")
"""


@pytest.mark.parametrize("step", range(1, 14))
async def test_an_undo_that_was_killed_is_finished_by_the_next(work: Path, step: int) -> None:
    (work / "ln").symlink_to("a.txt")
    before = snapshot(work)
    agent = agent_with(work, [shell("rm a.txt; mkdir a.txt; echo 1 > a.txt/1; rm -r sub; echo 2 > sub; rm ln; echo 3 > ln")])
    await turn(agent)
    killing = FAILING.replace("raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))", "os._exit(9)")
    env = CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]}
    assert subprocess.run([sys.executable, "-c", killing, agent.session.id, str(step * 4)], env=env).returncode in (0, 9)
    if snapshot(work) != before:
        await agent.undo()
    assert snapshot(work) == before


async def test_what_another_conversation_writes_meanwhile_is_not_of_the_turn(work: Path) -> None:
    slow = agent_with(work, [shell("touch sub/begun; until [ -e sub/go ]; do sleep 0.01; done; echo slow > run.sh")])
    quick = agent_with(work, [call("edit_file", path="a.txt", old_text="a", new_text="quick")])
    await quick.run("warm")  # nothing of the first start is in the way
    running = asyncio.create_task(slow.run("go"))
    while not (work / "sub/begun").exists():
        await asyncio.sleep(0.01)
    again = agent_with(work, [call("edit_file", path="a.txt", old_text="quick", new_text="again"), call("write_file", path="b.txt", content="b")])
    await again.run("go")
    (work / "sub/go").touch()
    await running
    done = await slow.undo()
    assert "run.sh" in done.restored
    assert (work / "a.txt").read_text() == "again\n" and (work / "b.txt").read_text() == "b"
    assert "a.txt: somebody else changed it during the turn" in done.refused


async def test_a_killed_turn_takes_back_its_own_work_whatever_came_after(work: Path) -> None:
    env = CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]}
    assert subprocess.run([sys.executable, "-c", KILLED, str(work)], env=env).returncode == 9
    other = agent_with(work, [shell("echo other > run.sh; echo new > otherfile")])
    await turn(other)
    done = undo("s")
    assert (done.restored, done.removed, done.refused, done.cut) == (["a.txt"], ["made"], [], True)
    assert (work / "run.sh").read_text() == "other\n" and (work / "otherfile").exists()
    assert sorted((await other.undo()).restored) == ["run.sh"]


async def test_a_hard_linked_file_in_the_trash_is_a_copy(work: Path) -> None:
    os.link(work / "a.txt", work / "b.txt")
    agent = agent_with(work, [call("apply_patch", patch="*** Begin Patch\n*** Delete File: a.txt\n*** End Patch")])
    await turn(agent)
    with (work / "b.txt").open("r+") as file:
        file.write("B")
    [entry] = trash.entries()
    assert trash.put_back(entry.id).read_text() == "a\n"


def test_the_trash_is_listed_and_gives_back(work: Path) -> None:
    agent = agent_with(work, [call("apply_patch", patch="*** Begin Patch\n*** Delete File: a.txt\n*** End Patch")])
    agent.run_sync("go")
    listed = orkas_command("trash", "list")
    assert str(work / "a.txt") in listed.out
    id_ = listed.out.split()[0]
    assert orkas_command("trash", "restore", "nope").status == 2
    (work / "a.txt").write_text("another")
    refused = orkas_command("trash", "restore", id_)
    assert refused.status == 2 and "--to PATH" in refused.err
    assert orkas_command("trash", "restore", id_, "--to", str(work / "back.txt")).status == 0
    assert (work / "back.txt").read_text() == "a\n" and (work / "a.txt").read_text() == "another"


KILLED = """
import sys, os
from pathlib import Path
from orkas.harness.undo.keeper import Keeper
root = Path(sys.argv[1])
watch = Keeper(root, "s")
watch.begin()
watch.before("shell", None)
(root / "a.txt").write_text("cut off")
(root / "made").write_text("x")
os._exit(9)
"""


async def test_what_a_command_did_before_we_were_killed_is_taken_back(work: Path) -> None:
    before = snapshot(work)
    env = CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]}
    assert subprocess.run([sys.executable, "-c", KILLED, str(work)], env=env).returncode == 9
    assert snapshot(work) != before
    done = undo("s")
    assert (done.restored, done.removed, done.refused, done.cut) == (["a.txt"], ["made"], [], True)
    assert {"a.txt", "made"} <= {entry.path for entry in trash.entries()}
    assert snapshot(work) == before


async def test_damage_is_told_and_nothing_wrong_is_given_back(work: Path) -> None:
    agent = agent_with(work, [shell("rm a.txt run.sh")])
    await turn(agent)
    for _, page in sorted((p.stat().st_size, p) for p in records.folder().rglob("contents/*/*")):
        if page.read_bytes() == b"a\n":
            page.write_bytes(b"b\n")
    done = await agent.undo()
    assert done.refused == ["a.txt: its kept content is damaged"]
    assert not (work / "a.txt").exists() and (work / "run.sh").exists()


@pytest.mark.parametrize("damage", [b"", b"\xff\0", "half", "NUL"])
async def test_a_damaged_record_is_told_and_the_turn_before_it_comes(work: Path, damage: Any) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")], [shell("echo 22222 > b_")])
    before = snapshot(work)
    await turn(agent)
    pages = set(records.folder().rglob("turns/*"))
    await turn(agent)
    (work / "b_").unlink()
    [page] = set(records.folder().rglob("turns/*")) - pages
    data = page.read_bytes()
    page.write_bytes(
        data[: len(data) // 2] if damage == "half" else data.replace(b"b_", b"b\0") if damage == "NUL" else damage
    )
    with pytest.raises(StorageError, match="the record of it is damaged"):
        await agent.undo()
    assert (await agent.undo()).restored == ["a.txt"]
    assert snapshot(work) == before


async def test_a_content_that_was_damaged_is_kept_anew(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")], [shell("echo 2 > a.txt")], [shell("echo 3 > a.txt")])
    await turn(agent)
    for damaged in (b"", b"b\n"):  # the second one has the right length: it is found when it is given back
        for page in records.folder().rglob("contents/*/*"):
            if page.read_bytes() == b"a\n":
                page.write_bytes(damaged)
        (work / "a.txt").write_text("a\n")
        await turn(agent)
        done = await agent.undo()
        assert done.refused == ([] if damaged == b"" else ["a.txt: its kept content is damaged"])
    watch = Keeper(work, "s")
    (work / "a.txt").write_text("a\n")
    watch.begin()
    watch.before("write_file", [work / "a.txt"])
    (work / "a.txt").write_text("4")
    watch.after()
    assert undo("s").restored == ["a.txt"] and (work / "a.txt").read_text() == "a\n"


async def test_quotas_remove_the_oldest(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")], session=Session.open("trip"))
    await turn(agent)
    folders, turns, size = records.usage()
    assert (folders, turns) == (1, 1) and size > 500_000
    assert records.tidy(young_s=0) == 0, "what a turn needs is not removed"
    assert records.tidy(time.time() + records.MAX_AGE_S + 60, young_s=0) > 0
    assert records.usage() == (0, 0, 0)
    await agent.aclose()


async def test_the_folder_used_longest_ago_goes_first(tmp_path: Path) -> None:
    for i, name in enumerate(("old", "new")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "f").write_text("x" * 1_000)
        watch = Keeper(folder, name)
        watch.begin()
        watch.before("shell", None)
        (folder / "f").write_text("y")
        watch.after()
        shelf = records.Shelf(folder).folder
        for path in (shelf, shelf / "index"):
            os.utime(path, (time.time() + i, time.time() + i))
    records.tidy(most=1_500, young_s=0)
    assert records.newest("old") is None and records.newest("new") is not None


async def test_the_folder_in_use_keeps_its_newest_turns(work: Path) -> None:
    watch = Keeper(work, "s")
    for n in range(5):
        watch.begin()
        watch.before("shell", None)
        (work / "a.txt").write_text(str(n) * 10_000)
        watch.after()
    records.tidy(most=35_000, young_s=0)
    assert records.usage()[1] == 2 and records.usage()[2] <= 30_000
    assert undo("s").restored == ["a.txt"]
    assert (work / "a.txt").read_text() == "3" * 10_000


async def test_where_nothing_can_be_kept_the_turn_goes_on_and_says_so(work: Path) -> None:
    records.folder().parent.mkdir(parents=True, exist_ok=True)
    records.folder().write_text("a file is in the way")
    agent = agent_with(work, [shell("echo 1 > a.txt")])
    told = [event.text for event in await turn(agent) if isinstance(event, Notice)]
    assert len(told) == 1 and "cannot be taken back with undo" in told[0]
    assert (work / "a.txt").read_text() == "1\n"


async def test_a_session_in_memory_takes_its_turns_along(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")])
    await turn(agent)
    assert records.usage()[1] == 1
    del agent
    gc.collect()
    assert records.usage()[1] == 0


async def test_a_running_turn_is_not_taken_back(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")])
    stream = agent.stream("go")
    await anext(stream)
    with pytest.raises(UsageError, match="a turn is running"):
        await agent.undo()
    await stream.aclose()


async def test_the_tree_may_vanish(work: Path) -> None:
    agent = agent_with(work, [shell("echo 1 > a.txt")], [shell("rm -rf ./*")])
    await turn(agent)
    before = snapshot(work)
    await turn(agent)
    assert snapshot(work) == {}
    assert (await agent.undo()).refused == []
    assert snapshot(work) == before
    shutil.rmtree(work)
    with pytest.raises(UsageError, match="is gone"):
        await agent.undo()


async def test_the_commands(work: Path) -> None:
    session = Session.open("trip")
    agent = agent_with(work, [shell("echo 1 > a.txt")], session=session)
    await turn(agent)
    await agent.aclose()
    env = CHILD_ENV | {"ORKAS_HOME": os.environ["ORKAS_HOME"]}
    command = [sys.executable, "-m", "orkas", "session", "undo", "trip"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ran.returncode == 1 and "already open" in ran.stderr
    session.close()
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "restored a.txt\n"), ran.stderr
    ran = subprocess.run([*command, "--json"], env=env, capture_output=True, text=True)
    assert ran.returncode == 2 and "nothing to take back" in ran.stderr
    assert (work / "a.txt").read_text() == "a\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a POSIX thing")
async def test_the_chat_takes_a_turn_back(work: Path, start: Start) -> None:  # noqa: F811
    session = Session.open("trip")
    await turn(agent_with(work, [shell("echo 1 > a.txt; echo 2 > run.sh")], session=session))
    session.close()
    (work / "run.sh").write_text("mine")
    terminal = start(session="trip")
    await asyncio.to_thread(terminal.say, "/undo")
    await asyncio.to_thread(terminal.shows, "restored a.txt")
    await asyncio.to_thread(terminal.shows, "left run.sh: it was changed after the turn")
    await asyncio.to_thread(terminal.say, "/undo")
    await asyncio.to_thread(terminal.shows, "there is nothing to take back")
    assert (work / "a.txt").read_text() == "a\n" and (work / "run.sh").read_text() == "mine"


STEP = st.tuples(
    st.sampled_from(["write", "remove", "folder", "rename", "mode", "link", "append"]), st.integers(0, 7), st.integers(0, 7)
)  # fmt: skip
NAMES = ["a", "b", "d", "d/a", "d/e", "d/e/f", "g h", "ü"]


def _step(root: Path, what: str, one: int, other: int) -> None:
    path, second = root / NAMES[one], root / NAMES[other]
    try:
        match what:
            case "write":
                path.write_text(f"{one} {other}")
            case "append":
                with path.open("a") as file:
                    file.write("more")
            case "remove":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "folder":
                path.mkdir()
            case "rename":
                path.rename(second)
            case "mode":
                path.chmod(0o700 if other % 2 else 0o755)
            case "link":
                path.symlink_to(NAMES[other])
    except OSError:
        return


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=12), st.lists(STEP, max_size=12), st.lists(STEP, max_size=6))
def test_any_changes_are_taken_back_exactly(
    tmp_path: Path, first: list[Any], second: list[Any], third: list[Any]
) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    for step in first:
        _step(root, *step)
    before = snapshot(root)
    watch = Keeper(root, root.name)
    watch.begin()
    for steps in (second, third):
        watch.before("shell", None)
        for step in steps:
            _step(root, *step)
        watch.after()
    if snapshot(root) == before:
        return
    done = undo(root.name)
    assert isinstance(done, Undone) and done.refused == []
    assert snapshot(root) == before


async def test_a_patch_that_was_cut_off_is_told_at_the_next_turn(work: Path) -> None:
    import json

    (work / ".a.txt.00000000.old").write_text("a\n")
    (work / "a.txt").unlink()
    page = Path(os.environ["ORKAS_HOME"]) / "patches" / "p.json"
    page.parent.mkdir(parents=True)
    step = {"path": "a.txt", "temporary": ".a.txt.00000000.tmp", "kept": ".a.txt.00000000.old", "new": None}
    page.write_text(json.dumps({"root": str(work), "state": "switching", "made": [], "trashed": [], "steps": [step]}))
    told = [event.text for event in await turn(agent_with(work, [call("read_file", path="a.txt")])) if isinstance(event, Notice)]
    assert told == ["A patch of a.txt was cut off when the program was killed; the files are as they were before it."]
    assert (work / "a.txt").read_text() == "a\n" and not page.exists()
    assert [p.name for p in work.glob(".a*")] == []


@pytest.mark.parametrize("touched", [["out.txt"], "out.txt", Path("out.txt"), [Path("out.txt")]], ids=repr)
async def test_a_tool_names_what_it_changes_as_it_likes(work: Path, touched: Any) -> None:
    class Write:
        name, description, parameters = "mine", "Write.", {"type": "object", "properties": {}}

        def touches(self, arguments: dict[str, Any], context: Any) -> Any:
            return touched

        async def run(self, arguments: dict[str, Any], context: Any) -> str:
            (context.cwd / "out.txt").write_text("made")
            return "done"

    agent = Agent(ScriptedProvider([[call("mine")], "done"]), tools=[Write()], cwd=work, approve="all")
    await turn(agent)
    assert (await agent.undo()).removed == ["out.txt"]
