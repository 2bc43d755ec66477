"""A scenario names windows beforehand, with a reason; what cannot be one is reported in its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded, Problem, parse
from latlab.scenario.streams import launches_between

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]
S = 10**9


def window(begin: str | int = "2s", end: str | int = "5s", **more: Any) -> dict[str, Any]:
    return {"from": begin, "to": end, "why": "before the fan came on", **more}


def test_there_are_none_unless_they_are_said(with_: With) -> None:
    assert with_().scenario.windows == ()


def test_windows_are_read_and_written_as_they_are(with_: With) -> None:
    given = {"windows": [window(), window("5s", "10s", streams=["control"])]}
    scenario = with_(given).scenario
    first, second = scenario.windows
    assert (first.from_, first.to, first.why, first.streams) == (2 * S, 5 * S, "before the fan came on", ())
    assert first.is_of("control") and second.is_of("control") and not second.is_of("camera")
    assert parse(scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)).scenario == scenario


@pytest.mark.parametrize(
    ("offset", "period", "begin", "end", "count"),
    [
        (0, 10, 0, 100, 10),
        (0, 10, 1, 10, 0),
        (0, 10, 10, 11, 1),
        (3, 10, 0, 3, 0),
        (3, 10, 0, 4, 1),
        (0, 10, 95, 100, 0),
    ],
)
def test_launches_in_a_interval_are_counted_without_listing_them(
    offset: int, period: int, begin: int, end: int, count: int
) -> None:
    assert launches_between(offset, period, begin, end) == count
    assert sum(begin <= offset + n * period < end for n in range(20)) == count


WRONG: list[tuple[list[Any], str]] = [
    ([window("5s", "5s")], "windows[0].to: 5s is not after its beginning; expected more than 5s"),
    ([window("5s", "2s")], "windows[0].to: 2s is not after its beginning; expected more than 5s"),
    ([window("5s", "11s")], "windows[0].to: 11s is beyond the run; expected at most the duration, 10s"),
    ([window("0s", "1s")], "windows[0].to: all of it is in the warm-up of 1s; expected more than 1s"),
    (
        [window("2s", "5s"), window("4s", "6s")],
        "windows[1]: overlaps windows[0], 2s to 5s; expected windows that do not overlap, or of other streams",
    ),
    (
        [window("2000100us", "2000200us")],
        "windows[0]: no packet of control is launched in it; expected a longer window: its period is 1ms",
    ),
    ([window(2, "5s")], "windows[0].from: 2 has no unit; expected a duration such as 1006us"),
    ([{"from": "2s", "to": "5s"}], "windows[0].why: missing; expected why this interval, in a sentence"),
    ([window(why=" ")], "windows[0].why: ' ' is not a reason; expected why this interval, in a sentence: the report"),
    ([window(why=201 * "a")], "windows[0].why: a reason of 201 characters; expected 200 or fewer"),
    ([window(streams=["gone"])], "windows[0].streams[0]: unknown stream 'gone'; expected"),
    ([window(streams=[])], "windows[0].streams: an empty list; expected streams, or leave the key out"),
    ([window(streams=["control", "control"])], "windows[0].streams: 'control' appears twice; expected each stream"),
    ([window(til="5s")], "windows[0].til: unknown key 'til'; expected"),
    ([window()] * 65, "windows: too many; expected 64 or fewer"),
]


@pytest.mark.parametrize(("windows", "line"), WRONG, ids=[line[:50] for _, line in WRONG])
def test_what_cannot_be_a_window_is_refused_where_it_stands(said: Said, windows: list[Any], line: str) -> None:
    (found,) = said({"windows": windows, "warmup": "1s"})
    assert found.startswith(line)


def test_a_wrong_window_does_not_hide_what_is_wrong_with_another(said: Said) -> None:
    found = said({"windows": [window("2", "5s"), window("9s", "12s"), window("7s", "6s")]})
    assert [line.split(":")[0] for line in found] == ["windows[0].from", "windows[1].to", "windows[2].to"]


def test_windows_that_meet_or_are_of_other_streams_do_not_overlap(said: Said) -> None:
    other = {"streams.camera": {"talker": "sensor", "listener": "ecu", "period": "10ms", "size": "64B"}}
    assert said({"windows": [window("2s", "5s"), window("5s", "6s")]}) == []
    apart = [window("2s", "5s", streams=["control"]), window("3s", "6s", streams=["camera"])]
    assert said(other | {"windows": apart}) == []
    assert len(said(other | {"windows": [*apart, window("4s", "5s", streams=["camera"])]})) == 1


def test_its_line_is_reported(problems: Callable[[str], list[Problem]], base: str) -> None:
    text = f"{base}windows:\n  - from: 2s\n    to: 12s\n    why: late\n"
    (problem,) = problems(text)
    assert (problem.line, problem.path) == (base.count("\n") + 3, "windows[0].to")


def test_a_cell_that_is_too_short_for_a_window_is_reported(said: Said) -> None:
    (line,) = said({"windows": [window("2s", "5s")], "matrix": {"duration": ["10s", "4s"]}})
    assert "5s is beyond the run" in line and "in cell duration=4s" in line


def test_windows_are_the_same_in_every_cell(said: Said) -> None:
    (found,) = said({"matrix": {"windows": [[window()]]}})
    assert "windows is the same in every cell" in found
