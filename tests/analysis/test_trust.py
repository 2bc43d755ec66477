"""A measurement is trusted unless the evidence breaks a rule, and the reason says where and how."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pytest
from tables import cell_document, packet_table

from latlab.analysis.evidence import Evidence
from latlab.analysis.summary import summarise_cell
from latlab.analysis.trust import RULES, judge, verdict

MS = 1_000_000
ROW = {"wake_due": 0, "wake": 5, "tx_soft": 10, "rx_soft": 100, "rx_user": 120}
TAI_OFFSET = 37_000_000_000


@dataclass(frozen=True)
class Seen:
    complete: bool = True
    stray: int = 0
    launch_mismatched: int = 0
    unconverted: int = 0


def clocks(**change: int) -> pl.DataFrame:
    """Two readings a second apart; `real_ns=5` moves the second reading of that clock by 5 ns."""
    first = {"tai_ns": 10**9 + TAI_OFFSET, "real_ns": 10**9, "monotonic_ns": 10**9, "monotonic_raw_ns": 10**9}
    columns = {name: [at, at + 10**9 + change.get(name, 0)] for name, at in first.items()}
    return pl.DataFrame({**columns, "bracket_ns": [change.get("bracket_ns", 50)] * 2})


def facts(preempt_rt: bool = True, isolated: tuple[int, ...] = (1,), **counters: int) -> dict[str, Any]:
    return {
        "kernel": {"preempt_rt": preempt_rt, "release": "6.12.0-rt"},
        "cpu": {"isolated": list(isolated), "steal_ns": counters.get("steal_ns", 0)},
        "scheduler": {"rt_throttled_count": counters.get("throttled", 0), "rt_runtime_us": 950_000},
        "taken_tai_ns": counters.get("taken_tai_ns", 0),
    }


def agents(talk: dict[str, Any] | None = None, **listen: Any) -> list[dict[str, Any]]:
    ready = {"realtime": {"cpus": [1], "problems": []}}
    talked = {"streams": [{"stream": 1, "sent": 10, "send_errors": 0}], "ring_full": 0, **(talk or {})}
    listened = {"streams": [], "ring_full": 0, "socket_drops": 0, **listen}
    return [
        {"host": "sensor", "verb": "talk", "ready": ready, "done": talked, "error": None},
        {"host": "ecu", "verb": "listen", "ready": ready, "done": listened, "error": None},
    ]


def evidence(rows: list[dict[str, Any]] | None = None, **cell: Any) -> Evidence:
    """Evidence that breaks no rule, but for the packets and the keys of cell.json that are given."""
    document = cell_document(**{"agents": agents(), **cell})
    return Evidence(
        cell=document,
        document=summarise_cell(document, packet_table(rows or [ROW] * 10)),
        findings={"talker-sensor.sent": Seen()},
        clocks={"talker-sensor": clocks()},
        facts_before={"sensor": facts(), "ecu": facts()},
        facts_after={"sensor": facts(taken_tai_ns=2 * 10**9), "ecu": facts(taken_tai_ns=2 * 10**9)},
    )


def bounded(*bounds_ns: int | None) -> Evidence:
    """Evidence whose packets have these bounds of the two clocks."""
    packets = packet_table([ROW] * len(bounds_ns)).with_columns(pl.Series("clock_bound_ns", bounds_ns, pl.Int64))
    good = evidence()
    return replace(good, document=summarise_cell(good.cell, packets))


def bound(lower: int, upper: int) -> list[dict[str, Any]]:
    return [{"from": "sensor", "to": "ecu", "source": "exchange", "lower_ns": lower, "upper_ns": upper}]


def launched(lead_ns: int, clock: str = "tai") -> list[dict[str, Any]]:
    stream = cell_document()["streams"][0]
    return [{**stream, "interface": "eth0", "launch_time": {"lead_ns": lead_ns, "clock": clock, "deadline": False}}]


def through(*qdiscs: dict[str, Any], taken_tai_ns: int = 0) -> dict[str, Any]:
    """The facts of a talker whose eth0 has these qdiscs."""
    return {"sensor": facts(taken_tai_ns=taken_tai_ns) | {"interfaces": {"eth0": {"qdiscs": list(qdiscs)}}}}


def across_xdp(counts: str, *talkers: str, **changes: Any) -> Evidence:
    """Ten packets of each talker that arrived at a guest behind an XDP bridge, which counted this."""
    detail = f"eth0 native, tap0 native; {counts}; packets carried by QEMU"
    bridge = {"kind": "xdp", "host": "ecu", "guests": ["vm1"], "detail": detail, **changes}
    (stream,) = cell_document()["streams"]
    streams = [
        {**stream, "name": f"from {talker}", "stream": number, "talker": talker, "listener": "vm1"}
        for number, talker in enumerate(talkers or ("sensor",), start=1)
    ]
    cell = cell_document(streams=streams, bridges=[bridge])
    packets = pl.concat(packet_table([ROW] * 10, stream["stream"]) for stream in streams)
    return Evidence(cell=cell, document=summarise_cell(cell, packets))


def stream_of(count: int) -> list[dict[str, Any]]:
    return [{**cell_document()["streams"][0], "count": count}]


def talked(count: int) -> dict[str, Any]:
    return {"streams": [{"stream": 1, "sent": count, "send_errors": 0}]}


def ptp(**changes: Any) -> Evidence:
    """Evidence with a slave of PTP's, as the result describes it."""
    spell = {"from_ns": 10**9, "to_ns": None, "why": "no Sync was heard"}
    port = {
        "port": "ecu.eth0",
        "role": "slave",
        "limit_ns": 1_000,
        "readings": 8,
        "grandmasters": ["a"],
        "checked": None,
    }
    good = evidence()
    whole = {**port, "unlocked": [], **({"unlocked": [spell]} if changes.pop("lost", False) else {}), **changes}
    return replace(good, document={**good.document, "ptp": [whole]})


