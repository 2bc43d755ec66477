"""A guest that KVM runs on a board: its listener's packets are followed from the VM host into it, by tracepoints."""

from __future__ import annotations

from board_place import BoardPlace
from latlab_command import cells_of, read

from latlab.analysis.guest_state import GUEST_IDLE, GUEST_KERNEL, GUEST_USER, HYPERVISOR
from latlab.data.recordings import read_recording
from latlab.data.run_folder import RunFolder

PACKETS = 40
PERIOD_MS = 100
"""An emulated machine's guest takes tens of ms for a packet: it is to be asleep when the next one comes."""


def test_the_way_of_an_interrupt_into_a_nested_guest_is_told(place: BoardPlace) -> None:
    path = place.board_scenario(
        guests={
            "vm1": {
                "host": "ecu",
                "uplink": "eth0",
                "bridge": "tap",
                "acceleration": "kvm",
                "vhost": "on",
                "memory": "256MiB",
            }
        },
        streams={"in": {"talker": "sensor", "listener": "vm1", "period": f"{PERIOD_MS}ms", "size": "64B"}},
        tuning={"vm1": {"listener": {"trace": True}}},
        duration=f"{PACKETS * PERIOD_MS}ms",
        warmup="0s",
    )
    before = place.trace()
    ended = place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    assert [agent["done"]["lost"] for agent in cell["agents"] if agent["verb"] in ("trace", "entry")] == [0, 0]
    (found,) = RunFolder.open(folder).cells()
    for verb in ("trace", "entry"):
        assert read_recording(found.recording(verb, "vm1", "trace"), "trace").complete
    (result,) = read(folder / "result.json")["cells"]
    told = result["streams"]["in"]["trace"]
    assert told["n"] == PACKETS
    assert told["told"] > PACKETS / 2
    # The guest's own interrupt of its network card, and how it came into the guest.
    assert sum(one["n"] for one in told["interrupted"]) > PACKETS / 2
    assert told["entry"]["told"] > PACKETS / 2
    came_to = {one["what"]: one["n"] for one in told["entry"]["interrupted"]}
    assert came_to.keys() <= {GUEST_USER, GUEST_KERNEL, GUEST_IDLE, HYPERVISOR}
    assert sum(came_to.values()) > PACKETS / 2
    stops = told["chain"]["stops"]
    assert stops[stops.index("entered") + 1] == "irq"
    assert [stop for stop in ("asked", "accepted", "injected", "entered") if stop in stops] == stops[:4]
    within = {(one["from"], one["to"]): one["min"] for one in told["intervals"]}
    assert within["entered", "irq"] >= -told["entry"]["uncertainty_ns"]
    for one in told["chain"]["worst"]["each"]:
        assert sum(one["ns"]) == one["value_ns"]
    assert all(least >= 0 for ends, least in within.items() if ends != ("entered", "irq"))
