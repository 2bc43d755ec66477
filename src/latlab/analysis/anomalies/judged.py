"""From when on a packet of a stream counted as late: the limits that its own noise has drawn."""

from __future__ import annotations

from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import spread_over
from latlab.analysis.anomalies.limit import MIXED
from latlab.analysis.anomalies.parts import Part
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.model.timestamps import TALKER
from latlab.result.types import Gap, LateLimits, Range

OF_EXPONENTIAL: Final = 0.8462
"""The spread (`blocks.block_spreads`) of exponential values whose mean is 1."""
NEAR: Final = 0.01
"""The last share of the tail that is looked at, as in `limit.TAIL`; further out it is reckoned."""


def late_limits(signals: Signals) -> LateLimits | None:
    """What a packet of one stream was compared with; None where no packet of it was judged. What is a Range moves with
    the stream over the run.

    packets: how many were judged, launched every period_ns. until: the last timestamp that the stream has; latency is
    from the launch to it. usual_ns: the usual latency around a packet. above_ns: by how much more than that noise may
    make it longer. from_ns: the two together, the latency from which on a packet is late. sender_share, sender_ns: a
    late packet is the talker's if it lost that share of its lateness, and more than this, before it was submitted, be
    it by the way's limit or by the talker's own (`senders`); None without `wake` and `submit`. spread_ns: how wide
    packets lie. exponential_ns: by how much more than usual a packet would be late if noise of that spread had an
    exponential tail; heavy: it has a heavier one, and single packets are late from further on. largest_ns: the longest
    latency of a packet that was judged; out_of_reach: the limit is beyond it, so what lies between the two would not
    be called late. parted: of the packets beyond a gap, if there is one. bursts: of packets that came in bursts, where
    many did. beside_ns: a packet that is by so much later than those before and after it is late, too; None where
    neighbours are not alike.
    """
    if not len(signals.row):
        return None
    share, sender, beside = signals.thresholds.sender, signals.parts.get(TALKER), signals.beside
    above_ns, from_ns = _range(signals.limit_ns), _range(signals.level_ns + signals.limit_ns)
    exponential_ns = round(exponential_limit_ns(signals.spread_ns, len(signals.row), signals.thresholds))
    largest_ns = round(float((signals.level_ns + signals.late_ns).max()))
    return LateLimits(
        packets=len(signals.row),
        period_ns=signals.context.period_ns,
        until=signals.stages.stamps[-1],
        usual_ns=_range(signals.level_ns),
        above_ns=above_ns,
        from_ns=from_ns,
        sender_share=share,
        sender_ns=_range(_senders(signals, sender)) if sender else None,
        spread_ns=round(signals.spread_ns),
        exponential_ns=exponential_ns,
        largest_ns=largest_ns,
        parted=_parted(signals),
        bursts=signals.bursts,
        beside_ns=_range(spread_over(beside.limits, beside.size, len(signals.row))) if beside else None,
        heavy=above_ns.middle > exponential_ns,
        out_of_reach=from_ns.middle > largest_ns,
    )


def _senders(signals: Signals, sender: Part) -> NDArray[np.float32]:
    """More than how much late packets have lost at their talker, at each judged packet, float32 [n]."""
    own = spread_over(sender.limits, sender.size, len(signals.row))
    found: NDArray[np.float32] = np.minimum(signals.thresholds.sender * signals.limit_ns, own)
    return found


def _parted(signals: Signals) -> Gap | None:
    if signals.apart is None:
        return None
    below = ~signals.apart if signals.held is None else ~signals.apart & ~signals.held
    begins = float(np.quantile(signals.late_ns[signals.apart], MIXED))
    nearer = signals.late_ns[below & (signals.late_ns < begins)]
    ends = float(nearer.max()) if len(nearer) else begins
    packets = int(np.count_nonzero(signals.apart))
    return Gap(packets=packets, of=len(signals.row), ends_ns=round(ends), begins_ns=round(begins))


def exponential_limit_ns(spread_ns: float, n: int, thresholds: Thresholds) -> float:
    """Where an exponential tail comes down to `false_alarms` of n packets, with the same safety as any, ns.

    From the median (ln 2) on: ln(1/NEAR) to the last percentile, and `tail_safety` times as far as from there to the
    share.
    """
    near, far = log(1 / NEAR), log(n / thresholds.false_alarms)
    reach = near - log(2) + thresholds.tail_safety * max(0.0, far - near)
    return max(reach * spread_ns / OF_EXPONENTIAL, float(thresholds.least_ns))


def _range(values: NDArray[np.float32] | NDArray[np.float64]) -> Range:
    least, middle, greatest = (round(float(one)) for one in (values.min(), np.median(values), values.max()))
    return Range(least=least, middle=middle, greatest=greatest)
