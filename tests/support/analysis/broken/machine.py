"""Evidence in which a machine's settings, or what it did meanwhile, break a rule."""

from __future__ import annotations

from dataclasses import replace

from support.analysis.evidence import GOOD, MS, ROW, Case, agents, evidence, facts, launched, step, stream_of, talked

BROKEN: list[Case] = [
    (
        "launches-honoured",
        "untrusted",
        replace(
            evidence(streams=launched(lead_ns=100)),
            facts_before={"sensor": facts() | {"interfaces": {"eth0": {"qdiscs": [{"kind": "fq"}]}}}},
        ),
        "stream control, sensor.eth0",
        "fq",
    ),
    (
        "talker-punctual",
        "suspect",
        evidence([{**ROW, "wake": 1001}] * 10),
        "control.wakeup",
        "max 1.001 µs (sequence 0)",
    ),
    (
        "talker-punctual",
        "suspect",
        evidence([ROW] * 399 + [{**ROW, "wake": 6023}], streams=stream_of(400), agents=agents(talked(400))),
        "control.wakeup",
        "max 6.023 µs (sequence 399)",
    ),
    (
        "talker-punctual",
        "suspect",
        evidence([{**ROW, "wake": 1500}] * 400, streams=stream_of(400), agents=agents(talked(400))),
        "control.wakeup",
        "max 1.5 µs (sequence 0), p99 1.5 µs",
    ),
    (
        "queue-drains",
        "suspect",
        evidence([{**ROW, "tx_soft": 1006, "rx_soft": 1100, "rx_user": 1120}] * 10),
        "control.lateness",
        "half of them 1.006 µs or more after their launch (1.006 µs to 1.006 µs), 1.006 periods, although the talker "
        "woke within 5 ns",
    ),
    (
        "rt-settings",
        "suspect",
        evidence(agents=[{**agents()[0], "ready": {"realtime": {"problems": ["no /dev/cpu_dma_latency"]}}}]),
        "talk on sensor",
        "no /dev/cpu_dma_latency",
    ),
    (
        "tuning-in-force",
        "suspect",
        evidence(steps=[step(ok=False, why="failed: Operation not permitted")]),
        "ecu: give the vCPU SCHED_FIFO 1",
        "failed: Operation not permitted",
    ),
    (
        "tuning-in-force",
        "suspect",
        evidence(rechecks=[step(ok=False, actual="SCHED_OTHER 0")]),
        "ecu: give the vCPU SCHED_FIFO 1",
        "SCHED_OTHER 0 at the end",
    ),
    (
        "rt-throttled",
        "suspect",
        replace(GOOD, facts_after={"ecu": facts(throttled=1, taken_tai_ns=10**9)}),
        "ecu",
        "during the cell",
    ),
    (
        "rt-throttled",
        "suspect",
        replace(
            GOOD,
            facts_before={"ecu": facts(throttled=1)},
            facts_after={"ecu": facts(throttled=1, taken_tai_ns=10**9)},
        ),
        "ecu",
        "since boot",
    ),
    (
        "cpu-stolen",
        "suspect",
        replace(GOOD, facts_after={"ecu": facts(steal_ns=30 * MS, taken_tai_ns=2 * 10**9)}),
        "ecu",
        "1.5%",
    ),
    (
        "preempt-rt",
        "suspect",
        replace(GOOD, facts_before={"sensor": facts(preempt_rt=False), "ecu": facts(preempt_rt=False)}),
        "sensor, ecu",
        "6.12.0-rt",
    ),
    (
        "cpus-isolated",
        "suspect",
        replace(GOOD, facts_before={"sensor": facts(), "ecu": facts(isolated=(2, 3))}),
        "listen on ecu",
        "CPU 1 not isolated",
    ),
]
