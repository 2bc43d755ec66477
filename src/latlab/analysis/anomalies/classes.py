"""The classes of anomalies: what each is called, what it means, whether it is cut, and which one goes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from latlab.model.timestamps import DRIVER, PATH, QDISC, SOCKET, TALKER

Shape = Literal["square", "circle", "diamond", "hexagon"]
"""Squares are what happened to packets on their path, circles what single late packets were, diamonds what moved all of
them, hexagons what is the measurement's own."""

NONE: Final = 0
"""The code of packets that nothing is the matter with."""


@dataclass(frozen=True)
class Search:
    """One way to find a class. found_by: what is looked for. is_not: what resembles it, and has not this class."""

    found_by: str
    is_not: str = ""


@dataclass(frozen=True)
class AnomalyClass:
    """One class, as docs/reference/anomaly-classes.md has it too.

    name: its id, in documents. title: for people. meaning: one sentence. evidence: what its episodes have. searches:
    how it is found. cut: whether clean windows leave its episodes out, of themselves or (`sometimes`) as an episode's
    evidence says. letter, shape: its mark in a series; none where it is at no instant that is known. places: those of
    latlab.model.timestamps at which it happens, where its episodes do not say it; empty: any.
    """

    name: str
    title: str
    meaning: str
    evidence: str
    searches: tuple[Search, ...] = ()
    cut: bool = False
    letter: str = ""
    shape: Shape = "square"
    places: tuple[str, ...] = ()


_MOVED: Final = (
    Search(
        "the level of the one-way delay (NIC to NIC, else kernel to kernel) over seconds differs from its usual "
        "value by `level_spread` of the packets' spread and `level_scatter` times its own scatter, for "
        "`level_length_ns`. A step is flat and changes at once; it is located to the packet. Of two levels the one "
        "with fewer packets counts as the deviation: which clock was right is not known",
        "more noise at the same level",
    ),
    Search(
        "medians of half intervals (50 ms, 16 packets at least) differ from those within 2 s by `level_spread` of the "
        "packets' spread and `shift_scatter` times their scatter, while the level before and after is the same and "
        "steady. Between the first and the last packet most exceed half of the shift, or two spreads if the shift is "
        "gradual. If packets were late independently, chance would produce less than the share `chance` of such a row "
        "in the run",
        "the peak of a slower movement; many packets in a row on a different one of several paths; queued packets; "
        "shifts shorter than half an interval, whose packets are late individually; shifts less than an interval from "
        "either end; streams of less than 4 s",
    ),
)

