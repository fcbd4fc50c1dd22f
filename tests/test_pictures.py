"""Pictures are looked into before they are let in: what a vendor refuses would fail every later request too."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from PIL import Image as Pillow

from orkas.harness.context.sizes import pixels
from orkas.harness.images import load_image
from orkas.harness.tool import ToolContext
from orkas.infra.errors import ToolFailed, UsageError
from orkas.infra.pictures import MAX_BYTES, fault
from orkas.tools.files import Seen
from orkas.tools.read import ReadFile

KINDS = ("PNG", "JPEG", "GIF", "WEBP")


def drawn(kind: str, size: tuple[int, int] = (60, 40), mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    picture = Pillow.frombytes("L", size, random.Random(1).randbytes(size[0] * size[1])).convert(mode)
    picture.save(out, kind, **options)
    return out.getvalue()


SOUND = [
    *(drawn(kind) for kind in KINDS), drawn("PNG", mode="RGBA"), drawn("PNG", mode="P"), drawn("JPEG", mode="L"),
    drawn("JPEG", progressive=True), drawn("WEBP", lossless=True), drawn("JPEG") + b"\0\0 what a camera adds",
    drawn("GIF", save_all=True, append_images=[Pillow.new("RGB", (60, 40), "red")]), drawn("PNG", (8_000, 1)),
]  # fmt: skip


@pytest.mark.parametrize("data", SOUND)
async def test_sound_pictures_are_given(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    (image,) = (await ReadFile(Seen()).run({"path": "a"}, ToolContext(cwd=tmp_path))).images
    assert load_image(tmp_path / "a") == image
    assert pixels(image.data or "") == Pillow.open(io.BytesIO(data)).size


BAD = {
    "large": (drawn("PNG") + bytes(MAX_BYTES), "3.75 MB|3.9 MB"),
    "wide": (drawn("PNG", (8_001, 1), "1"), "8,001 x 1 pixels"),
    "high": (drawn("JPEG", (1, 8_001), "L"), "1 x 8,001 pixels"),
    "cmyk": (drawn("JPEG", mode="CMYK"), "CMYK"),
    "webp of 12 bytes": (b"RIFF\x04\0\0\0WEBP", "no whole picture"),
    "webp without pixels": (b"RIFF\x20\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(20), "no pixels"),
    "png without pixels": (drawn("PNG")[:33] + b"\0\0\0\0IEND\xaeB`\x82", "no pixels"),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_no_vendor_takes_is_refused_with_the_way_out(tmp_path: Path, name: str) -> None:
    data, words = BAD[name]
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ToolFailed, match=words) as caught:
        await ReadFile(Seen()).run({"path": "a"}, ToolContext(cwd=tmp_path))
    assert "magick" in str(caught.value)
    with pytest.raises(UsageError, match=words):
        load_image(tmp_path / "a")


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_that_ends_anywhere_before_its_end_is_no_picture(kind: str) -> None:
    data = drawn(kind, (24, 16))
    assert fault(data) == ""
    assert all(fault(data[:end]) for end in range(len(data) - 1))


@pytest.mark.parametrize("kind", KINDS)
def test_any_damage_is_an_answer(kind: str) -> None:
    data, chance = drawn(kind, (24, 16)), random.Random(7)
    for _ in range(2_000):
        hurt = bytearray(data)
        hurt[chance.randrange(len(hurt))] = chance.randrange(256)
        assert isinstance(fault(bytes(hurt)), str)
