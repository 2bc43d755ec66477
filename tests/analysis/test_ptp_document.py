"""What is said of a port of PTP's, by what its ptp4l said while streams ran."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from latlab.analysis.clock_checks import ptp_claims_hold, ptp_kept_its_grandmaster, ptp_was_locked
from latlab.analysis.evidence import Broken, Evidence
from latlab.analysis.ptp import INTERVALS, MASTER, SLAVE, SYNC_INTERVAL_NS, UNCALIBRATED, ptp_port
from latlab.recordings.cell import RecordedPort
from latlab.result.types import PtpPort
from support.analysis.packets import recorded_cell
from support.results import partial

LISTENING = 4
SECOND = 10**9
PORT: dict[str, Any] = {
    "port": "ecu.eth0",
    "role": "slave",
    "profile": "automotive",
    "timestamps": "hardware",
    "clock": "/dev/ptp0",
    "free_running": False,
    "limit_ns": 1_000,
    "master": "sensor.eth0",
    "sync_interval_ns": SECOND,
}
OBSERVED: dict[str, Any] = {"role": "observed", "profile": None, "sync_interval_ns": None, "master": None}
AHEAD_NS = 37 * SECOND
"""How far the clock that PTP turns is from what the readings' own counts."""
ROW: dict[str, Any] = {
    "answered": True,
    "state": SLAVE,
    "offset_ns": 5,
    "path_delay_ns": 34,
    "grandmaster": 0x525400FFFE000001,
    "steps_removed": 1,
    "frequency_ppt": -20_000_000,
}
SILENT = dict.fromkeys(ROW) | {"answered": False, "state": 0, "ingress_ns": None}
SCHEMA = {
    "tai_ns": pl.Int64,
    "monotonic_ns": pl.Int64,
    "ingress_ns": pl.Int64,
    "answered": pl.Boolean,
    "state": pl.UInt8,
    "offset_ns": pl.Int64,
    "path_delay_ns": pl.Int64,
    "grandmaster": pl.UInt64,
    "steps_removed": pl.UInt16,
    "frequency_ppt": pl.Int64,
    "our_offset_ns": pl.Int64,
    "our_half_ns": pl.Int64,
}


def series(*changes: dict[str, Any], ours: bool = False) -> pl.DataFrame:
    """A reading each second, each with a new Sync unless its change says otherwise."""
    rows = [
        {"tai_ns": n * SECOND + AHEAD_NS, "monotonic_ns": n * SECOND, "ingress_ns": n, **ROW, **change}
        for n, change in enumerate(changes)
    ]
    names = list(SCHEMA) if ours else list(SCHEMA)[:-2]
    return pl.DataFrame(rows, schema={name: SCHEMA[name] for name in names})


def described(port: dict[str, Any], *recorded: Any) -> dict[str, Any]:
    return ptp_port(partial(RecordedPort, port), *recorded).document()


def unlocked(*changes: dict[str, Any], **port: Any) -> list[tuple[float, float | None, str]]:
    spells = described(PORT | port, series(*changes))["unlocked"]
    return [
        (one["from_ns"] / SECOND, None if one["to_ns"] is None else one["to_ns"] / SECOND, one["why"]) for one in spells
    ]


def broken(check: Any, *documents: dict[str, Any]) -> list[Broken]:
    return list(check(Evidence(recorded_cell(), ptp=[partial(PtpPort, one) for one in documents])))


def test_a_locked_slave_is_described_by_its_offsets() -> None:
    found = described(PORT, series({"offset_ns": -10}, {"offset_ns": 0}, {"offset_ns": 40}))
    assert (found["readings"], found["unanswered"], found["states"]) == (3, 0, {"SLAVE": 3})
    assert found["grandmasters"] == ["525400.fffe.000001"]
    assert found["offset_ns"] == pytest.approx(
        {"n": 3, "min": -10, "p50": 0, "mean": 10, "max": 40, "stddev": 21.602469}
    )
    assert found["frequency_ppb"]["p50"] == pytest.approx(-20_000)
    assert (found["unlocked"], found["checked"]) == ([], None)
    assert broken(ptp_was_locked, found) == []


def test_a_spell_lasts_until_the_first_reading_that_is_locked_again() -> None:
    lost = {"state": LISTENING, "offset_ns": None}
    assert unlocked({}, lost, lost, {}, {}) == [(1, 3, "its port was LISTENING")]
    assert unlocked({}, lost) == [(1, None, "its port was LISTENING")]
    assert unlocked({}, lost, SILENT, {}) == [
        (1, 2, "its port was LISTENING"),
        (2, 3, "ptp4l did not answer"),
    ]


def test_an_offset_at_the_limit_is_within_it() -> None:
    assert unlocked({"offset_ns": 1_000}, {"offset_ns": -1_000}) == []
    assert unlocked({"offset_ns": 1_001}, {"offset_ns": -1_001}, {}) == [(0, 2, "the offset was beyond its limit")]


