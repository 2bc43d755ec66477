"""What has to be known to read a probe's figures stands once next to them, however many cells it is of."""

from __future__ import annotations

import pytest

from latlab.report.rows import _probe_notes as notes
from latlab.result.types import Stream
from support.results import partial

CLOSED = "udp; each answer triggers the next question"


def of(*told: str) -> list[tuple[str, Stream]]:
    """A cell each in which this is noted of the probe."""
    return [("rr", partial(Stream, {"probe": {"name": "rr", "told": one}})) for one in told]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ((CLOSED,), CLOSED),
        ((CLOSED, CLOSED), CLOSED),
        ((CLOSED, f"{CLOSED}; in 2 frames"), f"{CLOSED}; in some cells: in 2 frames"),
        ((f"{CLOSED}; in 3 frames", f"{CLOSED}; in 2 frames"), f"{CLOSED}; in 3 frames · or in 2 frames"),
        (("udp", "tcp"), "udp · or tcp"),
        (
            (CLOSED, f"{CLOSED}; in 2 frames", f"{CLOSED}; in 3 frames"),
            f"{CLOSED}; in some cells: in 2 frames · or in 3 frames",
        ),
    ],
)
def test_what_all_cells_say_is_said_once(told: tuple[str, ...], said: str) -> None:
    assert notes(of(*told)) == (f"rr: {said}",)
