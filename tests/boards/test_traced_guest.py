"""A guest that KVM runs on a board in virtual time: packets and a timer's instants are followed from the VM host."""

from __future__ import annotations

from typing import Any

from latlab.analysis.entry import GUEST_IDLE, GUEST_KERNEL, GUEST_USER, HYPERVISOR
from latlab.analysis.interrupt_way import REASONS
from latlab.recordings.arrow import read_recording
from latlab.recordings.run_folder import RunFolder
from support.boards.place import BoardPlace
from support.command import cells_of, read

PACKETS = 48
AGENTS = {"trace": "vm1", "waking": "late", "entry": "vm1"}
PERIOD_MS = 20
"""The guest is asleep again when the next packet comes, and at each instant of the timer, half a period later."""
MOST = PACKETS * 3 // 4
"""The interrupt of a timer of the VM host's may serve the guest's, too: that instant has a reason, and no breakdown."""


def test_the_way_of_an_interrupt_into_a_nested_guest_is_reported(place: BoardPlace) -> None:
    path = place.board_scenario(
        # The board of irq-latency-board, with its guests' image: they have one snapshot.
        hosts={
            "board1": {"kind": "board", "time": "virtual", "cpus": 2, "memory": "1536MiB"},
            "sensor": {"kind": "netns", "on": "board1"},
            "ecu": {"kind": "netns", "on": "board1"},
        },
        guests={
            "vm1": {
                "host": "ecu",
                "uplink": "eth0",
                "bridge": "tap",
                "image": "debian-rt",
                "acceleration": "kvm",
                "vhost": "on",
                "memory": "256MiB",
            }
        },
        streams={"in": {"talker": "sensor", "listener": "vm1", "period": f"{PERIOD_MS}ms", "size": "64B"}},
        probes={
            "late": {
                "probe": "timer",
                "on": "vm1",
                "period": f"{PERIOD_MS}ms",
                "offset": f"{PERIOD_MS // 2}ms",
                "trace": "threads",
            }
        },
        # A CPU that polls takes the board's clock from the other.
        tuning={"ecu": {"halt_poll": 0}, "vm1": {"listener": {"trace": True}}},
        duration=f"{PACKETS * PERIOD_MS}ms",
        warmup="0s",
    )
    before = place.trace()
    ended = place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    assert [agent["done"]["lost"] for agent in cell["agents"] if agent["verb"] in AGENTS] == [0] * len(AGENTS)
    (found,) = RunFolder.open(folder).cells()
    for verb, name in AGENTS.items():
        assert read_recording(found.recording(verb, name, "trace"), "trace").complete
    (result,) = read(folder / "result.json")["cells"]
    assert_packets_are_followed(result["streams"]["in"]["trace"])
    assert_instants_are_followed(result["streams"]["late"]["trace"])
    timer = result["streams"]["late"]["timer"]
    assert timer["interrupt"]["n"] == result["streams"]["late"]["metrics"]["interrupt"]["n"] <= timer["n"]


def assert_none_is_silently_missing(told: dict[str, Any]) -> None:
    """Each has its breakdown whole, or a reason; and most have it whole."""
    assert told["whole"] + sum(one["n"] for one in told["missing"]) == told["n"]
    assert all(one["reason"] == REASONS[one["id"]] for one in told["missing"])
    assert told["whole"] >= MOST, told["missing"]
    # What the VM host's own interrupt came to is known wherever that interrupt is.
    assert bool(told["entry"]["ran"]) == any("host_irq" in (one["from"], one["to"]) for one in told["intervals"])


def assert_packets_are_followed(told: dict[str, Any]) -> None:
    """From who asked for their interrupts on."""
    assert_none_is_silently_missing(told)
    assert told["n"] == PACKETS
    assert told["told"] >= MOST
    # The guest's own interrupt of its network card, and how it came into the guest.
    assert sum(one["n"] for one in told["interrupted"]) >= MOST
    assert told["entry"]["told"] >= MOST
    came_to = {one["what"]: one["n"] for one in told["entry"]["interrupted"]}
    assert came_to.keys() <= {GUEST_USER, GUEST_KERNEL, GUEST_IDLE, HYPERVISOR}
    assert sum(came_to.values()) >= MOST
    stops = told["chain"]["stops"]
    assert stops[stops.index("entered") + 1] == "irq"
    # From the softirq of the VM host on in which vhost was woken: the talker is on it, so that no card is.
    way = ("host_softirq", "host_waking", "host_run", "asked", "accepted", "injected", "entered")
    assert tuple(stops[: len(way)]) == way
    within = {(one["from"], one["to"]): one["min"] for one in told["intervals"]}
    assert within["entered", "irq"] >= -told["entry"]["uncertainty_ns"]
    for one in told["chain"]["worst"]["each"]:
        assert sum(one["ns"]) == one["value_ns"]
    assert all(least >= 0 for ends, least in within.items() if ends != ("entered", "irq"))


def assert_instants_are_followed(told: dict[str, Any]) -> None:
    """From KVM's timer on, which no device raises."""
    assert_none_is_silently_missing(told)
    assert told["n"] == PACKETS
    assert told["told"] >= MOST
    assert told["entry"]["told"] >= MOST
    stops = told["chain"]["stops"]
    way = ("wake_due", "host_irq", "host_waking", "host_run", "accepted", "injected", "entered", "irq")
    assert [stop for stop in way if stop in stops] == stops[: stops.index("irq") + 1]
    assert {"wake_due", "accepted", "injected", "entered"} <= set(stops)
    # Where its vCPU had halted, the VM host's timer woke it.
    idle = sum(one["n"] for one in told["entry"]["interrupted"] if one["what"] == GUEST_IDLE)
    ways = {(one["from"], one["to"]): one["n"] for one in told["intervals"]}
    woken = sum(ways.get((last, "accepted"), 0) for last in ("host_waking", "host_run"))
    assert idle < 4 or min(woken, ways.get(("host_irq", "host_waking"), 0)) > 0
    assert stops[-1] == "wake"
    within = {(one["from"], one["to"]): one["min"] for one in told["intervals"]}
    assert within["entered", "irq"] >= -told["entry"]["uncertainty_ns"]
    assert within["accepted", "injected"] >= 0
    assert within["injected", "entered"] >= 0
    for one in told["chain"]["worst"]["each"]:
        assert sum(one["ns"]) == one["value_ns"]
