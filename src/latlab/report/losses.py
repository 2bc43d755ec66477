"""Where lost packets were dropped and why, and on which kernels that was watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from latlab.result.types import DropsWatched, Losses, LostAt

TITLE: Final = "Where lost packets were dropped"
HEADINGS: Final = ("cell", "repeat", "of", "packets", "where", "reason", "kernel function")
WATCHED_TITLE: Final = "Kernels whose drops were recorded; the place of other losses is unknown"
WATCHED: Final = ("cells", "watched on", "is the kernel of", "drops recorded", "note")
UNPLACED: Final = "at an unknown place"
NO_REASON: Final = "no reason given"
_UNSPECIFIED: Final = (None, "NOT_SPECIFIED")
"""Where the kernel gives no reason, its function says most."""


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
        notes.append(f"{one.unrecorded} more {'was' if one.unrecorded == 1 else 'were'} not recorded: a ring was full")
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
