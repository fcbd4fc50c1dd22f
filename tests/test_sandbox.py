"""The walls around a command, through the shell tool, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cli_support import orkas
from orkas import Agent
from orkas.harness.policy import Mode, Policy
from orkas.harness.tool import ToolContext
from orkas.infra.errors import ToolFailed
from orkas.infra.sandbox import Limits, Profile, Restorer, Wrapping, find, profile
from orkas.infra.sandbox.bubblewrap import Bubblewrap
from orkas.infra.sandbox.bubblewrap import program as bubblewrap
from orkas.infra.sandbox.finding import trial
from orkas.infra.sandbox.folders import git_directory, hidden, homes, shown
from orkas.infra.sandbox.gitconfig import harmless
from orkas.infra.sandbox.protected import protected
from orkas.infra.sandbox.repositories import search
from orkas.infra.sandbox.seatbelt import text
from orkas.infra.sandbox.seccomp import CALLS, program
from orkas.testing import ScriptedProvider, call
from orkas.tools.shell import Shell
from sandboxes import Walled, backend, linux

BOTH = ["bubblewrap", "landlock"]


@pytest.fixture(params=BOTH)
def walled(request: pytest.FixtureRequest, tmp_path: Path) -> Walled:
    return Walled(tmp_path, backend(request.param))


@pytest.fixture
def wrapped(tmp_path: Path) -> Walled:
    return Walled(tmp_path, backend("bubblewrap"))


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of this test's own, with a key in it."""
    home = tmp_path / "home" / "me"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").write_text("the key")
    monkeypatch.setenv("HOME", str(home))
    return home


def git(*words: str, cwd: Path) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    identity = {"GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e"}
    subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, env={**os.environ, **identity})


# what a command may


