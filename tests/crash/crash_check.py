"""What must hold after a power cut, for one image of the disk and for all images of a script."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import msgspec
from crash_disk import NoSync, Platter
from crash_script import Script, State, texts

from orkas.harness.pairing import is_paired
from orkas.harness.sessions.session import Session
from orkas.infra.errors import OrkasError
from orkas.infra.messages import Image, Text, ToolMessage, text_of, user_message


class Swept(msgspec.Struct):
    images: int = 0
    """Distinct images. One may be checked more than once, against what was promised at different moments."""
    wrong: list[str] = []


def sweep(script: Script, place: Path, *, most: int = 10) -> Swept:
    """Check every image of every moment of a script, up to ``most`` problems."""
    found = Swept()
    seen: set[tuple[bytes, int]] = set()
    platter = Platter()
    state = -1
    for cut, op in enumerate(script.disk.log):
        if op.kind == "state":
            state = op.size
        else:
            platter.do(op)
        if state < 0:
            continue
        for image in platter.images():
            key = (_key(image), state)
            if key in seen or len(found.wrong) >= most:
                continue
            seen.add(key)
            if problem := check(image, script.states[state], place):
                found.wrong.append(f"cut {cut} ({op.kind} {op.path}): {problem}")
    found.images = len({image for image, _ in seen})
    return found


def _key(image: dict[str, bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(image):
        digest.update(b"%b\0%d\0" % (path.encode(), len(image[path])))
        digest.update(image[path])
    return digest.digest()


def check(image: dict[str, bytes], state: State, place: Path) -> str:
    """What is wrong with the sessions of this image; "" when all is well. ``place`` is emptied afterwards."""
    os.environ["ORKAS_HOME"] = str(place)
    (place / "sessions").mkdir(parents=True)
    try:
        for path, data in image.items():
            target = place / path
            target.parent.mkdir(exist_ok=True, parents=True)
            target.write_bytes(data)
        return check_home(state, place)
    finally:
        shutil.rmtree(place)


def check_home(state: State, place: Path) -> str:
    """The same for a home that is there; to each session a message is added."""
    os.environ["ORKAS_HOME"] = str(place)
    try:
        there = {p.name.removesuffix(".jsonl") for p in (place / "sessions").glob("*.jsonl")}
        for name in sorted(there):
            if problem := _check_session(name, state, place):
                return f"{name}: {problem}"
        return next((f"{n} is gone" for n, words in state.acked.items() if words and n not in there), "")
    except OrkasError as error:
        return f"{type(error).__name__}: {error}"


def _check_session(name: str, state: State, place: Path) -> str:
    acked, coming = state.acked.get(name, []), state.coming.get(name, state.arriving)
    with Session.open(name, ops=NoSync()) as session:
        first = texts(session.messages)
        if not is_paired(session.messages):
            return "not paired"
        if first not in (acked, coming) and (first[: len(acked)] != acked or coming[: len(first)] != first):
            return f"promised {acked}, found {first}"
        if problem := _lies(session, state) or _missing_files(session):
            return problem
        session.append(user_message("after"))
    again = Session.read(name)
    if texts(again.messages) != [*first, "after"]:
        return "what was added after the recovery was lost or damaged"
    if again.messages != session.messages:
        return "the next loading tells another story"
    return _glued(again) or _nowhere(name, state, place)


def _lies(session: Session, state: State) -> str:
    """A call that was let begin must not be called harmless, nor one be called done that was not."""
    for m in session.messages:
        if isinstance(m, ToolMessage) and m.synthetic:
            if m.tool_call_id in state.begun and "not started" in text_of(m):
                return f"{m.tool_call_id} was started"
            if "this call was done" in text_of(m) and m.tool_call_id not in (*state.finished, "z"):
                return f"{m.tool_call_id} was not done"
    return ""


def _missing_files(session: Session) -> str:
    """Whole results and pictures that the history names must be there, whole."""
    for m in session.messages:
        for block in m.content:
            if isinstance(block, Text | Image) and block.file:
                whole = session.media(block.file)
                if isinstance(block, Image) and not whole:
                    return "a picture is empty"
                if isinstance(block, Text) and (len(whole) != block.bytes or whole[:10] not in block.text.encode()):
                    return "a spilled result is damaged"
    return ""


def _glued(session: Session) -> str:
    """Any reader of JSON lines must be able to read each line that we do not call damaged."""
    assert session.path is not None
    lines = session.path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if line and number not in session.loaded.damaged:
            try:
                json.loads(line)
            except ValueError as error:
                return f"line {number} is not one record: {error}"
    return "" if not lines[-1] else "the last line has no end"


def _nowhere(name: str, state: State, place: Path) -> str:
    """Whatever was promised is in the session, or in its archive."""
    beside = [place / f"sessions/{name}.jsonl{suffix}" for suffix in ("", ".archive")]
    raw = b"".join(p.read_bytes() for p in beside if p.exists())
    return next((f"{w!r} is nowhere" for w in state.ever.get(name, []) if w.encode() not in raw), "")
