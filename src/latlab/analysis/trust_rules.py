"""The rules of trust, as a table: what should be so of a measurement, and what to do where it is not."""

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
        "its status is failed or interrupted, or the run never started it",
        check.cell_ran_to_its_end,
        "fix the reported cause, and run again; the tables have what was measured until then",
    ),
    Rule(
        "agents-ended",
        "an agent did not finish",
        DURING,
        "cell.json: `done` and `error` of each agent",
        "an agent failed; in a cell that is `ok`, one has no `done`",
        check.agents_came_to_their_end,
        "see cell.json and its host's log for the cause: without an agent's totals nothing shows that its recordings "
        "are complete",
    ),
    Rule(
        "facts-taken",
        "a host's facts are missing",
        BEFORE_AND_AFTER,
        "cell.json: agents; facts",
        "in a cell that is `ok`, a host with an agent has none",
        check.facts_were_taken,
        "restore a complete copy of the file, or run again: the rules that use facts (tuning, interrupts, throttling) "
        "cannot judge this host",
    ),
    Rule(
        "recordings-whole",
        "a recording is cut short, damaged or absent",
        DURING,
        "each recording",
        "it is absent, its end marker is missing, or a batch of it differs from its checksum",
        check.recordings_are_whole,
        "packets after its end count as unknown: find out why the agent ended early: its error in cell.json, the disk, "
        "the kernel's log",
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
        "compare the agents' totals (`done`) in cell.json with the recordings: missing rows were lost on the disk or "
        "while the file was fetched",
    ),
    Rule(
        "timestamps-possible",
        "a timestamp cannot be right",
        DURING,
        "timestamps; each agent's first and last reading of the clocks",
        "any before the first or after the last reading, a wake-up before it was due, or one before an earlier "
        "stage's: `submit` before `wake`, `tx_sched` or `tx_soft` before `submit`, `tx_hard` before `wake`, `rx_soft` "
        "or `rx_hard` after `rx_user`; an `rx_user` that equals the previous packet's and is before its own `rx_soft`; "
        "a `wake` or `rx_user` that goes back in the order of its recording. Such timestamps are left out of the "
        "packet table; a card's stay if most of its stream's are affected",
        check.every_instant_is_possible,
        "compare the recording with the agent's readings of the clocks: a clock was set, a card's clock is not "
        "synchronised with the system's (use PTP), its driver gave an earlier packet's timestamp, or the file is "
        "damaged",
    ),
    Rule(
        "launches-scheduled",
        "launch times are not the schedule's",
        DURING,
        "launch times as sent and as received",
        "any differs from start + offset + n × period",
        check.launch_times_are_the_schedules,
        "the agent and cell.json disagree about start, offset or period: use the agent of this latlab version",
    ),
    Rule(
        "launches-honoured",
        "no qdisc on the interface delays packets until their launch time",
        BEFORE,
        "facts before: the qdiscs of the interface through which a stream with launch times leaves",
        "none of them uses their clock: etf and taprio use TAI, fq uses MONOTONIC; or it is fq and the stream has "
        "priority 7, which fq sends at once",
        check.launch_times_are_honoured,
        "put an etf qdisc on the interface (tc qdisc replace dev IF parent … etf clockid CLOCK_TAI delta …), an fq for "
        "clock: monotonic, or leave launch_time out: without such a qdisc the kernel sends each packet as soon as it "
        "is handed over",
    ),
    Rule(
        "xdp-carried",
        "the kernel bridge carried the streams instead of the XDP bridge",
        DURING,
        "cell.json: the counts in `bridges`; packets received",
        "fewer than half as many frames were redirected as packets arrived across the bridge",
        check.xdp_bridge_carried_the_streams,
        "the figures are those of the kernel bridge: check with `bridge fdb show` that it has both ends at their "
        "ports; docs/reference/xdp-bridge.md lists the frames that it handles",
    ),
    Rule(
        "clock-stepped",
        "a clock was stepped",
        DURING,
        "clock readings",
        "REALTIME − MONOTONIC or TAI − REALTIME changes between two readings by over 1 ms (`clock_step`) and by more "
        "than both readings took",
        check.clocks_were_not_stepped,
        "let ptp4l, phc2sys or chrony settle before the run, and configure them not to step during it",
    ),
    Rule(
        "packets-arrived",
        "none of the sent packets arrived",
        DURING,
        "`latency`, `latency_user`, `round_trip`: `n`, `lost`",
        "packets were sent after the warm-up, and none arrived or was answered; packets that arrived without their "
        "VLAN tag are counted by another rule",
        check.packets_arrived,
        "find where they were dropped: ping the listener from the talker, and compare the counters of both ends' cards "
        "and qdiscs (`ip -s link`, `tc -s qdisc show dev IF`); for a probe check that the answerer runs",
    ),
    Rule(
        "vlan-tags-kept",
        "frames arrived without their VLAN tag",
        DURING,
        "listener's `untagged`",
        "above 0: such frames are in no recording, and count as lost",
        check.frames_kept_their_tags,
        "find what removes the tags: a card that strips them before XDP or AF_XDP (`ethtool -K IF rxvlan off`), or a "
        "switch whose port is an access port of that VLAN",
    ),
    Rule(
        "arrived-early",
        "packets arrived before they left",
        DURING,
        "minimum of `path`, `latency`, `latency_user`, `delivery`",
        "below −uncertainty; for latencies with launch time also below −lead",
        check.no_packet_arrived_before_it_left,
        "the clocks differ by more than their bound: synchronise them, or have them compared again",
    ),
    Rule(
        "clock-bound",
        "the offset between the two clocks is not bounded",
        DURING,
        "`path`, `latency`, `latency_user` and their `unbounded`",
        "no bound, for any packet",
        check.clock_offset_is_bounded,
        "set clock: {sync: exchange}, which compares the clocks; hosts of one kernel share a clock: {sync: auto}",
    ),
    Rule(
        "clock-bound-large",
        "the clocks' bound is large compared with the latency",
        DURING,
        "`latency`",
        "bound above 10 % of the median (`clock_bound_share`)",
        check.clock_bound_is_small,
        "compare differences between cells, not absolute figures, or synchronise the clocks better",
    ),
    Rule(
        "ptp-locked",
        "a PTP port was not locked all the time",
        DURING,
        "`ptp` of the result: `unlocked`",
        "any port was for a time neither master nor locked slave, or changed its role: no answer, no Sync for three "
        "intervals, another state, an offset beyond its limit or unknown",
        ptp.ptp_was_locked,
        "see ptp4l's log, and its series next to the packets': what was measured meanwhile is by a clock that was not "
        "synchronised",
    ),
    Rule(
        "ptp-offset",
        "PTP's offset disagrees with latlab's readings of the clocks",
        DURING,
        "`ptp`: `checked`",
        "any reading is further than the limit from the interval that latlab's readings allow",
        ptp.ptp_claims_hold,
        "a path that is longer in one direction shifts PTP's offset by half the difference, which PTP cannot detect; "
        "queues do the same to software timestamps: use hardware timestamps, or set delayAsymmetry",
    ),
    Rule(
        "ptp-clocks-read",
        "how PTP adjusted a clock was not recorded",
        DURING,
        "`clock` in `ready` of agents that observe",
        "any could not be read",
        ptp.ptp_clocks_were_read,
        "check that the interface has a PTP clock (ethtool -T) and that the agent may open it: offset and delay are "
        "recorded without it, the servo's frequency is not",
    ),
    Rule(
        "ptp-grandmaster",
        "PTP changed its grandmaster",
        DURING,
        "`ptp`: `grandmasters`",
        "more than one",
        ptp.ptp_kept_its_grandmaster,
        "compare figures from before and after the change only if both grandmasters had the same time",
    ),
    Rule(
        "talker-punctual",
        "the talker woke late by more than a period, or than the lead of a launch time",
        DURING,
        "`wakeup`",
        "max above the period, and above the lead of a stream with launch times, which absorbs late wake-ups; p99 is "
        "reported, too, if it is above",
        check.talker_is_punctual,
        "isolate the talker's CPU, raise its priority, or lengthen the period",
    ),
    Rule(
        "queue-drains",
        "packets queued for longer than a period before they left",
        DURING,
        "`lateness`, `wakeup`, `gates`: `promised`",
        "median of `lateness` above the sum of p90 of `wakeup`, a period and the longest wait for the gate schedule: a "
        "queue that does not drain",
        queue.queues_drain,
        "latency shows the queue's length, not the path: see what waits there (`tc -s qdisc show dev IF`: backlog). A "
        "queue that drains only as fast as it fills keeps the backlog of a stall or of the start: give the class more "
        "or longer windows than the stream needs (`latlab gates`), move other streams out of it, or lengthen the "
        "period",
    ),
    Rule(
        "rt-settings",
        "a real-time setting is not in force",
        BEFORE,
        "problems in agents' `ready`",
        "any",
        check.realtime_settings_are_in_force,
        "run `latlab doctor` on this host",
    ),
    Rule(
        "tuning-in-force",
        "a setting of the test bed is not in force",
        BEFORE_AND_AFTER,
        "cell.json: `steps`, `rechecks`",
        "an optional step failed, or a setting had changed at the end",
        check.tuning_is_in_force,
        "fix the reported error, or remove the setting from the scenario; a setting often changes when the link comes "
        "up, a driver resets, or another program such as irqbalance or tuned runs",
    ),
    Rule(
        "xdp-carried-all",
        "the kernel bridge carried some packets instead of the XDP bridge",
        DURING,
        "cell.json: the counts in `bridges`; packets received; both ends of each stream",
        "fewer frames were redirected than packets arrived; or one end is the bridge's own host, whose packets the "
        "kernel bridge carries",
        check.xdp_bridge_carried_every_packet,
        "XDP redirects from port to port: the kernel bridge carries packets to and from the VM host itself, and the "
        "frames that docs/reference/xdp-bridge.md lists; compare such figures with those of bridge tap",
    ),
    Rule(
        "timestamps-there",
        "timestamps are missing",
        DURING,
        "`missing` of each metric; `unstamped` of each stream",
        "above 0.1 % of its packets (`missing_share`); or every packet is without one that the kernel could give",
        check.timestamps_are_there,
        "lower the rate, or give CPU time to the talker's helper threads, which read the timestamps",
    ),
    Rule(
        "unstamped-alike",
        "packets without a timestamp are the late ones",
        DURING,
        "`unstamped` of each stream",
        "by their next timestamp more of the packets without a timestamp are among the latest than chance explains (p "
        "< 0.001)",
        check.unstamped_are_like_the_others,
        "the largest values and high percentiles of metrics with that timestamp leave out late packets: use metrics "
        "without it, and give CPU time to the threads that read timestamps",
    ),
    Rule(
        "timestamps-matched",
        "timestamps belong to no packet or to no known clock",
        DURING,
        "join of the recordings",
        "any row without a packet, any second row of a packet, any timestamp without clock readings",
        check.timestamps_match_their_packets,
        "see stray_stamps in cell.json, and findings in the packet table's metadata",
    ),
    Rule(
        "launch-dropped",
        "packets with launch times were dropped silently",
        DURING,
        "`launch_silent`",
        "above 0",
        check.no_launch_was_dropped_silently,
        "usual reasons: beyond fq's horizon, 10 s of CLOCK_MONOTONIC, which a launch time of another clock always "
        "exceeds; beyond the network card's horizon; outside every open gate of a taprio; above an etf, packets of a "
        "socket without SO_TXTIME. `tc -s qdisc show dev IF` shows where they were dropped",
    ),
    Rule(
        "sends-succeeded",
        "the kernel refused to send packets",
        DURING,
        "`send_errors`",
        "above 0",
        check.every_send_succeeded,
        "see send_error in the packet table: it has the errno",
    ),
    Rule(
        "icmp-rejected",
        "packets were answered with ICMP: port unreachable",
        DURING,
        "talkers' `rejected`",
        "above 0: no socket listened on the port, or a firewall rejects packets",
        check.no_packet_was_answered_by_icmp,
        "check that the listener ran from the first packet to the last, and what rejects packets there",
    ),
    Rule(
        "timer-kept-up",
        "a timer expired before its thread had finished the previous expiry",
        DURING,
        "`overdue` of timers' agents, and how long they waited for their recordings then, `held_up_ns`",
        "above 0",
        timer.timer_kept_up,
        "the figures include a stall and every expiry that it delayed; if every expiry is overdue, the machine cannot "
        "serve this period: use a longer one, a real-time priority, or a CPU of its own",
    ),
    Rule(
        "timer-interrupts",
        "the kernel did not report a timer's interrupts",
        DURING,
        "`trace_problem`, `trace_lost` of timers' agents",
        "the kernel was to report them, and did not report all",
        timer.timer_interrupts_were_told,
        "how late the thread ran is known, the interrupt's part of it is not: fix the reported cause, or set `trace: "
        "false`",
    ),
    Rule(
        "trace-whole",
        "the kernel lost events of a trace",
        DURING,
        "`lost` and `kept.overran` of agents that trace",
        "above 0: a buffer of the kernel's was full, or a window was asked for after its events were gone",
        timer.trace_was_whole,
        "latencies are not affected; for packets of those times the path from the interrupt to the thread is not "
        "known: keep other traffic off that host; rows with `event` 0 in the recording are the losses",
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
        "find out what sends to the listener's port, and whether the path damages or repeats packets: such packets "
        "take the listener's time, and damaged packets of a stream count as lost",
    ),
    Rule(
        "rt-throttled",
        "real-time threads have been throttled",
        BEFORE_AND_AFTER,
        "facts: kernel's log, `rt_runtime_us`; `fair_servers`, idle time of CPUs that agents at SCHED_FIFO are bound "
        "to",
        "throttled during the cell; or earlier since boot with throttling still on, as the kernel reports it only "
        "once; ○ such a CPU was never idle, and the kernel reserves a part of it for ordinary threads",
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
