"""ptp4l's options for each profile, by ptp4l's names (ptp4l(8); linuxptp's configs/ has the same)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Settings = dict[str, str]
Role = Literal["master", "slave"]

GPTP: Settings = {
    "gmCapable": "1",
    "priority1": "248",
    "priority2": "248",
    "logSyncInterval": "-3",
    "syncReceiptTimeout": "3",
    "neighborPropDelayThresh": "800",
    "min_neighbor_prop_delay": "-20000000",
    "assume_two_step": "1",
    "path_trace_enabled": "1",
    "follow_up_info": "1",
    "transportSpecific": "0x1",
    "ptp_dst_mac": "01:80:C2:00:00:0E",
    "network_transport": "L2",
    "delay_mechanism": "P2P",
}
"""IEEE 802.1AS, as linuxptp's gPTP.cfg has it."""

AUTOMOTIVE: Settings = GPTP | {"BMCA": "noop", "inhibit_announce": "1", "asCapable": "true"}
"""Avnu's automotive profile: the master is known, and there are no Announce messages."""

PROFILES: Mapping[str, Mapping[Role, Settings]] = {
    "automotive": {
        "master": AUTOMOTIVE | {"masterOnly": "1", "inhibit_delay_req": "1"},
        "slave": AUTOMOTIVE
        | {
            "slaveOnly": "1",
            "ignore_source_id": "1",
            "step_threshold": "1",
            "operLogSyncInterval": "0",
            "operLogPdelayReqInterval": "2",
            "msg_interval_request": "1",
            "servo_offset_threshold": "30",
            "servo_num_offset_values": "10",
        },
    },
    "gptp": {"master": GPTP | {"masterOnly": "1"}, "slave": GPTP | {"slaveOnly": "1", "step_threshold": "1"}},
    "default": {
        "master": {"network_transport": "L2", "delay_mechanism": "E2E", "masterOnly": "1"},
        "slave": {"network_transport": "L2", "delay_mechanism": "E2E", "slaveOnly": "1", "step_threshold": "1"},
    },
}
"""Profile → role → settings. What linuxptp 4 calls serverOnly and clientOnly it takes by these names too."""

SOFTWARE_DELAY_NS = "20000000"
"""Software timestamps have the stack's time in them: by 802.1AS's 800 ns no such neighbour is capable of it."""


def settings(profile: str, role: Role, *, software: bool) -> dict[str, str]:
    """ptp4l's options for the profile. software: its timestamps are the kernel's."""
    found = dict(PROFILES[profile][role])
    if software and "neighborPropDelayThresh" in found:
        found["neighborPropDelayThresh"] = SOFTWARE_DELAY_NS
    return found


def longest_sync_interval_ns(profile: str) -> int:
    """The longest interval between two Syncs there may be: as the master begins, or as a slave asks once it is locked.

    What is not said is 2^0 s (linuxptp's config.c).
    """
    told = PROFILES[profile]
    logs = [int(told["master"].get("logSyncInterval", "0"))]
    if told["slave"].get("msg_interval_request") == "1":
        logs.append(int(told["slave"].get("operLogSyncInterval", "0")))
    return round(2.0 ** max(logs) * 10**9)


def transport_specific(profile: str) -> int:
    """The upper half of a message's first byte (1588-2008 13.3.2.1), which management messages have to match."""
    return int(PROFILES[profile]["slave"].get("transportSpecific", "0"), 16)
