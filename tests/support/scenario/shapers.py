"""Shapers as scenarios of tests have them."""

from __future__ import annotations

S = "shapers/sensor.eth0"
GATES = [{"open": [0, 1], "for": "100us"}, {"open": [1], "for": "100us"}]
TAPRIO = {"kind": "taprio", "mode": "software", "map": {"5": 1}, "gates": GATES}
ASSIST = TAPRIO | {"mode": "txtime-assist"}
MQPRIO = {"kind": "mqprio", "map": {"5": 1}}
ETF = {"kind": "etf"}
CBS = {"kind": "cbs", "idle_slope": "20Mbit/s"}
TBF = {"kind": "tbf", "rate": "100Mbit/s"}
TAKES_ALL = ETF | {"skip_sock_check": True}
FOUR = {"links.0.queues": 4}
"""Transmit queues enough for all of these."""
ALONE = {"loads": None}
"""Nothing but the stream."""
LAUNCHED = ALONE | {"streams.control.launch_time": True}
"""Every packet has a launch time."""

ON_BOARD = {
    "hosts": {"board1": {"kind": "board", "nics": 1}, "board2": {"kind": "board", "nics": 1}},
    "links.0": {"ends": ["board1.eth0", "board2.eth0"]},
    "streams.control": {"talker": "board1", "listener": "board2", "period": "1ms", "size": "64B"},
} | ALONE
HANDED_ON = ON_BOARD | {
    "guests": {"vm1": {"host": "board2", "uplink": "eth0", "bridge": "vfio"}},
    "streams.control": {"talker": "board1", "listener": "vm1", "period": "1ms", "size": "64B"},
}
TWO_LOCAL = {
    "hosts": {"sensor": {"kind": "local"}, "ecu": {"kind": "local"}},
    "links.0.ends": ["sensor.eth0", "ecu.eth1"],
    "streams.control.transport": "ethernet",
} | ALONE

EVERYTHING = FOUR | {
    S: ASSIST
    | {
        "rest": 2,
        "queues": [1, 1, 2],
        "gates": [*GATES, {"open": [], "for": "50us"}, {"open": [2, 0], "for": "150us"}],
        "children": {"1": TAKES_ALL | {"delta": "300us"}},
        "shift": "7us",
        "txtime_delay": "1ms",
        "delta": "100us",
        "speed": "1Gbit/s",
    },
    "shapers/ecu.eth0": MQPRIO
    | {"children": {"0": CBS | {"send_slope": -980_000_000, "hi_credit": 31, "speed": "1Gbit/s"}, "1": ETF}},
}
