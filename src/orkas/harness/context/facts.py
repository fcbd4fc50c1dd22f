"""The ledger of exact facts: paths, ids, numbers, names and decisions in the words in which they were said.

A summary is prose by a model and may leave anything out. What is exact is therefore taken out of the replaced messages
without a model, in one linear pass, and stands beside the summary line by line. At the next compaction it is read back
from there, so a fact stays for as long as the bounds allow.

What is a fact, and which ones stay when there are too many: a line counts by who said it (the user, then the model,
then tools), by how rare its words are in what is being replaced, and by how exact it is. A line whose shape comes again
in message after message is a counter or a log, and only its last one is of any use.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, cast

import msgspec

from orkas.infra.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, encode
from orkas.infra.patterns import lazy

__all__ = ["MAX_CHARS", "MAX_FACTS", "MAX_FACT_CHARS", "Fact", "Size", "collect", "parse", "render"]

MAX_FACTS = 128
MAX_FACT_CHARS = 1_000
MAX_CHARS = 24_000
"""Characters of the whole ledger."""

Source: TypeAlias = Literal["user", "assistant", "tool", "detail"]
"""Who said it. ``detail``: what comes again and again, whoever said it; the first to go."""
Size: TypeAlias = Callable[[str], int]
"""Tokens of a text."""


class Fact(msgspec.Struct, frozen=True):
    source: Source
    text: str


def parse(text: str) -> list[Fact]:
    """The facts of a ledger that ``render`` wrote, best first. What is no line of a ledger is passed over."""
    return [Fact(cast("Source", found[1]), found[2]) for found in _LINE.finditer(text)]


def render(facts: Sequence[Fact]) -> str:
    """One line a fact. The form is fixed: ``parse`` reads it at the next compaction."""
    return "\n".join(f"- {fact.source}: {fact.text}" for fact in facts)


_LINE = lazy(r"^- (user|assistant|tool|detail): (.+)$", re.M)


def collect(known: Sequence[Fact], messages: Sequence[Message], *, tokens: int, size: Size) -> list[Fact]:
    """The ledger for what is replaced: the facts known so far and those of ``messages``, best first.

    ``tokens``: what the ledger may weigh.
    """
    corpus = _Corpus()
    for fact in known:
        corpus.remember(fact)
    for message in messages:
        corpus.read(message)
    return _bounded(corpus.ranked(), tokens, size)


def _bounded(facts: Iterable[Fact], tokens: int, size: Size) -> list[Fact]:
    chosen: list[Fact] = []
    chars = weight = 0
    for fact in facts:
        line = render([fact])
        cost = size(line) + 1
        if chars + len(line) + 1 > MAX_CHARS or weight + cost > tokens:
            continue  # a shorter one may still have room
        chosen.append(fact)
        chars, weight = chars + len(line) + 1, weight + cost
        if len(chosen) == MAX_FACTS:
            break
    return chosen


# --- from messages to pieces --------------------------------------------------------------------------------------


def _spoken(message: Message) -> Iterator[tuple[Source, str]]:
    """Every text of a message with who said it; the arguments of calls are the tool's, as its output is."""
    if type(message) is ToolMessage:
        source: Source = "tool"
    elif type(message) is AssistantMessage:
        source = "assistant"
    elif message.origin is not None:  # type: ignore[union-attr]
        return
    else:
        source = "user"
    for block in message.content:
        if type(block) is Text:
            yield source, block.text[:_MOST_READ]
        elif type(block) is ToolCall:
            yield from _arguments(block)


_MOST_READ = 200_000
"""Characters of one text that are looked at."""


def _arguments(call: ToolCall) -> Iterator[tuple[Source, str]]:
    for name, value in (call.arguments or {}).items():
        text = value if isinstance(value, str) else encode(value).decode()
        yield "tool", text[:_MOST_READ] if "\n" in text or len(text) > _PIECE else f"{name}: {text}"


_PIECE = 240
"""Characters of a piece: a sentence or a line of a log. Longer text is taken apart."""
_ENDS = lazy(r"(?<=[.!?;])\s+|(?<=[。！？；])|(?<=[}\]]),\s*")
_COMMA = lazy(r"(?<=[,，、|\t ])")
_ODD = lazy(r"[\x00-\x1f\x7f\u2028\u2029\s]+")


def _pieces(text: str) -> Iterator[str]:
    """Lines; long ones by sentence, longer ones in stretches that end between words."""
    for line in text.splitlines():
        if len(line) <= _PIECE:
            yield line
            continue
        for sentence in _ENDS.split(line):
            yield from [sentence] if len(sentence) <= _PIECE else _stretches(sentence)


def _stretches(text: str) -> Iterator[str]:
    held = ""
    for part in _COMMA.split(text):
        if held and len(held) + len(part) > _PIECE:
            yield held
            held = ""
        held += part
    yield held


