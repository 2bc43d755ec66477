"""A section of the report is on the page, too, whether or not that has a place for it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast
from unittest import mock

from latlab.report import page, sections
from latlab.report.document import Lines, Part
from latlab.report.sections import SECTIONS, Shown


def test_a_section_without_a_place_of_its_own_is_shown_by_its_name() -> None:
    def said(_: Shown) -> Iterator[Part]:
        yield Lines(["dry and warm"])

    shown = cast(Shown, SimpleNamespace(label="measured"))
    placed = {name for place in page.PAGE for name in place.shows}
    more = {**{name: one for name, one in SECTIONS.items() if name in placed}, "weather": said}
    with mock.patch.object(sections, "SECTIONS", more), mock.patch.object(page, "SECTIONS", more):
        (found,) = page.other_sections(shown)
    assert (found.name, found.title, found.label) == ("weather", "Weather", "measured")
    assert found.parts == [Lines(["dry and warm"])]


def test_the_page_shows_sections_that_there_are() -> None:
    assert {name for place in page.PAGE for name in place.shows} <= set(SECTIONS)
