"""The numbers of tracepoints are those of the page that documents the recordings."""

from __future__ import annotations

import re
from pathlib import Path

from latlab.analysis import interrupt_way, interrupts, way

DOCS = Path(__file__).parents[2] / "docs"
NAMED = {
    "IRQ_ENTRY": "irq:irq_handler_entry",
    "IRQ_EXIT": "irq:irq_handler_exit",
    "TIMER_ENTRY": "irq_vectors:local_timer_entry",
    "TIMER_EXIT": "irq_vectors:local_timer_exit",
    "SOFTIRQ_RAISE": "irq:softirq_raise",
    "SOFTIRQ_ENTRY": "irq:softirq_entry",
    "SOFTIRQ_EXIT": "irq:softirq_exit",
    "WAKING": "sched:sched_waking",
    "SWITCH": "sched:sched_switch",
    "MSI": "kvm:kvm_msi_set_irq",
    "GSI": "kvm:kvm_set_irq",
    "ACCEPT": "kvm:kvm_apic_accept_irq",
    "INJECT": "kvm:kvm_inj_virq",
    "ENTRY": "kvm:kvm_entry",
    "EXIT": "kvm:kvm_exit",
    "PENDING": "kvm:vgic_update_irq_pending",
}


def documented() -> dict[str, int]:
    """Number by tracepoint, as docs/reference/agent.md has them."""
    rows = re.findall(
        r"^\| ([\d, ]+) \| ((?:`\w+:\w+`(?:, )?)+) \|", (DOCS / "reference" / "agent.md").read_text(), re.MULTILINE
    )
    return {
        name: int(number)
        for numbers, names in rows
        for number, name in zip(numbers.split(", "), re.findall(r"`(\w+:\w+)`", names), strict=True)
    }


def test_every_event_that_is_looked_for_has_its_documented_number() -> None:
    assert {name: getattr(interrupts, name) for name in NAMED} == {
        name: documented()[event] for name, event in NAMED.items()
    }


def test_numbers_are_given_once() -> None:
    numbers = sorted(documented().values())
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_stop_and_interval_is_explained() -> None:
    page = (DOCS / "explanation" / "where-the-time-went.md").read_text().split("## From the interrupt to the thread")[1]
    for stop in interrupt_way.GUEST_WAY:
        assert f"| {stop} |" in page
    for pair in interrupt_way.INTERVALS:
        assert interrupt_way.interval_name(*pair) in page


def test_what_happens_between_stops_is_what_the_code_says() -> None:
    lines = (DOCS / "explanation" / "where-the-time-went.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    between = {length: {row[1]: row[2] for row in rows if "→" in row[0] and len(row) == length} for length in (3, 4)}
    for length, happens in ((4, way.HAPPENS), (3, interrupt_way.HAPPENS)):
        assert {name: text for name, text in between[length].items() if name != "name"} == happens
