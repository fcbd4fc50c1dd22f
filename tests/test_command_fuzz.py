"""What is judged read-only starts no other program and changes no file: held against bash itself, watched by strace.

The quick profile makes 500 command lines, ``ORKAS_FULL=1`` 20,000.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from orkas.harness.commands.effects import effects_of
from orkas.harness.policy import as_judged

COUNT = 20_000 if os.environ.get("ORKAS_FULL") else 500
BATCH = 500

PROGRAMS = ["ls", "cat", "head", "tail", "wc", "grep", "sort", "uniq", "cut", "tr", "sed", "awk", "find", "xargs", "git", "echo", "printf", "pwd", "cd", "test", "[", "stat", "file", "diff", "cmp", "comm", "date", "env", "printenv", "basename", "dirname", "realpath", "readlink", "seq", "nl", "tac", "rev", "fold", "du", "df", "id", "whoami", "uname", "nproc", "jq", "od", "xxd", "sha256sum", "md5sum", "base64", "which", "type", "command", "read", "true", "false", ":", "timeout", "egrep", "column", "expr", "strings", "sleep", "hostname", "tar", "unzip", "zcat", "gzip", "nm", "size", "readelf", "lsblk", "getent", "pgrep", "locale", "jobs", "ulimit", "[[", "find . -exec", "find . -type f -exec", "ps", "docker", "curl", "perl"]
HOSTILE = ["sh", "bash", "python3", "perl", "touch", "rm", "mv", "cp", "tee", "env", "nohup", "nice", "setsid", "exec", "eval", "source", ".", "export", "canary", "./canary", "xargs", "find", "awk", "sed", "git", "make", "ssh", "curl", "tar", "rsync", "dd", "ln", "chmod", "install", "busybox", "time", "coproc", "alias", "unset", "set", "trap", "kill", "wait"]
FLAGS = ["-l", "-a", "-n", "-r", "-c", "-i", "-v", "-e", "-E", "-f", "-o", "-x", "-s", "-w", "-q", "-h", "-t", "-u", "-z", "-0", "-1", "-d", "-L", "-p", "-P", "-C", "-O", "-S", "-G", "-I{}", "-n1", "-k2", "-t,", "--help", "--version", "--color=never", "-exec", "-execdir", "-delete", "-ok", "-fprint", "-name", "-type", "-maxdepth", "-print0", "-print", "-printf", "--pre=./canary", "--output=new", "--output", "--compress-program=./canary", "--ext-diff", "--textconv", "--to-command=./canary", "-oout", "--in-place", "-i.bak", "--files0-from=-", "-m", "--check", "--", "--oneline", "--stat", "--cached", "--porcelain", "-ls", "-quit", "-newer", "-C.", "--git-dir=x", "--all", "-c.x=y", "--paginate", "--pager", "--open-files-in-pager=./canary", "-Ocanary", "--exec=./canary", "--null", "--max-count=1", "-V"]
WORDS = ["a.txt", "b.txt", "sub", "sub/c.txt", ".", "..", "*", "*.txt", "./*", "sub/*", "[ab].txt", "?", "~", "/etc/hostname", "/dev/null", "{a,b}.txt", "{-o,x}", "{1..3}", "x=y", "foo", "1", "2", "$x", '"$x"', "'$x'", "$HOME", '"a', 'b"', "'a", "b'", "a\\", "b", "$'a\\tb'", "${x:-a.txt}", "${x:=b}", "${x@P}", "${!x}", "$((1+1))", "$[1]", "$(pwd)", '"$(ls)"', "`pwd`", "$(./canary)", "<(ls)", ">(cat)", "--", "-", "\\;", "+", "{}", ";", "'{print", "$1}'", "'s/a/b/'", "'1,2p'", "'s/a/b/e'", "'e", "./canary'", "'w", "new'", "'s/a/b/w", "new'", "'BEGIN{system(\"./canary\")}'", "'{print", ">", "\"new\"}'", "'{print", "|", "\"./canary\"}'", "'NR==1'", ".", "'a*'", "'-o'", '"-x"', "\\-exec", "'-delete'", "1d", "p", "=", "'$p'", "'/a/d'", "status", "log", "diff", "show", "branch", "tag", "stash", "config", "HEAD", "HEAD~1", "HEAD:a.txt", "list", "@{u}", "[[", "]]", "]", "", "!", '""', "''", "\\*", "\\$x", '"\\$(./canary)"', "$'\\x2do'", '$"a"', "'a\\'"]
OPERATORS = [" | ", " && ", " || ", "; ", "\n", " |& ", " & ", ";", "|", "&&", " ;; "]
REDIRECTS = ["2>/dev/null", ">/dev/null", "2>&1", "< a.txt", "> new", ">> a.txt", "<<< foo", "<<< \"$(pwd)\"", "&>/dev/null",
">&2", "< /dev/tcp/127.0.0.1/9", "<> new", "2>&-", ">| new", "{x}>new", "3< a.txt"]  # fmt: skip
SHAPES = ["{}", "{}", "{}", "{}", "( {} )", "{{ {}; }}", "! {}", "if {}; then echo y; fi", "for f in *.txt; do {}; done",
"for f in a b; do {} \"$f\"; done", "while read -r l; do {}; done < a.txt", "echo $({})", "echo \"$({})\"", "x=1 {}",
"f() {{ {}; }}; f", "case a in a) {};; esac", "time {}", "cat <<E\n$({})\nE", "cat <<'E'\n$({})\nE", "ls | xargs {}",
"find . -name '*.txt' | xargs -n1 {}", "timeout 5 {}", "{} &", "[[ a =~ $({}) ]]", "(( x[$({})] ))"]  # fmt: skip
PLAIN = [
    "ls -la", "cat a.txt", "git status", "git log --oneline", "git diff --stat", "grep -n a a.txt", "sort -u a.txt",
    "find . -name '*.txt' -print0", "sed -n '1,2p' a.txt", "awk '{print $1}' a.txt", "wc -l a.txt", "head -n 1 a.txt",
    "git show HEAD:a.txt", "git branch -a", "find . -type f", "tr a b < a.txt", "cut -d, -f1 a.txt", "jq . a.txt",
    "date +%F", "seq 1 3", "test -f a.txt", "[ -d sub ]", "diff a.txt b.txt", "xargs -n1 echo < a.txt", "stat sub",
    "git grep -n a", "uniq -c a.txt", "printf '%s\\n' x", "echo \"a  b\"", "basename sub/c.txt", "cd sub && ls", "env",
    "find . -type f -exec wc -l {} +", "find . -name '*.txt' -exec grep -l a {} \\;", "awk '$1 > 1 || /a|b/ {print}' a.txt",
    "diff <(sort a.txt) <(sort b.txt)", "[[ -f a.txt ]] && echo yes", "n=$(wc -l < a.txt); echo $n", "tar tf a.tar",
    "tar -tzf a.tgz", "zcat a.gz", "gzip -l a.gz", "unzip -l a.zip", "getent passwd", "ps -eo pid,cmd", "perl -v",
]  # fmt: skip


def line(rng: random.Random) -> str:
    """A command line, more often than not nearly harmless."""
    parts = [_shaped(rng) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))]
    text = parts[0]
    for part in parts[1:]:
        text += rng.choice(OPERATORS) + part
    if rng.random() < 0.05:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(["'", '"', "\\", "`", "$(", ")", "#", "\\\n", "\t", "\u00a0", "é", "\r"]) + text[at:]
    return text


def _shaped(rng: random.Random) -> str:
    return rng.choice(SHAPES).format(_simple(rng)) if rng.random() < 0.4 else _simple(rng)


def _simple(rng: random.Random) -> str:
    if rng.random() < 0.4:
        text = rng.choice(PLAIN)
        extra = [rng.choice(rng.choice([FLAGS, WORDS])) for _ in range(rng.choice([0, 0, 1]))]
    else:
        text = rng.choice(PROGRAMS if rng.random() < 0.85 else HOSTILE)
        extra = [rng.choice(rng.choice([FLAGS, WORDS, WORDS])) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        if rng.random() < 0.06:
            text = rng.choice(["'{}'", '"{}"', "\\{}", "$'{}'", "{}\\\n", "$({})"]).format(text)
    if rng.random() < 0.2:
        extra.append(rng.choice(REDIRECTS))
    return " ".join([text, *extra])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with files whose names are flags, and a program that must never run."""
    root = tmp_path / "work"
    (root / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "sub/c.txt", "-o", "-exec", "-delete", "--compress-program=sh", "sub/-i"):
        (root / name).write_text("a,b\nc d\n./canary\n-o\n")
    (root / "canary").write_text("#!/bin/sh\ntouch RAN\n")
    (root / "canary").chmod(0o755)
    subprocess.run(["tar", "cf", "a.tar", "a.txt"], cwd=root, check=True)
    subprocess.run(["tar", "czf", "a.tgz", "a.txt"], cwd=root, check=True)
    subprocess.run(["gzip", "-k", "a.txt", "-S", ".gz"], cwd=root, check=True)
    (root / "a.txt.gz").rename(root / "a.gz")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=root, check=True, env=_env(tmp_path))
    return root


