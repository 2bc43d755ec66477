"""What a synthetic run is made of: the path's noise, the clocks, the gates, and what is done to the packets.

All durations and instants are int64 ns; instants (`at_ns`) count from the first packet's launch time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from latlab.model.units import SECOND_NS

Where = Literal["talker", "qdisc", "path", "kernel", "application"]
"""Where packets are held or delayed: before they are submitted; between the socket and the driver; between driver (or
NIC) and NIC; between the listener's NIC and its kernel; between its kernel and its application.

Without hardware timestamps `kernel` and `path` cannot be distinguished: both are before `rx_soft`.
"""

Shape = Literal["gaussian", "lognormal", "heavy", "modes", "exponential", "uniform"]


@dataclass(frozen=True)
class Noise:
    """What each packet's delay varies by without anything being the matter.

    spread_ns: the standard deviation of `gaussian`, and of each of the `modes`; the median of `lognormal`, whose
    logarithm has the standard deviation sigma; the scale of `heavy`, the absolute value of Student's t with that many
    degrees of freedom, the mean of `exponential`, or the width of `uniform`. rho: each packet's is correlated with the
    last one's so much, with the same distribution (a gaussian process of first order that is bent). modes: (weight,
    offset in ns) next to the one at 0. slow_ns: the standard deviation of a gaussian part that is correlated over
    slow_correlation_ns (an autoregressive process of first order). lattice_ns: timestamps are multiples of it (0, 1:
    any). A field for another shape is an error, and so is a rho of `heavy`, which is never correlated.
    """

    spread_ns: int = 5_000
    shape: Shape = "gaussian"
    sigma: float = 0.5
    degrees: float = 5.0
    rho: float = 0.0
    modes: tuple[tuple[float, int], ...] = ()
    slow_ns: int = 0
    slow_correlation_ns: int = 0
    lattice_ns: int = 0


@dataclass(frozen=True)
class SyntheticGates:
    """A gate before the driver: open for the first open_ns of each cycle.

    Cycles begin at the multiples of cycle_ns in TAI + shift_ns.

    schedule_known: the analysis is given the schedule; otherwise nothing but the cycle's length.
    """

    cycle_ns: int
    open_ns: int
    shift_ns: int = 0
    schedule_known: bool = True


@dataclass(frozen=True)
class Stall:
    """From at_ns on nothing passes `where` for length_ns; what has come by then passes all at once."""

    at_ns: int
    length_ns: int
    where: Where = "path"


@dataclass(frozen=True)
class Spikes:
    """Each of these packets takes extra_ns longer there, and holds up those behind it as far as it must."""

    sequences: tuple[int, ...]
    extra_ns: int
    where: Where = "path"


@dataclass(frozen=True)
class Periodic:
    """The first packet due at or after each first_ns + k × every_ns takes extra_ns longer there.

    every_packets instead of every_ns: each so-many-th packet. jitter_ns: by how much a spike may come off its time,
    in either direction. scatter: the extra time varies by this share of itself, in either direction.
    """

    extra_ns: int
    every_ns: int = 0
    every_packets: int = 0
    first_ns: int = 0
    jitter_ns: int = 0
    scatter: float = 0.1
    where: Where = "path"


@dataclass(frozen=True)
class PeriodicStalls:
    """Stalls of length_ns at first_ns + k × every_ns, their length varying by the share `scatter` of itself."""

    length_ns: int
    every_ns: int
    first_ns: int = 0
    scatter: float = 0.1
    where: Where = "path"


@dataclass(frozen=True)
class Throttling:
    """In each period_ns a real-time thread there does not run for gap_ns; `active` begins and ends, in ns."""

    first_ns: int
    where: Where = "talker"
    gap_ns: int = 50_000_000
    period_ns: int = SECOND_NS
    active_ns: int | None = None


@dataclass(frozen=True)
class LateWakes:
    """The talker wakes for each of these packets extra_ns late; submit: it wakes in time, and submits them late."""

    sequences: tuple[int, ...]
    extra_ns: int
    submit: bool = False


@dataclass(frozen=True)
class MissedSlots:
    """Each of these packets leaves its gate `cycles` cycles later than it would."""

    sequences: tuple[int, ...]
    cycles: int = 1


@dataclass(frozen=True)
class Losses:
    """Packets that are sent and never arrive: `share` of all, each for itself, and `bursts` of (first, packets)."""

    share: float = 0.0
    bursts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Reorders:
    """Each of these packets is overtaken by `places` of those after it; drain_ns is 2 at least."""

    sequences: tuple[int, ...]
    places: int = 1


@dataclass(frozen=True)
class Duplicates:
    """So many further copies arrive; the listener counts them, and records none."""

    count: int


@dataclass(frozen=True)
class WarmUp:
    """The first counted packets take longer: extra_ns × exp(−t / decay_ns), each times a factor from 0.5 to 1.5."""

    extra_ns: int
    decay_ns: int
    where: Literal["path", "application"] = "path"


@dataclass(frozen=True)
class Swing:
    """The listener's clock moves away from the talker's by amplitude_ns (either sign) and returns within length_ns.

    shape: `triangle`, out and back in proportion; `wave`, a whole sine, to one side and then the other; `hump`, a
    raised cosine. ptp: ptp4l's record reports it, where the description has one. compared: our own comparison of the
    clocks does.
    """

    at_ns: int
    length_ns: int
    amplitude_ns: int
    shape: Literal["triangle", "wave", "hump"] = "triangle"
    ptp: bool = False
    compared: bool = False


@dataclass(frozen=True)
class Drift:
    """The listener's clock runs faster by ppb, parts per 10^9, all the time. compared: as of a Swing."""

    ppb: float
    compared: bool = False


