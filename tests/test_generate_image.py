"""Pictures drawn by a vendor's model: what goes out, what comes back, where it is saved, what it costs."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from orkas import Agent, Session, ToolContext, ToolResult, builtins
from orkas.harness.policy import Policy
from orkas.infra import config
from orkas.infra.errors import OrkasError, ToolFailed, UsageError
from orkas.infra.events import ToolEnd
from orkas.infra.guard import Guard
from orkas.infra.messages import Image, UserMessage
from orkas.providers.base import ModelInfo, Price, Rates
from orkas.testing import ScriptedProvider, call
from orkas.tools.generate_image import GenerateImage, configured

from cli_support import orkas  # isort: skip

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////"
    "////////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAI"
    "AQEAAD8AN//Z"
)
B64 = base64.b64encode(PNG).decode()
OPENAI = {"created": 1, "data": [{"b64_json": B64}], "usage": {"input_tokens": 9, "output_tokens": 1056}}
GEMINI = {
    "candidates": [{
        "content": {"role": "model", "parts": [{"text": "Here it is."}, {"inlineData": {"mimeType": "image/png", "data": B64}}]},
        "finishReason": "STOP",
    }],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1290},
}  # fmt: skip
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Studio:
    """Answers one request after another; the last answer stays."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [(200, OPENAI)]
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        studio = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.answer(body)

            def do_GET(self) -> None:
                self.answer(b"")

            def answer(self, body: bytes) -> None:
                studio.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, content, *more = studio.answers.pop(0) if len(studio.answers) > 1 else studio.answers[0]
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def sent(self, at: int = -1) -> Any:
        return json.loads(self.requests[at][2])


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> Iterator[Studio]:
    made = Studio()
    for vendor in ("OPENAI", "GOOGLE", "CUSTOM", "XAI"):
        monkeypatch.setenv(f"{vendor}_BASE_URL", f"http://127.0.0.1:{made.port}")
        monkeypatch.setenv(f"{vendor}_API_KEY", f"key-of-{vendor}")
    yield made
    made.close()


Draw = Callable[..., Any]


async def draw(folder: Path, model: str = "openai/gpt-image-1", tool: GenerateImage | None = None, **given: Any) -> ToolResult:
    given.setdefault("prompt", "A red fox, in the snow!")
    return await (tool or GenerateImage(model)).run(given, ToolContext(folder))


# --- what goes out and comes back ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("vendor", "shape", "size"), [
    ("openai/gpt-image-1", "", None),
    ("openai/gpt-image-1", "landscape", "1536x1024"),
    ("openai/dall-e-3", "portrait", "1024x1792"),
    ("custom/some-drawer", "square", "1024x1024"),
    ("xai/grok-2-image", "", None),
])  # fmt: skip
async def test_openai_draws(studio: Studio, tmp_path: Path, vendor: str, shape: str, size: str | None):
    result = await draw(tmp_path, vendor, shape=shape)
    [(path, headers, _)] = studio.requests
    assert path == "/v1/images/generations"
    assert headers["authorization"] == f"Bearer key-of-{vendor.partition('/')[0].upper()}"
    sent = {"model": vendor.partition("/")[2], "prompt": "A red fox, in the snow!", "n": 1}
    assert studio.sent() == (sent | {"size": size} if size else sent)
    assert (tmp_path / "a-red-fox-in-the-snow.png").read_bytes() == PNG
    assert [p.name for p in tmp_path.iterdir()] == ["a-red-fox-in-the-snow.png"]
    assert result.text.startswith("saved as a-red-fox-in-the-snow.png (70 bytes, image/png)") or "saved as" in result.text
    assert base64.b64decode(result.images[0].data or "") == PNG
    assert result.cost_usd is None and "not counted" in result.text


