"""What the agents are told that trace how packets and instants come from the interrupt to who waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from latlab.scenario import Scenario
from latlab.testbed.step import Spec

THREADS: Final = ("sched:sched_waking", "sched:sched_switch")
"""What it takes to tell when a thread is woken and runs."""

EVENTS: Final = (
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_raise",
    "irq:softirq_entry",
    "irq:softirq_exit",
    *THREADS,
)
"""And from the interrupt on (docs/explanation/where-the-time-went.md)."""

ENTRIES: Final = (
    "kvm:kvm_msi_set_irq",
    "kvm:kvm_set_irq",
    "kvm:kvm_apic_accept_irq",
    "kvm:kvm_inj_virq",
    "kvm:kvm_entry",
    "kvm:kvm_exit",
)
"""What it takes to tell on a VM host how an interrupt came into a guest (analysis/entry.py), and what it came to
(analysis/guest_state.py)."""

TIMER_INTERRUPTS: Final = ("irq_vectors:local_timer_entry", "irq_vectors:local_timer_exit")
"""x86's own timer; that of other machines is an interrupt as any other."""

NET_RX: Final = 3
"""The softirq that receives (include/linux/interrupt.h)."""
THREADS_MOST: Final = 64
"""That an agent takes (agent/wire/src/spec/trace.rs): the kernel's filters are a page at most."""
HRTIMER: Final = 8
"""The one of timers, of threads that are not real-time on PREEMPT_RT."""


def trace_spec(scenario: Scenario, host: str, threads: Sequence[int | str], run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` beside what receives on a host; threads: their numbers, as `ready` says."""
    whole = scenario.tuning_of(host).listener.trace is True
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": list(EVENTS if whole else THREADS),
        "threads": list(threads),
        **({"softirqs": [NET_RX]} if whole else {}),
    }


def waking_spec(threads: Sequence[int | str], run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` beside a timer; threads: the one that waits for it."""
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": [*EVENTS, *TIMER_INTERRUPTS],
        "threads": list(threads),
        "softirqs": [HRTIMER],
        "absent": "skip",
    }


def entry_spec(threads: Sequence[int | str], run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` on the VM host of a guest that KVM runs; threads: its QEMU's and vhost's.

    KVM of another architecture has other tracepoints: those that are not there are left out.
    """
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": [*EVENTS, *TIMER_INTERRUPTS, *ENTRIES],
        "threads": list(threads[:THREADS_MOST]),
        "softirqs": [NET_RX],
        "absent": "skip",
    }