def step(**changes: Any) -> dict[str, Any]:
    done = {"host": "ecu", "title": "give the vCPU SCHED_FIFO 1", "command": "chrt -f -p 1 4711"}
    return {**done, "expected": "SCHED_FIFO 1", "actual": "SCHED_FIFO 1", "ok": True, **changes}


SILENT = {"arrival": None, "wake_due": 0, "wake": 5, "submit": 6}
GOOD = evidence(steps=[step()], rechecks=[step()])
EARLY = [{**ROW, "tx_soft": -300, "rx_soft": -200, "rx_user": -150}] * 10

BROKEN: list[tuple[str, str, Evidence, str, str]] = [
    (
        "the cell ran to its end",
        "untrusted",
        evidence(status="failed", reason={"what": "no traffic left eth0", "where": "sensor", "remedy": ""}),
        "sensor",
        "failed: no traffic left eth0",
    ),
    (
        "the cell ran to its end",
        "untrusted",
        evidence(status="not run", reason={"what": "the lab was killed", "where": "", "remedy": ""}),
        "",
        "not run: the lab was killed",
    ),
    (
        "recordings are whole",
        "untrusted",
        replace(GOOD, findings={"talker-sensor.sent": Seen(complete=False)}),
        "talker-sensor.sent",
        "cut short",
    ),
    (
        "no record was dropped",
        "untrusted",
        evidence(agents=agents(ring_full=3)),
        "listen on ecu",
        "ring_full 3",
    ),
    (
        "every packet is accounted for",
        "untrusted",
        evidence(agents=agents({"streams": [{"stream": 1, "sent": 9, "send_errors": 0}]})),
        "talk on sensor, stream control",
        "9, by the talker",
    ),
    (
        "launch times are the schedule's",
        "untrusted",
        replace(GOOD, findings={"listener-ecu.received": Seen(launch_mismatched=2)}),
        "listener-ecu.received",
        "2 others",
    ),
    (
        "launch times are honoured",
        "untrusted",
        replace(
            evidence(streams=launched(lead_ns=100)),
            facts_before={"sensor": facts() | {"interfaces": {"eth0": {"qdiscs": [{"kind": "fq"}]}}}},
        ),
        "stream control, sensor.eth0",
        "fq",
    ),
    (
        "clocks were not stepped",
        "untrusted",
        replace(GOOD, clocks={"talker-sensor": clocks(tai_ns=-2 * MS, real_ns=-2 * MS)}),
        "talker-sensor",
        "-2 ms",
    ),
    (
        "launch times are honoured",
        "untrusted",
        replace(
            evidence(streams=launched(lead_ns=100)),
            facts_before={"sensor": facts() | {"interfaces": {"eth0": {"qdiscs": [{"kind": "fq"}]}}}},
        ),
        "stream control, sensor.eth0",
        "fq",
    ),
    (
        "clocks were not stepped",
        "untrusted",
        replace(GOOD, clocks={"listener-ecu": clocks(tai_ns=37 * 10**9)}),
        "listener-ecu",
        "37 s",
    ),
    (
        "no packet arrived before it left",
        "untrusted",
        evidence(EARLY),
        "control.latency",
        "-200 ns (sequence 0)",
    ),
    ("the clocks' offset is bounded", "untrusted", evidence(clocks=[]), "control.latency", "none"),
    (
        "the clocks' offset is bounded",
        "untrusted",
        bounded(None, *[0] * 9),
        "control.latency",
        "none for 1 of 10 packets, which are in no figure",
    ),
    (
        "the clock bound is small beside the latency",
        "suspect",
        evidence(clocks=bound(-11, 4)),
        "control.latency",
        "± 11 ns",
    ),
    (
        "PTP was locked",
        "suspect",
        ptp(lost=True),
        "ecu.eth0",
        "no Sync was heard: 1 s after the first reading, until the end",
    ),
    (
        "PTP's offset is what our own readings say",
        "suspect",
        ptp(checked={"n": 8, "apart": 2, "outside_max_ns": 3_000}),
        "ecu.eth0",
        "2 of 8 readings are further, 3 µs at most",
    ),
    ("PTP kept its grandmaster", "suspect", ptp(grandmasters=["a", "b"]), "ecu.eth0", "a then b"),
    (
        "the talker is punctual",
        "suspect",
        evidence([{**ROW, "wake": 1001}] * 10),
        "control.wakeup",
        "max 1.001 µs (sequence 0)",
    ),
    (
        "the talker is punctual",
        "suspect",
        evidence([ROW] * 399 + [{**ROW, "wake": 6023}], streams=stream_of(400), agents=agents(talked(400))),
        "control.wakeup",
        "max 6.023 µs (sequence 399)",
    ),
    (
        "the talker is punctual",
        "suspect",
        evidence([{**ROW, "wake": 1500}] * 400, streams=stream_of(400), agents=agents(talked(400))),
        "control.wakeup",
        "max 1.5 µs (sequence 0), p99 1.5 µs",
    ),
    (
        "realtime settings are in force",
        "suspect",
        evidence(agents=[{**agents()[0], "ready": {"realtime": {"problems": ["no /dev/cpu_dma_latency"]}}}]),
        "talk on sensor",
        "no /dev/cpu_dma_latency",
    ),
    (
        "the XDP bridge carried the streams",
        "untrusted",
        across_xdp("frames redirected 4, passed 8, dropped 0"),
        "bridge xdp on ecu, from sensor",
        "4, and 8 passed",
    ),
    (
        "the XDP bridge carried the streams",
        "untrusted",
        across_xdp("frames redirected 9, passed 0, dropped 0", "sensor", "plc"),
        "bridge xdp on ecu, from sensor, from plc",
        "9, and 0 passed",
    ),
    (
        "the XDP bridge carried every packet",
        "suspect",
        across_xdp("frames redirected 9, passed 1, dropped 9"),
        "bridge xdp on ecu, from sensor",
        "9, and 1 passed",
    ),
    (
        "the XDP bridge carried every packet",
        "suspect",
        across_xdp("frames redirected 10, passed 10, dropped 0", "sensor", "ecu"),
        "stream from ecu",
        "ecu itself is at one end",
    ),
    (
        "timestamps are there",
        "suspect",
        evidence([ROW] * 9 + [{"wake_due": 0, "wake": 5, "rx_soft": 100, "rx_user": 120}]),
        "control.lateness",
        "10.0% (1)",
    ),
    (
        "timestamps match their packets",
        "suspect",
        replace(GOOD, findings={"talker-sensor.stamps": Seen(stray=4)}),
        "talker-sensor.stamps",
        "4 stray",
    ),
    (
        "timestamps match their packets",
        "suspect",
        replace(GOOD, findings={"talker-sensor.stamps": Seen(unconverted=4)}),
        "talker-sensor.stamps",
        "4 unusable",
    ),
    (
        "the tuning is in force",
        "suspect",
        evidence(steps=[step(ok=False, why="failed: Operation not permitted")]),
        "ecu: give the vCPU SCHED_FIFO 1",
        "failed: Operation not permitted",
    ),
    (
        "the tuning is in force",
        "suspect",
        evidence(rechecks=[step(ok=False, actual="SCHED_OTHER 0")]),
        "ecu: give the vCPU SCHED_FIFO 1",
        "SCHED_OTHER 0 at the end",
    ),
    (
        "no packet with a launch time vanished",
        "suspect",
        replace(
            evidence([ROW] * 7 + [SILENT] * 3, streams=launched(lead_ns=11 * 10**9, clock="monotonic")),
            facts_after=through({"kind": "fq", "drops": 5, "horizon_drops": 3}, taken_tai_ns=2 * 10**9),
        ),
        "stream control, sensor.eth0",
        "3 of 10 packets without any, sequences 7 to 9, handed over 11 s ahead to fq (5 dropped, 3 beyond its horizon)",
    ),
    (
        "every send succeeded",
        "suspect",
        evidence([ROW] * 9 + [{"send_error": 105, "arrival": None}]),
        "stream control",
        "1 of 10",
    ),
    (
        "the listener's socket kept every packet",
        "suspect",
        evidence(agents=agents(socket_drops=8)),
        "listen on ecu",
        "socket_drops 8",
    ),
    (
        "no packet was refused",
        "suspect",
        evidence(agents=agents(foreign=2, other_run=7)),
        "listen on ecu",
        "2 foreign, 7 other run",
    ),
    (
        "no packet was refused",
        "suspect",
        evidence(agents=agents(streams=[{"stream": 1, "out_of_range": 3}])),
        "listen on ecu",
        "3 out of range",
    ),
    (
        "realtime threads were not throttled",
        "suspect",
        replace(GOOD, facts_after={"ecu": facts(throttled=1, taken_tai_ns=10**9)}),
        "ecu",
        "during the cell",
    ),
    (
        "realtime threads were not throttled",
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
        "no CPU time was stolen",
        "suspect",
        replace(GOOD, facts_after={"ecu": facts(steal_ns=30 * MS, taken_tai_ns=2 * 10**9)}),
        "ecu",
        "1.5%",
    ),
    (
        "the kernel is PREEMPT_RT",
        "suspect",
        replace(GOOD, facts_before={"sensor": facts(preempt_rt=False), "ecu": facts(preempt_rt=False)}),
        "sensor, ecu",
        "6.12.0-rt",
    ),
    (
        "the agents' CPUs are isolated",
        "suspect",
        replace(GOOD, facts_before={"sensor": facts(), "ecu": facts(isolated=(2, 3))}),
        "listen on ecu",
        "CPUs 1 not isolated",
    ),
]


