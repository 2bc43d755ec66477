"""Why the breakdown of a packet or an instant is incomplete: one reason for each, with a short id that stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import polars as pl

from latlab.analysis.interrupt_way import Passage
from latlab.analysis.interrupts import AWAKE, EVENTS_LOST, NO_WAKING
from latlab.result.types import MissingStage

EMULATED: Final = "emulated"
NOT_TRACED: Final = "vm-host-not-traced"
NO_CLOCK: Final = "no-clock"
NO_VCPU: Final = "no-vcpu"
NO_VCPU_NUMBERS: Final = "no-vcpu-numbers"
NO_VECTOR: Final = "no-vector"
NO_INJECTION: Final = "no-injection"
ENTERED_LATER: Final = "entered-later"
NO_ACCEPTANCE: Final = "no-acceptance"
NO_REQUEST: Final = "no-request"
EARLIER_TIMER: Final = "earlier-timer"
VM_HOST_EVENTS_LOST: Final = "vm-host-events-lost"

REASONS: Final = {
    AWAKE: "the thread was not asleep, so there was no wake-up",
    EVENTS_LOST: "the kernel lost events of that time",
    NO_WAKING: "the thread was asleep, but the kernel did not report its wake-up",
    "no-switch": "the kernel did not report that the thread began to run",
    "by-thread": "another thread woke it, not an interrupt or softirq",
    "softirq-by-thread": "a thread that is not an interrupt handler raised the softirq that woke it",
    "no-raise": "the kernel did not report what raised the softirq that woke it",
    "backlog": "the packet waited in a CPU's backlog: its interrupt is not known",
    "earlier-handler": "the handler that woke it had already begun, for another timer or packet",
    EMULATED: "the guest is emulated, without KVM: the stages begin at the guest's interrupt",
    NOT_TRACED: "the guest's VM host was not traced: the stages begin at the guest's interrupt",
    NO_CLOCK: "the offset of the guest's clock from its VM host's is not bounded",
    NO_VCPU: (
        "no single thread of the VM host runs this vCPU: KVM does not run it, or two guests have a vCPU of this number"
    ),
    NO_VCPU_NUMBERS: "this KVM reports the injection of the vCPU's own timer only (arm64)",
    NO_VECTOR: "KVM injected no vector before most of these handlers: the hardware may deliver it (AVIC, APICv)",
    NO_INJECTION: "no injection by KVM can be assigned to this handler alone",
    ENTERED_LATER: "KVM entered the guest after this handler had begun",
    NO_ACCEPTANCE: "the kernel did not report that the vCPU's APIC took the interrupt",
    NO_REQUEST: "the kernel did not report what raised the guest's interrupt",
    EARLIER_TIMER: "the VM host's interrupt began before the timer was due: it belongs to an earlier timer",
    VM_HOST_EVENTS_LOST: "the VM host's kernel lost events of that time",
}
"""{id: what it means}. A packet or an instant has the first that applies, from its thread back to its interrupt."""


def missing_stages(passage: Passage, told: pl.DataFrame, entry: Sequence[str | None]) -> list[str | None]:
    """The reason of each packet or instant; None: its breakdown is whole.

    told: `wakings` of them. entry: of each why the stages on a guest's VM host are not known.
    """
    run, irq = (passage.passed[:, passage.stops.index(stop)].tolist() for stop in ("run", "irq"))
    backlog = passage.passed[:, passage.stops.index("backlog")].tolist() if "backlog" in passage.stops else None
    found: list[str | None] = []
    for number, row in enumerate(told.select("why", "irq_tai_ns", "softirq_tai_ns", "raised_by").iter_rows(named=True)):
        if row["why"] or not run[number]:
            found.append(row["why"] or "no-switch")
        elif backlog and backlog[number]:
            found.append("backlog")
        elif not irq[number]:
            found.append(_no_interrupt(row))
        else:
            found.append(entry[number])
    return found


def missing_of(reasons: Iterable[str | None]) -> tuple[int, list[MissingStage]]:
    """How many breakdowns are whole, and why the others are not."""
    counts = Counter(reasons)
    whole = counts.pop(None, 0)
    ordered = sorted(((one, n) for one, n in counts.items() if one), key=lambda item: (-item[1], item[0]))
    return whole, [MissingStage(id=one, n=n, reason=REASONS[one]) for one, n in ordered]


def _no_interrupt(row: Mapping[str, int | None]) -> str:
    if row["irq_tai_ns"] is not None:
        return "earlier-handler"
    if row["softirq_tai_ns"] is None:
        return "by-thread"
    return "no-raise" if row["raised_by"] is None else "softirq-by-thread"
