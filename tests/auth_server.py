"""An authorization server of our own on a loopback socket. Used by ``test_oauth.py`` and ``test_auth.py``.

It rotates refresh tokens and takes each once, as strict servers do; it checks PKCE and the redirect address.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


class AuthServer(ThreadingHTTPServer):
    """``lifetime``: of its access tokens, in seconds. ``before``: called with each form before it is answered; what it
    returns, a status and a body, is the answer instead."""

    daemon_threads = True

    def __init__(self, lifetime: float | None = 3600) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lifetime = lifetime
        self.before: Callable[[dict[str, str]], tuple[int, bytes] | None] = lambda form: None
        self.forms: list[dict[str, str]] = []
        self.good_refresh: set[str] = set()
        self.good_access: set[str] = set()
        self.device: list[str] = []
        """What the next polls of a device login are told; then they get their token."""
        self.keys: list[str] = []
        self.renewals = 0
        self._codes: dict[str, dict[str, str]] = {}
        self._count = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def new_token(self) -> dict[str, Any]:
        n = next(self._count)
        access, refresh = f"access-token-{n:04}-of-the-fake", f"refresh-token-{n:04}-of-the-fake"
        self.good_access.add(access)
        self.good_refresh.add(refresh)
        token: dict[str, Any] = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
        return token | ({"expires_in": self.lifetime} if self.lifetime is not None else {})

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent back to, once its user agreed."""
        code = f"code-{next(self._count):04}-of-the-fake"
        self._codes[code] = query
        back = query.get("callback_url") or query["redirect_uri"]
        state = {"state": query["state"]} if "state" in query else {}
        return back + "?" + urlencode({"code": code} | state)

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            match form.get("grant_type"):
                case "refresh_token":
                    if form["refresh_token"] not in self.good_refresh:
                        return 400, {"error": "invalid_grant", "error_description": f"used up: {form['refresh_token']}"}
                    self.good_refresh.discard(form["refresh_token"])
                    self.renewals += 1
                    return 200, self.new_token()
                case "authorization_code":
                    asked = self._codes.pop(form["code"], None)
                    if asked is None or not _proven(asked, form) or asked["redirect_uri"] != form["redirect_uri"]:
                        return 400, {"error": "invalid_grant"}
                    return 200, self.new_token()
                case kind if kind == DEVICE:
                    said = self.device.pop(0) if self.device else ""
                    return (400, {"error": said}) if said else (200, self.new_token())
        return 400, {"error": "unsupported_grant_type"}

    def key(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self._codes.pop(form.get("code", ""), None)
        if asked is None or not _proven(asked, form):
            return 403, {"error": {"code": 403, "message": "Invalid code or code_verifier"}}
        self.keys.append(f"sk-or-v1-{next(self._count):032}")
        return 200, {"key": self.keys[-1]}


def _proven(asked: dict[str, str], form: dict[str, str]) -> bool:
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return asked.get("code_challenge_method") == "S256" and asked.get("code_challenge") == proof


class _Handler(BaseHTTPRequestHandler):
    server: AuthServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        if parts.path == "/authorize":
            self.send_response(302)
            self.send_header("location", self.server.authorize(query))
            self.send_header("content-length", "0")
            self.end_headers()
        elif bearer in self.server.good_access or bearer in self.server.keys:
            self._say(200, b'{"data": []}')
        else:
            self._say(401, b'{"error": {"message": "invalid token"}}')

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        as_json = self.headers["content-type"] == "application/json"
        form: dict[str, str] = json.loads(data) if as_json else dict(parse_qsl(data.decode()))
        self.server.forms.append(form)
        if (instead := self.server.before(form)) is not None:
            self._say(*instead)
        elif self.path == "/device":
            codes = {"device_code": "device-code-of-the-fake", "user_code": "WDJB-MJHT", "verification_uri": self.server.url}
            self._say(200, json.dumps(codes | {"expires_in": 900, "interval": 5}).encode())
        else:
            status, content = self.server.key(form) if self.path == "/keys" else self.server.token(form)
            self._say(status, json.dumps(content).encode())

    def _say(self, status: int, body: bytes) -> None:
        with suppress(OSError):  # the client was killed
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def authority(lifetime: float | None = 3600) -> Iterator[AuthServer]:
    with AuthServer(lifetime) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
