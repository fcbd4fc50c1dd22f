"""``orkas auth``: log in, log out, and say where keys come from. A key is never shown and never an argument."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from orkas.infra import environment
from orkas.infra.errors import ProviderError, StorageError, UsageError
from orkas.product.cli import out, parsing
from orkas.product.cli.vendors import Row, rows

if TYPE_CHECKING:
    from orkas.providers.accounts.auth import Credentials
    from orkas.providers.accounts.logins import Login
    from orkas.providers.base import AuthStatus

__all__ = ["parser"]


def parser() -> parsing.Parser:
    own = parsing.Parser(
        prog="orkas auth",
        description="Credentials. They come from the environment, else from a login that was stored here.",
    )
    add = parsing.choose(own)
    about = "store a key, read from the terminal without showing it or from standard input; it is checked first"
    login = add("login", _login, about, example="orkas auth login anthropic")
    login.add_argument("vendor", metavar="VENDOR")
    login.add_argument("more", nargs="*", help=argparse.SUPPRESS)
    way = login.add_mutually_exclusive_group()
    way.add_argument("--web", action="store_true", help="log in with a browser, where the vendor offers that")
    way.add_argument("--device", action="store_true", help="log in with a code on any device")
    way.add_argument("--token", action="store_true", help="what is read is a bearer token, not a key")
    way.add_argument("--add", action="store_true", help="keep the keys that are stored; this one stands in for them")
    logout = add("logout", _logout, "forget what is stored for a vendor", example="orkas auth logout anthropic")
    logout.add_argument("vendor", metavar="VENDOR")
    about = "say which keys are found and where; with a vendor, try them; values are never shown"
    status = add("status", _status, about, example="orkas auth status anthropic")
    status.add_argument("vendor", metavar="VENDOR", nargs="?")
    return own


def _row(vendor: str) -> Row:
    found = next((row for row in rows() if row.name == vendor), None)
    if found is None:
        raise UsageError(f"there is no vendor {vendor!r}", hint="`orkas models` lists them")
    return found


# Login


def _login(options: argparse.Namespace) -> int:
    from orkas.product.cli import logging_in
    from orkas.product.cli.agents import settings_for
    from orkas.providers.accounts.auth import Keys
    from orkas.providers.accounts.logins import Login, Logins, Token
    from orkas.providers.registry import resolve

    if options.more:
        hint = f"run `orkas auth login {options.vendor}` and paste it, or pipe it in"
        raise UsageError("a key is no argument: other users could read it there", hint=hint)
    settings_for(argparse.Namespace())  # addresses in the configuration count
    row = _row(options.vendor)
    resolve(f"{row.name}/check")  # has it an address? Asked before its user is
    got = logging_in.credential(row.name, web=options.web, device=options.device, token=options.token)
    checked = _checked(row.name, Keys([got.access], bearer=True) if isinstance(got, Token) else Keys([got]))
    if checked.ok is False:
        raise ProviderError(checked.message, class_="auth", hint="nothing was stored")
    logins = Logins()
    new = Login(token=got) if isinstance(got, Token) else Login(keys=(got,))
    if options.add:
        logins.update(row.account, lambda old: _joined(old, new))
    else:
        logins.put(row.account, new)
    _told(options, row, checked, "token" if isinstance(got, Token) else "key")
    return 0


def _joined(old: Login | None, new: Login) -> Login:
    from orkas.providers.accounts.logins import Login

    return Login(keys=tuple(dict.fromkeys([*(old.keys if old else ()), *new.keys])))


def _told(options: argparse.Namespace, row: Row, checked: AuthStatus, kind: str) -> None:
    facts = _facts(_row(row.name))
    if options.json:
        out.data({**facts, "live": _live(checked)})
    else:
        out.line(f"The {kind} of {row.account} is stored: {facts['stored']}.")
    if checked.reason != "accepted":
        out.warning(f"it is stored all the same: {checked.message}")
    if row.key:
        out.warning(f"{row.key} is set in the environment and goes before what is stored")


def _checked(vendor: str, credentials: Credentials | None = None) -> AuthStatus:
    """What the vendor says of these credentials, or of those that a turn would use."""
    from orkas.product.cli.driving import drive
    from orkas.providers.registry import resolve

    provider, _ = resolve(f"{vendor}/check", credentials=credentials)
    found: list[AuthStatus] = []

    async def ask() -> int:
        try:
            found.append(await provider.validate_auth())
        finally:
            await provider.aclose()
        return 0

    drive(ask())
    return found[0]


def _live(checked: AuthStatus) -> dict[str, Any]:
    return {"ok": checked.ok, "reason": checked.reason, "message": checked.message}


# Logout


def _logout(options: argparse.Namespace) -> int:
    from orkas.providers.accounts.logins import Logins

    row = _row(options.vendor)
    there = row.login is not None
    Logins().put(row.account, None)
    if options.json:
        out.data({"vendor": row.name, "forgotten": there})
    else:
        out.line(f"The login of {row.account} is forgotten." if there else f"There was no login of {row.account}.")
    if row.key:
        out.warning(f"{row.key} is set in the environment and is still used")
    return 0


# Status


def _status(options: argparse.Namespace) -> int:
    from orkas.product.cli.agents import settings_for

    settings_for(argparse.Namespace())  # addresses in the configuration count
    found = [_facts(row) for row in rows() if options.vendor in (None, row.name)]
    if not found:
        raise UsageError(f"there is no vendor {options.vendor!r}", hint="`orkas models` lists them")
    live = _tried(found[0]) if options.vendor else None
    if options.json:
        out.data(found)
    else:
        out.table([(f["vendor"], f["state"], f["from"] or f"set {' or '.join(f['variables'])}") for f in found])
        if live is not None:
            out.line(live.message)
    _say_troubles()
    return 3 if live is not None and live.ok is False else 0


def _tried(facts: dict[str, Any]) -> AuthStatus | None:
    """Ask the vendor, where there is something to ask with; what it says goes into the facts."""
    if not facts["found"] and not facts["stored"] and not (facts["local"] and facts["from"]):
        return None
    live = _checked(facts["vendor"])
    facts["live"] = _live(live)
    return live


def _say_troubles() -> None:
    from orkas.providers.accounts.logins import Logins

    store = Logins().store
    try:
        because = store.fallback()
    except StorageError as error:
        out.warning(str(error))
        return
    if because:
        out.warning(f"the system's keyring could not be used ({because}), so keys are in {store.path}")


def _facts(row: Row) -> dict[str, Any]:
    keys, login = _keys(row)
    token = login.token if login is not None and not row.key else None
    stored = f"file {row.stored_in}" if row.login == "file" else row.login
    here = f"environment {row.key}" if row.key else stored
    found = bool(keys)
    state = "needs no key" if row.local else "no key"
    if here is not None:
        state = "token found" if token else "key found" if found else "unreadable login"
    return {
        "vendor": row.name,
        "found": found,
        "local": row.local,
        "state": state,
        "from": here or (row.base_url if row.local else None),
        "stored": stored,
        "keys": keys,
        "expires": token.expires if token else None,
        "variables": row.variables,
    }


def _keys(row: Row) -> tuple[list[str], Login | None]:
    """The ends of the keys that would be used, and the stored login, which may be another one."""
    from orkas.providers.accounts.auth import environment_keys
    from orkas.providers.accounts.logins import Logins
    from orkas.providers.vendors import table

    try:
        login = Logins().get(row.account) if row.login else None
    except StorageError as error:
        out.warning(str(error))
        login = None
    keys = environment_keys(row.name, table()[row.name], environment.environ)[1]
    if not keys and login is not None:
        keys = [login.token.access] if login.token else list(login.keys)
    return [key.tail for key in keys], login