def _env(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}


def _state(root: Path) -> dict[str, str]:
    return {
        str(p.relative_to(root)): p.read_text(errors="replace") if p.is_file() else "" for p in sorted(root.rglob("*"))
    }


DRIVER = r"""
import os, pathlib, signal, subprocess, sys
root, box = sys.argv[1:]
for file in sorted(pathlib.Path(box).glob("*.cmd")):
    env = dict(os.environ) | dict(l.split("=", 1) for l in file.with_suffix(".env").read_text().splitlines())
    command = ["/bin/bash", "--noprofile", "--norc", "-c", file.read_bytes().decode(), "MARK" + file.stem]
    nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    child = subprocess.Popen(command, cwd=root, env=env, start_new_session=True, **nowhere)
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
"""


def _watched(root: Path, lines: list[str], tmp: Path) -> dict[int, set[str]]:
    """The programs that each line started."""
    box = tmp / "lines"
    shutil.rmtree(box, ignore_errors=True)
    box.mkdir()
    for n, command in enumerate(lines):
        text, env = as_judged(command)
        (box / f"{n:05}.cmd").write_bytes(text.encode())
        (box / f"{n:05}.env").write_text("".join(f"{k}={v}\n" for k, v in env.items()))
    (tmp / "driver.py").write_text(DRIVER)
    trace = tmp / "trace"
    command = ["strace", "-f", "-qq", "-s", "100000", "-e", "trace=execve,clone,clone3,fork,vfork", "-o", str(trace), "python3", "-I"]
    subprocess.run([*command, str(tmp / "driver.py"), str(root), str(box)], check=True, env=_env(tmp))
    return _by_line(trace.read_text(errors="replace").splitlines())


