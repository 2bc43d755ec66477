"""What publishers promise and state in their frames: GOOSE's timeAllowedToLive, and the reference time of samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from latlab.imports.base import PacketStream, ReadFiles
from latlab.recordings.cell import Watched
from latlab.result.types import Metric
from support.imports.frames import goose, reference_time, sampled
from support.imports.watched import START, TAI_OFFSET_S, S, Seen, Watching, made_result

US, MS = 1_000, 1_000_000
ALLOWED_MS = 60
ONE = "IED1/LLN0$GO$gcb1"


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path)


def repeated(times_ms: Sequence[int], *, without: frozenset[int] = frozenset(), name: str = ONE) -> list[Seen]:
    """A state's repetitions at these instants; those of the numbers `without` do not come."""
    return [
        (at * MS, goose(1, number, allowed_ms=ALLOWED_MS, name=name))
        for number, at in enumerate(times_ms)
        if number not in without
    ]


def silences(found: ReadFiles) -> list[str]:
    """The notes of silences; such a flow is measured right."""
    assert not found.problems
    return [note for note in found.notes if "timeAllowedToLive, the worst" in note]


def test_a_silence_longer_than_time_allowed_to_live_is_found_and_counted(watching: Watching) -> None:
    # 60 ms are in time, 61 and 200 ms are not.
    _, found = watching(repeated([0, 20, 80, 141, 161, 361, 381]), until_ns=400 * MS)
    assert silences(found) == [
        f"at-eth0-in: {ONE}: 2 silences longer than its timeAllowedToLive, the worst 200 ms of 60 ms; "
        "in 0 of them frames are missing by their numbers"
    ]


def test_a_silence_in_which_frames_were_lost_says_so(watching: Watching) -> None:
    times = [20 * number for number in range(20)]
    _, found = watching(repeated(times, without=frozenset({5, 6, 7})), until_ns=400 * MS)
    (actual,) = silences(found)
    assert actual.endswith(
        "1 silence longer than its timeAllowedToLive, the worst 80 ms of 60 ms; "
        "in 1 of them frames are missing by their numbers"
    )


def test_publishers_in_time_are_no_finding_and_each_control_block_is_heard_by_itself(watching: Watching) -> None:
    often = repeated([10 * number for number in range(40)])
    _, found = watching(often, until_ns=400 * MS)
    assert silences(found) == []
    # Frames of another control block between do not hide a silence.
    rare = repeated([5, 45, 145, 185, 225, 265, 305, 345], name="IED1/LLN0$GO$gcb2")
    _, found = watching(sorted([*often, *rare]), until_ns=400 * MS)
    (actual,) = silences(found)
    assert actual.startswith(
        "at-eth0-in: IED1/LLN0$GO$gcb2: 1 silence longer than its timeAllowedToLive, the worst 100 ms of 60 ms"
    )
    assert ONE not in actual


def test_a_publisher_that_is_not_heard_until_the_end_is_a_note(watching: Watching) -> None:
    _, found = watching(repeated([0, 20, 40]), until_ns=400 * MS)
    note = (
        f"eth0:in: {ONE}: no frame in the last 360 ms, timeAllowedToLive is 60 ms: "
        "the publisher has stopped, or its frames do not come here"
    )
    assert note in found.notes
    assert silences(found) == []
    _, found = watching(repeated([0, 20, 40]), until_ns=100 * MS)
    assert not [one for one in found.notes if "timeAllowedToLive" in one]


def test_records_that_were_lost_are_no_silence(watching: Watching) -> None:
    _, found = watching(repeated([0, 20, 40, 400]), lost=3)
    assert [one.id for one in found.problems] == ["ring-full"]
    assert not [one for one in found.notes if "timeAllowedToLive" in one]


TOOK_NS = 430 * US
COUNT = 100


def samples(quality: int = 20, *, failed: frozenset[int] = frozenset(), dated: bool = True) -> list[Seen]:
    """Samples 250 µs apart, each seen TOOK_NS and 1 µs for each frame before after its reference time, to within the
    2^-24 s that the time in the frame has.
    """
    found = []
    for number in range(COUNT):
        at = 250 * US * number
        utc_ns = START + at - TAI_OFFSET_S * S
        time = reference_time(utc_ns, quality | (0x40 if number in failed else 0)) if dated else b""
        found.append((at + TOOK_NS + number * US, sampled(number, reference=time)))
    return found


