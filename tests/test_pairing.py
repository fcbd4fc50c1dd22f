"""The pairing invariant: every call is followed at once by exactly one result, and no words are lost."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas.harness.pairing import (
    Check,
    cut_points,
    fresh_id,
    interrupted,
    is_clean_cut,
    is_paired,
    open_calls,
    repair,
)
from orkas.infra.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    calls_of,
    decode_message,
    encode,
    text_of,
    tool_result,
    user_message,
)

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).parents[2] / "shared"))
CASES = sorted((SHARED / "cases/02-pairing").glob("*.expect.json"))


def call(id: str, name: str = "t") -> ToolCall:
    return ToolCall(id=id, name=name, arguments={})


def says(text: str, *calls: ToolCall, stop: str = "") -> AssistantMessage:
    return AssistantMessage([Text(text=text), *calls], stop_reason=stop)


def picture(call_id: str, data: str = "AA==") -> UserMessage:
    return UserMessage([Image(media_type="image/png", data=data)], origin="tool_image", tool_call_id=call_id)


def assert_invariants(before: list[Message], after: list[Message]) -> None:
    """What every repaired history fulfils, written without the code under test."""
    at = 0
    ids: list[str] = []
    while at < len(after):
        message = after[at]
        assert not isinstance(message, ToolMessage), "an orphan result"
        at += 1
        for wanted in calls_of(message):
            result = after[at]
            assert isinstance(result, ToolMessage), "a call without its result"
            assert result.tool_call_id == wanted.id, "results out of order"
            ids.append(wanted.id)
            at += 1
    assert all(ids), "an empty id"
    assert len(set(ids)) == len(ids), "an id twice"
    again = repair(after)
    assert not again.changed, "not idempotent"
    assert all(x is y for x, y in zip(again.messages, after, strict=True))
    for kind in (UserMessage, AssistantMessage):
        assert Counter(text_of(m) for m in before if type(m) is kind) == Counter(
            text_of(m) for m in after if type(m) is kind
        ), "words lost"
    assert spoken(before) == spoken(after), "words in another order"


def spoken(history: list[Message]) -> list[str]:
    return [text_of(m) for m in history if not isinstance(m, ToolMessage) and getattr(m, "origin", None) is None]


# --- the collected cases ------------------------------------------------------------------------------------------


def load(case: Path) -> tuple[list[Message], dict]:
    expect = json.loads(case.read_text(encoding="utf-8"))
    lines = (case.parent / expect["input"]).read_bytes().split(b"\n")
    return [m for line in lines if line and (m := decode_message(line))], expect


@pytest.mark.skipif(not CASES, reason="the collected cases are not here (ORKAS_SHARED)")
def test_the_cases_are_found():
    assert len(CASES) >= 16


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.name.split(".")[0])
def test_case(case: Path):
    before, expect = load(case)
    done = repair(before)
    after = done.messages
    assert_invariants(before, after)
    if (wanted := expect.get("expected_messages")) is not None:
        assert [reduced(m) for m in after] == [reduced(decode(m)) if "content" in m else synthetic(m) for m in wanted]
    for result in expect.get("must_results", []):
        assert result_of(before, after, *result["call"]) == result["text"]
    said = [text_of(m) for m in after]
    for text in expect.get("must_user_texts", []):
        assert text in said
    for text in expect.get("never_texts", []):
        assert text not in said
    if expect.get("unchanged"):
        assert not done.changed
        assert all(x is y for x, y in zip(before, after, strict=True))
        assert is_paired(before)
    if boundaries := expect.get("forbidden_boundaries"):
        assert set(cut_points(before)) == set(range(len(before) + 1)) - set(boundaries)
        assert all(is_paired(before[at:]) and is_paired(before[:at]) for at in cut_points(before))
        assert text_of(before[-1]) == expect["must_last_user_text"]


def decode(record: dict) -> Message:
    message = decode_message(record)
    assert message is not None
    return message


def reduced(message: Message) -> object:
    if isinstance(message, ToolMessage) and message.synthetic:
        return synthetic({"role": "tool", "tool_call_id": message.tool_call_id})
    return encode(message)


def synthetic(record: dict) -> tuple[str, str]:
    return "synthetic", record["tool_call_id"]


def result_of(before: list[Message], after: list[Message], index: int, number: int) -> str:
    """The text of the result of a call, addressed by its place in the input."""
    nth = sum(isinstance(m, AssistantMessage) for m in before[:index])
    place = [i for i, m in enumerate(after) if isinstance(m, AssistantMessage)][nth]
    return text_of(after[place + 1 + number])


# --- single rules -------------------------------------------------------------------------------------------------


def test_a_synthetic_result_says_interrupted_and_is_the_same_every_time():
    history = [user_message("go"), says("", call("c1"))]
    one, two = repair(history), repair(list(history))
    assert "interrupted" in text_of(one.messages[-1])
    assert one.messages[-1] == two.messages[-1] == interrupted(call("c1"))
    assert one.messages[-1].is_error
    assert one.changed
    assert (one.synthesized, one.dropped, one.reordered, one.renamed) == (1, 0, 0, 0)


def test_untouched_messages_are_the_same_objects():
    history: list[Message] = [user_message("a"), says("b"), says("", call("c1")), user_message("x")]
    after = repair(history).messages
    assert [m for m in after if not isinstance(m, ToolMessage)] == history
    assert all(any(m is old for old in history) for m in after if not isinstance(m, ToolMessage))


def test_a_call_whose_arguments_did_not_parse_still_gets_a_result():
    broken = ToolCall(id="c1", name="t", arguments=None, arguments_raw='{"a":')
    assert repair([says("", broken)]).messages[1].tool_call_id == "c1"


def test_late_results_of_one_id_go_to_the_calls_in_order():
    history = [says("", call("k")), says("", call("k")), tool_result("k", "one"), tool_result("k", "two")]
    after = repair(history).messages
    assert [text_of(m) for m in after if isinstance(m, ToolMessage)] == ["one", "two"]


def test_an_id_used_again_after_a_crash_keeps_the_result_in_its_own_turn():
    history = [
        user_message("1"), says("", call("fn:0")), user_message("2"), says("", call("fn:0")),
        tool_result("fn:0", "new"),
    ]  # fmt: skip
    results = [m for m in repair(history).messages if isinstance(m, ToolMessage)]
    assert results[0].synthetic
    assert text_of(results[1]) == "new"


def test_the_first_holder_of_an_id_keeps_it():
    history = [says("", call("k"), call("k"), call("k_2")), *(tool_result(i, i) for i in ("k", "k", "k_2"))]
    done = repair(history)
    assert [c.id for c in calls_of(done.messages[0])] == ["k", "k_2", "k_2_2"]
    assert done.renamed == 2


class Counted(set):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, item: object) -> bool:
        self.asked += 1
        return super().__contains__(item)


def test_an_id_used_in_every_round_costs_the_same_each_time():
    taken, numbers = Counted({"tool:0"}), {}
    for n in range(2, 2_000):
        assert fresh_id("tool:0", taken, n, numbers) == f"tool:0_{n}"
        taken.add(f"tool:0_{n}")
    assert taken.asked < 2 * 2_000


def test_an_id_used_in_every_round_is_told_apart_in_every_round():
    history = [m for _ in range(5_000) for m in (says("", call("tool:0")), tool_result("tool:0", "r"))]
    repaired = repair(history)
    ids = [c.id for m in repaired.messages for c in calls_of(m)]
    assert ids == ["tool:0", *(f"tool:0_{n}" for n in range(2, 5_001))]
    assert not repair(repaired.messages).changed


def test_a_number_that_somebody_holds_is_passed_over():
    ids = ["a", "a_3", "a", "a", "a_2", "a", "", "call_7", ""]
    repaired = repair([m for id in ids for m in (says("", call(id)), tool_result(id, "r"))])
    made = [c.id for m in repaired.messages for c in calls_of(m)]
    assert made == ["a", "a_3", "a_2", "a_4", "a_2_2", "a_5", "call_7", "call_7_2", "call_9"]


def test_a_number_of_the_place_that_somebody_holds_is_passed_over():
    assert fresh_id("", {"call_2"}, 3, {}) == "call_3"
    assert fresh_id("", {"call_3"}, 3, {}) == "call_3_2"
    assert fresh_id("call_3", {"call_3", "call_3_2"}, 1, {}) == "call_3_3"
    repaired = repair([says("", call("call_2")), tool_result("call_2", "r"), says("", call("")), tool_result("", "s")])
    assert [c.id for m in repaired.messages for c in calls_of(m)] == ["call_2", "call_2_2"]


def test_a_repaired_prefix_does_not_depend_on_what_comes_later():
    history = [
        user_message("a"), says("", call(""), call("k")), tool_result("k", "r"), user_message("b"), says("", call("k")),
        tool_result("k", "s"), user_message("c"), says("", call("k_2"), call("")), user_message("d"),
        says("", call("k")),
    ]  # fmt: skip
    whole = [encode(m) for m in repair(history).messages]
    for n in (4, 7, 9):
        part = [encode(m) for m in repair(history[:n]).messages]
        assert whole[: len(part)] == part


def test_pictures_of_repeated_ids_follow_their_own_call():
    history = [
        says("", call("k"), call("k")), picture("k", "BB=="), tool_result("k", "1"), picture("k", "CC=="),
        tool_result("k", "2"), user_message("and?"),
    ]  # fmt: skip
    after = repair(history).messages
    assert [getattr(m, "tool_call_id", None) for m in after] == [None, "k", "k_2", "k", "k_2", None]
    assert [m.content[0].data for m in after[3:5]] == ["BB==", "CC=="]


def test_pictures_stand_behind_all_results_in_the_order_of_the_calls():
    reply, one, two = says("", call("a"), call("b")), tool_result("a", "1"), tool_result("b", "2")
    a, a2, b = picture("a"), picture("a", "BB=="), picture("b")
    right = [reply, one, two, a, a2, b]
    assert is_paired(right)
    assert is_paired([*right, user_message("x"), picture("elsewhere")])
    for wrong in ([reply, one, two, b, a, a2], [reply, one, a, a2, two, b], [reply, a, one, a2, b, two]):
        assert not is_paired(wrong)
        assert repair(wrong).messages == right


def test_a_picture_behind_other_words_moves_to_its_group():
    history = [says("", call("a")), tool_result("a", "1"), user_message("x"), picture("a"), user_message("y")]
    assert not is_paired(history)
    assert [text_of(m) for m in repair(history).messages] == ["", "1", "", "x", "y"]
    assert repair(history).reordered == 1
    late = [says("", call("a")), tool_result("a", "1"), says("so"), picture("a"), user_message("y")]
    assert is_paired(late), "the assistant has spoken: it is the picture of nobody any more"
    assert not repair(late).changed


def test_pictures_may_name_a_call_by_its_new_id():
    history = [
        says("", call("k")), tool_result("k", "1"), says("", call("k"), call("b")), tool_result("k", "2"),
        tool_result("b", "3"), picture("b"), picture("k_2"),
    ]  # fmt: skip
    after = repair(history).messages
    assert [m.tool_call_id for m in after[3:]] == ["k_2", "b", "k_2", "b"]


def test_a_picture_does_not_end_a_turn():
    history = [says("", call("k")), picture("k"), says("", call("k")), tool_result("k", "one"), tool_result("k", "two")]
    assert [text_of(m) for m in repair(history).messages if isinstance(m, ToolMessage)] == ["one", "two"]


def test_words_that_name_a_call_are_not_moved_to_it():
    words = UserMessage([Text(text="so?")], tool_call_id="a")
    history = [says("", call("a")), user_message("x"), words, picture("a"), tool_result("a", "1")]
    assert [text_of(m) for m in repair(history).messages] == ["", "1", "", "x", "so?"]


def test_in_a_history_that_is_not_paired_a_cut_is_clean_only_outside_of_rounds():
    assert cut_points([says("", call("a"), call("b")), tool_result("a", "1"), user_message("x")]) == [0]
    assert cut_points([says("", call("a"), call("b")), tool_result("a", "1")]) == [0]
    assert not is_clean_cut([says("", call("a")), tool_result("a", "1"), tool_result("a", "2")], 2)


def test_results_in_another_order_are_not_paired():
    right = [says("", call("a"), call("b")), tool_result("a", "1"), tool_result("b", "2")]
    wrong = [right[0], right[2], right[1]]
    assert is_paired(right)
    assert not is_paired(wrong)
    assert all(x is y for x, y in zip(repair(wrong).messages, right, strict=True)), "moved, not copied"


def test_pictures_after_other_words_of_the_assistant_are_words_themselves():
    round = [says("", call("a"), call("b")), tool_result("a", "1"), tool_result("b", "2"), says("so")]
    assert is_paired([*round, picture("b"), picture("a")])


def test_an_id_answered_in_an_earlier_round_of_the_turn_is_free_for_the_next():
    history = [says("", call("k")), tool_result("k", "one"), says("", call("k")), tool_result("k", "two")]
    done = repair(history)
    assert [text_of(m) for m in done.messages if isinstance(m, ToolMessage)] == ["one", "two"]
    assert (done.renamed, done.synthesized) == (1, 0)
    again = [*history[:2], tool_result("k", "one again"), *history[2:]]
    assert [text_of(m) for m in repair(again).messages if isinstance(m, ToolMessage)] == ["one", "two"]


def test_a_history_that_grows_is_checked_as_if_it_were_new():
    check = Check()
    history: list[Message] = [user_message("a"), says("", call("a")), tool_result("a", "1"), picture("a")]
    assert check.holds(history)
    assert check.holds([*history, user_message("b"), says("", call("b")), tool_result("b", "2")])
    assert not check.holds([*history, says("", call("a")), tool_result("a", "2")]), "an id twice"
    assert check.holds(history), "what failed leaves nothing behind"
    assert not check.holds([*history, user_message("b"), picture("a")])
    assert check.holds(history[:1]), "a shorter one begins anew"
    assert not check.holds([*history[:1], tool_result("a", "1")])
    assert not check.holds(history[:2])
    assert check.holds([])


class Unread(list):
    """A history that may be cut but not walked from its beginning."""

    def __iter__(self):
        raise AssertionError("walked again")


def test_what_held_before_is_not_walked_again():
    check = Check()
    history: list[Message] = [user_message("a"), says("", call("a")), tool_result("a", "1")]
    assert check.holds(history)
    assert check.holds(Unread([*history, user_message("b")]))


def test_words_that_name_a_call_are_no_picture_of_it():
    words = UserMessage([Text(text="so?")], tool_call_id="a")
    history = [says("", call("a")), tool_result("a", "1"), user_message("x"), words]
    assert is_paired(history)
    assert repair(history).messages == history


@pytest.mark.parametrize("place", [1, 2])
def test_a_real_result_beats_a_synthetic_one(place: int):
    results = [tool_result("a", "made up", synthetic=True)]
    results.insert(place - 1, tool_result("a", "real"))
    done = repair([says("", call("a")), *results])
    assert [text_of(m) for m in done.messages] == ["", "real"]
    assert (done.dropped, done.synthesized) == (1, 0)


def test_a_real_result_fills_the_place_of_a_synthetic_one_of_the_same_id():
    made, real = tool_result("a", "made up", synthetic=True), tool_result("a", "real")
    later = [says("", call("a"), call("a")), made, made, real]
    assert [text_of(m) for m in repair(later).messages[1:]] == ["real", "made up"]
    full = [says("", call("a"), call("a")), made, real, tool_result("a", "other")]
    assert [text_of(m) for m in repair(full).messages[1:]] == ["real", "other"]
    early = [user_message("go"), real, says("", call("a")), made]
    assert [text_of(m) for m in repair(early).messages] == ["go", "", "real"]


def test_a_history_that_was_replaced_is_walked_whole():
    check = Check()
    assert check.holds([user_message("a"), user_message("b")])
    assert not check.holds([tool_result("x", "1"), user_message("c"), user_message("d")])


def test_open_calls_are_those_of_the_newest_round_without_result():
    asked = [user_message("go"), says("", call("a"), call("b"), call("c"))]
    assert [c.id for c in open_calls(asked)] == ["a", "b", "c"]
    assert [c.id for c in open_calls([*asked, tool_result("b", "2"), picture("b")])] == ["a", "c"]
    assert open_calls([*asked, user_message("so?")]) == []
    assert open_calls([]) == []


def test_a_clean_cut_is_told_without_the_rest():
    history = [user_message("a"), says("", call("a"), call("b")), tool_result("a", "1"), tool_result("b", "2"), picture("b"), user_message("c")]
    assert [i for i in range(-2, 9) if is_clean_cut(history, i) is True] == [0, 1, 5, 6]
    assert [i for i in range(-2, 9) if is_clean_cut(history, i) is False] == [-2, -1, 2, 3, 4, 7, 8]
    assert not is_clean_cut(history[:3], 3), "a result is missing"
    assert is_clean_cut([user_message("a"), user_message("b")], 1)


def test_counts_name_the_smallest_number_of_moves():
    results = [tool_result(i, i) for i in ("c3", "c1", "c2")]
    done = repair([says("", call("c1"), call("c2"), call("c3")), *results, tool_result("zz", "?")])
    assert (done.reordered, done.dropped, done.synthesized) == (1, 1, 0)


def test_a_result_directly_before_its_call_moves_behind_it():
    history = [user_message("go"), tool_result("c", "milk"), says("", call("c")), says("done")]
    done = repair(history)
    assert [text_of(m) for m in done.messages] == ["go", "", "milk", "done"]
    assert (done.reordered, done.synthesized, done.dropped) == (1, 0, 0)


def test_a_result_before_its_call_does_not_beat_the_one_behind_it():
    done = repair([tool_result("c", "early"), says("", call("c")), tool_result("c", "real")])
    assert [text_of(m) for m in done.messages] == ["", "real"]
    assert done.dropped == 1


def test_a_stale_result_before_an_earlier_turn_is_not_taken_for_an_answer():
    history = [tool_result("c", "stale"), user_message("go"), says("hm"), user_message("so"), says("", call("c"))]
    assert repair(history).messages[-1].synthetic


@pytest.mark.parametrize("stop", ["aborted", "error"])
def test_an_aborted_message_keeps_its_call_and_the_result(stop: str):
    history = [user_message("go"), says("Reading", call("c"), stop=stop), tool_result("c", "r"), user_message("on")]
    assert repair(history).messages == history


def test_no_cut_inside_a_group_or_before_its_pictures():
    history = [user_message("a"), says("", call("c")), tool_result("c", "r"), picture("c"), user_message("b")]
    assert cut_points(history) == [0, 1, 4, 5]
    assert cut_points(history[:2]) == [0, 1]
    assert cut_points([]) == [0]


# --- properties ---------------------------------------------------------------------------------------------------

EXAMPLES = int(os.environ.get("ORKAS_EXAMPLES", "400"))
"""Histories a property is tried on; a mutation test takes fewer."""

IDS = st.sampled_from(["", "a", "b", "c", "a_2", "call_1"])


@st.composite
def damaged_histories(draw: st.DrawFn) -> list[Message]:
    """Histories that began well and were then cut, doubled, shuffled and mislabelled."""
    history: list[Message] = []
    words = iter(range(10_000))
    for _ in range(draw(st.integers(0, 6))):
        history.append(user_message(f"u{next(words)}"))
        ids = draw(st.lists(IDS, max_size=4))
        history.append(says(f"a{next(words)}", *map(call, ids)))
        history += [tool_result(id, f"r{next(words)}", synthetic=draw(st.booleans())) for id in ids]
        history += [picture(id) for id in ids if draw(st.integers(0, 3)) == 0]
    for _ in range(draw(st.integers(0, 6))):
        if history:
            at = draw(st.integers(0, len(history) - 1))
            match draw(st.sampled_from(["drop", "double", "move", "orphan", "speak"])):
                case "drop":
                    del history[at]
                case "double" if isinstance(history[at], ToolMessage):
                    history.insert(draw(st.integers(0, len(history))), history[at])
                case "move":
                    history.insert(draw(st.integers(0, len(history) - 1)), history.pop(at))
                case "orphan":
                    history.insert(at, tool_result(draw(IDS), "orphan"))
                case "speak":
                    history.insert(at, user_message(f"s{next(words)}"))
    return history


@settings(max_examples=EXAMPLES, deadline=None)
@given(damaged_histories())
def test_any_history_is_repaired(history: list[Message]):
    copy = list(history)
    done = repair(history)
    assert history == copy, "the input was changed"
    assert_invariants(history, done.messages)
    assert is_paired(done.messages)
    assert [encode(m) for m in repair(copy).messages] == [encode(m) for m in done.messages]
    real = sum(isinstance(m, ToolMessage) for m in history)
    assert sum(isinstance(m, ToolMessage) for m in done.messages) == real - done.dropped + done.synthesized


@settings(max_examples=EXAMPLES, deadline=None)
@given(damaged_histories())
def test_paired_means_that_repair_has_nothing_to_do(history: list[Message]):
    done = repair(history)
    same = len(done.messages) == len(history) and all(x is y for x, y in zip(done.messages, history, strict=True))
    assert is_paired(history) == same == (not done.changed)


@settings(max_examples=EXAMPLES, deadline=None)
@given(damaged_histories())
def test_every_cut_point_gives_two_paired_halves(history: list[Message]):
    paired = repair(history).messages
    points = cut_points(paired)
    assert points == [i for i in range(len(paired) + 1) if is_clean_cut(paired, i)]
    for i in points:
        assert is_paired(paired[:i])
        assert is_paired(paired[i:])
    for i in set(range(len(paired) + 1)) - set(points):
        inside = isinstance(paired[i], ToolMessage) or paired[i].origin == "tool_image"
        assert inside, "a clean place was refused"


@settings(max_examples=EXAMPLES, deadline=None)
@given(damaged_histories())
def test_a_real_result_behind_its_only_call_is_never_lost(history: list[Message]):
    made = Counter(c.id for m in history for c in calls_of(m))
    after = repair(history).messages
    for i, m in enumerate(history):
        for wanted in calls_of(m):
            results = [r for r in history[i:] if isinstance(r, ToolMessage) and r.tool_call_id == wanted.id]
            real = [r for r in results if not r.synthetic]
            if made[wanted.id] == 1 and wanted.id and real:
                kept = [text_of(r) for r in after if isinstance(r, ToolMessage)]
                assert text_of(real[0]) in kept