async def test_openai_changes_pictures(studio: Studio, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.png").write_bytes(PNG)
    (tmp_path / "b.jpg").write_bytes(JPEG)
    await draw(tmp_path, references=["in/a.png", "b.jpg"])
    [(path, headers, body)] = studio.requests
    assert path == "/v1/images/edits"
    mark = re.fullmatch(r"multipart/form-data; boundary=(\S+)", headers["content-type"])
    assert mark
    parts = body.split(f"--{mark[1]}".encode())
    assert parts[-1] == b"--\r\n" and len(parts) == 7
    assert b'name="prompt"\r\n\r\nA red fox, in the snow!\r\n' in parts[2]
    assert parts[4].endswith(b'filename="1.png"\r\ncontent-type: image/png\r\n\r\n' + PNG + b"\r\n")
    assert parts[5].endswith(b'filename="2.jpeg"\r\ncontent-type: image/jpeg\r\n\r\n' + JPEG + b"\r\n")


async def test_gemini_draws_and_changes(studio: Studio, tmp_path: Path):
    studio.answers = [(200, GEMINI)]
    (tmp_path / "a.png").write_bytes(PNG)
    result = await draw(tmp_path, "google/gemini-2.5-flash-image", shape="portrait", references=["a.png"])
    [(path, headers, _)] = studio.requests
    assert path == "/v1beta/models/gemini-2.5-flash-image:generateContent"
    assert headers["x-goog-api-key"] == "key-of-GOOGLE"
    sent = studio.sent()
    assert sent["contents"][0]["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": B64}}
    assert sent["generationConfig"]["imageConfig"] == {"aspectRatio": "9:16"}
    assert "Here it is." in result.text and result.images


async def test_imagen_draws_and_takes_no_pictures(studio: Studio, tmp_path: Path):
    studio.answers = [(200, {"predictions": [{"mimeType": "image/png", "bytesBase64Encoded": B64}]})]
    await draw(tmp_path, "google/imagen-4.0-generate-001", shape="landscape")
    assert studio.requests[0][0] == "/v1beta/models/imagen-4.0-generate-001:predict"
    assert studio.sent()["parameters"]["aspectRatio"] == "16:9"
    (tmp_path / "a.png").write_bytes(PNG)
    with pytest.raises(ToolFailed, match="no pictures to go by"):
        await draw(tmp_path, "google/imagen-4.0-generate-001", references=["a.png"])
    assert len(studio.requests) == 1


async def test_an_address_is_fetched_only_where_the_guard_allows_it(studio: Studio, tmp_path: Path):
    there = f"localhost:{studio.port}"
    named = (200, {"data": [{"url": f"http://{there}/pictures/1.png"}]})
    studio.answers = [named]
    with pytest.raises(OrkasError, match="not open to the web tools"):
        await draw(tmp_path, tool=GenerateImage("openai/dall-e-3", guard=lambda: Guard([])))
    assert [path for path, *_ in studio.requests] == ["/v1/images/generations"]
    studio.answers = [named, (200, JPEG)]
    result = await draw(tmp_path, tool=GenerateImage("openai/dall-e-3", guard=lambda: Guard([there])))
    assert (tmp_path / "a-red-fox-in-the-snow.jpg").read_bytes() == JPEG
    assert result.images[0].media_type == "image/jpeg"
    assert "authorization" not in studio.requests[-1][1], "the key stays with the vendor"
    studio.answers = [named, (403, b"gone")]
    with pytest.raises(ToolFailed, match="could not be fetched"):
        await draw(tmp_path, tool=GenerateImage("openai/dall-e-3", guard=lambda: Guard([there])))


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "status", "body", "said"), [
    ("openai/m", 400, {"error": {"code": "moderation_blocked", "message": "Your request was rejected by the safety system."}},
     "safety system"),
    ("openai/m", 401, {"error": {"code": "invalid_api_key", "message": "Incorrect API key provided"}}, "key"),
    ("openai/m", 404, {"error": {"code": "model_not_found", "message": "The model `m` does not exist"}}, "does not exist"),
    ("openai/m", 200, {"data": []}, "sent no picture"),
    ("openai/m", 200, {"data": [{"b64_json": "%%%"}]}, "sent no picture"),
    ("openai/m", 200, {"data": [{"b64_json": base64.b64encode(b"hello").decode()}]}, "no picture that is known"),
    ("google/gemini-image", 200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT"),
    ("google/gemini-image", 200, {"candidates": [{"finishReason": "IMAGE_SAFETY"}]}, "IMAGE_SAFETY"),
    ("google/gemini-image", 200, {"candidates": [{"content": {"parts": [{"text": "I would rather not."}]}}]}, "rather not"),
    ("google/imagen-4", 200, {"predictions": [{"raiFilteredReason": "Filtered out."}]}, "Filtered out"),
    ("google/imagen-4", 200, [], "sent no picture"),
])  # fmt: skip
async def test_a_refusal_is_a_sentence(studio: Studio, tmp_path: Path, model: str, status: int, body: Any, said: str):
    studio.answers = [(status, body)]
    with pytest.raises(ToolFailed, match=said) as caught:
        await draw(tmp_path, model)
    assert "\n" not in str(caught.value)
    assert len(studio.requests) == 1, "no waiting cures it"
    assert list(tmp_path.iterdir()) == []


