"""What is said of a port of PTP's, by what its ptp4l said while streams ran."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from latlab.analysis.evidence import Broken, Evidence
from latlab.analysis.ptp import MASTER, SLAVE, STALE_NS, UNCALIBRATED, ptp_document
from latlab.analysis.ptp_checks import ptp_claims_hold, ptp_kept_its_grandmaster, ptp_was_locked

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
}
ROW: dict[str, Any] = {
    "answered": True,
    "state": SLAVE,
    "offset_ns": 5,
    "path_delay_ns": 34,
    "grandmaster": 0x525400FFFE000001,
    "steps_removed": 1,
    "silent_ns": 0,
    "frequency_ppt": -20_000_000,
}
SILENT = dict.fromkeys(ROW) | {"answered": False, "state": 0}
SCHEMA = {
    "tai_ns": pl.Int64,
    "ingress_ns": pl.Int64,
    "answered": pl.Boolean,
    "state": pl.UInt8,
    "offset_ns": pl.Int64,
    "path_delay_ns": pl.Int64,
    "grandmaster": pl.UInt64,
    "steps_removed": pl.UInt16,
    "silent_ns": pl.Int64,
    "frequency_ppt": pl.Int64,
    "our_offset_ns": pl.Int64,
    "our_half_ns": pl.Int64,
}


def series(*changes: dict[str, Any], ours: bool = False) -> pl.DataFrame:
    """A reading each second, each with a Sync of its own unless its change says otherwise."""
    rows = [{"tai_ns": n * SECOND, "ingress_ns": n, **ROW, **change} for n, change in enumerate(changes)]
    names = list(SCHEMA) if ours else list(SCHEMA)[:-2]
    return pl.DataFrame(rows, schema={name: SCHEMA[name] for name in names})


def unlocked(*changes: dict[str, Any], **port: Any) -> list[tuple[float, float | None, str]]:
    spells = ptp_document(PORT | port, series(*changes))["unlocked"]
    return [
        (one["from_ns"] / SECOND, None if one["to_ns"] is None else one["to_ns"] / SECOND, one["why"]) for one in spells
    ]


def broken(check: Any, *documents: dict[str, Any]) -> list[Broken]:
    return list(check(Evidence(cell={}, document={"ptp": documents})))


def test_a_locked_slave_is_described_by_its_offsets() -> None:
    found = ptp_document(PORT, series({"offset_ns": -10}, {"offset_ns": 0}, {"offset_ns": 40}))
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
        (2, 3, "ptp4l gave no answer"),
    ]


def test_an_offset_at_the_limit_is_within_it() -> None:
    assert unlocked({"offset_ns": 1_000}, {"offset_ns": -1_000}) == []
    assert unlocked({"offset_ns": 1_001}, {"offset_ns": -1_001}, {}) == [(0, 2, "the offset was beyond its limit")]


def test_a_slave_whose_master_is_silent_keeps_its_state_and_is_not_locked() -> None:
    silent = [{"ingress_ns": 7, "silent_ns": n * SECOND} for n in range(6)]
    assert unlocked(*silent) == [(STALE_NS / SECOND + 1, None, "no Sync was heard")]
    # One that has heard Syncs more often misses them sooner.
    often = [{"ingress_ns": n * SECOND // 8} for n in range(4)]
    late = [{"ingress_ns": 3 * SECOND // 8, "silent_ns": n * SECOND // 2} for n in range(4)]
    assert unlocked(*often, *late) == [(7, None, "no Sync was heard")]


def test_each_sync_counts_once_however_often_it_was_told() -> None:
    told = [{"ingress_ns": 1, "offset_ns": 10}, {"ingress_ns": 1, "offset_ns": 10}, {"ingress_ns": 2, "offset_ns": 40}]
    found = ptp_document(PORT, series(*told))
    assert (found["readings"], found["offset_ns"]["n"], found["offset_ns"]["mean"]) == (3, 2, 25)


def test_a_grandmaster_that_nobody_announces_is_not_known() -> None:
    assert ptp_document(PORT, series({"steps_removed": 0}))["grandmasters"] == []


def test_uncalibrated_is_all_that_one_that_turns_no_clock_can_be() -> None:
    assert unlocked({"state": UNCALIBRATED}) == [(0, None, "its port was UNCALIBRATED")]
    assert unlocked({"state": UNCALIBRATED}, free_running=True) == []


def test_a_master_is_locked_while_it_is_one() -> None:
    leads = {"state": MASTER, "offset_ns": 0, "ingress_ns": 0}
    assert unlocked(*([leads] * 9), role="master") == []
    assert unlocked(leads, {}, role="master") == [(1, None, "its port was SLAVE")]
    assert unlocked(leads, {}, role="observed") == []


def test_not_locked_is_told_with_why_since_when_and_how_long() -> None:
    lost = {"state": LISTENING, "offset_ns": None}
    (once,) = broken(ptp_was_locked, ptp_document(PORT, series({}, lost, {}, SILENT, {})))
    assert (once.where, once.expected) == ("ecu.eth0", "locked, within 1 µs")
    assert once.actual == "its port was LISTENING; ptp4l gave no answer: 1 s after the first reading, for 2 s in all"
    (ever,) = broken(ptp_was_locked, ptp_document(PORT, series({}, SILENT)))
    assert ever.actual == "ptp4l gave no answer: 1 s after the first reading, until the end"
    (never,) = broken(ptp_was_locked, ptp_document(PORT, series()))
    assert never.actual == "no reading while streams ran"


def test_what_ptp4l_says_is_held_against_our_own_readings() -> None:
    ours = {"our_offset_ns": 0, "our_half_ns": 200}
    fine = ptp_document(PORT, series(ours, ours | {"offset_ns": -900}, ours | {"our_offset_ns": None}, ours=True))
    assert fine["checked"] == {
        "n": 2,
        "ours_p50_ns": 0,
        "half_p50_ns": 200,
        "coarse": False,
        "outside_max_ns": 700,
        "apart": 0,
    }
    assert broken(ptp_claims_hold, fine) == []
    wrong = ptp_document(PORT, series(ours | {"our_offset_ns": 2_000}, ours, ours=True))
    (found,) = broken(ptp_claims_hold, wrong)
    assert (found.where, found.expected) == ("ecu.eth0", "what ptp4l says within 1 µs of our own readings")
    assert found.actual == "1 of 2 readings are further, 1.795 µs at most"


def test_another_grandmaster_is_told() -> None:
    found = ptp_document(PORT, series({}, {"grandmaster": 0x525400FFFE000002}, {}))
    (one,) = broken(ptp_kept_its_grandmaster, found)
    assert one.actual == "525400.fffe.000001 then 525400.fffe.000002"
    assert broken(ptp_kept_its_grandmaster, ptp_document(PORT, series({}, SILENT))) == []
