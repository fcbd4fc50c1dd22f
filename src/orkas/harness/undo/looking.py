"""One path as it is now: nothing is looked at through a link."""

from __future__ import annotations

import os
import stat as st

from orkas.harness.undo.folders import Refused
from orkas.harness.undo.records import Kept
from orkas.harness.undo.scan import state_of
from orkas.harness.undo.vault import hash_of
from orkas.infra.errors import ToolFailed
from orkas.infra.paths import Folder

__all__ = ["look"]


def look(folder: Folder, path: str, *, hashed: bool = True) -> Kept | None:
    """``hashed``: with the hash of the content, where it is a file."""
    name = path.rpartition("/")[2]
    try:
        state = state_of(folder.stat(name))
    except FileNotFoundError:
        return None
    if state.is_link:
        return Kept(state, target=folder.link_target(name))
    if not state.is_file or not hashed:
        return Kept(state)
    try:
        descriptor = _opened(folder, name, state.mode)
    except ToolFailed:
        raise Refused("it is changing just now") from None
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