def test_a_measurement_that_breaks_no_rule_is_trusted() -> None:
    assert judge(GOOD) == []
    assert verdict(judge(GOOD)) == "trusted"


@pytest.mark.parametrize(("check", "severity", "found", "where", "actual"), BROKEN)
def test_a_broken_rule_gives_a_reason(check: str, severity: str, found: Evidence, where: str, actual: str) -> None:
    reason = next(reason for reason in judge(found) if reason.check == check)
    assert reason.severity == severity
    assert where in reason.where
    assert actual in reason.actual
    assert reason.expected
    assert reason.remedy


def test_every_rule_has_evidence_here_that_breaks_it() -> None:
    assert {check for check, *_ in BROKEN} == {rule.name for rule in RULES}


def test_the_verdict_is_the_worst_reasons_and_the_worst_comes_first() -> None:
    found = replace(GOOD, facts_before={}, findings={"x": Seen(stray=1), "y": Seen(complete=False)})
    assert [reason.severity for reason in judge(found)] == ["untrusted", "suspect"]
    assert verdict(judge(found)) == "untrusted"
    assert verdict(judge(found)[1:]) == "suspect"


def test_evidence_that_is_not_there_breaks_nothing() -> None:
    cell = cell_document(status="unavailable", agents=[{"host": "ecu", "verb": "listen", "ready": None, "done": None}])
    assert judge(Evidence(cell=cell, document=summarise_cell(cell, None), facts_before={"ecu": {}})) == []


