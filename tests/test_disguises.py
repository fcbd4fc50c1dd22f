"""A secret is found in whatever programs print of it, in one piece and in many; what holds none stays as it is."""

from __future__ import annotations

import base64
import itertools
import os
import random
import re
import shutil
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkas import Agent, Session
from orkas.infra import known as hiding
from orkas.infra.environment import learn_text
from orkas.infra.known import MASK, Hider, apart, hide, known, met
from orkas.infra.messages import ToolMessage, text_of
from orkas.testing import ScriptedProvider, call

VALUES = ("sk-proj-Kx7Vq2mPz9Lt4Rb8Wn3Ys6Ug1Hd5Jf0Ce_aB9-zQ", "canary/Ring02+key=of-no'shape\"&<x>\\z", "Ab1Cd2Ef3Gh4Ij5K", "correct-horse-battery")
PROGRAMS = (
    "cat f", "cat -A f", "cat -n f", "nl f", "sed -n l f", "strings f", "fold -w 20 f", "fold -w 7 f",
    "base64 f", "base64 -w 20 f", "base64 -w 64 f | sed 's/$/\\r/'", "base64 -w 16 f | jq -Rs .", "base32 f", "base32 -w 30 f | tr A-Z a-z",
    "(echo -n x; cat f) | base64 -w 24", "(echo -n xy; cat f) | base64 -w 24", "openssl base64 -in f",
    "xxd f", "xxd -u f", "xxd -p f", "xxd -u -p f", "xxd -i f", "xxd -c 8 f", "xxd -g1 f", "xxd -e f",
    "hexdump f", "hexdump -C f", "hexdump -c f", "hexdump -b f", "od f", "od -c f", "od -a f", "od -b f", "od -d f", "od -x f", "od -tx1 f",
    "od -tx1z f", "od -tx4 f", "od -tu1 f", "od -Ax -tx1z f", "od -An -tx1 f", "od -An -x f", "od -An -tu1 f", "od -An -b f", "od -An -c f",
    "jq -Rs . f", "jq -Rs . f | jq -Rs .", "jq -Rr @uri f", "jq -Rr @sh f", "jq -Rr @html f", "jq -Rr @base64 f", "jq -Rr '@uri | @uri' f",
    "bash -c 'v=$(cat f); set | grep ^v='", "bash -c 'v=$(cat f); declare -p v'", "bash -c 'printf %q \"$(cat f)\"'", "bash -c 'v=$(cat f); set -x; : \"$v\"' 2>&1",
    "env -i V=\"$(cat f)\" env -0", "V=\"$(cat f)\" printenv V",
)  # fmt: skip
PRINTED = (
    lambda b: repr(b), lambda b: str(list(b)), lambda b: b.hex(":"), lambda b: b.hex(" ").upper(), lambda b: "".join(f"\\x{c:02x}" for c in b),
    lambda b: "".join(f"%{c:02X}" for c in b), lambda b: "".join(f"%{c:02x}" for c in b), lambda b: "".join(f"&#{c};" for c in b),
    lambda b: "".join(f"&#x{c:X};" for c in b), lambda b: "".join(f"\\u{c:04x}" for c in b), lambda b: "".join(f"\\{c:03o}" for c in b),
    lambda b: ", ".join(f"0x{c:02X}" for c in b), lambda b: repr(base64.encodebytes(b)), lambda b: base64.encodebytes(b * 3).decode().replace("\n", "=\n"),
    lambda b: base64.b32encode(b).decode().rstrip("="), lambda b: b.decode().encode("utf-16-le").hex(),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _met() -> None:
    for value in VALUES:
        met(value)


def told(out: bytes, size: int, *, flowing: bool) -> bytes:
    hider = Hider()
    pass_on = hider.flow if flowing else hider.feed
    return b"".join([*(pass_on(out[n : n + size]) for n in range(0, len(out), size)), hider.close()])


def bare(text: bytes) -> bytes:
    return bytes(b for b in text.lower() if chr(b).isalnum())


def nothing_left(out: bytes, plain: bytes, value: str) -> None:
    """The same output of a program without the secret tells nearly as much."""
    for hidden in (hide(out.decode("utf-8", "replace")).encode(), told(out, 5, flowing=False), told(out, 64, flowing=False), told(out, 5, flowing=True)):
        assert MASK.encode() in hidden, out
        assert len(bare(hidden)) <= len(bare(plain)) + 24 + len(out) // 6, hidden
        assert value.encode()[-12:] not in hidden and bare(value.encode())[3:12] not in bare(hidden)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_programs_print(program: str, tmp_path: Path) -> None:
    if not shutil.which("bash") or not all(shutil.which(name) for name in ("xxd", "jq", "hexdump", "openssl") if name in program):
        pytest.skip("this machine has no such program")
    for value, before in itertools.product(VALUES, ("", "OPENAI_API_KEY=", "x=ab\nPASS=")):
        outputs = []
        for shown in (value, ""):
            (tmp_path / "f").write_text(f"{before}{shown}\nend of it\n")
            outputs.append(subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, check=True).stdout)
        nothing_left(*outputs, value)


