"""Twelve secrets in the places where people have them; real runs, and then a look at everything that was written."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cli_support import Ran, environ, orkas
from orkas import Agent, Session
from orkas.infra import config
from orkas.infra.environment import learn_text
from orkas.infra.known import hide, known
from orkas.infra.messages import ToolMessage, text_of
from orkas.infra.secrets import Secret
from orkas.providers.accounts.logins import Login, Logins, Token
from orkas.providers.vendors import OAuthClient
from orkas.testing import FakeVendor, Refuse, ScriptedProvider, call
from test_secrets import BACK_END

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are those of POSIX")

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
CANARIES = {
    "environment": "sk-canary-Env01-aGVsbG8gd29ybGQ",
    "keyring": "canary/Ring02+key=of-no-shape",
    "own header": "canaryHeader03-kq8zPw2mR4",
    "refresh token": "canaryRefresh04-kq8zPw2mR4",
    "access token": "canaryAccess05-kq8zPw2mR4",
    "userinfo of an address": "canaryUserinfo06kq8z",
    "query of an address": "canaryQuery07kq8zPw2m",
    "dotenv": "canaryDotenv08-kq8zPw2mR4",
    "printed by a tool": "ghp_canaryPrinted09" + LETTERS[-21:],
    "proxy": "canaryProxy10kq8z",
    "git remote": "canaryRemote11kq8z",
    "another program's": "canaryDsn12-kq8zPw2mR4",
    "netrc": "canaryNetrc14kq8zPw",
    "docker": "canaryDocker15kq8z",
}
PEM = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(f"canaryPem13{LETTERS}{n:017}" for n in range(20)) + "\n-----END PRIVATE KEY-----\n"


def shown_as(value: str) -> Iterator[str]:
    """The value and what a person would read it from."""
    yield value
    yield from (base64.b64encode(value.encode()).decode().rstrip("="), quote(value, safe=""), json.dumps(value)[1:-1], value.encode().hex())
    for around in ("a", "ab"):  # inside of a longer text that was encoded
        yield base64.b64encode((around + value).encode()).decode()[4:-4]


def leaks(text: str) -> list[str]:
    found = [name for name, value in CANARIES.items() if any(form in text for form in shown_as(value))]
    return [*found, *(["private key"] if "canaryPem13" in text else [])]


def written(folder: Path) -> dict[str, str]:
    """All that lies in a home but what is there for secrets, and the user's own files, which undo gives back to the byte."""
    found = (p for p in folder.rglob("*") if p.is_file() and p.name != "secrets.json")
    return {str(p): p.read_text("utf-8", "replace") for p in found if p.relative_to(folder).parts[0] != "undo"}


class World:
    """A working folder, a home, a keyring and a vendor that repeats what it is shown."""

    def __init__(self, tmp_path: Path, vendor: FakeVendor) -> None:
        self.vendor = vendor
        self.work = tmp_path / "work"
        self.ring = tmp_path / "ring"
        self.said: dict[str, str] = {}
        c = CANARIES
        self.work.mkdir()
        self.ring.mkdir()
        (self.ring / "ring_of_ours.py").write_text(BACK_END)
        (self.work / ".env").write_text(f"# ours\nPORT=8080\nexport STRIPE_SECRET='{c['dotenv']}'\n")
        (self.work / "key.pem").write_text(PEM)
        (self.work / ".netrc").write_text(f"machine git.example\n  login me\n  password {c['netrc']}\n")
        (self.work / ".docker").mkdir()
        auth = base64.b64encode(f"me:{c['docker']}".encode()).decode()
        (self.work / ".docker" / "config.json").write_text(json.dumps({"auths": {"docker.example": {"auth": auth}}}))
        (self.work / ".git").mkdir()
        (self.work / ".git" / "config").write_text(
            f'[core]\n\tbare = false\n[remote "origin"]\n\turl = https://me:{c["git remote"]}@git.example/o/r.git\n'
        )
        host = vendor.base_url.removeprefix("http://")
        address = f"http://user:{quote(c['userinfo of an address'])}@{host}/v1?api_key={c['query of an address']}"
        self.env = environ(
            OPENAI_API_KEY=c["environment"], OPENAI_BASE_URL=f"http://{host}/v1", DEEPSEEK_BASE_URL=f"http://{host}/v1",
            GROQ_BASE_URL=f"http://{host}/v1", CUSTOM_BASE_URL=address, XAI_API_KEY=c["own header"], XAI_BASE_URL=f"http://{host}/v1",
            PYTHON_KEYRING_BACKEND="ring_of_ours.Keyring", RING=str(self.ring / "ring.json"),
            PYTHONPATH=os.pathsep.join([str(self.ring), os.environ["PYTHONPATH"]]),
            HTTPS_PROXY=f"http://me:{c['proxy']}@proxy.example:3128", NO_PROXY="127.0.0.1,localhost",
            APP_DATABASE_URL=f"postgres://app:{c[chr(97) + 'nother program' + chr(39) + 's']}@db.example/app", LC_SECRET=c["environment"],
        )  # fmt: skip
        client = OAuthClient(token_url=f"http://{host}/token", client_id="ours")
        Logins().put("groq", Login(token=Token(Secret(c["access token"]), Secret(c["refresh token"]), client=client)))

    def orkas(self, *words: str, replies: Any = (), **options: Any) -> Ran:
        self.vendor.script(list(replies))
        done = orkas(*words, env=self.env, cwd=self.work, **options)
        self.said[" ".join(words)[:60]] = done.out + done.err
        return done


