"""The two legs of a probe in the packet table: how many rows they have, and on which clock.

Question n and its answer are row n of the legs `up` and `down`. A question that was never received leaves a row of its
answer anyway, without a launch time: it was never to be sent. All instants of both legs are on the clock of who
asks, so that a row of `up` and one of `down` make one way, which adds up to the round trip exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from latlab.model.timestamps import RECORDED
from latlab.recordings.arrow import read_recording
from latlab.recordings.cell import ClockEdge, RecordedCell, RecordedStream
from latlab.recordings.clock_offset import offset_between
from latlab.recordings.run_folder import CellFolder
from latlab.recordings.slots import Column

_ANSWERERS_OWN: Final = tuple(one.column for one in RECORDED if one.side == "talker" and one.by != "card")
"""The timestamps of an answer that are on the answerer's system clock; a NIC's is compared with none."""


def recorded_streams(cell: RecordedCell) -> list[RecordedStream]:
    """Those of cell.json's streams whose packets our agents record: neither tools' nor timers'."""
    return [stream for stream in cell.streams if stream.has_packets and not stream.pair]


def with_counts(folder: CellFolder, cell: RecordedCell) -> list[RecordedStream]:
    """The recorded streams, each with the number of its rows as `count`: a closed loop's is what was asked."""
    streams = recorded_streams(cell)
    loops = {stream.probe for stream in streams if stream.probe and stream.count is None}
    asked = {probe: _asked(folder, cell, probe) for probe in loops}
    return [
        stream.model_copy(update={"count": asked[stream.probe]}) if stream.probe in asked else stream
        for stream in streams
    ]


def has_schedule(stream: RecordedStream) -> bool:
    """Whether its launch times are known before anything is sent; else its sender says them."""
    return stream.period_ns is not None and stream.leg != "down"


def onto_askers_clock(
    columns: Mapping[str, Column],
    rows: Mapping[str, slice],
    clocks: Sequence[ClockEdge],
    answerer: str,
    asker: str,
) -> None:
    """Put both legs' instants on the asker's clock, with how far those between the two hosts may be off.

    rows: of each leg. All that the answerer stamped of one question and its answer is moved by the same, the offset
    when the question came in, so that what is between them stays the answerer's; by as much as the offset was another
    when the answer was sent, it may be off more.
    """
    _move_questions(columns, rows["up"], clocks, answerer, asker)
    _move_answers(columns, rows["up"], rows["down"], clocks, answerer, asker)


def _asked(folder: CellFolder, cell: RecordedCell, probe: str) -> int:
    """How many questions a closed loop asked: one more than the largest sequence recorded."""
    path = folder.recording("ping", probe, "sent")
    if not path.exists():
        return 0
    sent = read_recording(path, "sent", run_id=cell.run_id).table
    return 0 if sent.height == 0 else int(sent["sequence"].max()) + 1  # type: ignore[arg-type]


def _move_questions(
    columns: Mapping[str, Column], rows: slice, clocks: Sequence[ClockEdge], answerer: str, asker: str
) -> None:
    """The arrivals of questions. Before the answers, which go by them."""
    soft, user, bound = (columns[name] for name in ("rx_soft_tai_ns", "rx_user_tai_ns", "clock_bound_ns"))
    arrived = np.flatnonzero(user.valid[rows] | soft.valid[rows]) + rows.start
    taken = np.where(user.valid[arrived], user.values[arrived], soft.values[arrived])
    came_in = np.where(soft.valid[arrived], soft.values[arrived], taken)
    offset = offset_between(clocks, answerer, asker, came_in)
    later = offset_between(clocks, answerer, asker, taken)
    if offset is None or later is None:
        return
    known = offset.known & later.known
    moved = np.where(known, offset.estimate_ns, 0)
    soft.values[arrived] -= moved
    user.values[arrived] -= moved
    bound.values[arrived] = np.maximum(offset.half_ns, later.half_ns + np.abs(later.estimate_ns - offset.estimate_ns))
    bound.valid[arrived] = known


def _move_answers(
    columns: Mapping[str, Column],
    up: slice,
    down: slice,
    clocks: Sequence[ClockEdge],
    answerer: str,
    asker: str,
) -> None:
    """What the answerer stamped of its answers: launched when it had the question, which has been moved by now."""
    launch, submit, bound = (columns[name] for name in ("launch_tai_ns", "submit_tai_ns", "clock_bound_ns"))
    answered = np.flatnonzero(launch.valid[down])
    if not len(answered):
        return
    rows = answered + down.start
    launched = launch.values[rows].copy()
    offset = offset_between(clocks, answerer, asker, launched)
    sent = np.where(submit.valid[rows], submit.values[rows], launched)
    later = offset_between(clocks, answerer, asker, sent)
    if offset is None or later is None:
        return
    known = offset.known & later.known
    questions = answered + up.start
    had, has_bound = columns["rx_user_tai_ns"], bound.valid[questions]
    # The launch is the question's reception: what moved that moves this. Where it was not recorded, the offset does.
    by_question = had.valid[questions] & has_bound
    moved = np.where(by_question, launched - had.values[questions], np.where(known, offset.estimate_ns, 0))
    for name in _ANSWERERS_OWN:
        column = columns[name]
        there = column.valid[rows]
        column.values[rows[there]] -= moved[there]
    bound.values[rows] = np.maximum(offset.half_ns, later.half_ns) + np.abs(later.estimate_ns - moved)
    bound.valid[rows] = known
