"""Interrupt latency under a hypervisor (xen-devel, 2021)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from published.claims import NOT_MEASURED, Claim, Figures, Finding, Of, differ
from published.experiment import MICROSECONDS, Entry, Experiment, Ours, Part, Picture, Published, Table


def _timer(probe: str, load: str) -> Of:
    return Of(f"probes={probe}, loads={load}", "interrupt", probe)


_BUSY: Final = ("host-calls", "vm2-packets")


def _share(probe: str, load: str) -> Callable[[Figures], str]:
    def text(figures: Figures) -> str:
        above, n = _counted(figures, probe, load)
        return f"{100 * above / n:.1f} %" if n else "–"

    return text


def _counted(figures: Figures, probe: str, load: str) -> tuple[int, int]:
    """How many interrupts were handled later than 30 µs, and of how many."""
    timers = [one["timer"].get("interrupt") or one["timer"] for one in figures.blocks(_timer(probe, load).cells, probe)]
    return sum(one["above"] for one in timers), sum(one["n"] for one in timers)


def _within_threshold(figures: Figures) -> Finding:
    above, n = _counted(figures, "guest", "none")
    busy = ", ".join(f"{load} {_share('guest', load)(figures)}" for load in _BUSY)
    if not n:
        return NOT_MEASURED
    return Finding(
        f"guest, idle: {above} of {n} above 30 µs; beside load: {busy}", "yes" if above <= 0.005 * n else "no"
    )


def _adds_up(figures: Figures) -> Finding:
    parts, all_whole, measured = [], True, False
    for probe in ("native-path", "guest-path"):
        traces = [
            trace
            for load in ("none", *_BUSY)
            for one in figures.blocks(f"probes={probe}, loads={load}", probe)
            if (trace := one.get("trace"))
        ]
        n, whole = sum(one["n"] for one in traces), sum(one["whole"] for one in traces)
        measured |= n > 0
        all_whole &= whole >= 0.99 * n
        stages = {pair: None for one in traces for pair in one.get("chain", {}).get("stops", [])}
        parts.append(f"{probe}: {whole} of {n} whole ({' → '.join(stages)})")
    return Finding("; ".join(parts), ("yes" if all_whole else "no") if measured else "not shown")


def _irq_row(name: str, published: str, probe: str, load: str) -> tuple[Entry, ...]:
    return name, Published(published) if published else "–", Ours(_timer(probe, load)), _share(probe, load)


INTERRUPTS = Experiment(
    "interrupts",
    "Interrupt latency under a hypervisor",
    "V. Babchuk, IRQ latency measurements in hypervisor, xen-devel, January 2021",
    "How late is a timer's interrupt handled: natively, in a virtual machine on an idle host, and beside a busy "
    "hypervisor?",
    [
        Part(
            "irq-latency-board",
            "interrupt",
            "Timer to handler, one CPU",
            [
                Table(
                    "min / avg ± / max / stddev, µs; the author's blanks are figures that he does not print.",
                    "µs",
                    ("", "published", "ours", "ours: share above 30 µs"),
                    [
                        _irq_row("native (Zephyr)", "Zephyr, native", "native", "none"),
                        _irq_row(
                            "native (Linux, without a spike)", "Linux, native, 10 s without a spike", "native", "none"
                        ),
                        _irq_row(
                            "native (Linux, with a spike); ours beside system calls",
                            "Linux, native, 10 s with a spike",
                            "native",
                            "host-calls",
                        ),
                        _irq_row("guest, idle (DomU)", "Zephyr, DomU, idle system, within 10 s", "guest", "none"),
                        _irq_row(
                            "guest, first 10 s (DomU); ours beside system calls",
                            "Zephyr, DomU, first 10 s",
                            "guest",
                            "host-calls",
                        ),
                        _irq_row(
                            "guest, third 10 s (DomU); ours beside another guest's packets",
                            "Zephyr, DomU, third 10 s",
                            "guest",
                            "vm2-packets",
                        ),
                    ],
                )
            ],
            [
                Claim(
                    "Natively an interrupt is handled sooner than in an idle guest",
                    differ([("guest − native", _timer("native", "none"), _timer("guest", "none"))], 0),
                    MICROSECONDS,
                ),
                Claim(
                    "A busy hypervisor makes the guest's interrupts later",
                    differ([(load, _timer("guest", "none"), _timer("guest", load)) for load in _BUSY], 0),
                    "The vCPU has SCHED_FIFO 1 here and preempts what the load runs; Xen cannot interrupt a hypercall.",
                ),
                Claim("A guest on an idle host stays within 30 µs", _within_threshold, MICROSECONDS),
                Claim(
                    "Asked for in the review: the breakdown of one interrupt, which adds up (99 of 100 whole)",
                    _adds_up,
                    "Interrupts whose stages were not all traced are reported with their reason.",
                ),
            ],
            [
                Picture("timers.png", "interrupts", "Lateness of handler and thread, every cell"),
                Picture("guest-path-reception-chain.png", "interrupt-breakdown", "Stages of a guest's interrupt"),
            ],
            "The hypervisor is KVM, not Xen; the CPU is an emulated x86-64, not an R-Car H3. Dom0 (published: 9.2 µs "
            "on average) has "
            "no counterpart: with KVM the host is native.",
        )
    ],
)
