"""How a thread was woken is found by its softirq and by the interrupt that raised it, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.analysis.interrupt_way import breakdown, interrupted, packets_passage, timers_passage
from latlab.analysis.interrupts import (
    AWAKE,
    EVENTS_LOST,
    IRQ_ENTRY,
    IRQ_EXIT,
    LOST,
    NO_WAKING,
    SOFTIRQ_ENTRY,
    SOFTIRQ_EXIT,
    SOFTIRQ_RAISE,
    SWITCH,
    TIMER_ENTRY,
    TIMER_EXIT,
    WAKING,
    wakings,
)
from support.analysis.traces import (
    HOG,
    KTHREAD,
    NET_RX,
    NIC,
    READER,
    SENDER,
    TIMER,
    VCPU_THREAD,
    Event,
    received,
    tasks,
    trace,
)


def packets(*stamps: tuple[int, int]) -> pl.DataFrame:
    """Packets by the kernel's stamp and the program's."""
    return pl.DataFrame(stamps, schema=["rx_soft_tai_ns", "rx_user_tai_ns"], orient="row")


def ways(found: Any) -> list[dict[str, int]]:
    """Of each packet the stops it is known to have passed, and when."""
    return [
        {stop: int(at) for stop, at, known in zip(found.stops, row, passed, strict=True) if known}
        for row, passed in zip(found.at_ns, found.passed, strict=True)
    ]


def test_a_packet_by_a_card_has_all_stops_and_they_add_up() -> None:
    found, told = packets_passage(packets((1_020, 1_047)), trace(*received(1_000, ran=HOG)), READER)
    way = {"irq": 1_000, "softirq": 1_010, "rx_soft": 1_020, "waking": 1_030, "run": 1_040, "rx_user": 1_047}
    assert ways(found) == [way]
    assert found.interval_ns.tolist() == [[10, 10, 0, 10, 10, 7]]
    assert found.whole_ns.tolist() == [47]
    one = told.row(0, named=True)
    assert (one["irq"], one["softirq"], one["interrupted"], one["raised_by"], one["before"]) == (
        NIC,
        NET_RX,
        HOG,
        HOG,
        HOG,
    )
    assert (one["waking_cpu"], one["run_cpu"], one["shared"], one["why"]) == (0, 0, 0, None)


def test_who_reads_on_another_cpu_is_found_there() -> None:
    found, told = packets_passage(packets((1_020, 1_047)), trace(*received(1_000, run_cpu=1)), READER)
    assert "run" in ways(found)[0]
    assert told.select("waking_cpu", "run_cpu").row(0) == (0, 1)


def test_what_a_program_of_this_host_sends_waits_in_a_backlog_and_no_interrupt_brought_it() -> None:
    # veth: the kernel stamps the packet in the sender's call, and asks for a softirq there.
    sent = trace(
        (1_000, 1, SOFTIRQ_RAISE, SENDER, NET_RX),
        (1_005, 1, SOFTIRQ_ENTRY, SENDER, NET_RX),
        (1_020, 1, WAKING, SENDER, READER),
        (1_025, 1, SOFTIRQ_EXIT, SENDER, NET_RX),
        (1_050, 0, SWITCH, 0, READER),
    )
    found, told = packets_passage(packets((999, 1_060)), sent, READER)
    assert ways(found) == [{"rx_soft": 999, "backlog": 1_005, "waking": 1_020, "run": 1_050, "rx_user": 1_060}]
    assert told.select("irq_tai_ns", "interrupted", "raised_by").row(0) == (None, None, SENDER)


def test_an_interrupt_that_had_returned_asked_for_nothing() -> None:
    events = received(1_000)
    events.insert(0, (900, 0, IRQ_ENTRY, 0, 40))
    events.insert(1, (905, 0, IRQ_EXIT, 0, 40))
    del events[2]  # the card's own, which was not recorded
    found, _ = packets_passage(packets((1_020, 1_047)), trace(*events), READER)
    assert "irq" not in ways(found)[0]
    assert "softirq" in ways(found)[0]


def test_a_softirq_that_had_ended_woke_nobody() -> None:
    events = [event for event in received(1_000) if event[2] != WAKING]
    events.insert(-1, (1_037, 0, WAKING, SENDER, READER))
    found, told = packets_passage(packets((1_020, 1_047)), trace(*events), READER)
    assert ways(found) == [{"rx_soft": 1_020, "waking": 1_037, "run": 1_040, "rx_user": 1_047}]
    assert told["softirq"].item() is None


def test_the_interrupt_is_the_one_that_asked_first() -> None:
    # The card's second interrupt comes while the softirq is asked for already, and asks again.
    second = [(1_007, 0, IRQ_ENTRY, 0, 41), (1_008, 0, SOFTIRQ_RAISE, 0, NET_RX), (1_009, 0, IRQ_EXIT, 0, 41)]
    events = received(1_000)
    told = wakings(waits((1_020, 1_047)), trace(*events[:3], *second, *events[3:]), READER)
    assert told["irq"].to_list() == [NIC]


def waits(*pairs: tuple[int, int]) -> pl.DataFrame:
    """What the thread waited for."""
    return pl.DataFrame(pairs, schema=["from_tai_ns", "to_tai_ns"], orient="row")


def test_other_cpus_softirqs_and_interrupts_are_not_taken() -> None:
    others = [(1_015, 1, IRQ_ENTRY, 0, 41), (1_016, 1, SOFTIRQ_RAISE, 0, NET_RX), (1_017, 1, SOFTIRQ_ENTRY, 0, NET_RX)]
    told = wakings(waits((1_020, 1_047)), trace(*others, *received(1_000)), READER)
    assert told.select("irq", "irq_tai_ns", "softirq_tai_ns").row(0) == (NIC, 1_000, 1_010)


def test_a_thread_that_was_not_asleep_was_not_woken() -> None:
    found, told = packets_passage(packets((1_020, 1_047), (1_043, 1_055)), trace(*received(1_000)), READER)
    assert told["why"].to_list() == [None, AWAKE]
    assert ways(found)[1] == {"rx_soft": 1_043, "rx_user": 1_055}


@pytest.mark.parametrize(("state", "why"), [(1, NO_WAKING), (2, NO_WAKING), (0, AWAKE), (0x100, AWAKE), (-1, AWAKE)])
def test_a_thread_that_had_gone_to_sleep_was_woken_told_or_not(state: int, why: str) -> None:
    # What it is switched away in: asleep, or it would go on (0x100: it was preempted).
    left: Event = (1_060, 0, SWITCH, READER, HOG, state)
    events = trace(*received(1_000), left)
    told = wakings(waits((1_020, 1_047), (1_080, 1_090)), events, READER)
    assert told["why"].to_list() == [None, why]


def test_a_thread_that_was_woken_before_and_not_seen_to_run_was_awake() -> None:
    events = trace(*received(1_000), (1_060, 0, SWITCH, READER, HOG, 1), (1_070, 1, WAKING, HOG, READER))
    assert wakings(waits((1_080, 1_090)), events, READER)["why"].to_list() == [AWAKE]


@pytest.mark.parametrize("flags", [0x08, 0x10])
def test_a_thread_that_was_interrupted_has_not_asked_itself(flags: int) -> None:
    # The interrupt's handler itself is not told of: it is not among those that were asked for.
    events = [event for event in received(1_000, ran=HOG) if event[2] not in (IRQ_ENTRY, IRQ_EXIT)]
    _, told = packets_passage(packets((1_020, 1_047)), trace(*events, flags=flags), READER)
    assert told.select("softirq_tai_ns", "raised_by", "irq_tai_ns").row(0) == (1_010, None, None)


def test_packets_of_one_waking_share_it() -> None:
    _, told = packets_passage(packets((1_020, 1_047), (1_025, 1_055)), trace(*received(1_000)), READER)
    assert told["waking_tai_ns"].to_list() == [1_030, 1_030]
    assert told["shared"].to_list() == [0, 1]


def test_a_thread_woken_on_its_way_to_sleep_did_not_begin_to_run() -> None:
    events = [event for event in received(1_000) if event[2] != SWITCH]
    found, _ = packets_passage(packets((1_020, 1_047)), trace(*events), READER)
    assert "run" not in ways(found)[0]
    assert found.whole_ns.tolist() == [47]


@pytest.mark.parametrize("cpu", [0, 1])
def test_where_events_of_the_time_were_lost_nothing_is_reported(cpu: int) -> None:
    events = [(500, cpu, SOFTIRQ_ENTRY, 0, 1), (1_035, cpu, LOST, 0, 3), (1_036, cpu, SOFTIRQ_ENTRY, 0, 1)]
    told = wakings(waits((1_020, 1_047), (3_020, 3_047)), trace(*events, *received(2_990 + 10, cpu=cpu)), READER)
    assert told["why"].to_list() == [EVENTS_LOST, None]


def test_events_lost_before_a_packet_came_do_not_make_a_cause() -> None:
    events = received(1_000)
    # Of the CPU that polled, after the interrupt and before the softirq.
    gap: list[Event] = [(1_008, 0, LOST, 0, 3)]
    told = wakings(waits((1_020, 1_047)), trace(*events[:3], *gap, *events[3:]), READER)
    assert told.select("softirq_tai_ns", "raised_by", "irq_tai_ns", "why").row(0) == (1_010, None, None, None)


def test_the_first_events_of_a_cpu_have_no_others_before_them() -> None:
    events = [*received(1_000, cpu=0), *received(5_000, cpu=1)]
    told = wakings(waits((1_020, 1_047), (5_020, 5_047)), trace(*events), READER)
    assert told["irq_tai_ns"].to_list() == [1_000, 5_000]


def test_a_timers_interrupt_wakes_the_thread_itself() -> None:
    events = trace(
        (1_003, 0, TIMER_ENTRY, VCPU_THREAD, TIMER),
        (1_006, 0, WAKING, VCPU_THREAD, READER),
        (1_009, 0, TIMER_EXIT, VCPU_THREAD, TIMER),
        (1_015, 0, SWITCH, VCPU_THREAD, READER),
    )
    instants = pl.DataFrame({"wake_due_tai_ns": [1_000], "wake_tai_ns": [1_021]})
    found, told = timers_passage(instants, events, READER)
    assert ways(found) == [{"wake_due": 1_000, "irq": 1_003, "waking": 1_006, "run": 1_015, "wake": 1_021}]
    assert found.interval_ns.tolist() == [[3, 3, 9, 6]]
    assert told.select("irq", "interrupted", "softirq").row(0) == (TIMER, VCPU_THREAD, None)


def test_without_any_event_nothing_is_known_but_the_ends() -> None:
    found, told = packets_passage(packets((1_020, 1_047)), trace(), READER)
    assert ways(found) == [{"rx_soft": 1_020, "rx_user": 1_047}]
    assert told["why"].to_list() == [AWAKE]
    none, _ = packets_passage(packets().cast(pl.Int64), trace(), READER)
    assert none.interval_ns.shape == (0, 6)


WHOM = {
    "idle": (0, 1, ("idle", None)),
    "a softirq of idle's": (0, 1 | 0x10, ("softirq", None)),
    "a program": (HOG, 1, ("thread", "hog")),
    "the kernel's own": (KTHREAD, 1, ("kernel thread", "ksoftirqd/0")),
    "a vCPU": (VCPU_THREAD, 1, ("vCPU", "CPU 0/KVM")),
    "one that was gone": (999, 1, ("unknown", None)),
}


@pytest.mark.parametrize(("ran", "flags", "expected"), WHOM.values(), ids=WHOM)
def test_what_was_interrupted_is_named(ran: int, flags: int, expected: tuple[str, str | None]) -> None:
    _, told = packets_passage(packets((1_020, 1_047)), trace(*received(1_000, ran=ran), flags=flags), READER)
    known = tasks((HOG, "hog", False), (KTHREAD, "ksoftirqd/0", True), (VCPU_THREAD, "CPU 0/KVM", False))
    assert interrupted(told, known, vcpus=(VCPU_THREAD,)).row(0) == expected


def test_the_document_counts_all_and_its_intervals_are_of_those_that_have_them() -> None:
    events = [*received(1_000, ran=HOG), *received(2_000), *received(3_000)]
    asked = packets((1_020, 1_047), (2_020, 2_048), (3_020, 3_049), (3_043, 3_060))
    document = breakdown(*packets_passage(asked, trace(*events), READER), tasks((HOG, "hog", False))).document()
    assert {name: document[name] for name in ("n", "told", "awake", "untold", "shared")} == {
        "n": 4,
        "told": 3,
        "awake": 1,
        "untold": 0,
        "shared": 0,
    }
    named = {(one["from"], one["to"]): (one["name"], one["n"], one["min"], one["max"]) for one in document["intervals"]}
    assert named["irq", "softirq"] == ("handler", 3, 10, 10)
    assert named["run", "rx_user"] == ("return", 3, 7, 9)
    assert named["rx_soft", "rx_user"] == ("delivery", 1, 17, 17)
    assert document["interrupted"] == [
        {"what": "idle", "comm": None, "n": 2},
        {"what": "thread", "comm": "hog", "n": 1},
    ]


def test_intervals_of_random_traces_add_up_and_none_is_below_zero() -> None:
    generator = np.random.default_rng(7)
    for _ in range(50):
        found = packets_passage(*_random(generator), READER)[0]
        assert (found.interval_ns >= 0).all()
        assert (found.interval_ns.sum(axis=1) == found.whole_ns).all()
        first = np.argmax(found.passed, axis=1)
        starts = found.at_ns[np.arange(len(first)), first]
        assert (found.at_ns[:, -1] - starts == found.whole_ns).all()


def _random(generator: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    kinds: Sequence[tuple[int, int]] = [
        (IRQ_ENTRY, NIC),
        (IRQ_EXIT, NIC),
        (SOFTIRQ_RAISE, NET_RX),
        (SOFTIRQ_ENTRY, NET_RX),
        (SOFTIRQ_EXIT, NET_RX),
        (WAKING, READER),
        (SWITCH, READER),
        (LOST, 1),
    ]
    at = np.sort(generator.integers(0, 10_000, 400)).tolist()
    rows: list[Event] = []
    for instant in at:
        event, subject = kinds[int(generator.integers(0, len(kinds) - (generator.random() < 0.98)))]
        rows.append((instant, int(generator.integers(0, 2)), event, 0, subject))
    stamps = np.sort(generator.integers(0, 10_000, (100, 2)), axis=1)
    return packets(*((int(a), int(b)) for a, b in stamps)), trace(*rows)
