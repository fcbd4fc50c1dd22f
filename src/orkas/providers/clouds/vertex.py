"""Where Vertex AI is reached: the address holds the user's project and a location.

Names of the variables: those of Google's own libraries (``GOOGLE_CLOUD_…``) and of the AI SDK (``GOOGLE_VERTEX_…``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from orkas.infra.errors import UsageError

__all__ = ["address", "is_api_key"]

_PROJECT = ("GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT")
_LOCATION = ("GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION")
_REGIONS = ("us", "eu")
"""Locations that are whole continents, whose hosts are named differently."""
_NAME = re.compile(r"[a-z0-9][a-z0-9.:-]{0,62}")


def is_api_key(key: str | None) -> bool:
    """An API key of Google's, as against the access token of an account."""
    return bool(key) and str(key).startswith(("AIza", "AQ."))


def address(template: str, environ: Mapping[str, str], key: str | None) -> str:
    """The base URL. An API key alone names its project (express mode); an access token does not.

    Raises:
        UsageError: no project is named, or a name is none.
    """
    project, location = _named(_PROJECT, environ), _named(_LOCATION, environ) or "global"
    if not project and is_api_key(key):
        return template.format(host="aiplatform.googleapis.com", place="").rstrip("/")
    if not project:
        raise UsageError("Vertex AI needs the name of your project", hint=f"set {_PROJECT[1]}")
    for name, value in ((_PROJECT[1], project), (_LOCATION[1], location)):
        if not _NAME.fullmatch(value):
            raise UsageError(f"{value!r} in {name} is no name of Google Cloud", hint=f"set {name} to the plain name")
    return template.format(host=_host(location), place=f"projects/{project}/locations/{location}")


def _named(names: tuple[str, ...], environ: Mapping[str, str]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def _host(location: str) -> str:
    if location == "global":
        return "aiplatform.googleapis.com"
    if location in _REGIONS:
        return f"aiplatform.{location}.rep.googleapis.com"
    return f"{location}-aiplatform.googleapis.com"
