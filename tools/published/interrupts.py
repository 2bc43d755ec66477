"""Interrupt latency under a hypervisor (xen-devel, 2021)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, sqrt
from statistics import fmean
from typing import Final

from latlab.analysis.comparison.effect import Effect, paired
from latlab.analysis.interrupt_way import GUEST_TIMER_WAY, interval_name
from latlab.report.charts.sheet import QUIET
from published.claims import (
    EFFECTS,
    NOT_MEASURED,
    US,
    Agrees,
    Check,
    Claim,
    Figures,
    Finding,
    Of,
    differ,
    judged,
    number,
    with_error,
)
from published.experiment import MICROSECONDS, Entry, Experiment, Ours, Part, Picture, Published, Table
from published.pictures import Bars, Row, of_bridge, repetitions, stages

_LOADS: Final = {"none": "idle", "host-calls": "beside system calls", "vm2-packets": "beside another guest's packets"}
_ROWS: Final = tuple((probe, load, name) for probe in ("native", "guest") for load, name in _LOADS.items())
_COLOURS: Final = {"native": QUIET, "guest": of_bridge("tap")}
_OWN: Final = ("latlab-agent", "exe")
"""latlab's programs, by the names that the kernel has of them."""


def _timer(probe: str, load: str, metric: str = "interrupt") -> Of:
    return Of(f"probes={probe}, loads={load}", metric, probe)


_WHOLE: Final = 0.01
"""He prints whole per cent, and 0 %."""


def _counted(figures: Figures, probe: str, load: str, *, thread: bool = False) -> list[tuple[int, int]]:
    """How many interrupts were handled later than 30 µs, and of how many, for each repetition; or threads woken."""
    blocks = [one["timer"] for one in figures.blocks(_timer(probe, load).cells, probe)]
    timers = [one if thread else one.get("interrupt") or one for one in blocks]
    return [(one["above"], one["n"]) for one in timers]


def _ran(probe: str, load: str) -> Callable[[Figures], str]:
    """What ran, on the VM host if it is a guest's, when the interrupts came, the most first, in per cent."""

    def text(figures: Figures) -> str:
        counts: Counter[str] = Counter()
        for one in figures.blocks(f"probes={probe}, loads={load}", probe):
            trace = one.get("trace") or {}
            entry = trace.get("entry")
            for found in entry["ran"] if entry else trace.get("interrupted", ()):
                counts[_who(found["what"], found["comm"] or "", load)] += found["n"]
        n = sum(counts.values())
        most = [f"{what} {100 * count / n:.0f} %" for what, count in counts.most_common(4) if count >= 0.005 * n]
        return ", ".join(most) or "–"

    return text


def _who(what: str, comm: str, load: str) -> str:
    if not what.startswith(("thread", "softirq")):
        return what
    if comm in _OWN:
        # The load that calls the kernel is a process of latlab's, and runs whenever nothing else does.
        return f"{what} of {'the load' if load == 'host-calls' else 'latlab'}"
    return f"{what} {comm.rstrip('-0123456789')}".strip()


def _share(probe: str, load: str, *, thread: bool = False) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        counted = _counted(figures, probe, load, thread=thread)
        return f"{sum(above for above, _ in counted)} of {sum(n for _, n in counted)}" if counted else "–"

    return text


def _more_above(load: str) -> Check:
    """A claim that more of a guest's interrupts are later than 30 µs next to this load than idle."""

    def check(figures: Figures) -> Finding:
        idle, busy = ([100 * above / n for above, n in _counted(figures, "guest", one) if n] for one in ("none", load))
        if not idle or len(idle) != len(busy):
            return NOT_MEASURED
        found = judged([("with the load", paired(idle, busy))], 0, inf, _percent)
        if not any((*idle, *busy)):
            found = Finding(found.measured, "not shown", absent="none was above 30 µs, with the load or idle")
        return replace(found, measured=EFFECTS.join((found.measured, mean(figures).measured)))

    mean = differ([("mean", _timer("guest", "none"), _timer("guest", load))])
    return check


def _percent(one: Effect, half: float | None) -> str:
    error = "" if half is None else f" ({with_error(one.difference, half)})"
    return f"{one.b:.1f} % above 30 µs{error}, idle {one.a:.1f} %"


def _within_threshold(figures: Figures) -> Finding:
    counted = _counted(figures, "guest", "none")
    above, n = (sum(one) for one in zip(*counted, strict=True)) if counted else (0, 0)
    if not n:
        return NOT_MEASURED
    low, high = _binomial(above, n)
    agrees: Agrees = "yes" if high < _WHOLE else "no" if low > _WHOLE else "not shown"
    wide = "more instants are needed" if agrees == "not shown" else ""
    return Finding(f"{above} of {n} above 30 µs: {100 * low:.2f} to {100 * high:.2f} %", agrees, wide)


