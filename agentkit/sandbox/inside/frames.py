"""The wire between an owner and the runner inside: what both ends of the channel speak.

A frame is the id of a call, its kind, the length of its payload, and the payload. Calls are multiplexed; each stream of
a call is held back by credits of its own, so that a slow reader of one fills no memory and delays no other. Used on
both sides, hence for Python 3.8 and with nothing but the standard library.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

#: What the runner says before its first frame; anything else means that it isn't the runner who speaks.
MAGIC = b"agentkit-runner 1\n"
#: What comes instead where there is no Python that could run it.
NO_PYTHON = b"agentkit-no-python\n"

HEADER = struct.Struct("!IBI")
CREDIT_PAYLOAD = struct.Struct("!BI")

# From the owner.
OPEN = 1  # begins a call: JSON, of which "op" says what is asked
INPUT = 2  # bytes for it
INPUT_END = 3
CANCEL = 4  # ends it, and whatever it had started
PING = 5
# From the runner.
HELLO = 10  # JSON: who it is
OUTPUT = 11  # bytes of it
ERRORS = 12  # bytes of a command's standard error
OUTPUT_END = 13
END = 14  # the last frame of a call: JSON
ACCEPT = 15  # begins a call of the runner's own: a connection to a port that it listens on for the call named in it
PONG = 16
READY = 17  # what was asked for is there, and goes on
# From both: so many more bytes of a stream may be sent.
CREDIT = 20

#: Calls that the runner begins have ids from here on.
FIRST_ACCEPTED = 1 << 31
#: How many bytes of a stream may be under way that nobody has taken yet.
WINDOW = 256 << 10
#: The most bytes of a stream in one frame.
CHUNK = 64 << 10
#: The longest payload from the owner; an argument list of the longest kind that Linux takes fits in.
MAX_REQUEST = 16 << 20
#: The longest payload from the runner, which sends what is long in pieces.
MAX_REPLY = 4 << 20


def encode(call: int, kind: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return HEADER.pack(call, kind, len(payload)) + payload


def encode_credit(call: int, stream: int, count: int) -> bytes:
    """Return a frame that lets the other side send so many more bytes of ``INPUT``, ``OUTPUT`` or ``ERRORS``."""
    return encode(call, CREDIT, CREDIT_PAYLOAD.pack(stream, count))


def decode_credit(payload: bytes) -> tuple[int, int]:
    """Return the stream and the number of bytes of a ``CREDIT``.

    Raises:
        ValueError: It is none.
    """
    if len(payload) != CREDIT_PAYLOAD.size:
        raise ValueError(f"a credit of {len(payload)} bytes")
    stream, count = CREDIT_PAYLOAD.unpack(payload)
    return stream, count


class Decoder:
    """Finds frames in a stream of bytes that comes in pieces of any size."""

    __slots__ = ("_buffer", "_longest")

    def __init__(self, longest: int) -> None:
        """Begin with nothing; a payload longer than ``longest`` is an error."""
        self._buffer = bytearray()
        self._longest = longest

    def keep(self, data: bytes) -> None:
        """Take bytes without looking for frames in them yet."""
        self._buffer += data

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Return the frames, as call, kind and payload, that are complete with these bytes.

        Raises:
            ValueError: These are no frames.
        """
        buffer = self._buffer
        buffer += data
        frames = []
        start = 0
        with memoryview(buffer) as view:
            while len(view) - start >= HEADER.size:
                call, kind, length = HEADER.unpack_from(view, start)
                if length > self._longest:
                    raise ValueError(f"a frame of {length:,} bytes; the longest is {self._longest:,}")
                end = start + HEADER.size + length
                if len(view) < end:
                    break
                frames.append((call, kind, bytes(view[start + HEADER.size : end])))
                start = end
        del buffer[:start]
        return frames
