"""The child process that serves one model file on loopback. Run by path, imports nothing of ours.

Reads one line of JSON on stdin (nothing secret ever stands in an argument list), answers ``PORT n`` on stdout when
it is ready, and ends when stdin closes: whatever becomes of the parent, no server is left behind.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _end_with_parent(parent: int) -> None:
    """Have the kernel kill us with the parent, which also works while loading holds the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def _parameters(library: Any, config: dict[str, Any]) -> Any:
    p = library.CommonParams()
    p.model.path = config["gguf"]
    p.model_alias = {config["name"]}
    p.hostnames, p.port, p.api_keys = ["127.0.0.1"], 0, [config["api_key"]]
    p.ui = p.endpoint_slots = False
    p.n_ctx, p.n_predict, p.n_parallel = config["context"], config["max_output"], 1
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = config["threads"]
    p.cache_ram_mib = 256  # prefixes of other conversations; llama.cpp's own default is 8 GiB
    p.sampling.temp = config["temperature"]
    p.verbosity = 1  # errors
    p.use_jinja = True
    if config["template"]:
        p.chat_template = Path(config["template"]).read_text(encoding="utf-8")
    return p


def main() -> None:
    config = json.loads(sys.stdin.buffer.readline())
    said = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints is no answer of ours
    if config["parent"]:
        _end_with_parent(config["parent"])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    sys.path.append(config["library"])
    library = importlib.import_module("xllamacpp")
    server = library.Server(_parameters(library, config))
    port = server.listening_address.rpartition(":")[2].strip("/")
    os.write(said, f"PORT {port}\n".encode())
    threading.Event().wait()


if __name__ == "__main__":
    main()
