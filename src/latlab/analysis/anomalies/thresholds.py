"""Where the lines are drawn between noise and what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from latlab.model.units import SECOND_NS


@dataclass(frozen=True)
class AnomalyThresholds:
    """All that is chosen. Whatever can be is taken from the stream itself: these say how.

    Single packets. block_ns: medians and spreads are taken over intervals this long, of block_packets (least, most).
    least_ns: less late than this over the local median is never late. false_alarms: how many packets of a stream of
    pure noise may be called late; the local limit is where the tail, as it falls from one in three to one in a hundred,
    comes down to that. tail_safety: times as far as that. tail_spreads: at least so many local spreads above the
    99th percentile. gap_share:
    at most this share of all packets may lie beyond a gap; gap_reaches: their median so many times as far from the
    others' as these reach, or they are the same group. weak: held packets count from this share of the limit on.
    crowd: packets that came closer together
    than this share of the time between their launches were held. tight: closer than this they came at once, and are a
    train by that alone, if chance makes less than the share `chance` of them. held_most: if a larger share of all came
    in bursts, it is said so; bursts_most: if a larger one did, that is how this path works, and no exception.
    burst_spacing: bursts are regular if the middle half of their intervals differ by less than this share. sender: a
    packet is the talker's when this share of its lateness happened there. part_beyond: times as far as the tail of one
    place's own noise goes; so late it was whatever the limit of the whole path.

    Gates. slot_tolerance: a wait is a number of cycles when it is within this share of one.

    Regularity. repeats: so often must something come to be periodic. comb_share: so much of it must be on time, and so
    many of the times be taken. comb_tolerance: on time is within this share of the interval. throttled_repeats,
    throttled_tolerance: the same of a gap of the length that throttling has, by its known interval.

    Losses. burst: so many in a row, and more where single losses are frequent; chance: how many such rows those may
    make by themselves.

    All packets together. level_ns: medians over this. level_spread, level_scatter: a level has moved when it is off by
    this share of the packets' spread and so many times its own scatter; level_least_ns: and by this; level_length_ns:
    for so long. shift_scatter: or for less long, by so many times the scatter of half intervals. parallel: for it to be
    the clocks, the fastest packets must have moved by this share of what the level did. drift_share: what is left
    next to a straight line is at most this share of its rise.

    The beginning. warm_up_scatter, warm_up_beyond: it is another when its median is off by so many times the scatter of
    the medians of as many packets, and so many times as far as nearly all of them. warm_up_most: of the stream.
    """

    block_ns: int = 100_000_000
    block_packets: tuple[int, int] = (32, 512)
    least_ns: int = 2_000
    false_alarms: float = 0.02
    tail_safety: float = 2.0
    tail_spreads: float = 3.5
    gap_share: float = 0.34
    gap_reaches: float = 2.5
    weak: float = 0.5
    crowd: float = 0.5
    tight: float = 0.1
    held_most: float = 0.15
    bursts_most: float = 0.75
    burst_spacing: float = 0.1
    sender: float = 0.5
    part_beyond: float = 2.0
    slot_tolerance: float = 0.2
    repeats: int = 5
    comb_share: float = 0.7
    comb_tolerance: float = 0.02
    throttled_repeats: int = 3
    throttled_tolerance: float = 0.2
    burst: int = 3
    chance: float = 0.01
    level_ns: int = SECOND_NS
    level_spread: float = 0.5
    level_scatter: float = 5.0
    level_least_ns: int = 1_000
    level_length_ns: int = 2_000_000_000
    shift_scatter: float = 6.0
    parallel: float = 0.5
    drift_share: float = 0.35
    warm_up_scatter: float = 8.0
    warm_up_beyond: float = 1.5
    warm_up_most: float = 0.25


THRESHOLDS: Final = AnomalyThresholds()
