"""Hops of watched packets: from the first point to the last, by the points between them."""

from __future__ import annotations

import numpy as np
import polars as pl

from latlab.analysis.hops import FIRST, SECOND, WatchedPackets
from latlab.analysis.metrics import Values
from latlab.model.metrics import METRICS_BY_NAME
from latlab.recordings.cell import RecordedStream
from latlab.result.types import Chain

COUNT, GAP_NS, BEGIN_NS = 200, 1_000_000, 1_763_830_000_123_456_789
BEFORE, BEHIND = "io.eth0:in", "vm1.eth0:in"
TO_TAP_NS, INTO_GUEST_NS = 7_000, 40_000
SLOW, UNSEEN, TWINS = 150, 20, (30, 31)
"""A packet that the guest takes in late; one that was not seen at the tap; two that the first point saw at once."""
EVERY = {number: BEGIN_NS + number * GAP_NS for number in range(COUNT)} | {TWINS[1]: BEGIN_NS + TWINS[0] * GAP_NS}
AT_TAP = {number: at + TO_TAP_NS for number, at in EVERY.items() if number != UNSEEN}
AT_GUEST = {number: at + TO_TAP_NS + (9 if number == SLOW else 1) * INTO_GUEST_NS for number, at in EVERY.items()}


def stream(number: int, *points: str, two_clocks: bool = False, flow: str = "seen") -> RecordedStream:
    return RecordedStream(
        name="-to-".join(points),
        stream=number,
        talker="io",
        listener="vm1",
        period_ns=None,
        flow=flow,
        points=list(points),
        two_clocks=two_clocks,
    )


def rows(number: int, first: dict[int, int], second: dict[int, int]) -> pl.DataFrame:
    both = [key for key in first if key in second]
    columns = {"stream": [number] * len(both), FIRST: [first[key] for key in both]}
    return pl.DataFrame(columns | {SECOND: [second[key] for key in both]})


WHOLE = stream(3, BEFORE, BEHIND, two_clocks=True)


def chain(*more: RecordedStream, of: RecordedStream = WHOLE) -> Chain | None:
    """The hops of the packets from BEFORE to BEHIND, in a cell with these streams, too."""
    packets = pl.concat([rows(1, EVERY, AT_TAP), rows(2, AT_TAP, AT_GUEST), rows(3, EVERY, AT_GUEST)])
    values = Values(
        metric=METRICS_BY_NAME["transit"],
        sequence=np.arange(COUNT, dtype=np.uint64),
        at_tai_ns=np.array([*EVERY.values()]),
        value_ns=np.array([AT_GUEST[number] - at for number, at in EVERY.items()]),
        from_="first_point",
        to="second_point",
        missing=0,
    )
    return WatchedPackets([*more, of], packets).hops(of, values)


def test_hops_add_up_to_each_packets_transit_and_the_late_one_names_its_hop() -> None:
    found = chain(stream(1, BEFORE, "tap"), stream(2, "tap", BEHIND, two_clocks=True))
    assert found and found.worst
    assert found.stops == [BEFORE, "tap", BEHIND]
    assert found.clocks == ["one clock", "two hosts"]
    # Without the one that the tap did not see, and the two of one instant.
    assert (found.packets, found.split) == (COUNT, COUNT - 3)
    latest = found.worst.each[0]
    assert (latest.sequence, latest.ns) == (SLOW, [TO_TAP_NS, 9 * INTO_GUEST_NS])
    assert [(one.from_, one.to, one.share) for one in found.worst.grew] == [("tap", BEHIND, 1.0)]


def test_a_part_of_the_path_has_no_hops_nor_has_a_path_without_points_between() -> None:
    between = stream(1, BEFORE, "tap"), stream(2, "tap", BEHIND)
    assert chain() is None
    assert chain(*between, stream(4, "cable", BEFORE)) is None
    assert chain(*between, stream(4, BEHIND, "socket")) is None


def test_points_of_another_flow_are_not_between() -> None:
    assert chain(stream(1, BEFORE, "tap", flow="other"), stream(2, "tap", BEHIND, flow="other")) is None
