"""A section of the report is on the page, too, whether or not that has a place for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast
from unittest import mock

from latlab.report import page, sections
from latlab.report.document import Lines, Part
from latlab.report.sections import SECTIONS, ReportSection, Shown


def test_a_section_without_a_place_of_its_own_is_shown_by_its_name() -> None:
    def said(_: Shown) -> Iterator[Part]:
        yield Lines(["dry and warm"])

    shown = cast(Shown, SimpleNamespace(label="measured"))
    within = {name: one for name, one in SECTIONS.items() if one.within}
    more = {**within, "weather": ReportSection(said)}
    with mock.patch.object(sections, "SECTIONS", more), mock.patch.object(page, "SECTIONS", more):
        (found,) = page.other_sections(shown)
    assert (found.name, found.title, found.label) == ("weather", "Weather", "measured")
    assert found.parts == [Lines(["dry and warm"])]


def test_a_section_is_within_one_that_the_page_has() -> None:
    of_page = set(re.findall(r'Section\("(\w+)"', inspect.getsource(page.page_sections)))
    assert {one.within for one in SECTIONS.values() if one.within} <= of_page
