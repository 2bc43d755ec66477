"""Anomalies of packets that were watched at two points: late from the first to the second, or lost between them."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path

import pytest

from latlab.analysis.imported import LEAST
from latlab.report.anomalies import class_rows
from latlab.result.types import Anomaly, Stream
from support.imports.frames import sampled
from support.imports.watched import Seen, Watching, made_result

US = 1_000
COUNT = 4000
PERIOD_NS = 250 * US
TOOK_NS = 30 * US
LATE, LATE_NS = (700, 1900, 3100), 100 * US
LOST = range(2500, 2505)
STALLED, STALL_NS = 1200, 5_000 * US


def streams(
    folder: Path,
    *,
    lost: Collection[int] = (),
    irregular_ns: int = 0,
    count: int = COUNT,
    pause_ns: int = 0,
    period_ns: int = PERIOD_NS,
    shift_ns: int = 0,
    bound_ns: int | None = US,
) -> dict[str, Stream]:
    """What is known of samples that pass two points, 30 µs apart, with noise of 1 µs: three are 100 µs late, and what
    passes in 5 ms from STALLED on waits and goes on at once. irregular_ns: by how much their sender strays.
    pause_ns: how long it pauses before every tenth. shift_ns: by how much all of the second half take longer. bound_ns:
    by how much the clocks of both points may differ.
    """
    random.seed(1)
    first: list[Seen] = []
    second: list[Seen] = []
    for number in range(count):
        at_ns = number * period_ns + number // 10 * pause_ns + random.randint(0, irregular_ns)
        frame = sampled(number, vlan=None)
        first.append((at_ns, frame))
        if number in lost:
            continue
        to_ns = at_ns + TOOK_NS + round(random.gauss(0, US)) + (LATE_NS if number in LATE else 0)
        to_ns += shift_ns if number >= count // 2 else 0
        held_until_ns = STALLED * period_ns + STALL_NS + US * (number - STALLED)
        if number >= STALLED and at_ns < STALLED * period_ns + STALL_NS:
            to_ns = max(to_ns, held_until_ns)
        second.append((to_ns, frame))
    watch, found = Watching(folder)(first, sorted(second), bound_ns=bound_ns)
    return made_result(watch, found, folder / "runs").cells[0].streams


def anomalies(stream: Stream) -> dict[str, Anomaly]:
    """Its anomalies, which were looked for."""
    assert stream.anomalies is not None
    return stream.anomalies


def test_what_is_late_between_two_points_is_found_by_its_class(tmp_path: Path) -> None:
    every = streams(tmp_path, lost=LOST)
    (path,) = (one for one in every.values() if one.points and len(one.points) == 2)
    found = anomalies(path)
    assert path.late_limits
    assert path.late_limits.way == "from first_point to second_point"
    assert {name: one.packets for name, one in found.items() if name != "stall"} == {
        "unexplained": len(LATE),
        "loss_burst": len(LOST),
    }
    assert found["stall"].episodes == 1
    assert found["stall"].packets in (STALL_NS // PERIOD_NS - 1, STALL_NS // PERIOD_NS)
    (lost,) = found["loss_burst"].shown
    assert (lost.from_sequence, lost.to_sequence) == (LOST[0], LOST[-1])


def test_a_sender_that_strays_makes_nothing_late(tmp_path: Path) -> None:
    every = streams(tmp_path, irregular_ns=120 * US)
    (path,) = (one for one in every.values() if one.points and len(one.points) == 2)
    assert {name: one.packets for name, one in anomalies(path).items() if name != "stall"} == {"unexplained": len(LATE)}


@pytest.mark.parametrize(("bound_ns", "name"), [(US, "path_change"), (None, "unexplained")])
def test_a_shift_beyond_the_bound_of_the_clocks_is_one_of_the_path(
    tmp_path: Path, bound_ns: int | None, name: str
) -> None:
    # Levels are of seconds.
    every = streams(tmp_path, period_ns=2_000 * US, shift_ns=800 * US, bound_ns=bound_ns)
    (path,) = (one for one in every.values() if one.points and len(one.points) == 2)
    assert COUNT // 2 in [one.from_sequence for one in anomalies(path)[name].shown]


def test_what_happened_in_a_hop_counts_once_in_the_totals_of_classes(tmp_path: Path) -> None:
    random.seed(1)
    points: tuple[list[Seen], ...] = ([], [], [])
    for number in range(COUNT):
        frame = sampled(number, vlan=None)
        at_ns = number * PERIOD_NS
        for place, seen in enumerate(points):
            seen.append((at_ns, frame))
            at_ns += TOOK_NS + round(random.gauss(0, US)) + (LATE_NS if place == 0 and number in LATE else 0)
    watch, found = Watching(tmp_path)(*points, bound_ns=US)
    result = made_result(watch, found, tmp_path / "runs")
    paths = [one for one in result.cells[0].streams.values() if len(one.points) == 2]
    assert [one.anomalies["unexplained"].packets for one in paths if one.anomalies] == [len(LATE)] * 2
    ((_, streams, packets, *_),) = class_rows(result)
    assert (streams, packets) == ("1 of 2", str(len(LATE)))


def test_at_one_point_there_is_nothing_to_compare_packets_with(tmp_path: Path) -> None:
    every = streams(tmp_path)
    alone = [one for one in every.values() if len(one.points or ()) < 2]
    assert alone
    assert all(one.anomalies is None for one in alone)


def test_losses_last_from_launch_to_launch_whatever_the_median_gap_is(tmp_path: Path) -> None:
    every = streams(tmp_path, lost=range(2500, 2600), count=3000, pause_ns=2 * PERIOD_NS)
    (path,) = (one for one in every.values() if one.points and len(one.points) == 2)
    (lost,) = anomalies(path)["loss_burst"].shown
    assert lost.evidence["length_ns"] == 100 * PERIOD_NS + 10 * 2 * PERIOD_NS


@pytest.mark.parametrize(("count", "judged"), [(LEAST - 1, False), (LEAST, True)])
def test_few_packets_are_not_judged(tmp_path: Path, count: int, judged: bool) -> None:
    every = streams(tmp_path, count=count)
    (path,) = (one for one in every.values() if one.points and len(one.points) == 2)
    assert (path.anomalies is not None) == judged