def test_an_offset_that_is_not_known_is_not_told_as_one_that_is_too_far() -> None:
    assert unlocked({}, {"offset_ns": None}, {}) == [(1, 2, "the offset was unknown")]


def syncs(*after_s: float) -> list[dict[str, Any]]:
    """Readings four times a second, from the first Sync on until the last; each Sync so long after the one before."""
    came = [0.0]
    for after in after_s:
        came.append(came[-1] + after)
    found = []
    for quarter in range(int(came[-1] * 4) + 1):
        last = max(one for one in came if one <= quarter / 4)
        found.append({"monotonic_ns": quarter * SECOND // 4, "ingress_ns": round(last * SECOND)})
    return found


def test_a_slave_whose_master_is_silent_keeps_its_state_and_is_not_locked() -> None:
    allowed = INTERVALS * SYNC_INTERVAL_NS / SECOND
    silence = syncs(1, 1, 8)
    assert unlocked(*silence) == [(2 + allowed + 0.25, 10, "no Sync was received")]
    # Of a profile with more Syncs they are missed sooner, but not before it was asked four times.
    assert unlocked(*silence, sync_interval_ns=SECOND // 8) == [
        (3.25, 10, "no Sync was received"),
    ]
    assert unlocked(*silence, sync_interval_ns=2 * SECOND) == [(8.25, 10, "no Sync was received")]


def test_one_that_asks_for_fewer_syncs_once_it_is_locked_misses_none() -> None:
    assert unlocked(*syncs(*[0.25] * 40, *[1.0] * 8)) == []
    assert unlocked(*syncs(*[0.25] * 40, *[1.0] * 8, 4)) == [(21.25, 22, "no Sync was received")]


def test_of_one_that_somebody_else_started_the_intervals_that_were_seen_count_if_they_are_longer() -> None:
    assert unlocked(*syncs(*[2.0] * 9, 5), **OBSERVED) == []
    assert unlocked(*syncs(*[2.0] * 9, 7), **OBSERVED) == [(24.25, 25, "no Sync was received")]
    assert unlocked(*syncs(*[0.25] * 9, 4), **OBSERVED) == [(5.5, 6.25, "no Sync was received")]


def test_how_long_something_lasted_does_not_count_by_the_clock_that_is_stepped() -> None:
    stepped = [one | {"tai_ns": n * 10 * SECOND} for n, one in enumerate(syncs(1, 1, 1))]
    assert unlocked(*stepped) == []
    lost = {"state": LISTENING, "offset_ns": None, "tai_ns": 0}
    assert unlocked({}, lost, {}) == [(1, 2, "its port was LISTENING")]


def test_the_time_since_the_last_sync_counts_from_before_the_streams_and_through_silence() -> None:
    silence = [{"ingress_ns": 7}] * 4 + [SILENT] + [{"ingress_ns": 7}] * 2
    recorded = series(*silence)
    first, last = recorded["tai_ns"][2], recorded["tai_ns"][6]
    found = described(PORT, recorded, (first, last))
    assert found["readings"] == 5
    assert [(one["from_ns"] // SECOND, one["why"]) for one in found["unlocked"]] == [
        (2, "ptp4l did not answer"),
        (3, "no Sync was received"),
    ]


def test_readings_from_before_and_after_the_streams_are_in_no_figure() -> None:
    far = {"offset_ns": 9_999}
    recorded = series(far, {}, {}, far)
    window = (recorded["tai_ns"][1], recorded["tai_ns"][2])
    found = described(PORT, recorded, window)
    assert (found["readings"], found["offset_ns"]["max"], found["unlocked"]) == (2, 5, [])


def test_each_sync_counts_once_however_often_it_was_told() -> None:
    told = [{"ingress_ns": 1, "offset_ns": 10}, {"ingress_ns": 1, "offset_ns": 10}, {"ingress_ns": 2, "offset_ns": 40}]
    found = described(PORT, series(*told))
    assert (found["readings"], found["offset_ns"]["n"], found["offset_ns"]["mean"]) == (3, 2, 25)


def test_a_grandmaster_that_nobody_announces_is_not_known() -> None:
    assert described(PORT, series({"steps_removed": 0}))["grandmasters"] == []


def test_uncalibrated_is_all_that_one_that_turns_no_clock_can_be() -> None:
    assert unlocked({"state": UNCALIBRATED}) == [(0, None, "its port was UNCALIBRATED")]
    assert unlocked({"state": UNCALIBRATED}, free_running=True) == []


def test_a_master_is_locked_while_it_is_one() -> None:
    leads = {"state": MASTER, "offset_ns": 0, "ingress_ns": 0}
    assert unlocked(*([leads] * 9), role="master") == []
    assert unlocked(leads, {}, role="master") == [(1, None, "its port was SLAVE")]


LEADS = {"state": MASTER, "offset_ns": None, "ingress_ns": None, "steps_removed": 0, "grandmaster": 0x525400FFFE000002}


def test_one_that_is_observed_has_to_remain_what_it_was_to_begin_with() -> None:
    assert unlocked(LEADS, LEADS, **OBSERVED) == []
    assert unlocked({}, LEADS, LEADS, {}, **OBSERVED) == [(1, 3, "its port was MASTER")]
    assert unlocked(LEADS, {}, **OBSERVED) == [(1, None, "its port was SLAVE")]
    # What it was before the streams counts, as then it was looked at.
    recorded = series({}, LEADS, LEADS)
    found = described(PORT | OBSERVED, recorded, (recorded["tai_ns"][1], recorded["tai_ns"][2]))
    assert (found["acts_as"], len(found["unlocked"])) == ("slave", 1)
    (told,) = broken(ptp_was_locked, found)
    assert (told.expected, told.actual) == (
        "locked, within 1 µs",
        "its port was MASTER: 0 ns after the first reading, until the end",
    )
    (of_master,) = broken(ptp_was_locked, described(PORT | OBSERVED, series(LEADS, {})))
    assert of_master.expected == "master"
    (neither,) = broken(ptp_was_locked, described(PORT | OBSERVED, series({"state": LISTENING})))
    assert neither.expected == "master, or locked, within 1 µs"


def test_a_slave_that_becomes_a_master_is_its_own_grandmaster_then() -> None:
    found = described(PORT | OBSERVED, series({}, LEADS))
    assert found["grandmasters"] == ["525400.fffe.000001", "525400.fffe.000002"]
    assert len(broken(ptp_kept_its_grandmaster, found)) == 1
    assert described(PORT | OBSERVED, series(LEADS, LEADS))["grandmasters"] == ["525400.fffe.000002"]


def test_not_locked_is_reported_with_why_since_when_and_how_long() -> None:
    lost = {"state": LISTENING, "offset_ns": None}
    (once,) = broken(ptp_was_locked, described(PORT, series({}, lost, {}, SILENT, {})))
    assert (once.where, once.expected) == ("ecu.eth0", "locked, within 1 µs")
    assert once.actual == "its port was LISTENING; ptp4l did not answer: first 1 s after the first reading, 2 s in all"
    (one,) = broken(ptp_was_locked, described(PORT, series({}, lost, lost, {})))
    assert one.actual == "its port was LISTENING: 1 s after the first reading, for 2 s in all"
    (again,) = broken(ptp_was_locked, described(PORT, series({}, lost, {}, {}, {}, lost, lost)))
    assert (
        again.actual
        == "its port was LISTENING: first 1 s after the first reading, 1 s in all, and from 5 s on to the end"
    )
    (ever,) = broken(ptp_was_locked, described(PORT, series({}, SILENT)))
    assert ever.actual == "ptp4l did not answer: 1 s after the first reading, until the end"
    (never,) = broken(ptp_was_locked, described(PORT, series()))
    assert never.actual == "no reading while streams ran"


def test_what_ptp4l_says_is_compared_with_our_own_readings() -> None:
    ours = {"our_offset_ns": 0, "our_half_ns": 200}
    fine = described(PORT, series(ours, ours | {"offset_ns": -900}, ours | {"our_offset_ns": None}, ours=True))
    assert fine["checked"] == {
        "n": 2,
        "ours_p50_ns": 0,
        "half_p50_ns": 200,
        "coarse": False,
        "outside_max_ns": 700,
        "apart": 0,
    }
    assert broken(ptp_claims_hold, fine) == []
    # What it says while it is not locked is no claim.
    unsure = ours | {"our_offset_ns": 9_000}
    lost = series(ours, unsure | {"state": LISTENING}, unsure | {"offset_ns": 1_001}, ours=True)
    assert described(PORT, lost)["checked"] == fine["checked"] | {"n": 1, "outside_max_ns": 0}
    wrong = described(PORT, series(ours | {"our_offset_ns": 2_000}, ours, ours=True))
    (found,) = broken(ptp_claims_hold, wrong)
    assert (found.where, found.expected) == ("ecu.eth0", "ptp4l's offset within 1 µs of latlab's readings")
    assert found.actual == "1 of 2 readings differ more, 1.795 µs at most"


def test_another_grandmaster_is_reported() -> None:
    found = described(PORT, series({}, {"grandmaster": 0x525400FFFE000002}, {}))
    (one,) = broken(ptp_kept_its_grandmaster, found)
    assert one.actual == "525400.fffe.000001 then 525400.fffe.000002"
    assert broken(ptp_kept_its_grandmaster, described(PORT, series({}, SILENT))) == []
