"""Bytes into server-sent events, incrementally (WHATWG "Interpreting an event stream").

Any cutting of the bytes gives the same events, inside a CRLF and inside a character too. One departure from the
standard: an event that the body's end leaves without its blank line is given, not dropped, because some servers
never send it.
"""

from __future__ import annotations

__all__ = ["SSE"]

_BOM = b"\xef\xbb\xbf"


class SSE:
    """One stream. ``feed`` gives the ``data`` of the events that a network read completed.

    ``names`` holds the event names of the last read by position, where an event had one.
    """

    __slots__ = ("_after_cr", "_head", "_tail", "names")

    def __init__(self) -> None:
        self.names: dict[int, bytes] = {}
        self._tail: list[bytes] = []
        self._after_cr = False
        self._head: bytes | None = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take the bytes of one read; payloads of the events that are now whole, in order."""
        if self._head is not None:
            data = self._skip_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._newlines(data)
        if not data:
            self.names = {}
            return []
        tail = self._tail
        if tail:
            if b"\n\n" not in data and not (data[0] == 10 and tail[-1][-1] == 10):
                tail.append(data)  # no event ends here: not joined yet, or many small reads cost the square
                self.names = {}
                return []
            tail.append(data)
            data = b"".join(tail)
            tail.clear()
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        if rest:
            tail.append(rest)
        return self._payloads(blocks)

    def end(self) -> list[bytes]:
        """The body has ended: the payload of a last event without its blank line, if there is one."""
        if self._head:
            self._tail.append(self._head)
            self._head = None
        rest = b"".join(self._tail)
        self._tail.clear()
        return self._payloads([rest] if rest else [])

    def _payloads(self, blocks: list[bytes]) -> list[bytes]:
        names: dict[int, bytes] = {}
        out: list[bytes] = []
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block:
                out.append(block[6:])
                continue
            name, payload = _read(block)
            if payload is not None:
                if name:
                    names[len(out)] = name
                out.append(payload)
        self.names = names
        return out

    def _skip_bom(self, data: bytes) -> bytes:
        head = (self._head or b"") + data
        if len(head) < 3 and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head[3:] if head.startswith(_BOM) else head

    def _newlines(self, data: bytes) -> bytes:
        """All line ends as LF. A CR at the end counts at once; the LF that may follow it is dropped then."""
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _read(block: bytes) -> tuple[bytes, bytes | None]:
    """Name and data of one event; data None when it has none (a comment, a bare ``retry``)."""
    name = b""
    data: bytes | None = None
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            data = value if data is None else data + b"\n" + value
        elif field == b"event":
            name = value
    return name, data
