"""The slash commands, as a table. A line that begins with two slashes is said to the model with one."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orkas.harness.sessions.names import fresh_name
from orkas.infra.amounts import counted
from orkas.infra.errors import OrkasError, ProviderError
from orkas.product.chat.words import one_line, plain_names

if TYPE_CHECKING:
    from orkas.product.chat.loop import Chat

__all__ = ["COMMANDS", "Command", "SlashCommands"]


_LISTED = 10
"""Sessions that ``/session list`` shows."""


@dataclass(frozen=True, slots=True)
class Command:
    usage: str
    help: str
    run: Callable[[Chat, str], Awaitable[None] | None]

    @property
    def name(self) -> str:
        return self.usage.split()[0]

    @property
    def alone(self) -> bool:
        """Nothing follows it."""
        return self.usage == self.name


class SlashCommands:
    """What a line that begins with a slash does; see ``orkas.product.chat.loop.Commands``."""

    @property
    def about(self) -> dict[str, str]:
        return {command.name: command.help for command in COMMANDS}

    def values(self, command: str) -> list[str]:
        """Known models, the last sessions."""
        if command == "/model":
            from orkas.providers.discovery import DEFAULT_MODELS
            from orkas.providers.registry import short_names

            return sorted({*DEFAULT_MODELS.values(), *short_names(), "demo/offline"})
        if command == "/session":
            from orkas.harness.sessions import shelf

            return ["list", *(one.id for one in shelf.list_sessions()[:_LISTED])]
        return []

    async def run(self, chat: Chat, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        command = _ALIASES.get(name) or next((c for c in COMMANDS if c.name == name), None)
        if command is None:
            near = difflib.get_close_matches(name, self.about, 1, 0.4)
            hint = f"Did you mean {near[0]}?" if near else "/help lists the commands."
            chat.screen.say(f"There is no command {name}. {hint} (To say it to the model, begin with //.)", "warning")
            return
        if command.alone and rest.strip():
            chat.screen.say(f"{command.name} takes nothing after it: say {command.name} alone.", "warning")
            return
        try:
            if (work := command.run(chat, rest.strip())) is not None:
                await work
        except OrkasError as error:
            chat.screen.say(str(error), "error")


def _help(chat: Chat, _: str) -> None:
    width = max(len(command.usage) for command in COMMANDS)
    for command in COMMANDS:
        chat.screen.say(f"{command.usage:<{width}}  {command.help}")
    for keys, meaning in chat.keys:
        chat.screen.say(f"{keys:<{width}}  {meaning}", "dim")


def _model(chat: Chat, name: str) -> None:
    if not name:
        chat.screen.say(f"The model is {chat.agent.model}.")
        chat.screen.say("/model vendor/model takes another; `orkas models` lists what there is.", "dim")
        return
    chat.agent.use(name)
    chat.screen.say(f"From now on: {chat.agent.model}")
    if missing := _missing_key(chat.agent.model):
        chat.screen.say(missing, "warning")


def _missing_key(model: str) -> str:
    """What to say when no key for this model is found; empty: it needs none, or there is one."""
    from orkas.providers.accounts.auth import credentials_for
    from orkas.providers.vendors import table

    vendor = model.partition("/")[0]
    row = table().get(vendor)
    try:
        if row is None or row.local or credentials_for(vendor, row).peek() is not None:
            return ""
    except ProviderError as error:
        return f"{error}."
    way = f"run `orkas auth login {vendor}` in another terminal"
    return f"There is no key for {vendor} yet: {way}, or leave, set {row.told_keys(vendor)}, and start again."


def _session(chat: Chat, name: str) -> None:
    if name == "list":
        _list(chat)
    elif name:
        chat.open_session(name, create=False)
    else:
        session = chat.agent.session
        count = len(session.messages)
        size = counted(count, "message")
        chat.screen.say(chat.screen.joined(f"session {session.id}", size, str(session.path or "in memory only")))
        chat.screen.say("/session list shows the last ones, /session ID goes to one.", "dim")


def _list(chat: Chat) -> None:
    from orkas.harness.sessions import shelf

    found = shelf.list_sessions()
    width = max((len(one.id) for one in found[:_LISTED]), default=0)
    for one in found[:_LISTED]:
        here = "*" if one.id == chat.agent.session.id else " "
        when = f"{one.updated[:16].replace('T', ' '):<16}"
        chat.screen.say(f"{here} {one.id:<{width}}  {when}  {one_line(one.title)}".rstrip())
    if len(found) > _LISTED:
        chat.screen.say(f"and {counted(len(found) - _LISTED, 'older one')}; `orkas session list` shows all", "dim")
    if not found:
        chat.screen.say("No session is on disk yet; this one will be after your first message.")


def _stats(chat: Chat, _: str) -> None:
    from orkas.harness import statistics
    from orkas.product import stats

    session = chat.agent.session
    lines = [line for line in statistics.read().lines if line.session == session.id] if session.path else []
    if not lines:
        where = "yet" if session.path else "of it: it lives in memory"
        chat.screen.say(f"Nothing was counted in this conversation {where}.")
        return
    for line in stats.as_lines(stats.report(lines)):
        chat.screen.say(line)
    chat.screen.say("`orkas stats` shows all conversations.", "dim")


def _clear(chat: Chat, _: str) -> None:
    old = chat.agent.session
    chat.open_session(fresh_name())
    if old.messages and old.path:
        chat.screen.say(f"The old one is kept; /session {old.id} goes back to it.", "dim")


def _compact(chat: Chat, keep: str) -> Awaitable[None]:
    return chat.tell(chat.agent.compacting(keep))


async def _uncompact(chat: Chat, _: str) -> None:
    count = await chat.agent.uncompact()
    chat.screen.say(f"{counted(count, 'message')} restored; the summary is gone.")


def _approve(chat: Chat, mode: str) -> None:
    if mode:
        chat.agent.approve = mode  # type: ignore[assignment]  # refused with a sentence when it is none
    about = {
        "ask": "what only reads runs at once; you are asked before anything else",
        "edits": "reading, changing files in this folder and commands inside the sandbox run at once; you are asked "
        "before a command gets the network or leaves the sandbox, changes what git runs or deletes much",
        "all": "everything runs at once, but for what the block list or a rule of yours denies",
        "none": "what only reads runs at once; anything else is denied without asking you",
    }
    chat.screen.say(f"Approval is {chat.agent.approve}: {about[chat.agent.approve]}.")
    if not mode:
        chat.screen.say("/approve ask, edits, all or none changes it for this chat.", "dim")


async def _undo(chat: Chat, _: str) -> None:
    done = await chat.agent.undo()
    for text in done.lines:
        chat.screen.say(text, "warning" if text.startswith("left ") else "plain")
    chat.screen.say("The model is not told; /undo again takes back the turn before.", "dim")


async def _jobs(chat: Chat, said: str) -> None:
    name = said.removeprefix("stop").strip()
    if said.split()[:1] == ["stop"]:
        running = [job.name for job in chat.agent.jobs if job.running]
        for one in [name] if name else running:
            job = await chat.agent.stop_job(one)
            chat.screen.say(f"{job.title}: {job.state}")
        if not name and not running:
            chat.screen.say("No job runs in the background.")
        return
    if said:
        chat.screen.say("Say /jobs to list them, /jobs stop NAME to end one, /jobs stop to end all.", "warning")
        return
    for job in chat.agent.jobs:
        chat.screen.say(f"{job.name}  {job.state}  {one_line(job.command)}")
    if not chat.agent.jobs:
        chat.screen.say("Nothing runs in the background. The model can start it there; it ends when you leave.")


def _thinking(chat: Chat, _: str) -> None:
    chat.screen.whole_thinking = not chat.screen.whole_thinking
    shown = "shown in full" if chat.screen.whole_thinking else "folded to a line"
    chat.screen.say(f"The model's reasoning is {shown} from now on.")


def _expand(chat: Chat, number: str) -> None:
    if number and not number.isdigit():
        chat.screen.say("Say /expand, or /expand and the number of a result, as in /expand 3.", "warning")
        return
    chat.screen.expand(int(number) if number else None)


async def _queue(chat: Chat, text: str) -> None:
    """At the prompt nothing is waited for: it is said at once."""
    if text:
        await chat.turn(plain_names(text, chat.agent.cwd))
    else:
        chat.screen.say("Say /queue and what the model is told when its turn has ended.", "warning")


def _exit(chat: Chat, _: str) -> None:
    chat.leaving = 0


COMMANDS = (
    Command("/help", "what can be typed here", _help),
    Command("/model [NAME]", "show the model, or take another from the next message on", _model),
    Command("/session [list|ID]", "show this conversation, list the last ones, or go to one", _session),
    Command("/stats", "what this conversation has used: tokens, cost, tools", _stats),
    Command("/clear", "start afresh; this conversation stays on disk", _clear),
    Command("/compact [WHAT TO KEEP]", "replace older messages by a summary; they are kept on disk", _compact),
    Command("/uncompact", "take the newest compaction back: the older messages count again", _uncompact),
    Command("/approve [MODE]", "show or change what you are asked about: ask, edits, all or none", _approve),
    Command("/undo", "take back what the last turn did to files", _undo),
    Command("/jobs [stop [NAME]]", "list what runs in the background, or end it", _jobs),
    Command("/thinking", "show the model's reasoning in full, or fold it to a line again", _thinking),
    Command("/expand [N]", "show the whole of a tool's result, the last one by default", _expand),
    Command("/queue TEXT", "while a turn runs: say this to the model when it has ended", _queue),
    Command("/exit", "leave; Ctrl-D does too", _exit),
)
_ALIASES = {"/quit": COMMANDS[-1], "/?": COMMANDS[0]}
