"""Which model is taken when nobody has said: the order, and that nothing but loopback is asked."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orkas.providers.discovery import DEFAULT_MODELS, DEMO, PROBE_S, LocalServerRow, choose, discover
from orkas.providers.local import Manifest

Answers = dict[str, Any]


@contextmanager
def server(answers: Answers, *, delay: float = 0.0) -> Generator[tuple[int, list[str]]]:
    """A real server on loopback: path to JSON, or to a (status, headers, bytes)."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            time.sleep(delay)
            body = answers.get(self.path)
            status, headers, data = body if isinstance(body, tuple) else (
                200 if body is not None else 404, {}, json.dumps(body).encode())  # fmt: skip
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                pass  # nobody waited

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running.server_address[1], asked
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def silent() -> Generator[int]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def row(port: int, vendor: str = "llamacpp", variables: tuple[str, ...] = ()) -> LocalServerRow:
    return LocalServerRow(vendor, "A server", f"127.0.0.1:{port}", variables)


MODELS: Answers = {"/v1/models": {"object": "list", "data": [{"id": "text-embed-3"}, {"id": "qwen3:8b"}]}}
TAGS: Answers = {"/api/tags": {"models": [{"name": "llama3.2:3b"}]}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def with_model(home: Path) -> None:
    folder = home / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"GGUF")
    import msgspec

    (folder / "manifest.json").write_bytes(msgspec.json.encode(Manifest("tiny", "model.gguf", 4, "0", "a test")))


def test_the_order_is_named_key_server_installed_demo(home: Path) -> None:
    with_model(home)
    with server(MODELS) as (port, _):
        rows = [row(port)]
        both = {"ORKAS_MODEL": "a/b", "OPENAI_API_KEY": "k"}
        assert choose(both, explicit="c/d", home=home, servers=rows).model == "c/d"
        assert choose(both, home=home, servers=rows).model == "a/b"
        assert choose({"OPENAI_API_KEY": "k"}, home=home, servers=rows).model == DEFAULT_MODELS["OPENAI_API_KEY"]
        assert choose({}, home=home, servers=rows).model == "llamacpp/qwen3:8b"
        steps = discover({}, home=home, servers=rows)
    assert [s.name for s in steps] == ["named", "key", "llamacpp", "installed", "demo"]
    assert choose({}, home=home, servers=[row(closed_port())]).model == "local/tiny"
    assert choose({}, home=home / "other", servers=[row(closed_port())]).model == DEMO


def test_every_step_is_one_plain_sentence(home: Path) -> None:
    with server({"/v1/models": {"data": []}}) as (port, _):
        steps = discover({"OPENAI_API_KEY": "secret-key"}, home=home, servers=[row(port), row(closed_port())])
    assert all(s.text.endswith(".") and "\n" not in s.text and "secret-key" not in s.text for s in steps)
    assert all((s.model is not None) == s.found for s in steps)


def test_the_first_key_of_the_table_wins_and_an_empty_one_counts_as_absent(home: Path) -> None:
    environ = {"ANTHROPIC_API_KEY": "  ", "MISTRAL_API_KEY": "x", "OPENROUTER_API_KEY": "y"}
    assert choose(environ, home=home, servers=[]).model == DEFAULT_MODELS["OPENROUTER_API_KEY"]
    assert choose({"ANTHROPIC_API_KEY": " "}, home=home, servers=[]).model == DEMO


def test_with_a_key_or_a_named_model_no_server_is_asked(home: Path) -> None:
    with server(MODELS) as (port, asked):
        choose({"OPENAI_API_KEY": "k"}, home=home, servers=[row(port)])
        choose({}, explicit="x/y", home=home, servers=[row(port)])
        choose({}, probe=False, home=home, servers=[row(port)])
    assert asked == []


def test_ollama_is_asked_in_its_own_way_and_found_at_the_host_it_names(home: Path) -> None:
    with server(TAGS) as (port, asked):
        for host in (f"127.0.0.1:{port}", f"http://localhost:{port}/", f"0.0.0.0:{port}"):
            ollama = row(closed_port(), "ollama", ("OLLAMA_HOST",))
            assert choose({"OLLAMA_HOST": host}, home=home, servers=[ollama]).model == "ollama/llama3.2:3b"
    assert set(asked) == {"/api/tags"}


@pytest.mark.parametrize("host", ["192.0.2.1:11434", "http://models.example.com", "http://127.0.0.1.example.com:80"])
def test_an_address_elsewhere_is_told_and_never_contacted(home: Path, host: str) -> None:
    began = time.monotonic()
    steps = discover({"OLLAMA_HOST": host}, home=home, servers=[row(1, "ollama", ("OLLAMA_HOST",))])
    assert "is not this machine" in steps[2].text and not steps[2].found
    assert time.monotonic() - began < PROBE_S


def test_a_redirect_is_not_followed(home: Path) -> None:
    with server(MODELS) as (target, asked):
        moved = {"/v1/models": (302, {"location": f"http://127.0.0.1:{target}/v1/models"}, b"")}
        with server(moved) as (port, _):
            assert choose({}, home=home, servers=[row(port)]).model == DEMO
    assert asked == []


def test_slow_and_silent_servers_are_asked_at_once_and_not_waited_for(home: Path) -> None:
    with silent() as dead, server(MODELS, delay=2.0) as (slow, _), server(MODELS) as (quick, _):
        began = time.monotonic()
        found = choose({}, home=home, servers=[row(dead), row(slow), row(dead), row(quick, "vllm")])
        took = time.monotonic() - began
    assert found.model == "vllm/qwen3:8b"
    assert took < 3 * PROBE_S


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'{"data":5}', b'{"data":[{}]}', b'{"data":[null]}', b"\xff\xfe", b'{"models":[]}',
     b'{"data":[{"id":7}]}', b"[" * 100_000],
)  # fmt: skip
def test_whatever_answers_there_does_no_harm(home: Path, body: bytes) -> None:
    paths: Callable[[], Answers] = lambda: dict.fromkeys(("/v1/models", "/api/tags"), (200, {}, body))  # noqa: E731
    with server(paths()) as (port, _):
        rows = [row(port), row(port, "ollama")]
        assert choose({}, home=home, servers=rows).model == DEMO


@pytest.mark.parametrize("host", ["127.0.0.1:notaport", "127.0.0.1:99999", "::::", "[::1", "http://"])
def test_an_unusable_address_does_no_harm(home: Path, host: str) -> None:
    ollama = row(closed_port(), "ollama", ("OLLAMA_HOST",))
    assert choose({"OLLAMA_HOST": host}, home=home, servers=[ollama]).model == DEMO


def test_a_damaged_or_half_installed_model_is_not_found(home: Path) -> None:
    with_model(home)
    (home / "models" / "tiny" / "model.gguf").write_bytes(b"GG")
    (home / "models" / "bad").mkdir()
    (home / "models" / "bad" / "manifest.json").write_bytes(b'{"name":')
    assert choose({}, home=home, servers=[]).model == DEMO
