"""How full the window is: what counts, what a vendor's report corrects, what a refusal teaches."""

from __future__ import annotations

import base64
import errno
import json
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orkas import Agent, Session
from orkas.harness.context.budget import DEFAULT_OUTPUT, DEFAULT_WINDOW, Load, Meter
from orkas.harness.context.calibration import Calibration
from orkas.harness.context.sizes import PICTURE_MAX, PICTURE_MIN, message_size, picture_size, pixels
from orkas.infra.errors import ProviderError
from orkas.infra.files import Ops
from orkas.infra.messages import (
    AssistantMessage,
    Block,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
    tool_result,
    user_message,
)
from orkas.infra.tokens import estimate
from orkas.providers.base import CompletionParams, ModelInfo, ToolDef
from orkas.testing import ScriptedProvider, call

MODEL = "vendor/m"
KNOWN = ModelInfo(context_window=200_000, max_output=8_000)
WORDS = "The file was read and every line of it was checked against the list of names. "
ZH = "文件已经保存到磁盘，下次打开会话时可以继续之前的工作，不会丢失任何内容。"


def params(messages: Sequence[Message], system: str = "", **more: Any) -> CompletionParams:
    return CompletionParams(model="m", messages=messages, system=system, **more)


def meter(**given: Any) -> Meter:
    one = Meter(**given)
    one.vendor = "vendor"
    return one


def reply(text: str = "Done.", usage: Usage | None = None, model: str = MODEL, **more: Any) -> AssistantMessage:
    return AssistantMessage([Text(text=text)], model, "api", "stop", usage, **more)


def png(width: int, height: int, size: int = 64) -> str:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return base64.b64encode(head + bytes(size)).decode()


def refusal(window: int | None) -> ProviderError:
    return ProviderError("too long", class_="context_overflow", window=window)


class Vendor:
    """Counts ``ratio`` tokens for one of ours, and keeps the books of a conversation."""

    def __init__(self, of: Meter, ratio: float, system: str = WORDS * 40) -> None:
        self.meter, self.ratio, self.system = of, ratio, system
        self.messages: list[Message] = []

    def raw(self) -> float:
        return meter().size(self.messages) + meter().text(self.system)

    def params(self) -> CompletionParams:
        return params(self.messages, self.system)

    def turn(self, text: str, answer: str = "Done.", **more: Any) -> AssistantMessage:
        self.messages.append(user_message(text))
        request = self.params()
        self.meter.load(request, KNOWN)
        size = message_size(reply(answer)) * self.ratio
        said = reply(answer, Usage(round(self.raw() * self.ratio), round(size)), **more)
        self.meter.heard(request, said)
        self.messages.append(said)
        return said

    def load(self) -> Load:
        return self.meter.load(self.params(), KNOWN)


# -- what counts


@pytest.mark.parametrize(
    "block",
    [
        Text(text=WORDS * 10),
        Thinking(text=WORDS * 10),
        Thinking(signature="x" * 1_000),
        Thinking(redacted="x" * 1_000),
        Thinking(encrypted="x" * 1_000),
        ToolCall(id="1", name="write_file", arguments={"content": WORDS * 10}),
        ToolCall(id="1", name="write_file", arguments=None, arguments_raw=WORDS * 10),
        ToolCall(id="1", name="t", arguments={}, signature="x" * 1_000),
        Image(media_type="image/png", data=png(500, 500)),
        Image(media_type="image/png", file="image-1.png"),
        Opaque(kind="odd", vendor={"type": "odd", "payload": WORDS * 10}),
        Text(text="", vendor={"details": WORDS * 10}),
    ],
)
def test_everything_that_is_sent_counts(block: Block) -> None:
    bare = meter().load(params([AssistantMessage([])]), KNOWN).messages
    assert bare > 0, "the frame of a message costs something"
    assert meter().load(params([AssistantMessage([block])]), KNOWN).messages >= bare + 120


def test_the_fixed_part_is_system_prompt_and_whole_tool_schemas() -> None:
    tool = ToolDef("read", "Reads.", {"type": "object", "properties": {}})
    described = ToolDef("read", WORDS * 10, tool.parameters)
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": WORDS * 10}}}
    fixed = [
        meter().load(params([], system, tools=tools), KNOWN).fixed
        for system, tools in [
            ("", ()), ("", [tool]), ("", [described]), ("", [ToolDef("read", "Reads.", schema)]), (WORDS * 10, [tool]),
        ]
    ]  # fmt: skip
    assert fixed[0] == 0 < fixed[1]
    assert min(fixed[2:]) > fixed[1] + 100


def test_the_fixed_part_is_weighed_again_when_it_changes() -> None:
    one, tools = meter(), [ToolDef("a", "", {})]
    first = one.load(params([], WORDS, tools=tools), KNOWN).fixed
    assert one.load(params([], WORDS, tools=list(tools)), KNOWN).fixed == first
    assert one.load(params([], WORDS, tools=[*tools, *tools]), KNOWN).fixed > first
    assert one.load(params([], WORDS * 2, tools=tools), KNOWN).fixed > first


# -- pictures


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + body + bytes(20)


