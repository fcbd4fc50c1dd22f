"""Our own store with one mistake in it: each is a change of the source, loaded in the place of the module.

As a program: ``python crash_broken.py NAME SCRIPTS FOLDER`` plays scripts on that store until one shows a problem and
prints it; NAME "sound" changes nothing.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

FILES, STORE, BACKLOG = "orkas.infra.files", "orkas.harness.sessions.store", "orkas.harness.sessions.backlog"


class Mistake(NamedTuple):
    module: str
    right: str
    wrong: str


MISTAKES = {
    "no flush of an appended record": Mistake(
        FILES, "            self._ops.sync(fd)\n            if self.end == 0:\n", "            if self.end == 0:\n"
    ),
    "no flush of the temporary file": Mistake(FILES, "        ops.sync(fd)\n    finally", "        pass\n    finally"),
    "no flush of the folder of a new file": Mistake(FILES, "                self._ops.sync_folder(", "                (lambda _: None)("),
    "no flush of the folder after a rename": Mistake(FILES, "            ops.sync_folder(path.parent)\n        except", "            pass\n        except"),
    "torn tail not cut": Mistake(FILES, "            self._ops.truncate(self._fd, self.end)\n", ""),
    "told before it is written": Mistake(BACKLOG, "or not self.waiting:\n", "or len(self.waiting) < 2:\n"),
    "count of a write not checked": Mistake(FILES, "if ops.write(fd, data) != len(data):", "if ops.write(fd, data) < 0:"),
    "renamed before the data is there": Mistake(
        FILES,
        "        _write_new(temp, data, ops)\n        linked = _keep(path, kept, ops)\n        ops.rename(temp, path)\n",
        "        _write_new(temp, b'', ops)\n        linked = _keep(path, kept, ops)\n        ops.rename(temp, path)\n"
        "        fd = ops.open(path, os.O_WRONLY)\n        ops.write(fd, data)\n        ops.sync(fd)\n        os.close(fd)\n",
    ),
    "archived after the replacement": Mistake(
        STORE,
        "        if keep:\n            self._archive(records, messages, summary)\n        self._replace(data, messages)\n",
        "        self._replace(data, messages)\n        if keep:\n            self._archive(records, messages, summary)\n",
    ),
    "rewritten in place": Mistake(
        STORE,
        "        files.replace(self.path, data, ops=self._ops)\n        self._file =",
        "        import os\n        fd = self._ops.open(self.path, os.O_WRONLY | os.O_CREAT)\n        self._ops.truncate(fd, 0)\n"
        "        self._ops.write(fd, data)\n        self._ops.sync(fd)\n        os.close(fd)\n        self._file =",
    ),
    "record without its newline": Mistake(BACKLOG, 'return record + b"\\n"', "return record"),
    "no newline after one that is missing": Mistake(STORE, 'b"" if self.found.complete else b"\\n"', 'b""'),
    "spilled text after the record that names it": Mistake(
        BACKLOG,
        "                self._attachments.flush()\n                self._store.append([m for m, _ in batch if m is not None], [line for _, line in batch])\n",
        "                self._store.append([m for m, _ in batch if m is not None], [line for _, line in batch])\n                self._attachments.flush()\n",
    ),
    "words of ours that look like a result": Mistake(
        BACKLOG,
        '    if type(message) is not ToolMessage or not message.synthetic:\n        return record + b"\\n"\n',
        '    return record + b"\\n"\n',
    ),
}  # fmt: skip


class Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from another source text; everything else as ever."""

    def __init__(self, name: str, source: str, path: Path) -> None:
        self._name, self._source, self._path = name, source, path

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, str(self._path), "exec"), module.__dict__)


def source_of(name: str, root: Path) -> Path:
    return root.joinpath(*name.split(".")).with_suffix(".py")


def load(mistake: Mistake, root: Path) -> None:
    path = source_of(mistake.module, root)
    source = path.read_text(encoding="utf-8")
    assert source.count(mistake.right) == 1, f"{mistake.module} has changed: say anew where the mistake goes"
    sys.meta_path.insert(0, Instead(mistake.module, source.replace(mistake.right, mistake.wrong), path))
    assert PathFinder in sys.meta_path


def main(name: str, scripts: str, folder: str) -> None:
    if name != "sound":
        load(MISTAKES[name], Path(__file__).resolve().parents[2] / "src")
    from crash_check import sweep
    from crash_script import Script

    for seed in range(int(scripts)):
        place = Path(folder) / str(seed)
        script = Script(place / "run", seed)
        try:
            script.run(5)
        except AssertionError as error:
            print(f"script {seed} saw it at once: {error}")
            return
        if wrong := sweep(script, place / "image", most=1).wrong:
            print(f"script {seed}, {wrong[0]}")
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