async def test_what_waiting_cures_is_asked_again_and_not_for_ever(studio: Studio, tmp_path: Path):
    busy: Answer = (429, {"error": {"message": "slow down"}}, {"retry-after": "0"})
    studio.answers = [busy, (200, b'{"data": [{"b64', {}), (200, OPENAI)]
    said: list[str] = []
    tool = GenerateImage("openai/gpt-image-1")
    await tool.run({"prompt": "fox"}, ToolContext(tmp_path, progress=said.append))
    assert len(studio.requests) == 3
    assert sum("asking again" in text for text in said) == 2
    studio.answers = [busy]
    with pytest.raises(ToolFailed, match="slow down"):
        await draw(tmp_path)
    assert len(studio.requests) == 6


@pytest.mark.parametrize(("given", "said"), [
    ({"prompt": "  "}, "empty"),
    ({"references": ["no.png"]}, "no.png"),
    ({"references": ["../x.png"]}, "outside"),
    ({"references": ["text.txt"]}, "no PNG"),
    ({"references": ["text.txt"] * 5}, "too many"),
    ({"path": "../out"}, "outside"),
    ({"path": "link/out"}, "outside"),
    ({"path": "dangling"}, "outside"),
    ({"path": "x" * 230}, "more than 200 bytes"),
    ({"path": "x" * 300}, "is too long"),
    ({"shape": "round"}, "shape"),
])  # fmt: skip
async def test_bad_wishes_cost_nothing(studio: Studio, tmp_path: Path, given: dict[str, Any], said: str):
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    outside.mkdir()
    (tmp_path / "link").symlink_to(outside)
    (tmp_path / "dangling.png").symlink_to(outside / "made.png")
    (tmp_path / "text.txt").write_text("no picture")
    with pytest.raises(ToolFailed, match=said):
        await draw(tmp_path, **given)
    assert studio.requests == [] and list(outside.iterdir()) == []


# --- where it is saved --------------------------------------------------------------------------------------------


async def test_no_file_is_ever_overwritten(studio: Studio, tmp_path: Path):
    (tmp_path / "FOX.PNG").write_text("mine")
    names = [(await draw(tmp_path, path="fox.png")).text.split()[2] for _ in range(2)]
    assert names == ["fox-2.png", "fox-3.png"]
    assert (tmp_path / "FOX.PNG").read_text() == "mine"


@pytest.mark.parametrize(("prompt", "path", "name"), [
    ("../../etc/passwd", "", "etc-passwd.png"),
    ("***", "", "picture.png"),
    ("Ein Bär, ganz groß: " + "x" * 80, "", "ein-bär-ganz-groß.png"),
    ("熊" * 100, "", "熊" * 40 + ".png"),
    ("fox", "art/deep/", "art/deep/fox.png"),
    ("fox", "art/v1.2", "art/v1.2.png"),
    ("fox", "art/one.JPEG", "art/one.png"),
])  # fmt: skip
async def test_the_name(studio: Studio, tmp_path: Path, prompt: str, path: str, name: str):
    result = await draw(tmp_path, prompt=prompt, path=path)
    assert (tmp_path / name).read_bytes() == PNG
    assert f"saved as {name} " in result.text


