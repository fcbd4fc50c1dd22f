"""Published ways around the approval of commands. Each test is named after its row."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orkas
from orkas import Agent, ToolContext
from orkas.harness.commands.effects import effects_of
from orkas.harness.execute import execute
from orkas.harness.policy import Policy, check_command
from orkas.harness.policy.rules import LEVELS, Rule, Rules
from orkas.infra.config import key_of
from orkas.infra.errors import UsageError
from orkas.infra.messages import ToolCall
from orkas.testing import ScriptedProvider, call

ASKS = Policy("ask", headless=False, rules=Rules())


def verdict(command: str, *rules: Rule, mode: Any = "ask", sandbox: Any = "find") -> str:
    policy = Policy(mode, headless=False, rules=Rules(rules))
    return policy.decide("shell", {"command": command}, ToolContext(Path.cwd(), sandbox=sandbox)).verdict


def rule(level: Any, text: str) -> Rule:
    return Rule.read(level, text)


def test_cmd_compound_ask() -> None:
    """A rule that asks is looked for in every part, in every mode that can ask."""
    for mode in ("ask", "edits"):
        for text in ("ls && rm -rf x", "ls; rm x", "ls | xargs rm", "echo $(rm x)", "(rm x)", "env rm x", "bash -c 'rm x'"):
            assert verdict(text, rule("ask", "shell: rm"), rule("allow", "shell: rm x"), mode=mode) == "ask", text


def test_sandbox_autoallow_rm(tmp_path: Path) -> None:
    """In a sandbox the files of the user are still there: what removes many of them asks."""
    (tmp_path / "big").mkdir()
    for n in range(300):
        (tmp_path / "big" / str(n)).touch()
    context = ToolContext(tmp_path)
    policy = Policy("edits", headless=False, rules=Rules())
    for text in ("rm -rf .", "rm -rf *", "rm -rf ./*", "rm -rf .git", "rm -r sub/.git", "find . -delete", "rm -rf big",
                 "find . -name x -delete", "git clean -fdx", "bash -c 'rm -rf .'", "cd sub && rm -rf *", "rm -rf $X"):  # fmt: skip
        assert policy.decide("shell", {"command": text}, context).verdict == "ask", text
    for text in ("rm -rf build", "rm a.txt", "make clean", "touch a", "python3 x.py"):
        assert policy.decide("shell", {"command": text}, context).verdict == "allow", text
    open_ground = ToolContext(tmp_path, sandbox="off")
    for text in ("make clean", "python3 x.py", "echo x > ../y"):
        assert policy.decide("shell", {"command": text}, open_ground).verdict == "ask", text
    assert policy.decide("shell", {"command": "rm -rf build; touch a"}, open_ground).verdict == "allow"


OPERATORS = [
    "ls; {}", "ls && {}", "ls || {}", "ls | {}", "ls |& {}", "ls & {}", "ls\n{}", "echo $({})", "echo `{}`", "echo \"$({})\"",
    "cat <({})", "ls > >({})", "{} &", "( {} )", "{{ {}; }}", "if {}; then :; fi", "cat <<E\n$({})\nE", "! {}", "time {}",
    "for x in $({}); do :; done", "ls \\\n; {}", "x=$({})", "[[ -n $({}) ]]", "case $({}) in esac", "echo ${{x:-$({})}}",
]  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
def test_cmd_chain(operator: str) -> None:
    """Every simple command has to be allowed, wherever it stands, and every redirection."""
    allowed = rule("allow", "shell: npm test")
    assert verdict(operator.format("touch canary"), allowed) == "ask"
    assert verdict(operator.replace("ls", "npm test").format("touch canary"), allowed) == "ask"


@pytest.mark.parametrize("target", ["> canary", ">> canary", ">| canary", "&> canary", "2> canary", "<> canary", ">& canary"])
def test_cmd_chain_redirections(target: str) -> None:
    assert verdict(f"ls {target}") == "ask"
    assert verdict(f"npm test {target}", rule("allow", "shell: npm test")) == "ask"
    assert verdict("npm test 2>/dev/null", rule("allow", "shell: npm test")) == "allow"


@pytest.mark.parametrize("text", ["LD_PRELOAD=x ls", "PAGER=evil", "GIT_SSH_COMMAND=x git fetch", "PATH=.:$PATH ls",
    "x=1 ls", "BASH_ENV=x", "IFS=/ ls", "export PATH=/x; ls", "read PATH < f; ls", "for PATH in .; do ls; done",
    "printf -v PATH .; ls", "echo ${PATH:=.}; ls", "a[0]=1 ls"])  # fmt: skip
def test_cmd_bare_assign(text: str) -> None:
    assert verdict(text) == "ask"


def test_cmd_cap_failopen() -> None:
    """Too many, too long, too deep: never a yes, and a deny stays one."""
    for count in (49, 60, 500):
        assert check_command("true;" * count + "sudo id").verdict == "deny"
        assert verdict("true;" * count + "make") == "ask"
    assert verdict("true;" * 100 + "true") == "ask"
    assert verdict("ls " + "x" * 5_000) == "ask"
    assert verdict("echo $(echo $(echo $(echo $(echo x))))") == "ask"
    denied = rule("deny", "shell: make")
    assert verdict("true;" * 100 + "make", denied) == "deny"


@pytest.mark.parametrize("char", ["\r", "\x00", "\x1b", "\x08", "\x0b", "\x0c", "\x85", "\u2028", "\u00a0", "\u200b", "\u202e"])
def test_cmd_cr(char: str) -> None:
    for text in (f"ls{char}touch x", f"ls {char}", f"echo '{char}'", f"cat <<'E'\n{char}\nE"):
        assert verdict(text) == "ask"


async def test_hook_rewrite_recheck(tmp_path: Path) -> None:
    """The rules look at the very arguments that run."""
    agent = Agent(ScriptedProvider([[call("shell", command="ls")], "done"]), cwd=tmp_path, approve="edits")
    tools = {t.name: t for t in agent.tools}

    async def say(text: str) -> None:
        pass

    ran = ToolCall("c", "shell", {"command": "touch canary; rm -rf ."})
    policy = Policy("ask", headless=False)
    result = await execute(ran, tools, policy, ToolContext(tmp_path), say, approved="of another")
    assert result.is_error
    assert not (tmp_path / "canary").exists()


ANY_RULE = st.builds(
    Rule.read,
    st.sampled_from(LEVELS),
    st.sampled_from([
        "shell", "shell: ls", "shell: make", "shell: make all", "shell: rm", "shell: git status", "*", "write_file",
        "write_file: src/", "write_file: a.txt", "web_fetch", "web_fetch: docs.python.org", "web_fetch: *.python.org",
        "own", "read_file: .env",
    ]),
)  # fmt: skip
ANY_CALL = st.sampled_from([
    ("shell", {"command": "ls"}), ("shell", {"command": "make all"}), ("shell", {"command": "make && rm x"}),
    ("shell", {"command": "sudo id"}), ("shell", {"command": "rm -rf ."}), ("write_file", {"path": "src/a"}),
    ("write_file", {"path": "a.txt"}), ("write_file", {"path": ".git/config"}), ("web_fetch", {"url": "https://docs.python.org"}),
    ("web_fetch", {"url": "https://evil.test"}), ("own", {}), ("read_file", {"path": ".env"}),
])  # fmt: skip
STRICT = {"allow": 0, "ask": 1, "deny": 2}


@given(st.lists(ANY_RULE, max_size=6), ANY_RULE, ANY_CALL, st.sampled_from(["ask", "edits", "all", "none"]), st.data())
def test_user_over_managed(rules: list[Rule], more: Rule, asked: tuple[str, dict[str, Any]], mode: Any, data: Any) -> None:
    """Another rule, wherever it is put, never loosens what a rule has tightened; the order does not matter."""
    tool, arguments = asked

    def said(given: list[Rule]) -> str:
        return Policy(mode, headless=False, rules=Rules(given)).decide(tool, arguments, ToolContext(Path("/w"))).verdict

    place = data.draw(st.integers(0, len(rules)))
    after = said([*rules[:place], more, *rules[place:]])
    spoke = Rules(rules).judge(tool, arguments, Path("/w"))
    if spoke is not None and spoke.level != "allow":
        assert STRICT[after] >= STRICT[said(rules)]
    if more.level != "allow":
        assert STRICT[after] >= STRICT[said(rules)] or (spoke is None and mode == "none")
    assert said(rules[::-1]) == said(rules)


@pytest.mark.parametrize("text", [
    "find . -exec touch x ;", "find . -execdir x {} +", "find . -ok x ;", "find . -delete", "find . -fprintf x y",
    "find . -fls x", "find . $(echo -delete)", "find \"$x\"", "find *", "rg --pre x y", "rg --pre=x y", "rg -z x",
    "sort -o out in", "sort -oout in", "sort --output=out in", "sort --outp=out in", "sort --compress-program=x in",
    "sort *", "sed 's/a/b/w out' f", "sed 'w out' f", "sed -n 'e id' f", "sed 's/a/id/e' f", "sed -i s/a/b/ f",
    "sed -f x f", "sed --in-place=.b s/a/b/ f", "sed '1r /etc/passwd' f", "tar xf a --to-command=x", "tar xf a", "tar tf a --to-command=x", "tar tf h:a",
    "git -c alias.x=!id x", "git -c core.pager=x log", "git --exec-path=x log", "git log --output=x", "git -p log",
    "git grep -Ox y", "git grep --open-files-in-pager=x y", "git diff --ext-diff", "git log --format=%GG", "git -C ../x log", "git -C x/../.. log",
    "git fetch", "git branch new", "git tag new", "git config a.b c", "git stash", "git worktree add x", "git remote add x y",
    "git log --textconv", "git reflog expire --all", "git show --textconv HEAD", "git log --show-signature",
    "awk 'BEGIN{system(\"id\")}'", "awk '{print > \"out\"}' f", "awk '{print | \"sh\"}' f", "awk '\"id\" | getline' f",
    "awk -f x f", "awk -i inplace x f", "xargs touch", "xargs -I{} sh -c {}", "ls | xargs", "ls | xargs -n1 rm",
    "xargs env ls", "ssh -o ProxyCommand=x h", "man -P x ls", "less f", "env ls", "nice ls", "time -o out ls",
    "python3 -c 'x'", "python3 x.py", "perl -e 1", "bash x", "uniq in out", "xxd in out", "xxd in -E", "xxd sub/*", "uniq sub/*", "awk -F s* '{print}'", "awk -v x=s* 1 f",
    "xargs -d s* ls", "xargs -I s* ls", "date -d s*", "find . -name s*", "sort -t s* f", "tree -o out", "file -C x",
    "diff -l a b", "date -s now", "date 010101", "hostname evil", "printf -v x y", "command ls", "type -a ls; eval ls",
    "test -v 'a[$(id)]'", "[ -v x ]", "read 'a[$(id)]'", "timeout 5 sh", "xargs timeout 5 touch x", "tail -f x & id",
    "ps auxe", "which -a ls | sh", "curl x", "dig x.evil.test", "jq . f > out", "./ls", "/bin/ls",
])  # fmt: skip
def test_cmd_find_exec(text: str) -> None:
    """A program with a flag that runs or writes is another program, also where a rule allows its name."""
    if text != "ls | xargs":
        assert effects_of(text).kind != "reads"
        assert verdict(text) != "allow"
    name = text.split()[0]
    if name in ("find", "rg", "sort", "sed", "awk", "xargs", "env", "bash", "uniq", "xxd", "diff", "tree"):
        assert verdict(text, rule("allow", f"shell: {name}")) != "allow" or effects_of(text).kind == "reads"


def test_plugin_template_inject() -> None:
    """There is no setting that holds a command line."""
    for name in ("hooks", "hooks.start", "policy.hook", "sandbox.helper", "shell"):
        with pytest.raises(UsageError):
            key_of(name)


def test_which_inject() -> None:
    """No part of us hands a string to a shell but the one executor of commands."""
    found = []
    for path in Path(orkas.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                shell = any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords)
                if shell or name in ("os.system", "os.popen", "asyncio.create_subprocess_shell", "subprocess.getoutput"):
                    found.append(f"{path.name}: {ast.unparse(node)}")
    assert found == []


@pytest.mark.parametrize("text", ["[[ a =~ $(touch canary) ]]", "[[ -v x ]]", "[[ -n x && a -eq b ]]", "[[ -n $(touch canary) ]]", "[[ 'a[$(id)]' -eq 0 ]]", "((x=1))", "let x=1",
    "echo $((x))", "echo $[x]", "echo ${x@P}", "echo ${!x}", "echo ${x:1}", "echo @(a|b)", "echo =ls", "f() { ls; }; f",
    "case a in a) ls;; esac", "coproc ls", "until ls; do x; done"])  # fmt: skip
def test_cmd_zsh_cond(text: str) -> None:
    """A construct that is not judged is not approved."""
    assert verdict(text) == "ask" or text == "echo =ls"


async def test_cmd_builtin_env(tmp_path: Path) -> None:
    """What one command sets is gone with it."""
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "ls").write_text("#!/bin/sh\ntouch RAN\n")
    (evil / "ls").chmod(0o755)
    first, second = call("shell", command=f"export PATH={evil}:$PATH; alias ls=id"), call("shell", command="ls")
    agent = Agent(ScriptedProvider([[first, second], "done"]), cwd=tmp_path, approve="all")
    await agent.run("go")
    assert not (tmp_path / "RAN").exists()


WRAPPED = ["curl x", "env curl x", "env -i A=b curl x", "nohup curl x", "timeout 5 curl x", "ls | xargs curl", "bash -c 'curl x'",
    "watch curl x", "ionice -c3 curl x", "setsid curl x", "sh -c \"bash -c 'curl x'\"", "/usr/bin/curl x", "\\curl x",
    "cu\"rl\" x", "command curl x", "exec curl x", "nice -n 3 curl x", "stdbuf -oL curl x", "eval curl x", "c=curl; $c x",
    "find . -exec curl {} ;", "echo $(curl x)", "busybox curl x", "CURL x", "strange --run curl x"]  # fmt: skip


@pytest.mark.parametrize("text", WRAPPED)
def test_cmd_wrappers(text: str) -> None:
    """A rule that denies sees through what starts other programs; what it cannot see through is not allowed."""
    assert verdict(text, rule("deny", "shell: curl")) in ("deny", "ask")
    assert verdict(text.replace("curl", "$CURL"), rule("deny", "shell: curl")) in ("deny", "ask")
    if "strange" not in text:
        assert verdict(text, rule("deny", "shell: curl"), mode="all") == "deny"


def test_cmd_wrappers_that_cannot_be_seen_through() -> None:
    """Where it cannot be told what is started, a rule that denies holds, also where all else is approved."""
    for text in ("$CMD x", "echo @(a|b); curl x", "curl x | sh", "bash < f", "eval \"$x\"", "sh -c \"$x\"", "$(cat f) x"):
        assert verdict(text, rule("deny", "shell: wget"), mode="all") == "deny", text
    for text in ("rm -rf $X", "echo $x", "make", "python3 x.py"):
        assert verdict(text, rule("deny", "shell: wget"), mode="all") == "allow", text


@pytest.mark.parametrize("text", ["echo \"a\"; touch x", "echo '{a,b}' > x", "echo {a,$(touch x)}",
    "echo <<< $(touch x)", "echo \"`touch x`\"", "echo \\\"$(touch x)", "echo a\\\n; touch x", "echo 'a' \"$(touch x)\"",
    "echo $(<x; touch y)", "echo \"${x:-$(touch x)}\""])  # fmt: skip
def test_cmd_echo_inject(text: str) -> None:
    assert verdict(text, rule("allow", "shell: echo")) == "ask"


QUOTED = [
    r"echo $'\x27; touch x; \x27'", "echo 'a'\\''b'", 'echo "a b"  c\\ d', "echo 'if' 'x=1' '!' '-n'", "'echo' \"a'b\"",
    "echo a | tr 'a' \"b\"; echo '*' \\? [x]", "echo \"$(echo 'x  y')\" $(echo p  q)", "! true || echo no", "( echo a; echo b ) | sort",
    "echo x 2>/dev/null 1>&2", "echo \"\" '' a''b", "printf '%s|' \"a\\$b\" 'c\\d' e\\\\f", "cat <<< 'a b'", "echo ~/x ~ a~b", "echo ['b']* /[u]s?",
]


@pytest.mark.parametrize("text", QUOTED)
def test_cmd_echo_inject_run_as_judged(text: str) -> None:
    """What only reads is written again in quotes before it runs, and means the same."""
    again = effects_of(text).text
    assert again is not None
    one, two = (
        subprocess.run(["bash", "--noprofile", "--norc", "-c", t], capture_output=True, check=False) for t in (text, again)
    )
    assert (one.returncode, one.stdout, one.stderr) == (two.returncode, two.stdout, two.stderr), again
    assert effects_of(again).kind == "reads"
