"""PTP's ports in the terminal and on the page: a row each, with what was wrong marked."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latlab.recordings.run_folder import RunFolder
from latlab.report.document import Toned
from latlab.report.html import render
from latlab.report.ptp import HEADINGS, TITLE, PtpRow, ptp_rows
from latlab.report.sections import Shown, parts_of
from latlab.report.terminal import print_parts
from latlab.result.store import typed


def spread(least: float, middle: float, most: float) -> dict[str, float]:
    return {"n": 40, "min": least, "p50": middle, "mean": middle, "max": most, "stddev": 1.0}


PORT: dict[str, Any] = {
    "port": "ecu.eth0",
    "role": "slave",
    "profile": None,
    "master": None,
    "acts_as": "slave",
    "absent": None,
    "timestamps": "hardware",
    "free_running": False,
    "limit_ns": 1_000,
    "readings": 40,
    "unanswered": 0,
    "states": {"SLAVE": 38, "LISTENING": 2},
    "grandmasters": ["525400.fffe.000001"],
    "offset_ns": spread(-12, 1.5, 2_500),
    "path_delay_ns": spread(830, 834.0, 839),
    "frequency_ppb": spread(-20_000.4, 0, 119.0),
    "unlocked": [],
    "checked": None,
}
CHECKED = {
    "n": 40,
    "ours_p50_ns": -3.0,
    "half_p50_ns": 40.0,
    "coarse": False,
    "outside_max_ns": 3_210,
    "apart": 0,
}


def with_port(result: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The result with this port in its first measured cell."""
    changed = deepcopy(result)
    next(cell for cell in changed["cells"] if cell["streams"])["ptp"] = [PORT | changes]
    return changed


def bad(texts: Sequence[str]) -> list[str]:
    """Those of the texts that report something wrong."""
    return [text for text in texts if isinstance(text, Toned)]


def row(result: dict[str, Any], **changes: Any) -> PtpRow:
    (found,) = ptp_rows(typed(with_port(result, **changes)))
    return found


def test_a_result_without_ptp_has_no_table_of_it(result: dict[str, Any]) -> None:
    assert parts_of("ptp", Shown(typed(result), [])) == [] and list(ptp_rows(typed(result))) == []


def test_a_slave_that_was_locked_all_the_time_has_nothing_marked(result: dict[str, Any]) -> None:
    found = row(result)
    assert found.texts[2:] == (
        "ecu.eth0, slave, hardware timestamps",
        "SLAVE, LISTENING",
        "525400.fffe.000001",
        "1.5 ns (−12 ns to 2.5 µs)",
        "834 ns",
        "−20000 to +119 ppb",
        "never",
        "not read",
    )
    assert len(found.texts) == len(HEADINGS)
    assert bad(found.texts) == []


def test_what_ptp_did_not_tell_is_left_empty(result: dict[str, Any]) -> None:
    found = row(result, offset_ns=None, path_delay_ns=None, frequency_ppb=None, grandmasters=[])
    assert (found.offset, found.path_delay, found.frequency, found.grandmaster) == ("", "", "", "not announced")


@pytest.mark.parametrize(
    ("timestamps", "free_running", "said"),
    [
        ("software", True, "not adjusted"),
        ("software", False, "−20000 to +119 ppb"),
        ("hardware", True, "−20000 to +119 ppb"),
    ],
)
def test_a_frequency_is_that_of_a_clock_that_is_turned(
    result: dict[str, Any], timestamps: str, free_running: bool, said: str
) -> None:
    assert row(result, timestamps=timestamps, free_running=free_running).frequency == said


def test_spells_are_reported_with_their_reason_start_and_length_and_marked(result: dict[str, Any]) -> None:
    ended = {"from_ns": 250_000_000, "to_ns": 750_000_000, "why": "its port was LISTENING"}
    lasting = {"from_ns": 1_500_000_000, "to_ns": None, "why": "no Sync was received"}
    found = row(result, unlocked=[ended, lasting])
    assert found.unlocked == "its port was LISTENING, at 250 ms for 500 ms; no Sync was received, from 1.5 s on"
    assert bad(found.texts) == [found.unlocked]


def test_our_own_readings_are_reported_with_what_they_are_worth(result: dict[str, Any]) -> None:
    assert row(result, checked=CHECKED).checked == "−3 ns ± 40 ns"
    one_clock = row(result, checked=CHECKED | {"ours_p50_ns": 0.0, "half_p50_ns": 0.0})
    assert one_clock.checked == "0 ns: one clock"
    coarse = row(result, checked=CHECKED | {"half_p50_ns": 4_000.0, "coarse": True})
    assert coarse.checked == "−3 ns ± 4 µs, too coarse to compare"
    assert bad(coarse.texts) == []
    apart = row(result, checked=CHECKED | {"apart": 2})
    assert apart.checked == "−3 ns ± 40 ns; 2 of 40 apart, up to 3.21 µs"
    assert bad(apart.texts) == [apart.checked]


def test_one_that_is_observed_is_reported_with_what_it_was(result: dict[str, Any]) -> None:
    assert "ecu.eth0, observed master," in row(result, role="observed", acts_as="master").port
    assert "ecu.eth0, observed, " in row(result, role="observed", acts_as=None).port


def test_one_that_was_not_started_is_reported_with_why_and_nothing_else(result: dict[str, Any]) -> None:
    found = row(result, absent="vfio, for vm1: the card itself is passed to the guest", states={}, readings=0)
    assert found.texts[3:] == ("not started: vfio, for vm1: the card itself is passed to the guest", *[""] * 6)
    assert bad(found.texts) == []


def test_the_terminal_and_the_page_have_a_table_of_them(result: dict[str, Any], new_run: Callable[..., Path]) -> None:
    spell = {"from_ns": 0, "to_ns": None, "why": "no Sync was received"}
    console = Console(file=io.StringIO(), width=240)
    with console.capture() as captured:
        print_parts(parts_of("ptp", Shown(typed(with_port(result, unlocked=[spell])), [])), console)
    assert captured.get().splitlines()[0].startswith(TITLE.split(",")[0])
    assert "no Sync was received" in captured.get()
    folder = RunFolder.open(str(new_run()))
    assert TITLE not in render(folder, {}).before
    folder.write_result(with_port(folder.result(), unlocked=[spell]))
    page = render(folder, {}).before
    assert TITLE in page
    assert re.search(r'<td class="[^"]*bad"[^>]*>no Sync was received, from 0 ns on</td>', page)
