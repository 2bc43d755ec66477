"""The rules of trust: what should be so of a measurement, how grave it is where it is not, and what to do then.

An id stays: results, JUnit XML, scenarios and `latlab explain` go by it. What a rule is called may change. The check
of each is a function `@checks(ID)` in a `*_checks.py` of `latlab.analysis`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

from latlab.model.timestamps import impossible_orders

Severity = Literal["suspect", "untrusted"]
When = Literal["before", "during", "after"]

BEFORE: Final[tuple[When, ...]] = ("before",)
DURING: Final[tuple[When, ...]] = ("during",)
BEFORE_AND_DURING: Final[tuple[When, ...]] = ("before", "during")
BEFORE_AND_AFTER: Final[tuple[When, ...]] = ("before", "after")
ALL_THE_TIME: Final[tuple[When, ...]] = ("before", "during", "after")


@dataclass(frozen=True)
class RuleCase:
    """What else may be found where a rule is broken. What is empty here is as the rule has it.

    finding: values that are known where it is found stand in {braces}. severity: of this case; None: the rule's.
    """

    finding: str = ""
    severity: Severity | None = None
    remedy: str = ""


@dataclass(frozen=True)
class PlainRule:
    """One rule. name: what should be so. severity: of what is measured where it is not. finding: what is so then.

    remedy: what to do then; empty: it depends on what is found. cases: {name: what else is found where it is broken},
    with other words, or less grave.
    """

    id: str
    name: str
    severity: Severity
    finding: str
    remedy: str = ""
    cases: Mapping[str, RuleCase] = field(default_factory=dict, kw_only=True)

    def in_case(self, case: str) -> Self:
        """The rule as it is broken in this case; empty: in the usual one."""
        return replace(self, **{key: text for key, text in vars(self.cases[case]).items() if text}) if case else self

    @property
    def findings(self) -> dict[str, Severity]:
        """{what may be found: its severity}, the usual finding first. Values are NAMED."""
        every = (self, *map(self.in_case, self.cases))
        return {re.sub(r"{(\w+)}", lambda name: name[1].upper(), one.finding): one.severity for one in every}


@dataclass(frozen=True, kw_only=True)
class Rule(PlainRule):
    """A rule that every cell is judged by.

    when: what it looks at was found out: of settings before the streams, of them and their recordings during, of
    settings and counters after. looks_at, broken_when: columns of docs/reference/rules.md.
    """

    when: tuple[When, ...]
    looks_at: str
    broken_when: str


SMALLER_SAMPLE: Final = "sample less sparsely (a smaller --sample), or watch for longer"
NO_OFFLOAD: Final = "capture with ethtool -K DEVICE tso off gso off gro off lro off, on both sides"
"""Remedies that are given where no rule is broken, too."""

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "cell-ended",
        "the cell ran to its end",
        "untrusted",
        finding="the cell did not run to its end",
        when=DURING,
        looks_at="cell.json",
        broken_when="its status is failed or interrupted, or the run never started it",
        remedy="fix the reported cause, and run again; the tables have what was measured until then",
    ),
    Rule(
        "agents-ended",
        "the agents finished",
        "untrusted",
        finding="an agent did not finish",
        when=DURING,
        looks_at="cell.json: `done` and `error` of each agent",
        broken_when="an agent failed; in a cell that is `ok`, one has no `done`",
        remedy=(
            "see cell.json and the host's log for the cause: without an agent's totals its recordings cannot be "
            "checked for completeness"
        ),
    ),
    Rule(
        "facts-taken",
        "facts of the hosts were taken",
        "suspect",
        finding="a host's facts are missing",
        when=BEFORE_AND_AFTER,
        looks_at="cell.json: agents; facts",
        broken_when="in a cell that is `ok`, a host with an agent has none",
        remedy=(
            "restore a complete copy of the file, or run again: the rules that use facts (tuning, interrupts, "
            "throttling) are not checked for this host"
        ),
    ),
    Rule(
        "recordings-whole",
        "recordings are complete",
        "untrusted",
        finding="a recording is cut short, damaged or absent",
        when=DURING,
        looks_at="each recording",
        broken_when="it is absent, its end marker is missing, or a batch of it differs from its checksum",
        remedy=(
            "packets after its end count as unknown. Find out why the agent ended early: see its error in cell.json, "
            "the disk, the kernel's log"
        ),
        cases={
            "watched": RuleCase(
                "a recording is incomplete",
                "suspect",
                "the figures include what was recorded; watch again for the rest",
            ),
            "unread": RuleCase("a recording of a flow cannot be read", "suspect"),
        },
    ),
    Rule(
        "ring-full",
        "no record was dropped",
        "untrusted",
        finding="an agent dropped records: its ring was full",
        when=DURING,
        looks_at="agents' `ring_full`",
        broken_when="above 0",
        remedy="lower the rate, or give the agent's writer thread a dedicated CPU",
        cases={
            "watched": RuleCase(
                "records were lost, as a ring was full",
                remedy=(
                    "narrow the flow (--flow), record a sample of it (--sample 100), keep less of each packet "
                    "(--snap), or take a larger ring (--ring)"
                ),
            )
        },
    ),
    Rule(
        "counts-agree",
        "every packet is accounted for",
        "untrusted",
        finding="two counts of the same packets differ",
        when=DURING,
        looks_at="`done` of each agent, its recordings, packet table",
        broken_when=(
            "the number of rows in a recording differs from its agent's count; a talker's or a listener's count "
            "differs from the packet table; a listener counted more than its talker; or packets arrived that were not "
            "handed over"
        ),
        remedy=(
            "compare the agents' totals (`done`) in cell.json with the recordings: missing rows were lost on the disk "
            "or while the file was fetched"
        ),
    ),
    Rule(
        "timestamps-possible",
        "timestamps are plausible",
        "untrusted",
        finding="a timestamp is impossible",
        when=DURING,
        looks_at="timestamps; each agent's first and last reading of the clocks",
        broken_when=(
            "any before the first or after the last reading, a wake-up before it was due, or one before an earlier "
            f"stage's: {impossible_orders()}; an `rx_user` that equals the previous packet's and is before its "
            "own `rx_soft`; a `wake` or `rx_user` that is out of order in its recording. Such timestamps are left out "
            "of the packet table; those of a card are kept if most of the stream's are affected"
        ),
        remedy=(
            "compare the recording with the agent's readings of the clocks: a clock was set, a card's clock is not "
            "synchronised with the system's (use PTP), its driver gave an earlier packet's timestamp, or the file is "
            "damaged"
        ),
        cases={
            "woke-early": RuleCase(
                "a thread woke before its timer was due",
                remedy="check which program set the clock during the run; leave out --clock=1, which is a clock that "
                "can be set",
            ),
        },
    ),
    Rule(
        "launches-scheduled",
        "launch times are the schedule's",
        "untrusted",
        finding="launch times are not the schedule's",
        when=DURING,
        looks_at="launch times as sent and as received",
        broken_when="any differs from start + offset + n × period",
        remedy="the agent and cell.json have different start, offset or period: use the agent of this latlab version",
    ),
    Rule(
        "launches-honoured",
        "launch times are honoured",
        "untrusted",
        finding="no qdisc on the interface delays packets until their launch time",
        when=BEFORE,
        looks_at="facts before: the qdiscs of the interface through which a stream with launch times leaves",
        broken_when=(
            "none of them uses their clock: etf and taprio use TAI, fq uses MONOTONIC; or it is fq and the stream has "
            "priority 7, which fq sends at once"
        ),
        remedy=(
            "put an etf qdisc on the interface (tc qdisc replace dev IF parent … etf clockid CLOCK_TAI delta …), an fq "
            "for clock: monotonic, or leave launch_time out: without such a qdisc the kernel sends each packet as soon "
            "as it is handed over"
        ),
    ),
    Rule(
        "xdp-carried",
        "the XDP bridge carried the streams",
        "untrusted",
        finding="the kernel bridge carried the streams instead of the XDP bridge",
        when=DURING,
        looks_at="cell.json: the counts in `bridges`; packets received",
        broken_when="fewer than half as many frames were redirected as packets arrived across the bridge",
        remedy=(
            "the figures are those of the kernel bridge: check with `bridge fdb show` that it has both ends at their "
            "ports; docs/reference/xdp-bridge.md lists the frames that it handles"
        ),
    ),
    Rule(
        "clock-stepped",
        "clocks were not stepped",
        "untrusted",
        finding="a clock was stepped",
        when=DURING,
        looks_at="clock readings",
        broken_when=(
            "REALTIME − MONOTONIC or TAI − REALTIME changes between two readings by over 20 µs (`clock_step`) and by "
            "more than both readings took"
        ),
        remedy="let ptp4l, phc2sys or chrony settle before the run, and configure them not to step during it",
        cases={
            "back": RuleCase("a clock was stepped back"),
            "shifted": RuleCase("a clock was stepped, or a queue remained full", "suspect"),
        },
    ),
    Rule(
        "packets-arrived",
        "packets arrived",
        "untrusted",
        finding="none of the sent packets arrived",
        when=DURING,
        looks_at="`latency`, `latency_user`, `round_trip`: `n`, `lost`",
        broken_when=(
            "packets were sent after the warm-up, and none arrived or was answered; packets that arrived without their "
            "VLAN tag are counted by another rule"
        ),
        remedy=(
            "find where they were dropped: ping the listener from the talker, and compare the counters of both ends' "
            "cards and qdiscs (`ip -s link`, `tc -s qdisc show dev IF`); for a probe check that the answerer runs"
        ),
        cases={
            "flow": RuleCase("no packet of a flow was seen", "suspect"),
            "point": RuleCase(
                "a point saw no packet of the flow",
                "suspect",
                (
                    "correct the flow, or watch another interface: of a bridge a port, as its own interface has none "
                    "of the packets that it forwards"
                ),
            ),
            "sample": RuleCase("a point has no packet of the sample", "suspect", SMALLER_SAMPLE),
        },
    ),
    Rule(
        "vlan-tags-kept",
        "frames kept their VLAN tags",
        "untrusted",
        finding="frames arrived without their VLAN tag",
        when=DURING,
        looks_at="listener's `untagged`",
        broken_when="above 0: such frames are not recorded, and count as lost",
        remedy=(
            "find what removes the tags: a card that strips them before XDP or AF_XDP (`ethtool -K IF rxvlan off`), or "
            "a switch whose port is an access port of that VLAN"
        ),
    ),
    Rule(
        "arrived-early",
        "no packet arrived before it left",
        "untrusted",
        finding="packets arrived before they left",
        when=DURING,
        looks_at="minimum of `path`, `latency`, `latency_user`, `delivery`",
        broken_when="below −uncertainty; for latencies with launch time also below −lead",
        remedy="the clocks differ by more than their bound: synchronise them, or measure again",
        cases={
            "flow": RuleCase(
                remedy="a clock was changed while packets were watched: check what sets it (chrony, ptp4l, phc2sys)"
            ),
            "imported": RuleCase(
                remedy=(
                    "the clocks differ by more than --clock-bound: check by how much, or compare differences only; "
                    "name two captures in the order in which packets pass them"
                )
            ),
        },
    ),
    Rule(
        "clock-bound",
        "the clocks' offset is bounded",
        "untrusted",
        finding="the offset between the two clocks is not bounded",
        when=DURING,
        looks_at="`path`, `latency`, `latency_user` and their `unbounded`",
        broken_when="any packet has no bound",
        remedy=(
            "set clock: {sync: exchange}, which compares the clocks; for hosts of one kernel, which share a clock, set "
            "{sync: auto}"
        ),
        cases={
            "flow": RuleCase(
                remedy=(
                    "add a stream between hosts of the two kernels (clock: {sync: auto}): their clocks are compared "
                    "then, too"
                )
            ),
            "imported": RuleCase(
                remedy=(
                    "if you know how much they differ at most, for example from ptp4l's log: --clock-bound 1us; else "
                    "compare differences only"
                )
            ),
        },
    ),
    Rule(
        "clock-bound-large",
        "the clock bound is small compared with the latency",
        "suspect",
        finding="the clocks' bound is large compared with the latency",
        when=DURING,
        looks_at="`latency`",
        broken_when="bound above 10 % of the median (`clock_bound_share`)",
        remedy="compare differences between cells, not absolute figures, or synchronise the clocks better",
    ),
    Rule(
        "ptp-locked",
        "PTP was locked",
        "suspect",
        finding="a PTP port was not locked throughout",
        when=DURING,
        looks_at="`ptp` of the result: `unlocked`",
        broken_when=(
            "any port was temporarily neither master nor locked slave, or changed its role: no answer, no Sync for "
            "three intervals, another state, an offset beyond its limit or unknown"
        ),
        remedy=(
            "see ptp4l's log, and the PTP series next to the packets': during that time the clock was not synchronised"
        ),
    ),
    Rule(
        "ptp-offset",
        "PTP's offset agrees with latlab's readings",
        "suspect",
        finding="PTP's offset disagrees with latlab's readings of the clocks",
        when=DURING,
        looks_at="`ptp`: `checked`",
        broken_when="any reading is further than the limit from the interval that latlab's readings allow",
        remedy=(
            "a path that is longer in one direction shifts PTP's offset by half the difference, which PTP cannot "
            "detect; queues do the same to software timestamps: use hardware timestamps, or set delayAsymmetry"
        ),
    ),
    Rule(
        "ptp-clocks-read",
        "PTP's clocks were read",
        "suspect",
        finding="how PTP adjusted a clock was not recorded",
        when=DURING,
        looks_at="`clock` in `ready` of agents that observe",
        broken_when="any could not be read",
        remedy=(
            "check that the interface has a PTP clock (ethtool -T) and that the agent may open it: offset and delay "
            "are recorded without it, the servo's frequency is not"
        ),
    ),
    Rule(
        "ptp-grandmaster",
        "PTP kept its grandmaster",
        "suspect",
        finding="PTP changed its grandmaster",
        when=DURING,
        looks_at="`ptp`: `grandmasters`",
        broken_when="more than one",
        remedy="compare figures from before and after the change only if both grandmasters had the same time",
    ),
    Rule(
        "talker-punctual",
        "the talker is punctual",
        "suspect",
        finding="the talker woke late by more than a period, or than the lead of a launch time",
        when=DURING,
        looks_at="`wakeup`",
        broken_when=(
            "max above the period, and above the lead of a stream with launch times, which absorbs late wake-ups; p99 "
            "is reported, too, if it is above"
        ),
        remedy="isolate the talker's CPU, raise its priority, or lengthen the period",
    ),
    Rule(
        "queue-drains",
        "packets leave within a period",
        "suspect",
        finding="packets queued for longer than a period before they left",
        when=DURING,
        looks_at="`lateness`, `wakeup`, `gates`: `promised`",
        broken_when=(
            "median of `lateness` above the sum of p90 of `wakeup`, a period and the latest departure that the gate "
            "schedule guarantees: a queue that does not drain"
        ),
        remedy=(
            "latency shows the queue's length, not the path: check the queue (`tc -s qdisc show dev IF`: backlog). A "
            "queue that drains only as fast as it fills keeps the backlog from a stall or from the start: give the "
            "class more or longer windows than the stream needs (`latlab gates`), move other streams out of it, or "
            "lengthen the period"
        ),
    ),
    Rule(
        "rt-settings",
        "realtime settings are in force",
        "suspect",
        finding="a real-time setting is not in force",
        when=BEFORE,
        looks_at="problems in agents' `ready`",
        broken_when="any",
        remedy="run `latlab doctor` on this host",
    ),
    Rule(
        "tuning-in-force",
        "the tuning is in force",
        "suspect",
        finding="a setting of the test bed is not in force",
        when=BEFORE_AND_AFTER,
        looks_at="cell.json: `steps`, `rechecks`",
        broken_when="an optional step failed, or a setting had changed at the end",
        remedy=(
            "fix the reported error, or remove the setting from the scenario; a setting often changes when the link "
            "comes up, a driver resets, or another program such as irqbalance or tuned runs"
        ),
    ),
    Rule(
        "xdp-carried-all",
        "the XDP bridge carried every packet",
        "suspect",
        finding="the kernel bridge carried some packets instead of the XDP bridge",
        when=DURING,
        looks_at="cell.json: the counts in `bridges`; packets received; both ends of each stream",
        broken_when=(
            "fewer frames were redirected than packets arrived; or one end is the bridge's own host, whose packets the "
            "kernel bridge carries"
        ),
        remedy=(
            "XDP redirects from port to port: the kernel bridge carries packets to and from the VM host itself, and "
            "the frames that docs/reference/xdp-bridge.md lists; compare such figures with those of bridge tap"
        ),
    ),
    Rule(
        "timestamps-there",
        "timestamps are complete",
        "suspect",
        finding="timestamps are missing",
        when=DURING,
        looks_at="`missing` of each metric; `unstamped` of each stream",
        broken_when=(
            "above 0.1 % of its packets (`missing_share`); or every packet is without one that the kernel could give"
        ),
        remedy="lower the rate, or give CPU time to the talker's helper threads, which read the timestamps",
    ),
    Rule(
        "unstamped-alike",
        "packets without timestamps are like the others",
        "suspect",
        finding="packets without a timestamp are the late ones",
        when=DURING,
        looks_at="`unstamped` of each stream",
        broken_when=(
            "by their next timestamp more of the packets without a timestamp are among the latest than chance explains "
            "(p < 0.001)"
        ),
        remedy=(
            "the largest values and high percentiles of metrics with that timestamp leave out late packets: use "
            "metrics without it, and give CPU time to the threads that read timestamps"
        ),
    ),
    Rule(
        "timestamps-matched",
        "timestamps match their packets",
        "suspect",
        finding="timestamps belong to no packet or to no known clock",
        when=DURING,
        looks_at="join of the recordings",
        broken_when="any row without a packet, any second row of a packet, any timestamp without clock readings",
        remedy="see stray_stamps in cell.json and the findings in the packet table's metadata",
    ),
    Rule(
        "launch-dropped",
        "no packet with a launch time vanished",
        "suspect",
        finding="packets with launch times were dropped silently",
        when=DURING,
        looks_at="`launch_silent`",
        broken_when="above 0",
        remedy=(
            "usual reasons: beyond fq's horizon, 10 s of CLOCK_MONOTONIC, which a launch time of another clock always "
            "exceeds; beyond the network card's horizon; outside every open gate of a taprio; above an etf, packets of "
            "a socket without SO_TXTIME. `tc -s qdisc show dev IF` shows where they were dropped"
        ),
    ),
    Rule(
        "sends-succeeded",
        "every send succeeded",
        "suspect",
        finding="the kernel refused to send packets",
        when=DURING,
        looks_at="`send_errors`",
        broken_when="above 0",
        remedy="see send_error in the packet table: it has the errno",
    ),
    Rule(
        "icmp-rejected",
        "no packet was rejected",
        "suspect",
        finding="packets were answered with ICMP: port unreachable",
        when=DURING,
        looks_at="talkers' `rejected`",
        broken_when="above 0: no socket listened on the port, or a firewall rejects packets",
        remedy="check that the listener ran from the first packet to the last, and what rejects packets there",
    ),
    Rule(
        "timer-kept-up",
        "the timer kept up",
        "suspect",
        finding="a timer expired before its thread had finished the previous expiry",
        when=DURING,
        looks_at="`overdue` of timers' agents, and how long they waited for their recordings then, `held_up_ns`",
        broken_when="above 0",
        remedy=(
            "the figures include a stall and every expiry that it delayed; if every expiry is overdue, the machine "
            "cannot serve this period: use a longer one, a real-time priority, or a dedicated CPU"
        ),
    ),
    Rule(
        "timer-interrupts",
        "the timer's interrupts were recorded",
        "suspect",
        finding="the kernel did not report a timer's interrupts",
        when=DURING,
        looks_at="`trace_problem`, `trace_lost` of timers' agents",
        broken_when="the kernel should have reported them, and did not report all",
        remedy=(
            "the thread's lateness is known, but the interrupt's part of it is not: fix the reported cause, or set "
            "`trace: false`"
        ),
    ),
    Rule(
        "trace-whole",
        "the trace is complete",
        "suspect",
        finding="the kernel lost events of a trace",
        when=DURING,
        looks_at="`lost`, `kept.overran` and `error` of agents that trace",
        broken_when=(
            "above 0: a buffer of the kernel was full, or a window was requested after its events had been overwritten"
            "; or a flight recorder of watched packets did not start, ended early, or judged too few"
        ),
        remedy=(
            "latencies are not affected, but for packets of those times the stages from the interrupt to the thread "
            "are unknown: keep other traffic off that host; rows with `event` 0 in the recording mark the losses"
        ),
        cases={
            "ended": RuleCase(
                "the flight recorder ended early",
                remedy="figures of packets are right without it; to see what that kernel did, repeat the measurement",
            ),
            "overran": RuleCase(
                "the kernel's events around late packets were no longer held",
                remedy="keep other work off that machine, or raise the trigger's threshold",
            ),
            "unjudged": RuleCase(
                "the flight recorder judged too few packets",
                remedy=(
                    "packets are not judged that have no payload or one that came again within 10 s, nor if more than "
                    "65,536 are between the points: keep more of each packet (`snap`), narrow the flow, or choose "
                    "points closer together"
                ),
            ),
        },
    ),
    Rule(
        "socket-drops",
        "the listener's socket kept every packet",
        "suspect",
        finding="the listener's socket dropped packets",
        when=DURING,
        looks_at="`socket_drops`",
        broken_when="above 0",
        remedy="packets were lost at the listener, not on the path: raise its priority or its receive buffer",
    ),
    Rule(
        "packets-refused",
        "no packet was refused",
        "suspect",
        finding="the listener refused packets",
        when=DURING,
        looks_at="listener's `foreign`, `truncated`, `other_run`, `unknown_stream`, `out_of_range`",
        broken_when="any above 0",
        remedy=(
            "find out what sends to the listener's port, and whether the path damages or repeats packets: such packets "
            "take the listener's time, and damaged packets of a stream count as lost"
        ),
    ),
    Rule(
        "rt-throttled",
        "realtime threads were not throttled",
        "suspect",
        finding="real-time threads have been throttled",
        when=BEFORE_AND_AFTER,
        looks_at=(
            "facts: kernel's log, `rt_runtime_us`; `fair_servers`, idle time of CPUs that agents at SCHED_FIFO are "
            "bound to"
        ),
        broken_when=(
            "throttled during the cell; or earlier since boot with throttling still on, as the kernel reports it only "
            "once; ○ such a CPU was never idle, and the kernel reserves a part of it for ordinary threads"
        ),
        remedy=(
            "sysctl kernel.sched_rt_runtime_us=-1, from Linux 6.12 on 0 into "
            "/sys/kernel/debug/sched/fair_server/cpuN/runtime, or let the busy threads sleep: otherwise they are "
            "stopped for 50 ms of each second"
        ),
    ),
    Rule(
        "cpu-stolen",
        "no CPU time was stolen",
        "suspect",
        finding="CPU time was stolen",
        when=BEFORE_AND_AFTER,
        looks_at="facts: steal time of all CPUs together",
        broken_when="above 1 % of the time between the facts (`steal_share`)",
        remedy="pin this machine's vCPUs to dedicated CPUs of its host",
    ),
    Rule(
        "preempt-rt",
        "the kernel is PREEMPT_RT",
        "suspect",
        finding="the kernel is not PREEMPT_RT",
        when=BEFORE,
        looks_at="facts: `preempt_rt`",
        broken_when="a kernel is not PREEMPT_RT",
        remedy="install a PREEMPT_RT kernel (Debian: linux-image-rt-amd64): others guarantee no upper bound",
    ),
    Rule(
        "cpus-isolated",
        "the agents' CPUs are isolated",
        "suspect",
        finding="the agents' CPUs are not isolated",
        when=BEFORE,
        looks_at="CPUs of each agent, facts",
        broken_when="any CPU is not isolated",
        remedy="boot with isolcpus=nohz,domain,managed_irq,N and pin the agent to N",
    ),
    Rule(
        "deep-idle",
        "no CPU was in a deep idle state",
        "suspect",
        finding="CPUs were in deep idle states while streams ran",
        when=BEFORE_AND_AFTER,
        looks_at="facts: time in idle states, of CPUs that agents and virtual CPUs are bound to, else of all",
        broken_when=(
            "a CPU was in an idle state with an exit latency over 20 µs (`idle_wakeup`) for longer than it took to "
            "record the facts before and after the streams, so it was idle while they ran"
        ),
        remedy=(
            "keep /dev/cpu_dma_latency open with 0 on this host (an agent does with cpu_dma_latency: 0), or disable "
            "the states: `cpupower idle-set -D 20`, or processor.max_cstate=1 intel_idle.max_cstate=0 on the kernel's "
            "command line"
        ),
    ),
    Rule(
        "cpu-frequency",
        "the CPUs' frequencies are fixed",
        "suspect",
        finding="the CPUs' frequencies change",
        when=ALL_THE_TIME,
        looks_at="facts: governor and range of CPUs that agents and virtual CPUs are bound to, else of all",
        broken_when=(
            "○ the governor changes them: it is neither performance nor userspace, and the range has more than one "
            "frequency; or the governor had changed afterwards"
        ),
        remedy="`cpupower frequency-set -g performance`; also turn turbo off if it matters",
    ),
    Rule(
        "core-kinds",
        "measured threads stay on one kind of core",
        "suspect",
        finding="a measured thread used several kinds of cores",
        when=ALL_THE_TIME,
        looks_at=(
            "facts: `core_type` and `capacity` of CPUs, CPUs of virtual CPUs; agents' `cores`: on which CPU each row "
            "was recorded"
        ),
        broken_when=(
            "an agent's rows were recorded on CPUs of more than one kind; a virtual CPU may run on more than one kind"
        ),
        remedy=(
            "bind it to CPUs of one kind, tuning: {HOST: {talker: {cpus: [4]}, guests: {GUEST: {vcpus: {cpus: [4, "
            "5]}}}}}: a slower core makes each packet late by another amount"
        ),
    ),
    Rule(
        "smaller-core",
        "measured threads run on the larger cores",
        "suspect",
        finding="the scheduler left a measured thread on slower cores",
        when=DURING,
        looks_at="facts: `core_type` and `capacity` of CPUs; agents' `cores`",
        broken_when=(
            "an agent may run on a faster kind of CPU, and recorded all its rows on a slower one; a thread that is "
            "bound to slower CPUs breaks no rule"
        ),
        remedy=(
            "bind it to the kind that is meant, tuning: {HOST: {talker: {cpus: [4]}}}: the next run may be on the "
            "other one"
        ),
    ),
    Rule(
        "siblings-quiet",
        "sibling threads are quiet",
        "suspect",
        finding="the other thread of a measured thread's core was busy",
        when=ALL_THE_TIME,
        looks_at="facts: idle time of the other threads of the cores that measured threads are bound to",
        broken_when="○ busy for over 10 % of the time (`sibling_share`)",
        remedy="switch simultaneous multithreading off (nosmt), or isolate both threads of the core and leave one idle",
    ),
    Rule(
        "halt-polling",
        "halt polling is off",
        "suspect",
        finding="KVM polls for a halted guest",
        when=BEFORE_AND_DURING,
        looks_at="facts: `kvm_halt_poll_ns` of hosts with guests by KVM",
        broken_when="○ above 0",
        remedy=(
            "tuning: {HOST: {halt_poll: 0}}: while KVM polls, everything else on the vCPU's CPU waits; a guest halted "
            "for longer than the polling time wakes more slowly"
        ),
    ),
    Rule(
        "vcpus-apart",
        "virtual CPUs run on different CPUs",
        "suspect",
        finding="all virtual CPUs of a guest ran on one CPU",
        when=BEFORE_AND_AFTER,
        looks_at="facts: where each virtual CPU may run, and ran last",
        broken_when="several may run on several isolated CPUs, and all ran on the same one, before and after",
        remedy=(
            "pin each one, tuning: {HOST: {guests: {GUEST: {vcpus: {cpus: [2, 3]}}}}}: the scheduler does not balance "
            "isolated CPUs and leaves all threads on the first one"
        ),
    ),
    Rule(
        "ptp-cpus",
        "PTP has separate CPUs",
        "suspect",
        finding="PTP shares a CPU with measured threads, and its priority is not above theirs",
        when=BEFORE,
        looks_at="facts: CPUs and priority of ptp4l and phc2sys; those of threads that are bound to CPUs",
        broken_when="a CPU of theirs is among them, and PTP's priority is not above theirs",
        remedy=(
            "clock: {ptp: {cpus: [0]}}, or a fifo above theirs: with a lower priority PTP and its timestamps wait for "
            "them"
        ),
    ),
    Rule(
        "irq-cpus",
        "interrupts run on separate CPUs",
        "suspect",
        finding="a network card's interrupts ran on a measured thread's CPU",
        when=ALL_THE_TIME,
        looks_at="facts: counts of the interrupts of measured interfaces, by CPU",
        broken_when="○ any on a CPU that a measured thread is bound to",
        remedy="tuning: {HOST: {irq: {INTERFACE: {cpus: [0]}}}}, or another CPU for the thread",
    ),
    Rule(
        "irq-moved",
        "interrupts stayed on their CPUs",
        "suspect",
        finding="a network card's interrupts moved",
        when=BEFORE_AND_AFTER,
        looks_at="facts: counts of the interrupts of measured interfaces, by CPU, and their affinity",
        broken_when="either has changed afterwards",
        remedy=(
            "bind them, tuning: {HOST: {irq: …}}, with the interface up: bringing it up makes its driver request them "
            "again, on the default CPUs; and stop irqbalance"
        ),
    ),
    Rule(
        "irqbalance",
        "interrupts are not moved",
        "suspect",
        finding="irqbalance moves interrupts",
        when=BEFORE_AND_DURING,
        looks_at="facts: irqbalance; interrupts of measured interfaces",
        broken_when="○ it runs, and there are such interrupts",
        remedy="`systemctl stop irqbalance`, or exclude these (--banirq)",
    ),
    Rule(
        "irq-coalescing",
        "coalescing is small compared with the latency",
        "suspect",
        finding="a network card's interrupts wait for more packets",
        when=ALL_THE_TIME,
        looks_at="facts: `coalescing`, `rx_packets`; median of `latency`",
        broken_when=(
            "interrupts of an interface wait for over 20 % of the median; counted for interfaces that received as many "
            "packets as a stream that ends on their host (`coalescing_share`)"
        ),
        remedy="`ethtool -C INTERFACE adaptive-rx off rx-usecs 0`",
    ),
    Rule(
        "eee-off",
        "links do not sleep",
        "suspect",
        finding="a link sleeps between packets",
        when=BEFORE,
        looks_at="facts: `energy_efficient_ethernet` of measured interfaces",
        broken_when="in force",
        remedy=(
            "`ethtool --set-eee INTERFACE eee off`, at either end: waking takes 17 µs at 1 Gbit/s, 30 µs at 100 Mbit/s"
        ),
    ),
    Rule(
        "link-up",
        "links stayed up",
        "suspect",
        finding="a link went up or down during the measurement",
        when=BEFORE_AND_AFTER,
        looks_at="facts: `carrier_changes` of measured interfaces",
        broken_when="any has changed afterwards",
        remedy=(
            "check the kernel's log for the cause, and the cable: while a link is down packets are lost and the gates "
            "of a software taprio stop; afterwards interrupts may be on other CPUs"
        ),
    ),
    Rule(
        "card-timestamps",
        "network cards gave every timestamp",
        "suspect",
        finding="a network card's driver did not deliver every timestamp",
        when=BEFORE_AND_AFTER,
        looks_at="facts: the driver's `tx_hwtstamp_skipped`, `tx_hwtstamp_timeouts`, `rx_hwtstamp_cleared`",
        broken_when="any counter increased",
        remedy=(
            "igb reads a transmitted packet's timestamp in a kworker, one at a time: give kworkers CPU time (taskset, "
            "chrt), and leave more time between timestamped packets"
        ),
    ),
    Rule(
        "timer-tick",
        "the streams are out of step with the timer tick",
        "suspect",
        finding="a stream is in step with a timer tick, so the tick's phase decides how late its packets are",
        when=BEFORE,
        looks_at="facts: `tick_ns`, `nohz_full`, of guests and their hosts; in virtual time of all hosts",
        broken_when=(
            "a stream's period is a multiple or a divisor of the tick of a kernel on its path, and some of its threads "
            "there are on CPUs with that tick"
        ),
        remedy=(
            "choose another period, for example 4093us with a tick of 4 ms: its packets then meet the tick at every "
            "phase; or stop the tick on the CPUs in question (nohz_full)"
        ),
    ),
    Rule(
        "memory-locked",
        "the agents' memory is locked",
        "suspect",
        finding="an agent's memory is not locked",
        when=BEFORE_AND_DURING,
        looks_at="agents' `ready`",
        broken_when="○ a talker's or a listener's is not",
        remedy="lock_memory: true, which is the default",
    ),
    Rule(
        "swapping",
        "nothing was swapped",
        "suspect",
        finding="pages were read back from swap",
        when=ALL_THE_TIME,
        looks_at="facts: pages read back from swap",
        broken_when="○ any",
        remedy="`swapoff -a`, or more memory",
    ),
    Rule(
        "memory-moved",
        "no memory was moved",
        "suspect",
        finding="the kernel moved memory pages",
        when=ALL_THE_TIME,
        looks_at="facts: `compaction_stalls`, `huge_pages_collapsed`",
        broken_when="○ any",
        remedy="`echo never > /sys/kernel/mm/transparent_hugepage/enabled`, or reserved huge pages for guests",
    ),
    Rule(
        "guest-memory",
        "guests keep their memory",
        "suspect",
        finding="a guest's memory can be reclaimed by its host",
        when=ALL_THE_TIME,
        looks_at="facts of guests: memory, modules",
        broken_when="its size has changed afterwards; ○ virtio_balloon is loaded",
        remedy="no balloon: <memballoon model='none'/> in the domain's XML",
    ),
    Rule(
        "clock-source",
        "the clock source is fast",
        "suspect",
        finding="the kernel uses a slow clock source",
        when=BEFORE_AND_AFTER,
        looks_at="facts: `clock.source`",
        broken_when="a device or a tick (hpet, acpi_pm, pit, jiffies); or the source has changed afterwards",
        remedy=(
            "check the kernel's log for why it rejects the CPU's counter; in a guest use kvm-clock or an invariant tsc"
        ),
    ),
    Rule(
        "clock-slewed",
        "clocks kept their rates",
        "suspect",
        finding="a clock was slewed",
        when=DURING,
        looks_at="clock readings of hosts at the ends of a stream between two kernels, without PTP in the scenario",
        broken_when=(
            "the rate of MONOTONIC against MONOTONIC_RAW differs once from its median by over 10 ppm "
            "(`clock_slew_share`) and by more than both readings took"
        ),
        remedy=(
            "stop chrony, ntpd or systemd-timesyncd for the run, let them settle before it, or synchronise the clocks "
            "by PTP"
        ),
    ),
    Rule(
        "kernel-complaints",
        "the kernels logged no problem",
        "suspect",
        finding="a kernel logged something that makes packets late",
        when=BEFORE_AND_AFTER,
        looks_at="facts: `complaints`",
        broken_when="there are more of them afterwards",
        remedy="`dmesg` on this host has the lines: they name what was delayed, or what delayed others",
    ),
)
"""The rules that every cell is judged by. What is known to make packets late comes last, from `deep-idle` on."""

OTHERS: Final[tuple[PlainRule, ...]] = (
    PlainRule(
        "cell-measured", "a cell was measured", "untrusted", "no cell was measured", "see the reason of each cell"
    ),
    PlainRule(
        "repetitions-distinct",
        "no repetition measured the same as another",
        "suspect",
        "two repetitions are one measurement, and intervals count it twice",
        "in virtual time repetitions differ by when they begin, which gates round up to their cycle: use more "
        "repetitions or another `seed`, and count these two as one",
    ),
    PlainRule(
        "measured-by-latlab",
        "latlab measured the figures",
        "suspect",
        "the figures are from another program",
        "compare it only with results of the same program; otherwise measure with latlab",
        cases={
            "made": RuleCase(
                "it was generated from a description, not measured",
                "untrusted",
                "compare the findings with truth.json in the cell's folder; they say nothing about machines",
            )
        },
    ),
    PlainRule(
        "timestamps-in-order",
        "timestamps of one machine are in order",
        "untrusted",
        "a machine's own timestamps contradict the stated clock bound",
        "set the network card's clock by phc2sys and give the difference of the clocks, or leave out --clock-bound",
    ),
    PlainRule(
        "one-time-scale",
        "timestamps are of one time scale",
        "untrusted",
        "two time scales are mixed: {scales}",
        "set both clocks to one scale (phc2sys -O, or subtract the seconds from the timestamps) and import again",
    ),
    PlainRule(
        "file-whole",
        "the file is complete",
        "untrusted",
        "a file is cut short",
        "copy it again; the tables have the data before the cut",
    ),
    PlainRule(
        "rows-whole",
        "every row is present exactly once",
        "untrusted",
        "rows are missing, or appear twice",
        "copy the file again, complete and unfiltered",
        cases={"order": RuleCase("rows are out of order, or appear twice")},
    ),
    PlainRule(
        "unit-possible",
        "the figures fit their unit",
        "untrusted",
        "these nanoseconds are microseconds",
        cases={
            "us": RuleCase("these microseconds are nanoseconds"),
            "perhaps": RuleCase("these nanoseconds may be microseconds", "suspect"),
            "us-perhaps": RuleCase("these microseconds may be nanoseconds", "suspect"),
        },
    ),
    PlainRule(
        "points-in-order",
        "the first point sees packets first",
        "untrusted",
        "packets were seen by {second} before {first}",
        "name the files in the order in which packets pass them; if the order is right, check by how much the clocks "
        "differ",
    ),
    PlainRule(
        "directions-opposite",
        "the two directions of a conversation are opposite",
        "untrusted",
        "both directions of a conversation appear as the same direction",
        "set the clocks by ptp4l or chrony and capture again, or compare differences only",
    ),
    PlainRule(
        "offload-off",
        "packets were captured as they are on the wire",
        "suspect",
        "packets are larger than a frame: segmentation offload",
        NO_OFFLOAD,
    ),
    PlainRule(
        "packets-distinct",
        "packets can be distinguished",
        "suspect",
        "packets are identical and cannot be distinguished",
        "keep more of each packet (--snap), or narrow the flow",
        cases={
            "nowhere": RuleCase(
                "no packet was recognised at two points",
                remedy=(
                    "watch points that the same packets pass; packets are recognised by their payload: keep more of it "
                    "(--snap)"
                ),
            )
        },
    ),
    PlainRule(
        "points-stayed",
        "the interfaces stayed as they were",
        "suspect",
        "an interface changed",
        "watch again when it no longer changes",
    ),
    PlainRule(
        "capture-whole",
        "the captures have all packets",
        "suspect",
        "a capture dropped packets",
        "give the capture a larger buffer (-B), or a snap length (-s 96)",
    ),
    PlainRule(
        "cards-synchronised",
        "the network cards' clocks are synchronised",
        "untrusted",
        "the two network cards' clocks are not synchronised",
        "start ptp4l on both, wait until it has locked, and measure again",
    ),
    PlainRule(
        "frames-returned",
        "all frames returned",
        "suspect",
        "frames were lost",
        "find out where frames are dropped: ethtool -S, tc -s qdisc",
    ),
    PlainRule(
        "events-seen",
        "every event was recorded",
        "suspect",
        "events were lost",
        "give rtla separate CPUs (-H) or larger buffers (--trace-buffer-size)",
        cases={
            "unread": RuleCase(
                "a program received packets before they were read",
                remedy=(
                    "packets are read from the socket's queue: have the program wait for them (poll, a blocking "
                    "receive) instead of asking again and again"
                ),
            )
        },
    ),
)
"""What a run as a whole, or another program's files, are compared with where they are read."""

