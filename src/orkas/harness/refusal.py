"""A reply in which the model refused to answer, or that the vendor's filter ended: why, in the vendor's own words."""

from __future__ import annotations

from orkas.infra.errors import ProviderError
from orkas.infra.messages import AssistantMessage, Message

__all__ = ["Refusal", "is_refusal", "refusal_notice"]

_REFUSED = ("refusal", "content_filter")
_LONGEST = 600
"""Characters of the vendor's words that are shown."""


def is_refusal(reply: Message) -> bool:
    """Whether the model refused, or was ended by a filter. Some vendors end a refusal like any other answer and only
    put its words elsewhere."""
    if not isinstance(reply, AssistantMessage):
        return False
    return reply.stop_reason in _REFUSED or (reply.stop_reason == "stop" and bool((reply.vendor or {}).get("refusal")))


class Refusal(ProviderError):
    """Ends a turn whose last reply is a refusal without an answer. It is never asked for again."""

    def __init__(self, reply: Message) -> None:
        hint = "say it in other words, or ask another model"
        super().__init__(_sentence(reply), class_="content_filter", hint=hint)


def refusal_notice(reply: Message) -> str:
    """What the user is told beside the words that there are."""
    sentence = _sentence(reply)
    return f"{sentence[0].upper()}{sentence[1:]}" + ("" if sentence.endswith((".", "!", "?")) else ".")


def _sentence(reply: Message) -> str:
    filtered = isinstance(reply, AssistantMessage) and reply.stop_reason == "content_filter"
    said = "the vendor's filter ended the answer" if filtered else "the model refused to answer"
    why = (reply.vendor or {}).get("refusal")
    if not isinstance(why, str) or not (why := " ".join(why.split())):
        return said
    return f"{said}: {why if len(why) <= _LONGEST else why[:_LONGEST] + '…'}"
