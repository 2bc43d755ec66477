"""What the offset of two clocks is known from: recordings and results name it (docs/reference/run-folder.md).

No other code compares a source's name: its facts are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ClockSource:
    """The facts of one source.

    is_exact: both are one clock, the offset is 0, and nothing is measured. sends_packets: the two compare their clocks
    over the network under test, by packets of their own: either end may ask, and of all packets a line through the
    whole cell is narrower than any of its windows. Else one end shows its clock, the other reads it, and bounds are
    narrow in each window.
    """

    name: str
    is_exact: bool = False
    sends_packets: bool = False


ONE_HOST: Final = ClockSource("one clock", is_exact=True)
ONE_KERNEL: Final = ClockSource("one kernel", is_exact=True)
SHARED_PAGE: Final = ClockSource("shared page")
PTP_KVM: Final = ClockSource("ptp_kvm")
EXCHANGE: Final = ClockSource("exchange", sends_packets=True)

SOURCES: Final = {one.name: one for one in (ONE_HOST, ONE_KERNEL, SHARED_PAGE, PTP_KVM, EXCHANGE)}


def source_named(name: str | None) -> ClockSource:
    """The source of that name; what another program has written has none of these facts."""
    return SOURCES.get(name or "") or ClockSource(name or "")
