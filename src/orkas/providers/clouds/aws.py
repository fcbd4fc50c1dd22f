"""Where Amazon Bedrock is reached, and requests signed for it (Signature Version 4).

A bearer key (``AWS_BEARER_TOKEN_BEDROCK``) needs no signature. Names of the variables: those of Amazon's own tools.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from orkas.infra.errors import UsageError

__all__ = ["SECRET", "Signer", "address", "signer"]

SECRET = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - a name
"""The variable that holds the secret half of an access key."""
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d{1,2}")
_HOST = re.compile(r"(?:^|\.)bedrock(?:-runtime)?(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com|api\.aws)")
_DEFAULT = "us-east-1"
"""The region of a signature for an address that names none."""


def address(template: str, environ: Mapping[str, str]) -> str:
    """The base URL in the region of the environment.

    Raises:
        UsageError: none is named there, or what is named is none.
    """
    region = _named(environ)
    if not region:
        raise UsageError("Amazon Bedrock needs a region", hint=f"set {_REGIONS[0]}, for example to {_DEFAULT}")
    if not _REGION.fullmatch(region):
        raise UsageError(f"{region!r} is no region of AWS", hint=f"set {_REGIONS[0]}, for example to {_DEFAULT}")
    url = template.format(region=region)
    return url.replace(".amazonaws.com", ".amazonaws.com.cn", 1) if region.startswith("cn-") else url


def signer(environ: Mapping[str, str]) -> Signer | None:
    """Who signs with the keys of the environment; None where there are none."""
    id, secret = (environ.get(n, "").strip() for n in ("AWS_ACCESS_KEY_ID", SECRET))
    if not id or not secret:
        return None
    return Signer(id, secret, environ.get("AWS_SESSION_TOKEN", "").strip(), _named(environ))


def _named(environ: Mapping[str, str]) -> str:
    return next((value for name in _REGIONS if (value := environ.get(name, "").strip())), "")


class Signer(NamedTuple):
    """An access key of AWS. Its text is masked: the secret never shows."""

    id: str
    secret: str
    token: str = ""
    region: str = ""
    """For addresses that name none."""

    def __repr__(self) -> str:
        return f"Signer({self.id!r}, '***')"

    def headers(
        self,
        method: str,
        url: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        service: str = "bedrock",
        now: datetime | None = None,
    ) -> dict[str, str]:
        """``headers`` and those that sign them, the address and the body. ``now``: the time in UTC."""
        parts = urlsplit(url)
        found = _HOST.search(parts.netloc)
        region = found[1] if found else self.region or _DEFAULT
        stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        signed = {**(headers or {}), "host": parts.netloc, "x-amz-date": stamp}
        if self.token:
            signed["x-amz-security-token"] = self.token
        lines = {name.lower(): " ".join(value.split()) for name, value in signed.items()}
        names = ";".join(sorted(lines))
        canonical = "\n".join((
            method, quote(parts.path or "/", safe="/~"), _query(parts.query),
            *(f"{name}:{lines[name]}" for name in sorted(lines)), "", names, hashlib.sha256(body).hexdigest(),
        ))  # fmt: skip
        scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self.secret}".encode()
        for step in scope.split("/"):
            key = hmac.digest(key, step.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        del signed["host"]  # the transport sends it
        return signed


def _query(query: str) -> str:
    pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{name}={value}" for name, value in pairs)
