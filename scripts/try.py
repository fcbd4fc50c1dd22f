"""Set up Orkas beside this file and let it do one real job in the current folder."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from environment import environment

LOCAL = "with-local-model"
REQUEST = "Which file in this folder is the largest?"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="try.py", description=__doc__, epilog='example: try.py with-local-model "List the files"'
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[with-local-model] [REQUEST]",
        help="with-local-model fetches a language model that runs on this machine (1.1 GB); "
        "without it a key or a local server is used where there is one, else the offline demo",
    )
    words = parser.parse_args().words
    local = words[:1] == [LOCAL]
    if not local and words and (words[0].startswith("with-") or words[0] in LOCAL.split("-")):
        sys.exit(f"try.py: {words[0]} is not known; did you mean {LOCAL}?")
    request = " ".join(words[1:] if local else words) or REQUEST
    orkas = str(environment(".venv", "chat,local" if local else "chat", editable=False) / "orkas")
    if local and subprocess.run([orkas, "models", "install", "local"]).returncode != 0:
        print("The local model cannot be had here (see above); going on without it.", file=sys.stderr)
    print(f"$ orkas run {request!r}", file=sys.stderr)
    status = subprocess.run([orkas, "run", request]).returncode
    shown = Path(orkas).relative_to(Path.cwd()) if Path(orkas).is_relative_to(Path.cwd()) else Path(orkas)
    print(f"Next: {shown} (a chat), {shown} run \"…\", {shown} doctor", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
