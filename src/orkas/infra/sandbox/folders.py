"""Which folders a command sees of what is hidden: tools and interpreters, the repository around the working folder.

Nothing here believes the working folder: what a ``.git`` file points to is shown only when it points back.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from orkas.infra.home import home

__all__ = ["git_directory", "hidden", "homes", "is_below", "shown", "text_of"]

_TOOLS = (
    ".local/bin", ".local/lib", ".local/share/pipx", ".local/pipx", ".local/share/uv", ".local/share/mise",
    ".local/share/rtx", ".local/share/fnm", ".local/share/pnpm", ".local/share/virtualenvs", ".local/share/man",
    ".cargo/bin", ".cargo/registry", ".cargo/git", ".cargo/env", ".rustup",
    ".pyenv", ".rbenv", ".nvm", ".volta", ".asdf", ".nodenv", ".goenv", ".jenv", ".sdkman", ".fnm", ".proto",
    ".bun/bin", ".deno/bin", ".dotnet", ".ghcup", ".opam", ".juliaup", ".julia", ".elan", ".gem", ".npm-global/bin",
    ".npm-global/lib", ".yarn/bin", ".nix-profile", ".poetry", ".m2/repository", ".gradle/wrapper", "go/bin", "go/pkg",
    "miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda/envs",
    ".config/git/ignore", ".config/git/attributes",
)  # fmt: skip
"""Below the home folder: programs and what they run on. Never a folder in which one of them keeps tokens."""
_TELLS_A_SECRET = re.compile(r"://[^/\s]*:[^@\s]+@|extraheader|passw|token|secret|authorization", re.IGNORECASE)


def is_below(path: Path, roots: Iterable[Path]) -> bool:
    """One of the roots, or below one."""
    return any(path == root or root in path.parents for root in roots)


def text_of(path: Path, most: int = 256 * 1024) -> str:
    """The beginning of a regular file as text; empty when it cannot be read. Never waits for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        try:
            return file.read(most).decode(errors="replace")
        except OSError:
            return ""


def homes() -> list[Path]:
    """The user's home folders: what ``HOME`` says and what the system says."""
    found = [os.environ.get("HOME", "")]
    try:
        import pwd

        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        pass
    return list(dict.fromkeys(Path(os.path.realpath(p)) for p in found if p.startswith("/") and p != "/"))


def hidden(cwd: Path) -> list[Path]:
    """What is not there for a command: homes, temporary folders, what runs meanwhile, our own folder.

    Where the working folder holds the home, everything in the home whose name begins with a dot: keys and logins lie
    there, and what shells obey.
    """
    roots = [Path(p) for p in ("/home", "/root", "/tmp", "/var/tmp", "/run")]  # noqa: S108 - named to be hidden
    found = [Path(os.path.realpath(p)) for p in (*roots, *homes()) if os.path.isdir(p)]
    for folder in homes():
        if cwd == folder or cwd in folder.parents:
            found += [path for path in _dotted(folder) if not is_below(cwd, [path])]
    found.append(Path(os.path.realpath(home())))
    return list(dict.fromkeys(p for p in found if p not in (cwd, Path("/")) and os.path.lexists(p)))


def _dotted(folder: Path) -> list[Path]:
    """What in a home has a name that begins with a dot; where that is a link, what it leads to in the same home."""
    try:
        with os.scandir(folder) as entries:
            found = [Path(e.path) for e in entries if e.name.startswith(".") and e.name != ".git"]
    except OSError:
        return []
    real = dict.fromkeys(Path(os.path.realpath(path)) if os.path.islink(path) else path for path in found)
    return [path for path in real if folder in path.parents]


def shown(cwd: Path, env: Mapping[str, str]) -> list[Path]:
    """Folders that tools need though they lie below what is hidden; what is missing is left out."""
    found = [path for folder in homes() for path in _of_home(folder)]
    found += _programs(env.get("PATH", os.defpath))
    found += [Path(p) for p in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    found += [Path(os.path.realpath(sys.executable)).parent, Path(__file__).resolve().parents[2]]
    found += [Path(given) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (given := os.environ.get(name))]
    found += _certificates(env)
    found.append(Path("/etc/resolv.conf"))
    found += _repository(cwd)
    real = dict.fromkeys(Path(os.path.realpath(p)) for p in found)
    never = {Path("/"), *homes(), *(parent for folder in homes() for parent in folder.parents)}
    ours = Path(os.path.realpath(home()))
    never |= {ours, *ours.parents}
    return [p for p in real if p not in never and ours not in p.parents and os.path.exists(p)]


def _of_home(folder: Path) -> list[Path]:
    found = [folder / name for name in _TOOLS if os.path.lexists(folder / name)]
    for name in (".gitconfig", ".config/git/config"):
        text = text_of(folder / name)
        if text and not _TELLS_A_SECRET.search(text):
            found.append(folder / name)
    return found


_CATCH_ALL = frozenset({".local", ".cargo", ".config", "usr", ".npm-global"})


def _programs(path: str) -> Iterator[Path]:
    """The folders of ``PATH``; of an installation (``bin`` beside ``lib``) the whole."""
    for entry in path.split(os.pathsep):
        if not entry.startswith("/"):
            continue
        folder = Path(os.path.realpath(entry))
        root = folder.parent
        whole = folder.name in ("bin", "sbin") and root.name not in _CATCH_ALL and root not in homes()
        if whole and any(os.path.exists(root / name) for name in ("pyvenv.cfg", "lib", "libexec")):
            yield root
        yield folder


_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
                 "GIT_SSL_CAINFO", "PIP_CERT", "AWS_CA_BUNDLE")  # fmt: skip


def _certificates(env: Mapping[str, str]) -> Iterator[Path]:
    for name in _CERTIFICATES:
        path = Path(env.get(name, ""))
        if path.is_absolute() and (os.path.isfile(path) or name == "SSL_CERT_DIR"):
            yield path


def _repository(cwd: Path) -> Iterator[Path]:
    """The repository that the working folder is part of, where it lies above; the git folder of a worktree."""
    for folder in cwd.parents:
        if folder in homes() or folder == Path("/"):
            break
        if os.path.exists(folder / ".git"):
            yield folder
            break
    if (outside := git_directory(cwd)) is not None and not is_below(outside, [cwd]):
        yield outside
        if (common := _common(outside)) is not None:
            yield common


def git_directory(folder: Path) -> Path | None:
    """Where the git folder of ``folder`` lies, when ``.git`` there is a file and that place points back to it."""
    pointer = folder / ".git"
    if not os.path.isfile(pointer):
        return None
    text = text_of(pointer)
    if not text.startswith("gitdir:") or "\0" in text:
        return None
    target = Path(os.path.realpath(folder / text.removeprefix("gitdir:").strip()))
    return target if os.path.isfile(target / "HEAD") and _points_back(target, pointer) else None


def _points_back(target: Path, pointer: Path) -> bool:
    if back := text_of(target / "gitdir").strip():
        return Path(os.path.realpath(target / back)) == Path(os.path.realpath(pointer))
    found = re.search(r"^\s*worktree\s*=\s*(.+?)\s*$", text_of(target / "config"), re.MULTILINE)
    return found is not None and Path(os.path.realpath(target / found[1])) == Path(os.path.realpath(pointer.parent))


def _common(git: Path) -> Path | None:
    if not (said := text_of(git / "commondir").strip()):
        return None
    common = Path(os.path.realpath(git / said))
    return common if is_below(git, [common]) and os.path.isdir(common / "objects") else None
