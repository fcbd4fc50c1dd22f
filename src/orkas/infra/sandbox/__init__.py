"""The walls around a command: what it may write, read and reach, held by the operating system.

``find`` gives the backend in force, or says why there is none: then commands are refused, never run without walls.
``profile`` says what a command of a working folder may; ``Backend.wrap`` says how it is started; ``Guard`` puts back
what could not be held.
"""

from __future__ import annotations

from orkas.infra.sandbox.finding import Backend, Found, find
from orkas.infra.sandbox.guard import Guard
from orkas.infra.sandbox.making import profile
from orkas.infra.sandbox.profile import Limits, Profile, Wrapping

__all__ = ["Backend", "Found", "Guard", "Limits", "Profile", "Wrapping", "find", "profile"]
