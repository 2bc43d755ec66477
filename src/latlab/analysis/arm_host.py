"""What KVM of arm64 reports of its guests, as x86's events, from which the way of an interrupt into a guest is found.

Its `kvm_entry` has no number of the vCPU (arch/arm64/kvm/trace_arm.h): that is in the name that QEMU gives its thread.
No event reports what is injected. A vCPU's own timer is made pending by the vCPU's thread alone
(`vgic_update_irq_pending`; kvm_timer_update_irq() in arch/arm64/kvm/arch_timer.c): in the handler of the interrupt that
made it leave its guest, or before it enters it again. So the next entry is the one with it. Of the messages of a
network card nothing is reported.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from latlab.analysis.interrupts import ACCEPT, ENTRY, EXIT, IRQ_ENTRY, IRQ_EXIT, PENDING, TIMER_ENTRY

_RAISED: Final = 1
_TRAPPED: Final = 2
"""ARM_EXCEPTION_TRAP (arch/arm64/include/asm/kvm_asm.h): the guest halted, or wanted something else."""
_VCPU: Final = r"^CPU (\d+)/KVM$"


def as_on_x86(trace: pl.DataFrame, tasks: pl.DataFrame) -> pl.DataFrame | None:
    """The trace of a VM host of arm64 with the events that x86 has for the same; None: it is of no such VM host.

    An entry has the vCPU's number. What its own thread makes pending for a vCPU is taken by it (ACCEPT); the interrupt
    in whose handler it does is its timer's (TIMER_ENTRY). Why a vCPU left its guest is unknown, unless an interrupt
    made it. tasks: the threads in the trace.
    """
    entered = trace.filter(pl.col("event") == ENTRY)
    if entered.is_empty() or entered["subject"].null_count() < entered.height:
        return None
    numbers = tasks.unique("pid", keep="first", maintain_order=True).select(
        "pid", vcpu=pl.col("comm").str.extract(_VCPU).cast(pl.Int64)
    )
    event, subject, vcpu, row = (pl.col(name) for name in ("event", "subject", "vcpu", "row"))
    own = (event == PENDING) & (pl.col("detail") == _RAISED) & vcpu.is_not_null()
    found = trace.join(numbers.drop_nulls(), on="pid", how="left", maintain_order="left").with_columns(
        event=pl.when(own).then(pl.lit(ACCEPT, pl.UInt8)).otherwise(event),
        subject=pl.when(event == ENTRY)
        .then(vcpu)
        .when((event == EXIT) & (subject == _TRAPPED))
        .then(None)
        .otherwise(subject),
        detail=pl.when(own).then(vcpu).otherwise(pl.col("detail")),
    )
    # On each CPU the handler that had begun last, unless it has returned.
    numbered = found.with_row_index("row")
    handler = numbered.with_columns(
        last=pl.when(event.is_in([IRQ_ENTRY, IRQ_EXIT])).then(row).forward_fill().over("cpu")
    ).filter(event == ACCEPT)
    within = pl.col("row").is_in(handler["last"].drop_nulls().to_list()) & (event == IRQ_ENTRY)
    return numbered.with_columns(event=pl.when(within).then(pl.lit(TIMER_ENTRY, pl.UInt8)).otherwise(event)).select(
        trace.columns
    )
