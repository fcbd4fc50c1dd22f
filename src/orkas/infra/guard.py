"""Which addresses of the network may be reached on the word of somebody else: a model, a page, a redirect.

Public ones, by http and https, on ports 80 and 443; what the user allows beside them; never what answers with the
credentials of a cloud machine. An address is read by one parser, here, and what was read is what is opened; a name
counts as all the addresses it stands for, and the connection goes to one of those that were checked.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from orkas.infra.errors import PolicyError
from orkas.infra.threads import in_thread

__all__ = [
    "Allowed", "Guard", "Lookup", "Misspelled", "Refused", "Target", "forbidden", "host_named", "host_of",
    "is_metadata",
]  # fmt: skip

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Name and port → the addresses it stands for, as text. Raises OSError when it stands for none."""


class Refused(PolicyError):
    """The address may not be reached; nothing was sent to it."""


class Misspelled(Refused):
    """It has not the plain form of an address. The sentence shows it as it was given."""


# Addresses


def _networks(text: str) -> tuple[Any, ...]:
    return tuple(ipaddress.ip_network(word) for word in text.split())


_HIDDEN_V4 = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24"
    " 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
"""IANA's registry of special addresses (RFC 6890 and its updates), and the channel of Azure. ``is_global`` of Python
differs between its versions and lets several of these through."""
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
"""All that is given out for use on the internet; everything else is special by itself."""
_HIDDEN_V6 = _networks("2001::/23 2001:db8::/32 3fff::/20")
_IN_USE_V6 = _networks("2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48")
"""Inside the block of the IETF's own, and public."""

_METADATA = _networks(
    "169.254.0.0/16 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32"
    " fd00:ec2::/32 fd20:ce::254/128 fd00:42::42/128 fe80::a9fe:a9fe/128"
)
"""Where cloud machines are told their credentials (AWS, Google, Azure, Alibaba, Oracle, Tencent, Scaleway)."""
_METADATA_NAMES = frozenset(["metadata", "metadata.google.internal", "metadata.goog", "instance-data"])

_CARRYING = _networks("::ffff:0:0/96 ::ffff:0:0:0/96 ::/96 64:ff9b::/96")
"""An IPv4 address in the last 32 bits: mapped, translated (SIIT), compatible, NAT64."""
_AS_INNER = _networks("::ffff:0:0/96 64:ff9b::/96 2001::/32")
"""As public as the IPv4 address inside: mapped, NAT64 (as names stand for in networks without IPv4), Teredo."""
_NAT64_LOCAL = ipaddress.ip_network("64:ff9b:1::/48")
_SIX_TO_FOUR = ipaddress.ip_network("2002::/16")
_TEREDO = ipaddress.ip_network("2001::/32")
_ISATAP = (0x00005EFE, 0x02005EFE)


