"""The walls around a command: what it may write, read and reach, held by the operating system.

``find`` gives the backend in force, or says why there is none: then commands are refused, never run without walls.
``profile`` says what a command of a working folder may; ``Backend.wrap`` says how it is started; ``Restorer`` puts
back what could not be held.
"""

from __future__ import annotations

from orkas.infra.sandbox.finding import Backend, Found, find
from orkas.infra.sandbox.making import profile
from orkas.infra.sandbox.profile import Limits, Profile, Wrapping
from orkas.infra.sandbox.restorer import Restorer

__all__ = ["Backend", "Found", "Limits", "Profile", "Restorer", "Wrapping", "find", "profile"]