TOOLS = [
    call("shell", command="env; set; export -p"),
    call("shell", command="for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; tr '\\0' ' ' < $p/cmdline; done 2>/dev/null; ps -ef; true"),
    call("shell", command="env; ps -ef; true", outside=True),
    call("shell", command="cat .env .git/config; git remote -v; base64 -w0 .env; printf 'x%s' \"$(cat .env)\" | base64 -w0; true"),
    call("shell", command="cat .env | tr -d '\\n' | xxd -p | tr -d '\\n'; cat key.pem"),
    call("shell", command="v=$(grep -o 'canaryDotenv[^\\x27]*' .env); seq 1 9000; for i in $(seq 400); do echo -n $v; seq $i | tr -d '\\n'; done; seq 1 9000"),
    call("shell", command="seq 1 9000; cat key.pem; seq 1 9000"),
    call("shell", command=f"printf 'ghp_%s%s' canaryPrinted09 {LETTERS[-21:]}; printf 'ghp_%s%s' canaryPrinted09 {LETTERS[-21:]} >&2; exit 3"),
    call("shell", command="base64 -w 20 .env; xxd .env; xxd -p .env; hexdump -C .env; od -c .env; od -x .env; od -An -tx1 .env; base32 .env; fold -w 11 .env"),
    call("shell", command=". ./.env; export STRIPE_SECRET; printenv STRIPE_SECRET; set | grep STRIPE; declare -p STRIPE_SECRET; env -0; grep -o 'canary.*' .env | head -c 18"),
    call("shell", command="cat .netrc .docker/config.json; sed -n 5,9p key.pem; base64 -d <<< $(grep -o '[A-Za-z0-9+=]*=' .docker/config.json | head -1)"),
    call("read_file", path=".env"), call("read_file", path=".git/config"), call("read_file", path="key.pem"),
    call("search_files", pattern="STRIPE"), call("read_file", path="no/such/file"),
]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    pytest.importorskip("keyring")
    with FakeVendor(strict=False) as vendor:
        yield World(tmp_path, vendor)


def repeating(request: Any) -> Any:
    """A vendor that puts what it was shown into its error, as some gateways do."""
    shown = f"{request.path} {dict(request.headers)} {base64.b64encode(str(dict(request.headers)).encode()).decode()}"
    return Refuse(401, f"Incorrect API key provided: {shown}")


def test_none_of_twelve_canaries_leaks(world: World, tmp_path: Path) -> None:
    assert world.orkas("auth", "login", "deepseek", input=CANARIES["keyring"]).status == 0
    assert CANARIES["keyring"] in json.loads((world.ring / "ring.json").read_text()).popitem()[1]
    for model, key in (("openai/m", "environment"), ("groq/m", "access token"), ("custom/m", "query of an address")):
        ran = world.orkas(
            "run", "--model", model, "look around", "--json", "--debug", "--approve", "all", "--session", model[:4],
            replies=[*[[tool] for tool in TOOLS], "done"],
        )  # fmt: skip
        events = ran.events
        assert events[-1]["outcome"] == "completed", ran
        results = [e for e in events if e["type"] == "tool_end"]
        assert len(results) == len(TOOLS), key
        assert [n for n, r in enumerate(results) if "***" not in r["result"] and n != 2] == [0, 1, 5, 6, 15]
        # the others had to hide something; the third lists whatever runs on this machine
        seen = str([(r.path, r.headers) for r in world.vendor.requests])
        assert CANARIES[key] in seen  # it was in use
    for model in ("openai/m", "deepseek/m", "groq/m", "custom/m", "xai/m"):
        ran = world.orkas("run", "--model", model, "hi", "--debug", replies=[repeating] * 4)
        assert ran.status != 0 and (model == "groq/m" or "***" in ran.err), ran  # there the renewal fails
        world.orkas("run", "--model", model, "hi", "--json", replies=[repeating] * 4)
    assert CANARIES["refresh token"] in str([r.raw for r in world.vendor.requests])
    sessions = ["open", "groq", "cust"]
    for name in sessions:
        for form in ("md", "html", "jsonl"):
            world.orkas("session", "export", name, "--format", form)
        world.orkas("request", "--model", "openai/m", "--session", name, "--json")
    for words in (
        ["request", "--model", "custom/m"], ["auth", "status", "--json"], ["doctor", "--json"], ["models", "--json"],
        ["config", "list", "--json"], ["stats", "--json"], ["session", "list", "--json"], ["session", "search", "canary"],
        ["run", "--model", "openai/m", f"my key is {CANARIES['environment']}", "--json"], ["run", "--model", "no/such", "hi", "--debug"],
    ):  # fmt: skip
        world.orkas(*words, replies=["yes"])
    home = Path(world.env["ORKAS_HOME"])
    files = written(home)
    assert any(name.endswith(".txt") for name in files) and any("orkas.log" in name for name in files)
    for where, text in {**world.said, **files}.items():
        assert not leaks(text), f"{leaks(text)} in {where}"
    sent = "".join(r.raw.decode("utf-8", "replace") for r in world.vendor.requests if r.path.endswith("completions"))
    assert not leaks(sent)  # nor does a vendor get them in what a model is told


