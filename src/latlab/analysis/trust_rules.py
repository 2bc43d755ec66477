"""The rules of trust, as a table: what ought to be so of a measurement, and what to do where it is not."""

from __future__ import annotations

from typing import Final

from latlab.analysis import cpu_checks as cpu
from latlab.analysis import ptp_checks as ptp
from latlab.analysis import queue_checks as queue
from latlab.analysis import timer_checks as timer
from latlab.analysis import trust_checks as check
from latlab.analysis.cause_rules import CAUSES
from latlab.analysis.trust_rule import BEFORE, BEFORE_AND_AFTER, DURING, Rule

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "the cell ran to its end",
        "the cell did not run to its end",
        "untrusted",
        DURING,
        check.cell_ran_to_its_end,
        "mend what it says, and run again; what was measured until then is in the tables",
    ),
    Rule(
        "the agents came to their end",
        "an agent did not come to its end",
        "untrusted",
        DURING,
        check.agents_came_to_their_end,
        "look for why in cell.json and in its host's log: without an agent's totals nothing shows that its recordings "
        "are all there",
    ),
    Rule(
        "facts of the hosts were taken",
        "a host's facts are missing",
        "suspect",
        BEFORE_AND_AFTER,
        check.facts_were_taken,
        "put a whole copy of the file back, or run again: the rules that rest on facts, of tuning, interrupts and "
        "throttling, say nothing of this host",
    ),
    Rule(
        "recordings are whole",
        "a recording is cut short, damaged or absent",
        "untrusted",
        DURING,
        check.recordings_are_whole,
        "what came after its end is unknown, and counted so: look for why the agent ended early: its error in "
        "cell.json, the disk, the kernel's log",
    ),
    Rule(
        "no record was dropped",
        "an agent dropped records: its ring was full",
        "untrusted",
        DURING,
        check.no_record_was_dropped,
        "lower the rate, or give the agent's writer a CPU of its own",
    ),
    Rule(
        "every packet is accounted for",
        "two counts of the same packets differ",
        "untrusted",
        DURING,
        check.every_packet_is_accounted_for,
        "compare the agents' totals (`done`) in cell.json with the recordings: rows that are missing were lost on the "
        "disk or as the file was fetched, and what they said is unknown",
    ),
    Rule(
        "every instant is possible",
        "a timestamp cannot be right",
        "untrusted",
        DURING,
        check.every_instant_is_possible,
        "compare the recording with the agent's readings of the clocks: a clock was set, a card's clock is not the "
        "system's (let PTP keep them alike), its driver gave an earlier packet's timestamp, or the file is damaged",
    ),
    Rule(
        "launch times are the schedule's",
        "launch times are not the schedule's",
        "untrusted",
        DURING,
        check.launch_times_are_the_schedules,
        "the agent and cell.json disagree about start, offset or period: use the agent of this latlab",
    ),
    Rule(
        "launch times are honoured",
        "nothing on the interface holds packets until their launch time",
        "untrusted",
        BEFORE,
        check.launch_times_are_honoured,
        "put an etf qdisc on the interface (tc qdisc replace dev IF parent … etf clockid CLOCK_TAI delta …), an fq for "
        "clock: monotonic, or leave launch_time out: without one the kernel sends each packet as soon as it is handed "
        "over",
    ),
    Rule(
        "the XDP bridge carried the streams",
        "the kernel bridge carried the streams in the XDP bridge's place",
        "untrusted",
        DURING,
        check.xdp_bridge_carried_the_streams,
        "the figures are the kernel bridge's: see by `bridge fdb show` whether it knows both ends at their ports, and "
        "in docs/xdp-bridge.md which frames are left to it",
    ),
    Rule(
        "clocks were not stepped",
        "a clock was stepped",
        "untrusted",
        DURING,
        check.clocks_were_not_stepped,
        "let ptp4l, phc2sys or chrony settle before the run, and forbid them to step during it",
    ),
    Rule(
        "packets arrived",
        "of the packets that were sent none arrived",
        "untrusted",
        DURING,
        check.packets_arrived,
        "look for where they were dropped: ping the listener from the talker, and compare what both ends' cards and "
        "qdiscs count (`ip -s link`, `tc -s qdisc show dev IF`); of a probe, whether who answers runs",
    ),
    Rule(
        "frames kept their VLAN tags",
        "frames arrived without their VLAN tag",
        "untrusted",
        DURING,
        check.frames_kept_their_tags,
        "find what takes tags off: a card that strips them before XDP or AF_XDP (`ethtool -K IF rxvlan off`), or a "
        "switch whose port is an access port of that VLAN",
    ),
    Rule(
        "no packet arrived before it left",
        "packets arrived before they left",
        "untrusted",
        DURING,
        check.no_packet_arrived_before_it_left,
        "the clocks differ by more than their bound: synchronise them, or bound them anew",
    ),
    Rule(
        "the clocks' offset is bounded",
        "nothing bounds the offset between the two clocks",
        "untrusted",
        DURING,
        check.clock_offset_is_bounded,
        "have the clocks compared: clock: {sync: exchange}; hosts of one kernel share theirs: {sync: auto}",
    ),
    Rule(
        "the clock bound is small beside the latency",
        "the clocks' bound is large beside the latency",
        "suspect",
        DURING,
        check.clock_bound_is_small,
        "compare differences between cells, not absolute figures, or synchronise the clocks better",
    ),
    Rule(
        "PTP was locked",
        "a port of PTP's was not locked all the time",
        "suspect",
        DURING,
        ptp.ptp_was_locked,
        "look at what ptp4l says in its log, and at its series beside the packets: what was measured while it was not "
        "locked counts from a clock that went its own way",
    ),
    Rule(
        "PTP's offset is what our own readings say",
        "PTP's offset is not what our own readings of the clocks say",
        "suspect",
        DURING,
        ptp.ptp_claims_hold,
        "a path that is longer one way than the other shifts PTP's offset by half the difference, and PTP cannot see "
        "it; queues do the same to software timestamps: stamp in hardware, or set delayAsymmetry",
    ),
    Rule(
        "PTP's clocks were read",
        "how PTP turned a clock was not read",
        "suspect",
        DURING,
        ptp.ptp_clocks_were_read,
        "see that the interface has a PTP clock (ethtool -T) and the agent may open it: offset and delay are recorded "
        "all the same, but not what the servo made of them",
    ),
    Rule(
        "PTP kept its grandmaster",
        "PTP changed its grandmaster",
        "suspect",
        DURING,
        ptp.ptp_kept_its_grandmaster,
        "compare figures from before and after only if both grandmasters had the same time",
    ),
    Rule(
        "the talker is punctual",
        "the talker woke late by more than a period, or than the lead of a launch time",
        "suspect",
        DURING,
        check.talker_is_punctual,
        "isolate the talker's CPU, raise its priority, or lengthen the period",
    ),
    Rule(
        "packets leave within a period",
        "packets queued for longer than a period before they left",
        "suspect",
        DURING,
        queue.queues_drain,
        "latency is the queue's length, not the path's: see what waits there (`tc -s qdisc show dev IF`: backlog). A "
        "queue that is left as fast as it is joined keeps what a stall, or a start far from the cycle's, once put into "
        "it: give the class more or longer windows than the stream needs (`latlab gates`), take others out of it, or "
        "lengthen the period",
    ),
    Rule(
        "realtime settings are in force",
        "a real-time setting is not in force",
        "suspect",
        BEFORE,
        check.realtime_settings_are_in_force,
        "see what `latlab doctor` says of this host",
    ),
    Rule(
        "the tuning is in force",
        "a setting of the test bed is not in force",
        "suspect",
        BEFORE_AND_AFTER,
        check.tuning_is_in_force,
        "do what came back asks for, or take the setting out of the scenario; what changes one meanwhile is often the "
        "link's coming up, a driver's reset or another program, such as irqbalance or tuned",
    ),
    Rule(
        "the XDP bridge carried every packet",
        "the kernel bridge carried packets beside the XDP bridge",
        "suspect",
        DURING,
        check.xdp_bridge_carried_every_packet,
        "XDP redirects from port to port: what goes to or from the VM host itself, and what docs/xdp-bridge.md names, "
        "is the kernel bridge's; compare such figures with bridge tap's",
    ),
    Rule(
        "timestamps are there",
        "timestamps are missing",
        "suspect",
        DURING,
        check.timestamps_are_there,
        "lower the rate, or give the talker's helper threads CPU time: they read the timestamps",
    ),
    Rule(
        "packets without timestamps are like the others",
        "packets without a timestamp are the late ones",
        "suspect",
        DURING,
        check.unstamped_are_like_the_others,
        "the largest values and high percentiles of metrics by that timestamp leave out the late packets: go by those "
        "of metrics that have them, and give the threads that read timestamps CPU time",
    ),
    Rule(
        "timestamps match their packets",
        "timestamps belong to no packet or to no known clock",
        "suspect",
        DURING,
        check.timestamps_match_their_packets,
        "look at stray_stamps in cell.json, and at findings in the packet table's metadata",
    ),
    Rule(
        "no packet with a launch time vanished",
        "packets with launch times were dropped without a word",
        "suspect",
        DURING,
        check.no_launch_was_dropped_silently,
        "usual reasons: beyond fq's horizon, 10 s of CLOCK_MONOTONIC, where a launch time in another clock always is; "
        "beyond the network card's horizon; outside every open gate of a taprio; above an etf, packets of a socket "
        "without SO_TXTIME. `tc -s qdisc show dev IF` counts them where they were dropped",
    ),
    Rule(
        "every send succeeded",
        "the kernel refused to send packets",
        "suspect",
        DURING,
        check.every_send_succeeded,
        "look at send_error in the packet table: it holds the errno",
    ),
    Rule(
        "no packet was rejected",
        "packets were answered with ICMP: port unreachable",
        "suspect",
        DURING,
        check.no_packet_was_answered_by_icmp,
        "look whether the listener was there from the first packet to the last, and what rejects packets there",
    ),
    Rule(
        "the timer kept up",
        "a timer's instants passed before its thread was done with the one before",
        "suspect",
        DURING,
        timer.timer_kept_up,
        "a stall is in the figures with all that it delayed; where it is every instant, the period is shorter than the "
        "machine can serve: give it a longer one, a real-time priority, or a CPU of its own",
    ),
    Rule(
        "the timer's interrupts were told",
        "the kernel did not tell of a timer's interrupts",
        "suspect",
        DURING,
        timer.timer_interrupts_were_told,
        "how late the thread ran is known all the same, the interrupt's part of it is not: mend what is said there, or "
        "ask for the whole only, `trace: false`",
    ),
    Rule(
        "the trace is whole",
        "the kernel lost events of a trace",
        "suspect",
        DURING,
        timer.trace_was_whole,
        "latencies are not touched; how packets of those times came from the interrupt to the thread is not known: "
        "keep other traffic off that host; what was lost stands where `event` is 0 in the recording",
    ),
    Rule(
        "the listener's socket kept every packet",
        "the listener's socket dropped packets",
        "suspect",
        DURING,
        check.socket_kept_every_packet,
        "packets were lost at the listener, not on the way: raise its priority or its receive buffer",
    ),
    Rule(
        "no packet was refused",
        "the listener refused packets",
        "suspect",
        DURING,
        check.no_packet_was_refused,
        "find who sends to the listener's port, and whether the path damages or repeats packets: such packets take "
        "its time, and those of ours that were damaged count as lost",
    ),
    Rule(
        "realtime threads were not throttled",
        "real-time threads have been throttled",
        "suspect",
        BEFORE_AND_AFTER,
        cpu.realtime_was_not_throttled,
        "sysctl kernel.sched_rt_runtime_us=-1, from Linux 6.12 on 0 into "
        "/sys/kernel/debug/sched/fair_server/cpuN/runtime, or let the busy threads sleep: otherwise they are stopped "
        "for 50 ms of each second",
    ),
    Rule(
        "no CPU time was stolen",
        "CPU time was stolen",
        "suspect",
        BEFORE_AND_AFTER,
        check.no_cpu_time_was_stolen,
        "pin this machine's vCPUs to CPUs of the host that nothing else uses",
    ),
    Rule(
        "the kernel is PREEMPT_RT",
        "the kernel is not PREEMPT_RT",
        "suspect",
        BEFORE,
        check.kernel_is_preempt_rt,
        "install a PREEMPT_RT kernel (Debian: linux-image-rt-amd64): others promise no upper bound",
    ),
    Rule(
        "the agents' CPUs are isolated",
        "the agents' CPUs are not isolated",
        "suspect",
        BEFORE,
        check.agents_cpus_are_isolated,
        "boot with isolcpus=nohz,domain,managed_irq,N and pin the agent to N",
    ),
    *CAUSES,
)
