"""The commands beside ``run``: what they print, for people and as JSON, and how they refuse."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cli_support import DEMO, environ, orkas, start
from orkas import Session
from orkas.harness.sessions.names import sessions_folder
from orkas.infra.home import home
from orkas.infra.messages import AssistantMessage, Image, Opaque, Text, ToolCall, ToolMessage, user_message
from orkas.product.cli import COMMANDS

HOME = "ORKAS_HOME"


# Help


def helps() -> list[tuple[str, ...]]:
    families = {
        "session": "list show check repair export import fork rewind compact uncompact delete search",
        "auth": "status",
        "config": "list get set path",
        "tool": "list run",
        "policy": "check",
        "trash": "list restore",
    }
    return [(), *((name,) for name in COMMANDS), *((f, c) for f, cs in families.items() for c in cs.split())]


@pytest.mark.parametrize("words", helps(), ids=" ".join)
def test_each_command_has_help_and_each_that_does_something_an_example(words: tuple[str, ...]) -> None:
    ran = orkas(*words, "--help")
    assert ran.status == 0 and ran.err == "" and " ".join(["usage: orkas", *words]) in ran.out
    if words not in [(f,) for f in ("session", "auth", "config", "tool", "policy", "trash")]:
        assert re.search(r"example:\n  .*orkas " + " ".join(words), ran.out)


def test_the_version() -> None:
    from orkas import __version__

    assert orkas("--version").out == f"orkas {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("session",), ("session", "compact"), ("auth", "login"), ("config", "unset", "x"),
        ("stats", "--since", "yesterday-ish"), ("stats", "--by", "moon"), ("stats", "x"), ("tool", "run", "shell"), ("models", "install"), ("models", "--gguf", "x"), ("models", "install", "other"),
        ("session", "show", "x", "--jso"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_does_not_exist_is_wrong_usage(words: tuple[str, ...]) -> None:
    orkas(*words).refused(2)


# Sessions


@pytest.fixture
def trip() -> str:
    assert orkas("run", "find the \x1b[31mred\x1b[0m parser 漢", "--session", "trip", *DEMO).status == 0
    return "trip"


def test_show_numbers_the_messages(trip: str) -> None:
    ran = orkas("session", "show", trip)
    assert ran.status == 0 and "\x1b" not in ran.out and "^[[31mred" in ran.out
    numbers = [int(n) for n in re.findall(r"^\[(\d+)\] ", ran.out, re.MULTILINE)]
    records = orkas("session", "show", trip, "--json").json
    assert numbers == [r["n"] for r in records] == list(range(1, len(records) + 1))
    assert [r["role"] for r in records][:3] == ["user", "assistant", "tool"]


def test_a_session_that_does_not_exist(trip: str) -> None:
    orkas("session", "show", "nobody").refused(1, "nobody")


def test_the_life_of_a_session(trip: str, tmp_path: Path) -> None:
    (listed,) = orkas("session", "list", "--json").json
    assert listed["id"] == trip and trip in orkas("session", "list").out
    assert orkas("session", "search", "parser", "--json").json[0]["id"] == trip
    fork = orkas("session", "fork", trip, "--at", "1", "--json").json["id"]
    assert len(orkas("session", "show", fork, "--json").json) == 1
    assert orkas("session", "rewind", trip, "--to", "1").status == 0
    assert len(orkas("session", "show", trip, "--json").json) == 1
    (tmp_path / "out.jsonl").write_text(orkas("session", "export", trip, "--format", "jsonl").out)
    taken = orkas("session", "import", str(tmp_path / "out.jsonl"), "--json").json["id"]
    assert (
        orkas("session", "show", taken, "--json").json[0]["content"]
        == orkas("session", "show", trip, "--json").json[0]["content"]
    )
    for form, sign in (("md", "parser"), ("html", "<html")):
        assert sign in orkas("session", "export", trip, "--format", form).out
    kept = Path(orkas("session", "delete", fork, "--json").json["kept"])
    assert kept.exists() and kept.is_relative_to(os.environ[HOME])
    orkas("session", "show", fork).refused(1)


def test_check_tells_and_never_writes(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    good = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    path.write_bytes(json.dumps(good).encode() + b"\n{broken\n" + json.dumps(good).encode())
    before = path.read_bytes()
    found = orkas("session", "check", str(path), "--json").json
    assert found["damaged_lines"] == [2] and len(found["messages"]) == 2
    assert set(found) >= {"messages", "damaged_lines", "repaired", "warnings"}
    assert "2" in orkas("session", "check", str(path)).out
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["s.jsonl"]


def test_a_file_of_another_kind_is_no_session_file(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Notes\n\nWords.\n")
    for name in ("check", "import"):
        orkas("session", name, str(tmp_path / "README.md")).refused(1, "is no session file")
    (tmp_path / "empty.jsonl").write_text("")
    assert orkas("session", "check", str(tmp_path / "empty.jsonl")).status == 0


def test_an_import_says_what_was_lost(tmp_path: Path) -> None:
    good = json.dumps({"role": "user", "content": [{"type": "text", "text": "hello"}]})
    (tmp_path / "s.jsonl").write_text(f"{good}\n{{broken\n{good}\n")
    ran = orkas("session", "import", str(tmp_path / "s.jsonl"))
    assert ran.status == 0 and "damaged lines (2): what they held was left out" in ran.err


def test_a_rewind_to_nothing_says_where_the_words_are(trip: str) -> None:
    ran = orkas("session", "rewind", trip, "--to", "0")
    assert "is empty now" in ran.out and "session search" in ran.out


def test_a_file_that_is_not_there() -> None:
    for name in ("check", "repair", "import"):
        orkas("session", name, "/no/such.jsonl").refused(1, "/no/such.jsonl")


def test_a_locked_session_is_a_failure(trip: str) -> None:
    from orkas.harness.sessions.session import Session

    with Session.open(trip):
        orkas("run", "x", "--session", trip, *DEMO).refused(1, trip)


# The request


def test_the_request_of_the_next_turn_is_shown_and_nothing_is_written(trip: str) -> None:
    path = Path(os.environ[HOME], "sessions", "trip.jsonl")
    before = path.read_bytes()
    for where in (trip, str(path)):
        shown = orkas("request", *DEMO, "--session", where, "--json").json
        assert set(shown) == {"url", "headers", "body"}
    assert "parser" in json.dumps(shown["body"], ensure_ascii=False)
    assert path.read_bytes() == before
    assert orkas("request", *DEMO).status == 0


def test_the_request_has_its_secrets_masked() -> None:
    secret = "sk-ant-api03-of-nobody-at-all"
    env = environ(ANTHROPIC_API_KEY=secret)
    ran = orkas("request", "--model", "anthropic/claude-sonnet-4-5", "--json", env=env)
    assert ran.status == 0 and secret not in ran.out + ran.err
    assert ran.json["headers"]["x-api-key"] == "***" and "read_file" in ran.out


# Tools and policy


def test_tools_are_listed_with_their_schemas() -> None:
    tools = orkas("tool", "list", "--json").json
    assert {"list_files", "read_file", "shell"} <= {t["name"] for t in tools}
    assert all(t["parameters"]["type"] == "object" and t["description"] for t in tools)
    assert all(t["name"] in orkas("tool", "list").out for t in tools)


def test_a_tool_runs_as_the_model_would_run_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("here\n")
    ran = orkas("tool", "run", "list_files", "{}", "--cwd", str(tmp_path))
    assert ran.status == 0 and "a.txt" in ran.out
    shown = orkas("tool", "run", "list_files", "{}", "--json", cwd=tmp_path).json
    assert shown["name"] == "list_files" and "a.txt" in shown["result"] and shown["is_error"] is False
    ran = orkas("tool", "run", "shell", json.dumps({"command": r"printf 'a\033[2Jb'"}))
    assert ran.status == 0 and "\x1b" not in ran.out


def test_a_tool_that_fails_is_status_1() -> None:
    ran = orkas("tool", "run", "read_file", '{"path": "no-such-file"}')
    assert ran.status == 1 and ran.out
    assert orkas("tool", "run", "read_file", "{}").status == 1


@pytest.mark.parametrize(("name", "arguments"), [("saw", "{}"), ("shell", "[1]"), ("shell", "{"), ("shell", "")])
def test_a_call_that_cannot_be_made_is_wrong_usage(name: str, arguments: str) -> None:
    orkas("tool", "run", name, arguments).refused(2)


def verdict(command: str) -> Any:
    return orkas("policy", "check", "--json", "--", command).json["verdict"]


def test_policy_check_prints_a_verdict_and_runs_nothing(tmp_path: Path) -> None:
    shown = orkas("policy", "check", f"sudo touch {tmp_path}/x", "--json")
    assert shown.status == 0 and shown.json["verdict"] == "deny" and shown.json["reasons"]
    assert verdict(f"touch {tmp_path}/y") in ("allow", "ask") and not list(tmp_path.iterdir())
    assert orkas("policy", "check", "sudo ls").out.startswith("deny: ")


def test_policy_check_says_which_rule_lets_it_run_unasked() -> None:
    config = Path(os.environ["ORKAS_HOME"]) / "config.toml"
    config.write_text('[policy]\nallow = ["shell: npm test"]\ndeny = ["shel: git push"]\n')
    allowed = orkas("policy", "check", "npm test")
    assert allowed.out == "allow\n" and "your rule “shell: npm test” allows it: nobody is asked" in allowed.err
    assert "names the tool 'shel', which there is not (did you mean shell?)" in allowed.err
    beyond = orkas("policy", "check", "npm test; rm x")
    assert beyond.out == "allow\n" and "in mode ask you are asked all the same" in beyond.err
    modes = {line: orkas("policy", "check", line, "--json").json["in_mode_ask"] for line in ("npm test", "rm x", "ls", "sudo x")}
    assert modes == {"npm test": "allow", "rm x": "ask", "ls": "allow", "sudo x": "deny"}
    orkas("policy", "check", " ").refused(2, "there is no command to check")
    orkas("policy", "check", "ls", "-la").refused(2, "put the whole command in quotes")
    assert "nothing is approved for always" in orkas("policy", "grants").err


def test_a_tool_that_is_not_offered_says_what_offers_it() -> None:
    for words in (("tool", "run", "generate_image", "{}"), ("run", *DEMO, "--tools", "generate_image", "hi")):
        orkas(*words).refused(2, "name a model that draws: orkas config set image.model")
    orkas("config", "set", "image.model", "anthropic/claude").refused(2, "anthropic draws no pictures here")
    orkas("config", "set", "image.model", "openai/gpt-image-1")
    orkas("tool", "run", "generate_image", "{}").refused(2, "openai/gpt-image-1 cannot draw now: there is no", "OPENAI_API_KEY")
    orkas("run", *DEMO, "--tools", "", "hi").refused(2, "say none for no tools")
    orkas("config", "set", "policy.allow", "ls").refused(2, "the table [policy] is written with an editor")


def test_a_call_that_is_typed_may_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    arguments = json.dumps({"path": "a.txt", "content": "new"})
    assert orkas("tool", "run", "write_file", arguments, cwd=tmp_path).status == 0
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_tool_refused_by_policy_is_status_4() -> None:
    ran = orkas("tool", "run", "shell", '{"command": "sudo id"}')
    assert ran.status == 4 and "Refused" in ran.out


def test_a_stopped_tool_ends_with_130(tmp_path: Path) -> None:
    run = start("tool", "run", "shell", '{"command": "touch begun; sleep 62"}', "--cwd", str(tmp_path))
    deadline = time.monotonic() + 20
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=20)
    assert run.returncode == 130 and b"Traceback" not in err and time.monotonic() - began < 3


# Configuration


def test_settings_are_written_read_and_traced() -> None:
    assert orkas("config", "set", "model", "demo/offline").status == 0
    path = Path(orkas("config", "path").out.strip())
    assert path.read_text() == 'model = "demo/offline"\n'
    assert orkas("config", "get", "model").out == "demo/offline\n"
    rows = {r["key"]: r for r in orkas("config", "list", "--json", env=environ(ORKAS_MODEL="a/b")).json}
    assert rows["model"] == {"key": "model", "value": "a/b", "origin": "environment ORKAS_MODEL"}
    assert rows["max_rounds"]["origin"] == "default"
    assert orkas("run", "x", "--json").events[-1]["model"] == "demo/offline"
    assert "ORKAS_MODEL" in orkas("config", "set", "model", "groq/d", env=environ(ORKAS_MODEL="a/b")).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("get", "modle"), "'model'"),
        (("set", "modle", "x"), "'model'"),
        (("set", "max_rounds", "many"), "whole number"),
        (("set", "approve", "maybe"), "ask, edits, all or none"),
        (("set", "openai_api_key", "sk-abcdefghijkl"), "environment"),
        (("set", "model", "sk-abcdefghijkl"), "environment"),
    ],
    ids=str,
)
def test_config_refuses_in_one_sentence(words: tuple[str, ...], says: str) -> None:
    ran = orkas("config", *words)
    ran.refused(2, says)
    assert "sk-abc" not in ran.err


def test_a_broken_file_stops_runs_but_not_those_who_look() -> None:
    path = Path(os.environ[HOME], "config.toml")
    path.write_text("approve = 'nome'\n")
    orkas("run", "x", *DEMO).refused(2, "approve")
    assert orkas("config", "list").status == 0
    doctor = orkas("doctor", "--json")
    assert doctor.status == 1 and any("approve" in f["text"] for f in doctor.json if f["level"] == "problem")
    assert orkas("config", "set", "approve", "all").status == 0
    assert orkas("run", "x", *DEMO).status == 0
    path.unlink()
    path.mkdir()
    orkas("run", "x", *DEMO).refused(2, "config.toml")


def test_what_is_not_set_is_said_beside_the_output_and_can_be_unset() -> None:
    unset = orkas("config", "get", "model")
    assert (unset.status, unset.out) == (0, "") and unset.err.startswith("model is not set; what counts is what is found")
    orkas("config", "set", "model", "demo/offline")
    assert orkas("config", "get", "model").out == "demo/offline\n"
    assert "named by ORKAS_MODEL" not in orkas("doctor").out
    assert orkas("config", "unset", "model").status == 0
    assert "is not set" in orkas("config", "unset", "model").err
    orkas("config", "unset", "modle").refused(2, "did you mean 'model'")


def test_run_and_doctor_say_the_same_of_a_broken_file() -> None:
    Path(os.environ[HOME], "config.toml").write_text("model = = 1\n")
    said = "line 1, column 9); edit or remove the file"
    orkas("run", "x", *DEMO).refused(2, "config.toml", said)
    assert said in orkas("doctor").out


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder in which nobody can make one is needed")
def test_a_home_that_cannot_be_made_is_named_whole() -> None:
    nowhere = environ(ORKAS_HOME="/proc/deep/home")
    for words in (["run", "x", *DEMO], ["run", "x", "--session", "s", *DEMO]):
        orkas(*words, env=nowhere).refused(1, "/proc/deep/home", "ORKAS_HOME")
    doctor = orkas("doctor", env=nowhere)
    assert doctor.status == 1 and "/proc/deep/home cannot be made" in doctor.out


@pytest.mark.parametrize(
    ("words", "says"),
    [(["run", "hi", "there"], "put the prompt in quotes"), (["--model", "demo/offline", "run", "hi"], "orkas run …"),
     (["session", "fork", "x", "--nme", "y"], "orkas session fork --help"), (["run", "x", "--modle"], "orkas run --help")],
)  # fmt: skip
def test_words_that_do_not_belong_there(words: list[str], says: str) -> None:
    orkas(*words).refused(2, says)


def test_an_unknown_key_is_a_warning() -> None:
    Path(os.environ[HOME], "config.toml").write_text('modle = "x"\n')
    ran = orkas("run", "x", *DEMO)
    assert ran.status == 0 and "did you mean 'model'" in ran.err


# Vendors, keys, health


def test_keys_are_found_and_never_shown() -> None:
    env = environ(ANTHROPIC_API_KEY="sk-ant-of-nobody-123")
    ran = orkas("auth", "status", "--json", env=env)
    rows = {r["vendor"]: r for r in ran.json}
    assert rows["anthropic"]["found"] and rows["anthropic"]["from"] == "environment ANTHROPIC_API_KEY"
    assert not rows["openai"]["found"] and "OPENAI_API_KEY" in rows["openai"]["variables"]
    human = orkas("auth", "status", env=env)
    models = orkas("models", "--json", env=env)
    doctor = orkas("doctor", env=env)
    assert "sk-ant" not in ran.out + human.out + models.out + doctor.out
    assert "ANTHROPIC_API_KEY" in doctor.out and {r["vendor"] for r in models.json} == {*rows, "local", "demo"}
    assert [r["vendor"] for r in orkas("auth", "status", "anthropic", "--json").json] == ["anthropic"]
    orkas("auth", "status", "nobody").refused(2, "nobody")
    orkas("models", "--vendor", "nobody").refused(2, "nobody")


def test_the_doctor_says_what_is_and_what_is_not_yet() -> None:
    ran = orkas("doctor", "--json")
    areas = {f["area"] for f in ran.json}
    assert {
        "version",
        "home",
        "config",
        "log",
        "model",
        "terminal",
        "extra",
        "sessions",
        "sandbox",
        "approve",
    } <= areas
    text = orkas("doctor").out
    for said in ("Shell commands run inside", "The chat asks before anything is changed", "offline demo", "Python"):
        assert said in text
    assert text.count("Looked for and not found") == 1
    assert "Traceback" not in ran.err
    assert not list(Path(os.environ[HOME]).iterdir())  # it changes nothing


def test_a_well_installation_is_status_0_and_a_broken_home_is_not(tmp_path: Path) -> None:
    assert orkas("doctor").status == 0
    (tmp_path / "home").write_text("")
    ran = orkas("doctor", env=environ(ORKAS_HOME=str(tmp_path / "home")))
    assert ran.status == 1 and "ORKAS_HOME" in ran.out


@pytest.mark.parametrize(
    "words", [["models"], ["models", "--json"], ["auth", "status"], ["auth", "status", "--json"], ["config", "list"],
              ["doctor"], ["doctor", "--json"], ["request", "--model", "custom/m"]],
)  # fmt: skip
def test_no_command_shows_the_secrets_of_an_address(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in ("CUSTOM", "OLLAMA"):
        monkeypatch.setenv(f"{vendor}_BASE_URL", "http://user:CANARYpass@localhost:1/v1?key=CANARYquery")
    (Path(os.environ["ORKAS_HOME"]) / "config.toml").write_text('[vendors.custom]\nbase_url = "http://localhost:2/v1"\n')
    ran = orkas(*words)
    assert "CANARY" not in ran.out + ran.err and ran.status in (0, 1)


def test_arguments_nested_without_end_are_wrong_usage() -> None:
    ran = orkas("tool", "run", "shell", "[" * 3000)
    assert ran.status == 2 and "nested too deep" in ran.err and ran.err.count("\n") == 1


def test_a_server_that_is_there_and_not_taken_has_a_line_of_its_own() -> None:
    ran = orkas("doctor", env=environ(OLLAMA_HOST="elsewhere.example:1"))
    assert "OLLAMA_HOST names elsewhere.example" in ran.out
    (missed,) = [line for line in ran.out.splitlines() if "Looked for and not found" in line]
    assert "Ollama" not in missed and "llama.cpp" in missed


def test_nothing_that_was_said_looks_like_a_message_of_its_own() -> None:
    evil = "x\n[9] user\n    yes\r[9] user\r\n[9] user"
    call = ToolCall(id="c", name=evil, arguments=None, arguments_raw="{" + evil)
    with Session.open("t") as session:
        session.append(user_message(evil), AssistantMessage([call, Opaque(kind=evil)], model="demo/" + evil, id="a"))
        session.append(ToolMessage("c", [Text(text=evil), Image(media_type=evil, data="aaaa")]))
    for form in ((), ("--full",)):
        shown = orkas("session", "show", "t", *form).out
        heads = [line for line in shown.splitlines() if not line.startswith("    ")]
        assert heads == ["[1] user", "[2] assistant", "[3] tool"]


def test_the_doctor_shows_a_name_on_one_line() -> None:
    place = sessions_folder()
    place.mkdir(parents=True)
    (place / "x\nNO sessions   everything is lost.txt").touch()
    (place / "y\nNO sessions   everything is lost.jsonl").write_text("garbage\n")
    lines = orkas("doctor").out.splitlines()
    assert sum("everything is lost" in line for line in lines) == 2
    assert not any(line.startswith("NO sessions   everything") for line in lines)


# tools of one's own, the user's own table, what stands in help


OWN = '''
from orkas import tool

@tool
def price(count: int) -> float:
    """What so many cost."""
    return 0.5 * count
'''


def test_a_tool_of_ones_own_is_listed_and_run_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(OWN)
    ran = orkas("tool", "run", "price", '{"count": 3}', "--tools", "shop.py", cwd=tmp_path)
    assert (ran.status, ran.out) == (0, "1.5\n"), ran
    assert [t["name"] for t in orkas("tool", "list", "--tools", "shop.py", "--json", cwd=tmp_path).json] == ["price"]
    both = {t["name"] for t in orkas("tool", "list", "--tools", "all,shop.py", "--json", cwd=tmp_path).json}
    assert both > {"price", "read_file"}
    orkas("tool", "run", "price", "{}", cwd=tmp_path).refused(2, "no tool 'price'", "--tools FILE.py")
    orkas("tool", "list", "--tools", "none.py", cwd=tmp_path).refused(2, "none.py", "cannot be read")


def test_models_tells_a_mistake_in_the_users_own_table() -> None:
    path = Path(orkas("config", "path").out.strip())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[vendors.lab]\nbase_url = 5\n[vendors.other]\nbase_url = "https://llm.example.org/v1"\n')
    for words in (("models",), ("models", "--vendor", "anthropic"), ("models", "--json")):
        told = [line for line in orkas(*words).err.splitlines() if "warning" in line]
        assert len(told) == 1 and str(path) in told[0] and "vendors.lab" in told[0] and "base_url" in told[0], told
    path.write_text("[vendors\n")
    assert str(path) in orkas("models").err


def test_a_price_that_nobody_named_is_not_a_price_of_nothing() -> None:
    assert re.search(r"^image\.price +not set +default$", orkas("config", "list").out, re.M)
    unset = orkas("config", "get", "image.price")
    assert (unset.out, unset.err) == ("", "image.price is not set\n")
    orkas("config", "set", "image.price", "0.00001")
    assert orkas("config", "get", "image.price").out == "0.00001\n"


def test_each_command_stands_in_the_help_above_it_and_says_what_it_does() -> None:
    above = orkas("--help").out
    for name in COMMANDS:
        found = re.search(rf"^  {name} +(.+(?:\n {{8,}}.+)*)", above, re.M)
        assert found and max(map(len, found[0].splitlines())) <= 80, above
        line = found[1]
        own = import_module(f"orkas.product.cli.{name}").parser()
        assert own.description and own.prog == f"orkas {name}"
        family = next((a for a in own._actions if isinstance(a, argparse._SubParsersAction)), None)
        if family is None:
            continue
        about = {action.dest: action.help for action in family._choices_actions}
        for sub, parser in family.choices.items():
            assert sub in line, f"`orkas --help` says nothing of {name} {sub}"
            assert about[sub] and "\n" not in about[sub] and re.search(rf"^    {sub}\s", own.format_help(), re.M)
            assert parser.description and parser.epilog, f"{name} {sub} has no example"


def test_a_background_job_without_an_agent_says_why_there_is_none(tmp_path: Path) -> None:
    ran = orkas("tool", "run", "shell", '{"command": "sleep 9", "background": true}', cwd=tmp_path)
    assert ran.status == 1 and "lives as long as its agent" in ran.out, ran


def test_the_secrets_of_a_folder_are_hidden_from_a_tool_run_alone(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DB_PASSWORD=hunter2hunter2\n")
    for command in ("cat .env", "base64 .env"):
        ran = orkas("tool", "run", "shell", json.dumps({"command": command}), "--cwd", str(tmp_path))
        assert ran.status == 0 and "hunter2" not in ran.out and "***" in ran.out, ran


def test_what_a_tool_prints_is_not_among_the_data(tmp_path: Path) -> None:
    file = tmp_path / "loud.py"
    file.write_text("import orkas\nprint('at import')\n@orkas.tool\ndef loud() -> str:\n    print('within')\n    return 'said'\n")
    ran = orkas("tool", "run", "loud", "{}", "--tools", str(file), "--json")
    assert ran.json["result"] == "said" and "at import" in ran.err and "within" in ran.err
    told = orkas("run", *DEMO, "hello", "--json", "--tools", str(file))
    assert told.events[-1]["type"] == "done" and "at import" in told.err


def test_what_is_unset_leaves_nothing_to_warn_of() -> None:
    assert orkas("config", "set", "search.engine", "brave").status == 0
    assert orkas("config", "unset", "search.engine").status == 0
    assert orkas("config", "list").err == ""


def test_own_rules_count_when_a_command_is_checked() -> None:
    config = home() / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[policy]\ndeny = ["shell: git push"]\nask = ["shell: git fetch"]\nallow = ["shell: rm"]\n')
    verdicts = {line: orkas("policy", "check", line, "--json").json["verdict"] for line in
                ("git push", "git fetch", "git status", "rm -rf /")}  # fmt: skip
    assert verdicts == {"git push": "deny", "git fetch": "ask", "git status": "allow", "rm -rf /": "deny"}
