"""Which streams of cell.json are rows of packets that our agents sent, and which are not."""

from __future__ import annotations

from latlab.recordings.cell import RecordedStream


def is_no_packets(stream: RecordedStream) -> bool:
    """Whether a stream of cell.json is a tool's, whose packets are its own, or a timer's, which sends none."""
    return not stream.has_packets
