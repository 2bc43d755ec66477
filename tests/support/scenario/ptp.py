"""Scenarios with PTP, as changes of the base scenario."""

from __future__ import annotations

from typing import Any

ROLES = {"sensor.eth0": "master", "ecu.eth0": "slave"}
PTP = {"ports": ROLES}
P = "clock.ptp"


def cables(kind: str, cables: int = 1) -> dict[str, Any]:
    """Two machines of a kind, that many cables between them, and no load."""
    nics = {"nics": cables} if kind == "board" else {}
    return {
        "hosts": {name: {"kind": kind} | nics for name in ("board1", "board2")},
        "links": [{"ends": [f"board1.eth{n}", f"board2.eth{n}"]} for n in range(cables)],
        "streams.control": {
            "talker": "board1", "listener": "board2", "via": "board1.eth0", "period": "1ms", "size": "64B"
        },
        "loads": None,
    }  # fmt: skip


CABLE = cables("ssh")
EMULATED = cables("board")
BOTH_WAYS = {"board1.eth0": "master", "board2.eth0": "slave", "board2.eth1": "master", "board1.eth1": "slave"}
TWO_SLAVES = {"board2.eth0": "slave", "board2.eth1": "slave"}
GATES = {"kind": "taprio", "mode": "software", "map": {"5": 1}, "gates": [{"open": [0], "for": "1ms"}]}
