"""Whether packets left soon after they were handed over, or queued up before they did: a check of the trust table."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.analysis.evidence import Broken, Evidence, checks
from latlab.analysis.trust_readings import metrics
from latlab.analysis.words import duration
from latlab.result.types import Gates, Metric, Stream


@checks("queue-drains")
def queues_drain(evidence: Evidence) -> Iterator[Broken]:
    """Streams of which at least four packets in ten lay in a queue for more than a period, beyond what gates explain.

    Half of the packets left later after their launch than nine in ten of the talker's wake-ups, the longest wait that
    the gate schedule guarantees, and a period together. Each packet then met the one before still waiting: a queue that
    is left as fast as it is joined keeps its length.
    """
    streams = {stream.name: stream for stream in evidence.cell.streams if stream.timer is None}
    for where, name, _, figures in metrics(evidence, "lateness"):
        stream, measured = streams.get(name), evidence.streams[name]
        # A closed loop has no period: it waits for the answer before it asks again.
        if stream is None or stream.period_ns is None or figures.p50 is None:
            continue
        woken_ns = _woken_ns(measured)
        gates = measured.gates
        closed_ns = gates.promised.worst_wait_ns if gates else 0
        allowed_ns = stream.period_ns + closed_ns
        if woken_ns is None or figures.p50 <= allowed_ns + max(woken_ns, 0):
            continue
        expected = f"most packets sent within a period, {duration(stream.period_ns)}, after the handover"
        if closed_ns:
            expected += f", or {duration(closed_ns)} later if their gate is closed"
        yield Broken(where, expected, _waiting(figures, gates, stream.period_ns, woken_ns))


def _woken_ns(measured: Stream) -> int | None:
    """Within what time of the instant due the talker woke nine times in ten; in so few packets, each time."""
    wakeup = measured.metrics.get("wakeup")
    if wakeup is None:
        return None
    return wakeup.max if wakeup.p90 is None else wakeup.p90


def _waiting(figures: Metric, gates: Gates | None, period_ns: int, woken_ns: int) -> str:
    """How late they left, how many periods that is, and which windows of their gate they missed."""
    least, middle, most = (duration(ns or 0) for ns in (figures.min, figures.p50, figures.max))
    said = (
        f"half of them {middle} or more after their launch ({least} to {most}), {(figures.p50 or 0) / period_ns:.4g} "
        f"periods, although the talker woke within {duration(max(woken_ns, 0))}"
    )
    if gates and gates.missed:
        windows = list(gates.windows_late)
        late = f", {min(windows):,} to {max(windows):,} windows late" if windows else ""
        said += f"; {gates.missed:,} of {gates.left:,} missed their window of {gates.interface}{late}"
    return said