RULE_OF: Final[Mapping[str, PlainRule]] = {one.id: one for one in (*RULES, *OTHERS)}

NAMES: Final[dict[str, str]] = {one.id: one.name for one in RULE_OF.values()}
"""{id: name}."""

FORMER: Final[dict[str, str]] = {
    "every instant is possible": "timestamps-possible",
    "packets can be told apart": "packets-distinct",
    "PTP's offset is what our own readings say": "ptp-offset",
    "the clock bound is small beside the latency": "clock-bound-large",
    "coalescing is small beside the latency": "irq-coalescing",
    "no CPU slept deeply": "deep-idle",
    "links do not rest": "eee-off",
    "timestamps are there": "timestamps-there",
    "the agents came to their end": "agents-ended",
    "PTP has CPUs of its own": "ptp-cpus",
    "interrupts have CPUs of their own": "irq-cpus",
    "virtual CPUs are apart": "vcpus-apart",
    "recordings are whole": "recordings-whole",
    "the trace is whole": "trace-whole",
    "the file is whole": "file-whole",
    "all rows are there, each once": "rows-whole",
    "the figures can be of their unit": "unit-possible",
    "the two directions of a conversation go opposite ways": "directions-opposite",
    "the kernels did not complain": "kernel-complaints",
    "timestamps are possible": "timestamps-possible",
    "all frames came back": "frames-returned",
    "every event was seen": "events-seen",
    "a machine's own timestamps are in order": "timestamps-in-order",
    "latlab measured it itself": "measured-by-latlab",
    "nothing moves interrupts": "irqbalance",
}
"""{name in earlier versions: id}."""

IDS: Final[dict[str, str]] = {name: id_ for id_, name in NAMES.items()} | FORMER
"""{name: id}: scenarios and run folders of earlier versions have names."""
