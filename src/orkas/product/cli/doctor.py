"""``orkas doctor``: is this installation well, and what is to be done where it is not.

Changes nothing of the user's, but for ``--repair``: then damaged sessions are repaired, of each a copy is kept.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from orkas.infra import config, environment, log, terminal
from orkas.infra.amounts import counted
from orkas.infra.home import home
from orkas.product.cli import out, parsing

if TYPE_CHECKING:
    from orkas.harness.sessions import checkup

__all__ = ["Finding", "parser"]

LITTLE_SPACE = 200_000_000
"""Bytes free on the disk of the home folder below which a warning is due."""


class Finding(msgspec.Struct):
    """One line. ``problem``: something is broken and ``text`` ends with what to do; the command ends with status 1."""

    area: str
    level: Literal["ok", "note", "warning", "problem"]
    text: str


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas doctor",
        description="Check this installation; each line that is not well says what to do.\n"
        "It changes nothing without --repair.",
        example="orkas doctor --repair",
    )
    own.add_argument("--probes", action="store_true", help="try forty ways out of the sandbox; takes half a minute")
    own.add_argument("--repair", action="store_true", help="repair conversations; a copy of each as it was is kept")
    return parsing.common(own, _do)


def _do(options: argparse.Namespace) -> int:
    from orkas.infra.redact import redact

    checks = [_mended if check is _sessions and options.repair else check for check in _CHECKS]
    checks += [_probes] if options.probes else []
    found = [finding for check in checks for finding in _safely(check)]
    for finding in found:
        finding.text = redact(finding.text)
    if options.json:
        out.data(found)
    else:
        for finding in found:
            _show(finding)
    return int(any(finding.level == "problem" for finding in found))


_LONGEST = 4_000


def _show(finding: Finding) -> None:
    mark, colour = {"ok": ("ok", "green"), "note": ("--", "dim"), "warning": ("!", "yellow"), "problem": ("NO", "red")}[
        finding.level
    ]
    out_mark = terminal.style(f"{mark:<3}", colour, sys.stdout)
    sys.stdout.write(f"{out_mark}{finding.area:<10} {terminal.label(finding.text, _LONGEST)}\n")


def _safely(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - a check that breaks is a finding; the others count
        yield Finding(
            check.__name__.strip("_"), "problem", f"This could not be checked: {type(error).__name__}: {error}."
        )


def _versions() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    from orkas._version import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    parts = []
    for name in ("msgspec", "aiohttp", "platformdirs", "pathspec"):
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Finding("packages", "problem", f"{name} is missing: pip install --force-reinstall orkas-harness")
    yield Finding("version", "ok", f"Orkas {__version__}, Python {python} ({sys.executable}), {', '.join(parts)}.")


def _home() -> Iterator[Finding]:
    import shutil

    root = home()
    nearest = next(p for p in (root, *root.parents) if p.exists())
    if not nearest.is_dir():
        where = f"{root} cannot be made, because {nearest}" if nearest != root else str(root)
        yield Finding("home", "problem", f"{where} is no folder, so nothing can be stored: set ORKAS_HOME to a folder.")
        return
    if problem := _unwritable(nearest):
        where = f"{root} cannot be made: {nearest}" if nearest != root else str(root)
        text = f"{where} cannot be written ({problem}), so nothing can be stored"
        yield Finding("home", "problem", f"{text}: correct its permissions or set ORKAS_HOME.")
        return
    free = shutil.disk_usage(nearest).free
    text = f"{root} is writable, {terminal.size_text(free)} free."
    if free < LITTLE_SPACE:
        yield Finding(
            "home", "warning", f"{text} That is little: free some space before conversations cannot be saved."
        )
    else:
        yield Finding(
            "home",
            "ok",
            text if root.exists() else f"{root} will be made when it is needed, {terminal.size_text(free)} free.",
        )


def _unwritable(folder: Path) -> str:
    """Why nothing can be put there; empty: it can. Tried, because permissions do not tell all, and taken back."""
    import tempfile

    try:
        Path(tempfile.mkdtemp(prefix=".orkas-doctor-", dir=folder)).rmdir()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _settings() -> Iterator[Finding]:
    settings = config.load(tolerant=True)
    for text in settings.broken:
        yield Finding("config", "problem", f"{text}.")
    for text in settings.warnings:
        yield Finding("config", "warning", text)
    from orkas.providers.vendors.own import own

    for text in own().mistakes.values():
        yield Finding("config", "warning", f"{text}.")
    if not settings.broken:
        exists = config.file_path().exists()
        yield Finding(
            "config",
            "ok",
            f"{config.file_path()} {'is in force' if exists else 'does not exist; all settings are defaults'}.",
        )


def _log() -> Iterator[Finding]:
    if problem := log.check():
        yield Finding("log", "problem", f"The log cannot be written: {problem}. Runs go on without it.")
    else:
        yield Finding("log", "ok", f"{log.path()} takes the log.")


def _model() -> Iterator[Finding]:
    from orkas.providers.discovery import discover

    settings = config.load(tolerant=True)
    named = settings.values["model"]
    environ = {**environment.environ, "ORKAS_MODEL": named.value} if named.value else dict(environment.environ)
    steps = list(discover(environ))
    chosen = next(step for step in steps if step.found)
    missed = []
    for step in steps:
        if step.found and step.name not in ("named", "demo"):
            yield Finding("model", "ok", step.text)
        elif not step.found and (step.name in ("named", "key", "installed") or "is not running" in step.text):
            missed.append(_SHORTLY.get(step.name, step.name))
        elif not step.found:
            yield Finding("model", "note", step.text)  # a server that is there, and why it is not taken
    if missed:
        yield Finding("model", "note", f"Looked for and not found: {', '.join(missed)}.")
    if named.value:
        yield from _named_model(named)
    elif chosen.name == "demo":
        yield Finding(
            "model", "warning", "Only the offline demo answers: set a key such as ANTHROPIC_API_KEY, start a local "
            "server, or run `orkas models install local`.",
        )  # fmt: skip
    else:
        yield Finding("model", "ok", f"{chosen.model} is used unless --model says otherwise.")


_SHORTLY = {"named": "a model named by --model, ORKAS_MODEL or `orkas config set model`",
            "key": "a key in the environment (`orkas auth status` names the variables)",
            "ollama": "Ollama", "lmstudio": "LM Studio", "llamacpp": "llama.cpp", "vllm": "vLLM",
            "installed": "an installed local model (`orkas models install local`)"}  # fmt: skip
"""The places where a model is looked for, in the line of what was not found."""


def _named_model(named: config.Setting) -> Iterator[Finding]:
    from orkas.infra.errors import OrkasError
    from orkas.providers.registry import resolve

    try:
        resolve(named.value)
    except OrkasError as error:
        yield Finding(
            "model", "problem", f"{named.value} ({named.origin}) cannot be used: {error}"
        )
    else:
        yield Finding("model", "ok", f"{named.value} is used unless --model says otherwise ({named.origin}).")


def _keys() -> Iterator[Finding]:
    from orkas.product.cli.vendors import rows

    for row in rows():
        if row.key or row.login:
            where = f"{row.key} is set (***)" if row.key else f"a login is stored ({row.login})"
            yield Finding("key", "ok", f"{row.name}: {where}.")
    yield from _stored_logins()


def _stored_logins() -> Iterator[Finding]:
    from orkas.infra.errors import StorageError
    from orkas.infra.secrets import Store

    store = Store()
    try:
        because = store.fallback()
    except StorageError as error:
        yield Finding("key", "problem", f"{error}.")
        return
    if because:
        yield Finding("key", "note", f"The system's keyring could not be used ({because}); keys are in {store.path}.")


def _catalogue() -> Iterator[Finding]:
    from orkas.providers.catalog import file as catalog_file

    if trouble := catalog_file.trouble():
        yield Finding("models", "warning", f"{trouble[0].upper()}{trouble[1:]}.")
    whose = "as refreshed" if catalog_file.refreshed() else "as they came with Orkas"
    text = f"Windows and prices of {counted(catalog_file.count(), 'model')}, of {catalog_file.as_of()}, {whose}."
    yield Finding("models", "ok", text)


def _drawing() -> Iterator[Finding]:
    from orkas.tools.generate_image import obstacle

    model = config.load(tolerant=True)["image.model"]
    if model and (why := obstacle(model)):
        yield Finding("images", "warning", f"No pictures are drawn with {model}: {why}.")
    elif model:
        yield Finding("images", "ok", f"{model} draws pictures for generate_image.")


def _local_model() -> Iterator[Finding]:
    from orkas.product import local_model
    from orkas.providers.local import installed

    if not installed():
        return  # said where models are looked for
    for text in local_model.status():
        yield Finding("local", "note", text)


def _terminal() -> Iterator[Finding]:
    import shutil

    screen = terminal.is_tty(sys.stdout) and terminal.is_tty(sys.stdin)
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    kind = f"a terminal of {shutil.get_terminal_size().columns} columns" if screen else "no terminal, so no chat here"
    colours = "colours" if terminal.colour(sys.stdout) else "no colours"
    yield Finding("terminal", "ok", f"{kind[0].upper()}{kind[1:]}, {colours}, encoding {encoding}.")
    if encoding.lower().replace("-", "") not in ("utf8", "unknown"):
        yield Finding(
            "terminal",
            "warning",
            f"{encoding} cannot show every character; they appear as escapes. LANG=C.UTF-8 helps.",
        )


def _extras() -> Iterator[Finding]:
    if all(find_spec(module) for module in ("rich", "prompt_toolkit")):
        yield Finding("extra", "ok", "The chat has its packages.")
    else:
        yield Finding("extra", "note", "The chat is plain; with more packages it shows more: "
                      "python -m pip install rich prompt-toolkit")  # fmt: skip


def _sessions() -> Iterator[Finding]:
    from orkas.harness.sessions import checkup

    yield from _shelf()
    for found in checkup.look_over():
        yield _unwell(found)


def _mended() -> Iterator[Finding]:
    """As ``_sessions``, and what is broken is repaired: healthy sessions, open ones and newer ones are not touched."""
    from orkas.harness.sessions import checkup

    yield from _shelf()
    for found in checkup.look_over(thorough=True):
        if found.state != "broken":
            yield _unwell(found)
        elif done := checkup.mend(found):
            if done.problem:
                yield Finding("sessions", "problem", f"{done.session} could not be repaired: {done.text}.")
            else:
                text = f"{done.session} was repaired: {done.text}; the file as it was is kept in {done.original}."
                yield Finding("sessions", "ok", text)


def _shelf() -> Iterator[Finding]:
    """How many there are, and what lies among them that belongs to none."""
    from orkas.harness.sessions import checkup

    yield Finding("sessions", "ok", f"{counted(len(checkup.paths()), 'conversation')} in {home() / 'sessions'}.")
    if strays := checkup.strays():
        shown = ", ".join(strays[:_STRAYS_NAMED]) + (
            f" and {len(strays) - _STRAYS_NAMED} more" if len(strays) > _STRAYS_NAMED else ""
        )
        text = f"{shown} among them: of no conversation that is there; move away what you do not need."
        yield Finding("sessions", "note", text)


_STRAYS_NAMED = 5


def _unwell(found: checkup.Finding) -> Finding:
    match found.state:
        case "broken":
            text = f"{found.session} has {found.text}: `orkas doctor --repair` repairs it and keeps a copy."
            return Finding("sessions", "warning", text)
        case "unreadable":
            return Finding("sessions", "problem", f"{found.text}.")
        case _:
            return Finding("sessions", "note", f"{found.session} {found.text}.")


def _undo() -> Iterator[Finding]:
    from orkas.harness import trash
    from orkas.harness.undo import records
    from orkas.tools import changeset

    folders, turns, size = records.usage()
    thrown = trash.entries()
    kept = f"{counted(turns, 'turn')} in {counted(folders, 'folder')} can be taken back"
    kept += f", with {terminal.size_text(size)} of contents"
    bytes_ = terminal.size_text(sum(entry.bytes for entry in thrown))
    limits = "what is older than 30 days, or too much, is removed daily"
    yield Finding("undo", "ok", f"{kept}; {counted(len(thrown), 'file')} in the trash ({bytes_}); {limits}.")
    if waiting := list(changeset.journal().glob("*.json")):
        patches = counted(len(waiting), "patch", "patches")
        text = f"Cut off, or being applied: {patches}; the next turn takes back what was cut off."
        yield Finding("undo", "warning", text)


def _statistics() -> Iterator[Finding]:
    from orkas.harness import statistics

    if problem := statistics.check():
        text = f"What is used cannot be counted: {problem}. Correct {statistics.folder()}; runs go on without it."
        yield Finding("statistics", "warning", text)
    else:
        yield Finding("statistics", "ok", f"What is used is counted in {statistics.folder()}.")


def _sandbox() -> Iterator[Finding]:
    from orkas.infra.sandbox import find

    found = find()
    if config.load(tolerant=True)["sandbox"] == "off":
        yield Finding("sandbox", "warning", "It is off: shell commands run with all your rights. "
                      "`orkas config set sandbox on` puts walls around them again.")  # fmt: skip
    elif found.backend is None:
        yield Finding("sandbox", "problem", f"There is none ({found.why}), so shell commands are refused: install "
                      "bubblewrap, or run them without walls by `orkas config set sandbox off`.")  # fmt: skip
    elif found.why:
        yield Finding("sandbox", "note", f"Shell commands run inside {found.backend.name}, the second best: "
                      f"{found.why}. Installing bubblewrap closes what docs/sandbox.md lists.")  # fmt: skip
    else:
        yield Finding("sandbox", "ok", f"Shell commands run inside {found.backend.name}; "
                      "`orkas doctor --probes` tries to get out.")  # fmt: skip


_PROBES_S = 300.0


def _probes() -> Iterator[Finding]:
    """Forty ways out, tried in a process and a home of their own."""
    import json
    import shlex
    import tempfile

    from orkas.infra.process import attempt, launch

    command = shlex.join([sys.executable, "-m", "orkas.infra.sandbox.probes"])
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory(prefix="orkas-probing-") as folder:
        code, said = attempt(launch(command, cwd=Path(folder), env=env), _PROBES_S)
    results = [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]
    if code == 2:
        yield Finding("probes", "problem", "There is no sandbox to be probed.")
        return
    for result in results:
        if not result["contained"]:
            yield Finding("probes", "warning", f"Not contained: a command can {result['tries']} ({result['name']}); "
                          "docs/sandbox.md tells what each kind of walls leaves open.")  # fmt: skip
    held = sum(result["contained"] for result in results)
    if code not in (0, 1):
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        yield Finding("probes", "problem", f"The probes did not end ({held} were contained): {last}.")
    else:
        yield Finding("probes", "ok", f"{held} of {len(results)} ways out of the sandbox are closed.")


def _rules() -> Iterator[Finding]:
    from orkas.app import builtins
    from orkas.harness.policy.grants import stored
    from orkas.harness.policy.rules import Rules
    from orkas.infra.errors import UsageError

    try:
        rules, granted = list(Rules.load()), stored()
    except UsageError as error:
        yield Finding("policy", "problem", f"No tool runs: {error}")
        return
    if rules or granted:
        always = counted(len(granted), "approval")
        text = f"{counted(len(rules), 'rule')} of yours, {always} for always (`orkas policy grants`)."
        yield Finding("policy", "ok", text)
    for strange in Rules(rules).strange(tool.name for tool in builtins()):
        yield Finding("policy", "note", f"{strange} It is in force, for tools of your own too.")


def _plainly() -> Iterator[Finding]:
    """What a user must know and could think otherwise."""
    yield Finding(
        "approve", "note", "The chat asks before anything is changed; where nobody can be asked (`orkas run`) that is "
        "denied, unless --approve edits or --approve all says otherwise.",
    )  # fmt: skip


_CHECKS = (
    _versions, _home, _settings, _log, _model, _catalogue, _keys, _drawing, _local_model, _terminal, _extras, _sessions,
    _undo, _statistics, _sandbox, _rules, _plainly,
)  # fmt: skip