async def test_a_picture_is_taken_back_with_its_turn(studio: Studio, tmp_path: Path):
    (tmp_path / "fox.png").write_text("mine")
    script = ScriptedProvider([[call("generate_image", prompt="fox")], "done"])
    agent = Agent(script, tools=[GenerateImage("openai/gpt-image-1")], cwd=tmp_path, approve="edits")
    await agent.run("go")
    assert (tmp_path / "fox-2.png").exists()
    undone = await agent.undo()
    assert "fox-2.png" in str(undone)
    assert [p.name for p in tmp_path.iterdir()] == ["fox.png"]


def test_the_policy_takes_it_for_an_edit(tmp_path: Path):
    for mode, expected in (("ask", "deny"), ("none", "deny"), ("edits", "allow"), ("all", "allow")):
        assert Policy(mode).decide("generate_image", {"prompt": "x", "path": "a"}).verdict == expected  # type: ignore[arg-type]
    assert Policy("edits").decide("generate_image", {"path": ".git/hooks/x"}).verdict == "deny"


# --- in a turn ----------------------------------------------------------------------------------------------------


async def test_the_model_sees_it_behind_the_results(studio: Studio, tmp_path: Path):
    calls = [call("generate_image", prompt="fox", id="a"), call("generate_image", prompt="owl", id="b")]
    script = ScriptedProvider([calls, "done"])
    agent = Agent(script, tools=[GenerateImage("openai/gpt-image-1")], cwd=tmp_path, approve="edits")
    await agent.run("go")
    roles = [(type(m).__name__, getattr(m, "tool_call_id", None)) for m in script.requests[1].messages[2:]]
    assert roles == [("ToolMessage", "a"), ("ToolMessage", "b"), ("UserMessage", "a"), ("UserMessage", "b")]
    shown = script.requests[1].messages[-1]
    assert isinstance(shown, UserMessage) and isinstance(shown.content[0], Image)


PRICED = ModelInfo(context_window=100_000, max_output=1_000, price=Price(Rates(0.0, 0.0, 0.0, 0.0)))


async def test_what_it_costs_is_in_the_turns_cost_and_within_its_limit(studio: Studio, tmp_path: Path):
    script = ScriptedProvider([[call("generate_image", prompt=p)] for p in ("a", "b", "c")] + ["done"], info=PRICED)
    tool = GenerateImage("openai/gpt-image-1", price=0.04)
    agent = Agent(script, tools=[tool], cwd=tmp_path, approve="edits", max_cost=0.1)
    results = [e async for e in agent.stream("go") if isinstance(e, ToolEnd) or e.type == "done"]
    assert [e.is_error for e in results if isinstance(e, ToolEnd)] == [False, False, True]
    assert "pass the cost limit" in results[2].result
    assert results[-1].usage.cost_usd == pytest.approx(0.08)
    assert len(studio.requests) == 2


_NO_PICTURE = base64.b64encode(b"<svg/>").decode()


@pytest.mark.parametrize("answer", [
    {"data": [{"b64_json": _NO_PICTURE}]}, b"<html>busy", b'{"data": [{"b64', {"data": [{"url": "http://169.254.169.254/x.png"}]}, {"data": [{"url": "javascript:x"}]},
    {"data": []}, [], b"",
], ids=range(8))  # fmt: skip
async def test_what_was_answered_is_counted_also_where_no_picture_came_of_it(studio: Studio, tmp_path: Path, answer: Any):
    """Whatever fails behind the answer: five calls of a dollar each do not pass a limit of 1.50."""
    studio.answers = [(200, answer)]
    script = ScriptedProvider([[call("generate_image", prompt=f"fox {n}")] for n in range(5)] + ["done"], info=PRICED)
    agent = Agent(script, tools=[GenerateImage("openai/gpt-image-1", price=1.0)], cwd=tmp_path, approve="edits", max_cost=1.5)
    results = [e async for e in agent.stream("go") if isinstance(e, ToolEnd) or e.type == "done"]
    assert len(studio.requests) == 1 and results[-1].usage.cost_usd == pytest.approx(1.0)
    assert "It may have cost $1.00, which is counted." in results[0].result and results[0].is_error
    assert "pass the cost limit" in results[1].result and list(tmp_path.iterdir()) == []


