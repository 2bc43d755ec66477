"""When what is known to make packets late counts against a measurement, and when it does not."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

import pytest

from latlab.analysis.evidence import Evidence, held_up, late_packets
from latlab.analysis.trust import judge
from latlab.model.rules import RULES
from latlab.model.thresholds import Thresholds
from support.analysis.broken import causes as broken_causes
from support.analysis.evidence import (
    LATE,
    ROW,
    Case,
    agents,
    card,
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
from support.analysis.packets import changed

FIRST_CAUSE = next(place for place, rule in enumerate(RULES) if rule.id == "deep-idle")
KNOWN = {rule.id for rule in RULES[FIRST_CAUSE:]} | {"rt-throttled"}
AT_ANY_LATENCY = {
    "deep-idle",
    "core-kinds",
    "smaller-core",
    "vcpus-apart",
    "ptp-cpus",
    "irq-moved",
    "irq-coalescing",
    "eee-off",
    "link-up",
    "card-timestamps",
    "timer-tick",
    "clock-source",
    "clock-slewed",
    "kernel-complaints",
}
"""Rules that count however late packets were; all others look for what held late ones up."""
IN_EMULATION = {
    "link-up",
    "vcpus-apart",
    "irq-moved",
    "guest-memory",
    "clock-source",
    "clock-slewed",
}
"""Rules that are about more than speed."""


def causes(found: Evidence) -> set[str]:
    """The rules about causes that the evidence breaks."""
    return {reason.id for reason in judge(found) if reason.id in KNOWN}


def with_label(found: Evidence, label: str, **cell: Any) -> Evidence:
    return replace(found, cell=changed(found.cell, label=label, **cell))


CASES = {f"{case[0]}: {case[4]}": case for case in broken_causes.BROKEN}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_most_causes_count_only_where_packets_were_late(case: Case) -> None:
    check, _, found, *_ = case
    nobody_late = replace(found, thresholds=Thresholds(late_ns=10**9))
    resized = check == "guest-memory" and "afterwards" in case[4]
    assert (check in causes(nobody_late)) is (check in AT_ANY_LATENCY or resized)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nobody_is_blamed_for_how_fast_an_emulated_machine_is(case: Case) -> None:
    check, _, found, *_ = case
    silent = check not in IN_EMULATION or "balloon" in case[4]
    assert (check in causes(with_label(found, "functional only"))) is not silent
    in_virtual_time = with_label(found, "virtual time", instructions_per_ns=1)
    in_step = check == "timer-tick"
    assert (check in causes(in_virtual_time)) is (in_step or not silent)


def test_a_machine_that_tells_nothing_of_a_cause_is_not_blamed_for_it() -> None:
    assert causes(on_ecu({})) == set()
    assert held_up(on_ecu({})).keys() == {"ecu"}


def side_of(**late: int) -> tuple[str, Set[str]]:
    rows = [ROW] * 9 + [{**ROW, **late}]
    (found,) = late_packets(on_ecu({}, rows=rows, streams=to_guest(), guests=[guest()]))
    return found.side, found.hosts


def test_a_late_packet_is_compared_with_the_machines_on_the_side_where_it_lost_its_time() -> None:
    assert side_of(rx_user=200_120) == ("listener", {"vm1", "ecu"})
    assert side_of(rx_soft=200_100, rx_user=200_120) == ("way", {"sensor", "vm1", "ecu"})
    assert side_of(wake=200_005, tx_soft=200_010, rx_soft=200_100, rx_user=200_120) == ("talker", {"sensor"})


def test_a_side_that_is_always_slow_is_not_where_a_late_packet_lost_its_time() -> None:
    slow_way = {"rx_soft": 900_000, "rx_user": 900_020}
    rows = [{**ROW, **slow_way}] * 9 + [{**ROW, **slow_way, "rx_user": 1_100_020}]
    (found,) = late_packets(on_ecu({}, rows=rows))
    assert (found.side, found.above_ns) == ("listener", 200_000)


def test_a_packet_is_late_from_the_threshold_on() -> None:
    found = on_ecu({})
    assert late_packets(replace(found, thresholds=Thresholds(late_ns=200_000))) == []
    assert len(late_packets(replace(found, thresholds=Thresholds(late_ns=199_999)))) == 1


LAXER: dict[str, tuple[Evidence, Thresholds]] = {
    "deep-idle": (on_ecu(sleeping(0), sleeping(1_500_000)), Thresholds(idle_wakeup_ns=133_000)),
    "siblings-quiet": (broken_causes.CPUS[4][2], Thresholds(sibling_share=0.75)),
    "irq-coalescing": (broken_causes.CARDS[4][2], Thresholds(coalescing_share=500.0)),
    "clock-slewed": (
        next(case[2] for case in broken_causes.MACHINE if case[0] == "clock-slewed"),
        Thresholds(clock_slew_share=51e-6),
    ),
}


@pytest.mark.parametrize("check", LAXER)
def test_the_scenarios_threshold_decides(check: str) -> None:
    found, laxer = LAXER[check]
    assert check in causes(found)
    assert check not in causes(replace(found, thresholds=laxer))


TWO_VCPUS = broken_causes.TWO_VCPUS
SIBLING = {"cpu": {"cpus": {"1": {"siblings": [1, 3]}, "3": {"idle_ns": 0, "iowait_ns": 0}}}}
FAIR = {"scheduler": {"fair_servers": {"1": {"runtime_ns": 50_000_000, "period_ns": 10**9}}}}
FIFO = [{**one, "ready": {"realtime": {"cpus": [1], "priority": 80}}} for one in agents()]
ONE_CPU = [{**one, "ready": {"realtime": {"cpus": [0, 1, 2, 3]}}} for one in agents()]
LONG: dict[str, Any] = {"seconds": 11, "duration_ns": 10 * 10**9, "agents": FIFO}


def cpu_idle(*idle_ns: int) -> list[dict[str, Any]]:
    return [{"cpu": {"isolated": [1], "cpus": {"1": {"idle_ns": one, "iowait_ns": 0}}}} for one in idle_ns]


FINE: dict[str, Evidence] = {
    "a CPU slept only before and after the streams": on_ecu(sleeping(0), sleeping(1_000_000)),
    "a CPU slept lightly": on_ecu(sleeping(0, 20), sleeping(1_500_000, 20)),
    "another CPU slept": on_ecu(
        {"cpu": {"cpus": {"2": sleeping(0)["cpu"]["cpus"]["1"]}}},
        {"cpu": {"cpus": {"2": sleeping(1_500_000)["cpu"]["cpus"]["1"]}}},
    ),
    "the governor has no choice": on_ecu(every_cpu(governor="powersave", minimum_khz=2_000_000, maximum_khz=2_000_000)),
    "frequencies are at their highest": on_ecu(every_cpu(governor="performance", minimum_khz=1, maximum_khz=2)),
    "nobody says how frequencies are chosen": on_ecu(every_cpu(governor=None)),
    "another CPU's frequency changes": on_ecu({"cpu": {"cpus": {"3": {"governor": "schedutil"}}}}),
    "the sibling rests": on_ecu(SIBLING, {"cpu": {"cpus": {"3": {"idle_ns": 1_900_000_000, "iowait_ns": 0}}}}),
    "the thread has no sibling": on_ecu({"cpu": {"cpus": {"1": {"siblings": [1]}}}}),
    "KVM does not poll": on_ecu({"machine": {"kvm_halt_poll_ns": 0}}, streams=to_guest(), guests=[guest()]),
    "KVM has no guest here": on_ecu({"machine": {"kvm_halt_poll_ns": 200_000}}),
    "the guest is emulated": on_ecu(
        {"machine": {"kvm_halt_poll_ns": 200_000}}, streams=to_guest(), guests=[guest(acceleration="tcg")]
    ),
    "a virtual CPU moved": on_ecu(
        merged(broken_causes.ISOLATED, TWO_VCPUS),
        threads(**{"qemu-system-x86.1_CPU_1__KVM": thread(id=12, cpus=[2, 3], last_cpu=3)}),
        guests=[guest()],
    ),
    "virtual CPUs that the scheduler balances": on_ecu(TWO_VCPUS, guests=[guest()]),
    "virtual CPUs of somebody else's guest": on_ecu(
        merged(broken_causes.ISOLATED, TWO_VCPUS), guests=[guest(vcpu_threads={"0": 77, "1": 78})]
    ),
    "PTP is above": on_ecu(threads(**{"ptp4l.1_ptp4l": thread(priority=90)}), agents=FIFO),
    "PTP is elsewhere": on_ecu(threads(**{"ptp4l.1_ptp4l": thread(cpus=[0, 2])}), agents=FIFO),
    "nobody is bound to a CPU": on_ecu(
        merged(threads(**{"ptp4l.1_ptp4l": thread(cpus=[0, 1, 2, 3])}), card()),
        {"interrupts": {"irqs": {"126": {"cpu_counts": {"1": 9_100}}}}},
        agents=ONE_CPU,
    ),
    "interrupts came elsewhere": on_ecu(card(), {"interrupts": {"irqs": {"126": {"cpu_counts": {"1": 100, "2": 9}}}}}),
    "irqbalance has no card to move": on_ecu({"processes": {"irqbalance": True}, "interfaces": {"eth0": {"irqs": []}}}),
    "the link could rest and does not": on_ecu(card(energy_efficient_ethernet={"enabled": True, "active": False})),
    "every timestamp was handed over": on_ecu(card(driver_statistics={"tx_hwtstamp_skipped": 2})),
    "interrupts wait where few packets come in": on_ecu(
        card(coalescing={"rx_us": 50}, statistics={"rx_packets": 0}),
        {"interfaces": {"eth0": {"statistics": {"rx_packets": 9}}}},
    ),
    "nothing was read back": on_ecu({"memory": {"swapped_in_pages": 7, "huge_pages_collapsed": 7}}),
    "the kernel complained long ago": on_ecu({"kernel": {"complaints": {"soft_lockup": 3}}}),
    "the log has lost its oldest lines": on_ecu(
        {"kernel": {"complaints": {"soft_lockup": 3}}}, {"kernel": {"complaints": {"soft_lockup": 1}}}
    ),
    "an older agent did not read the log": on_ecu({}, {"kernel": {"complaints": {"soft_lockup": 1}}}),
    "the thread had some rest": on_ecu(
        merged(FAIR, cpu_idle(0)[0]), cpu_idle(5 * 10**9)[0], rows=LATE, **LONG
    ),
    "a thread is bound to the smaller cores": on_ecu(broken_causes.BIG_LITTLE, agents=broken_causes.on_cpus([0, 1])),
    "a thread stayed on the larger cores": on_ecu(
        broken_causes.BIG_LITTLE, agents=broken_causes.on_cpus([1, 2, 3], cpu2=40, cpu3=80)
    ),
    "all cores are alike": on_ecu(
        {"cpu": {"cpus": {str(cpu): broken_causes.LARGE for cpu in range(4)}}},
        agents=broken_causes.on_cpus([0, 1, 2, 3], cpu0=10, cpu3=10),
    ),
    "the streams were too short to tell": on_ecu(merged(FAIR, cpu_idle(0)[0]), cpu_idle(0)[0], agents=FIFO),
    "no ordinary thread is given anything": on_ecu(
        merged({"scheduler": {"fair_servers": {"1": {"runtime_ns": 0}}}}, cpu_idle(0)[0]), cpu_idle(0)[0], **LONG
    ),
}  # fmt: skip


@pytest.mark.parametrize("found", FINE.values(), ids=FINE)
def test_what_is_in_order_is_no_cause(found: Evidence) -> None:
    assert causes(found) == set()


@pytest.mark.parametrize("name", ["vm1", "board1"])
def test_a_guests_or_a_boards_own_kernel_tells_of_throttling_too(name: str) -> None:
    throttled = {name: facts(throttled=1, taken_tai_ns=2 * 10**9)}
    found = replace(on_ecu({}), facts_before={name: facts()}, facts_after=throttled)
    (reason,) = (reason for reason in judge(found) if reason.id == "rt-throttled")
    assert (reason.where, reason.actual) == (name, "throttled during the cell")


def test_nobody_knows_how_deep_a_cpu_slept_where_the_streams_were_cut_short() -> None:
    for facts_after in (sleeping(0), sleeping(1_500_000)):
        whole = on_ecu(sleeping(0), facts_after)
        cut = replace(whole, cell=changed(whole.cell, status="failed", duration_ns=10**15))
        assert "deep-idle" not in {reason.id for reason in judge(cut)}
    awake = on_ecu({}, {})
    cut = replace(awake, cell=changed(awake.cell, duration_ns=10**15))
    assert "deep-idle" not in {reason.id for reason in judge(cut)}
