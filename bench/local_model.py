"""How often the small local model gets a one-tool job right, through the real command line.

    python bench/local_model.py [--model local/…] [--n 15] [--seed N] [--kinds list,read,…]

Each job is one ``python -m orkas run`` in a folder of its own, made from the seed; the answer and the folder are
checked, never the way there. Names, file types, sizes and wordings vary. Five kinds of 15 jobs are the measure
(``edit`` is a sixth, told apart). Prints a line a job and a summary; ends with status 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KINDS = ("list", "read", "search", "write", "shell")
STEMS = ["notes", "plan", "report", "draft", "todo", "journal", "summary", "data", "backup", "log", "recipes", "budget",
         "minutes", "inventory", "sales", "config", "readme", "letter", "songs", "trip"]  # fmt: skip
ENDS = ["txt", "md", "csv", "log", "json", "py", "ini", "yaml", "html"]
PEOPLE = ["Maria", "Tom", "Aisha", "Jonas", "Priya", "Chen", "Olga", "Sam"]
WORDS = ["zebra", "otter", "falcon", "walnut", "lantern", "compass", "marble", "saffron", "glacier", "violin"]
FILLER = ["the quick brown fox", "water the plants", "call the bank", "send the parcel", "clean the desk",
          "read a book", "fix the door", "buy bread", "pay the bill", "book a train"]  # fmt: skip


@dataclass
class Job:
    kind: str
    question: str
    right: Callable[[str, Path], bool]


def names(rng: random.Random, count: int) -> list[str]:
    stems = rng.sample(STEMS, count)
    return [f"{stem}.{rng.choice(ENDS)}" for stem in stems]


def filler(rng: random.Random, size: int) -> str:
    text = ""
    while len(text) < size:
        text += rng.choice(FILLER) + "\n"
    return text


def says(*wanted: str) -> Callable[[str, Path], bool]:
    return lambda answer, _folder: any(
        re.search(rf"(?<![\w.]){re.escape(w)}(?![\w])", answer.replace(",", ""), re.I) for w in wanted
    )


def agrees(answer: str, _folder: Path) -> bool:
    return bool(answer) and re.search(r"\b(?:no|not|cannot)\b|n't", answer, re.I) is None


def names_only(wanted: str, others: list[str]) -> Callable[[str, Path], bool]:
    """The answer names the wanted file and none of the others."""
    return lambda answer, _folder: wanted in answer and not any(o in answer for o in others if o != wanted)


def job_list(rng: random.Random, folder: Path) -> Job:
    files = names(rng, rng.randint(4, 7))
    sizes = rng.sample(range(40, 9000), len(files))
    for name, size in zip(files, sizes, strict=True):
        (folder / name).write_text(filler(rng, size)[:size])
    largest = files[sizes.index(max(sizes))]
    pick = rng.choice(files)
    asked = rng.choice([
        "Which file in this folder is the largest?", "What is the biggest file here?",
        "Tell me which file takes up the most space in this folder.", "Find the largest file in the current directory.",
        "Which of my files is the biggest one?", "What's the name of the largest file here?", "size", "exists",
    ])  # fmt: skip
    if asked == "size":
        return Job("list", f"How many bytes is {pick}?", says(str(sizes[files.index(pick)])))
    if asked == "exists":
        return Job("list", f"Is there a file called {pick} in this folder?", agrees)
    return Job("list", asked, names_only(largest, files))


def job_read(rng: random.Random, folder: Path) -> Job:
    who, phone, file = rng.choice(PEOPLE), f"555-{rng.randint(1000, 9999)}", f"{rng.choice(STEMS)}.txt"
    port, day = rng.randint(2000, 9999), rng.choice(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"])
    version = f"{rng.randint(1, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}"
    around = filler(rng, rng.randint(30, 300))
    texts = [
        (f"What is {who}'s phone number? It is in {file}.", f"{who}'s phone number is {phone}.", phone),
        (f"Look in {file} and tell me the phone number of {who}.", f"Phone of {who}: {phone}", phone),
        (f"Which port does the server use according to {file}?", f"host = localhost\nport = {port}", str(port)),
        (f"Read {file} and tell me on which day the meeting is.", f"The meeting is on {day} at ten.", day),
        (f"What version does {file} say the program has?", f"name: tool\nversion: {version}", version),
        (f"Open {file}. Who is the project lead?", f"Project lead: {who}", who),
        (f"According to {file}, what is the wifi password?", f"wifi password: {rng.choice(WORDS)}{port}", str(port)),
    ]
    question, text, wanted = rng.choice(texts)
    (folder / file).write_text(f"{around}{text}\nthat is all\n")
    (folder / "other.md").write_text(filler(rng, 200))
    return Job("read", question, lambda answer, _f: wanted.lower() in answer.replace(",", "").lower())


def job_search(rng: random.Random, folder: Path) -> Job:
    end, word = rng.choice(["csv", "txt", "md", "py"]), rng.choice(WORDS)
    files = [f"{stem}.{end}" for stem in rng.sample(STEMS, rng.randint(3, 5))]
    hit = rng.choice(files)
    function = f"{rng.choice(['load', 'save', 'parse', 'send'])}_{rng.choice(WORDS)}"
    line, question = rng.choice([
        (f"3,{word}", f"Which {end} file contains the word {word}?"),
        (f"we saw a {word} today", f"Which file mentions {word}?"),
        (f"the {word} is here", f"Find the file that contains the text '{word}'."),
        (f"a {word}, two of them", f"In which file does the word {word} appear?"),
        (f"def {function}(x):", f"Where is the function {function} defined?"),
        (f"TODO: check the {word}", f"Search my files for {word} and tell me which file it is in."),
    ])  # fmt: skip
    for name in files:
        (folder / name).write_text(filler(rng, rng.randint(40, 200)) + (line + "\n" if name == hit else "") + "end\n")
    return Job("search", question, names_only(hit, files))


def job_write(rng: random.Random, folder: Path) -> Job:
    file = f"{rng.choice(['hello', 'greeting', 'memo', 'list', 'idea', 'reminder'])}.{rng.choice(['txt', 'md'])}"
    text = rng.choice(["Hello, world!", "Buy milk and eggs", "The meeting is at ten.", "Call Maria tomorrow",
                       "Orange, apple, pear", "Never give up", "42 is the answer"])  # fmt: skip
    (folder / "other.md").write_text(filler(rng, 100))
    question = rng.choice([
        f"Create a file {file} with the text: {text}", f"Write '{text}' to a new file named {file}.",
        f"Make a file called {file} that says: {text}", f"Save the sentence '{text}' in {file}.",
        f"Put the text \"{text}\" into a file called {file}", f"Please create {file} containing: {text}",
    ])  # fmt: skip
    return Job("write", question, lambda _a, f: (f / file).is_file() and text.rstrip(".") in (f / file).read_text())


def job_shell(rng: random.Random, folder: Path) -> Job:
    file, count = f"{rng.choice(STEMS)}.{rng.choice(ENDS)}", rng.randint(3, 60)
    (folder / file).write_text("".join(rng.choice(FILLER) + "\n" for _ in range(count)))
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    question, wanted = rng.choice([
        (f"Run the command `wc -l {file}` and tell me how many lines it has.", str(count)),
        (f"Use the shell to count the lines of {file}.", str(count)),
        (f"How many lines does {file} have? Use wc -l.", str(count)),
        (f"Run `echo $(({a}*{b}))` and tell me the result.", str(a * b)),
        (f"Execute the command `expr {a} + {b}` and tell me what it prints.", str(a + b)),
        ("Run `uname -s` and tell me the output.", "Linux"),
        (f"Run this command and tell me what it says: cat {file} | wc -l", str(count)),
    ])  # fmt: skip
    return Job("shell", question, says(wanted))


def job_edit(rng: random.Random, folder: Path) -> Job:
    file, (old, new) = f"{rng.choice(STEMS)}.txt", rng.sample(WORDS, 2)
    (folder / file).write_text(f"{rng.choice(FILLER)}\nthe {old} is here\nthe end\n")
    question = rng.choice([
        f"Replace {old} with {new} in {file}.", f"In {file}, change the word {old} to {new}.",
        f"Edit {file}: {old} should be {new}.",
    ])  # fmt: skip
    return Job("edit", question, lambda _a, f: f"the {new} is here\nthe end" in (f / file).read_text())


MAKE = {"list": job_list, "read": job_read, "search": job_search, "write": job_write, "shell": job_shell,
        "edit": job_edit}  # fmt: skip


def ask(question: str, folder: Path, model: str) -> tuple[str, list[str]]:
    """One turn through the command line: the answer and the names of the tools that were called."""
    command = [sys.executable, "-m", "orkas", "run", question, "--json", "--ephemeral", "--model", model,
               "--cwd", str(folder), "--approve", "all", "--max-rounds", "7"]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    events = [json.loads(line) for line in ran.stdout.splitlines() if line.strip()]
    done = events[-1] if events and events[-1].get("type") == "done" else {"text": "", "error": ran.stderr[-300:]}
    return str(done["text"]), [e["name"] for e in events if e["type"] == "tool_start"]


def run(kinds: list[str], count: int, seed: int, asked: Callable[[str, Path], tuple[str, list[str]]]) -> None:
    right_of: dict[str, int] = {}
    seconds: list[float] = []
    for kind in kinds:
        for n in range(count):
            rng = random.Random(f"{seed}/{kind}/{n}")
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                job = MAKE[kind](rng, folder)
                began = time.monotonic()
                answer, called = asked(job.question, folder)
                seconds.append(time.monotonic() - began)
                right = bool(called) and job.right(answer, folder)
            right_of[kind] = right_of.get(kind, 0) + right
            shown = {"kind": kind, "n": n, "right": right, "seconds": round(seconds[-1], 1), "called": called,
                     "question": job.question, "answer": answer[:200]}  # fmt: skip
            print(json.dumps(shown), flush=True)
    told = "  ".join(f"{kind} {right_of[kind]}/{count}" for kind in kinds)
    print(f"first {seconds[0]:.1f} s, median {sorted(seconds)[len(seconds) // 2]:.1f} s")
    print(f"right {sum(right_of.values())} of {count * len(kinds)}: {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.environ.get("ORKAS_MODEL", "local/qwen2.5-coder-1.5b"))
    parser.add_argument("--n", type=int, default=15)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    run(given.kinds.split(","), given.n, given.seed, lambda q, folder: ask(q, folder, given.model))


if __name__ == "__main__":
    main()
