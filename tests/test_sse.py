from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkas.providers.reading.sse import SSE

BODY = (
    b"\xef\xbb\xbf: hello\r\n\r\nevent: a\r\ndata: 1\r\n\r\ndata:2\n\n\n\ndata: x\ndata\ndata:  y\n\n"
    b'id: 7\nretry: 1\n\nevent: b\rdata: caf\xc3\xa9 \xe2\x98\x95\r\rdata: {"last": 1}'
)
EVENTS = [(b"a", b"1"), (b"", b"2"), (b"", b"x\n\n y"), (b"b", "café ☕".encode()), (b"", b'{"last": 1}')]


def events(pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    sse = SSE()
    out: list[tuple[bytes, bytes]] = []
    for piece in pieces:
        out += [(sse.names.get(i, b""), data) for i, data in enumerate(sse.feed(piece))]
    return out + [(sse.names.get(i, b""), data) for i, data in enumerate(sse.end())]


def test_whole() -> None:
    assert events([BODY]) == EVENTS


def test_one_byte_at_a_time() -> None:
    assert events([BODY[i : i + 1] for i in range(len(BODY))]) == EVENTS


@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_any_cutting(at: list[int]) -> None:
    at = sorted(at)
    assert events([BODY[a:b] for a, b in zip([0, *at], [*at, len(BODY)], strict=True)]) == EVENTS


LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"event: e", b"", b": c", b"id: 1", b"data: \xc3\xa9", b"other"]
)


@given(st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=30), st.randoms())
def test_line_ends_mixed_and_cut_anywhere_give_what_the_whole_gives(
    lines: list[tuple[bytes, bytes]], random: object
) -> None:
    body = b"".join(line + end for line, end in lines)
    at = sorted(random.randint(0, len(body)) for _ in range(8))  # type: ignore[attr-defined]
    cut = [body[a:b] for a, b in zip([0, *at], [*at, len(body)], strict=True)]
    assert events(cut) == events([body])


@pytest.mark.parametrize("body", [b"", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\n\n", b": only a comment\n\n"])
def test_bodies_without_events(body: bytes) -> None:
    assert events([body]) == []


def test_a_long_event_in_many_reads_is_not_joined_each_time() -> None:
    sse = SSE()
    piece = b"x" * 100
    sse.feed(b"data: ")
    assert all(sse.feed(piece) == [] for _ in range(20_000))
    (data,) = sse.feed(b"\n\n")
    assert len(data) == 2_000_000
