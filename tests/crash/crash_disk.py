"""A disk that writes down what is done to it, and every image of it that a power cut could leave.

The data of each file and the names in each folder become durable on their own: a file's data by a flush of the file,
names by a flush of their folder. What was not flushed may be there, missing, torn, or a run of zeros; of the names that
were not flushed any may be there and any not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from orkas.infra import files

MOST_NAMES = 5
"""So many unflushed names are tried in every combination; of more, only those in order."""
MOST_CONTENTS = 400
"""Combinations of contents that are tried for one state of the names."""


class Op(NamedTuple):
    kind: str
    path: str = ""
    to: str = ""
    inode: int = -1
    data: bytes = b""
    size: int = 0


class Disk(files.Ops):
    """Applies every call below ``root`` for real and writes it down."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[Op] = []
        self.short = False
        self._inodes = itertools.count()
        self._of_fd: dict[int, int] = {}
        self._of_path: dict[str, int] = {}

    def adopt(self, folder: Path) -> None:
        """A folder that is there with its files, whole and durable, before anything is done."""
        self.log += [Op("mkdir", self._name(folder)), Op("sync_folder", ".")]
        for path in folder.iterdir():
            inode = self._create(path)
            self.log += [Op("write", inode=inode, data=path.read_bytes()), Op("sync", inode=inode)]
        self.log.append(Op("sync_folder", self._name(folder)))

    def hiccup(self) -> None:
        """The next write takes half of its bytes and says so, as a full disk may."""
        self.short = True

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _create(self, path: Path) -> int:
        inode = self._of_path[self._name(path)] = next(self._inodes)
        self.log.append(Op("create", self._name(path), inode=inode))
        return inode

    def open(self, path: Path, flags: int) -> int:
        new = not path.exists()
        fd = super().open(path, flags)
        self._of_fd[fd] = self._create(path) if new else self._of_path[self._name(path)]
        return fd

    def write(self, fd: int, data: bytes) -> int:
        if self.short:
            self.short = False
            data = data[: len(data) // 2]
        done = super().write(fd, data)
        self.log.append(Op("write", inode=self._of_fd[fd], data=data[:done]))
        return done

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.log.append(Op("truncate", inode=self._of_fd[fd], size=size))

    def sync(self, fd: int) -> None:
        self.log.append(Op("sync", inode=self._of_fd[fd]))

    def sync_folder(self, folder: Path) -> None:
        self.log.append(Op("sync_folder", self._name(folder)))

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._of_path[self._name(target)] = inode = self._of_path.pop(self._name(source))
        self.log.append(Op("rename", self._name(source), self._name(target), inode))

    def link(self, source: Path, target: Path) -> None:
        super().link(source, target)
        self._of_path[self._name(target)] = inode = self._of_path[self._name(source)]
        self.log.append(Op("link", self._name(source), self._name(target), inode))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._of_path.pop(self._name(path), None)
        self.log.append(Op("unlink", self._name(path)))

    def mkdir(self, path: Path) -> None:
        super().mkdir(path)
        self.log.append(Op("mkdir", self._name(path)))


class NoSync(files.Ops):
    """Checking thousands of images needs no flush."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


class Inode:
    """The data of one file: what is durable, and what was done since."""

    def __init__(self) -> None:
        self.durable = b""
        self.pending: list[Op] = []
        self._choices: list[bytes] | None = None

    def do(self, op: Op) -> None:
        if op.kind == "sync":
            self.durable = self._applied(self.pending)
            self.pending.clear()
        else:
            self.pending.append(op)
        self._choices = None

    def choices(self) -> list[bytes]:
        """All contents that the file may have after a power cut."""
        if self._choices is None:
            self._choices = list(dict.fromkeys(self._versions()))
        return self._choices

    def _applied(self, ops: list[Op]) -> bytes:
        data = bytearray(self.durable)
        for op in ops:
            if op.kind == "write":
                data += op.data
            else:
                del data[op.size :]
        return bytes(data)

    def _versions(self) -> Iterator[bytes]:
        for i, op in enumerate(self.pending):
            before = self._applied(self.pending[:i])
            yield before
            if op.kind == "write":
                for cut in _tears(op.data):
                    yield before + op.data[:cut]
                    yield before + op.data[:cut] + bytes(len(op.data) - cut)
                yield self._applied([*self.pending[:i], op._replace(data=bytes(len(op.data))), *self.pending[i + 1 :]])
        yield self._applied(self.pending)


def _tears(data: bytes) -> list[int]:
    """Where a write is torn: at its ends, in its middle, and around the end of each of its records."""
    lines = list(itertools.islice((i for i, byte in enumerate(data) if byte == 10), 3)) if len(data) < 5000 else []
    around = [cut for i in lines for cut in (i, i + 1)]
    return sorted({0, 1, 30, 60, len(data) // 2, len(data) - 2, len(data) - 1, *around} & set(range(len(data))))


class Platter:
    """The state of the disk while a log is played: what is durable, and what may be."""

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {}
        self._names: list[tuple[Op, bool]] = []

    def do(self, op: Op) -> None:
        if op.kind in ("write", "truncate", "sync"):
            self.inodes[op.inode].do(op)
        elif op.kind == "sync_folder":
            self._names = [(n, durable or _folder(n) == op.path) for n, durable in self._names]
        else:
            if op.kind == "create":
                self.inodes[op.inode] = Inode()
            self._names.append((op, False))

    def images(self) -> Iterator[dict[str, bytes]]:
        """All images that a power cut at this moment could leave."""
        for names in self._directories():
            choices = [self.inodes[inode].choices() for inode in names.values()]
            for picked in itertools.islice(itertools.product(*choices), MOST_CONTENTS):
                yield dict(zip(names, picked, strict=True))

    def _directories(self) -> Iterator[dict[str, int]]:
        pending = [i for i, (_, durable) in enumerate(self._names) if not durable]
        if len(pending) <= MOST_NAMES:
            subsets = itertools.chain.from_iterable(
                itertools.combinations(pending, n) for n in range(len(pending) + 1)
            )
        else:
            subsets = (tuple(pending[:n]) for n in range(len(pending) + 1))
        for chosen in subsets:
            yield _directory([n for i, (n, durable) in enumerate(self._names) if durable or i in chosen])


def _folder(op: Op) -> str:
    return PurePosixPath(op.to or op.path).parent.as_posix()


def _directory(names: list[Op]) -> dict[str, int]:
    """Which file each name leads to. A file is not found where its folder is missing."""
    now: dict[str, int] = {}
    folders = {"."}
    for op in names:
        match op.kind:
            case "mkdir":
                folders.add(op.path)
            case "unlink":
                now.pop(op.path, None)
            case "create":
                now[op.path] = op.inode
            case "rename":
                now.pop(op.path, None)
                now[op.to] = op.inode
            case "link":
                now[op.to] = op.inode
    return {
        path: inode
        for path, inode in now.items()
        if all(p.as_posix() in folders for p in PurePosixPath(path).parents)
    }