@linux
async def test_it_writes_in_the_working_folder_and_the_private_temporary_one_alone(walled: Walled, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("as it was")
    await walled.run(f"echo in > here; echo t > $TMPDIR/kept; echo out > {tmp_path}/canary; echo out > {tmp_path}/new")
    assert (walled.work / "here").read_text() == "in\n"
    assert (tmp_path / "canary").read_text() == "as it was"
    assert not (tmp_path / "new").exists()
    assert await walled.text("cat $TMPDIR/kept") == "t\n[exit code 0]"
    assert not Path("/tmp/kept").exists()


@linux
async def test_two_working_folders_share_no_temporary_files(tmp_path: Path) -> None:
    one, other = (Walled(tmp_path / name, backend("bubblewrap")) for name in "ab" if not (tmp_path / name).mkdir())
    await one.run("echo mine > /tmp/mine")
    assert "No such file" in await other.text("cat /tmp/mine")


@linux
async def test_the_home_is_hidden_but_for_tools(walled: Walled, own_home: Path) -> None:
    for path, content in {".local/bin/tool": "#!/bin/sh\necho it works", ".cargo/bin/x": "", ".cargo/credentials.toml": "token",
                          ".gitconfig": "[user]\n\tname = Ada\n", ".config/gh/hosts.yml": "oauth_token: x"}.items():  # fmt: skip
        (own_home / path).parent.mkdir(parents=True, exist_ok=True)
        (own_home / path).write_text(content)
    (own_home / ".local/bin/tool").chmod(0o755)
    assert "the key" not in await walled.text(f"cat {own_home}/.ssh/id")
    assert "token" not in await walled.text(f"cat {own_home}/.cargo/credentials.toml {own_home}/.config/gh/hosts.yml | grep -v cat")
    assert "it works" in await walled.text("~/.local/bin/tool")
    assert "Ada" in await walled.text("git config user.name")
    (own_home / ".gitconfig").write_text('[url "https://me:ghp_x@github.com/"]\n\tinsteadOf = gh:\n')
    assert "ghp_x" not in await walled.text("cat ~/.gitconfig")


@linux
async def test_a_working_folder_below_the_home_is_there_and_its_neighbours_are_not(own_home: Path) -> None:
    (own_home / "other").mkdir()
    (own_home / "other" / "notes").write_text("private")
    walled = Walled(own_home, backend("bubblewrap"))
    text = await walled.text("pwd; touch made; ls -A ~; cat ../other/notes")
    assert text.startswith(f"{walled.work}\nwork\n")
    assert "private" not in text
    assert (walled.work / "made").exists()


@linux
@pytest.mark.parametrize("name", BOTH)
async def test_in_the_home_itself_everything_with_a_dot_is_hidden(own_home: Path, name: str) -> None:
    (own_home / ".bashrc").write_text("alias x=y")
    (own_home / "notes").write_text("seen")
    context = ToolContext(own_home, sandbox=backend(name))
    command = "cat notes .ssh/id .bashrc; echo evil >> .bashrc; echo evil > .profile; echo more >> notes"
    text = (await Shell().run({"command": command}, context)).text
    assert "seen" in text
    assert "the key" not in text and "alias" not in text
    assert (own_home / ".bashrc").read_text() == "alias x=y"
    assert not (own_home / ".profile").exists()
    assert (own_home / "notes").read_text() == "seenmore\n"


@linux
async def test_our_own_folder_is_never_there_also_inside_the_working_folder(walled: Walled, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = walled.work / "deep" / "orkas"
    ours.mkdir(parents=True)
    (ours / "secrets.json").write_text("a secret")
    monkeypatch.setenv("ORKAS_HOME", str(ours))
    text = await walled.text("cat deep/orkas/secrets.json; mv deep moved; mkdir -p deep/orkas; echo evil > deep/orkas/config.toml; ls deep/orkas")
    assert "a secret" not in text
    assert (ours / "secrets.json").read_text() == "a secret"
    assert not (ours / "config.toml").exists()


@linux
async def test_no_network_but_its_own(wrapped: Walled) -> None:
    both = (
        "import socket, threading\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).sendall(b'x')\n"
        "print('met', server.accept()[0].recv(1))"
    )
    assert "met b'x'" in await wrapped.text(f'{sys.executable} -c "{both}"')
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        assert "reached" not in await wrapped.text(reach)
        assert "reached" in await wrapped.text(reach, network=True)


@linux
async def test_the_network_of_landlock_is_all_or_nothing(tmp_path: Path) -> None:
    walled = Walled(tmp_path, backend("landlock"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
        assert "network: true" in await walled.text(f'{sys.executable} -c "import socket; socket.socket()"')
        assert "reached" not in await walled.text(reach)
        assert "reached" in await walled.text(reach, network=True)


@linux
async def test_with_the_network_abstract_sockets_stay_closed(wrapped: Walled) -> None:
    name = f"orkas-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        reach = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{name}')"
        text = await wrapped.text(f'{sys.executable} -c "{reach}"', network=True)
    assert "PermissionError" in text or "ConnectionRefused" in text


@linux
@pytest.mark.parametrize("folder", ["/", "/proc", "/dev/shm"])
async def test_around_the_whole_system_there_are_no_walls(folder: str) -> None:
    context = ToolContext(Path(folder), sandbox=backend("bubblewrap"))
    with pytest.raises(ToolFailed, match="no walls"):
        await Shell().run({"command": "true"}, context)


@linux
async def test_the_home_of_commands_lasts_while_we_run(wrapped: Walled, own_home: Path) -> None:
    await wrapped.run("mkdir -p ~/.cache; echo kept > ~/.cache/x")
    assert "kept" in await wrapped.text("cat ~/.cache/x")
    assert os.listdir(own_home) == [".ssh"]


@linux
async def test_outside_runs_without_walls(walled: Walled, tmp_path: Path) -> None:
    await walled.run(f"echo x > {tmp_path}/made", outside=True)
    assert (tmp_path / "made").exists()


@linux
async def test_hints_at_what_can_be_asked_for(wrapped: Walled) -> None:
    assert "network: true" in await wrapped.text("echo curl: Could not resolve host: x >&2; exit 6")
    assert "outside: true" in await wrapped.text("touch /etc/x")
    assert "network: true" not in await wrapped.text("echo Could not resolve host")
    assert "network: true" in await wrapped.text("curl -s http://example.org || exit 6")


@linux
async def test_a_held_setting_of_git_is_explained_once(wrapped: Walled) -> None:
    git("init", "-q", "-b", "main", ".", cwd=wrapped.work)
    told = "[the sandbox holds git's settings and hooks as they are; with outside: true the user is asked]"
    for command in ("git config user.email a@b", "git remote add o /x; git config user.name x", "echo x > .git/hooks/pre-commit"):
        text = await wrapped.text(command)
        assert text.count("outside: true") == 1 and told in text
    for command in ("git log", "cat .git/config", "false", "touch /etc/x"):
        assert told not in await wrapped.text(command)


# how it ends


@linux
async def test_exit_codes_and_signals_are_those_of_the_command(walled: Walled) -> None:
    assert "[exit code 7]" in await walled.text("exit 7")
    assert "[exit code 137, killed by SIGKILL]" in await walled.text("kill -9 $$")
    assert "[exit code 137, as if killed by SIGKILL]" in await walled.text("exit 137")
    assert "[exit code 127]" in await walled.text("no-such-program-anywhere")
    assert "bye" in await walled.text("trap 'echo bye; exit' TERM; kill $$; sleep 5")


@linux
async def test_the_time_limit_asks_first(walled: Walled) -> None:
    text = (await walled.run("trap 'echo asked; exit' TERM; while :; do sleep 0.05; done", timeout_s=0.5)).text
    assert "asked\n" in text
    assert "time limit" in text


@linux
async def test_what_is_left_running_is_ended_and_said(walled: Walled) -> None:
    text = await walled.text("env -i setsid sleep 47.1 >/dev/null 2>&1 & echo ready")
    assert text == "ready\n[processes that the command left running were ended with it]\n[exit code 0]"
    give_up = time.monotonic() + 3
    while b"47.1" in subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)


@linux
@pytest.mark.parametrize("moment", [0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08])
async def test_stop_at_any_moment_of_the_start_leaves_nobody(walled: Walled, moment: float) -> None:
    mark = f"58.{os.getpid()}{int(moment * 1000)}"
    running = asyncio.create_task(walled.run(f"sleep {mark}"))
    await asyncio.sleep(moment)
    walled.context.abort.fire()
    began = time.monotonic()
    assert "stopped" in (await running).text
    assert time.monotonic() - began < 1
    give_up = time.monotonic() + 5
    while mark.encode() in subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)


@linux
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("greedy", [
    "x = [(bytearray(b'x' * (32 << 20)), time.sleep(0.05)) for _ in range(64)]",
    "f = os.memfd_create('x'); x = [(os.write(f, b'x' * (32 << 20)), time.sleep(0.05)) for _ in range(64)]",
], ids=["mapped", "by nobody"])  # fmt: skip
async def test_a_command_that_uses_too_much_memory_is_ended_and_told(tmp_path: Path, name: str, greedy: str) -> None:
    walls = backend(name)

    class Small:
        """The backend, with little memory for a command."""

        name, after = "small", False

        def wrap(self, profile: Profile) -> Wrapping:
            return walls.wrap(structs.replace(profile, limits=Limits(memory=128 << 20)))

    walled = Walled(tmp_path, Small())
    text = await walled.text(f'{sys.executable} -c "import os, time; {greedy}"; echo not reached')
    assert "[it used more memory than a command may, so it was ended]\n" in text and "[exit code 137" in text
    assert "not reached" not in text


@linux
async def test_programs_that_reserve_memory_by_the_terabyte_run(walled: Walled) -> None:
    reserve = "import mmap; mmap.mmap(-1, 1 << 43, flags=mmap.MAP_PRIVATE | 0x4000); print('fine')"
    assert "fine" in await walled.text(f'{sys.executable} -c "{reserve}"')


# what other programs obey


@pytest.fixture
def repository(walled: Walled) -> Walled:
    git("init", "-q", "-b", "main", ".", cwd=walled.work)
    return walled


def _of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


CHANGES = [
    "echo '[core]\n fsmonitor = evil' >> .git/config",
    "echo evil > .git/hooks/pre-commit",
    "mv .git old; mkdir -p .git/hooks; echo evil > .git/config; echo evil > .git/hooks/pre-commit",
    "rm -rf .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
    "rm -rf .git/hooks; mkdir e; echo evil > e/pre-commit; ln -s ../e .git/hooks",
    "chmod 777 .git/config",
    "echo evil > c; mv c .git/config",
    "rm -f .git/config; mkfifo .git/config",
]


@linux
@pytest.mark.parametrize("command", CHANGES)
async def test_git_obeys_what_it_obeyed_before(repository: Walled, command: str) -> None:
    folder = repository.work / ".git"
    before = _of(folder / "hooks"), (folder / "config").read_bytes(), (folder / "config").stat().st_mode
    await repository.run(command)
    await repository.run("true")
    assert not (folder / "hooks").is_symlink()
    assert (_of(folder / "hooks"), (folder / "config").read_bytes(), (folder / "config").stat().st_mode) == before


@linux
async def test_git_works_inside(repository: Walled) -> None:
    text = await repository.text(
        "echo x > f; git add f; git -c user.email=a@b -c user.name=n commit -qm one; git checkout -qb two; git stash list; git log --oneline | wc -l; git status --short"
    )
    assert "1\n[exit code 0]" in text


@linux
async def test_names_that_are_missing_leave_nothing_behind(walled: Walled) -> None:
    await walled.run("true")
    assert sorted(os.listdir(walled.work)) == []


@linux
async def test_a_name_that_is_new_is_set_aside_and_told(walled: Walled) -> None:
    text = await walled.text("mkdir .vscode; echo '{}' > .vscode/tasks.json; echo x > .envrc; ln -s / .claude")
    assert sorted(os.listdir(walled.work)) == [".claude.set-aside", ".envrc.set-aside", ".vscode.set-aside"]
    assert "[.vscode is not for commands to make; it lies in .vscode.set-aside now]" in text


@linux
async def test_a_new_repository_keeps_its_history_and_loses_what_runs_programs(walled: Walled) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    text = await walled.text(
        "git init -q -b main . && git config user.email a@b && git config user.name n && echo x > f && git add f &&"
        " git commit -qm one && git config core.fsmonitor evil && echo evil > .git/hooks/post-commit"
    )
    assert ".git/config would run programs" in text
    assert ".git/hooks/post-commit would run programs" in text
    config = (walled.work / ".git/config").read_text()
    assert "fsmonitor" not in config and "email = a@b" in config
    assert "post-commit" not in os.listdir(walled.work / ".git/hooks")
    git("log", "-1", cwd=walled.work)


@linux
async def test_a_new_and_harmless_repository_is_left_as_it_is(walled: Walled) -> None:
    if not shutil.which("git"):
        pytest.skip("needs git")
    assert "would run" not in await walled.text("git init -q . && git config user.name 'A \"B\" C' && git init -q sub")
    assert "A" in (walled.work / ".git/config").read_text()


@linux
async def test_repositories_below_and_hooks_elsewhere_are_held_too(walled: Walled) -> None:
    git("init", "-q", "a/b", cwd=walled.work)
    git("init", "-q", ".", cwd=walled.work)
    git("config", "core.hooksPath", ".husky", cwd=walled.work)
    (walled.work / ".husky").mkdir()
    (walled.work / ".husky" / "pre-commit").write_text("fine")
    await walled.run("echo evil > .husky/pre-commit; mv a c; mkdir -p a/b/.git/hooks; echo evil > a/b/.git/hooks/pre-commit")
    await walled.run("mv .husky h; mkdir .husky; echo evil > .husky/pre-commit")
    assert (walled.work / ".husky/pre-commit").read_text() == "fine"
    assert not (walled.work / "a/b/.git/hooks/pre-commit").exists()


@linux
async def test_a_bare_repository_made_of_the_working_folder_runs_nothing(walled: Walled) -> None:
    await walled.run("mkdir objects refs hooks; echo 'ref: refs/heads/m' > HEAD; echo '[core] fsmonitor = evil' > config; echo evil > hooks/pre-commit")
    assert "fsmonitor" not in (walled.work / "config").read_text()
    assert "pre-commit" not in os.listdir(walled.work / "hooks")


@linux
async def test_what_is_stopped_is_put_back_as_well(walled: Walled) -> None:
    running = asyncio.create_task(walled.run("echo evil > .envrc; touch started; sleep 60"))
    give_up = time.monotonic() + 10
    while not (walled.work / "started").exists() and time.monotonic() < give_up:
        await asyncio.sleep(0.01)
    walled.context.abort.fire()
    await running
    while (walled.work / ".envrc").exists():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.02)
    assert (walled.work / ".envrc.set-aside").read_text() == "evil\n"


def test_a_worktree_is_shown_its_git_folder_only_when_that_points_back(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    git("init", "-q", "-b", "main", ".", cwd=tmp_path / "main")
    git("commit", "--allow-empty", "-qm", "one", cwd=tmp_path / "main")
    git("worktree", "add", "-q", "../tree", cwd=tmp_path / "main")
    tree = tmp_path / "tree"
    assert git_directory(tree) == tmp_path / "main/.git/worktrees/tree"
    assert tmp_path / "main/.git" in shown(tree, {})
    assert tree / ".git" in protected(tree, search(tree))
    secret = tmp_path / "keys"
    secret.mkdir()
    (secret / "HEAD").write_text("x")
    (tree / ".git").write_text(f"gitdir: {secret}\n")
    assert git_directory(tree) is None
    assert secret not in shown(tree, {})


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "config")
    os.mkfifo(tmp_path / ".envrc")
    made = profile(tmp_path)
    Restorer(made, everything=True, notes=[]).settle()
    assert tmp_path / ".git" / "config" in made.protected


def test_repositories_are_found_near_the_top_first(tmp_path: Path) -> None:
    for n in range(2_000):
        (tmp_path / f"d{n:04}").mkdir()
    (tmp_path / ".git").mkdir()
    assert search(tmp_path, 1_500).pointers == (tmp_path / ".git",)


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ("[core]\n\tbare = false\n", True),
        ('[remote "origin"]\n\turl = https://h/r.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n', True),
        ("[core] fsmonitor = x\n", False),
        ("[core]\n\tfsmonitor = x\n", False),
        ("[core]\n\tbare = false\\\n\tfsmonitor = x\n", False),
        ("[alias]\n\tst = !x\n", False),
        ("[include]\n\tpath = x\n", False),
        ('[remote "o"]\n\turl = ext::sh -c x\n', False),
        ('[remote "o"]\n\turl = "ext:"":sh -c x"\n', False),
        ("[CORE]\n\tFsMonitor = x\n", False),
        ("[core]\n\tbare = false\r\n", True),
        ('[user]\n\tname = A \\"B\\" C\n', True),
        ("[user]\n\tname = x\\\n", False),
    ],
)
def test_only_values_of_a_new_configuration_stay(config: str, kept: bool) -> None:
    assert (harmless(config) == config) is kept
    assert harmless(harmless(config)) == harmless(config)


