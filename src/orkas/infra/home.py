"""Where everything lies that Orkas stores."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home"]


def home() -> Path:
    """Root of everything Orkas stores: ``ORKAS_HOME``, else the platform's folder for user data. Not created here."""
    if given := os.environ.get("ORKAS_HOME"):
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("orkas", appauthor=False))