CLASSES: Final[tuple[AnomalyClass, ...]] = (
    AnomalyClass(
        "loss_burst",
        "Loss burst",
        "consecutive packets that the kernel accepted never arrived",
        "`lost`, `length_ns`, `single_losses` (other rows of losses), `least` (how many losses in a row are a burst), "
        "`until_the_end`",
        (
            Search(
                "`burst` losses in a row; more where single losses are so frequent that chance alone produces `chance` "
                "such rows",
                "single losses, which are only counted; packets never sent",
            ),
        ),
        letter="L",
    ),
    AnomalyClass(
        "throttled",
        "Throttled",
        "real-time threads were stopped for a part of every period",
        "as for a `stall`; `gap_ns`, `every_ns`, `times`, `kernel_says_so`, `own_thread` (talker's or listener's "
        "application), `settings` of the hosts that may have delayed the packets: `host`, `setting` as it was read, "
        "and what its kernel's `log` says",
        (
            Search(
                "stalls of `rt_period_us` − `rt_runtime_us` (a period of the stream less to `throttled_tolerance` "
                "more) at intervals of `rt_period_us`: three, or two if the kernel's log reports throttling. Without "
                "such a report they must be six in ten of all such stalls in that time",
                "regular stalls of other lengths; nothing where throttling is off (`rt_runtime_us` −1)",
            ),
        ),
        cut=True,
        letter="T",
        shape="hexagon",
    ),
    AnomalyClass(
        "stall",
        "Stall",
        "packets were queued and arrived together: latency fell as fast as launch times rose",
        "`length_ns` (the longest time in the queue: the stall began less than a period before), `held`, `where`, "
        "`share` of the lateness there (of the parts that took longer than usual), `within_ns` (arrived within), "
        "`slope` of latency over launch time (−1: at one instant), `limit_ns`, `every_ns` if it comes regularly, "
        "`stolen_ns`: CPU time stolen in the whole cell from the hosts that may have stalled them",
        (
            Search(
                "a late packet, and others behind it that arrived closer together than `crowd` of the time between "
                "their launches. Two packets only if both are late individually. Or a train: packets that arrived "
                "closer together, and more often, than chance explains, regardless of the limit",
                "one late packet. Packets whose latencies do not fall at least `crowd` as fast as launch times rise. A "
                "path whose packets nearly always arrive in bursts, for example behind a gate that opens once for many",
            ),
        ),
        letter="S",
    ),
    AnomalyClass(
        "missed_slot",
        "Missed slot",
        "packets left in a later gate window than their own",
        "`windows_late`, `waited_ns`, `submitted_after_ns`, `from`; without a schedule `cycles_late`, `cycle_ns`",
        (
            Search(
                "with a schedule: as `gates.missed` of the result, late or not. With a cycle only: late packets that "
                "waited one or more whole cycles before they left, within a few spreads",
                "without a schedule or a cycle the class is unexplained",
            ),
        ),
        letter="M",
        places=(SOCKET, QDISC, DRIVER),
    ),
    AnomalyClass(
        "reorder",
        "Reordered",
        "packets were overtaken: they arrived after a larger sequence number (RFC 4737 §3.3)",
        "`extent` (§4.2.1), `packets`",
        (
            Search(
                "the order of arrival",
            ),
        ),
        letter="R",
    ),
    AnomalyClass(
        "warm_up",
        "Warm-up",
        "the beginning, after the warm-up, was slower than the rest",
        "`packets`, `length_ns`, `first_ns` and `most_ns` over `usual_ns`, and `where`, of the packets that were not "
        "queued",
        (
            Search(
                "the median of the first 8 to 2,048 packets is compared with medians of as many consecutive packets "
                "later in the stream, so correlated noise raises no alarm. It ends where the level is usual",
                "longer than `warm_up_most` of the stream; a settling clock: only the path is slower, packets are "
                "spread no wider than later, and the clocks' bounds allow it",
            ),
        ),
        cut=True,
        letter="W",
        shape="hexagon",
    ),
    AnomalyClass(
        "late_sender",
        "Late sender",
        "the talker woke late or handed packets over late, and therefore they left late",
        "`late_ns`, `wake_ns`, `submit_ns`, `limit_ns`",
        (
            Search(
                "late packets with the share `sender` of their delay before `submit`; also any packet whose talker "
                "exceeded its own limit, if that is most of the packet's lateness",
                "a late wake-up that a gate or a launch time compensates",
            ),
        ),
        letter="A",
        shape="circle",
        places=(TALKER,),
    ),
    AnomalyClass(
        "periodic",
        "Periodic spikes",
        "packets were late at regular intervals",
        "`every_ns`, `every_packets` (if always a whole number), `times`, `off_ns`, `late_p50_ns`, `late_max_ns`, "
        "`where`, `of` (the kinds of events)",
        (
            Search(
                "late packets, stalls, late sends and missed slots at one place, at intervals that agree within "
                "`comb_tolerance`: at least `repeats` events, at `comb_share` of the regular instants, and more "
                "regular than chance explains. Stalls and the other kinds keep their class, and have `every_ns`",
                "frequent events at random times",
            ),
        ),
        letter="P",
        shape="circle",
    ),
    AnomalyClass(
        "unexplained",
        "Unexplained",
        "packets were late, or all latencies shifted, and no other class explains it",
        "`late_ns`, `where`, `limit_ns`; if all latencies shifted, as for a `clock_step`, with `where`",
        letter="?",
        shape="circle",
    ),
    AnomalyClass(
        "clock_step",
        "Clock step",
        "all latencies jumped at once, and a clock's record shows it",
        "`kind`, `peak_ns`, `pk_pk_ns`, `length_ns`, `fastest_ppb`, `below_zero`, `steps` (readings of a host's clock "
        "that show it: `host`, `by_ns`), `parallel`, `ptp`, `comparison`, `clock_bound_ns`; of the records of that "
        "time `ptp_offset` (`of`, `readings`, `min_ns`, `max_ns`, `usual_ns` before and after, `correlation`, `states` "
        "of the port), `compared` and `taken_off` (`by`, `min_ns`, `max_ns`, `looks`)",
        _MOVED,
        cut=True,
        letter="J",
        shape="diamond",
        places=(PATH,),
    ),
    AnomalyClass(
        "clock_swing",
        "Clock swing",
        "all latencies moved slowly and together, or drifted throughout the run, and a clock's record shows it",
        "as for a `clock_step`",
        _MOVED,
        cut=True,
        letter="C",
        shape="diamond",
        places=(PATH,),
    ),
    AnomalyClass(
        "path_change",
        "Path change",
        "all latencies shifted, and not because of the clocks: their bounds are narrower, or the fastest packets did "
        "not shift",
        "as for a `clock_step`",
        _MOVED,
        letter="H",
        shape="diamond",
        places=(PATH,),
    ),
    AnomalyClass(
        "oscillation",
        "Oscillation",
        "the usual latency rose and fell regularly throughout the run, and no clock's record shows it",
        "`period_ns`, `pk_pk_ns`, `cycles`, `share` of the level's variance, `where`; `others`: period and amplitude "
        "of further waves, in the share, too; of the clocks as for a `clock_step`",
        letter="O",
        shape="diamond",
    ),
    AnomalyClass(
        "drift",
        "Drift",
        "the usual latency rose or fell throughout the run, and no clock's record shows it",
        "as for a `clock_step`",
        letter="D",
        shape="diamond",
    ),
    AnomalyClass(
        "duplicate",
        "Duplicates",
        "extra copies of packets arrived; it was not recorded which packets",
        "`copies`, `received`: a listener only counts them, so no packet has this class",
    ),
)
"""In the order of precedence: a packet that several classes would have belongs to the first of them.

What happened to single packets goes before what moved all of them, so that a late packet within a clock swing is
not called one. `duplicate` has no separate packets.
"""

NAMES: Final[tuple[str, ...]] = tuple(one.name for one in CLASSES)
CODE: Final[dict[str, int]] = {name: code for code, name in enumerate(NAMES, start=1)}
"""{name: code}: what stands in the column `class_of`; NONE elsewhere."""
BY_NAME: Final[dict[str, AnomalyClass]] = {one.name: one for one in CLASSES}
