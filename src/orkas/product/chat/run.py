"""The chat as a process: quiet logs, a terminal that is put back, errors as one sentence on stderr."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from typing import Any

from orkas.infra import terminal
from orkas.infra.errors import OrkasError, UsageError
from orkas.infra.home import home
from orkas.product.chat.choice import choose_screen, plain_for_want_of_packages
from orkas.product.chat.commands import SlashCommands
from orkas.product.chat.history import History
from orkas.product.chat.loop import Chat
from orkas.product.chat.screen import Screen
from orkas.product.chat.signals import Leave, restored_terminal
from orkas.product.chat.start import DEMO, choose_model, greet, make_agent, offer_local_model

__all__ = ["run"]

_OPTIONS = (
    "model", "session", "continue_", "cwd", "system", "tools", "thinking", "approve", "max_rounds",
    "max_retries", "fallback", "image", "debug", "ephemeral", "base_url",
)  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """See ``orkas.product.chat.main``."""
    terminal.prepare()
    options = argparse.Namespace(**{name: getattr(options, name, None) for name in _OPTIONS})
    _quiet_logs(debug=bool(options.debug))
    with restored_terminal():
        try:
            return _talk(options, choose_screen())
        except OrkasError as error:
            if options.debug:
                raise
            return _failed(str(error), 2 if isinstance(error, UsageError) else 1)
        except KeyboardInterrupt:
            return 130
        except Leave as going:
            return going.status
        except Exception as error:
            if options.debug:
                raise
            # a fault of ours: the conversation is on disk, and a traceback helps nobody who did not ask for one
            return _failed(f"internal fault: {type(error).__name__}: {error}. `orkas --debug` shows where.", 1)


def _talk(options: argparse.Namespace, screen: Screen) -> int:
    model, first = _model(options.model, screen)
    agent = make_agent(options, model)
    greet(agent, screen)
    if plain_for_want_of_packages(screen):
        screen.say("This chat is plain; python -m pip install rich prompt-toolkit adds Markdown and colours.", "dim")
    history = History(home() / "history")
    chat = Chat(agent, screen, history, SlashCommands(), images=options.image or (), debug=bool(options.debug))
    chat.tell_session()
    return asyncio.run(chat.run(first))


def _model(given: Any, screen: Screen) -> tuple[Any, str]:
    """The model that was asked for, or the one that is found; and what was typed already."""
    if given is not None:
        return given, ""
    step = choose_model(screen)
    first = ""
    if step.name == DEMO and sys.stdin.isatty() and screen.out.isatty():
        installed, first = offer_local_model(screen)
        if installed:
            step = choose_model(screen)
    return step.model, first


def _failed(text: str, status: int) -> int:
    sys.stderr.write(f"orkas: {terminal.inert(text)}\n")
    return status


def _quiet_logs(*, debug: bool) -> None:
    """Records do not get between the lines of a conversation, unless asked for."""
    if debug:
        logging.basicConfig(level=logging.INFO)
    elif not logging.root.handlers:
        logging.root.addHandler(logging.NullHandler())