FRACTION_NS = 60


def sample_latency(found: ReadFiles) -> PacketStream | None:
    return next((one for one in found.streams if "sample_latency" in one.metrics), None)


def figures(watch: Watched, found: ReadFiles, folder: Path) -> tuple[Metric, dict[str, str]]:
    """The metric as the result has it, and {id of each reason: what was found}."""
    result = made_result(watch, found, folder)
    metric = result.cells[0].streams["sampled-to-eth0-in"].metrics["sample_latency"]
    return metric, {one.id: one.actual for one in result.reasons}


def test_from_its_reference_time_each_sample_took_as_long_as_it_did(watching: Watching, tmp_path: Path) -> None:
    watch, found = watching(samples(), bound_ns=2 * US)
    metric, reasons = figures(watch, found, tmp_path / "runs")
    assert (metric.n, metric.missing, metric.lost, metric.uncertainty_ns) == (COUNT, 0, None, 2 * US)
    assert metric.min is not None and 0 <= metric.min - TOOK_NS < FRACTION_NS
    assert metric.max is not None and 0 <= metric.max - TOOK_NS - (COUNT - 1) * US < FRACTION_NS
    assert reasons == {}
    note = (
        f"at-eth0-in: {COUNT} of {COUNT} frames have a usable refrTm, the time of the sample by the publisher's clock; "
        "it states ± 0.954 µs at worst; ± is --clock-bound"
    )
    assert note in found.notes


def test_without_a_bound_of_the_publishers_clock_there_is_no_figure(watching: Watching) -> None:
    _, found = watching(samples())
    assert sample_latency(found) is None
    assert silences(found) == []
    assert [one for one in found.notes if one.endswith("how far that clock may be off is not known here")]


def test_without_what_the_kernel_has_of_utc_there_is_no_figure(watching: Watching) -> None:
    _, found = watching(samples(), bound_ns=2 * US, offset_s=None)
    assert sample_latency(found) is None
    assert [one for one in found.notes if one.endswith("how far that clock may be off is not known here")]


def test_times_by_a_clock_that_has_failed_are_in_no_figure(watching: Watching, tmp_path: Path) -> None:
    watch, found = watching(samples(31, failed=frozenset({7, 8})), bound_ns=2 * US)
    metric, _ = figures(watch, found, tmp_path / "runs")
    assert (metric.n, metric.missing) == (COUNT - 2, 2)
    (numbers,) = [one for one in found.notes if "smpCnt" in one]
    assert numbers.endswith("; 2 with: refrTm of a clock that is failed")
    (stated,) = [one for one in found.notes if "usable refrTm" in one]
    assert f"{COUNT - 2} of {COUNT} frames" in stated
    assert f"{COUNT - 2} do not state its accuracy" in stated


def test_a_publisher_on_another_time_scale_is_no_late_one(watching: Watching, tmp_path: Path) -> None:
    # Its clock shows TAI where UTC is to be: samples seem to come 37 s before they were taken.
    watch, found = watching(samples(), bound_ns=2 * US, offset_s=2 * TAI_OFFSET_S)
    _, reasons = figures(watch, found, tmp_path / "runs")
    assert "one-time-scale" in reasons


def test_samples_without_a_reference_time_are_numbered_as_ever(watching: Watching) -> None:
    _, found = watching(samples(dated=False), bound_ns=2 * US)
    assert sample_latency(found) is None
    assert not [one for one in found.notes if "refrTm" in one]


@pytest.mark.parametrize(
    ("bound_ns", "stated"), [(None, "without --clock-bound there is no ±"), (5 * US, "± is --clock-bound")]
)
def test_that_clocks_of_two_kernels_are_not_compared_is_stated(
    watching: Watching, bound_ns: int | None, stated: str
) -> None:
    frames = samples(dated=False)
    _, found = watching(frames, frames, bound_ns=bound_ns)
    (note,) = [one for one in found.notes if "does not compare their clocks" in one]
    assert note.startswith("the points are in 2 kernels") and stated in note
    _, found = watching(frames, bound_ns=bound_ns)
    assert "all points are in one kernel: one clock, ± 0" in found.notes
    assert not [one for one in found.notes if "does not compare" in one]