async def test_a_picture_that_cannot_be_saved_is_counted_and_shown(studio: Studio, tmp_path: Path):
    target = tmp_path / "in"
    target.mkdir()

    class Full(GenerateImage):
        async def _bytes(self, image: Image, context: ToolContext) -> bytes:
            target.rmdir()
            target.write_text("a file stands where the folder was")
            return await super()._bytes(image, context)

    for price, said in ((0.5, "may have cost $0.5"), (None, "not known")):
        result = await draw(tmp_path, tool=Full("openai/gpt-image-1", price=price), path="in/fox")
        assert result.is_error and result.cost_usd == price and said in result.text and "could not be saved" in result.text
        assert base64.b64decode(result.images[0].data or "") == PNG, "it was paid for, and is shown"
        target.unlink()
        target.mkdir()


async def test_a_refused_request_costs_nothing(studio: Studio, tmp_path: Path):
    for status in (400, 401, 404, 500):
        studio.answers = [(status, {"error": {"message": "no"}}, {"retry-after": "0"})]
        with pytest.raises(ToolFailed):
            await draw(tmp_path, tool=GenerateImage("openai/gpt-image-1", price=1.0))


@pytest.mark.parametrize("item", [
    {"b64_json": B64[:60] + "\n" + B64[60:]}, {"b64_json": B64[:40] + "\r\n " + B64[40:] + "\n"}, {"b64_json": "data:image/png;base64," + B64},
    {"url": "data:image/png;base64," + B64}, {"url": " DATA:;base64," + B64}, {"b64_json": B64.rstrip("=")}, {"b64_json": B64.replace("+", "-").replace("/", "_")},
], ids=range(7))  # fmt: skip
async def test_a_picture_is_taken_in_every_form_it_comes_in(studio: Studio, tmp_path: Path, item: dict[str, str]):
    studio.answers = [(200, {"data": [item]})]
    result = await draw(tmp_path)
    assert (tmp_path / "a-red-fox-in-the-snow.png").read_bytes() == PNG and base64.b64decode(result.images[0].data or "") == PNG


async def test_an_unknown_price_is_never_within_a_limit(studio: Studio, tmp_path: Path):
    script = ScriptedProvider([[call("generate_image", prompt="a")], "done"], info=PRICED)
    agent = Agent(script, tools=[GenerateImage("openai/gpt-image-1")], cwd=tmp_path, approve="edits", max_cost=5)
    await agent.run("go")
    assert "not known" in script.requests[1].messages[-1].content[0].text
    assert studio.requests == []


async def test_stop_ends_the_drawing(studio: Studio, tmp_path: Path):
    studio.answers = [(503, {"error": {"message": "busy"}}, {"retry-after": "30"})]
    script = ScriptedProvider([[call("generate_image", prompt="a")], "never"])
    agent = Agent(script, tools=[GenerateImage("openai/gpt-image-1")], cwd=tmp_path, approve="edits", session=Session())
    async for event in agent.stream("go"):
        if event.type == "tool_progress" and "again" in event.text:
            agent.stop()
    assert event.type == "done" and event.outcome == "aborted"
    assert list(tmp_path.iterdir()) == []


# --- whether it is offered ----------------------------------------------------------------------------------------


def test_it_is_offered_where_a_model_and_a_key_are_set(monkeypatch: pytest.MonkeyPatch):
    assert configured() is None
    config.set_value("image.model", "openai/gpt-image-1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert configured() is None
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    tool = configured()
    assert tool is not None and (tool.model, tool.price) == ("openai/gpt-image-1", None)
    config.set_value("image.price", "0.04")
    assert builtins()[-1].price == 0.04  # type: ignore[attr-defined]
    assert "openai/gpt-image-1 draws pictures" in orkas("doctor").out
    monkeypatch.setenv("ORKAS_IMAGE_MODEL", "anthropic/claude-x")
    assert configured() is None, "it speaks no wire of pictures"
    assert "No pictures are drawn with anthropic/claude-x: anthropic draws no pictures here" in orkas("doctor").out
    with pytest.raises(UsageError):
        config.set_value("image.price", "cheap")
