"""The command where nothing is as it should be: one sentence, the right status, no traceback, nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli_support import DEMO, Ran, command, environ, orkas

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals, devices and folders as POSIX has them")
GONE = "mkdir gone; cd gone; rmdir ../gone; "


def shell(line: str, cwd: Path, **env: str) -> Ran:
    """A line of sh in which ``"$@"`` is the command."""
    given = ["sh", "-c", line, "sh", *command()]
    ran = subprocess.run(given, cwd=cwd, env=environ(**env), capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@pytest.mark.parametrize("words", ["run --model demo/offline hi", "request --model demo/offline", "tool run list_files {}"])
def test_a_working_folder_that_was_deleted_is_named_as_such(words: str, tmp_path: Path) -> None:
    shell(f'{GONE}"$@" {words}', tmp_path).refused(1, "folder is not there any more", "--cwd")


def test_what_needs_no_folder_works_without_one(tmp_path: Path) -> None:
    for words in ("tool list", "models", "session list", "doctor", f"run --model demo/offline --cwd {tmp_path} hi"):
        ran = shell(f'{GONE}"$@" {words}', tmp_path)
        assert ran.status == 0 and "Traceback" not in ran.err, ran


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["models", "tool list --json", "--help", "--version", "run --model demo/offline hi"])
def test_an_output_that_is_full_is_told(words: str, tmp_path: Path) -> None:
    shell(f'"$@" {words} > /dev/full', tmp_path).refused(1, "output could not be written", "No space left")


@pytest.mark.parametrize("words", ["models", "tool list --json", "--help", "doctor", "stats"])
def test_a_reader_that_leaves_and_an_output_that_is_closed_are_no_failures(words: str, tmp_path: Path) -> None:
    for line in (f'"$@" {words} | head -c 1 > left', f'"$@" {words} >&-', f'"$@" {words} <&- >&- 2>&-'):
        ran = shell(line, tmp_path)
        assert (ran.status, ran.err.count("Traceback"), ran.err.count("Exception")) == (0, 0, 0), (line, ran)


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"TERM": "dumb", "COLUMNS": "20"}]
)
def test_names_that_no_screen_can_show(env: dict[str, str], tmp_path: Path) -> None:
    for name in (b"new\nline.txt", b"bad\xff.txt", "ü.txt".encode()):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    for words in (["tool", "run", "list_files", "{}"], ["run", *DEMO, "Which file here is the largest? ü€"], ["--help"]):
        ran = subprocess.run(command(*words), cwd=tmp_path, env=environ(**env), capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        assert ran.returncode == 0 and b"Traceback" not in ran.stderr, ran
        assert b"\nline.txt" not in ran.stdout


def test_a_folder_is_no_session_file(tmp_path: Path) -> None:
    for given in ("/", str(tmp_path), "./"):
        for word in ("check", "repair", "import"):
            orkas("session", word, given, cwd=tmp_path).refused(1, "is a folder", "session file")


def test_a_number_that_is_none() -> None:
    orkas("policy", "revoke", "x").refused(2, "'x' is no number", "policy grants")


def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_word() -> None:
    """The signal comes at each module of ours that is loaded, from the first to the last."""
    loader = (
        "import sys\n"
        "n = int(sys.argv.pop(1))\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        global n\n"
        "        if name.startswith('orkas.'):\n"
        "            n -= 1\n"
        "            if n == 0:\n"
        "                import os, signal\n"
        "                os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import orkas.__main__ as start\n"
        "status = start.main()\n"
        "print('whole' if n > 0 else 'late')\n"
        "sys.exit(status)\n"
    )
    for n in range(3, 200, 3):  # the first two are the version and the room that turns Ctrl-C aside
        words = [sys.executable, "-c", loader, str(n), "policy", "check", "ls"]
        ran = subprocess.run(words, env=environ(), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        assert "Traceback" not in ran.stderr and "fault" not in ran.stderr, (n, ran)
        if "whole" in ran.stdout:
            assert n > 10
            return
        assert ran.returncode in (-signal.SIGINT, 130), (n, ran)
    raise AssertionError("it loads more than 200 rooms")


def test_a_command_that_the_block_list_lets_pass_is_still_said_to_be_asked_about() -> None:
    told = orkas("policy", "check", "ls > list")
    assert (told.status, told.out) == (0, "allow\n") and "in mode ask you are asked" in told.err
    assert orkas("policy", "check", "ls -la").err == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("words", ["run --model demo/offline hi", "session list", "stats", "tool list", "config set model demo/offline"])
def test_a_home_that_cannot_be_read_is_named(words: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o000)
    try:
        ran = shell(f'"$@" {words}', tmp_path, ORKAS_HOME=str(home))
    finally:
        home.chmod(0o700)
    ran.refused(2 if "config.toml cannot be read" in ran.err else 1, "ermission denied", "; ")
