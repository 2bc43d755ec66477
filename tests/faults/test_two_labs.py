"""Two labs on one machine, each with its own guest and bridge."""

from __future__ import annotations

import pytest

from support.guests.place import PACKETS, GuestPlace

pytestmark = pytest.mark.real


def test_two_labs_with_guests_do_not_disturb_each_other_nor_does_cleaning_up(place: GuestPlace) -> None:
    before = place.trace()
    labs = [place.start("run", place.file(bridge), "--json", "--verbose") for bridge in ("tap", "xdp")]
    for lab in labs:
        assert lab.process.stderr
        while not (line := lab.process.stderr.readline()).endswith(": measuring\n"):
            assert line
    assert place.latlab("clean").out == "nothing to undo\n"
    for ended in [lab.ended() for lab in labs]:
        (cell,) = ended.document["cells"]
        assert (ended.status, cell["status"]) == (0, "ok")
        counts = cell["streams"]["control"]["counts"]
        assert (counts["sent"], counts["received"], counts["foreign"]) == (PACKETS, PACKETS, 0)
    assert place.trace() == before
