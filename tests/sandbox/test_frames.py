"""The wire between an owner and a runner."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.sandbox.inside import frames

FRAMES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=200)), max_size=20)


@given(FRAMES, st.lists(st.integers(0, 4000), max_size=20))
def test_frames_are_found_however_they_are_cut(sent: list[tuple[int, int, bytes]], cuts: list[int]) -> None:
    """Pieces of any size give the same frames in the same order, each as soon as it is whole."""
    data = b"".join(frames.encode(*frame) for frame in sent)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    decoder = frames.Decoder(1000)

    found = [frame for start, end in itertools.pairwise(places) for frame in decoder.feed(data[start:end])]

    assert found == sent


def test_kept_bytes_come_before_later_ones() -> None:
    """The beginning of a frame may have been read by someone else."""
    data = frames.encode(7, frames.OUTPUT, b"payload")
    decoder = frames.Decoder(1000)
    decoder.keep(data[:12])

    assert decoder.feed(data[12:]) == [(7, frames.OUTPUT, b"payload")]


def test_payload_that_is_too_long_is_refused_before_it_comes() -> None:
    """Its header is enough."""
    decoder = frames.Decoder(1000)

    with pytest.raises(ValueError, match="1,001 bytes"):
        decoder.feed(frames.HEADER.pack(1, frames.OUTPUT, 1001))


def test_credits() -> None:
    """They name a stream and a number of bytes; anything else is refused."""
    data = frames.encode_credit(5, frames.ERRORS, 70_000)
    [(call, kind, payload)] = frames.Decoder(1000).feed(data)

    assert (call, kind, frames.decode_credit(payload)) == (5, frames.CREDIT, (frames.ERRORS, 70_000))
    with pytest.raises(ValueError, match="credit"):
        frames.decode_credit(payload[1:])
