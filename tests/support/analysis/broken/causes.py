"""Evidence of what is known to make packets late: how a machine is tuned, and what it did meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.analysis.evidence import (
    GOOD,
    Case,
    agents,
    card,
    clocks,
    every_cpu,
    facts,
    guest,
    merged,
    on_ecu,
    sleeping,
    thread,
    threads,
    to_guest,
)

ISOLATED = {"cpu": {"isolated": [1, 2, 3]}}
TWO_VCPUS = threads(
    **{
        "qemu-system-x86.1_CPU_0__KVM": thread(id=11, cpus=[2, 3], last_cpu=2),
        "qemu-system-x86.1_CPU_1__KVM": thread(id=12, cpus=[2, 3], last_cpu=2),
    }
)
SMALL, LARGE = {"core_type": "Cortex-A53", "capacity": 446}, {"core_type": "Cortex-A72", "capacity": 1024}
BIG_LITTLE = {"cpu": {"online": [0, 1, 2, 3], "cpus": {"0": SMALL, "1": SMALL, "2": LARGE, "3": LARGE}}}


def on_cpus(cpus: list[int], **cores: int) -> list[dict[str, Any]]:
    """Agents that may run on these CPUs, the listener with so many rows on each; `cpu2=7`."""
    ready = {"realtime": {"cpus": cpus, "problems": []}}
    talk, listen = ({**one, "ready": ready} for one in agents())
    return [talk, {**listen, "cores": {name.removeprefix("cpu"): rows for name, rows in cores.items()}}]


CPUS: list[Case] = [
    (
        "rt-throttled",
        "suspect",
        on_ecu(
            {"scheduler": {"fair_servers": {"1": {"runtime_ns": 50_000_000, "period_ns": 10**9}}}}
            | {"cpu": {"isolated": [1], "cpus": {"1": {"idle_ns": 0, "iowait_ns": 0}}}},
            {"cpu": {"cpus": {"1": {"idle_ns": 900_000_000, "iowait_ns": 0}}}},
            seconds=11,
            duration_ns=10 * 10**9,
            agents=[{**one, "ready": {"realtime": {"cpus": [1], "priority": 80, "problems": []}}} for one in agents()],
        ),
        "ecu (late: control)",
        "CPU 1 (listen on ecu) was never idle; 50 ms of each 1 s are reserved for ordinary threads",
    ),
    (
        "deep-idle",
        "suspect",
        on_ecu(sleeping(0), sleeping(1_500_000)),
        "ecu",
        "CPU 1: C6, 133 µs to wake from",
    ),
    (
        "cpu-frequency",
        "suspect",
        on_ecu(every_cpu(governor="schedutil", minimum_khz=800_000, maximum_khz=3_400_000)),
        "ecu (late: control)",
        "CPU 1: governor schedutil, 0.8 to 3.4 GHz",
    ),
    (
        "cpu-frequency",
        "suspect",
        on_ecu(every_cpu(governor="performance"), every_cpu(governor="powersave")),
        "ecu",
        "CPU 1: governor performance before, governor powersave after",
    ),
    (
        "siblings-quiet",
        "suspect",
        on_ecu(
            {"cpu": {"cpus": {"1": {"siblings": [1, 3]}, "3": {"idle_ns": 0, "iowait_ns": 0}}}},
            {"cpu": {"cpus": {"3": {"idle_ns": 400_000_000, "iowait_ns": 100_000_000}}}},
        ),
        "ecu (late: control)",
        "CPU 3 busy for 75%",
    ),
    (
        "halt-polling",
        "suspect",
        on_ecu({"machine": {"kvm_halt_poll_ns": 200_000}}, streams=to_guest(), guests=[guest()]),
        "ecu (late: control)",
        "up to 200 µs",
    ),
    (
        "vcpus-apart",
        "suspect",
        on_ecu(merged(ISOLATED, TWO_VCPUS), guests=[guest()]),
        "ecu, CPU 0/KVM, CPU 1/KVM",
        "all on CPU 2",
    ),
    (
        "ptp-cpus",
        "suspect",
        on_ecu(threads(**{"ptp4l.1_ptp4l": thread(cpus=[0, 1], priority=0)})),
        "ecu, ptp4l",
        "an ordinary thread on CPU 1, too",
    ),
    (
        "core-kinds",
        "suspect",
        on_ecu(BIG_LITTLE, agents=on_cpus([0, 1, 2, 3], cpu0=10, cpu1=20, cpu2=90)),
        "listen on ecu",
        "25% of its records on Cortex-A53 (CPUs 0-1), 75% of its records on Cortex-A72 (CPUs 2-3)",
    ),
    (
        "core-kinds",
        "suspect",
        on_ecu(
            merged(BIG_LITTLE, threads(**{"qemu-system-aarch64.1_CPU_0__KVM": thread(cpus=[0, 1, 2, 3], last_cpu=0)})),
            threads(**{"qemu-system-aarch64.1_CPU_0__KVM": thread(cpus=[0, 1, 2, 3], last_cpu=2)}),
            guests=[guest()],
        ),
        "ecu, CPU 0/KVM",
        "it may run on Cortex-A53 (CPUs 0-1) and Cortex-A72 (CPUs 2-3); it was on both",
    ),
    (
        "smaller-core",
        "suspect",
        on_ecu(BIG_LITTLE, agents=on_cpus([1, 2], cpu1=120)),
        "listen on ecu",
        "Cortex-A53 (CPUs 0-1)",
    ),
]
CARDS: list[Case] = [
    (
        "irq-cpus",
        "suspect",
        on_ecu(card(), {"interrupts": {"irqs": {"126": {"cpu_counts": {"1": 9_100, "2": 3}}}}}),
        "ecu.eth0 (late: control)",
        "interrupt 126 came 9000 times on CPU 1",
    ),
    (
        "irq-moved",
        "suspect",
        on_ecu(card(), {"interrupts": {"irqs": {"126": {"affinity": [0, 1, 2, 3]}}}}),
        "ecu.eth0, interrupt 126",
        "CPUs 0-3 afterwards",
    ),
    (
        "irq-moved",
        "suspect",
        on_ecu(card(), card(irqs=[130])),
        "ecu.eth0",
        "130 afterwards",
    ),
    (
        "irqbalance",
        "suspect",
        on_ecu(merged(card(), {"processes": {"irqbalance": True}})),
        "ecu (late: control)",
        "irqbalance runs",
    ),
    (
        "irq-coalescing",
        "suspect",
        on_ecu(
            card(coalescing={"rx_us": 50}, statistics={"rx_packets": 0}),
            {"interfaces": {"eth0": {"statistics": {"rx_packets": 10}}}},
        ),
        "ecu.eth0",
        "interrupts wait for 50 µs",
    ),
    (
        "eee-off",
        "suspect",
        on_ecu(card(energy_efficient_ethernet={"enabled": True, "active": True})),
        "ecu.eth0",
        "in force",
    ),
    (
        "link-up",
        "suspect",
        on_ecu(card(carrier_changes=3), card(carrier_changes=5)),
        "ecu.eth0",
        "it changed 2 times",
    ),
    (
        "card-timestamps",
        "suspect",
        on_ecu(
            card(driver_statistics={"tx_hwtstamp_skipped": 2, "tx_hwtstamp_timeouts": 0, "rx_packets": 7}),
            card(driver_statistics={"tx_hwtstamp_skipped": 9, "tx_hwtstamp_timeouts": 1, "rx_packets": 99}),
        ),
        "ecu.eth0",
        "tx_hwtstamp_skipped 7, tx_hwtstamp_timeouts 1",
    ),
]
MACHINE: list[Case] = [
    (
        "timer-tick",
        "suspect",
        on_ecu({"clock": {"tick_ns": 4_000_000}}, streams=to_guest(period_ns=1_000_000), guests=[guest()]),
        "stream control, ecu",
        "1 ms",
    ),
    (
        "memory-locked",
        "suspect",
        on_ecu(
            {},
            agents=[{**one, "ready": {"realtime": {"cpus": [1], "memory_locked": False}}} for one in agents()],
        ),
        "listen on ecu (late: control)",
        "not locked",
    ),
    (
        "swapping",
        "suspect",
        on_ecu({"memory": {"swapped_in_pages": 10}}, {"memory": {"swapped_in_pages": 17}}),
        "ecu (late: control)",
        "7 pages",
    ),
    (
        "memory-moved",
        "suspect",
        on_ecu(
            {"memory": {"compaction_stalls": 1, "huge_pages_collapsed": 5}},
            {"memory": {"compaction_stalls": 1, "huge_pages_collapsed": 8}},
        ),
        "ecu (late: control)",
        "3 huge pages collapsed from small ones",
    ),
    (
        "guest-memory",
        "suspect",
        replace(
            on_ecu({}, guests=[guest()]),
            facts_before={"vm1": merged(facts(), {"memory": {"total_bytes": 512}})},
            facts_after={"vm1": merged(facts(taken_tai_ns=10**9), {"memory": {"total_bytes": 256}})},
        ),
        "vm1",
        "256 afterwards",
    ),
    (
        "guest-memory",
        "suspect",
        replace(
            on_ecu({}, streams=to_guest(), guests=[guest()]),
            facts_before={"vm1": merged(facts(), {"kernel": {"modules": ["virtio_balloon"]}})},
        ),
        "vm1 (late: control)",
        "virtio_balloon",
    ),
    (
        "clock-source",
        "suspect",
        on_ecu({"clock": {"source": "hpet"}}),
        "ecu",
        "hpet",
    ),
    (
        "clock-source",
        "suspect",
        on_ecu({"clock": {"source": "tsc"}}, {"clock": {"source": "hpet"}}),
        "ecu",
        "hpet afterwards",
    ),
    (
        "clock-slewed",
        "suspect",
        replace(GOOD, clocks={"listener-ecu": clocks(steered_ns=(0, 0, 50_000))}),
        "listener-ecu",
        "it changed by 50 ppm",
    ),
    (
        "kernel-complaints",
        "suspect",
        on_ecu(
            {"kernel": {"complaints": {"soft_lockup": 1, "rcu_stall": 0}}},
            {"kernel": {"complaints": {"soft_lockup": 3, "rcu_stall": 0}}},
        ),
        "ecu",
        "2 soft lockup",
    ),
]
BROKEN: list[Case] = [*CPUS, *CARDS, *MACHINE]
