"""Where everything lies that Orkas stores."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["home", "make_private"]


_known: dict[str, Path] = {}


def home() -> Path:
    """Root of everything Orkas stores: ``ORKAS_HOME``, else the platform's folder for user data. Not created here."""
    if given := os.environ.get("ORKAS_HOME"):
        if given not in _known:
            place = Path(given).expanduser()
            if given.startswith("~") or not place.is_absolute():
                return place.absolute()  # it depends on who we are or where
            _known[given] = place
        return _known[given]
    import platformdirs

    return Path(platformdirs.user_data_dir("orkas", appauthor=False))


def make_private(folder: Path) -> None:
    """Make a folder, and the parents it lacks, for their owner alone whatever the umask is. Nothing is flushed.

    Raises:
        OSError: it cannot be made, or a file has its name.
    """
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
