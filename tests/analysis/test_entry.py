"""How an interrupt came into a guest is found by vector, vCPU and thread, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from latlab.analysis.entry import interrupt_entries
from latlab.analysis.interrupt_way import interval_name
from latlab.analysis.interrupts import ACCEPT, ENTRY, GSI, INJECT, LOST, MSI, SWITCH, TIMER_ENTRY, WAKING
from latlab.analysis.reception import ADVANCE_NS, VmHost, receptions, timer_wakings
from latlab.analysis.way import ONE_CLOCK, TWO_HOSTS
from support.analysis.traces import COUNT, KNOWN, READER, TIMER, Event, listened, trace

VCPU, OTHER_VCPU, VHOST = 500, 501, 600
NIC_IRQ, VECTOR, TIMER_VECTOR = 36, 0x23, 0xEC
UNTOLD = [-1, -1, -1, -1]


def entry(begin: int, vector: int = VECTOR, thread: int = VCPU, vcpu: int = 0, asked: int = MSI) -> list[Event]:
    """An interrupt that vhost asks for on CPU 1: taken 2 later, injected at 10 on CPU 0, the guest entered at 13."""
    what = (0xFEE00000, 0x4000 | vector) if asked == MSI else (11, 1)
    return [
        (begin, 1, asked, VHOST, *what),
        (begin + 2, 1, ACCEPT, VHOST, vector, vcpu),
        (begin + 10, 0, INJECT, thread, vector),
        (begin + 13, 0, ENTRY, thread, vcpu),
    ]


def found(events: list[Event], *at: int, slack: int = 0, irq: int = NIC_IRQ, vcpu: int = 0) -> list[list[int]]:
    n = len(at)
    instants = np.array(at, np.int64)
    slack_ns, irqs, vcpus = (np.full(n, value, np.int64) for value in (slack, irq, vcpu))
    rows: list[list[int]] = interrupt_entries(instants, slack_ns, irqs, vcpus, trace(*events))[0].tolist()
    return rows


def test_an_interrupt_is_followed_from_who_asked_for_it_to_the_guests_entry() -> None:
    events = [*entry(1_000), *entry(2_000)]
    assert found(events, 1_020, 2_020) == [[1_000, 1_002, 1_010, 1_013], [2_000, 2_002, 2_010, 2_013]]
    assert found([*entry(1_000, asked=GSI)], 1_020) == [[1_000, 1_002, 1_010, 1_013]]


def test_another_vector_that_was_injected_later_is_not_it() -> None:
    usual = [event for number in range(5) for event in entry(1_000 * number + 1_000)]
    # The last one's handler begins only after the guest has been left and entered for its timer.
    between = [(5_015, 0, INJECT, VCPU, TIMER_VECTOR), (5_016, 0, ENTRY, VCPU, 0)]
    at = [1_000 * number + 1_020 for number in range(5)]
    assert found([*usual, *between], *at)[-1] == [5_000, 5_002, 5_010, 5_013]


def test_other_vcpus_interrupts_are_not_taken() -> None:
    others = entry(1_005, thread=OTHER_VCPU, vcpu=1)
    assert found([*entry(1_000), *others], 1_030) == [[1_000, 1_002, 1_010, 1_013]]
    assert found([*entry(1_000), *others], 1_030, vcpu=1) == [[1_005, 1_007, 1_015, 1_018]]


def test_two_guests_with_a_vcpu_of_that_number_are_not_told_apart() -> None:
    assert found([*entry(1_000), *entry(1_100, thread=OTHER_VCPU)], 1_120) == [UNTOLD]


def test_a_kvm_that_does_not_number_its_vcpus_is_the_reason() -> None:
    instants = np.array([1_020], np.int64)
    zeros = np.zeros(1, np.int64)
    for vcpu, why in ((None, "no-vcpu-numbers"), (1, "no-vcpu")):
        events = trace((1_000, 0, ENTRY, VCPU, vcpu), (1_050, 0, ENTRY, VCPU, vcpu))
        assert interrupt_entries(instants, zeros, zeros, zeros, events)[1] == [why]


def test_one_injection_is_of_one_interrupt() -> None:
    assert found(entry(1_000), 1_020, 1_500) == [[1_000, 1_002, 1_010, 1_013], UNTOLD]


def test_packets_of_one_batch_have_one_interrupt() -> None:
    way = [1_000, 1_002, 1_010, 1_013]
    assert found(entry(1_000), 1_500, 1_020, 1_020, 1_500) == [UNTOLD, way, way, UNTOLD]


def test_a_guest_that_was_entered_after_its_handler_had_begun_tells_nothing() -> None:
    assert found(entry(1_000), 1_012) == [UNTOLD]
    # To within what the clocks may be off it may have been before.
    assert found(entry(1_000), 1_012, slack=1) == [[1_000, 1_002, 1_010, 1_013]]


def test_what_was_taken_before_the_last_injection_was_that_ones() -> None:
    again = [(1_050, 0, INJECT, VCPU, VECTOR), (1_053, 0, ENTRY, VCPU, 0)]
    assert found([*entry(1_000), *again], 1_020, 1_060)[1] == [-1, -1, 1_050, 1_053]


def test_an_injection_that_kvm_took_back_before_it_entered_was_of_the_same_interrupt() -> None:
    *taken, injected, entered = entry(1_000)
    again = (1_012, 0, INJECT, VCPU, VECTOR)
    assert found([*taken, injected, again, entered], 1_020) == [[1_000, 1_002, 1_012, 1_013]]


def test_another_threads_asking_is_not_taken_for_it() -> None:
    asked, *rest = entry(1_000)
    elsewhere = (1_001, 1, MSI, VHOST + 1, *asked[4:])
    assert found([asked, elsewhere, *rest], 1_020)[0][0] == 1_000
    assert found([elsewhere, *rest], 1_020)[0][0] == -1
    for_another = (1_001, 1, MSI, VHOST, 0xFEE00000, 0x4000 | TIMER_VECTOR)
    assert found([asked, for_another, *rest], 1_020)[0][0] == -1


def test_where_the_vm_hosts_events_were_lost_on_the_way_nothing_is_reported() -> None:
    events = [*entry(1_000), *entry(2_000)]
    gap = [*events[:4], (1_500, 1, LOST, 0, 7), *events[4:]]
    assert found(gap, 1_020, 2_020) == [UNTOLD, [2_000, 2_002, 2_010, 2_013]]
    before = [(900, 1, ENTRY, VCPU, 0), (950, 1, LOST, 0, 7), *entry(1_000)]
    assert found(before, 1_020) == [[1_000, 1_002, 1_010, 1_013]]


def test_where_nothing_is_injected_nothing_is_reported() -> None:
    assert found([event for event in entry(1_000) if event[2] != INJECT], 1_020) == [UNTOLD]
    assert found([], 1_020) == [UNTOLD]


AHEAD, HALF = 7_000, 3


def vm_host(events: list[Event], known: bool = True) -> VmHost:
    def ahead(at_ns: Any) -> Any:
        return np.full(len(at_ns), AHEAD), np.full(len(at_ns), HALF), np.full(len(at_ns), known)

    return VmHost(trace(*events), ahead)


def test_a_packets_way_begins_on_the_vm_host_by_the_guests_clock() -> None:
    packets, events = listened()
    # Each handler begins 20 after the interrupt was asked for.
    host = [event for number in range(COUNT) for event in entry(10_000 + number * 1_000 - 20 - AHEAD)]
    (found,) = receptions(packets, trace(*events), KNOWN, READER, vm_host(host)).values()
    document = found.document()
    assert document["entry"] == {"told": COUNT, "uncertainty_ns": HALF, "interrupted": [], "ran": []}
    chain = document["chain"]
    assert chain["stops"][:5] == ["asked", "accepted", "injected", "entered", "irq"]
    assert chain["clocks"][:5] == [ONE_CLOCK] * 3 + [TWO_HOSTS, ONE_CLOCK]
    typical = next(one for one in chain["groups"] if one["name"] == "typical")
    assert typical["ns"][:4] == [2, 8, 3, 7]
    names = [interval_name(one["from"], one["to"]) for one in document["intervals"][:4]]
    assert names == ["routing", "pending", "entry", "guest's entry code"]


def test_what_was_under_way_before_a_timer_was_due_was_an_earlier_timers() -> None:
    """KVM may set the VM host's timer 5 µs early, and no more."""
    due, irq, run = 20_000, 20_030, 20_040
    guest: list[Event] = [
        (19_000, 0, SWITCH, READER, 0),
        (irq, 0, TIMER_ENTRY, 0, TIMER),
        (irq + 5, 0, WAKING, 0, READER),
        (run, 0, SWITCH, 0, READER),
    ]
    instants = pl.DataFrame(
        {"stream": [1], "sequence": [0], "wake_due_tai_ns": [due], "wake_tai_ns": [run + 5], "counted": [True]},
        schema_overrides={"stream": pl.UInt32, "sequence": pl.UInt64},
    )

    def stages(begin: int) -> tuple[dict[str, Any], list[str]]:
        """Of a timer of the VM host that began so long before the guest's handler."""
        at = irq - begin - AHEAD
        host: list[Event] = [
            (at, 0, TIMER_ENTRY, 0, TIMER),
            (at + 1, 0, WAKING, 0, VCPU),
            (at + 2, 0, SWITCH, 0, VCPU),
            (irq - AHEAD - 18, 0, ACCEPT, VCPU, TIMER_VECTOR, 0),
            (irq - AHEAD - 10, 0, INJECT, VCPU, TIMER_VECTOR),
            (irq - AHEAD - 7, 0, ENTRY, VCPU, 0),
        ]
        (told,) = timer_wakings(instants, trace(*guest), KNOWN, READER, vm_host(host)).values()
        document = told.document()
        return document, [one["from"] for one in document["intervals"]]

    whole, of_whole = stages(20)
    assert (whole["whole"], whole["missing"]) == (1, []) and "host_irq" in of_whole
    cut, of_cut = stages(ADVANCE_NS + 30 + HALF + 1)
    assert [one["id"] for one in cut["missing"]] == ["earlier-timer"]
    assert "host_irq" not in of_cut and "host_run" not in of_cut and "accepted" in of_cut


def test_clocks_that_nothing_compares_tell_nothing_of_it() -> None:
    packets, events = listened(100)
    host = [event for number in range(100) for event in entry(10_000 + number * 1_000 - 20 - AHEAD)]
    (found,) = receptions(packets, trace(*events), KNOWN, READER, vm_host(host, known=False)).values()
    document = found.document()
    assert document["entry"] == {"told": 0, "uncertainty_ns": None, "interrupted": [], "ran": []}
    assert document["chain"]["stops"][0] == "irq"
    assert (document["n"], document["told"]) == (100, 100)
    plain = receptions(packets, trace(*events), KNOWN, READER)[1].document()
    assert "entry" not in plain
    assert plain["intervals"] == document["intervals"]


def test_a_listener_without_packets_has_none() -> None:
    packets, events = listened(10)
    assert receptions(packets.clear(), trace(*events), KNOWN, READER, vm_host(entry(1_000))) == {}
    late = packets.with_columns(rx_soft_tai_ns=pl.lit(None, pl.Int64))
    assert receptions(late, trace(*events), KNOWN, READER, vm_host(entry(1_000))) == {}