def test_everything_is_for_its_owner_alone_under_any_umask(world: World) -> None:
    world.env["ORKAS_HOME"] += "/new/home"
    before = os.umask(0)
    try:
        world.orkas("run", "--model", "openai/m", "look", "--approve", "all", "--session", "modes", replies=[*[[t] for t in TOOLS], "done"])
        world.orkas("session", "list")
    finally:
        os.umask(before)
    home = Path(world.env["ORKAS_HOME"]).parent
    wide = [str(p) for p in home.rglob("*") if not p.is_symlink() and stat.S_IMODE(p.stat().st_mode) & 0o077]
    assert not wide, wide


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process by its files")
def test_the_command_keeps_no_key_where_others_look(world: World) -> None:
    """While it runs: its own environment is closed to its user, and what it starts by any way has no key."""
    code = (
        "import sys, os, subprocess\n"
        "sys.argv = ['orkas', 'models']\n"
        "from orkas.product import cli\n"
        "cli.main()\n"
        "from orkas.infra.environment import environ\n"
        "assert environ['OPENAI_API_KEY'].startswith('sk-canary') and 'OPENAI_API_KEY' in list(environ)\n"
        "assert dict(environ)['APP_DATABASE_URL'].startswith('postgres')\n"
        "print(subprocess.run(['env'], capture_output=True, text=True).stdout, os.environ, file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=world.env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    kept = [name for name in leaks(ran.stderr) if name != "proxy"]  # the network needs it
    assert not kept and "PATH=" in ran.stderr


def test_a_library_leaves_the_environment_alone(world: World) -> None:
    code = (
        "import os, asyncio\n"
        "before = dict(os.environ)\n"
        "from orkas import Agent, tool\n"
        "from orkas.testing import ScriptedProvider, call\n"
        "@tool\n"
        "def own() -> str:\n"
        "    'Tell.'\n"
        "    return os.environ['APP_DATABASE_URL'] + ' ' + os.environ['OPENAI_API_KEY']\n"
        "@tool\n"
        "def broken() -> str:\n"
        "    'Fail.'\n"
        "    raise KeyError(os.environ['OPENAI_API_KEY'])\n"
        "agent = Agent(ScriptedProvider([[call('own')], [call('broken')], 'done']), tools=[own, broken])\n"
        "async def main():\n"
        "    async for event in agent.stream('go'):\n"
        "        print(event)\n"
        "asyncio.run(main())\n"
        "assert dict(os.environ) == before\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=world.env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("***") >= 3 and not leaks(ran.stdout + ran.stderr)


CARRIERS = (
    "DATABASE_URL", "PGPASSWORD", "SSH_AUTH_SOCK", "KUBECONFIG", "DOCKER_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "AWS_PROFILE",
    "AWS_SESSION_TOKEN", "NETRC", "GPG_AGENT_INFO", "SENTRY_DSN", "REDIS_URL", "AMQP_URL", "MYSQL_PWD", "SLACK_WEBHOOK", "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS", "LC_SECRET", "BASH_FUNC_x%%", "PIP_INDEX_URL", "NPM_CONFIG__AUTH", "VAULT_ADDR",
)  # fmt: skip
INJECTORS = (
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "PROMPT_COMMAND", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT",
    "PYTHONSTARTUP", "PYTHONPATH", "PERL5OPT", "PERL5LIB", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "DYLD_INSERT_LIBRARIES", "PS4",
)  # fmt: skip


@pytest.mark.parametrize("line, hidden", [
    ("DB_PASSWORD='hunter2secret99'", "hunter2secret99"), ("export A_TOKEN=abc123def # mine", "abc123def"), ("PGPASSWORD=p4ssw0rd", "p4ssw0rd"),
    ("DATABASE_URL=postgres://u:pa55word%21x@db.prod.example/x", "pa55word!x"), ("//npm.example.org/:_authToken=abcdef0123456789", "abcdef0123456789"),
    ("SLACK_WEBHOOK_URL=https://hooks.slack.com/services/T0/B0/x1y2", "https://hooks.slack.com/services/T0/B0/x1y2"),
    ("\turl = https://0123456789abcdef0123@git.example/o/r.git", "0123456789abcdef0123"), ("X_SECRET=only-letters-and-dashes-in-it", "only-letters-and-dashes-in-it"),
    ("machine git.example login me password hunter2secret77", "hunter2secret77"), ('{"auths": {"d.example": {"auth": "bWU6aHVudGVyMnNlY3JldDg4"}}}', "hunter2secret88"),
    ("npmAuthToken: abcdef0123456789", "abcdef0123456789"), ('  "refresh_token": "1//0abcdefg-hijk",', "1//0abcdefg-hijk"),
    ("PORT=12345678", ""), ("AUTH_URL=https://login.example.com/oauth2", ""), ("A_KEY=node_modules", ""), ("KEY_FILE=keys/one2three.pem", ""),
    ("PUBLIC_KEY=zyx987wvu654", ""), ("TITLE=zyx987wvu654", ""), ("TOKEN_TTL=3600seconds1", ""), ("SECRET=changeme", ""), ("KEY=/etc/keys/1.pem", ""),
])  # fmt: skip
def test_what_a_file_of_secrets_holds(line: str, hidden: str) -> None:
    before = set(known())
    learn_text(f"# a comment\n{line}\n")
    assert set(known()) - before <= {hidden, "pa55word%21x", "bWU6aHVudGVyMnNlY3JldDg4"} and (not hidden or hide(f"<{hidden}>") == "<***>")


def test_a_command_gets_a_short_list_of_variables(tmp_path: Path) -> None:
    value = "canaryOfAVariable7"
    env = environ(**dict.fromkeys((*CARRIERS, *INJECTORS), value), https_proxy=f"http://u:{value}@p.example:1/", ALL_PROXY=f"u:{value}@p.example:1")
    env |= {"PYTHONPATH": os.environ["PYTHONPATH"]}
    shown = "env; echo inside; exec 3</proc/self/environ; tr '\\0' '\\n' <&3"
    for walls in ("false", "true"):
        done = orkas("tool", "run", "shell", json.dumps({"command": shown, "outside": walls == "true"}), "--approve", "all", env=env, cwd=tmp_path)
        names = {line.partition("=")[0] for line in done.out.splitlines() if "=" in line}
        assert value not in done.out and "PATH" in names and not names & {*CARRIERS, *INJECTORS} - {"PS4"}, done
        assert "https_proxy=http://p.example:1/" in done.out and "ALL_PROXY=p.example:1" in done.out


async def test_a_key_that_is_seen_as_stars_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PORT=1\nAPI_KEY=canaryKept14-kq8z\n")
    script = [
        [call("read_file", path=".env")], [call("write_file", path=".env", content="PORT=2\nAPI_KEY=***\n")],
        [call("edit_file", path=".env", old_text="PORT=1", new_text="PORT=2")], [call("write_file", path="x.env.example", content="API_KEY=***\n")], "done",
    ]  # fmt: skip
    session = Session()
    await Agent(ScriptedProvider(script), session=session, cwd=tmp_path, approve="all").run("change the port")
    read, refused, edited, copied = [m for m in session.messages if isinstance(m, ToolMessage)]
    assert "API_KEY=***" in text_of(read) and refused.is_error and "edit_file" in text_of(refused)
    assert not copied.is_error and not edited.is_error, text_of(edited)
    assert (tmp_path / ".env").read_text() == "PORT=2\nAPI_KEY=canaryKept14-kq8z\n"


async def test_what_the_user_says_goes_out_without_keys_and_that_is_told(tmp_path: Path) -> None:
    key = "canarySaid15-kq8zPw2m"
    Secret(key)
    provider = ScriptedProvider(["fine"])
    agent = Agent(provider, tools=[], cwd=tmp_path)
    events = [e async for e in agent.stream(f"put {key} into the file")]
    assert [e.text for e in events if e.type == "notice"] and "write there yourself" in str(events[0])
    assert "put *** into the file" in str(agent.session.messages) and key not in str(agent.session.messages) + str(events)
    agent.queue(f"and {key}")
    assert key not in str(agent.session.inbox.waiting())


def test_the_settings_file_takes_no_secret() -> None:
    with pytest.raises(Exception, match="secret"):
        config.set_value("model", CANARIES["environment"])
