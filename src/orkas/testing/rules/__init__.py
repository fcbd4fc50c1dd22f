"""What real vendors refuse, in their own words, as pure functions.

``check_openai_chat``, ``check_openai_responses``, ``check_anthropic``, ``check_google``, ``check_ollama``,
``check_bedrock`` and ``check_cohere`` look at one request body and answer the ``Rejection`` that the vendor would send,
or None. A fake that accepts everything proves nothing: a conversation that these rules let through is one that the
vendors let through.

>>> from orkas.testing import rules
>>> rules.check_openai_chat({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
>>> rules.check_anthropic({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).message
'max_tokens: Field required'
"""

from orkas.testing.rules.anthropic import check_anthropic
from orkas.testing.rules.base import Rejection, check_http, parse_body
from orkas.testing.rules.bedrock import check_bedrock
from orkas.testing.rules.cohere import check_cohere
from orkas.testing.rules.google import check_google
from orkas.testing.rules.ollama import check_ollama
from orkas.testing.rules.openai_chat import check_openai_chat
from orkas.testing.rules.openai_responses import check_openai_responses

__all__ = [
    "Rejection", "check_anthropic", "check_bedrock", "check_cohere", "check_google", "check_http", "check_ollama",
    "check_openai_chat", "check_openai_responses", "parse_body",
]  # fmt: skip