def _inner(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that packets to this one may end at."""
    number = int(address)
    last = number & 0xFFFFFFFF
    found: list[int] = []
    if any(address in network for network in _CARRYING):
        found.append(last)
    elif address in _NAT64_LOCAL:  # RFC 6052: the place depends on a prefix that only its network knows
        found += [last, (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF]
    elif address in _SIX_TO_FOUR:
        found.append(number >> 80 & 0xFFFFFFFF)
    elif address in _TEREDO:
        found += [number >> 64 & 0xFFFFFFFF, last ^ 0xFFFFFFFF]
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(last)
    return [ipaddress.IPv4Address(value) for value in found]


def is_metadata(address: Address) -> bool:
    """Whether this is, or leads to, where a cloud tells its machines their credentials."""
    inner = _inner(address) if address.version == 6 else []
    return any(one in network for one in (address, *inner) for network in _METADATA if one.version == network.version)


def forbidden(address: Address) -> str:
    """Why this is no public address of the internet, in a few words; empty when it is one."""
    if is_metadata(address):
        return "an address where clouds keep credentials"
    if isinstance(address, ipaddress.IPv4Address):
        return _what(address) if any(address in network for network in _HIDDEN_V4) else ""
    if hidden := [one for one in _inner(address) if forbidden(one)]:
        return _what(address if address.is_loopback or address.is_unspecified else hidden[0])
    if any(address in network for network in _AS_INNER):
        return ""
    public = address in _PUBLIC_V6 and not any(address in network for network in _HIDDEN_V6)
    return "" if public or any(address in network for network in _IN_USE_V6) else _what(address)


def _what(address: Address) -> str:
    if address.is_loopback:
        return "an address of this machine"
    if address.is_multicast or address.is_unspecified:
        return "no address of one machine"
    if address.is_private or address.is_link_local:
        return "an address of a private or reserved network"
    return "an address that is reserved"


# Addresses of pages


class Target(msgspec.Struct, frozen=True):
    """A checked address of a page. ``url`` is ASCII and reads the same for every parser."""

    scheme: str
    host: str
    """A name in its ASCII form, or an IP address without brackets; lower case."""
    port: int
    path: str
    """With its query, beginning with ``/``."""
    local: bool = False
    """The user allows this host, also where it is no public one."""

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return f"{self.scheme}://{host}" if self.port == usual else f"{self.scheme}://{host}:{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.path


class Allowed(msgspec.Struct, frozen=True):
    """One entry of ``web.allow``: a host, ``*.domain`` or a network in the form ``10.0.0.0/8``, and perhaps a port."""

    host: str
    port: int | None = None
    """None: the usual two."""

    @classmethod
    def read(cls, text: str) -> Allowed:
        """``localhost:8080``, ``wiki.corp``, ``*.corp``, ``10.0.0.0/8``, ``[fd00::1]:8080``.

        Raises:
            ValueError: it is none of these.
        """
        found = _ENTRY.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is no host, host:port or network")
        host, port = found["v6"] or found["name"], found["port"]
        if port is not None and not 0 < int(port) < 65536:
            raise ValueError(f"{text!r} has no valid port")
        if "/" in host or ":" in host:
            ipaddress.ip_network(host, strict=False)
        return cls(host, int(port) if port is not None else None)

    def covers(self, host: str, port: int) -> bool:
        if port not in ((80, 443) if self.port is None else (self.port,)):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        if self.host == host:
            return True
        address = _address(host)
        if address is None or ("/" not in self.host and ":" not in self.host):
            return False
        network = ipaddress.ip_network(self.host, strict=False)
        return address.version == network.version and address in network


_ENTRY = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>(?:\*\.)?[a-z0-9.-]+(?:/\d{1,2})?|[0-9a-f:]+/\d{1,3}))(?::(?P<port>\d{1,5}))?"
)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_PORT = re.compile(r"[0-9]{0,5}")
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
"""A last label that a resolver may take for a part of an IPv4 address."""
_PORTS = (80, 443)
_LONGEST = 8_000
"""Characters of an address. Servers take about that many."""
_SAFE = "/%:@!$&'()*+,;=~-._?"


class Guard:
    """Decides which addresses may be reached.

    ``allow``: hosts of the user's own network, as ``Allowed.read`` takes them; a host that is not named there is never
    reached on a private address, whatever its name stands for. ``lookup``: who is asked what names stand for; omitted:
    the system.
    """

    def __init__(self, allow: Iterable[str] = (), *, lookup: Lookup | None = None) -> None:
        self._allow = tuple(Allowed.read(entry) for entry in allow)
        self._lookup = lookup or _system_lookup

    def target(self, url: str) -> Target:
        """Read the address of a page.

        Raises:
            Refused: it has not the plain form of one, or names what may not be reached. One sentence says why.
        """
        scheme, host, named_port, path = _taken_apart(url)
        port = named_port if named_port is not None else {"http": 80, "https": 443}[scheme]
        local = any(entry.covers(host, port) for entry in self._allow)
        if port not in _PORTS and not local:
            raise Refused(f"port {port} is not open to the web tools", hint=_allow(host, port))
        target = Target(scheme, host, port, path, local)
        self._check_host(target)
        return target

    def _check_host(self, target: Target) -> None:
        """What can be told without asking what the name stands for."""
        host = target.host
        if host in _METADATA_NAMES:
            raise Refused(f"{host} is where clouds keep credentials", hint="it is never reached from here")
        if (address := _address(host)) is not None:
            self.check(address, target)
        elif not target.local and (host == "localhost" or host.endswith(".localhost")):
            raise Refused(f"{host} is this machine", hint=_allow(host, target.port))

    def check(self, address: Address | str, target: Target) -> None:
        """Raise ``Refused`` when this host may not be reached at this address."""
        parsed = _address(address) if isinstance(address, str) else address
        if parsed is None:
            raise Refused(f"{target.host} stands for something that is no address", hint="try another source")
        if is_metadata(parsed):
            why = "an address where clouds keep credentials"
            raise Refused(f"{_named(target, parsed)} {why}", hint="it is never reached from here")
        if not target.local and (why := forbidden(parsed)):
            raise Refused(f"{_named(target, parsed)} {why}", hint=_allow(target.host, target.port))

    async def addresses(self, target: Target) -> list[str]:
        """All the addresses that the host stands for, each checked: one bad one refuses them all.

        Raises:
            Refused: it may not be reached.
            OSError: it stands for no address.
        """
        if (literal := _address(target.host)) is not None:
            self.check(literal, target)
            return [target.host]
        found = list(dict.fromkeys(await self._lookup(target.host, target.port)))
        if not found:
            raise OSError(f"{target.host} has no address")
        for address in found:
            self.check(address, target)
        return found


_PLAIN = "give one like https://example.org/page"


def _allow(host: str, port: int) -> str:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"only the user can allow it, by adding \"{shown}\" to web.allow in the configuration"


def _named(target: Target, address: Address) -> str:
    return f"{target.host} is" if target.host == str(address) else f"{target.host} stands for {address},"


def host_of(url: str) -> str:
    """The host of a page's address, exactly as it would be reached; empty where this is no address of a page."""
    try:
        return _taken_apart(url)[1]
    except Refused:
        return ""


def host_named(text: str) -> str:
    """A host by itself (``docs.python.org``, ``bücher.de``, ``[fd00::1]``) as an address of it would reach it; empty
    where it is none."""
    return host_of(f"http://{text}/") if not set(text) & set("/?#@") and not re.search(r":\d*\Z", text) else ""


def _taken_apart(url: str) -> tuple[str, str, int | None, str]:
    """Scheme, host, port where one is named, and path. The one place where an address is read.

    Raises:
        Refused: it has not the plain form of one.
    """
    url = url.strip(" ")
    if len(url) > _LONGEST:
        raise Misspelled(f"the address is longer than {_LONGEST:,} characters", hint="give a shorter one")
    if not url.isprintable() or "\\" in url:
        raise Misspelled(f"the address {url[:200]!r} holds characters that no address has", hint=_PLAIN)
    found = _URL.fullmatch(url)
    if found is None or not found["rest"].startswith("//"):
        raise Misspelled(f"{url[:200]!r} is no address of a page", hint=_PLAIN)
    scheme = found["scheme"].lower()
    if scheme not in ("http", "https"):
        raise Misspelled(f"addresses that begin with {scheme[:30]}: cannot be fetched", hint=_PLAIN)
    authority, path = _split(found["rest"][2:])
    return scheme, *_authority(authority), path


def _authority(text: str) -> tuple[str, int | None]:
    if "@" in text:
        raise Refused("the address holds a user name or password, which is not sent", hint="give it without")
    if text.startswith("["):
        inside, closed, rest = text[1:].partition("]")
        host, port = _v6(inside) if closed else "", rest.removeprefix(":")
        if not host or (rest and not rest.startswith(":")):
            raise Misspelled(f"{text[:200]!r} is no host", hint=_PLAIN)
    else:
        name, _, port = text.partition(":")
        host = _plain_name(name)
    if not _PORT.fullmatch(port) or (port and not 0 < int(port) < 65536):
        raise Misspelled(f"{port[:20]!r} is no port", hint=_PLAIN)
    return host, int(port) if port else None


def _split(rest: str) -> tuple[str, str]:
    """Authority, and path with query as they go over the wire. What follows ``#`` stays here."""
    rest = rest.partition("#")[0]
    end = next((n for n, char in enumerate(rest) if char in "/?"), len(rest))
    path = quote(rest[end:], safe=_SAFE)
    return rest[:end], path if path.startswith("/") else "/" + path


def _v6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text)) if "%" not in text else ""
    except ValueError:
        return ""


def _plain_name(name: str) -> str:
    """The name as it goes to a resolver.

    Raises:
        Misspelled: it is not written plainly. Resolvers take ``127.1``, ``0x7f000001``, ``2130706433`` and digits of
            other scripts for addresses; a reader does not.
    """
    host = name.lower()
    if not host.isascii():
        host = _ascii(name)
    if not _NAME.fullmatch(host):
        raise Misspelled(f"{name[:200]!r} is no name of a host", hint=_PLAIN)
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise Misspelled(f"{name[:200]!r} is no plain IPv4 address", hint="write four decimal numbers") from None
    return host


def _ascii(name: str) -> str:
    """A name of other scripts in its ASCII form; empty when it is not written as that script is: full-width or circled
    digits, other dots and the like stand for something else than they look."""
    import idna

    plain = unicodedata.normalize("NFC", name.lower())
    try:
        if idna.uts46_remap(name, std3_rules=True, transitional=False) != plain:
            return ""
        return idna.encode(plain, strict=True).decode()
    except (idna.IDNAError, UnicodeError):
        return ""


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


async def _system_lookup(host: str, port: int) -> list[str]:
    found = await in_thread(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]