@pytest.mark.parametrize("printed", PRINTED)
@pytest.mark.parametrize("value", VALUES)
def test_what_languages_print(printed, value: str) -> None:
    nothing_left(f"it is {printed(value.encode())} there".encode(), b"it is there", value)


TWINS = (
    (VALUES[0], "sk-proj-2mPz9LKx7Vqt4Rb8YsWn36Ug1Jf0CeHd5_aB9-zQ"), (VALUES[1], "canary/Gnir47+yek=fo-on'epahs\"&<x>\\z"),
    (VALUES[2], "Ab1Xz8Rf3Wh4Qj5K"),
)  # fmt: skip
"""Values that begin and end alike: what is left of a text must not tell one from the other."""
TABLES = ("xxd f", "xxd -c 8 f", "xxd -b f", "xxd -b -c 4 f", "xxd -e f", "od f", "od -c f", "od -tx1z f", "od -Ax -tx1 f", "hexdump -C f", "hexdump f")
IN_LINES = ("xxd -p -c 10 f", "base64 -w 10 f", "base64 -w 24 f", "base32 -w 12 f", "fold -w 16 f", "od -An -tx1 f", "od -An -tu1 f")
MARKS = (
    *(f"sed 's/^/{mark}/'" for mark in ("> ", "< ", "| ", "# ", "+", "-", " ", "\\t\\t", "> > ", "│ ")),
    "sed 's/^/│ /;s/$/ │/'", "diff /dev/null -", "diff -u --label a /dev/null --label b -", "diff -u --label a - --label b /dev/null",
    "cat > g; git diff --no-index g /dev/null | grep -v ^index",
)  # fmt: skip
NUMBERED = (
    "cat -n", "nl", "nl -ba -nrz", "nl -ba -s': '", "nl -ba -s' '", "nl -ba -s' │ '", "grep -n .", "grep -n -A99 -m1 .", "grep -H --label=d.txt .",
    "grep -nH --label=a/b-c.txt .", "grep -nH --label=a/b-c.txt -A99 -m1 .", "sed 's/^/d.txt:7: /'", "sed 's/^/web-1   | /'",
    "sed 's/^/2024-05-06T07:08:09.123Z /'", "grep -n . | sed 's/^/> /'", "cat -n | sed 's/^/+/'", "grep -n . | cat -n", "sed 's/^/> /' | grep -nH --label=d.txt .",
)  # fmt: skip


WORDS_IN_FRONT = ("sed 's/^/x/'", "sed 's/^/log: /'")


