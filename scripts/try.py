"""Set up Orkas beside this file and let it do one real job in the current folder.

python3 scripts/try.py [with-local-model] [REQUEST]

``with-local-model`` fetches a language model (1.1 GB) that runs on this machine; without the word, or where it cannot
be had, the job is done with a key or a local server if there is one, else by the offline demo.
"""

from __future__ import annotations

import subprocess
import sys

from environment import environment

REQUEST = "Which file in this folder is the largest?"


def main() -> int:
    words = sys.argv[1:]
    local = "with-local-model" in words
    request = " ".join(w for w in words if w != "with-local-model") or REQUEST
    print("Setting up in .venv …", file=sys.stderr)
    orkas = str(environment(".venv", "chat,local" if local else "chat", editable=False) / "orkas")
    if local and subprocess.run([orkas, "models", "install", "local"]).returncode != 0:
        print("The local model cannot be had here (see above); going on without it.", file=sys.stderr)
    print(f"$ orkas run {request!r}", file=sys.stderr)
    return subprocess.run([orkas, "run", request]).returncode


if __name__ == "__main__":
    sys.exit(main())
