"""From options to a conversation: which model and why, which session, which tools."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from orkas._version import __version__
from orkas.app import Agent
from orkas.harness.sessions.names import fresh_name
from orkas.harness.sessions.session import Session
from orkas.infra import environment
from orkas.infra.errors import OrkasError, UsageError
from orkas.infra.home import home, make_private
from orkas.product.chat.screen import Screen
from orkas.providers import discovery

__all__ = ["DEMO", "choose_model", "greet", "make_agent", "offer_local_model"]

DEMO = "demo"
"""The step of the discovery that is taken when nothing was found."""
_QUESTION = "Install a small model that runs on this machine, without a key (1.1 GB)? [y/N] "


def make_agent(options: argparse.Namespace, model: Any) -> Agent:
    """The agent of these options; its session is open.

    Raises:
        OrkasError: an option cannot be met; one sentence says which.
    """
    more: dict[str, Any] = {}
    if options.approve is not None:
        more["approve"] = options.approve
    if options.max_rounds is not None:
        more["max_rounds"] = options.max_rounds
    if options.max_retries is not None:
        more["max_retries"] = options.max_retries
    session = _open_session(options)
    try:
        return Agent(
            model, session=session, cwd=options.cwd, system=options.system or "", tools=_tools(options.tools),
            thinking=options.thinking, sandbox=getattr(options, "sandbox", True), base_url=options.base_url,
            fallback=options.fallback or (), **more,
        )  # fmt: skip
    except BaseException:
        session.close()
        raise


def _open_session(options: argparse.Namespace) -> Session:
    if options.session and options.continue_:
        raise UsageError("--session and --continue exclude one another", hint="give one of them")
    if options.session:
        return Session.open(options.session)
    if options.continue_:
        from orkas.harness.sessions import shelf

        if (last := shelf.last()) is None:
            raise UsageError("there is no earlier session to continue", hint="start without --continue")
        return Session.open(last, create=False)
    if options.ephemeral:
        return Session()
    return Session.open(fresh_name())


def _tools(given: str | Iterable[Any] | None) -> list[Any] | None:
    """What ``--tools`` says; None: the built-in ones."""
    if given is None:
        return None
    if not isinstance(given, str):
        return list(given)
    from orkas.product.cli.agents import tools_for

    return tools_for(given)


def choose_model(screen: Screen) -> discovery.Step:
    """The best model that is found, and why it is that one.

    Local servers are looked for only when nothing was configured; then, when there are none, each step is told.
    """
    steps = discovery.discover(environment.environ, probe=False)
    found = _first(steps)
    if found.name not in ("named", "key"):
        steps = discovery.discover(environment.environ)
        found = _first(steps)
    missed = steps[: steps.index(found)] if found.name == DEMO and not _declined().exists() else []
    for step in [*missed, found]:
        screen.say(step.text, "dim")
    return found


def _first(steps: list[discovery.Step]) -> discovery.Step:
    return next(step for step in steps if step.found)


def offer_local_model(screen: Screen, ask: Callable[[str], str] = input) -> tuple[bool, str]:
    """Tell how to get a real model and offer to install one, once. True: it is installed.

    The string is an answer that was no answer: what the user wants to say to the model.
    """
    screen.say("The demo only shows how this looks. For a real model: set a key, such as ANTHROPIC_API_KEY,", "warning")
    screen.say("start a local server such as ollama, or run: orkas models install local", "warning")
    if _declined().exists():
        return False, ""
    answer = ask(_QUESTION).strip()
    if answer.lower() in ("y", "yes"):
        return _install(screen), ""
    _remember(_declined())
    return False, answer if answer.lower() not in ("", "n", "no") else ""


def _declined() -> Path:
    """There once the offer was declined."""
    return home() / "local-model-declined"


def _remember(declined: Path) -> None:
    """Not to ask again; when that cannot be written, asking again is no harm."""
    try:
        make_private(declined.parent)
        declined.touch(0o600)
    except OSError:
        return


def _install(screen: Screen) -> bool:
    try:
        from orkas.product.local_model import install

        install(progress=lambda text: screen.say(str(text), "dim"))
    except KeyboardInterrupt:
        screen.say("Stopped; `orkas models install local` goes on where it was.", "warning")
    except ImportError as error:
        screen.say(f"It cannot be installed here: {error}.", "error")
    except OrkasError as error:
        screen.say(str(error), "error")
    else:
        return True
    return False


def greet(agent: Agent, screen: Screen) -> None:
    """Two lines: what answers, where it works, and how to get help and leave."""
    screen.say(screen.joined(f"Orkas {__version__}", agent.model, _short(agent.cwd)), "bold")
    kept = f"session {agent.session.id}" if agent.session.path else "session in memory only"
    screen.say(screen.joined(kept, "/help", "Ctrl-D leaves"), "dim")


def _short(path: Path) -> str:
    user = str(Path.home())
    text = str(path)
    return "~" + text[len(user) :] if text == user or text.startswith(user + os.sep) else text