# --- what is exact ------------------------------------------------------------------------------------------------

_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_EXACT = lazy(
    r"[/\\][\w.-]{2}"  # paths, URLs
    r"|\w\.[a-z][a-z0-9]{1,4}\b"  # file names
    r"|\w@[\w-]+\.\w"  # addresses
    r"|[A-Za-z]_[A-Za-z]|[A-Z]{2}-[A-Z0-9]|[a-z][A-Z]\w"  # identifiers
    r"|\w\s?(?:=|:=|->|=>)\s?\S"  # assignments
    r"|`[^`]{1,200}`|[\"“「『《][^\"”」』》]{2,60}[\"”」』》]"  # quoted words
    r"|\b[A-Z][a-zà-ÿ]+ [A-Z][a-zà-ÿ]"  # names
    rf"|[{_CJK}]\s?[:：]\s?\S|[一二三四五六七八九十百千万零〇两]+[年月日号號点點元円个個次人]"
)
_DECISION = lazy(
    r"\b(?:use|using|never|always|must|mustn't|don't|do not|instead|rather|prefer|decid|decision|agreed|chose|chosen|"
    r"choice|remember|important|require|should not|only|forbid|avoid|confirm|approved|reject|"
    r"nicht|immer|niemals|statt|entschieden|wichtig|muss|jamais|toujours|plutôt|décid|nunca|siempre|usar|decid|"
    r"sempre|mai|invece|никогда|всегда|нельзя|решили|вместо|важно)"
    r"|不要|不能|必须|必須|使用|改用|决定|決定|采用|採用|禁止|务必|重要|记住|不是|而不|"
    r"使う|使わ|使い|しない|ではなく|決め|必ず|重要|覚え|例外|사용|금지|반드시|결정|대신|중요",
    re.IGNORECASE,
)
_PAIR = lazy(r"^[\s>*-]*(?:export\s+|set\s+)?([A-Za-z_][\w.-]{0,80})\s*=\s*(\S.*?)\s*[;,]?$")
_ALPHABETIC = rf"(?<!\w)[^\W\d_{_CJK}]{{2,}}(?:[_'’-][^\W\d_{_CJK}]+)*(?!\w)|[{_CJK}]{{2}}"
_ALPHA = lazy(_ALPHABETIC)
_WORDS = lazy(f"({_ALPHABETIC})")
_COUNTED = lazy(r"(?<![A-Za-z0-9])[A-Za-z]*[0-9][A-Za-z0-9]*")
_DIGIT = lazy(r"\d")


class _Piece(msgspec.Struct, eq=False):
    source: Source
    text: str
    order: int
    """Place in time; larger is later."""
    alone: bool
    """One of few facts in its text: not a line of something pasted or listed."""


_PASTED = 24
"""Facts in one text beyond which it is a listing, whoever sent it."""
_SHAPE_MOST = 32
"""Pieces of one shape that are looked at, the newest ones."""