@pytest.mark.parametrize(
    "found",
    [
        across_xdp("frames redirected 10, passed 0, dropped 0"),
        across_xdp("frames redirected 512, passed 700, dropped 3"),
        across_xdp("frames redirected 20, passed 0", "sensor", "plc"),
        across_xdp("no counts"),
        across_xdp("frames redirected 0, passed 10, dropped 0", kind="tap"),
        across_xdp("frames redirected 0, passed 10, dropped 0", guests=["vm2"]),
    ],
    ids=["all of them", "a load's beside them", "two streams", "not counted", "another bridge", "another's guests"],
)
def test_packets_may_all_have_taken_the_xdp_bridge(found: Evidence) -> None:
    assert not [reason for reason in judge(found) if "XDP" in reason.check]


def test_what_an_xdp_bridge_counted_before_a_cell_was_cut_short_is_not_held_against_it() -> None:
    found = across_xdp("frames redirected 0, passed 2, dropped 0")
    cut = replace(found, cell={**found.cell, "status": "interrupted"})
    assert [reason.check for reason in judge(cut) if "XDP" in reason.check] == []
    assert [reason.check for reason in judge(found) if "XDP" in reason.check] == ["the XDP bridge carried the streams"]


def test_in_virtual_time_nobody_is_blamed_for_sharing_the_one_cpu_there_is() -> None:
    shared = replace(GOOD, facts_after={"ecu": facts(steal_ns=30 * MS, taken_tai_ns=2 * 10**9)})
    virtual = replace(shared, cell={**shared.cell, "instructions_per_ns": 1})
    assert "no CPU time was stolen" in [reason.check for reason in judge(shared)]
    assert "no CPU time was stolen" not in [reason.check for reason in judge(virtual)]


