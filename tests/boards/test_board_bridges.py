"""Bridges on a board in virtual time, by the scenario that is shipped: the shortest way, and one through user space.

One of its streams has a VLAN.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.boards.place import BoardPlace
from support.command import cells_of, read

SHIPPED = Path(__file__).parents[2] / "scenarios" / "bridges-board.yaml"
BRIDGES = {
    "xdp": "redirected",
    "ovs-afxdp": "AF_XDP",
}
ISOLATED = "isolcpus=nohz,domain,managed_irq,2-3"
"""No cell makes a snapshot of its own: they start from that of tsn-bridges. The isolated CPUs stay idle."""


@pytest.mark.long
def test_every_packet_passes_every_bridge_both_ways(place: BoardPlace) -> None:
    text, whole = (
        SHIPPED.read_text(),
        "[tap, macvtap, xdp, ovs, ovs-afxdp, vfio, user]\n  loads: [none, load-down]\nrepeat: 4",
    )
    down = "down: {talker: sensor, "
    for was, becomes in (
        ("cpus: 2, nics: 2", f"cpus: 4, append: '{ISOLATED}', nics: 2"),
        (whole, f"[{', '.join(BRIDGES)}]\n  loads: [none]"),
        ("duration: 600ms", "duration: 300ms"),
        (down, f"{down}vlan: 5, "),  # a tag that the card would strip before XDP and AF_XDP see the frame
    ):
        assert was in text
        text = text.replace(was, becomes)
    path = place.folder / "small.yaml"
    path.write_text(text)
    before = place.trace()
    ended = place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    medians: dict[str, list[int]] = {}
    for cell in read(folder / "result.json")["cells"]:
        medians[cell["cell"]["guests.vm1.bridge"]] = [
            stream["metrics"]["latency"]["p50"] for stream in cell["streams"].values()
        ]
        counts = [stream["counts"] for stream in cell["streams"].values()]
        assert all(one["received"] == one["sent"] > 250 for one in counts) and len(counts) == 2
    kept = {
        cell["bridges"][0]["kind"]: [again["actual"] for again in cell["rechecks"] if "VLAN tags" in again["title"]]
        for cell in cells_of(folder).values()
    }
    assert kept == {"xdp": ["off"], "ovs-afxdp": ["off"]}
    details = {cell["bridges"][0]["kind"]: cell["bridges"][0]["detail"] for cell in cells_of(folder).values()}
    assert details.keys() == BRIDGES.keys()
    assert {kind: detail for kind, detail in details.items() if BRIDGES[kind] not in detail} == {}
    for way, longest in enumerate(medians["ovs-afxdp"]):
        # A switch in user space with its system calls, against the kernel's shortest way.
        assert longest > medians["xdp"][way], medians