def _by_line(entries: list[str]) -> dict[int, set[str]]:
    """Which line each program belongs to: that of the shell it descends from, for some outlive the line itself."""
    parents = {found[2]: found[1] for e in entries if (found := re.match(r"(\d+) .*\b(?:clone3?|v?fork)\b.* = (\d+)$", e))}
    marks: dict[str, int] = {}
    programs: list[tuple[str, str]] = []
    for entry in entries:
        found = re.match(r'(\d+) +execve\("((?:[^"\\]|\\.)*)", (\[.*\]), .*\) = 0$', entry)
        if found and (mark := re.search(r'"MARK(\d{5})"\]', found[3])):
            marks[found[1]] = int(mark[1])
        elif found:
            programs.append((found[1], found[2]))
    started: dict[int, set[str]] = {}
    for pid, program in programs:
        above: str | None = pid
        while above is not None and above not in marks:
            above = parents.get(above)
        if above is not None:
            started.setdefault(marks[above], set()).add(os.path.basename(program))
    return started


COVERED_TOO = {"egrep": {"grep"}, "fgrep": {"grep"}, "mawk": {"awk"}, "awk": {"mawk", "gawk"}}


@pytest.mark.skipif(not (shutil.which("strace") and shutil.which("git")), reason="needs strace and git")
@pytest.mark.timeout(3_000)
def test_what_is_judged_read_only_starts_nothing_else_and_changes_nothing(folder: Path, tmp_path: Path) -> None:
    rng = random.Random(int(os.environ.get("ORKAS_SEED", "7")))
    lines = [line(rng) for _ in range(COUNT)]
    reading = [text for text in lines if effects_of(text).kind == "reads"]
    before = _state(folder)
    wrong: list[tuple[str, object]] = []
    for start in range(0, len(reading), BATCH):
        batch = reading[start : start + BATCH]
        for n, programs in _watched(folder, batch, tmp_path).items():
            allowed = set(effects_of(batch[n]).programs)
            for name in list(allowed):
                allowed |= COVERED_TOO.get(name, set())
            if extra := programs - allowed:
                wrong.append((batch[n], extra))
        assert _state(folder) == before, batch
    print(f"{len(reading)} of {len(lines)} lines judged read-only")
    assert not wrong, wrong[:10]
    assert len(reading) > COUNT // 20