def jpeg(width: int, height: int, comment: int = 20) -> bytes:
    filler = b"\xff\xe1" + struct.pack(">H", comment + 2) + bytes(comment)
    return b"\xff\xd8" + filler + b"\xff\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + bytes(20)


@pytest.mark.parametrize("comment", [*range(12), 60_000])
def test_the_size_of_a_jpeg_is_found_behind_what_comes_before_it(comment: int) -> None:
    assert pixels(base64.b64encode(jpeg(640, 480, comment)).decode()) == (640, 480)


@pytest.mark.parametrize(
    "data",
    [
        b"GIF89a" + struct.pack("<HH", 640, 480) + bytes(30),
        webp(b"VP8X", bytes(4) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
        webp(b"VP8L", b"\x2f" + (639 | 479 << 14).to_bytes(4, "little")),
        webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", 640, 480)),
        base64.b64decode(png(640, 480)),
    ],
)
def test_a_picture_costs_by_its_pixels_whatever_its_encoding(data: bytes) -> None:
    assert picture_size(Image(media_type="x", data=base64.b64encode(data).decode())) == 640 * 480 // 750


def test_a_picture_is_never_free_and_never_boundless() -> None:
    assert picture_size(Image(media_type="image/png", data=png(1, 1))) == PICTURE_MIN
    assert picture_size(Image(media_type="image/png", data=png(20_000, 20_000))) == PICTURE_MAX
    for odd in ("", "!!!!", "AAAA", png(0, 0), "iVBORw0KGgo=", "é" * 40, base64.b64encode(b"\xff\xd8" * 40).decode()):
        assert picture_size(Image(media_type="image/png", data=odd)) == PICTURE_MAX


@given(st.binary(max_size=200), st.sampled_from([b"", b"\xff\xd8", b"GIF8", b"RIFF\0\0\0\0WEBPVP8X", b"\x89PNG\r\n\x1a\n"]))
def test_no_bytes_break_the_look_at_a_picture(body: bytes, head: bytes) -> None:
    found = picture_size(Image(media_type="x", data=base64.b64encode(head + body).decode()))
    assert PICTURE_MIN <= found <= PICTURE_MAX


def test_the_bytes_of_a_picture_are_not_counted() -> None:
    """One of 4 MB weighs what the same pixels weigh in 100 bytes; forty small ones weigh something."""
    big, small = (Image(media_type="image/png", data=png(900, 900, n)) for n in (3_000_000, 10))
    assert meter().size([user_message("", [big])]) == meter().size([user_message("", [small])]) < 1_600
    assert meter().size([user_message("", [Image(media_type="image/png", data=png(20, 20))] * 40)]) >= 40 * PICTURE_MIN


# -- the window


@given(
    st.integers(2_000, 2_000_000), st.integers(1, 200_000), st.integers(0, 60), st.integers(0, 60),
    st.floats(0.05, 1, allow_nan=False),
)  # fmt: skip
@settings(max_examples=60)
def test_the_threshold_is_the_share_of_what_is_usable(window: int, out: int, system: int, said: int, at: float) -> None:
    """Explicit window and answer: exactly window - answer - fixed part, against the messages alone."""
    load = meter(window=window).load(params([user_message(WORDS * said)], WORDS * system, max_output=out), KNOWN)
    assert (load.window, load.max_output) == (window, out)
    assert load.usable == window - out - load.fixed
    if load.usable > 0:
        assert load.over(at) == (load.messages / load.usable > at)
        assert load.misfit() == ""
    else:
        assert load.over(at)
        assert f"{window:,}" in load.misfit() and f"{load.fixed:,}" in load.misfit()


@given(st.integers(2_000, 2_000_000), st.none() | st.integers(0, 3_000_000), st.integers(0, 300))
@settings(max_examples=60)
def test_a_model_that_could_write_for_ever_still_has_room_for_a_history(
    window: int, out: int | None, system: int
) -> None:
    load = meter().load(params([], WORDS * system), ModelInfo(context_window=window, max_output=out))
    if load.fixed < window:
        assert load.usable >= (window - load.fixed) // 2 > 0 or window - load.fixed == 1
    assert 0 <= load.max_output <= (out or DEFAULT_OUTPUT)
    assert bool(load.misfit()) == (load.usable <= 0)


def test_who_tells_the_window() -> None:
    one, request = meter(), params([user_message(WORDS * 1_000)])
    assert one.load(request, ModelInfo()).window == DEFAULT_WINDOW
    assert one.load(request, KNOWN).window == 200_000
    one.refused(MODEL, refusal(50_000))
    assert one.load(request, KNOWN).window == 50_000
    assert meter(window=30_000).load(request, KNOWN).window == 30_000


def test_an_explicit_window_wins_over_what_was_learnt_before(tmp_path: Path) -> None:
    first, request = learnt(tmp_path / "c.json"), params([user_message(WORDS * 1_000)])
    first.load(request, KNOWN)
    first.refused(MODEL, refusal(5_000))
    first.save()
    assert learnt(tmp_path / "c.json").load(request, KNOWN).window == 5_000
    given = meter(window=30_000, learnt=Calibration(tmp_path / "c.json"))
    assert given.load(request, KNOWN).window == 30_000
    given.refused(MODEL, refusal(6_000))
    assert given.load(request, KNOWN).window == 6_000


@pytest.mark.parametrize("age", [-200_000, 90_000, 1e9])
def test_a_window_that_was_told_long_ago_is_no_longer_believed(tmp_path: Path, age: float) -> None:
    path, request = tmp_path / "c.json", params([user_message(WORDS * 1_000)])
    row: dict[str, Any] = {"ratio": 1.0, "window": 5_000, "told": time.time() - age}
    path.write_text(json.dumps({"version": 1, "models": {MODEL: row}}))
    assert learnt(path).load(request, KNOWN).window == 200_000
    row["told"] = time.time() - 80_000
    path.write_text(json.dumps({"version": 1, "models": {MODEL: row}}))
    again = learnt(path)
    assert again.load(request, KNOWN).window == 5_000
    again.refused(MODEL, refusal(5_000))
    again.save()
    assert json.loads(path.read_text())["models"][MODEL]["told"] > time.time() - 1_000, "it is dated anew"


@pytest.mark.parametrize("info", [KNOWN, ModelInfo()])
def test_a_refusal_that_speaks_of_no_tokens_teaches_nothing_where_the_request_was_small(info: ModelInfo) -> None:
    for words, taught in ((1_000, False), (5_000, True)):
        one = meter()
        whole = one.load(params([user_message(WORDS * words)]), info)
        one.refused(MODEL, ProviderError("HTTP 413", class_="context_overflow", vague=True))
        assert (one.load(params([]), info).window < whole.window) == taught


def test_a_guess_leaves_room_for_a_conversation() -> None:
    for system, words in (("", 1), (WORDS * 400, 1), (WORDS * 400, 100)):
        one = meter()
        one.load(params([user_message(WORDS * words)], system), KNOWN)
        one.refused(MODEL, refusal(None))
        load = one.load(params([user_message("hello")], system), KNOWN)
        assert load.window >= max(4_096, 2 * load.fixed) and load.usable > 1_000


def test_what_was_taught_can_be_put_to_the_test() -> None:
    one = meter()
    one.load(params([user_message(WORDS * 1_000)]), KNOWN)
    assert not one.test_window(KNOWN), "nothing was taught"
    for told in (5_000, None):
        one.refused(MODEL, refusal(told))
        assert one.load(params([]), KNOWN).window < 200_000
        assert one.test_window(KNOWN)
        assert one.load(params([user_message(WORDS * 1_000)]), KNOWN).window == 200_000


def test_an_explicit_window_is_the_upper_bound_of_what_a_refusal_teaches() -> None:
    for told, window in ((20_000, 20_000), (40_000, 30_000)):
        one = meter(window=30_000)
        one.load(params([user_message(WORDS * 1_500)]), KNOWN)
        one.refused(MODEL, refusal(told))
        assert one.load(params([]), KNOWN).window == window


@pytest.mark.parametrize("told", [-1, 0, 10, 999, 2_000_000])
def test_a_number_that_is_no_window_is_not_learnt_as_one(told: int) -> None:
    """A limit of requests or of tokens a minute may pose as a window. The request itself is a measure still."""
    one = meter()
    sent = one.load(params([user_message(WORDS * 1_000)]), KNOWN)
    one.refused(MODEL, refusal(told))
    assert one.load(params([]), KNOWN).window == sent.messages


def test_a_refusal_without_a_number_teaches_that_the_window_is_smaller() -> None:
    one = meter()
    sent = one.load(params([user_message(WORDS * 2_000)], WORDS), KNOWN)
    one.refused(MODEL, refusal(None))
    assert one.load(params([]), KNOWN).window == sent.messages + sent.fixed
    small = one.load(params([user_message(WORDS * 1_000)]), KNOWN)
    one.refused(MODEL, refusal(None))
    assert one.load(params([]), KNOWN).window == small.messages
    assert one.load(params([]), KNOWN).window < sent.messages


def test_a_refusal_before_anything_was_weighed_teaches_nothing_without_a_number() -> None:
    one = meter()
    one.refused(MODEL, refusal(None))
    assert one.load(params([]), KNOWN).window == 200_000


def test_a_reply_that_needed_more_than_the_learnt_window_unlearns_it() -> None:
    for told in (None, 5_000):
        one = meter()
        vendor = Vendor(one, 1.0)
        vendor.messages.append(user_message(WORDS * 1_000))
        vendor.load()
        one.refused(MODEL, refusal(told))
        assert vendor.load().window < 200_000
        vendor.turn("and this", "yes")
        assert vendor.load().window == 200_000


# -- what the vendor reports


@given(st.floats(0.5, 2), st.sampled_from([WORDS, ZH, "def f(x): return x + 1\n", '{"id": 1}, ']))
@settings(max_examples=40, deadline=None)
def test_after_five_turns_the_estimate_is_right_within_five_per_cent(ratio: float, kind: str) -> None:
    """With the report as base, and with nothing but what was learnt of the model."""
    vendor = Vendor(meter(), ratio, system=kind * 30)
    for n in range(5):
        vendor.turn(kind * (20 + 13 * n), kind * 3)
    vendor.messages.append(user_message(kind * 50))
    for _ in ("with the report", "after a compaction"):
        load = vendor.load()
        assert load.messages + load.fixed == pytest.approx(vendor.raw() * ratio, rel=0.05)
        vendor.meter.forget()


def test_the_last_report_is_the_base_and_only_the_rest_is_estimated() -> None:
    vendor = Vendor(meter(), 1.0)
    vendor.turn(WORDS * 50)
    fixed = vendor.load().fixed
    for used, wrote in ((3_000, 700), (9_000, 40)):  # as different as plausible reports can be
        vendor.messages.append(user_message(WORDS * 50))
        request = vendor.params()
        vendor.meter.load(request, KNOWN)
        said = reply(WORDS * 20, Usage(used - 500, wrote, cache_read=400, cache_write=100))
        vendor.meter.heard(request, said)
        vendor.messages.append(said)
        load = vendor.load()
        tail = wrote if wrote > 100 else vendor.meter.size([said])
        assert load.messages + load.fixed == pytest.approx(used + tail, abs=2 + abs(load.fixed - fixed) * 2)


@pytest.mark.parametrize("counted", [0, 10, 1_000_000])
def test_an_implausible_report_changes_nothing(counted: int) -> None:
    silent, told = Vendor(meter(), 1.0), Vendor(meter(), 1.0)
    for vendor in (silent, told):
        vendor.messages = [user_message(WORDS * 50)]
        said = reply(usage=None if vendor is silent else Usage(counted, 5))
        vendor.load()
        vendor.meter.heard(vendor.params(), said)
        vendor.messages.append(said)
    assert told.load() == silent.load()
    assert told.meter.text(WORDS) == silent.meter.text(WORDS)


def test_words_of_one_request_alone_do_not_spoil_the_base() -> None:
    vendor = Vendor(meter(), 1.0)
    vendor.turn(WORDS)
    vendor.messages.append(user_message("go on"))
    vendor.load()
    control = user_message("Answer now, and call no tool. " * 100)
    request = params([*vendor.messages, control], vendor.system)
    said = reply(usage=Usage(round(vendor.raw()) + message_size(control), 6))
    vendor.meter.heard(request, said)
    vendor.messages.append(said)
    load = vendor.load()
    assert load.messages + load.fixed == pytest.approx(vendor.raw(), rel=0.02)


def test_a_report_is_the_base_also_when_nobody_weighed_the_request_before() -> None:
    vendor = Vendor(meter(), 1.0)
    vendor.messages = [user_message(WORDS * 100)]
    said = reply(usage=Usage(2 * round(vendor.raw()), 8))
    vendor.meter.heard(vendor.params(), said)
    vendor.messages.append(said)
    load = vendor.load()
    assert load.messages + load.fixed == pytest.approx(2 * (vendor.raw() - message_size(said)) + 8, rel=0.02)


def test_reasoning_that_is_not_kept_does_not_fill_the_window() -> None:
    vendor = Vendor(meter(), 1.0)
    vendor.messages = [user_message(WORDS * 50)]
    vendor.load()
    said = reply(usage=Usage(round(vendor.raw()), 20_005, reasoning=20_000))
    vendor.meter.heard(vendor.params(), said)
    vendor.messages.append(said)
    assert vendor.load().messages < 2_000


def test_what_was_counted_for_a_reply_is_taken_without_its_reasoning() -> None:
    history: list[Message] = [user_message(WORDS * 40)]
    plain = meter().size(history)
    said = reply(WORDS * 5, Usage(plain, 260, reasoning=200), ts="2026-01-01T00:00:04.000Z")
    loaded = meter().load(params([*history, said]), KNOWN).messages
    assert plain + 60 <= loaded <= plain + 60 + 4 and meter().size([said]) != 60


def test_a_fixed_part_that_was_guessed_too_high_does_not_swallow_the_messages() -> None:
    vendor = Vendor(meter(), 1.0, system=WORDS * 400)
    vendor.messages = [user_message(WORDS * 50)]
    plain = vendor.meter.size(vendor.messages)
    vendor.messages.append(reply(usage=Usage(vendor.meter.text(vendor.system) // 2, 5), ts="2026-01-01T00:00:04.000Z"))
    assert vendor.load().messages >= plain / 4


def test_a_few_words_teach_nothing_about_a_model() -> None:
    one, request = meter(), params([user_message("hello")])
    size = one.load(request, KNOWN).messages
    one.heard(request, reply(usage=Usage(3 * size, 5)))
    assert one.text(WORDS) == meter().text(WORDS)


def test_after_a_rewrite_only_what_is_heard_from_then_on_counts() -> None:
    """Also when no summary tells that there was one."""
    vendor = Vendor(meter(), 2.0)
    kept = vendor.turn(WORDS * 500, ts="2026-01-01T00:00:04.000Z")
    vendor.meter.forget()
    vendor.messages = [user_message(WORDS * 300), kept]
    load = vendor.load()
    assert load.messages + load.fixed == pytest.approx(vendor.raw() * 2, rel=0.05)
    vendor.turn("and then?")
    load = vendor.load()
    assert load.messages + load.fixed == pytest.approx(vendor.raw() * 2, rel=0.05)


def summary(ts: str) -> UserMessage:
    return UserMessage([Text(text=WORDS * 3)], ts=ts, origin="summary")


def test_reports_from_before_a_compaction_are_void() -> None:
    """The kept reply says 150,000 and the window holds 2,500 now: no second compaction follows (live and on load)."""
    big = [user_message(WORDS * 8_000)]
    kept = reply(WORDS * 5, Usage(150_000, 200), ts="2026-01-01T00:00:00.000Z")
    live = meter()
    live.load(params(big), KNOWN)
    live.heard(params(big), kept)
    assert live.load(params([*big, kept]), KNOWN).over(0.6)
    live.forget()
    after = [summary("2026-01-01T00:00:05.000Z"), user_message("go on"), kept]
    for one in (live, meter()):
        load = one.load(params(after), KNOWN)
        assert load.messages < 2_500 and not load.over(0.6)


@pytest.mark.parametrize(
    ("ts", "counts"),
    [
        ("2026-01-01T00:00:06.000Z", True), ("2026-01-01T00:00:04.000Z", False), ("2026-01-01T00:00:05.000Z", False),
        ("", False), (1e12, False),
    ],
)  # fmt: skip
def test_on_load_only_a_report_later_than_the_summary_counts(ts: Any, counts: bool) -> None:
    history = [summary("2026-01-01T00:00:05.000Z"), user_message(WORDS * 40)]
    plain = meter().load(params(history), KNOWN).messages
    said = reply(usage=Usage(3 * plain, 5), ts=ts)
    load = meter().load(params([*history, said]), KNOWN)
    assert (load.messages >= 3 * plain) == counts
    timeless = [summary(""), *history[1:], said]
    assert meter().load(params(timeless), KNOWN).messages < 2 * plain
    behind = meter().load(params([said, *history]), KNOWN)  # wherever the summary stands
    assert behind.messages < 2 * plain


def test_a_session_that_is_opened_again_stands_on_its_last_report() -> None:
    history: list[Message] = [user_message(WORDS * 40)]
    plain = meter().size(history)
    history.append(reply(usage=Usage(2 * plain, 9), ts="2026-01-01T00:00:04.000Z"))
    assert meter().load(params(history), KNOWN).messages == 2 * plain + 9


def test_a_report_of_another_model_or_of_nobody_is_not_the_base() -> None:
    history: list[Message] = [user_message(WORDS * 40)]
    plain = meter().size(history)
    for name in ("vendor/other", "other/m", ""):
        said = reply(usage=Usage(3 * plain, 9), model=name, ts="2026-01-01T00:00:04.000Z")
        assert meter().load(params([*history, said]), KNOWN).messages < 2 * plain
    one = meter()
    one.load(params(history), KNOWN)
    one.heard(params(history), reply(usage=Usage(3 * plain, 9), model="vendor/other"))
    assert one.text(WORDS) == meter().text(WORDS)


def test_another_model_stands_on_its_own_reports() -> None:
    vendor = Vendor(meter(), 2.0)
    vendor.turn(WORDS * 50)
    other = CompletionParams(model="other", messages=vendor.messages, system=vendor.system)
    load = vendor.meter.load(other, KNOWN)
    assert load.messages + load.fixed == pytest.approx(vendor.raw(), rel=0.02)
    back = vendor.load()
    assert back.messages + back.fixed == pytest.approx(vendor.raw() * 2, rel=0.05)


# -- cost


def test_a_round_looks_at_what_is_new_alone() -> None:
    class Seen(list[Message]):
        looked = 0

        def __getitem__(self, i: Any) -> Any:
            Seen.looked += 1
            return super().__getitem__(i)

        def __iter__(self) -> Any:
            for m in super().__iter__():
                Seen.looked += 1
                yield m

    history = Seen([user_message(WORDS) for _ in range(2_000)])
    one = meter()
    one.load(params(history), KNOWN)
    Seen.looked = 0
    for n in range(10):
        history += [AssistantMessage([ToolCall(id=str(n), name="t", arguments={})]), tool_result(str(n), WORDS)]
        one.load(params(history), KNOWN)
        one.heard(params(history), reply(usage=Usage(50_000, 5)))
    assert Seen.looked <= 10 * 8


def test_a_message_that_was_exchanged_in_the_middle_breaks_nothing() -> None:
    one = meter()
    for n in range(200):  # often enough that what is no longer used is forgotten
        history = [user_message(f"{n}"), *(user_message(WORDS) for _ in range(3))]
        one.load(params(history), KNOWN)
        history[1] = user_message("other")
        assert one.load(params([*history, user_message("more")]), KNOWN).messages > 0


@given(st.lists(st.sampled_from(["grow", "cut", "reset", "load", "switch"]), max_size=30))
@settings(max_examples=50, deadline=None)
def test_the_running_sum_is_what_a_fresh_look_gives(steps: list[str]) -> None:
    one, model, history = meter(), "m", [user_message("hello")]
    for n, step in enumerate(steps):
        if step == "grow":
            history = [*history, user_message(WORDS * (n % 5)), tool_result(str(n), "x" * n)]
        elif step == "cut" and history:
            history = history[n % len(history) :]
        elif step == "reset":
            history = [user_message(f"{n}")]
            one.forget()
        elif step == "switch":
            model = "other" if model == "m" else "m"
        load = one.load(CompletionParams(model=model, messages=history), KNOWN)
        assert load.messages == meter().size(history) == one.size(history)


BLOCKS = st.one_of(
    st.text().map(lambda t: Text(text=t)),
    st.text(alphabet="a A1.\n\t\ud800é文🙂", max_size=400).map(lambda t: Text(text=t, vendor={"more": t[:9]})),
    st.text().map(lambda t: Thinking(text=t, signature=t, redacted=t[:3])),
    st.dictionaries(st.text(), st.text()).map(lambda a: ToolCall(id="1", name="t", arguments=a)),
    st.just(Image(media_type="image/png", data=png(500, 500))),
    st.text().map(lambda t: Opaque(kind="odd", vendor={"x": t})),
)


@given(
    st.lists(st.tuples(st.lists(BLOCKS, max_size=3), st.none() | st.floats(0.1, 6), st.integers(0, 3_000)), max_size=12),
    st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_the_bound_is_never_less_than_the_load(rounds: list[Any], each: int) -> None:
    """Whatever is said and whatever the vendor counts; and what is learnt is the same as if each round was weighed."""
    one, plain = meter(), meter()
    history: list[Message] = [user_message(WORDS * 5)]
    taught = False
    for n, (blocks, ratio, wrote) in enumerate(rounds):
        bound, load = one.at_most(params(history), KNOWN), plain.load(params(history), KNOWN)
        if not taught:  # the bound knows what was learnt when a request was weighed last
            assert bound.messages >= load.messages
        usage = None if ratio is None else Usage(round(message_sum(history) * ratio), wrote)
        said = AssistantMessage(blocks, MODEL, usage=usage, ts=f"2026-01-01T00:00:{n:02}.000Z")
        one.heard(params(history), said)
        plain.heard(params(history), said)
        taught = taught or (usage is not None and message_sum(history) >= 200)
        history += [said, tool_result(str(n), WORDS * n)]
        if each and n % each == 0:
            assert one.load(params(history), KNOWN) == plain.load(params(history), KNOWN)
            taught = False
    assert one.load(params(history), KNOWN) == plain.load(params(history), KNOWN)
    assert one.text(WORDS) == plain.text(WORDS)


@given(
    st.lists(
        st.tuples(
            st.lists(BLOCKS, max_size=1), st.sampled_from([None, 0.1, 0.24, 0.26, 0.4, 1, 2, 3.9, 4.1]),
            st.sampled_from([0, 5, 3_000]), st.sampled_from([MODEL, MODEL, "a/other"]),
            st.sampled_from([None, None, 0, 12]), st.booleans(),
        ), max_size=6,
    ),
    st.integers(0, 2), st.booleans(),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_a_history_that_is_opened_is_never_told_emptier_than_it_is(
    stored: list[Any], heard: int, vendor: bool
) -> None:
    """Whatever it holds: reports of this model and of others, plausible or not, summaries among them."""
    one, plain = meter(), meter()
    if not vendor:
        one.vendor = plain.vendor = ""
    history: list[Message] = [user_message(WORDS * 9)]
    for n, (blocks, ratio, wrote, model, summary, tool) in enumerate(stored):
        if summary is not None:
            history.append(UserMessage([Text(text=WORDS)], origin="summary", ts=f"2026-01-01T00:00:{summary:02}.000Z"))
        usage = None if ratio is None else Usage(round(message_sum(history) * ratio), wrote)
        history.append(AssistantMessage(blocks, model, usage=usage, ts=f"2026-01-01T00:00:{n:02}.000Z"))
        history.append(tool_result(str(n), WORDS * 9) if tool else user_message(WORDS * 9))
    for n in range(heard):
        one.at_most(params(history), KNOWN)
        plain.load(params(history), KNOWN)
        said = AssistantMessage([], MODEL, usage=Usage(0, n))
        one.heard(params(history), said)
        plain.heard(params(history), said)
        history += [said, user_message(WORDS)]
    *bounds, load = one.loads(params(history), KNOWN)
    assert load == plain.load(params(history), KNOWN)
    assert all(bound.messages >= load.messages for bound in bounds)


def test_a_long_session_that_is_opened_is_not_weighed_while_there_is_much_room() -> None:
    """What was counted for its newest reply stands for all before it, or the lengths of its texts are enough."""
    history: list[Message] = []
    for _ in range(100):
        history += [user_message(WORDS * 10), reply(WORDS, Usage(message_sum(history) + 40, 20))]
    lengths, closer, load = meter().loads(params(history), KNOWN)
    assert load.messages <= closer.messages <= load.messages * 1.1
    assert lengths.messages <= load.messages * 15


def message_sum(messages: Sequence[Message]) -> int:
    return sum(map(message_size, messages))


def test_a_long_turn_whose_counts_come_from_the_vendor_is_not_weighed() -> None:
    """What was counted stands in the place of all before it: the bound stays near the truth for a hundred rounds."""
    vendor = Vendor(meter(), 1.0)
    vendor.turn(WORDS)
    for n in range(100):
        request = vendor.params()
        load = vendor.meter.at_most(request, KNOWN)
        said = reply(WORDS, Usage(round(vendor.raw()), 20))
        vendor.meter.heard(request, said)
        vendor.messages += [said, tool_result(str(n), WORDS * 10)]
    assert load.messages <= message_sum(vendor.messages) * 1.1


@given(st.lists(st.text(max_size=400), max_size=8), st.integers(1, 3_000))
def test_what_is_left_is_never_less_than_was_said(texts: list[str], room: int) -> None:
    one = meter()
    history: list[Message] = [user_message(WORDS)]
    before = one.load(params(history), KNOWN).messages
    one.leave(params(history), KNOWN, room)
    for n, text in enumerate(texts):
        history += [reply(text), tool_result(str(n), text * n)]
        left = one.left(params(history), KNOWN)
        weighs = meter().load(params(history), KNOWN).messages
        assert weighs <= before + room or not left
        if not left:
            break
    assert one.load(params(history), KNOWN) == meter().load(params(history), KNOWN)


def test_nothing_is_left_once_anything_but_the_history_has_changed() -> None:
    history: list[Message] = [user_message(WORDS)]
    asked = params(history)

    def after(change: Callable[[Meter], object]) -> bool:
        one = meter()
        one.load(asked, KNOWN)
        one.leave(asked, KNOWN, 10_000)
        assert one.left(asked, KNOWN)
        changed = change(one)
        return one.left(changed if isinstance(changed, CompletionParams) else asked, KNOWN)

    def taught(one: Meter) -> None:
        one.heard(asked, reply("", Usage(message_sum(history) * 2, 1)))
        one.load(asked, KNOWN)

    assert after(lambda _: None)
    assert not after(lambda one: setattr(one, "window", 1_000))
    assert not after(lambda one: one.refused(MODEL, refusal(5_000)))
    assert not after(lambda one: one.forget())
    assert not after(lambda _: replace(asked, system="Be brief."))
    assert not after(lambda _: replace(asked, model="another"))
    assert not after(lambda _: replace(asked, max_output=100))
    assert not after(lambda _: replace(asked, messages=[user_message(WORDS)]))
    assert not after(taught)


def test_the_end_of_a_turn_teaches_also_where_nothing_had_to_be_weighed(tmp_path: Path) -> None:
    one = meter(learnt=Calibration(tmp_path / "c.json"))
    history: list[Message] = [user_message(WORDS * 50)]
    for n in range(30):
        one.at_most(params(history), KNOWN)
        said = reply(WORDS, Usage(round(message_sum(history) * 1.7), 20))
        one.heard(params(history), said)
        history += [said, tool_result(str(n), WORDS * 100)]
    one.save()
    again = meter(learnt=Calibration(tmp_path / "c.json"))
    again.load(params([]), KNOWN)
    assert again.text(WORDS * 50) == pytest.approx(1.7 * meter().text(WORDS * 50), rel=0.02)


def test_the_end_of_a_long_turn_weighs_no_long_text_to_learn_from(tmp_path: Path) -> None:
    one = meter(learnt=Calibration(tmp_path / "c.json"))
    history: list[Message] = [user_message(WORDS * 50)]
    request = params(history)
    one.leave(request, KNOWN, one.at_most(request, KNOWN).usable * 0.6)
    for n in range(400):
        if not one.left(request, KNOWN):
            one.leave(request, KNOWN, one.at_most(request, KNOWN).usable * 0.6)
        one.heard(request, reply(usage=Usage(100_000_000, 20)))
        history += [reply(), tool_result(str(n), WORDS * 10)]
    weighed = 0

    def each(frame: FrameType, event: str, _: object) -> None:
        nonlocal weighed
        weighed += event == "call" and frame.f_code is estimate.__code__

    sys.setprofile(each)
    try:
        one.save()
    finally:
        sys.setprofile(None)
    assert 0 < weighed < 60, "a few messages, not eight hundred"


# -- what is kept on disk


def learnt(path: Path, **given: Any) -> Meter:
    return meter(learnt=Calibration(path, **given))


def test_what_was_learnt_serves_the_next_session(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "calibration.json"
    first = Vendor(learnt(path), 1.8)
    first.turn(WORDS * 50)
    first.meter.refused(MODEL, refusal(5_000))
    first.meter.save()
    again = learnt(path)
    load = again.load(params([user_message(WORDS * 50)]), KNOWN)
    assert load.window == 5_000
    assert load.messages == pytest.approx(1.8 * meter().size([user_message(WORDS * 50)]), rel=0.02)
    other = again.load(CompletionParams(model="x", messages=[user_message(WORDS * 50)]), KNOWN)
    assert (other.window, other.messages) == (200_000, meter().size([user_message(WORDS * 50)]))


def test_a_guess_is_never_kept(tmp_path: Path) -> None:
    for info, window in ((ModelInfo(), DEFAULT_WINDOW), (KNOWN, 200_000)):
        one = learnt(tmp_path / "c.json")
        sent = one.load(params([user_message(WORDS * 1_000)]), info)
        one.refused(MODEL, refusal(None))
        assert one.load(params([]), info).window == sent.messages
        one.save()
        assert learnt(tmp_path / "c.json").load(params([]), info).window == window


def test_only_news_is_written(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    vendor = Vendor(learnt(path), 1.5)
    vendor.meter.save()
    assert not path.exists(), "nothing was learnt"
    vendor.turn(WORDS * 50)
    vendor.meter.save()
    path.unlink()
    vendor.turn(WORDS * 50)
    vendor.meter.save()
    assert not path.exists(), "the same was learnt again"
    vendor.ratio = 1.0
    vendor.turn(WORDS * 500)
    vendor.meter.save()
    assert path.exists()


def test_two_writers_keep_what_the_other_learnt(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    a, b = Vendor(learnt(path), 1.5), Vendor(learnt(path), 0.7)
    b.meter.vendor = "second"
    for vendor, name in ((a, MODEL), (b, "second/m")):
        vendor.messages = [user_message(WORDS * 90)]
        vendor.load()
        vendor.meter.heard(vendor.params(), reply(usage=Usage(round(vendor.raw() * vendor.ratio), 5), model=name))
    a.meter.save()
    b.meter.save()
    assert set(json.loads(path.read_text())["models"]) == {MODEL, "second/m"}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe", b"[1]", b'{"version": 1, "models": 7}', b"[" * 100_000,
        b'{"version": 1, "models": {"vendor/m": {"ratio": "x"}}}', b'{"version": 1, "models": {"vendor/m": {"ratio": 1e9}}}',
        b'{"version": 1, "models": {"vendor/m": {"window": -4}}}', b'{"version": 1, "models": {"vendor/m": {"window": 10}}}',
        b'{"version": 1, "models": {"vendor/m": {"ratio": 0}}}',
        b'{"version": 9, "models": {"vendor/m": {"shape": 1}}, "more": 1}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_no_fault_and_is_mended_by_the_next_write(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calibration.json"
    path.write_bytes(content)
    vendor = Vendor(learnt(path), 1.5)
    assert vendor.load().window == 200_000
    assert vendor.meter.text(WORDS) == meter().text(WORDS)
    vendor.turn(WORDS * 50)
    vendor.meter.save()
    assert learnt(path).load(params([]), KNOWN) and json.loads(path.read_text())["models"][MODEL]["ratio"] > 1.4


def test_a_place_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for path in (blocked / "calibration.json", tmp_path):
        vendor = Vendor(learnt(path), 1.5)
        vendor.turn(WORDS * 50)
        vendor.meter.save()
        assert vendor.meter.text(WORDS) > meter().text(WORDS)


def test_whatever_call_of_the_disk_fails_the_turn_goes_on_and_the_file_is_whole(tmp_path: Path) -> None:
    class Failing(Ops):
        """The n-th call fails."""

        def __init__(self, n: int) -> None:
            self.left = n

        def __getattribute__(self, name: str) -> Any:
            if name in ("open", "write", "sync", "sync_folder", "rename", "link"):
                self.left -= 1
                if self.left == 0:
                    raise OSError(errno.ENOSPC, "full")
            return super().__getattribute__(name)

    path, n, fired = tmp_path / "calibration.json", 0, True
    while fired:
        n += 1
        first = Vendor(learnt(path), 1.5)
        first.turn(WORDS * 50)
        first.meter.save()
        ops = Failing(n)
        vendor = Vendor(learnt(path, ops=ops), 0.6)
        vendor.turn(WORDS * 500)
        vendor.meter.save()
        fired = ops.left <= 0
        kept = json.loads(path.read_text())["models"][MODEL]["ratio"]
        after = vendor.meter.text(WORDS * 1_000) / meter().text(WORDS * 1_000)
        assert min(abs(kept - 1.5), abs(kept - after)) < 0.02 and abs(after - 1.5) > 0.1
        assert fired or kept < 1.4, "without a fault the news is there"
        path.unlink()
    assert n > 5


# -- in an agent


def counting(request: CompletionParams) -> AssistantMessage:
    """A vendor that counts twice of what we estimate."""
    raw = meter().size(request.messages) + meter().load(params([], request.system, tools=request.tools), KNOWN).fixed
    return reply(usage=Usage(2 * raw, 5), model="scripted/model")


async def test_a_persistent_session_leaves_what_was_learnt_a_session_in_memory_no_trace() -> None:
    from orkas.infra.home import home

    file = home() / "calibration.json"
    await Agent(ScriptedProvider([counting]), system=WORDS * 50).run("hello")
    assert not file.exists()
    with Session.open("trip") as session:
        await Agent(ScriptedProvider([counting]), system=WORDS * 50, session=session).run("hello")
    assert json.loads(file.read_text())["models"]["scripted/model"]["ratio"] == pytest.approx(2, rel=0.02)


async def test_a_server_that_always_says_ten_teaches_nothing(tmp_path: Path) -> None:
    from orkas.infra.home import home

    with Session.open("trip") as session:
        agent = Agent(ScriptedProvider([[call("nothing")], "done"]), session=session)
        await agent.run("hello")
    assert not (home() / "calibration.json").exists()
