"""Whether a measurement can be trusted, and why not: a table of small checks over what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from latlab.analysis import ptp_checks as ptp
from latlab.analysis import trust_checks as check
from latlab.analysis.evidence import Broken, Evidence

Verdict = Literal["trusted", "suspect", "untrusted"]
Severity = Literal["suspect", "untrusted"]

_WORSE: Final = ("trusted", "suspect", "untrusted")


@dataclass(frozen=True)
class Reason:
    """Why a measurement is not simply trusted, as in the result document.

    check: the rule's name, which stays the same. finding: what was found, as a sentence.
    """

    check: str
    finding: str
    severity: Severity
    where: str
    expected: str
    actual: str
    remedy: str


@dataclass(frozen=True)
class Rule:
    """One check.

    name: what ought to be so. finding: what is so where it is broken. broken: yields every place that breaks it;
    evidence that is not there breaks nothing.
    """

    name: str
    finding: str
    severity: Severity
    broken: Callable[[Evidence], Iterator[Broken]]
    remedy: str


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "the cell ran to its end",
        "the cell did not run to its end",
        "untrusted",
        check.cell_ran_to_its_end,
        "mend what it says, and run again; what was measured until then is in the tables",
    ),
    Rule(
        "recordings are whole",
        "a recording is cut short",
        "untrusted",
        check.recordings_are_whole,
        "look for why the agent ended early: its error in cell.json, the disk, the kernel's log",
    ),
    Rule(
        "no record was dropped",
        "an agent dropped records: its ring was full",
        "untrusted",
        check.no_record_was_dropped,
        "lower the rate, or give the agent's writer a CPU of its own",
    ),
    Rule(
        "every packet is accounted for",
        "the talker counted another number of packets than it recorded",
        "untrusted",
        check.every_packet_is_accounted_for,
        "compare the talker's counters in cell.json with its recording",
    ),
    Rule(
        "launch times are the schedule's",
        "launch times are not the schedule's",
        "untrusted",
        check.launch_times_are_the_schedules,
        "the agent and cell.json disagree about start, offset or period: use the agent of this latlab",
    ),
    Rule(
        "launch times are honoured",
        "nothing on the interface holds packets until their launch time",
        "untrusted",
        check.launch_times_are_honoured,
        "put an etf qdisc on the interface (tc qdisc replace dev IF parent … etf clockid CLOCK_TAI delta …), an fq for "
        "clock: monotonic, or leave launch_time out: without one the kernel sends each packet as soon as it is handed "
        "over",
    ),
    Rule(
        "the XDP bridge carried the streams",
        "the kernel bridge carried the streams in the XDP bridge's place",
        "untrusted",
        check.xdp_bridge_carried_the_streams,
        "the figures are the kernel bridge's: see by `bridge fdb show` whether it knows both ends at their ports, and "
        "in docs/xdp-bridge.md which frames are left to it",
    ),
    Rule(
        "clocks were not stepped",
        "a clock was stepped",
        "untrusted",
        check.clocks_were_not_stepped,
        "let ptp4l, phc2sys or chrony settle before the run, and forbid them to step during it",
    ),
    Rule(
        "no packet arrived before it left",
        "packets arrived before they left",
        "untrusted",
        check.no_packet_arrived_before_it_left,
        "the clocks differ by more than their bound: synchronise them, or bound them anew",
    ),
    Rule(
        "the clocks' offset is bounded",
        "nothing bounds the offset between the two clocks",
        "untrusted",
        check.clock_offset_is_bounded,
        "a guest: fewer streams and loads, a CPU for the agents that compare the clocks, or clock: {sync: exchange}; "
        "hosts on one kernel: {sync: shared}. None bounds how far a NIC's clock is from the system's",
    ),
    Rule(
        "the clock bound is small beside the latency",
        "the clocks' bound is large beside the latency",
        "suspect",
        check.clock_bound_is_small,
        "compare differences between cells, not absolute figures, or synchronise the clocks better",
    ),
    Rule(
        "PTP was locked",
        "a port of PTP's was not locked all the time",
        "suspect",
        ptp.ptp_was_locked,
        "look at what ptp4l says in its log, and at its series beside the packets: what was measured while it was not "
        "locked counts from a clock that went its own way",
    ),
    Rule(
        "PTP's offset is what our own readings say",
        "PTP's offset is not what our own readings of the clocks say",
        "suspect",
        ptp.ptp_claims_hold,
        "a path that is longer one way than the other shifts PTP's offset by half the difference, and PTP cannot see "
        "it; queues do the same to software timestamps: stamp in hardware, or set delayAsymmetry",
    ),
    Rule(
        "PTP kept its grandmaster",
        "PTP changed its grandmaster",
        "suspect",
        ptp.ptp_kept_its_grandmaster,
        "compare figures from before and after only if both grandmasters had the same time",
    ),
    Rule(
        "the talker is punctual",
        "the talker woke more than a period late",
        "suspect",
        check.talker_is_punctual,
        "isolate the talker's CPU, raise its priority, or lengthen the period",
    ),
    Rule(
        "realtime settings are in force",
        "a real-time setting is not in force",
        "suspect",
        check.realtime_settings_are_in_force,
        "see what `latlab doctor` says of this host",
    ),
    Rule(
        "the tuning is in force",
        "a setting of the test bed is not in force",
        "suspect",
        check.tuning_is_in_force,
        "do what came back asks for, or take the setting out of the scenario; what changes one meanwhile is often the "
        "link's coming up, a driver's reset or another program, such as irqbalance or tuned",
    ),
    Rule(
        "the XDP bridge carried every packet",
        "the kernel bridge carried packets beside the XDP bridge",
        "suspect",
        check.xdp_bridge_carried_every_packet,
        "XDP redirects from port to port: what goes to or from the VM host itself, and what docs/xdp-bridge.md names, "
        "is the kernel bridge's; compare such figures with bridge tap's",
    ),
    Rule(
        "timestamps are there",
        "timestamps are missing",
        "suspect",
        check.timestamps_are_there,
        "lower the rate, or give the talker's helper threads CPU time: they read the timestamps",
    ),
    Rule(
        "timestamps match their packets",
        "timestamps belong to no packet or to no known clock",
        "suspect",
        check.timestamps_match_their_packets,
        "look at stray_stamps in cell.json, and at findings in the packet table's metadata",
    ),
    Rule(
        "no packet with a launch time vanished",
        "packets with launch times were dropped without a word",
        "suspect",
        check.no_launch_was_dropped_silently,
        "usual reasons: beyond fq's horizon, 10 s of CLOCK_MONOTONIC, where a launch time in another clock always is; "
        "beyond the network card's horizon; outside every open gate of a taprio; above an etf, packets of a socket "
        "without SO_TXTIME. `tc -s qdisc show dev IF` counts them where they were dropped",
    ),
    Rule(
        "every send succeeded",
        "the kernel refused to send packets",
        "suspect",
        check.every_send_succeeded,
        "look at send_error in the packet table: it holds the errno",
    ),
    Rule(
        "the listener's socket kept every packet",
        "the listener's socket dropped packets",
        "suspect",
        check.socket_kept_every_packet,
        "packets were lost at the listener, not on the way: raise its priority or its receive buffer",
    ),
    Rule(
        "no packet was refused",
        "the listener refused packets",
        "suspect",
        check.no_packet_was_refused,
        "find who sends to the listener's port, and whether the path damages or repeats packets: such packets take "
        "its time, and those of ours that were damaged count as lost",
    ),
    Rule(
        "realtime threads were not throttled",
        "real-time threads have been throttled",
        "suspect",
        check.realtime_was_not_throttled,
        "sysctl kernel.sched_rt_runtime_us=-1, or let the busy threads sleep",
    ),
    Rule(
        "no CPU time was stolen",
        "CPU time was stolen",
        "suspect",
        check.no_cpu_time_was_stolen,
        "pin this machine's vCPUs to CPUs of the host that nothing else uses",
    ),
    Rule(
        "the kernel is PREEMPT_RT",
        "the kernel is not PREEMPT_RT",
        "suspect",
        check.kernel_is_preempt_rt,
        "install a PREEMPT_RT kernel (Debian: linux-image-rt-amd64): others promise no upper bound",
    ),
    Rule(
        "the agents' CPUs are isolated",
        "the agents' CPUs are not isolated",
        "suspect",
        check.agents_cpus_are_isolated,
        "boot with isolcpus=nohz,domain,managed_irq,N and pin the agent to N",
    ),
)


NOTHING_MEASURED: Final = Reason(
    "a cell was measured",
    "no cell was measured",
    "untrusted",
    "",
    "at least one cell with packets",
    "none",
    "see why each cell was not: its reason is beside it",
)
"""What is found not of one cell but of a whole run: a result without any figure shows nothing."""


def judge(evidence: Evidence) -> list[Reason]:
    """Every reason not to trust one cell, the worst first; places that broke a rule alike share one."""
    reasons = [
        Reason(rule.name, rule.finding, rule.severity, ", ".join(where), expected, actual, rule.remedy)
        for rule in RULES
        for (expected, actual), where in _alike(rule.broken(evidence)).items()
    ]
    return sorted(reasons, key=lambda reason: -_WORSE.index(reason.severity))


def verdict(reasons: Iterable[Reason | Mapping[str, Any]]) -> Verdict:
    """The worst severity among the reasons (or their dicts); without any, `trusted`."""
    found = (r.severity if isinstance(r, Reason) else r["severity"] for r in reasons)
    return max(found, key=_WORSE.index, default="trusted")


def _alike(broken: Iterable[Broken]) -> dict[tuple[str, str], list[str]]:
    places: dict[tuple[str, str], list[str]] = {}
    for found in broken:
        places.setdefault((found.expected, found.actual), []).append(found.where)
    return places
