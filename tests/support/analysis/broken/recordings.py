"""Evidence in which recordings, counts or bridges break a rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from latlab.recordings.arrow import RecordingGap
from latlab.recordings.recording_findings import Impossible
from support.analysis.evidence import (
    GOOD,
    ROW,
    SILENT,
    Case,
    Seen,
    across_xdp,
    agents,
    evidence,
    launched,
    stream_of,
    talked,
    through,
)

WAITS: dict[str, Any] = {
    "host": "ecu",
    "verb": "timer",
    "probe": "irq",
    "ready": {"trace_problem": None},
    "error": None,
}
TRACES = {
    "host": "ecu",
    "verb": "trace",
    "ready": {},
    "done": {"events": 1000, "lost": 30, "cpus": [], "ring_full": 0, "recorded": 1000},
    "error": None,
}
UNSTAMPED = {name: at for name, at in ROW.items() if name != "rx_soft"}
UNHEARD = {"what": "it is locked down", "where": "tracefs", "remedy": "run as root", "errno": 1}


def waiting(ready: dict[str, Any] | None = None, **done: Any) -> list[dict[str, Any]]:
    """Agents with a timer's among them, that ended so."""
    said = {"events": 100, "overdue": 0, "trace_lost": 0, "ring_full": 0, **done}
    return [*agents(), WAITS | {"done": said} | ({"ready": ready} if ready else {})]


