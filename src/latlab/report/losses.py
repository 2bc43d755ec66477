"""Where lost packets were dropped and why, and on which kernels that was watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import polars as pl

from latlab.analysis.counts import stream_rows
from latlab.analysis.losses import losses_of
from latlab.recordings.cell import DropsReady, RecordedCell
from latlab.recordings.drops import read_drops
from latlab.recordings.run_folder import CellFolder
from latlab.result.types import DropsWatched, Losses, LostAt

TITLE: Final = "Where lost packets were dropped"
HEADINGS: Final = ("cell", "repeat", "of", "packets", "where", "reason", "kernel function")
WATCHED_TITLE: Final = "Kernels whose drops were recorded; losses elsewhere have no place"
WATCHED: Final = ("cells", "watched on", "is the kernel of", "drops recorded", "note")
UNPLACED: Final = "where no kernel was watched"
NO_REASON: Final = "no reason given"
_UNSPECIFIED: Final = (None, "NOT_SPECIFIED")
"""Where the kernel gives no reason, its function says most."""


def with_losses(
    document: Mapping[str, Any], folder: CellFolder, cell: RecordedCell, packets: pl.DataFrame
) -> dict[str, Any]:
    """The cell's part of the result document, with `losses` of each stream and probe where any kernel was watched.

    LabError: a recording is not of this run.
    """
    drops = read_drops(folder, cell)
    if drops is None:
        return dict(document)
    streams = dict(document["streams"])
    legs: dict[str, list[pl.DataFrame]] = {}
    for stream in cell.streams:
        if not stream.has_packets:
            continue
        rows = stream_rows(packets, stream.stream)
        legs.setdefault(stream.probe or stream.name, []).append(rows)
        legs[stream.name] = [rows]
    for name, parts in legs.items():
        if name in streams:
            streams[name] = {**streams[name], "losses": losses_of(parts, drops).document()}
    return {**document, "streams": streams}


def drops_watched(cell: RecordedCell) -> Iterator[dict[str, Any]]:
    """Every kernel of a cell and how far its drops were recorded: `drops_watched` of docs/reference/result.md."""
    for kernel in cell.drops or []:
        found = kernel.said.drops or DropsReady()
        done, error, why_not = kernel.done, kernel.error, kernel.why_not
        missing = [*found.missing]
        missing += [why_not] if why_not else []
        missing += [error.what] if error else []
        yield {
            "host": kernel.host,
            "hosts": kernel.hosts,
            "watched": found.watched,
            "reasons": found.reasons,
            "drops": done.drops if done else None,
            "unrecorded": (done.lost or 0) + done.ring_full if done else None,
            "missing": missing,
        }


def lost_text(losses: Losses) -> str:
    """As "37 lost: 31 at tap0 of vmhost (FULL_RING), 6 in the socket buffer of ecu (SOCKET_RCVBUFF)"."""
    told: dict[tuple[str, str], int] = {}
    for one in losses.places:
        key = (one.place, _why(one))
        told[key] = told.get(key, 0) + one.packets
    parts = [f"{packets} {place} ({reason})" for (place, reason), packets in told.items()]
    if losses.unplaced:
        parts.append(f"{losses.unplaced} {UNPLACED}")
    return f"{losses.lost} lost: {', '.join(parts)}"


def _why(one: LostAt) -> str:
    """The kernel's reason; without one the function that dropped the packets."""
    if one.reason not in _UNSPECIFIED:
        return str(one.reason)
    return f"{NO_REASON}: {one.function}()" if one.function else NO_REASON


def loss_rows(losses: Losses | None) -> Iterator[tuple[str, ...]]:
    """(packets, where, reason, kernel function) of what a stream has lost at each place; none if nothing is known."""
    if not losses:
        return
    for one in losses.places:
        yield str(one.packets), one.place, one.reason or NO_REASON, one.function or ""
    if losses.unplaced:
        yield str(losses.unplaced), UNPLACED, "", ""


def watched_row(one: DropsWatched) -> tuple[str, ...]:
    """(watched on, is the kernel of, drops recorded, to know) of one kernel."""
    notes = [*one.missing]
    if one.unrecorded:
        notes.append(f"{one.unrecorded} more were not recorded: a ring was full")
    on = one.host if one.watched else "not watched"
    return on, ", ".join(one.hosts), "" if one.drops is None else str(one.drops), "; ".join(notes)


def lost_in(several: Iterable[Losses | None]) -> Losses | None:
    """The losses of several repetitions or cells as one; None: nothing was lost there, or nothing is known of it."""
    losses = [one for one in several if one]
    merged: dict[tuple[str, str], LostAt] = {}
    for one in (place for each in losses for place in each.places):
        key = (one.place, _why(one))
        before = merged[key].packets if key in merged else 0
        merged[key] = merged.get(key, one).model_copy(update={"packets": before + one.packets})
    lost, unplaced = sum(each.lost for each in losses), sum(each.unplaced for each in losses)
    places = sorted(merged.values(), key=lambda one: -one.packets)
    return Losses(lost=lost, unplaced=unplaced, places=places) if lost else None