@dataclass(frozen=True)
class Step:
    """The listener's clock jumps by amplitude_ns (either sign), and back after length_ns (None: never).

    ptp, compared: as of a Swing. read: readings of the clock, a second apart, show it.
    """

    at_ns: int
    amplitude_ns: int
    length_ns: int | None = None
    ptp: bool = False
    compared: bool = False
    read: bool = False


@dataclass(frozen=True)
class Oscillation:
    """The path takes a sine of pk_pk_ns, from peak to peak, longer all the time, or the talker wakes so.

    every_ns: its period.
    """

    pk_pk_ns: int
    every_ns: int
    where: Literal["path", "talker"] = "path"


@dataclass(frozen=True)
class PathChange:
    """The path takes amplitude_ns longer (either sign) for length_ns, as a hump or, sudden, as a step."""

    at_ns: int
    length_ns: int
    amplitude_ns: int
    sudden: bool = False


Ingredient = (
    Stall
    | Spikes
    | Periodic
    | PeriodicStalls
    | Throttling
    | LateWakes
    | MissedSlots
    | Losses
    | Reorders
    | Duplicates
    | WarmUp
    | Swing
    | Drift
    | Step
    | PathChange
    | Oscillation
)


@dataclass(frozen=True)
class Description:
    """A synthetic run: packet n is launched at start_tai_ns + n × period_ns.

    The same description gives the same run, to the nanosecond. warmup: so many packets are launched before the end of
    the warm-up. hardware: NICs stamp too. drain_ns: the least time between two packets anywhere on the way.
    clock_bound_ns: by how much the two hosts' clocks may be off by the recording's own bound; 0: one kernel, None:
    nothing bounds them. ptp: a ptp4l is observed at the listener's port. least_ns: the delays of the
    stages (latlab.model.timestamps.STAGES) without noise.
    """

    seed: int
    packets: int
    period_ns: int
    noise: Noise = Noise()
    ingredients: tuple[Ingredient, ...] = ()
    gates: SyntheticGates | None = None
    start_tai_ns: int = 1_800_000_000_000_000_000
    warmup: int = 0
    hardware: bool = False
    drain_ns: int = 500
    clock_bound_ns: int | None = None
    ptp: bool = False
    least_ns: tuple[int, ...] = (4_000, 1_500, 1_000, 1_000, 2_000, 15_000, 5_000, 8_000)


NOISE_SHARES: Final = (0.3, 0.1, 0.05, 0.1, 0.02, 1.0, 0.1, 0.3)
"""How much of the noise each of these stages has."""