def _binomial(k: int, n: int) -> tuple[float, float]:
    """The two ends of Wilson's 95 % interval of a share, 0 to 1 (E. B. Wilson, JASA 22, 1927, pp. 209-212)."""
    square = 1.959964**2
    middle, half = (k + square / 2) / (n + square), sqrt(square * (k * (n - k) / n + square / 4)) / (n + square)
    return middle - half, middle + half


def _adds_up(figures: Figures) -> Finding:
    """Whether 95 of 100 traced interrupts have all stages; and what tracing costs."""
    words, n, whole = [], 0, 0
    for probe, name in (("native", "native"), ("guest", "guest")):
        path = f"{probe}-path"
        traces = [
            trace
            for load in _LOADS
            for one in figures.blocks(f"probes={path}, loads={load}", path)
            if (trace := one.get("trace"))
        ]
        n, whole = n + sum(one["n"] for one in traces), whole + sum(one["whole"] for one in traces)
        costs = []
        for metric, stage in (("interrupt", "handler"), ("wakeup", "thread")):
            means = [figures.over_all(_timer(one, "none", metric), "mean") for one in (probe, path)]
            known = [f"{one[0] / US:.1f}" for one in means if one is not None]
            costs.append(f"{stage} {' → '.join(known)} µs")
        words.append(f"{name}, idle, untraced → traced: {', '.join(costs)}")
    if not n:
        return NOT_MEASURED
    return Finding(EFFECTS.join([f"{whole} of {n} whole", *words]), "yes" if whole >= 0.95 * n else "no")


def _both(
    named: str, probe: str, load: str = "", *, row: str = "", his: str = "–", above: str = ""
) -> tuple[Entry, ...]:
    """A row of the author's with ours that is closest to it, as far as there are both."""
    published: tuple[Entry, ...] = (named, Published(row) if row else his, above)
    if not probe:
        return *published, "", "", "", "", ""
    return (
        *published,
        f"{probe}, {_LOADS[load]}",
        Ours(_timer(probe, load)),
        _share(probe, load),
        Ours(_timer(probe, load, "wakeup")),
        _share(probe, load, thread=True),
    )


_WAY: Final = [one for one in GUEST_TIMER_WAY if one != "host_softirq"]
_STAGES: Final = tuple(interval_name(*ends) for ends in pairwise(_WAY))
_SUM: Final = "all"


def _path(figures: Figures, load: str) -> tuple[dict[str, float], dict[str, float]]:
    """{stage: ns} of a guest's typical interrupt, the mean of repetitions, and of the latest of all."""
    blocks = figures.blocks(f"probes=guest-path, loads={load}", "guest-path")
    chains = [chain for one in blocks if (chain := (one.get("trace") or {}).get("chain"))]
    usual = [
        _named(chain["stops"], group["ns"])
        for chain in chains
        for group in chain.get("groups", ())
        if group["name"] == "typical" and group.get("ns")
    ]
    latest = [
        _named(one.get("stops") or chain["stops"], one["ns"])
        for chain in chains
        for one in (chain.get("worst") or {}).get("each", ())
    ]
    typical = {
        stage: fmean(one.get(stage, 0) for one in usual) for stage in _STAGES if any(stage in one for one in usual)
    }
    return typical, max(latest, key=lambda one: sum(one.values()), default={})


def _named(stops: Sequence[str], ns: Sequence[float]) -> dict[str, float]:
    return dict(zip((interval_name(*ends) for ends in pairwise(stops)), ns, strict=True))


def _stage(load: str, stage: str) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        paths = _path(figures, load)
        found = [sum(one.values()) if stage == _SUM and one else one.get(stage) for one in paths]
        return " / ".join("–" if ns is None else number(ns / US, 1) for ns in found)

    return text


_DRAWN: Final = tuple(
    (of, [Row(f"{probe}, {name}", _timer(probe, load, metric), _COLOURS[probe]) for probe, load, name in _ROWS])
    for of, metric in (("handler", "interrupt"), ("thread", "wakeup"))
)


def _columns(figures: Figures) -> list[tuple[str, Bars]]:
    paths = {name: _path(figures, load) for load, name in _LOADS.items()}
    titles = "typical: mean of p40 to p60", "the latest of all repetitions"
    return [(title, [(name, path[side]) for name, path in paths.items()]) for side, title in enumerate(titles)]


