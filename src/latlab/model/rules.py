"""What a verdict is made of, by name: each rule's id, what should be so, and how grave it is where it is not.

An id stays: results, JUnit XML, scenarios and `latlab explain` go by it. What a rule is called may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["suspect", "untrusted"]


@dataclass(frozen=True)
class RuleName:
    """One rule. name: what should be so. severity: of what is measured where it is not."""

    id: str
    name: str
    severity: Severity


RULES: Final[tuple[RuleName, ...]] = (
    RuleName("cell-ended", "the cell ran to its end", "untrusted"),
    RuleName("agents-ended", "the agents came to their end", "untrusted"),
    RuleName("facts-taken", "facts of the hosts were taken", "suspect"),
    RuleName("recordings-whole", "recordings are whole", "untrusted"),
    RuleName("ring-full", "no record was dropped", "untrusted"),
    RuleName("counts-agree", "every packet is accounted for", "untrusted"),
    RuleName("timestamps-possible", "timestamps are possible", "untrusted"),
    RuleName("launches-scheduled", "launch times are the schedule's", "untrusted"),
    RuleName("launches-honoured", "launch times are honoured", "untrusted"),
    RuleName("xdp-carried", "the XDP bridge carried the streams", "untrusted"),
    RuleName("clock-stepped", "clocks were not stepped", "untrusted"),
    RuleName("packets-arrived", "packets arrived", "untrusted"),
    RuleName("vlan-tags-kept", "frames kept their VLAN tags", "untrusted"),
    RuleName("arrived-early", "no packet arrived before it left", "untrusted"),
    RuleName("clock-bound", "the clocks' offset is bounded", "untrusted"),
    RuleName("clock-bound-large", "the clock bound is small compared with the latency", "suspect"),
    RuleName("ptp-locked", "PTP was locked", "suspect"),
    RuleName("ptp-offset", "PTP's offset agrees with latlab's readings", "suspect"),
    RuleName("ptp-clocks-read", "PTP's clocks were read", "suspect"),
    RuleName("ptp-grandmaster", "PTP kept its grandmaster", "suspect"),
    RuleName("talker-punctual", "the talker is punctual", "suspect"),
    RuleName("queue-drains", "packets leave within a period", "suspect"),
    RuleName("rt-settings", "realtime settings are in force", "suspect"),
    RuleName("tuning-in-force", "the tuning is in force", "suspect"),
    RuleName("xdp-carried-all", "the XDP bridge carried every packet", "suspect"),
    RuleName("timestamps-there", "timestamps are complete", "suspect"),
    RuleName("unstamped-alike", "packets without timestamps are like the others", "suspect"),
    RuleName("timestamps-matched", "timestamps match their packets", "suspect"),
    RuleName("launch-dropped", "no packet with a launch time vanished", "suspect"),
    RuleName("sends-succeeded", "every send succeeded", "suspect"),
    RuleName("icmp-rejected", "no packet was rejected", "suspect"),
    RuleName("timer-kept-up", "the timer kept up", "suspect"),
    RuleName("timer-interrupts", "the timer's interrupts were recorded", "suspect"),
    RuleName("trace-whole", "the trace is whole", "suspect"),
    RuleName("socket-drops", "the listener's socket kept every packet", "suspect"),
    RuleName("packets-refused", "no packet was refused", "suspect"),
    RuleName("rt-throttled", "realtime threads were not throttled", "suspect"),
    RuleName("cpu-stolen", "no CPU time was stolen", "suspect"),
    RuleName("preempt-rt", "the kernel is PREEMPT_RT", "suspect"),
    RuleName("cpus-isolated", "the agents' CPUs are isolated", "suspect"),
    RuleName("deep-idle", "no CPU was in a deep idle state", "suspect"),
    RuleName("cpu-frequency", "the CPUs' frequencies are fixed", "suspect"),
    RuleName("siblings-quiet", "sibling threads are quiet", "suspect"),
    RuleName("halt-polling", "halt polling is off", "suspect"),
    RuleName("vcpus-apart", "virtual CPUs are apart", "suspect"),
    RuleName("ptp-cpus", "PTP has CPUs of its own", "suspect"),
    RuleName("irq-cpus", "interrupts have CPUs of their own", "suspect"),
    RuleName("irq-moved", "interrupts stayed on their CPUs", "suspect"),
    RuleName("irqbalance", "nothing moves interrupts", "suspect"),
    RuleName("irq-coalescing", "coalescing is small compared with the latency", "suspect"),
    RuleName("eee-off", "links do not sleep", "suspect"),
    RuleName("link-up", "links stayed up", "suspect"),
    RuleName("card-timestamps", "network cards gave every timestamp", "suspect"),
    RuleName("timer-tick", "the streams are out of step with the timer tick", "suspect"),
    RuleName("memory-locked", "the agents' memory is locked", "suspect"),
    RuleName("swapping", "nothing was swapped", "suspect"),
    RuleName("memory-moved", "no memory was moved", "suspect"),
    RuleName("guest-memory", "guests keep their memory", "suspect"),
    RuleName("clock-source", "the clock source is fast", "suspect"),
    RuleName("clock-slewed", "clocks kept their rates", "suspect"),
    RuleName("kernel-complaints", "the kernels did not complain", "suspect"),
)
"""The rules that every cell is judged by; `analysis/trust_rules.py` has the check of each."""

OTHERS: Final[tuple[RuleName, ...]] = (
    RuleName("cell-measured", "a cell was measured", "untrusted"),
    RuleName("measured-by-latlab", "latlab measured it itself", "suspect"),
    RuleName("timestamps-in-order", "a machine's own timestamps are in order", "untrusted"),
    RuleName("one-time-scale", "timestamps are of one time scale", "untrusted"),
    RuleName("file-whole", "the file is whole", "untrusted"),
    RuleName("rows-whole", "all rows are there, each once", "untrusted"),
    RuleName("unit-possible", "the figures can be of their unit", "untrusted"),
    RuleName("points-in-order", "the first point sees packets first", "untrusted"),
    RuleName("directions-opposite", "the two directions of a conversation go opposite ways", "untrusted"),
    RuleName("offload-off", "packets were captured as they are on the wire", "suspect"),
    RuleName("packets-distinct", "packets can be told apart", "suspect"),
    RuleName("points-stayed", "the interfaces stayed as they were", "suspect"),
    RuleName("capture-whole", "the captures have all packets", "suspect"),
    RuleName("cards-synchronised", "the network cards' clocks are synchronised", "untrusted"),
    RuleName("frames-returned", "all frames came back", "suspect"),
    RuleName("events-seen", "every event was seen", "suspect"),
)
"""What a run as a whole, or another program's files, are compared with where they are read. severity: the usual one."""

NAMES: Final[dict[str, str]] = {one.id: one.name for one in (*RULES, *OTHERS)}
"""{id: name}."""

FORMER: Final[dict[str, str]] = {
    "every instant is possible": "timestamps-possible",
    "PTP's offset is what our own readings say": "ptp-offset",
    "the clock bound is small beside the latency": "clock-bound-large",
    "coalescing is small beside the latency": "irq-coalescing",
    "no CPU slept deeply": "deep-idle",
    "links do not rest": "eee-off",
    "timestamps are there": "timestamps-there",
}
"""{name in earlier versions: id}."""

IDS: Final[dict[str, str]] = {name: id_ for id_, name in NAMES.items()} | FORMER
"""{name: id}: scenarios and run folders of earlier versions have names."""
