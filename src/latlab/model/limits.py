"""What the agent takes at most: a scenario is refused before a run where an agent would refuse its spec."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIMITS_FILE: Final = Path(__file__).with_name("limits.json")
"""Each limit, as `latlab-agent schema` prints them; `make reference` writes it."""


@dataclass(frozen=True)
class AgentLimits:
    """Sizes are bytes, durations ns.

    batch: packets handed over in one call. dds_message_bytes: what Cyclone sends in one datagram; dds_datagram_bytes: a
    larger sample goes in several. distinct_bytes: the least of a payload by which packets are distinguished.
    filter_bytes: of a frame, as far as a filter sees it; filter_instructions: of classic BPF. flow_tests: comparisons
    of a packet. goose_prefix_bytes: of what stands before the probe. remembered_ns: how long a trigger remembers a
    packet of the first point. ring_records: packets in a ring. sample: packets of which one is recorded. samples_bytes:
    of the probe in sampled values. snap: what is kept of a packet; the least has the headers of a UDP datagram over
    IPv6 with two VLAN tags. trigger_ns: durations of a trigger. window_lead_ns: how long before its packet arrived a
    window of kernel events begins.
    """

    batch: int
    dds_bytes: int
    dds_datagram_bytes: int
    dds_domain: int
    dds_message_bytes: int
    distinct_bytes: int
    filter_bytes: int
    filter_instructions: int
    flow_tests: int
    goose_bytes: int
    goose_prefix_bytes: int
    payload_bytes: int
    probe_bytes: int
    prp_trailer_bytes: int
    remembered_ns: int
    ring_records: int
    sample: int
    samples_bytes: int
    snap_least_bytes: int
    snap_most_bytes: int
    snap_usual_bytes: int
    traced_threads: int
    trigger_ns: int
    window_lead_ns: int


LIMITS: Final = AgentLimits(**json.loads(LIMITS_FILE.read_text(encoding="utf-8")))
