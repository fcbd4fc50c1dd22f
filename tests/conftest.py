"""Every test lives in a home of its own, sees no key of the machine, and reaches nothing but loopback."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from orkas.infra import known
from orkas.testing import FakeVendor, VendorRequest

# A script that starts us in the background has these ignored, and our children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGQUIT"):
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup this one

os.umask(0o022)  # what most people have: what tests say of modes does not depend on the machine

SHARED = Path(os.environ.get("ORKAS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
"""Data with right answers that is kept outside of the project; tests that need it skip where it is not."""


@pytest.fixture(autouse=True)
def _fenced(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        upper = name.upper()
        if upper.endswith(("_API_KEY", "_BASE_URL", "_TOKEN", "_PROXY")) or upper in ("ORKAS_MODEL", "OLLAMA_HOST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "src"))
    with known.apart():  # a key of one test is no word of another
        yield


@pytest.fixture(autouse=True)
def _published(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every request that a test sends to a strict fake vendor is one that the real vendor's published types allow."""
    from published import fault_in

    seen: dict[tuple[str, bytes], VendorRequest] = {}
    FakeVendor.witness = lambda api, asked: seen.update({(api, asked.raw): asked})
    yield
    FakeVendor.witness = None
    if request.node.get_closest_marker("foreign"):
        return
    # asked only now: importing a vendor's client may take a second, which a running test would feel
    faults = {api: fault for (api, _), asked in seen.items() if (fault := fault_in(api, asked.body or {}))}
    assert not faults


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the data with right answers is not beside this checkout")
    return SHARED


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """What a test said reaches the process that reports, also half characters."""
    return _sendable((yield))


def _sendable(data: Any) -> Any:
    match data:
        case str():
            return data.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_sendable(key): _sendable(value) for key, value in data.items()}
        case list() | tuple():
            return type(data)(map(_sendable, data))
    return data
