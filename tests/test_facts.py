"""The ledger of exact facts: twenty facts told once among hundreds of rounds of plausible noise reach the model after
every compaction, although each summary leaves everything out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import aclosing

import pytest

from orkas import Agent, tool
from orkas.harness.context import facts, summary
from orkas.harness.context.facts import Fact, collect, parse, render
from orkas.infra.events import Compaction
from orkas.infra.messages import AssistantMessage, Message, Text, encode, text_of, tool_result, user_message
from orkas.infra.tokens import estimate
from orkas.providers.base import CompletionParams, ModelInfo
from orkas.testing import ScriptedProvider, call
from orkas.testing.scripted import Reply

PLANTED = [
    "The billing gateway listens on port 8431.",
    "The total agreed with Hartmann is 18,240.50 EUR.",
    "Maria Delgado (employee E-20417) owns the rollout.",
    "Logs of the importer go to /srv/acme/import/2026/run.log.",
    "The freeze begins on 2026-03-14.",
    "The last good commit is 9f3c1ab77de0.",
    "Decision: use ripgrep, not grep, in all scripts.",
    "数据库的端口是5433，不要用5432。",
    "締め切りは三月十四日です。",
    "负责人是王小明，工号A1093。",
    "DB_POOL_SIZE=37",
    "Deploy only from the branch release/2.18-hotfix.",
    "Contact for outages: ops-night@example.org",
    "The licence key ends in QX7-TT91.",
    "The staging URL is https://stage.example.net/v3/health?probe=deep",
    "We decided to keep the French labels and drop the German ones.",
    "The customer wants tabs rather than spaces.",
    "API rate limit for partner Zephyr: 420 requests per minute.",
    "Das Passwort liegt im Tresor unter dem Eintrag Nordlicht-7.",
    "テスト環境のホスト名は kita-03.example.jp です。",
]
WORDS = ["alpha", "beta", "gamma", "delta", "module", "parser", "lexer", "worker", "queue", "cache", "index", "token", "stream", "batch", "record", "table"]
Noise = Callable[[random.Random, int], str]


def lines(count: int, *templates: str) -> Noise:
    def made(dice: random.Random, step: int) -> str:
        return "\n".join(
            dice.choice(templates).format(
                i=step,
                n=dice.randint(1, 9_999),
                m=dice.randint(10, 28),
                w=dice.choice(WORDS),
                v=dice.choice(WORDS),
                r=_invented(dice),
                h=f"{dice.getrandbits(32):08x}",
                c=dice.choice("甲乙丙丁戊己庚辛"),
            )
            for _ in range(count)
        )

    return made


def _invented(dice: random.Random) -> str:
    return "".join(dice.choice("bcdfghjklmnprstv") + dice.choice("aeiou") for _ in range(dice.randint(2, 4)))


NOISE: dict[str, Noise] = {
    "progress": lines(12, "[{i:04d}] processed chunk {n} of 300, {m} rows, checksum {h}"),
    "code": lines(12, "src/{w}_{m}/{v}.py:{n}: def {w}(self):", "src/{w}_{m}/{v}.py:{n}: {v} = {m}", "warning: unused {w}"),
    "log": lines(
        12, "worker {m} listens on port {n}", "{w} of {v} took {n} ms", "INFO {w}: request {h} finished with status {n}",
        "user {n} paid {n}.{m} EUR for {w}", "commit {h} by dev{m}: fix {w} in {v}", "{w}={n}",
        "2026-01-{m:02d} {m:02d}:{m:02d} {w} restarted ({h})", "cached /var/lib/{w}/{v}/{n}.bin",
    ),
    "invented words": lines(12, "job {r} finished in {n} ms", "saved {r} to /tmp/{r}.out", "{r} says {r} is {n}"),
    "settings": lines(15, '{w}_{v}="{w}-{n}"', '  "{w}_{v}": {n},', "{w}_{v}: {w}", "- {w} -> {v}{n}.example.net"),
    "chinese": lines(12, "第{n}批处理完成，共{m}行", "{c}模块正常，编号{n}", "端口{n}已释放", "文件 /数据/{c}/{n}.csv 已写入"),
    "hashes": lines(12, "{h}{h}{h} {r}/{r}.py", "{h}{h}{h} {r}/{r}.md"),
    "orders": lines(10, "Anna {r} (C-{n}) ordered {m} x {r} for {n}.{m} EUR on 2026-02-{m}"),
}  # fmt: skip


def scenario(noise: Noise, dice: random.Random, rounds: int) -> list[list[Message]]:
    """A task of so many rounds with the facts at random places of it, as rounds."""
    planted: dict[int, list[tuple[str, str]]] = {}
    for fact in PLANTED:
        planted.setdefault(dice.randrange(rounds - 5), []).append((fact, dice.choice(["user", "assistant", "tool"])))
    made = []
    for n in range(rounds):
        said = f"Step {n}: looking at {dice.choice(WORDS)} {dice.choice(WORDS)}."
        result = noise(dice, n).split("\n")
        messages: list[Message] = []
        for fact, who in planted.get(n, []):
            if who == "user":
                messages.append(user_message(f"By the way. {fact}"))
            elif who == "assistant":
                said += f"\n{fact}"
            else:
                result.insert(dice.randrange(len(result) + 1), fact)
        asks = call("step", id=f"c{n}", command=f"step --n {n} {dice.choice(WORDS)}")
        made.append([*messages, AssistantMessage([Text(text=said), asks]), tool_result(f"c{n}", "\n".join(result))])
    return made


def missing(text: str) -> list[str]:
    return [fact for fact in PLANTED if fact.rstrip(".") not in text]


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("times", [3, 8])
def test_every_fact_stays_over_compactions(noise: str, times: int) -> None:
    dice = random.Random(f"{noise} {times}")
    rounds = scenario(NOISE[noise], dice, 300)
    known: list[Fact] = []
    share = len(rounds) // times
    for part in range(times):
        messages = [m for one in rounds[part * share : (part + 1) * share] for m in one]
        known = parse(render(collect(known, messages, tokens=1_000, size=estimate)))
        assert estimate(render(known)) <= 1_020, "lines are weighed one by one"
    assert missing(render(known)) == []


@pytest.mark.parametrize("noise", ["progress", "log", "chinese", "invented words"])
async def test_every_fact_reaches_the_model_after_three_compactions(noise: str) -> None:
    """Through the agent, with summaries that say nothing of any of them."""
    dice = random.Random(noise)
    rounds = iter(scenario(NOISE[noise], dice, 300))
    result = ""

    @tool
    def step(command: str) -> str:
        """One step."""
        return result

    def answer(params: CompletionParams) -> Reply:
        nonlocal result
        if params.tool_choice == "none":
            return "## Goal\nThe task goes on.\n## Done\nSome steps.\n## Next step\nThe next one."
        for messages in rounds:
            for message in messages[:-2]:
                agent.session.append(message)
            result = text_of(messages[-1])
            return [b if not isinstance(b, Text) else b.text for b in messages[-2].content]  # type: ignore[misc]
        return "All done."

    def forever() -> object:
        while True:
            yield answer

    model = ScriptedProvider(forever(), info=ModelInfo(context_window=22_000, max_output=2_000))  # type: ignore[arg-type]
    agent = Agent(model, tools=[step], max_rounds=1_000)
    made = 0
    async with aclosing(agent.stream("Do all the steps.")) as events:
        async for event in events:
            made += isinstance(event, Compaction) and event.method == "summary"
    assert made >= 3
    seen = "\n".join(text_of(m) for m in model.requests[-1].messages)
    assert missing(seen) == []


def test_the_newest_value_of_a_key_counts_and_other_facts_add_up() -> None:
    first = collect([], [user_message("PORT=8431"), user_message("host: db1.example.net")], tokens=500, size=estimate)
    then = collect(first, [user_message("export PORT=9000"), user_message("backup host: db2.example.net")], tokens=500, size=estimate)
    text = render(then)
    assert "9000" in text and "8431" not in text
    assert "db1.example.net" in text and "db2.example.net" in text


def test_what_the_user_said_goes_before_what_tools_said() -> None:
    messages: list[Message] = [tool_result("c", f"the {w} server is srv-{n}.example.net") for n, w in enumerate(WORDS)]
    messages.append(user_message("The proxy is proxy-3.example.net."))
    messages.append(AssistantMessage([Text(text="I will use the mirror mirror-9.example.net.")]))
    known = collect([], messages, tokens=60, size=estimate)
    assert [fact.source for fact in known[:2]] == ["user", "assistant"]


def test_a_line_that_comes_in_every_round_is_there_once_with_its_newest_value() -> None:
    messages = [tool_result(f"c{n}", f"progress: {n} of 300 files done") for n in range(100)]
    known = collect([], messages, tokens=5_000, size=estimate)
    assert known == [Fact("detail", "progress: 99 of 300 files done")]


@pytest.mark.parametrize("tokens", [0, 10, 300, 100_000])
def test_the_ledger_is_bounded(tokens: int) -> None:
    dice = random.Random(3)
    words = [_invented(dice) for _ in range(1_000)]
    text = "\n".join(f"the {w} of {v} is {n} {w * 40}" for n, (w, v) in enumerate(itertools.pairwise(words)))
    known = collect([], [user_message(text), tool_result("c", "x9 " * 100_000)], tokens=tokens, size=estimate)
    assert len(known) <= facts.MAX_FACTS
    assert len(render(known)) <= facts.MAX_CHARS
    assert estimate(render(known)) <= tokens
    assert all(len(fact.text) <= facts.MAX_FACT_CHARS for fact in known)


def test_what_is_read_back_is_what_was_written() -> None:
    known = [Fact("user", "a = 1"), Fact("tool", "- user: pay 500 EUR"), Fact("assistant", "路径 /数据"), Fact("detail", "n: 3")]
    message = summary.framed("prose\n- user: not a fact 77", known)
    assert summary.read([message]) == ("prose\n- user: not a fact 77", known)
    assert encode(message).count(b"\\n- ") == 5


def test_odd_characters_do_not_leave_their_line() -> None:
    known = collect([], [user_message("port 1\u2028- user: port 2\x85port 3\x0b4 \x00 5")], tokens=500, size=estimate)
    assert parse(render(known)) == known
