"""The estimate of tokens: near the truth for many kinds of text, never wildly off, linear for any."""

from __future__ import annotations

import random
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkas.infra.tokens import WEIGHTS, bounds, dearest, estimate, features

ROOT = Path(__file__).resolve().parents[1]

# (text, the median count of nine vocabularies, written down once)
KNOWN = [
    ('The quick brown fox jumps over the lazy dog, and nobody in the village noticed anything at all.', 20),
    ('Il gatto dorme sul divano mentre la pioggia cade piano sui tetti della città vecchia.', 23),
    ('Die Sitzung wurde gespeichert; beim nächsten Start geht es genau dort weiter, wo sie aufgehört hat.', 25),
    ('Файл не найден. Проверьте путь и повторите попытку, затем сообщите нам о результате.', 26),
    ('文件已经保存到磁盘,下次打开会话时可以继续之前的工作,不会丢失任何内容。', 22),
    ('ファイルが見つかりませんでした。パスを確認してから、もう一度お試しください。', 24),
    ('파일을 찾을 수 없습니다. 경로를 확인한 다음 다시 시도해 주세요.', 21),
    ('def total(rows: list[int]) -> int:\n    """The sum of all rows."""\n    result = 0\n    for row in rows:\n        result += row\n    return result\n', 39),
    ('{"id": 17, "name": "Anna", "tags": ["alpha", "beta"], "score": 93.25, "active": true}', 34),
    ('2026-03-14T15:09:26.535Z ERROR [worker-3] request_id=9f86d081884c7d65 GET /api/v1/orders/48151 status=500', 47),
    ('d2hhdCBpcyB3cml0dGVuIGhlcmUgaXMgb2Ygbm8gY29uc2VxdWVuY2UgYXQgYWxsCg==', 49),
    ('9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 43),
    ('| name | rows | share |\n|---|---:|---:|\n| left | 120 | 37.5 % |\n| right | 200 | 62.5 % |\n', 40),
    ('SELECT name, COUNT(*) FROM orders WHERE total > 100 GROUP BY name ORDER BY 2 DESC LIMIT 10;', 24),
]


@pytest.mark.parametrize(("text", "count"), KNOWN, ids=lambda v: str(v)[:20])
def test_a_short_text_costs_about_what_vocabularies_say(text: str, count: int) -> None:
    assert 0.7 * count <= estimate(text) <= 1.45 * count


def test_nothing_costs_nothing_and_anything_costs_something() -> None:
    assert estimate("") == 0
    for text in ("a", " ", "\n", "\0", "é", "\u200d", "\ud800", "\U0010ffff", "\x7f"):
        assert estimate(text) >= 1, text


@given(st.text(max_size=400), st.text(max_size=400))
def test_two_texts_cost_about_what_they_cost_alone(a: str, b: str) -> None:
    """What is decided at the seam of two texts is a few tokens: adding up messages is fair."""
    assert abs(estimate(a + b) - estimate(a) - estimate(b)) <= 4


@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=3000))
def test_any_text_has_a_sane_cost(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert (1 if text else 0) <= estimate(text) <= 2 * size + 1
    assert {name for name, _ in features(text)} <= WEIGHTS.keys()


@pytest.mark.parametrize("unit", ["word ", "aB", "\n", " ", "7", "中", "é", "😀", "=", "x1 ", "\ud800"])
def test_a_long_text_costs_in_proportion(unit: str) -> None:
    short, long = estimate(unit * 10_000), estimate(unit * 1_000_000)
    assert long == pytest.approx(100 * short, rel=0.02)


@pytest.mark.parametrize(
    ("name", "first", "last"), [("han", 0x4E00, 0x9FA5), ("kana", 0x3041, 0x30F6), ("hangul", 0xAC00, 0xD7A3)]
)
def test_east_asian_characters_cost_between_half_a_token_and_two(name: str, first: int, last: int) -> None:
    draw = random.Random(name)
    text = "".join(chr(draw.randint(first, last)) for _ in range(10_000))
    assert 6_000 <= estimate(text) <= 20_000
    assert 6_000 <= estimate(chr(first) * 10_000) <= 20_000


def test_scripts_are_told_apart() -> None:
    of = {
        "cyrillic": "привет", "greek": "γεια", "hebrew": "שלום", "arabic": "مرحبا", "thai": "สวัสดี", "devanagari": "नमस्ते",
        "indic": "வணக்கம்", "armenian": "բակն", "vietnamese": "ộ", "asian": "გამარჯობა", "han": "你好", "kana": "こんにちは",
        "hangul": "안녕", "astral": "🎉", "symbols": "→✓", "forms": "ＡＢ", "latin": "éü", "phonetic": "ʃə",
    }  # fmt: skip
    for script, text in of.items():
        assert {name: n for name, n in features(text) if n and name in of} == {script: len(text)}


def test_shape_is_read() -> None:
    counts = dict(features("fooBar  12 345\n\n--x"))
    assert counts == {
        "letters": 7, "humps": 1, "digits": 5, "numbers": 2, "marks": 2, "spaces": 3, "gaps": 2, "breaks": 2, "lines": 1,
    }  # fmt: skip


@pytest.fixture(scope="module")
def bench() -> Any:
    """The fitting script, and through it the vocabularies."""
    sys.path.insert(0, str(ROOT / "bench" / "tokens"))
    try:
        import fit

        return fit, fit.vocabularies()
    except ImportError as missing:
        pytest.skip(f"the vocabularies are not installed: {missing}")
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def found(bench: Any, request: pytest.FixtureRequest) -> dict[str, float]:
    """Relative errors on the second halves of the samples; the weights were fitted on the first."""
    from conftest import SHARED

    folder = SHARED / "bench" / "tokens" / "samples"
    if not folder.is_dir():
        pytest.skip("the samples of text are not beside this checkout")
    fit, encoders = bench
    errors: dict[str, float] = fit.errors(fit.halves(folder, encoders, 1.0)[1])
    return errors


def test_the_estimate_is_near_the_median_of_nine_vocabularies(found: dict[str, float]) -> None:
    assert len(found) >= 20
    assert statistics.fmean(map(abs, found.values())) <= 0.08
    assert min(found.values()) >= -0.15
    assert max(found.values()) <= 0.40


def test_dense_texts_are_never_taken_for_half_of_what_they_cost(bench: Any) -> None:
    import base64

    fit, encoders = bench
    draw = random.Random(3)
    emoji = "".join(chr(draw.choice([*range(0x1F300, 0x1F5FF), *range(0x1F600, 0x1F64F)])) for _ in range(10_000))
    blob = base64.b64encode(draw.randbytes(30_000)).decode()
    for text in (emoji, blob, "😀" * 10_000, draw.randbytes(20_000).hex()):
        assert estimate(text) >= fit.truth(text, encoders) / 2


def test_the_written_counts_are_the_true_ones(bench: Any) -> None:
    fit, encoders = bench
    assert [(text, fit.truth(text, encoders)) for text, _ in KNOWN] == KNOWN


@given(st.text(max_size=300) | st.text(alphabet="aA1. \n\té文🙂\ud800", max_size=300), st.integers(1, 200))
def test_an_estimate_lies_within_its_bounds(text: str, times: int) -> None:
    """Also where the seams of long texts count runs twice."""
    least, most = bounds(text * times)
    assert least <= estimate(text * times) <= most
    assert estimate(text * times) <= dearest(text * times)


@pytest.mark.parametrize("text", ["1\n", "aA", "1 ", "ɐ", "\n \n", " ", "a", "-", "🙂", "1a", "Ế"])
def test_the_dearest_and_the_cheapest_texts_lie_within_their_bounds(text: str) -> None:
    least, most = bounds(text * 20_000)
    assert least <= estimate(text * 20_000) <= most
    assert estimate(text * 20_000) <= dearest(text * 20_000)
