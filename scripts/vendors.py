"""Write `vendors.json`: what `vendors.toml` beside it says, in the form that a program starts with.

    python scripts/vendors.py

TOML is what people edit; to read it takes a program as long as all of ``import msgspec``.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src/orkas/providers/vendors/vendors.toml"


def main() -> None:
    rows = tomllib.loads(SOURCE.read_text("utf-8"))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row, ensure_ascii=False)}" for name, row in rows.items())
    SOURCE.with_suffix(".json").write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()
