"""The rules of trust about what is known to make packets late: how machines are tuned, and what they did meanwhile."""

from __future__ import annotations

from typing import Final

from latlab.analysis import card_checks as card
from latlab.analysis import clock_checks as clock
from latlab.analysis import cpu_checks as cpu
from latlab.analysis import machine_checks as machine
from latlab.analysis.trust_rule import ALL_THE_TIME, BEFORE, BEFORE_AND_AFTER, BEFORE_AND_DURING, DURING, Rule

CAUSES: Final[tuple[Rule, ...]] = (
    Rule(
        "deep-idle",
        "CPUs were in deep idle states while streams ran",
        BEFORE_AND_AFTER,
        "facts: time in idle states, of CPUs that agents and virtual CPUs are bound to, else of all",
        "a CPU was in an idle state with an exit latency over 20 µs (`idle_wakeup`) for longer than the facts were "
        "taken before and after the streams, so it was while they ran",
        cpu.no_cpu_slept_deeply,
        "keep /dev/cpu_dma_latency open with 0 on this host (an agent does with cpu_dma_latency: 0), or disable the "
        "states: `cpupower idle-set -D 20`, or processor.max_cstate=1 intel_idle.max_cstate=0 on the kernel's command "
        "line",
    ),
    Rule(
        "cpu-frequency",
        "the CPUs' frequencies change",
        ALL_THE_TIME,
        "facts: governor and range of CPUs that agents and virtual CPUs are bound to, else of all",
        "○ the governor changes them: it is neither performance nor userspace, and the range has more than one "
        "frequency; or it was another afterwards",
        cpu.frequencies_are_fixed,
        "`cpupower frequency-set -g performance`, and turbo off where that matters, too",
    ),
    Rule(
        "siblings-quiet",
        "the other thread of a measured thread's core was busy",
        ALL_THE_TIME,
        "facts: idle time of the other threads of the cores that measured threads are bound to",
        "○ busy for over 10 % of the time (`sibling_share`)",
        cpu.siblings_are_quiet,
        "switch simultaneous multithreading off (nosmt), or isolate both threads of the core and leave one idle",
    ),
    Rule(
        "halt-polling",
        "KVM polls for a halted guest",
        BEFORE_AND_DURING,
        "facts: `kvm_halt_poll_ns` of hosts with guests by KVM",
        "○ above 0",
        cpu.halt_polling_is_off,
        "tuning: {HOST: {halt_poll: 0}}: while KVM polls, everything else on the vCPU's CPU waits; a guest halted for "
        "longer than the polling time wakes more slowly",
    ),
    Rule(
        "vcpus-apart",
        "all virtual CPUs of a guest ran on one CPU",
        BEFORE_AND_AFTER,
        "facts: where each virtual CPU may run, and ran last",
        "several may run on several isolated CPUs, and all ran on the same one, before and after",
        cpu.vcpus_are_apart,
        "pin each one, tuning: {HOST: {guests: {GUEST: {vcpus: {cpus: [2, 3]}}}}}: the scheduler does not balance "
        "isolated CPUs, and leaves all threads on the first one",
    ),
    Rule(
        "ptp-cpus",
        "PTP shares a CPU with measured threads, and its priority is not above theirs",
        BEFORE,
        "facts: CPUs and priority of ptp4l and phc2sys; those of threads that are bound to CPUs",
        "a CPU of theirs is among them, and PTP's priority is not above theirs",
        cpu.ptp_leaves_their_cpus_alone,
        "clock: {ptp: {cpus: [0]}}, or a fifo above theirs: with a lower priority PTP and its timestamps wait for them",
    ),
    Rule(
        "irq-cpus",
        "a network card's interrupts ran on a measured thread's CPU",
        ALL_THE_TIME,
        "facts: counts of the interrupts of measured interfaces, by CPU",
        "○ any on a CPU that a measured thread is bound to",
        card.interrupts_have_other_cpus,
        "tuning: {HOST: {irq: {INTERFACE: {cpus: [0]}}}}, or another CPU for the thread",
    ),
    Rule(
        "irq-moved",
        "a network card's interrupts moved",
        BEFORE_AND_AFTER,
        "facts: counts of the interrupts of measured interfaces, by CPU, and their affinity",
        "either is another afterwards",
        card.interrupts_stayed,
        "bind them, tuning: {HOST: {irq: …}}, with the interface up: bringing it up makes its driver request them "
        "again, on the default CPUs; and stop irqbalance",
    ),
    Rule(
        "irqbalance",
        "irqbalance moves interrupts",
        BEFORE_AND_DURING,
        "facts: irqbalance; interrupts of measured interfaces",
        "○ it runs, and there are such interrupts",
        card.nothing_moves_interrupts,
        "`systemctl stop irqbalance`, or exclude these (--banirq)",
    ),
    Rule(
        "irq-coalescing",
        "a network card's interrupts wait for more packets",
        ALL_THE_TIME,
        "facts: `coalescing`, `rx_packets`; median of `latency`",
        "interrupts of an interface wait for over 20 % of the median; counted for interfaces that received as many "
        "packets as a stream that ends on their host (`coalescing_share`)",
        card.coalescing_is_small,
        "`ethtool -C INTERFACE adaptive-rx off rx-usecs 0`",
    ),
    Rule(
        "eee-off",
        "a link sleeps between packets",
        BEFORE,
        "facts: `energy_efficient_ethernet` of measured interfaces",
        "in force",
        card.links_do_not_rest,
        "`ethtool --set-eee INTERFACE eee off`, at either end: waking takes 17 µs at 1 Gbit/s, 30 µs at 100 Mbit/s",
    ),
    Rule(
        "link-up",
        "a link went up or down during the measurement",
        BEFORE_AND_AFTER,
        "facts: `carrier_changes` of measured interfaces",
        "any differs afterwards",
        card.links_stayed_up,
        "look into the kernel's log for what took it down, and check the cable: packets are lost meanwhile, interrupts "
        "may be on other CPUs afterwards, and the gates of a software taprio stop",
    ),
    Rule(
        "card-timestamps",
        "a network card's driver did not deliver every timestamp",
        BEFORE_AND_AFTER,
        "facts: the driver's `tx_hwtstamp_skipped`, `tx_hwtstamp_timeouts`, `rx_hwtstamp_cleared`",
        "any grew",
        card.cards_gave_every_timestamp,
        "igb reads a transmitted packet's timestamp in a kworker, one at a time: give kworkers CPU time that real-time "
        "threads do not take (taskset, chrt), and more time between packets that are stamped",
    ),
    Rule(
        "timer-tick",
        "a stream is in step with a timer tick, so the tick's phase decides how late its packets are",
        BEFORE,
        "facts: `tick_ns`, `nohz_full`, of guests and their hosts; in virtual time of all hosts",
        "a stream's period is a multiple or a divisor of the tick of a kernel on its path, and some of its threads "
        "there are on CPUs with that tick",
        machine.streams_are_out_of_step,
        "choose another period, for example 4093us with a tick of 4 ms: its packets then meet the tick at every phase; "
        "or stop the tick on the CPUs in question (nohz_full)",
    ),
    Rule(
        "memory-locked",
        "an agent's memory is not locked",
        BEFORE_AND_DURING,
        "agents' `ready`",
        "○ a talker's or a listener's is not",
        machine.memory_is_locked,
        "lock_memory: true, which is the default",
    ),
    Rule(
        "swapping",
        "pages were read back from swap",
        ALL_THE_TIME,
        "facts: pages read back from swap",
        "○ any",
        machine.nothing_was_swapped,
        "`swapoff -a`, or more memory",
    ),
    Rule(
        "memory-moved",
        "the kernel moved memory pages",
        ALL_THE_TIME,
        "facts: `compaction_stalls`, `huge_pages_collapsed`",
        "○ any",
        machine.no_memory_was_moved,
        "`echo never > /sys/kernel/mm/transparent_hugepage/enabled`, or reserved huge pages for guests",
    ),
    Rule(
        "guest-memory",
        "a guest's memory can be reclaimed by its host",
        ALL_THE_TIME,
        "facts of guests: memory, modules",
        "its size is another afterwards; ○ virtio_balloon is loaded",
        machine.guests_keep_their_memory,
        "no balloon: <memballoon model='none'/> in the domain's XML",
    ),
    Rule(
        "clock-source",
        "the kernel uses a slow clock source",
        BEFORE_AND_AFTER,
        "facts: `clock.source`",
        "a device or a tick (hpet, acpi_pm, pit, jiffies); or another one afterwards",
        clock.clock_source_is_fast,
        "see in the kernel's log why it rejects the CPU's counter; in a guest use kvm-clock, or an invariant tsc",
    ),
    Rule(
        "clock-slewed",
        "a clock was slewed",
        DURING,
        "clock readings of hosts at the ends of a stream between two kernels, without PTP in the scenario",
        "the rate of MONOTONIC against MONOTONIC_RAW differs once from its median by over 10 ppm (`clock_slew_share`) "
        "and by more than both readings took",
        clock.clocks_kept_their_rates,
        "stop chrony, ntpd or systemd-timesyncd for the run, let them settle before it, or synchronise the clocks by "
        "PTP",
    ),
    Rule(
        "kernel-complaints",
        "a kernel logged something that makes packets late",
        BEFORE_AND_AFTER,
        "facts: `complaints`",
        "there are more of them afterwards",
        machine.kernels_did_not_complain,
        "`dmesg` on this host has the lines: they name what was delayed, or what delayed others",
    ),
)
