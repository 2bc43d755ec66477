"""The specs of the agents that trace packets and instants from the interrupt to the thread that waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from latlab.scenario import Scenario
from latlab.testbed.step import Spec

THREADS: Final = ("sched:sched_waking", "sched:sched_switch")
"""The events that show when a thread is woken and runs."""

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
    "kvm:vgic_update_irq_pending",
)
"""The events that show on a VM host how an interrupt got into a guest (analysis/entry.py), and what it interrupted
(analysis/guest_state.py)."""

TIMER_INTERRUPTS: Final = ("irq_vectors:local_timer_entry", "irq_vectors:local_timer_exit")
"""x86's own timer; that of other machines is an interrupt as any other."""

NET_RX: Final = 3
"""The softirq that receives (include/linux/interrupt.h)."""
THREADS_MOST: Final = 64
"""That an agent takes (agent/wire/src/spec/trace.rs): the kernel's filters are a page at most."""
KEPT_KIB: Final = 2048
"""What the kernel holds of each CPU's events where only windows are kept, KiB: more than a second's of most hosts."""
HRTIMER: Final = 8
"""The one of timers, of threads that are not real-time on PREEMPT_RT."""


def trace_spec(scenario: Scenario, host: str, threads: Sequence[int | str], run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` next to what receives on a host; threads: their numbers, as `ready` says."""
    whole = scenario.tuning_of(host).listener.trace is True or host in scenario.kept
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": list(EVENTS if whole else THREADS),
        "threads": list(threads),
        **({"softirqs": [NET_RX]} if whole else {}),
        **_windows_only(scenario, host),
    }


def waking_spec(threads: Sequence[int | str], run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent trace` next to a timer; threads: the one that waits for it."""
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": [*EVENTS, *TIMER_INTERRUPTS],
        "threads": list(threads),
        "softirqs": [HRTIMER],
        "absent": "skip",
    }


def entry_spec(
    scenario: Scenario, guest: str, threads: Sequence[int | str], run_id: str, recording: Path | str
) -> Spec:
    """The spec of `latlab-agent trace` on the VM host of a guest that KVM runs; threads: its QEMU's and vhost's.

    KVM of another architecture has other tracepoints: those that are not there are left out.
    """
    timed = scenario.traced_timers
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {"lock_memory": False},
        "events": [*EVENTS, *TIMER_INTERRUPTS, *ENTRIES],
        "threads": list(threads[:THREADS_MOST]),
        "softirqs": [NET_RX],
        "absent": "skip",
        # A timer's breakdown is of all its instants.
        **({} if any(guest in scenario.probe_hosts(name) for name in timed) else _windows_only(scenario, guest)),
    }


def _windows_only(scenario: Scenario, host: str) -> Spec:
    """What makes a trace of what is received there keep only what is around late packets, where it is to."""
    return {"windows_only": True, "buffer_kib": KEPT_KIB} if host in scenario.kept else {}
