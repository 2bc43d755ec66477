"""What an interrupt into a guest interrupted: a program in it, its kernel, the hypervisor, or an idle vCPU.

The VM host's tracepoints show when a vCPU enters its guest and when, why and where it leaves it (`kvm_entry`,
`kvm_exit`, arch/x86/kvm). A vCPU that was in its guest as the interrupt was asked for is made to leave it, and leaves
it where it was interrupted: in the upper half of the addresses, which is the kernel's (Linux,
Documentation/arch/x86/x86_64/mm.rst), or in the lower one. One that had left it was idle if it left it to halt; if for
anything else, KVM or QEMU was at work for it, or it waited for a CPU of the host's.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.entry import Events, Instants
from latlab.analysis.interrupts import ENTRY, EXIT, lost_between

GUEST_USER: Final = "guest user"
GUEST_KERNEL: Final = "guest kernel"
HYPERVISOR: Final = "hypervisor"
GUEST_IDLE: Final = "guest idle"

_HALTED: Final = (12, 0x78)
"""Exit reasons: EXIT_REASON_HLT of Intel, SVM_EXIT_HLT of AMD (arch/x86/include/uapi/asm). Each is none of the other's
that KVM lets a guest of its own leave by: 0x78 is beyond Intel's last, and 12 would be a read of AMD's CR12.
"""
_UNKNOWN: Final = -1


def guest_states(at_ns: Instants, vcpu: NDArray[np.int64], trace: pl.DataFrame) -> list[str | None]:
    """What each vCPU was at: GUEST_USER, GUEST_KERNEL, HYPERVISOR, GUEST_IDLE; None where that is unknown.

    at_ns: when the interrupt was asked for or taken, by the CLOCK_TAI of the VM host's trace, −1 if unknown.
    vcpu: KVM's number of it. Both int64 [n].
    """
    found: list[str | None] = [None] * len(at_ns)
    turns = Events.of(trace, ENTRY, EXIT)
    for number in np.unique(vcpu).tolist():
        threads = np.unique(turns.pid[(turns.event == ENTRY) & (turns.subject == number)])
        if len(threads) != 1:
            continue  # not run by KVM, or several guests have a vCPU of that number
        own = turns.where(turns.pid == threads[0])
        rows = np.flatnonzero((vcpu == number) & (at_ns >= 0))
        before = np.searchsorted(own.tai_ns, at_ns[rows], side="right") - 1
        # Between its first turn that is known and its last one.
        there = (before >= 0) & (before + 1 < len(own.tai_ns))
        rows, before = rows[there], before[there]
        lost = lost_between(trace, own.tai_ns[before], own.tai_ns[before + 1])
        for row, place in zip(rows[~lost].tolist(), before[~lost].tolist(), strict=True):
            found[row] = _state(own, place)
    return found


def _state(own: Events, place: int) -> str | None:
    """What a vCPU was at from one of its turns on until the next."""
    if own.event[place] == EXIT:
        if own.subject[place] == _UNKNOWN:
            return None
        return GUEST_IDLE if own.subject[place] in _HALTED else HYPERVISOR
    left = place + 1
    if own.event[left] != EXIT or own.detail[left] == _UNKNOWN:
        return None
    return GUEST_KERNEL if own.detail[left] < 0 else GUEST_USER
