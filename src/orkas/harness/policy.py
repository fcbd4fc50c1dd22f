"""Scaffold, replaced by the lead at merge: do not touch."""
from __future__ import annotations
from dataclasses import dataclass, field
from typing import Any
@dataclass
class Verdict:
    verdict: str
    reasons: list[str] = field(default_factory=list)
def check_command(command: str) -> Verdict:
    return Verdict("deny", ["it uses sudo"]) if "sudo" in command else Verdict("allow")
class Policy:
    def __init__(self, mode: str = "all") -> None:
        self.mode = mode
    def decide(self, tool: Any, arguments: dict[str, Any], context: Any) -> Verdict:
        return Verdict("allow")