@pytest.mark.parametrize("prefix", [*MARKS, *NUMBERED, *WORDS_IN_FRONT])
def test_lines_with_a_prefix(prefix: str, tmp_path: Path) -> None:
    if not all(shutil.which(name) for name in ("bash", "xxd", "hexdump", "git")):
        pytest.skip("this machine has no such program")
    programs = TABLES if prefix in WORDS_IN_FRONT else TABLES + IN_LINES
    some = programs if os.environ.get("ORKAS_FULL") else programs[len(prefix) % 3 :: 3]
    for program, pair in itertools.product(some, TWINS):
        seen: set[bytes] = set()
        for value in pair:
            met(value)
            (tmp_path / "f").write_text(f"x=ab\nOPENAI_API_KEY={value}\nend of it\n")
            out = subprocess.run(["bash", "-c", f"{program} | {{ {prefix}; }}"], cwd=tmp_path, capture_output=True, check=False).stdout
            whole = hide(out.decode()).encode()
            seen |= {re.sub(rb"\*{3,}", MASK.encode(), one) for one in (whole, told(out, 50, flowing=False))}
            flowing = told(out, 50, flowing=True)
            assert MASK.encode() in whole and len(bare(flowing)) <= len(bare(whole)) + 48, (program, flowing)
        assert len(seen) == 1, (program, seen)


def test_lines_of_marks_alone_are_not_waited_with() -> None:
    for text in (b"hello\n\n", b"a list:\n* \n", b"| a | b |\n---\n", b"   12\tx = 1\n   13\t", b"d.txt:3: x\n"):
        assert Hider().flow(text) == text


def test_both_sides_of_a_diff_of_tables(tmp_path: Path) -> None:
    if not shutil.which("xxd"):
        pytest.skip("this machine has no such program")
    for name, before in (("a", "KEY="), ("b", "key=")):
        (tmp_path / name).write_text(f"{before}{VALUES[0]}\n")
    out = subprocess.run(["bash", "-c", "diff -u --label a <(xxd a) --label b <(xxd b)"], cwd=tmp_path, capture_output=True, check=False).stdout
    shown = [line for line in hide(out.decode()).splitlines() if "0000" in line]
    assert shown == ["-00000000: ***", "+00000000: ***", " 00000010: ***", " 00000020: ***", " 00000030: ***"] and told(out, 9, flowing=False) == hide(out.decode()).encode()


def test_numbered_lines_that_hold_none_stay_as_they_are(tmp_path: Path) -> None:
    data = random.Random(5).randbytes(3_000)
    (tmp_path / "f").write_bytes(base64.encodebytes(data) + Path(hiding.__file__).read_bytes())
    for program, prefix in itertools.product(("cat f", "xxd f", "xxd -b f", "base64 -w 10 f"), (*MARKS, *NUMBERED)):
        if shutil.which(program.split()[0]):
            out = subprocess.run(["bash", "-c", f"{program} | head -c 6000 | {{ {prefix}; }}"], cwd=tmp_path, capture_output=True, check=False).stdout
            with apart():
                met("Zk3Wp8Yq1Lm6Tn4B-of-nobody")
                assert hide(out.decode()) == out.decode()
                assert told(out, 997, flowing=True) == told(out, 997, flowing=False) == out


async def test_tools_on_files_that_hold_tables(tmp_path: Path) -> None:
    rows = [VALUES[0][n : n + 16].encode() for n in range(0, len(VALUES[0]), 16)]
    table = "".join(f"{n * 16:08x}: {row.hex(' ', 2):<40} {row.decode()}\n" for n, row in enumerate(rows))
    (tmp_path / "d.txt").write_text(f"first\n{table}last\n")
    script = [
        [call("read_file", path="d.txt")], [call("search_files", pattern="0000")], [call("search_files", pattern="7a|first")],
        [call("edit_file", path="d.txt", old_text="first\n", new_text="First\n")], "done",
    ]  # fmt: skip
    session = Session()
    agent = Agent(ScriptedProvider(script), session=session, cwd=tmp_path, approve="all")
    events = [str(event) async for event in agent.stream("look")]
    read, found, around, edited = [text_of(m) for m in session.messages if isinstance(m, ToolMessage)]
    assert "00000000: ***" in read and "00000010: ***" in found and "d.txt:" in around and edited.strip() and "First" in (tmp_path / "d.txt").read_text()
    for text in (read, found, around, edited, *events):
        assert not [row for row in rows if len(row) > 8 and (row.hex(" ", 2) in text or row.decode() in text)], text


