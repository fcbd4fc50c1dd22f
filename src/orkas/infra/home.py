"""Where everything lies that Orkas stores."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home"]


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
