"""What the join of a cell's packet table saw of one recording."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class RecordingFindings:
    """What the join saw of one recording.

    rows: read. complete: its end was there. stray: rows of no scheduled packet, of an unknown kind, or of a
    packet that had such a row before (the first one counts). again: further software stamps of a packet, one
    for each device it passes after the first: below a VLAN interface, and at a bridge's ports on the same kernel.
    launch_mismatched: rows whose launch time is not the schedule's. unconverted: software timestamps dropped, since
    the host recorded no clocks to convert by.
    """

    rows: int = 0
    complete: bool = False
    stray: int = 0
    again: int = 0
    launch_mismatched: int = 0
    unconverted: int = 0
