"""What a cell's folder has on record of a stream's clocks and hosts is handed to those who look for anomalies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.analysis.anomalies.context import ClockStep
from latlab.evaluation.records import ptp_offset, stream_records
from latlab.evaluation.run import make_result
from latlab.recordings.cell import RecordedCell, RecordedPort, RecordedStream
from latlab.recordings.ptp_series import PtpSeries
from latlab.recordings.run_folder import RunFolder
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import Noise, Swing, Throttling
from support.results import partial

START = 1_800_000_000_000_000_000
SECOND = 1_000_000_000
STREAM = {"name": "control", "talker": "sensor", "listener": "ecu", "port": "eth0", "start_tai_ns": START}
CELL: dict[str, Any] = {"start_tai_ns": START, "duration_ns": 10 * SECOND, "clocks": [], "streams": [STREAM]}


def port(name: str, offsets: list[int | None], grandmaster: int = 1, **more: Any) -> PtpSeries:
    """A port that reports an offset every half second, by default as a locked slave."""
    about: dict[str, Any] = {
        "port": name,
        "role": "slave",
        "free_running": False,
        "master": None,
        "start_tai_ns": START,
    } | more
    at = [about["start_tai_ns"] + n * SECOND // 2 for n in range(len(offsets))]
    rows = pl.DataFrame(
        {
            "tai_ns": at,
            "offset_ns": pl.Series(offsets, dtype=pl.Int64),
            "state": pl.Series([6 if about["role"] == "master" else 9] * len(at), dtype=pl.UInt8),
            "grandmaster": pl.Series([grandmaster] * len(at), dtype=pl.UInt64),
        }
    )
    return PtpSeries(partial(RecordedPort, about), rows, None, True)


def offsets(*ports: PtpSeries, **cell: Any) -> tuple[str, list[int | None]] | None:
    found = ptp_offset(partial(RecordedCell, CELL | cell), partial(RecordedStream, STREAM), ports)
    return None if found is None else (found.of, found.rows["offset_ns"].to_list())


def test_without_a_slave_ptp_says_nothing() -> None:
    assert offsets() is None
    assert offsets(port("ecu.eth0", [None, None], role="master")) is None
    assert offsets(port("ecu.eth0", [None, None])) is None


def test_a_listener_that_follows_is_ahead_by_its_own_offset() -> None:
    assert offsets(port("ecu.eth0", [5, None, 7], master="sensor.eth0")) == ("ecu.eth0", [5, None, 7])


def test_a_talker_that_follows_is_behind_by_its_offset() -> None:
    found = offsets(port("sensor.eth0", [5, None, -7], master="ecu.eth0"))
    assert found == ("sensor.eth0, with its sign turned", [-5, None, 7])


def test_of_two_that_follow_one_grandmaster_it_is_the_difference_at_the_same_instants() -> None:
    here, there = port("ecu.eth0", [10, 20, 30]), port("sensor.eth0", [1, 5, 3])
    assert offsets(here, there) == ("ecu.eth0 less that at sensor.eth0", [9, 15, 27])
    assert offsets(here, port("sensor.eth0", [1, None, 3])) == ("ecu.eth0 less that at sensor.eth0", [9, 18, 27])
    assert offsets(here, port("sensor.eth0", [1, 3])) == ("ecu.eth0 less that at sensor.eth0", [9, 17, None])
    assert offsets(here, port("sensor.eth0", [1, 5, 3], grandmaster=2)) is None


def test_where_one_follows_the_other_its_own_offset_is_all_there_is() -> None:
    both = (port("ecu.eth0", [10, 20], master="sensor.eth0"), port("sensor.eth1", [1, 5]))
    assert offsets(*both) == ("ecu.eth0", [10, 20])
    both = (port("ecu.eth1", [10, 20]), port("sensor.eth0", [1, 5], master="ecu.eth0"))
    assert offsets(*both) == ("sensor.eth0, with its sign turned", [-1, -5])


def test_a_port_of_another_host_on_the_same_kernel_turns_its_clock_too() -> None:
    shared = [{"from": "gw", "to": "ecu", "source": "one kernel"}]
    assert offsets(port("gw.eth0", [5], master="sensor.eth0")) is None
    assert offsets(port("gw.eth0", [5], master="sensor.eth0"), clocks=shared) == ("gw.eth0", [5])


def test_readings_are_put_on_the_talkers_time() -> None:
    apart = port("ecu.eth0", [5, 6], start_tai_ns=START - 37 * SECOND)
    found = ptp_offset(partial(RecordedCell, CELL), partial(RecordedStream, STREAM), [apart])
    assert found is not None and found.rows["tai_ns"].to_list() == [START, START + SECOND // 2]


def window(at_s: int, low: int, high: int) -> dict[str, Any]:
    drift = {"drift_lower_ppb": 0.0, "drift_upper_ppb": 0.0}
    return {"reference_tai_ns": START + at_s * SECOND, "lower_ns": low, "upper_ns": high, "span_ns": SECOND} | drift


def edge(here: str, there: str, *windows: dict[str, Any]) -> dict[str, Any]:
    ends = {"from": here, "to": there, "lower_ns": -900, "upper_ns": 900}
    return {**ends, "source": "shared page", "windows": list(windows)}


def test_the_comparison_of_two_hosts_is_by_how_much_the_listener_is_ahead() -> None:
    clocks = [edge("sensor", "ecu", window(1, 100, 300), window(9, 500, 700))]
    found = stream_records(partial(RecordedCell, CELL | {"clocks": clocks}), [], {}, {}, {})["control"]
    assert found.systems is not None and found.cards is None and found.ptp is None and found.hosts == ()
    rows = found.systems.rows
    assert found.systems.of == "shared page"
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    assert (first["lower_ns"], first["upper_ns"]) == (100, 300) and (last["lower_ns"], last["upper_ns"]) == (500, 700)
    assert START <= first["at_tai_ns"] <= last["at_tai_ns"] <= START + 10 * SECOND


@pytest.mark.parametrize("clocks", [[], [{"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0}]])
def test_one_clock_and_clocks_that_nothing_joins_have_no_comparison(clocks: list[dict[str, Any]]) -> None:
    full = [one | {"upper_ns": 0, "windows": []} for one in clocks]
    assert stream_records(partial(RecordedCell, CELL | {"clocks": full}), [], {}, {}, {})["control"].systems is None


def test_readings_of_a_clock_show_its_steps() -> None:
    at = START + np.arange(4) * SECOND
    stepped = pl.DataFrame(
        {"tai_ns": at + np.array([0, 0, 300_000, 300_000]), "monotonic_ns": at - START, "bracket_ns": [900] * 4}
    )
    readings = {"listener-ecu": stepped, "talker-other": stepped}
    (step,) = stream_records(partial(RecordedCell, CELL), [], {}, {}, readings)["control"].steps
    assert step == ClockStep("ecu", START + SECOND, START + 2 * SECOND + 300_000, 300_000)
    steady = stepped.with_columns(tai_ns=at + np.array([0, 900, -900, 0]))
    assert stream_records(partial(RecordedCell, CELL), [], {}, {}, {"listener-ecu": steady})["control"].steps == ()


def test_the_comparison_of_two_cards_is_by_their_ports() -> None:
    clocks = [edge("sensor.eth0", "sensor", window(5, -50, 50)), edge("ecu.eth3", "ecu", window(5, -50, 50))]
    clocks.append(edge("sensor", "ecu", window(5, 900, 1_100)))
    cards = stream_records(partial(RecordedCell, CELL | {"clocks": clocks}), [], {}, {}, {})["control"].cards
    assert cards is not None and cards.of == "shared page"
    middle = (cards.rows["lower_ns"] + cards.rows["upper_ns"]) / 2
    assert middle.to_list() == pytest.approx([1_000] * middle.len(), abs=2)


def result_of(folder: Path) -> dict[str, Any]:
    (cell,) = make_result(RunFolder.open(folder)).document()["cells"]
    block: dict[str, Any] = cell["streams"]["control"]["anomalies"]
    return block


PLAIN = Description(
    seed=5,
    packets=40_000,
    period_ns=1_000_000,
    noise=Noise(2_000),
    clock_bound_ns=60_000,
    least_ns=(8_000, 3_000, 2_000, 3_000, 2_000, 30_000, 3_000, 9_000),
)


def test_the_result_of_a_run_tells_what_ptp_and_our_own_comparison_did_meanwhile(tmp_path: Path) -> None:
    swing = Swing(15 * SECOND, 12 * SECOND, 40_000, "hump", ptp=True, compared=True)
    made = generate(replace(PLAIN, ptp=True, hardware=True, ingredients=(swing,)))
    (episode,) = result_of(write_run(made, tmp_path / "swung"))["clock_swing"]["shown"]
    assert (episode["evidence"]["ptp"], episode["evidence"]["comparison"]) == ("agrees", "agrees")
    assert episode["evidence"]["ptp_offset"]["of"] == "ecu.eth0"
    assert episode["evidence"]["compared"]["by"] == "exchange"
    assert "PTP's record agrees: its offset at ecu.eth0 was " in episode["text"]


def test_the_result_of_a_run_tells_how_kernels_throttle(tmp_path: Path) -> None:
    made = generate(replace(PLAIN, packets=10_000, ingredients=(Throttling(2 * SECOND),)))
    shown = result_of(write_run(made, tmp_path / "throttled"))["throttled"]["shown"]
    assert [one["host"] for one in shown[0]["evidence"]["settings"]] == ["sensor"]
    assert (
        "sensor has sched_rt_runtime_us 950000 of sched_rt_period_us 1000000, and its kernel's log reports"
        in shown[0]["text"]
    )