BROKEN: list[Case] = [
    (
        "facts-taken",
        "suspect",
        replace(GOOD, facts_after={"ecu": GOOD.facts_after["ecu"]}),
        "sensor",
        "none in facts-after.json",
    ),
    (
        "cell-ended",
        "untrusted",
        evidence(status="failed", reason={"what": "no traffic left eth0", "where": "sensor", "remedy": ""}),
        "sensor",
        "failed: no traffic left eth0",
    ),
    (
        "cell-ended",
        "untrusted",
        evidence(status="not run", reason={"what": "the lab was killed", "where": "", "remedy": ""}),
        "",
        "not run: the lab was killed",
    ),
    (
        "recordings-whole",
        "untrusted",
        replace(GOOD, findings={"talker-sensor.sent": Seen(complete=False)}),
        "talker-sensor.sent",
        "cut short",
    ),
    (
        "recordings-whole",
        "untrusted",
        replace(GOOD, findings={"talker-sensor.sent": Seen(complete=False, present=False)}),
        "talker-sensor.sent",
        "absent",
    ),
    (
        "recordings-whole",
        "untrusted",
        replace(GOOD, findings={"talker-sensor.sent": Seen(stated=15, gaps=(RecordingGap(2, 6, 5),))}),
        "talker-sensor.sent",
        "batch 2 is damaged: rows 6 to 10 are not in any figure",
    ),
    (
        "recordings-whole",
        "untrusted",
        replace(GOOD, findings={"talker-sensor.sent": Seen(stated=15, gaps=(RecordingGap(3, 11, None),))}),
        "talker-sensor.sent",
        "batch 3 is damaged: rows 11 to 15 are not in any figure",
    ),
    (
        "recordings-whole",
        "untrusted",
        replace(GOOD, findings={"talker-sensor.sent": Seen(gaps=(RecordingGap(3, 11, None),))}),
        "talker-sensor.sent",
        "batch 3 is damaged: all rows from 11 on are not in any figure",
    ),
    (
        "agents-ended",
        "untrusted",
        evidence(agents=[{**agents()[0], "done": None}, agents()[1]]),
        "talk on sensor",
        "none",
    ),
    (
        "agents-ended",
        "untrusted",
        evidence(agents=[agents()[0], {**agents()[1], "error": UNHEARD}]),
        "listen on ecu",
        "tracefs: it is locked down",
    ),
    (
        "timestamps-possible",
        "untrusted",
        replace(
            GOOD, findings={"talker-sensor.sent": Seen(impossible=(Impossible(1, "wake", "before it was due", 2, 7),))}
        ),
        "talker-sensor.sent",
        "2 packets of control, from sequence 7 on: not in any figure",
    ),
    (
        "counts-agree",
        "untrusted",
        replace(GOOD, findings={"listener-ecu.received": Seen(rows=9, stated=10)}),
        "listener-ecu.received",
        "9: 1 row missing",
    ),
    (
        "counts-agree",
        "untrusted",
        replace(GOOD, findings={"listener-ecu.received": Seen(rows=12, stated=10)}),
        "listener-ecu.received",
        "12: 2 rows too many",
    ),
    (
        "counts-agree",
        "untrusted",
        evidence(agents=agents(streams=[{"stream": 1, "received": 9}])),
        "listen on ecu, stream control",
        "9, by the listener",
    ),
    (
        "counts-agree",
        "untrusted",
        evidence([ROW] * 9 + [{**ROW, "send_error": None}], agents=agents(talked(9))),
        "stream control",
        "1 packet arrived that the talker did not hand over",
    ),
    (
        "unstamped-alike",
        "suspect",
        evidence(
            [ROW] * 2000 + [{**UNSTAMPED, "rx_user": 700_120}] * 2,
            streams=stream_of(2002),
            agents=agents(talked(2002)),
        ),
        "stream control",
        "2 of 2 packets without rx_soft are among the 0.1% of all that took the longest",
    ),
    (
        "timestamps-there",
        "suspect",
        evidence([UNSTAMPED] * 10),
        "stream control",
        "none of 10 has it",
    ),
    (
        "ring-full",
        "untrusted",
        evidence(agents=agents(ring_full=3)),
        "listen on ecu",
        "ring_full 3",
    ),
    (
        "counts-agree",
        "untrusted",
        evidence(agents=agents({"streams": [{"stream": 1, "sent": 9, "send_errors": 0}]})),
        "talk on sensor, stream control",
        "9, by the talker",
    ),
    (
        "launches-scheduled",
        "untrusted",
        replace(GOOD, findings={"listener-ecu.received": Seen(launch_mismatched=2)}),
        "listener-ecu.received",
        "2 others",
    ),
    (
        "xdp-carried",
        "untrusted",
        across_xdp("frames redirected 4, passed 8, dropped 0"),
        "bridge xdp on ecu, from sensor",
        "4, and 8 passed",
    ),
    (
        "xdp-carried",
        "untrusted",
        across_xdp("frames redirected 9, passed 0, dropped 0", "sensor", "plc"),
        "bridge xdp on ecu, from sensor, from plc",
        "9, and 0 passed",
    ),
    (
        "xdp-carried-all",
        "suspect",
        across_xdp("frames redirected 9, passed 1, dropped 9"),
        "bridge xdp on ecu, from sensor",
        "9, and 1 passed",
    ),
    (
        "xdp-carried-all",
        "suspect",
        across_xdp("frames redirected 10, passed 10, dropped 0", "sensor", "ecu"),
        "stream from ecu",
        "one end is ecu itself",
    ),
    (
        "timestamps-there",
        "suspect",
        evidence([ROW] * 9 + [{"wake_due": 0, "wake": 5, "rx_soft": 100, "rx_user": 120}]),
        "control.lateness",
        "10.0% (1)",
    ),
    (
        "timestamps-matched",
        "suspect",
        replace(GOOD, findings={"talker-sensor.stamps": Seen(stray=4)}),
        "talker-sensor.stamps",
        "4 unmatched rows",
    ),
    (
        "timestamps-matched",
        "suspect",
        replace(GOOD, findings={"talker-sensor.stamps": Seen(unconverted=4)}),
        "talker-sensor.stamps",
        "4 unusable",
    ),
    (
        "launch-dropped",
        "suspect",
        replace(
            evidence([ROW] * 7 + [SILENT] * 3, streams=launched(lead_ns=11 * 10**9, clock="monotonic")),
            facts_after=through({"kind": "fq", "drops": 5, "horizon_drops": 3}, taken_tai_ns=2 * 10**9),
        ),
        "stream control, sensor.eth0",
        "3 of 10 packets without any, sequences 7 to 9, handed over 11 s ahead to fq (5 dropped, 3 beyond its horizon)",
    ),
    (
        "sends-succeeded",
        "suspect",
        evidence([ROW] * 9 + [{"send_error": 105, "arrival": None}]),
        "stream control",
        "1 of 10",
    ),
    (
        "icmp-rejected",
        "suspect",
        evidence(agents=agents(talk={"streams": [{"stream": 1, "sent": 10, "send_errors": 0, "rejected": 7}]})),
        "stream control",
        "at least 7 packets: Connection refused (111)",
    ),
    (
        "socket-drops",
        "suspect",
        evidence(agents=agents(socket_drops=8)),
        "listen on ecu",
        "socket_drops 8",
    ),
    (
        "vlan-tags-kept",
        "untrusted",
        evidence(agents=agents(streams=[{"stream": 1, "untagged": 9}])),
        "stream control, ecu",
        "9 of 10 arrived without it and count as lost",
    ),
    (
        "vlan-tags-kept",
        "untrusted",
        evidence(
            agents=agents(streams=[{"stream": 1, "untagged": 9}]),
            bridges=[{"kind": "xdp", "host": "board", "guests": ["ecu"], "uplink": "eth1", "detail": ""}],
        ),
        "stream control, ecu",
        "9 of 10 arrived without it and count as lost; the bridge (xdp) has them from board.eth1",
    ),
    (
        "vlan-tags-kept",
        "untrusted",
        evidence(
            agents=[
                *agents(),
                {
                    "host": "ecu",
                    "verb": "pong",
                    "probe": "rr",
                    "done": {"untagged": 3, "answered": 0, "send_errors": 0},
                },
            ]
        ),
        "stream rr.up, ecu",
        "3 arrived without it and count as lost",
    ),
    (
        "packets-refused",
        "suspect",
        evidence(agents=agents(foreign=2, other_run=7)),
        "listen on ecu",
        "2 foreign, 7 other run",
    ),
    (
        "packets-refused",
        "suspect",
        evidence(agents=agents(streams=[{"stream": 1, "out_of_range": 3}])),
        "listen on ecu",
        "3 out of range",
    ),
    (
        "timer-kept-up",
        "suspect",
        evidence(agents=waiting(overdue=7)),
        "timer irq on ecu",
        "7 of 100 instants of irq",
    ),
    (
        "timer-kept-up",
        "suspect",
        evidence(agents=waiting(overdue=7, held_up_ns=12_300_000)),
        "timer irq on ecu",
        "7 of 100 instants of irq, which waited 12.3 ms in all for space in the recording",
    ),
    (
        "timer-interrupts",
        "suspect",
        evidence(agents=waiting(trace_lost=2, overdue=10)),
        "timer irq on ecu",
        "2 of 90 of irq not",
    ),
    (
        "timer-interrupts",
        "suspect",
        evidence(agents=waiting({"trace_problem": UNHEARD}, trace_lost=None)),
        "timer irq on ecu",
        "of none: tracefs: it is locked down (run as root)",
    ),
    (
        "trace-whole",
        "suspect",
        evidence(agents=[*agents(), TRACES]),
        "trace on ecu",
        "30 of 1030 events lost",
    ),
]