# deciding and refusing


@pytest.mark.parametrize(("mode", "verdict"), [("all", "allow"), ("none", "deny"), ("ask", "deny"), ("edits", "deny")])
@pytest.mark.parametrize("wish", [{"network": True}, {"outside": True}, {"network": "true"}, {"outside": 1}])
def test_more_than_the_sandbox_gives_is_asked_for(mode: Mode, verdict: str, wish: dict[str, Any]) -> None:
    context = ToolContext(Path("/"))
    policy = Policy(mode)
    assert policy.decide("shell", {"command": "ls", **wish}, context).verdict == verdict
    assert policy.decide("shell", {"command": "ls", **dict.fromkeys(wish, False)}, context).verdict == "allow"
    assert policy.decide("shell", {"command": "sudo id", **wish}, context).verdict == "deny"
    assert policy.decide("shell", {"command": "ls", **wish}, ToolContext(Path("/"), sandbox="off")).verdict == "allow"


def test_a_broken_sandbox_refuses_and_says_so(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    fake.chmod(0o755)
    (tmp_path / "work").mkdir()
    context = ToolContext(tmp_path / "work", sandbox=Bubblewrap(str(fake)))
    with pytest.raises(ToolFailed, match="could not be started: bwrap: setting up uid map"):
        asyncio.run(Shell().run({"command": "touch made"}, context))
    assert not (tmp_path / "work" / "made").exists()


def test_a_bubblewrap_before_0_8_is_enough() -> None:
    backend("bubblewrap")
    found = find().backend
    assert isinstance(found, Bubblewrap)
    old = Bubblewrap(found.path, old=True)
    assert trial(old) == ""
    made = old.wrap(profile(Path.cwd()))
    assert not {b"--size", b"--disable-userns"} & set(made.inputs[0].split(b"\0"))


NONE = """
import asyncio, sys
from pathlib import Path
from orkas.harness.tool import ToolContext
from orkas.infra.errors import ToolFailed
from orkas.tools.shell import Shell
sys.frozen = True
try:
    print(asyncio.run(Shell().run({"command": "touch made"}, ToolContext(Path(sys.argv[1])))).text)
except ToolFailed as refused:
    print("refused:", refused)
"""


def test_without_a_sandbox_nothing_runs(tmp_path: Path) -> None:
    """A program without an interpreter of its own cannot start the launcher, so there is none."""
    done = subprocess.run([sys.executable, "-c", NONE, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused: shell commands are refused, because there is no sandbox")
    assert "orkas config set sandbox off" in done.stdout
    assert not (tmp_path / "made").exists()


async def test_an_agent_runs_commands_inside_unless_told_otherwise(tmp_path: Path) -> None:
    if find().backend is None:
        pytest.skip(f"there is no sandbox here: {find().why}")
    (tmp_path / "work").mkdir()
    for sandbox in (True, False):
        model = ScriptedProvider([[call("shell", command=f"echo x > {tmp_path}/made")], "done"])
        await Agent(model, cwd=tmp_path / "work", sandbox=sandbox, approve="all").run("go")
        assert (tmp_path / "made").exists() is not sandbox


def test_a_bubblewrap_of_the_working_folder_is_never_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o777)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{tmp_path}:")
    assert bubblewrap() not in ("./bwrap", "bwrap", str(fake))


def test_the_switch_is_said_wherever_it_counts(tmp_path: Path) -> None:
    if find().backend is None:
        pytest.skip(f"there is no sandbox here: {find().why}")
    (tmp_path / "work").mkdir()
    command = json.dumps({"command": f"echo x > {tmp_path}/made"})
    words = ("tool", "run", "shell", command, "--cwd", str(tmp_path / "work"))
    assert "sandbox is off" not in orkas(*words).err
    assert not (tmp_path / "made").exists()
    assert orkas("config", "set", "sandbox", "off").status == 0
    assert "sandbox is off" in orkas(*words).err
    assert (tmp_path / "made").exists()
    assert any(f["area"] == "sandbox" and f["level"] == "warning" for f in orkas("doctor", "--json").json)
    orkas("config", "set", "sandbox", "perhaps").refused(2, "on or off")


def test_headless_a_wish_for_more_is_refused_by_policy(tmp_path: Path) -> None:
    wish = json.dumps({"command": "true", "outside": True})
    ran = orkas("tool", "run", "shell", wish, "--cwd", str(tmp_path), "--approve", "none")
    assert ran.status == 4
    assert "outside the sandbox" in ran.out


@linux
def test_one_program_is_not_seen_by_another_of_the_same_user() -> None:
    own = "from orkas.infra.hiding import hide_memory; print(hide_memory(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", own], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"True\n"
        assert Path(f"/proc/{child.pid}/mem").stat().st_uid == 0
        if os.getuid():
            with pytest.raises(PermissionError):
                Path(f"/proc/{child.pid}/environ").read_bytes()
    finally:
        child.kill()
        child.communicate()


# the pieces


def test_seatbelt_as_text(tmp_path: Path) -> None:
    cwd = tmp_path / 'a "quoted" one'
    made = text(Profile(cwd, tmp_path / "t", hidden=(tmp_path,), shown=(tmp_path / "bin",), protected=(cwd / ".git/hooks",)))
    lines = made.splitlines()
    assert lines[0] == "(version 1)"
    assert made.count("(") == made.count(")")
    hide, show, write = (next(n for n, line in enumerate(lines) if part in line) for part in (
        f'(deny file-read* file-write* (subpath "{tmp_path}"))', f'(allow file-read* (subpath "{tmp_path}/bin"))',
        '(allow file-read* file-write* (subpath "' + str(cwd).replace('"', '\\"')))  # fmt: skip
    assert hide < show and hide < write
    assert any('file-write-unlink (literal "' in line and line.endswith('.git"))') for line in lines)
    assert "(deny network*)" in made and "(deny network*)" not in text(Profile(cwd, tmp_path, network=True))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("alone", [False, True])
def test_the_filter_answers_every_call(machine: str, alone: bool) -> None:
    """The program is run here, by an interpreter of its instructions."""
    code = list(struct.iter_unpack("<HBBI", program(machine=machine, alone=alone, network=not alone)))
    arch, column = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}[machine]
    allow, refuse = 0x7FFF0000, 0x50001

    def answer(number: int, *arguments: int, arch: int = arch) -> int:
        data = struct.pack("<IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
        value, at = 0, 0
        while True:
            op, yes, no, k = code[at]
            match op:
                case 0x20:
                    value = struct.unpack_from("<I", data, k)[0]
                case 0x54:
                    value &= k
                case 0x06:
                    return int(k)
                case _:
                    met = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[op]
                    at += yes if met else no
            at += 1

    plain = {(57, 220)[column], (0, 63)[column], (59, 221)[column]}
    assert {answer(number) for number in plain} == {allow}
    assert answer(39, arch=0x40000003) != allow
    for row in CALLS.values():
        if row[column] is not None:
            assert answer(row[column]) == refuse
    clone, unshare, ioctl, sock = ((56, 220), (272, 97), (16, 29), (41, 198))
    assert answer(clone[column], 0x11) == allow and answer(clone[column], 0x10000011) == refuse
    assert answer(unshare[column], 0x400) == allow and answer(unshare[column], 0x20000) == refuse
    assert answer(ioctl[column], 0, 0x5401) == allow and answer(ioctl[column], 0, 0x5412) == refuse
    assert (answer(sock[column], 1, 1) == allow) is not alone
    assert (answer(sock[column], 2, 1) == allow) is not alone
    assert all(answer(sock[column], family, 2) != allow for family in (16, 17, 38, 40))
    pair = (53, 199)[column]
    assert answer(pair, 1, 1) == answer(pair, 1, 5) == allow and (answer(pair, 1, 2 | 0x80000) == allow) is not alone
    assert answer(sock[column], 2, 3) == answer(sock[column], 2, 3 | 0x80000) == refuse
    if machine == "x86_64":
        assert answer(0x40000000 | 39) != allow


def test_the_numbers_of_calls_are_those_of_this_machine() -> None:
    header = next((p for p in Path("/usr/include").glob("*/asm/unistd_64.h")), None)
    if header is None or os.uname().machine != "x86_64":
        pytest.skip("the kernel's header is not installed here")
    known = dict(line.split()[1:3] for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    wrong = {name for name, row in CALLS.items() if row[0] != int(known.get(f"__NR_{name}", row[0] or 0))}
    assert not wrong


def test_what_is_hidden_and_shown_never_opens_a_home(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(own_home))
    monkeypatch.setenv("PATH", f"{own_home}:{own_home}/.ssh/bin:{os.environ['PATH']}:relative:")
    (own_home / ".git").mkdir()
    work = own_home / "project"
    work.mkdir()
    found = shown(work, os.environ)
    assert not {own_home, own_home.parent, Path("/"), own_home / ".ssh"} & set(found)
    assert own_home in homes() and own_home in hidden(work)


@pytest.fixture
def listeners() -> Iterator[list[Path]]:
    """Sockets outside of what is hidden: under its name, under a relative and an old one, and one for datagrams."""
    folder = Path("/opt") / f"orkas-test-{os.getpid()}"
    if not os.access("/opt", os.W_OK):
        pytest.skip("needs to make a socket outside of the temporary folders")
    folder.mkdir()
    started = Path.cwd()
    opened = [socket.socket(socket.AF_UNIX, kind) for kind in (1, 1, 1, 2)]
    try:
        opened[0].bind(str(folder / "plain"))
        os.chdir(folder)
        opened[1].bind("relative")
        os.chdir(started)
        opened[2].bind(str(folder / "old"))
        os.rename(folder / "old", folder / "new")
        opened[3].bind(str(folder / "datagrams"))
        for server in opened[:3]:
            server.listen()
        yield [folder / name for name in ("plain", "relative", "new", "datagrams")]
    finally:
        os.chdir(started)
        for server in opened:
            server.close()
        shutil.rmtree(folder)


@linux
async def test_sockets_in_odd_places_are_covered(walled: Walled, listeners: list[Path]) -> None:
    reach = "import socket, sys\nfor name in sys.argv[1:]:\n    for kind in (1, 2):\n        try: socket.socket(1, kind).connect(name); print('reached', name)\n        except OSError: pass"
    (walled.work / "reach.py").write_text(reach)
    assert "reached" not in await walled.text(f"{sys.executable} reach.py {' '.join(map(str, listeners))}")
    assert all(path.is_socket() for path in listeners)


@linux
async def test_no_datagram_leaves_through_a_pair_of_sockets(tmp_path: Path) -> None:
    walled = Walled(tmp_path, backend("landlock"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "out"))
        server.setblocking(False)
        send = f"import socket; socket.socketpair(1, 2)[0].sendto(b'evil', '{tmp_path}/out')"
        await walled.run(f'{sys.executable} -c "{send}"')
        with pytest.raises(BlockingIOError):
            server.recv(9)
    assert "fine" in await walled.text(f"{sys.executable} -c \"import socket; socket.socketpair(); print('fine')\"")


def test_a_temporary_folder_that_is_held_stays(tmp_path: Path) -> None:
    """Its process may be in a container, where we do not see it."""
    fcntl = pytest.importorskip("fcntl")
    folder = tmp_path / "orkas-tmp-999999999-x"
    folder.mkdir()
    made = "from orkas.infra.sandbox import profile; from pathlib import Path; profile(Path('/opt'))"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    subprocess.run([sys.executable, "-c", made], env=env, check=True)
    assert folder.is_dir()
    os.close(descriptor)
    subprocess.run([sys.executable, "-c", made], env=env, check=True)
    assert not folder.exists()


def test_temporary_folders_go_with_the_program_and_after_one_that_was_killed(tmp_path: Path) -> None:
    made = "from orkas.infra.sandbox import profile; from pathlib import Path; import sys; print(profile(Path(sys.argv[1])).temp, flush=True)"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    (tmp_path / "work").mkdir()

    def run(more: str) -> Path:
        words = [sys.executable, "-c", made + more, str(tmp_path / "work")]
        return Path(subprocess.run(words, env=env, capture_output=True, text=True, check=False).stdout.strip())

    killed = run("; import os; os.kill(os.getpid(), 9)")
    assert killed.is_dir() and killed.parent == tmp_path
    assert not run("").exists()
    assert not killed.exists()


def test_every_probe_has_its_attack() -> None:
    from orkas.infra.sandbox.probes import PROBES, attacks

    assert len(PROBES) == 40 == len({probe.name for probe in PROBES})
    assert all(callable(getattr(attacks, probe.name, None)) for probe in PROBES)
