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
        "no CPU slept deeply",
        "CPUs slept deeply while streams ran",
        "suspect",
        BEFORE_AND_AFTER,
        cpu.no_cpu_slept_deeply,
        "hold /dev/cpu_dma_latency at 0 on this host (an agent there does, with cpu_dma_latency: 0), or switch the"
        " states off: `cpupower idle-set -D 20`, or processor.max_cstate=1 intel_idle.max_cstate=0 on the kernel's"
        " command line",
    ),
    Rule(
        "the CPUs' frequencies are fixed",
        "the CPUs' frequencies change",
        "suspect",
        ALL_THE_TIME,
        cpu.frequencies_are_fixed,
        "`cpupower frequency-set -g performance`, and turbo off where even that matters",
    ),
    Rule(
        "sibling threads are quiet",
        "the other thread of a measured thread's core was busy",
        "suspect",
        ALL_THE_TIME,
        cpu.siblings_are_quiet,
        "switch simultaneous multithreading off (nosmt), or isolate both threads of the core and leave one idle",
    ),
    Rule(
        "halt polling is off",
        "KVM polls for a halted guest",
        "suspect",
        BEFORE_AND_DURING,
        cpu.halt_polling_is_off,
        "tuning: {HOST: {halt_poll: 0}}: while KVM polls, whatever shares the vCPU's CPU waits; and beyond that "
        "time a wake-up costs more than within it",
    ),
    Rule(
        "virtual CPUs are apart",
        "all virtual CPUs of a guest ran on one CPU",
        "suspect",
        BEFORE_AND_AFTER,
        cpu.vcpus_are_apart,
        "pin each one, tuning: {HOST: {guests: {GUEST: {vcpus: {cpus: [2, 3]}}}}}: the scheduler balances nothing "
        "among isolated CPUs, and leaves threads on the first one",
    ),
    Rule(
        "PTP has CPUs of its own",
        "PTP shares a CPU with measured threads, and is not above them",
        "suspect",
        BEFORE,
        cpu.ptp_leaves_their_cpus_alone,
        "clock: {ptp: {cpus: [0]}}, or a fifo above theirs: below it PTP waits for them, and with it its timestamps",
    ),
    Rule(
        "interrupts have CPUs of their own",
        "a network card's interrupts came on a measured thread's CPU",
        "suspect",
        ALL_THE_TIME,
        card.interrupts_have_other_cpus,
        "tuning: {HOST: {irq: {INTERFACE: {cpus: [0]}}}}, or another CPU for the thread",
    ),
    Rule(
        "interrupts stayed on their CPUs",
        "a network card's interrupts moved",
        "suspect",
        BEFORE_AND_AFTER,
        card.interrupts_stayed,
        "say where they belong, tuning: {HOST: {irq: …}}, with the interface up: opening it makes its driver ask "
        "for them anew, on the default CPUs; and stop irqbalance",
    ),
    Rule(
        "nothing moves interrupts",
        "irqbalance moves interrupts",
        "suspect",
        BEFORE_AND_DURING,
        card.nothing_moves_interrupts,
        "`systemctl stop irqbalance`, or have it leave these alone (--banirq)",
    ),
    Rule(
        "coalescing is small beside the latency",
        "a network card's interrupts wait for more packets",
        "suspect",
        ALL_THE_TIME,
        card.coalescing_is_small,
        "`ethtool -C INTERFACE adaptive-rx off rx-usecs 0`",
    ),
    Rule(
        "links do not rest",
        "a link rests between packets",
        "suspect",
        BEFORE,
        card.links_do_not_rest,
        "`ethtool --set-eee INTERFACE eee off`, at either end: to wake takes 17 µs at 1 Gbit/s, 30 µs at 100 Mbit/s",
    ),
    Rule(
        "links stayed up",
        "a link came or went while it was measured",
        "suspect",
        BEFORE_AND_AFTER,
        card.links_stayed_up,
        "look for who took it down in the kernel's log, or at the cable: packets are lost meanwhile, interrupts may be "
        "on other CPUs afterwards, and gates of a software taprio stand still from then on",
    ),
    Rule(
        "network cards gave every timestamp",
        "a network card's driver did not hand over every timestamp",
        "suspect",
        BEFORE_AND_AFTER,
        card.cards_gave_every_timestamp,
        "igb reads a transmitted packet's timestamp in a kworker, one at a time: give kworkers CPU time beside "
        "real-time threads (taskset, chrt), and more time between packets that are stamped",
    ),
    Rule(
        "the streams are out of step with the timer tick",
        "a stream is in step with a timer tick, whose phase decides how late its packets are",
        "suspect",
        BEFORE,
        machine.streams_are_out_of_step,
        "choose another period, such as 4093us beside 4 ms: its packets then meet the tick at every phase; or stop"
        " the tick on the CPUs in question (nohz_full)",
    ),
    Rule(
        "the agents' memory is locked",
        "an agent's memory is not locked",
        "suspect",
        BEFORE_AND_DURING,
        machine.memory_is_locked,
        "lock_memory: true, which is the default",
    ),
    Rule(
        "nothing was swapped",
        "pages were read back from swap",
        "suspect",
        ALL_THE_TIME,
        machine.nothing_was_swapped,
        "`swapoff -a`, or more memory",
    ),
    Rule(
        "no memory was moved",
        "the kernel moved pages about",
        "suspect",
        ALL_THE_TIME,
        machine.no_memory_was_moved,
        "`echo never > /sys/kernel/mm/transparent_hugepage/enabled`, or reserved huge pages for guests",
    ),
    Rule(
        "guests keep their memory",
        "a guest's memory can be taken from it",
        "suspect",
        ALL_THE_TIME,
        machine.guests_keep_their_memory,
        "no balloon: <memballoon model='none'/> in the domain's XML",
    ),
    Rule(
        "the clock source is fast",
        "the kernel counts time with a slow clock",
        "suspect",
        BEFORE_AND_AFTER,
        clock.clock_source_is_fast,
        "see in the kernel's log why it does not trust the CPU's counter; in a guest take kvm-clock, or an "
        "invariant tsc",
    ),
    Rule(
        "clocks kept their rates",
        "a clock was slewed",
        "suspect",
        DURING,
        clock.clocks_kept_their_rates,
        "stop chrony, ntpd or systemd-timesyncd for the run, let them settle before it, or keep the clocks alike "
        "by PTP",
    ),
    Rule(
        "the kernels did not complain",
        "a kernel complained of what makes packets late",
        "suspect",
        BEFORE_AND_AFTER,
        machine.kernels_did_not_complain,
        "`dmesg` on this host has the lines: what they name was held up, or held others up",
    ),
)
