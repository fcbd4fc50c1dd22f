"""Holds the estimate of tokens against real vocabularies, and fits its weights.

    pip install splintr-rs bpe-openai tiktoken numpy scipy
    python bench/tokens/fit.py TEXTS                 # a folder of .txt files, one a kind: the errors
    python bench/tokens/fit.py TEXTS --fit MORE...   # new weights from their first halves

The files in TEXTS weigh most in the fit; MORE are folders of further kinds, so that the weights hold for what nobody
thought of. The truth is the median of nine vocabularies. Nothing is downloaded: all of them come inside the packages.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from orkas.infra import tokens  # noqa: E402

VOCABULARIES = ("o200k_base", "llama3", "deepseek_v3", "qwen3", "glm4", "kimi_k2", "gemma3", "mistral_v3")
"""What ``splintr`` brings; ``cl100k`` comes from ``bpe_openai``."""
LEAST = {
    "letters": 0.05, "digits": 0.25, "marks": 0.1, "spaces": 0.02, "breaks": 0.1, "han": 0.65, "kana": 0.65,
    "hangul": 0.65, "latin": 0.3, "vietnamese": 0.2, "asian": 0.5, "forms": 0.5, "symbols": 0.5, "astral": 1.5,
}  # fmt: skip
"""Lower bounds, so that a text of nothing but one feature is never taken for free."""
UNDER = 1.5
"""How much worse it is to guess too few than too many: compaction would come too late."""
EMPHASIS = {"english": 2.0, "markdown": 2.0, "python": 1.7, "italian": 1.7}
"""Kinds that make up most of what an agent reads, or that the others pull away from."""
RARE = {"armenian": 0.3, "khmer": 0.3, "words_upper": 0.3}
OWN = 3.0
"""Weight of a file of TEXTS against one of MORE."""


class Sample(NamedTuple):
    name: str
    weight: float
    text: str
    truth: float


def vocabularies() -> list[Callable[[str], list[int]]]:
    """Encoders of the nine vocabularies.

    Raises:
        ImportError: a package is missing.
    """
    import tiktoken
    from splintr import Tokenizer
    from tiktoken_ext import openai_public

    found = importlib.util.find_spec("bpe_openai")  # for its data; the package itself is not run
    if found is None or found.origin is None:
        raise ImportError("No module named 'bpe_openai'")
    raw = gzip.decompress((Path(found.origin).parent / "data/cl100k_base.tiktoken.gz").read_bytes())
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines() if line)}
    loader, openai_public.load_tiktoken_bpe = openai_public.load_tiktoken_bpe, lambda *_, **__: ranks
    try:
        cl100k = tiktoken.Encoding(**openai_public.cl100k_base())
    finally:
        openai_public.load_tiktoken_bpe = loader
    return [cl100k.encode_ordinary, *(Tokenizer.from_pretrained(name).encode_ordinary for name in VOCABULARIES)]


def truth(text: str, encoders: list[Callable[[str], list[int]]]) -> float:
    """The median count."""
    return statistics.median(len(encode(text)) for encode in encoders)


def halves(folder: Path, encoders: list[Any], weight: float) -> tuple[list[Sample], list[Sample]]:
    """Samples of the first and of the second halves of all files of a folder."""
    first, second = [], []
    for file in sorted(folder.glob("*.txt")):
        text = file.read_text(encoding="utf-8")
        middle = len(text) // 2
        for half, into in ((text[:middle], first), (text[middle:], second)):
            share = weight * EMPHASIS.get(file.stem, 1) * RARE.get(file.stem, 1)
            into.append(Sample(file.stem, share, half, truth(half, encoders)))
    return first, second


def fit(samples: list[Sample]) -> dict[str, float]:
    """Weights by least squares of the relative error, an underestimate counted ``UNDER`` times."""
    import numpy as np
    from scipy.optimize import lsq_linear

    names = sorted({name for s in samples for name, _ in tokens.features(s.text)})
    shares = np.array([[dict(tokens.features(s.text)).get(n, 0) / s.truth for n in names] for s in samples])
    weight = np.array([s.weight for s in samples])
    least = [LEAST.get(n, 0.0) for n in names]
    solution = np.array(least)
    for _ in range(30):
        error = shares @ solution - 1
        scale = np.sqrt(weight * np.where(error < 0, UNDER, 1.0))
        matrix = np.vstack([shares * scale[:, None], 0.01 * np.eye(len(names))])
        aim = np.concatenate([scale, np.zeros(len(names))])
        solution = lsq_linear(matrix, aim, bounds=(least, np.full(len(names), 4.0))).x
    return {name: round(float(value), 3) for name, value in zip(names, solution, strict=True)}


def errors(samples: list[Sample]) -> dict[str, float]:
    return {s.name: guess(s.text) / s.truth - 1 for s in samples}


def guess(text: str) -> float:
    """The estimate, by the weights as they stand now: a fit changes them."""
    return sum(tokens.WEIGHTS[name] * count for name, count in tokens.features(text))


def table(title: str, found: dict[str, float]) -> None:
    rows = sorted(found.items(), key=lambda row: row[1])
    mean = statistics.fmean(map(abs, found.values()))
    print(f"{title}: mean {mean:.1%}, worst {rows[0][1]:+.0%} {rows[0][0]}, {rows[-1][1]:+.0%} {rows[-1][0]}")
    print("  " + "  ".join(f"{name} {error:+.0%}" for name, error in rows))


def speed(texts: list[str]) -> float:
    """Megabytes a second of processor time."""
    size = sum(len(t.encode()) for t in texts)
    rounds = math.ceil(3e7 / size)
    began = time.process_time()
    for _ in range(rounds):
        for text in texts:
            tokens.estimate(text)
    return size * rounds / (time.process_time() - began) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--fit", nargs="*", type=Path, metavar="MORE")
    given = parser.parse_args()
    encoders = vocabularies()
    first, second = halves(given.texts, encoders, OWN)
    others = [halves(folder, encoders, 1.0) for folder in given.fit or ()]
    if given.fit is not None:
        tokens.WEIGHTS.update(fit([*first, *(s for pair in others for s in pair[0])]))
        print(tokens.WEIGHTS)
    table(str(given.texts.name), errors(second))
    for folder, pair in zip(given.fit or (), others, strict=True):
        table(str(folder.name), errors(pair[1]))
    print(f"{speed([s.text for s in second]):.0f} MB/s")


if __name__ == "__main__":
    main()
