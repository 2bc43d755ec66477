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
        "cell-ended",
        "the cell did not run to its end",
        DURING,
        "cell.json",
        "its status is failed or interrupted, or the run never came to it",
        check.cell_ran_to_its_end,
        "fix what it says, and run again; what was measured until then is in the tables",
    ),
    Rule(
        "agents-ended",
        "an agent did not come to its end",
        DURING,
        "cell.json: `done` and `error` of each agent",
        "an agent failed; in a cell that is `ok`, one has no `done`",
        check.agents_came_to_their_end,
        "look for why in cell.json and in its host's log: without an agent's totals nothing shows that its recordings "
        "are all there",
    ),
    Rule(
        "facts-taken",
        "a host's facts are missing",
        BEFORE_AND_AFTER,
        "cell.json: agents; facts",
        "in a cell that is `ok`, a host with an agent has none",
        check.facts_were_taken,
        "put a whole copy of the file back, or run again: the rules that rest on facts, of tuning, interrupts and "
        "throttling, say nothing of this host",
    ),
    Rule(
        "recordings-whole",
        "a recording is cut short, damaged or absent",
        DURING,
        "each recording",
        "it is absent, its end marker is missing, or a batch of it differs from its checksum",
        check.recordings_are_whole,
        "what came after its end is unknown, and counted so: look for why the agent ended early: its error in "
        "cell.json, the disk, the kernel's log",
    ),
    Rule(
        "ring-full",
        "an agent dropped records: its ring was full",
        DURING,
        "agents' `ring_full`",
        "above 0",
        check.no_record_was_dropped,
        "lower the rate, or give the agent's writer a CPU of its own",
    ),
    Rule(
        "counts-agree",
        "two counts of the same packets differ",
        DURING,
        "`done` of each agent, its recordings, packet table",
        "a recording has another number of rows than its agent counted; a talker or a listener counted another number "
        "than the table has; a listener counted more than its talker; or packets arrived that were not handed over",
        check.every_packet_is_accounted_for,
        "compare the agents' totals (`done`) in cell.json with the recordings: rows that are missing were lost on the "
        "disk or as the file was fetched, and what they said is unknown",
    ),
    Rule(
        "timestamps-possible",
        "a timestamp cannot be right",
        DURING,
        "timestamps; each agent's first and last reading of the clocks",
        "any before the first or after the last reading, a wake-up before it was due, or one before what has to come "
        "first: `submit` before `wake`, `tx_sched` or `tx_soft` before `submit`, `tx_hard` before `wake`, `rx_soft` "
        "or `rx_hard` after `rx_user`; an `rx_user` that is the one of the packet before and lies before its own "
        "`rx_soft`; a `wake` or `rx_user` that goes back in the order of its recording. Such timestamps are left out "
        "of the packet table; a card's stay where most of its stream's are so",
        check.every_instant_is_possible,
        "compare the recording with the agent's readings of the clocks: a clock was set, a card's clock is not the "
        "system's (let PTP keep them alike), its driver gave an earlier packet's timestamp, or the file is damaged",
    ),
    Rule(
        "launches-scheduled",
        "launch times are not the schedule's",
        DURING,
        "launch times as sent and as received",
        "any differs from start + offset + n × period",
        check.launch_times_are_the_schedules,
        "the agent and cell.json disagree about start, offset or period: use the agent of this latlab",
    ),
    Rule(
        "launches-honoured",
        "nothing on the interface holds packets until their launch time",
        BEFORE,
        "facts before: the qdiscs of the interface a stream with launch times leaves by",
        "none of them goes by their clock: etf and taprio by TAI, fq by MONOTONIC; or fq has it, and the stream has "
        "priority 7, which fq sends at once",
        check.launch_times_are_honoured,
        "put an etf qdisc on the interface (tc qdisc replace dev IF parent … etf clockid CLOCK_TAI delta …), an fq "
        "for clock: monotonic, or leave launch_time out: without one the kernel sends each packet as soon as it is "
        "handed over",
    ),
    Rule(
        "xdp-carried",
        "the kernel bridge carried the streams in the XDP bridge's place",
        DURING,
        "cell.json: the counts in `bridges`; packets received",
        "fewer than half as many frames were redirected as packets arrived across the bridge",
        check.xdp_bridge_carried_the_streams,
        "the figures are the kernel bridge's: see by `bridge fdb show` whether it knows both ends at their ports, and "
        "in docs/reference/xdp-bridge.md which frames are left to it",
    ),
    Rule(
        "clock-stepped",
        "a clock was stepped",
        DURING,
        "clock readings",
        "REALTIME − MONOTONIC or TAI − REALTIME changes by over 1 ms (`clock_step`) and both readings' own length "
        "between two readings",
        check.clocks_were_not_stepped,
        "let ptp4l, phc2sys or chrony settle before the run, and forbid them to step during it",
    ),
    Rule(
        "packets-arrived",
        "of the packets that were sent none arrived",
        DURING,
        "`latency`, `latency_user`, `round_trip`: `n`, `lost`",
        "packets were sent after the warm-up, and none arrived or was answered; those that arrived without their VLAN "
        "tag are not among them",
        check.packets_arrived,
        "look for where they were dropped: ping the listener from the talker, and compare what both ends' cards and "
        "qdiscs count (`ip -s link`, `tc -s qdisc show dev IF`); of a probe, whether who answers runs",
    ),
    Rule(
        "vlan-tags-kept",
        "frames arrived without their VLAN tag",
        DURING,
        "listener's `untagged`",
        "above 0: such frames are in no recording, and count as lost",
        check.frames_kept_their_tags,
        "find what takes tags off: a card that strips them before XDP or AF_XDP (`ethtool -K IF rxvlan off`), or a "
        "switch whose port is an access port of that VLAN",
    ),
    Rule(
        "arrived-early",
        "packets arrived before they left",
        DURING,
        "minimum of `path`, `latency`, `latency_user`, `delivery`",
        "below −uncertainty; for latencies with launch time also below −lead",
        check.no_packet_arrived_before_it_left,
        "the clocks differ by more than their bound: synchronise them, or bound them anew",
    ),
    Rule(
        "clock-bound",
        "nothing bounds the offset between the two clocks",
        DURING,
        "`path`, `latency`, `latency_user` and their `unbounded`",
        "no bound, for any packet",
        check.clock_offset_is_bounded,
        "have the clocks compared: clock: {sync: exchange}; hosts of one kernel share theirs: {sync: auto}",
    ),
    Rule(
        "clock-bound-large",
        "the clocks' bound is large beside the latency",
        DURING,
        "`latency`",
        "bound above 10 % of the median (`clock_bound_share`)",
        check.clock_bound_is_small,
        "compare differences between cells, not absolute figures, or synchronise the clocks better",
    ),
    Rule(
        "ptp-locked",
        "a port of PTP's was not locked all the time",
        DURING,
        "`ptp` of the result: `unlocked`",
        "any port was not master or locked slave for a time, or not what it was to begin with: no answer, no Sync for "
        "three intervals, another state, an offset beyond its limit or unknown",
        ptp.ptp_was_locked,
        "look at what ptp4l says in its log, and at its series beside the packets: what was measured while it was not "
        "locked counts from a clock that went its own way",
    ),
    Rule(
        "ptp-offset",
        "PTP's offset is not what our own readings of the clocks say",
        DURING,
        "`ptp`: `checked`",
        "any reading further than the limit from the interval that our own readings leave",
        ptp.ptp_claims_hold,
        "a path that is longer one way than the other shifts PTP's offset by half the difference, and PTP cannot see "
        "it; queues do the same to software timestamps: stamp in hardware, or set delayAsymmetry",
    ),
    Rule(
        "ptp-clocks-read",
        "how PTP turned a clock was not read",
        DURING,
        "`clock` in `ready` of agents that observe",
        "any could not be read",
        ptp.ptp_clocks_were_read,
        "see that the interface has a PTP clock (ethtool -T) and the agent may open it: offset and delay are recorded "
        "all the same, but not what the servo made of them",
    ),
    Rule(
        "ptp-grandmaster",
        "PTP changed its grandmaster",
        DURING,
        "`ptp`: `grandmasters`",
        "more than one",
        ptp.ptp_kept_its_grandmaster,
        "compare figures from before and after only if both grandmasters had the same time",
    ),
    Rule(
        "talker-punctual",
        "the talker woke late by more than a period, or than the lead of a launch time",
        DURING,
        "`wakeup`",
        "max above the period, and above the lead of a stream with launch times, which makes up for late wake-ups; "
        "p99 is reported too if it is",
        check.talker_is_punctual,
        "isolate the talker's CPU, raise its priority, or lengthen the period",
    ),
    Rule(
        "queue-drains",
        "packets queued for longer than a period before they left",
        DURING,
        "`lateness`, `wakeup`, `gates`: `promised`",
        "median of `lateness` above p90 of `wakeup`, a period, and the longest wait within the gate schedule's bound, "
        "together: a queue that does not drain",
        queue.queues_drain,
        "latency is the queue's length, not the path's: see what waits there (`tc -s qdisc show dev IF`: backlog). A "
        "queue that is left as fast as it is joined keeps what a stall, or a start far from the cycle's, once put "
        "into it: give the class more or longer windows than the stream needs (`latlab gates`), take others out of "
        "it, or lengthen the period",
    ),
    Rule(
        "rt-settings",
        "a real-time setting is not in force",
        BEFORE,
        "problems in agents' `ready`",
        "any",
        check.realtime_settings_are_in_force,
        "see what `latlab doctor` says of this host",
    ),
    Rule(
        "tuning-in-force",
        "a setting of the test bed is not in force",
        BEFORE_AND_AFTER,
        "cell.json: `steps`, `rechecks`",
        "an optional step could not be done, or a setting read again at the end is another",
        check.tuning_is_in_force,
        "do what came back asks for, or take the setting out of the scenario; what changes one meanwhile is often the "
        "link's coming up, a driver's reset or another program, such as irqbalance or tuned",
    ),
    Rule(
        "xdp-carried-all",
        "the kernel bridge carried packets beside the XDP bridge",
        DURING,
        "cell.json: the counts in `bridges`; packets received; both ends of each stream",
        "fewer frames were redirected than packets arrived; or one end is the bridge's own host, whose packets are "
        "the kernel bridge's",
        check.xdp_bridge_carried_every_packet,
        "XDP redirects from port to port: what goes to or from the VM host itself, and what "
        "docs/reference/xdp-bridge.md names, is the kernel bridge's; compare such figures with bridge tap's",
    ),
    Rule(
        "timestamps-there",
        "timestamps are missing",
        DURING,
        "`missing` of each metric; `unstamped` of each stream",
        "above 0.1 % of its packets (`missing_share`); or every packet is without one that the kernel can give",
        check.timestamps_are_there,
        "lower the rate, or give the talker's helper threads CPU time: they read the timestamps",
    ),
    Rule(
        "unstamped-alike",
        "packets without a timestamp are the late ones",
        DURING,
        "`unstamped` of each stream",
        "more of the packets without a timestamp are among the latest than chance explains (p < 0.001), by the next "
        "timestamp that they have",
        check.unstamped_are_like_the_others,
        "the largest values and high percentiles of metrics by that timestamp leave out the late packets: go by those "
        "of metrics that have them, and give the threads that read timestamps CPU time",
    ),
    Rule(
        "timestamps-matched",
        "timestamps belong to no packet or to no known clock",
        DURING,
        "join of the recordings",
        "any row of no packet, any second one, any timestamp without clock readings",
        check.timestamps_match_their_packets,
        "look at stray_stamps in cell.json, and at findings in the packet table's metadata",
    ),
    Rule(
        "launch-dropped",
        "packets with launch times were dropped silently",
        DURING,
        "`launch_silent`",
        "above 0",
        check.no_launch_was_dropped_silently,
        "usual reasons: beyond fq's horizon, 10 s of CLOCK_MONOTONIC, where a launch time in another clock always is; "
        "beyond the network card's horizon; outside every open gate of a taprio; above an etf, packets of a socket "
        "without SO_TXTIME. `tc -s qdisc show dev IF` counts them where they were dropped",
    ),
    Rule(
        "sends-succeeded",
        "the kernel refused to send packets",
        DURING,
        "`send_errors`",
        "above 0",
        check.every_send_succeeded,
        "look at send_error in the packet table: it holds the errno",
    ),
    Rule(
        "icmp-rejected",
        "packets were answered with ICMP: port unreachable",
        DURING,
        "talkers' `rejected`",
        "above 0: nobody listened at the port, or a firewall rejects packets",
        check.no_packet_was_answered_by_icmp,
        "look whether the listener was there from the first packet to the last, and what rejects packets there",
    ),
    Rule(
        "timer-kept-up",
        "a timer's instants passed before its thread was done with the one before",
        DURING,
        "`overdue` of timers' agents, and how long they waited for their recordings then, `held_up_ns`",
        "above 0",
        timer.timer_kept_up,
        "a stall is in the figures with all that it delayed; where it is every instant, the period is shorter than "
        "the machine can serve: give it a longer one, a real-time priority, or a CPU of its own",
    ),
    Rule(
        "timer-interrupts",
        "the kernel did not report a timer's interrupts",
        DURING,
        "`trace_problem`, `trace_lost` of timers' agents",
        "the kernel was asked to report them, and did not report all",
        timer.timer_interrupts_were_told,
        "how late the thread ran is known all the same, the interrupt's part of it is not: fix what is said there, "
        "or ask for the whole only, `trace: false`",
    ),
    Rule(
        "trace-whole",
        "the kernel lost events of a trace",
        DURING,
        "`lost` of agents that trace",
        "above 0: a buffer of the kernel's was full",
        timer.trace_was_whole,
        "latencies are not touched; how packets of those times came from the interrupt to the thread is not known: "
        "keep other traffic off that host; what was lost stands where `event` is 0 in the recording",
    ),
    Rule(
        "socket-drops",
        "the listener's socket dropped packets",
        DURING,
        "`socket_drops`",
        "above 0",
        check.socket_kept_every_packet,
        "packets were lost at the listener, not on the path: raise its priority or its receive buffer",
    ),
    Rule(
        "packets-refused",
        "the listener refused packets",
        DURING,
        "listener's `foreign`, `truncated`, `other_run`, `unknown_stream`, `out_of_range`",
        "any above 0",
        check.no_packet_was_refused,
        "find who sends to the listener's port, and whether the path damages or repeats packets: such packets take "
        "its time, and those of ours that were damaged count as lost",
    ),
    Rule(
        "rt-throttled",
        "real-time threads have been throttled",
        BEFORE_AND_AFTER,
        "facts: kernel's log, `rt_runtime_us`; `fair_servers`, idle time of CPUs that agents at SCHED_FIFO are bound "
        "to",
        "throttled during the cell; or earlier since boot with throttling still on, as the kernel says it once only; "
        "○ such a CPU had no rest, and the kernel keeps a part of it for ordinary threads",
        cpu.realtime_was_not_throttled,
        "sysctl kernel.sched_rt_runtime_us=-1, from Linux 6.12 on 0 into "
        "/sys/kernel/debug/sched/fair_server/cpuN/runtime, or let the busy threads sleep: otherwise they are stopped "
        "for 50 ms of each second",
    ),
    Rule(
        "cpu-stolen",
        "CPU time was stolen",
        BEFORE_AND_AFTER,
        "facts: steal time of all CPUs together",
        "above 1 % of the time between the facts (`steal_share`)",
        check.no_cpu_time_was_stolen,
        "pin this machine's vCPUs to CPUs of the host that nothing else uses",
    ),
    Rule(
        "preempt-rt",
        "the kernel is not PREEMPT_RT",
        BEFORE,
        "facts: `preempt_rt`",
        "a kernel is not PREEMPT_RT",
        check.kernel_is_preempt_rt,
        "install a PREEMPT_RT kernel (Debian: linux-image-rt-amd64): others guarantee no upper bound",
    ),
    Rule(
        "cpus-isolated",
        "the agents' CPUs are not isolated",
        BEFORE,
        "CPUs of each agent, facts",
        "any that is not isolated",
        check.agents_cpus_are_isolated,
        "boot with isolcpus=nohz,domain,managed_irq,N and pin the agent to N",
    ),
    *CAUSES,
)
