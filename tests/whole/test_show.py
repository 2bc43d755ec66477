"""`latlab show`: the answer of a run again, or sections of its report, without analysing anything."""

from __future__ import annotations

import pytest

from latlab.report.sections import SECTIONS
from support.command import FinishedRun


def test_without_a_section_it_prints_what_the_run_printed(finished: FinishedRun) -> None:
    shown = finished.place.latlab("show", finished.folder)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith("small · ")
    assert "\nVerdict: " in shown.out


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_is_printed_by_its_name(finished: FinishedRun, section: str) -> None:
    before = (finished.folder / "result.json").stat().st_mtime_ns
    shown = finished.place.latlab("show", section)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.strip()
    assert (finished.folder / "result.json").stat().st_mtime_ns == before


def test_a_section_that_a_run_has_nothing_for_is_said_to_be_empty(finished: FinishedRun) -> None:
    assert finished.place.latlab("show", "gates").out.strip() == "gates: this run has no such section"


def test_a_name_that_is_neither_a_run_nor_a_section_is_refused_with_the_sections(finished: FinishedRun) -> None:
    refused = finished.place.latlab("show", finished.folder, "bridges")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("latlab: latlab show: neither a run nor a section: bridges (")
    assert "cells, intervals, variation" in refused.err
