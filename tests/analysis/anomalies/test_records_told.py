"""What is on record next to the packets stands in the evidence, in figures that an engineer can look up."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.analysis.anomalies.context import RECEIVING, SENDING, HostRecord, Throttle, host_records
from latlab.model.timestamps import APPLICATION, PATH, TALKER
from latlab.recordings.cell import RecordedCell, RecordedStream
from latlab.synthetic.description import Stall, Step, Swing, Throttling
from support.analysis.anomalies import SECOND, episodes, found, only, stream
from support.results import partial

LONG = 60_000
SWING = Swing(20 * SECOND, 20 * SECOND, 50_000, "hump", ptp=True)
USUAL = Throttle.of_bandwidth(950_000, 1_000_000)


def facts(**scheduler: Any) -> dict[str, Any]:
    known = {"rt_runtime_us": 950_000, "rt_period_us": 1_000_000, "rt_throttled_count": 0, "fair_servers": {}}
    return {"scheduler": known | scheduler, "cpu": {"steal_ns": 0}}


def records(before: dict[str, Any], after: dict[str, Any], **guests: str) -> tuple[HostRecord, ...]:
    cell = {"guests": [{"name": name, "host": host} for name, host in guests.items()]}
    ends = partial(RecordedStream, {"talker": "sensor", "listener": "vm1"})
    return host_records(partial(RecordedCell, cell), ends, before, after)


def test_ptps_own_offset_stands_in_the_evidence_of_a_swing() -> None:
    synthetic = stream(SWING, packets=LONG, ptp=True)
    evidence = only(found(synthetic, ptp_of="ecu.eth0")).evidence
    assert synthetic.ptp is not None
    inside = synthetic.ptp.filter(pl.col("offset_ns") > 20_000)["offset_ns"]
    offset = evidence["ptp_offset"]
    assert (offset["of"], offset["states"]) == ("ecu.eth0", {"SLAVE": offset["readings"]})
    assert offset["max_ns"] == inside.max() == pytest.approx(50_000, abs=300)
    assert abs(offset["usual_ns"]) < 100 and offset["correlation"] > 0.99
    assert json.loads(json.dumps(evidence)) == evidence


@pytest.mark.parametrize(("ptp", "said"), [(True, "agrees"), (False, "does not show it")])
def test_the_sentence_has_the_figures_of_ptps_record(ptp: bool, said: str) -> None:
    swing = Swing(20 * SECOND, 20 * SECOND, 50_000, "hump", ptp=ptp)
    text = only(found(stream(swing, packets=LONG, ptp=True), ptp_of="ecu.eth0")).text
    assert f"; PTP's record {said}: its offset at ecu.eth0 was " in text
    assert re.search(r"during that time, [+−]?\d+\.?\d* ns usually \(\d+ readings, correlation -?\d\.\d\d\)", text)


def test_a_port_that_was_no_slave_meanwhile_is_reported() -> None:
    synthetic = stream(SWING, packets=LONG, ptp=True)
    assert synthetic.ptp is not None
    lost = (pl.col("tai_ns") - synthetic.ptp["tai_ns"][0]).is_between(28 * SECOND, 30 * SECOND)
    rows = synthetic.ptp.with_columns(pl.when(lost).then(8).otherwise("state").cast(pl.UInt8).alias("state"))
    episode = only(found(synthetic, ptp=rows))
    assert episode.evidence["ptp_offset"]["states"]["UNCALIBRATED"] == 5
    assert "; its port was UNCALIBRATED in 5)" in episode.text


def test_a_step_says_what_is_on_record_of_it_too() -> None:
    text = only(found(stream(Step(20 * SECOND, 40_000, 9 * SECOND), packets=LONG, ptp=True))).text
    assert "no clock's record shows it; PTP's record does not show it: its offset was " in text


def test_what_the_comparison_took_off_already_is_reported_and_explains_nothing() -> None:
    synthetic = stream(replace(SWING, ptp=False), packets=LONG, clock_bound_ns=40_000)
    at = synthetic.packets["launch_tai_ns"][0] + np.arange(0, 60 * SECOND, SECOND // 4)
    ahead = np.arange(len(at)) * 10
    series = pl.DataFrame({"at_tai_ns": at, "lower_ns": ahead - 300, "upper_ns": ahead + 300})
    episode = only(found(synthetic, taken_off=series, clocks_of="shared page"))
    taken = episode.evidence["taken_off"]
    assert (taken["by"], taken["min_ns"] >= 700, taken["max_ns"] <= 1_700) == ("shared page", True, True)
    assert episode.evidence["comparison"] == "allows" and episode.evidence["ptp"] == "no record"
    assert episode.class_ == "unexplained"
    assert "they are known to ± 40 µs (shared page); what latlab's comparison (shared page) measured" in episode.text


def test_a_comparison_of_cards_that_saw_it_stands_with_its_figures() -> None:
    swing = Swing(20 * SECOND, 20 * SECOND, 50_000, "hump", compared=True)
    episode = only(found(stream(swing, packets=LONG, hardware=True), clocks_of="exchange"))
    assert episode.evidence["comparison"] == "agrees"
    assert episode.evidence["compared"]["max_ns"] == pytest.approx(50_000, abs=100)
    assert re.search(
        r"latlab's comparison of the clocks \(exchange\) shows it, too, .* to \+50 µs ± 500 ns", episode.text
    )


def test_hosts_are_the_ends_and_the_machines_of_their_guests_and_where_each_may_hold_packets() -> None:
    known = {name: facts() for name in ("sensor", "ecu", "vm1", "other")}
    found_ = {one.host: one for one in records(known, known, vm1="ecu")}
    assert {name: one.places for name, one in found_.items()} == {
        "sensor": SENDING, "vm1": RECEIVING, "ecu": RECEIVING,
    }  # fmt: skip
    assert all(one.throttles == (USUAL,) for one in found_.values())


@pytest.mark.parametrize(
    ("before", "after", "said"), [(0, 0, False), (0, 1, True), (1, 1, None), (None, 1, None), (0, None, None)]
)
def test_a_log_that_has_said_so_before_says_nothing_more(before: object, after: object, said: bool | None) -> None:
    one = records({"sensor": facts(rt_throttled_count=before)}, {"sensor": facts(rt_throttled_count=after)})[0]
    assert one.throttled is said


@pytest.mark.parametrize(
    ("scheduler", "rules"),
    [
        ({}, (USUAL,)),
        ({"rt_runtime_us": -1}, ()),
        ({"rt_runtime_us": None}, ()),
        ({"rt_runtime_us": 700_000}, (Throttle.of_bandwidth(700_000, 1_000_000),)),
        (
            {"fair_servers": {"0": {"runtime_ns": 50_000_000, "period_ns": SECOND}, "1": {"runtime_ns": 0}}},
            (Throttle.of_fair_server(50_000_000, SECOND),),
        ),
        ({"fair_servers": {"0": {"runtime_ns": 0, "period_ns": SECOND}}}, ()),
    ],
)
def test_how_a_kernel_throttles_is_read_from_its_facts(scheduler: dict[str, Any], rules: tuple[Throttle, ...]) -> None:
    assert records({"sensor": facts(**scheduler)}, {})[0].throttles == rules


def test_throttling_has_the_kernels_settings_as_evidence() -> None:
    host = HostRecord("sensor", frozenset({TALKER}), (USUAL,), throttled=True)
    episode = episodes(found(stream(Throttling(3 * SECOND, "talker")), hosts=(host,)), "throttled")[0]
    (setting,) = episode.evidence["settings"]
    assert setting["host"] == "sensor" and setting["setting"] == USUAL.setting
    assert episode.evidence["kernel_says_so"]
    assert episode.text.endswith(
        "17 times; sensor has sched_rt_runtime_us 950000 of sched_rt_period_us 1000000, and its kernel's log reports "
        "throttling in that time"
    )


def test_what_a_fair_server_keeps_is_throttling_by_its_own_setting() -> None:
    server = Throttle.of_fair_server(80_000_000, SECOND)
    host = HostRecord("ecu", frozenset({APPLICATION, PATH}), (server,), throttled=False)
    gaps = stream(Throttling(3 * SECOND, "application", gap_ns=80_000_000))
    assert not episodes(found(gaps, rt_throttled=False), "throttled")
    told = episodes(found(gaps, hosts=(host,)), "throttled")
    assert len(told) == 17 and "fair_server runtime 80 ms of 1 s" in told[0].text
    assert "its kernel's log does not report it" in told[0].text


def test_a_host_that_does_not_throttle_explains_no_gap_at_its_places() -> None:
    gaps = stream(Throttling(3 * SECOND, "talker"))
    free = HostRecord("sensor", frozenset({TALKER}), ())
    assert not episodes(found(gaps, hosts=(free,)), "throttled")
    elsewhere = HostRecord("ecu", frozenset({APPLICATION}), ())
    assert len(episodes(found(gaps, hosts=(elsewhere,)), "throttled")) == 17


@pytest.mark.parametrize(("stolen_ns", "said"), [(30_000_000, True), (4_000_000, False), (0, False), (None, False)])
def test_cpu_time_that_was_stolen_is_told_of_a_stall_that_it_may_explain(stolen_ns: int | None, said: bool) -> None:
    host = HostRecord("vm1", frozenset({APPLICATION}), (), stolen_ns=stolen_ns)
    (episode,) = episodes(found(stream(Stall(5 * SECOND, 20_300_000, "application")), hosts=(host,)), "stall")
    assert ("; 30 ms of CPU time were stolen from vm1 in the whole cell" in episode.text) is said
    assert episode.evidence.get("stolen_ns") == ({"vm1": stolen_ns} if stolen_ns else None)