WORDS = [
    "def f(x): return x\n", "0000000 ", "00000010: 4b78 372d 6361  Kx7-ca\n", "4b 78 56 ", "\\x4b", "key", "correct horse battery", "canary", "Ring02", "-----",
    "%4B%78", "sk-pro", "a" * 70, "c2stcHJvai1L", "deadbeef" * 9, "\n", "Ab1Cd2 Ef3", "é", "\0", "*\n", "75, 120, 86, ", "113 170 ", "=\n", "SOLIDUS/", "\\n",
    "\n   12\t", "\n12:", "\na/b.txt:3:", "\n> ", "\n+", "\n│ ", "\nweb-1 | ", "\n3-", "01110011 01101011 ", "\n00000000: 0111 ",
]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=30)), max_size=40), st.integers(1, 900))
def test_what_holds_none_stays_as_it_is(parts: list[str], size: int) -> None:
    text = "".join(parts)
    assert hide(text) == text
    data = text.encode("utf-8", "replace")
    assert told(data, size, flowing=True) == told(data, size, flowing=False) == data


@given(st.binary(max_size=90), st.binary(max_size=90), st.sampled_from(VALUES), st.integers(8, 80), st.sampled_from(["\n", "\r\n", "\\n", "=\n", '",\n  "']))
def test_inside_of_a_longer_text_in_lines_of_any_width(before: bytes, after: bytes, value: str, width: int, end: str) -> None:
    whole = base64.b64encode(before + value.encode() + after).decode()
    lines = end.join(whole[n : n + width] for n in range(0, len(whole), width))
    hidden = hide(lines)
    inside = whole[-(-8 * len(before) // 6) : 8 * (len(before) + len(value)) // 6]
    rest = hidden.replace(end, "").split(MASK)
    assert len(rest) >= 2 and inside not in "".join(rest)
    assert whole.startswith(rest[0]) and whole.endswith(rest[-1].lstrip("\r\n"))


@given(st.integers(24, 47), st.sampled_from(["", " ", "\n", "…", '"', "[cut]"]))
def test_what_a_cut_leaves(length: int, mark: str) -> None:
    value = "".join(random.Random(length).choices(string.ascii_letters + string.digits, k=48))
    met(value)
    assert hide(f"KEY={value[:length]}{mark}") == f"KEY=***{mark}"
    assert hide(f"{mark}{value[-length:]} end") == f"{mark}*** end"


def test_a_beginning_that_all_keys_of_a_vendor_have_tells_nothing() -> None:
    met("sk-ant-api03-Kx7Vq2mPz9Lt4Rb8Wn3Ys6Ug1Hd5Jf0Ce")
    met("my-company-staging-password")
    for text in ("sk-ant-api03-... is what a key looks like", "my-company-site", "sk-proj-…", "company-staging"):
        assert hide(text) == text


def test_lines_of_a_private_key_are_secrets_by_themselves() -> None:
    body = ["".join(random.Random(n).choices(string.ascii_letters + "+/", k=64)) for n in range(20)]
    pem = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(body) + "\n-----END PRIVATE KEY-----\n"
    for form in (pem, pem.replace("\n", "\\n"), pem.replace("\n", "\r\n")):
        with apart():
            learn_text(form if "\r" in form else f'PRIVATE_KEY="{form}"\n')
            assert hide("\n".join(body[4:9])) == "\n".join([MASK] * 5)
            assert hide("-----BEGIN CERTIFICATE-----") == "-----BEGIN CERTIFICATE-----"


def test_apart_nothing_is_known_but_what_is_met_there() -> None:
    before = known()
    with apart():
        assert known() == () and hide(VALUES[0][8:]) == VALUES[0][8:]
        met("another-of-theirs-7")
        assert hide("another-of-theirs-7") == MASK
    assert known() == before and hide("another-of-theirs-7") == "another-of-theirs-7" and MASK in hide(VALUES[2])
