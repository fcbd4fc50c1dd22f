"""A newer catalogue on request: fetched from real sockets, checked, stored as a whole; what is broken never counts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import environ, orkas
from orkas.infra.errors import ProviderError, StorageError, UsageError
from orkas.infra.home import home
from orkas.providers import catalog
from orkas.providers.catalog import file as catalog_file
from orkas.providers.catalog import model_info
from orkas.providers.catalog.public import READERS, VENDORS, build
from orkas.providers.catalog.refresh import refresh

DAY = datetime.now(UTC).date()
Shelf = dict[str, bytes]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    catalog.reload()
    yield
    catalog.reload()


@pytest.fixture
def served() -> Iterator[tuple[dict[str, str], Shelf]]:
    """Three catalogues on a socket: their addresses, and what each sends, which a test may change."""
    shelf = published()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = shelf.get(self.path.strip("/"))
            self.send_response(200 if body is not None else 503)
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    yield {name: f"{base}/{name}" for name in READERS}, shelf
    server.shutdown()
    server.server_close()
    thread.join()


def published() -> Shelf:
    """What is known by now, in the forms in which catalogues publish it, and one model more."""
    rows = json.loads(catalog_file._SHIPPED.read_bytes())["vendors"]
    rows["anthropic"]["claude-sonnet-9"] = [500_000, 100_000, "irt", 4, 20, 0.4, 5]
    lite, dev = {}, {}
    for vendor, names in VENDORS.items():
        for name, row in rows[vendor].items():
            window, output, abilities, *prices = [*row, *[None] * 5][:7]
            if names.litellm:
                lite[name if name not in lite else f"{names.litellm[0]}/{name}"] = {
                    "litellm_provider": names.litellm[0], "mode": "chat", "max_input_tokens": window,
                    "max_output_tokens": output, "supports_function_calling": True, "supports_vision": "i" in abilities,
                    "supports_reasoning": "r" in abilities,
                    **{f: p / 1e6 for f, p in zip(COSTS, prices, strict=False) if p is not None},
                }  # fmt: skip
            dev.setdefault(names.modelsdev, {"models": {}})["models"][name] = {
                "limit": {"context": window, "output": output}, "tool_call": True, "reasoning": "r" in abilities,
                "modalities": {"input": ["text", *(["image"] if "i" in abilities else [])], "output": ["text"]},
                "cost": {n: p for n, p in zip(NAMES, prices, strict=False) if p is not None},
            }  # fmt: skip
    genai = [{"id": "anthropic", "models": [
        {"id": "claude-sonnet-9", "match": {"or": [{"equals": "claude-sonnet-9"}, {"regex": "("}]}, "prices": [
            {"prices": {"input_mtok": 90, "output_mtok": 90}},
            {"constraint": {"start_date": str(DAY - timedelta(days=3))}, "prices": {"input_mtok": 4, "output_mtok": 20}},
            {"constraint": {"start_date": str(DAY + timedelta(days=20))}, "prices": {"input_mtok": {"base": 4.5, "tiers": [
                {"start": 200_000, "price": 9}]}, "output_mtok": 21}},
            {"constraint": {"start_date": str(DAY + timedelta(days=90))}, "prices": {"input_mtok": 70, "output_mtok": 70}},
        ]}]}]  # fmt: skip
    return {name: json.dumps(value).encode() for name, value in {"litellm": lite, "modelsdev": dev, "genai": genai}.items()}


COSTS = (
    "input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
)  # fmt: skip
NAMES = ("input", "output", "cache_read", "cache_write")


async def test_a_refresh_is_in_force_at_once_and_nothing_is_unlearnt(served: tuple[dict[str, str], Shelf]) -> None:
    before = {(v, n) for v in VENDORS for n in catalog.names(v)}
    assert model_info("anthropic", "claude-sonnet-9").price is None
    done = await refresh(served[0], today=DAY)
    assert (done.new, done.missed, done.as_of) == (["anthropic/claude-sonnet-9"], [], str(DAY))
    info = model_info("anthropic", "claude-sonnet-9")
    assert info.context_window == 500_000 and info.price is not None
    assert info.price.base.input == 4.5  # announced within a month; what held before and what comes later does not count
    assert [(at, rates.input) for at, rates in info.price.tiers] == [(200_000, 9)]
    assert before <= {(v, n) for v in VENDORS for n in catalog.names(v)}
    assert catalog_file.refreshed() and catalog.as_of() == str(DAY) and not catalog_file.trouble()
    assert catalog.aliases()["sonnet"].startswith("anthropic/")


@pytest.mark.parametrize("broken", [None, b"", b"<html>no</html>", b"[1,2", b"{}", b"[]", b"null", b"\xff\xfe"])
async def test_one_catalogue_may_fail_and_is_told_two_may_not(
    broken: bytes | None, served: tuple[dict[str, str], Shelf]
) -> None:
    addresses, shelf = served
    break_it(shelf, "genai", broken)
    done = await refresh(addresses, today=DAY)
    assert len(done.missed) == 1 and done.missed[0].startswith("genai: ") and addresses["genai"] in done.missed[0]
    data = catalog_file.refreshed_path().read_bytes()
    break_it(shelf, "litellm", broken)
    with pytest.raises(ProviderError, match="nothing was changed"):
        await refresh(addresses, today=DAY)
    assert catalog_file.refreshed_path().read_bytes() == data


def break_it(shelf: Shelf, name: str, broken: bytes | None) -> None:
    if broken is None:
        del shelf[name]
    else:
        shelf[name] = broken


async def test_a_byte_order_mark_is_no_damage(served: tuple[dict[str, str], Shelf]) -> None:
    addresses, shelf = served
    shelf["litellm"] = b"\xef\xbb\xbf" + shelf["litellm"]
    assert (await refresh(addresses, today=DAY)).missed == []


async def test_part_of_a_catalogue_is_none(served: tuple[dict[str, str], Shelf]) -> None:
    addresses, shelf = served
    some = json.loads(shelf["modelsdev"])
    shelf["modelsdev"] = json.dumps({"anthropic": some["anthropic"]}).encode()
    shelf["litellm"] = json.dumps({"x": {"litellm_provider": "anthropic"}}).encode()
    with pytest.raises(ProviderError, match=r"name \d+ models where 1,\d+ are known"):
        await refresh(addresses, today=DAY)
    assert not catalog_file.refreshed_path().exists()


async def test_a_clock_that_is_behind_is_told(served: tuple[dict[str, str], Shelf]) -> None:
    with pytest.raises(UsageError, match="the clock says 2001-01-01"):
        await refresh(served[0], today=date(2001, 1, 1))


async def test_a_disk_that_refuses_changes_nothing(
    served: tuple[dict[str, str], Shelf], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("where the folder should be")
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageError):
        await refresh(served[0], today=DAY)
    catalog.reload()
    assert not catalog_file.refreshed() and model_info("anthropic", "claude-sonnet-4-5").price is not None


def stored(**changed: Any) -> bytes:
    row = [200_000, 8_000, "irt", 1, 2]
    return json.dumps({"as_of": str(DAY), "form": 1, "vendors": {"anthropic": {"claude-x": row}}, **changed}).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "damaged"),
        (b"\x00" * 4_096, "damaged"),
        (b"\xff\xfe{", "damaged"),
        (stored()[:-9], "damaged"),
        (stored(form=2), "damaged"),
        (stored(as_of="yesterday"), "damaged"),
        (stored(as_of="2099-01-01"), "lies in the future"),
        (stored(vendors={"anthropic": {"m": [0, 1, "t"]}}), "damaged"),
        (stored(vendors={"anthropic": {"m": [200_000, 1, "t", -1, 2]}}), "damaged"),
        (stored(vendors={"anthropic": {"m": "x"}}), "damaged"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_a_damaged_file_is_as_if_it_were_not_there_and_told(data: bytes, why: str) -> None:
    home().mkdir(parents=True, exist_ok=True)
    catalog_file.refreshed_path().write_bytes(data)
    price = model_info("anthropic", "claude-sonnet-4-5").price
    assert price is not None and not catalog_file.refreshed()
    assert why in catalog_file.trouble() and "orkas models refresh" in catalog_file.trouble()


def test_an_older_one_than_orkas_came_with_does_not_count_and_is_no_trouble() -> None:
    home().mkdir(parents=True, exist_ok=True)
    catalog_file.refreshed_path().write_bytes(stored(as_of="2026-01-01"))
    assert not catalog_file.refreshed() and not catalog_file.trouble()
    assert catalog.as_of() == catalog_file.shipped_on()


def test_the_command(served: tuple[dict[str, str], Shelf], tmp_path: Path) -> None:
    env = environ()
    for name, address in served[0].items():
        assert orkas("config", "set", f"catalogues.{name}", address, env=env).status == 0
    assert "as it came with Orkas" in orkas("models", env=env).err
    done = orkas("models", "refresh", "--json", env=env)
    assert done.status == 0, done.err
    assert json.loads(done.out)["new"] == ["anthropic/claude-sonnet-9"]
    listed = orkas("models", "--vendor", "anthropic", env=env)
    assert "claude-sonnet-9" in listed.out and "refreshed" in listed.err
    (Path(env["ORKAS_HOME"]) / "models.json").write_bytes(b"{")
    ran = orkas("run", "--model", "demo/offline", "hello", env=env)
    assert ran.status == 0 and "does not count" in ran.err
    assert "does not count" in orkas("doctor", env=env).out
    assert "does not count" in orkas("models", env=env).err
    del served[1]["genai"], served[1]["litellm"]
    failed = orkas("models", "refresh", env=env)
    assert failed.status == 1 and "nothing was changed" in failed.err and "Traceback" not in failed.err


# -- the readers take whatever is sent

odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["2026-01-01", "text"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["models", "anthropic", "id", "match", "equals", "or", "prices", "constraint", "start_date", "limit", "context",
             "cost", "tiers", "tier", "size", "input", "modalities", "output", "litellm_provider", "mode", "tool_call",
             "max_input_tokens", "tiered_pricing", "range", "input_mtok", "base", "start", "price"]
        ), inner, max_size=5,
    ), max_leaves=25,
)  # fmt: skip


@settings(max_examples=150)
@given(st.data())
def test_no_content_is_a_fault_of_ours(data: st.DataObject) -> None:
    shapes = {
        "litellm": {"m": {"litellm_provider": "anthropic", "mode": "chat", "supports_function_calling": 1}},
        "modelsdev": {"anthropic": {"models": {"m": {"tool_call": True, "modalities": {"output": ["text"]}}}}},
        "genai": [{"id": "anthropic", "models": [{"id": "m", "match": {"equals": "m"}, "prices": {}}]}],
    }
    found = []
    for name, reader in READERS.items():
        given_ = mutated(shapes[name], data) if data.draw(st.booleans()) else data.draw(odd)
        try:
            found.append(reader(given_, DAY))
        except ValueError:
            continue
    for rows in catalog_file.with_shipped(build(found, catalog_file.families())).values():
        json.dumps(rows, allow_nan=False)


def mutated(value: Any, data: st.DataObject) -> Any:
    """The value with some leaves and some fields replaced by anything."""
    if isinstance(value, dict):
        made = {k: mutated(v, data) for k, v in value.items()}
        return {**made, **data.draw(st.dictionaries(st.sampled_from([*value, *COSTS, "cost", "limit"]), odd, max_size=1))}
    if isinstance(value, list):
        return [mutated(v, data) for v in value]
    return value
