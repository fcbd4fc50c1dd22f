"""One path as it is now, reached folder by folder: nothing is looked at through a link."""

from __future__ import annotations

import os
import stat as st
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orkas.harness.undo.records import Kept
from orkas.harness.undo.scan import state_of
from orkas.harness.undo.vault import hash_of
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder, Place

__all__ = ["OnALink", "Refused", "look", "parent"]


class Refused(Exception):
    """This path is left as it is; the words say why."""


class OnALink(Refused):
    """A folder on the way to it is a link."""


@contextmanager
def parent(root: Path, path: str) -> Iterator[Folder]:
    """The folder that holds the path; a link on the way is refused, wherever it leads."""
    above = path.rpartition("/")[0]
    real = Path(os.path.realpath(root / above))
    if real != root / above:
        raise OnALink("a folder on the way to it is a link now")
    place = Place(root, above)
    if not place.real.is_dir():
        raise FileNotFoundError(above)
    with place.folder() as folder:
        yield folder


def look(folder: Folder, path: str) -> Kept | None:
    name = path.rpartition("/")[2]
    try:
        state = state_of(folder.stat(name))
    except FileNotFoundError:
        return None
    if state.is_link:
        return Kept(state, target=folder.link_target(name))
    if not state.is_file:
        return Kept(state)
    try:
        descriptor = _opened(folder, name, state.mode)
    except ToolFailed as error:
        raise Refused(str(error)) from None
    try:
        return Kept(state, hash_of(descriptor))
    finally:
        os.close(descriptor)


def _opened(folder: Folder, name: str, mode: int) -> int:
    """A descriptor to read from, also of a file of ours that we may not read by its mode, which stays as it is."""
    try:
        return folder.open(name)
    except PermissionError:
        folder.chmod(name, st.S_IMODE(mode) | 0o400)
        try:
            return folder.open(name)
        finally:
            folder.chmod(name, st.S_IMODE(mode))