INTERRUPTS = Experiment(
    "interrupts",
    "Interrupt latency under a hypervisor",
    "V. Babchuk, [IRQ latency measurements in hypervisor, xen-devel, 12 January 2021]"
    "(https://lore.kernel.org/xen-devel/87pn294szv.fsf@epam.com/), with A. Cooper's review",
    "How late is a timer's interrupt handled: natively, in a virtual machine on an idle host, and under a busy "
    "hypervisor?",
    [
        Part(
            "irq-latency-board",
            "interrupt",
            "Timer to handler, one CPU",
            [
                Table(
                    "min / mean ± / max / stddev, µs. A dash is a figure that he does not print. His log has five "
                    "lines of native Linux and two of Dom0; here are the extremes of the five, and one of the two. The "
                    "three lines of 10 s are his sample of the program's output, without a statement of the load. Ours "
                    "are next to the row that they are closest to. Native with system calls is the set-up that the "
                    "review asks for: one process makes blocking calls, another waits for its timer.",
                    "µs",
                    ("published", "handler", "above 30 µs", "ours", "handler", "above 30 µs", "thread", "above 30 µs"),
                    [
                        _both("Zephyr, native", "native", "none", row="Zephyr, native"),
                        _both("Linux, native, idle: least mean", "", row="Linux, native, 10 s without a spike"),
                        _both("Linux, native, idle: greatest mean", "", row="Linux, native, 10 s with a spike"),
                        _both("", "native", "host-calls", his=""),
                        _both("Linux in Dom0", "native", "vm2-packets", row="Linux, Dom0"),
                        _both("Zephyr in DomU, idle", "guest", "none", row="Zephyr, DomU, idle system, within 10 s"),
                        _both("Zephyr in DomU, sample: first 10 s", "", row="Zephyr, DomU, first 10 s", above="0 %"),
                        _both("second 10 s", "", row="Zephyr, DomU, second 10 s", above="0 %"),
                        _both("third 10 s", "", row="Zephyr, DomU, third 10 s", above="0 %"),
                        _both("", "guest", "host-calls", his=""),
                        _both("DomU, tuned, RTDS scheduler", "guest", "vm2-packets", his="– / 15 / – / –"),
                    ],
                    decimals=2,
                ),
                Table(
                    "Stages of a guest's traced interrupt, µs: typical (mean of p40 to p60, over repetitions) / the "
                    "latest one. They are the samples that the review asks for; the handler has run at the end of "
                    "`handler`. Tracing about doubles them. A stage may be below zero: KVM lets a guest's timer "
                    "fire ahead of its due time, then waits for the rest (`lapic_timer_advance_ns`, "
                    "arch/x86/kvm/lapic.c).",
                    "µs",
                    ("stage", *_LOADS.values()),
                    [(stage, *(_stage(load, stage) for load in _LOADS)) for stage in (*_STAGES, _SUM)],
                ),
                Table(
                    "What ran when the traced interrupts came: natively on their own CPU, of a guest on the VM "
                    "host's: the four most frequent, of 0.5 % and more.",
                    "",
                    ("traced", "what ran, share of interrupts"),
                    [(f"{probe}, {name}", _ran(f"{probe}-path", load)) for probe, load, name in _ROWS],
                ),
            ],
            [
                Claim(
                    '"baremetal OS provides latency of ~0.9us […] DomU on idle system shows mean latency of 12us"',
                    "mean, idle, guest − native: above 0",
                    differ([("guest − native", _timer("native", "none"), _timer("guest", "none"))], 0),
                    MICROSECONDS,
                ),
                Claim(
                    '"This fits into required 30us threshold" (DomU, idle system)',
                    "guest, idle: less than 1 % above 30 µs (he prints whole per cent: 0 %), with 95 %",
                    _within_threshold,
                    MICROSECONDS,
                ),
                Claim(
                    '"For interrupting EL2, this is where I\'d expect you to see all the problems with hypercalls" '
                    "(A. Cooper)",
                    "guest: handler's mean, with system calls on its host − idle: above 0",
                    differ([("with system calls", _timer("guest", "none"), _timer("guest", "host-calls"))], 0),
                    "With PREEMPT_RT the vCPU (SCHED_FIFO 1) interrupts the system calls of ordinary processes. Xen "
                    "cannot interrupt a hypercall.",
                ),
                Claim(
                    '"to identify main issues that prevent this" (30 µs under load)',
                    "guest with another guest's packets: more above 30 µs than idle",
                    _more_above("vm2-packets"),
                    MICROSECONDS,
                ),
                Claim(
                    '"see where the latency is in the system […] so the final stats can do a breakdown" (A. Cooper)',
                    "95 of 100 traced interrupts have every stage (the report has why others have not)",
                    _adds_up,
                    "Interrupts without all stages are in the report, each with its reason.",
                ),
            ],
            [
                Picture(
                    repetitions("Lateness of handler and thread", "after the due time", _DRAWN, (30,)),
                    "interrupts",
                    "Lateness of handler and thread, untraced, as in our table",
                ),
                Picture(
                    stages("Stages of a guest's interrupt", _columns),
                    "interrupt-breakdown",
                    "The table of stages as bars. Thin: below zero, as KVM lets a guest's timer fire ahead of its due "
                    "time",
                ),
            ],
            "The hypervisor is KVM, not Xen; the CPU is an emulated x86-64, not an R-Car H3. Guests run Debian with "
            "PREEMPT_RT, not Zephyr. Timers, loads and both guests share one CPU; the machine's other threads have a "
            "second one. A run of 1.2 s has windows of 500 ms; the author's are of 10 s.",
        )
    ],
)
