"""Searching the web by the vendor of a model, on its own servers: a request of its own to the model's vendor, with
nothing in it but the query, whose answer is read as sources.

One file a form of request: ``messages`` (Anthropic), ``responses`` (OpenAI, xAI), ``content`` (Google). ``offers`` says
which vendors have a search and what it costs. Written after the vendors' documents and recorded answers; none of them
was called.
"""

from orkas.providers.searching.findings import Findings, Source
from orkas.providers.searching.search import Search, offered

__all__ = ["Findings", "Search", "Source", "offered"]