def test_the_step_that_ended_a_cell_is_told_once() -> None:
    failed = {"what": "give the vCPU SCHED_FIFO 1: failed", "where": "ecu", "remedy": ""}
    found = judge(evidence(status="failed", reason=failed, steps=[step(ok=False)]))
    assert [reason.check for reason in found] == ["the cell ran to its end"]


def test_a_negative_latency_within_the_clocks_bound_is_no_finding_about_them() -> None:
    found = judge(evidence(EARLY, clocks=bound(-400, 400)))
    assert "no packet arrived before it left" not in [reason.check for reason in found]


def test_a_packet_with_a_launch_time_may_leave_as_early_as_its_lead() -> None:
    def checks(lead_ns: int) -> list[str]:
        return [reason.check for reason in judge(evidence(EARLY, streams=launched(lead_ns)))]

    assert "no packet arrived before it left" not in checks(200)
    assert "no packet arrived before it left" in checks(199)


@pytest.mark.parametrize(
    ("clock", "kind", "kept"),
    [
        ("tai", "etf", True),
        ("tai", "fq", False),
        ("monotonic", "fq", True),
        ("monotonic", "etf", False),
        ("realtime", "etf", False),
        ("realtime", "fq", False),
    ],
)
def test_a_launch_time_is_kept_by_a_qdisc_that_goes_by_its_clock(clock: str, kind: str, kept: bool) -> None:
    found = replace(evidence(streams=launched(100, clock)), facts_before=through({"kind": kind}))
    assert ("launch times are honoured" in [reason.check for reason in judge(found)]) is not kept


@pytest.mark.parametrize(("priority", "kept"), [(6, True), (7, False)])
def test_fq_keeps_no_launch_times_of_its_highest_priority(priority: int, kept: bool) -> None:
    streams = [{**stream, "priority": priority} for stream in launched(100, "monotonic")]
    found = replace(evidence(streams=streams), facts_before=through({"kind": "fq"}))
    assert ("launch times are honoured" in [reason.check for reason in judge(found)]) is not kept


@pytest.mark.parametrize(("port", "kept"), [("eth0", True), ("eth0.5", False)])
def test_launch_times_by_a_vlan_interface_are_kept_by_the_qdiscs_of_its_port(port: str, kept: bool) -> None:
    streams = [{**stream, "interface": "eth0.5", "port": port} for stream in launched(100, "tai")]
    found = replace(evidence(streams=streams), facts_before=through({"kind": "etf"}))
    found.facts_before["sensor"]["interfaces"]["eth0.5"] = {"qdiscs": [{"kind": "noqueue"}]}  # type: ignore[index]
    assert ("launch times are honoured" in [reason.check for reason in judge(found)]) is not kept


def test_a_packet_lost_without_a_launch_time_is_no_finding_about_qdiscs() -> None:
    assert "no packet with a launch time vanished" not in [one.check for one in judge(evidence([ROW, SILENT]))]


def test_a_slow_reading_of_the_clocks_is_no_step() -> None:
    slow = clocks(tai_ns=3 * MS, real_ns=3 * MS, bracket_ns=MS)
    assert judge(replace(GOOD, clocks={"talker-sensor": slow})) == []


def test_a_few_missing_timestamps_are_normal() -> None:
    rows = [ROW] * 1999 + [{"wake_due": 0, "wake": 5, "rx_soft": 100, "rx_user": 120}]
    assert judge(evidence(rows, streams=stream_of(2000), agents=agents(talked(2000)))) == []


def test_a_finding_says_what_was_found_and_no_rule_shares_one() -> None:
    findings = [rule.finding for rule in RULES]
    assert len(set(findings)) == len(findings)
    assert not {rule.finding for rule in RULES} & {rule.name for rule in RULES}
    assert {reason.finding for found in BROKEN for reason in judge(found[2])} == set(findings)