class _Corpus:
    """What is being replaced: its facts, and how often its words and shapes come."""

    def __init__(self) -> None:
        self._shapes: dict[str, dict[str, _Piece]] = {}  # by shape, then by text, oldest first
        self._often: Counter[str] = Counter()  # how many pieces have that shape
        self._keys: dict[str, str] = {}  # key=value: the text that holds the newest value
        self._words: Counter[str] = Counter()
        self._messages = 0
        self._order = 0

    def remember(self, fact: Fact) -> None:
        """Take in a fact of the ledger so far."""
        self._admit(_Piece(fact.source, fact.text, self._order, True))

    def read(self, message: Message) -> None:
        words: set[str] = set()
        for source, text in _spoken(message):
            words.update(_ALPHA.findall(text.lower()))
            found = [piece for piece in _tidy(text) if _exact(piece, source)]
            for piece in found:
                self._admit(_Piece(source, piece, self._order, len(found) <= _PASTED))
        self._messages += 1
        self._words.update(words)

    def _admit(self, piece: _Piece) -> None:
        """The first to say a thing is its source; the newest value of a key replaces the older one."""
        self._order += 1
        text = piece.text
        if "=" in text and (pair := _PAIR.match(text)):
            before = self._keys.get(pair[1], text)
            if before != text:
                self._shapes[_shape(before)].pop(before, None)
            self._keys[pair[1]] = text
        shape = _shape(text)
        held = self._shapes.setdefault(shape, {})
        known = held.pop(text, None)
        if known is None:
            self._often[shape] += 1
        elif _RANK[known.source] <= _RANK[piece.source]:
            known.order = piece.order
            piece = known
        held[text] = piece
        if len(held) > _SHAPE_MOST:
            del held[next(iter(held))]

    def ranked(self) -> list[Fact]:
        """Best first. Of a shape that comes again and again only the newest piece, behind all others.

        How often pieces look alike is counted also with the words taken out that are rare here, and by pairs of words
        that follow one another: a log puts its lines together from the same phrases in ever new ways. The weights were
        found by planting facts among noise of a dozen kinds.
        """
        looks = {shape: self._look(shape) for shape in self._often}
        skeletons: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for shape, look in looks.items():
            for skeleton in look.skeletons:
                skeletons[skeleton] += self._often[shape]
            for pair in look.pairs:
                pairs[pair] += self._often[shape]
        total = math.log(sum(self._often.values()) + 2)
        often = max(_OFTEN, self._messages * 0.1)
        scored: list[tuple[float, int, Fact]] = []
        for shape, held in self._shapes.items():
            look = looks[shape]
            count = max(self._often[shape], 1, *[skeletons[one] for one in look.skeletons])
            novelty = 1.0 - math.log(count) / total
            phrases = [0.0 if "?" in pair else math.log(pairs[pair]) for pair in look.pairs] or [math.log(count)]
            phrasing = 1.0 - sum(phrases) / len(phrases) / total
            usual = novelty < _USUAL and count > often
            for piece in list(held.values())[-1:] if usual else held.values():
                source: Source = "detail" if usual else piece.source
                standing = _STANDING[source] if piece.alone or usual else 0.0
                score = 0.5 * novelty + 0.5 * phrasing + 2.0 * look.rarity + standing
                scored.append((score, piece.order, Fact(source, piece.text)))
        best = heapq.nlargest(_CANDIDATES, scored, key=lambda item: item[:2])
        best = [(score + _bonus(fact.text), order, fact) for score, order, fact in best]
        best.sort(key=lambda item: (-item[0], -item[1]))
        return [fact for _, _, fact in best]

    def _look(self, shape: str) -> _Look:
        """What a shape looks like with only the words of many messages left, and with those of very many, where that
        says anything ("the ? ? ? is #" does not); and, from 0 to 1, how rare its rarest words are."""
        parts = _WORDS.split(shape)
        words = parts[1::2]
        if not words:
            return _Look([shape], 0.0, [])
        counts = [self._words[word] for word in words]
        skeletons: list[str] = []
        for share, floor, least in ((0.04, 4, 1 / 3), (0.3, 6, 1 / 2)):
            enough = max(floor, self._messages * share)
            parts[1::2] = [word if count >= enough else "?" for word, count in zip(words, counts, strict=True)]
            left = sum(count >= enough for count in counts)
            if left >= least * len(words) or (left == 0 and not skeletons and share < 0.1):
                skeletons.append("".join(parts))
        enough = max(4, self._messages * 0.04)
        row = ["", *[word if count >= enough else "?" for word, count in zip(words, counts, strict=True)], ""]
        pairs = list(pairwise(row))
        rarest = sorted(counts)[:4]
        common = sum([math.log(count + 1) for count in rarest]) / len(rarest)
        return _Look(skeletons, 1.0 - common / math.log(self._messages + 2), pairs)


class _Look(msgspec.Struct, eq=False):
    skeletons: list[str]
    rarity: float
    pairs: list[tuple[str, str]]
    """Words that follow one another, rare ones as "?"."""


_RANK: dict[Source, int] = {"user": 0, "assistant": 1, "tool": 2, "detail": 3}
_STANDING: dict[Source, float] = {"user": 2.0, "assistant": 0.3, "tool": 0.0, "detail": -1.0}
"""What a piece counts beside its rarity: who said it."""
_USUAL = 0.6
_OFTEN = 20
"""A piece is one of many that look alike when its novelty is below the first and there are more than the second, and
more than a tenth of the messages."""
_CANDIDATES = 2_000
"""Pieces that are looked at more closely: many times what a ledger holds."""


def _bonus(text: str) -> float:
    """For what decides something, and for what is exact."""
    return 0.2 * bool(_DECISION.search(text)) + 0.2 * bool(_DIGIT.search(text) or _EXACT.search(text))


def _tidy(text: str) -> Iterator[str]:
    for piece in _pieces(text):
        one = _ODD.sub(" ", piece).strip()
        if len(one) >= _SHORTEST:
            yield one[:MAX_FACT_CHARS]


_SHORTEST = 3


def _exact(piece: str, source: Source) -> bool:
    """Whether a piece is worth a line: something exact or a decision; of the user, any sentence."""
    if not _WORDY.search(piece):
        return False
    if _DIGIT.search(piece) or _EXACT.search(piece) or _DECISION.search(piece):
        return True
    return source == "user" and len(piece) >= _SAID


_WORDY = lazy(r"[^\W\d_]")
_SAID = 8
"""Characters from which whatever the user said may be a fact: nobody lists the words of decisions in all languages."""


def _shape(piece: str) -> str:
    """The piece with everything that counts taken out."""
    return _COUNTED.sub("#", piece.lower())
