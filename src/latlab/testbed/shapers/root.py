"""The root of an interface: ours only where nothing but the kernel's default stands, and that again afterwards.

What others have set up there could not be restored exactly: tc prints no commands. It is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.shapers import Shaper
from latlab.testbed.shapers.base import Place, listed
from latlab.testbed.shapers.refused import what_would_work
from latlab.testbed.step import Argv, Check, Step

OURS = 'tc qdisc show dev "$0" root | grep -q "^qdisc [a-z]* $1: root "'
DEFAULT = "the kernel's default"


def free_root(place: Place) -> Step:
    """No root qdisc has been set up. The kernel's own has the handle 0: (net/sched/sch_generic.c)."""
    return Step(
        host=place.end.host,
        title=f"{place.end} has no shaper yet",
        do=(),
        check=Check(
            ("tc", "-j", "qdisc", "show", "dev", place.device),
            expected=DEFAULT,
            read=lambda output: root_in_words(output),
            remedy=f"latlab could not restore it: `tc qdisc del dev {place.device} root`, or leave "
            f"{place.end} out of `shapers` and measure with the existing qdisc",
        ),
    )


def root_in_words(output: str) -> str:
    """What stands at the root: DEFAULT, or its kind and handle."""
    for qdisc in listed(output):
        if qdisc.get("root") and qdisc["handle"] != "0:":
            return f"{qdisc['kind']} {qdisc['handle']}"
    return DEFAULT


def shaped(place: Place, shaper: Shaper, do: Argv, check: Check, more: str = "") -> Iterator[Step]:
    """The step that puts a shaper there: of a root it is undone, and one beneath goes with it. more: of its title."""
    is_root = place.queue is None
    ours = ("sh", "-c", OURS, place.device, place.root)
    yield Step(
        host=place.end.host,
        title=f"{shaper.kind} shapes {place.name}{more}",
        do=do,
        undo=("tc", "qdisc", "del", "dev", place.device, "root") if is_root else None,
        present=ours if is_root else None,
        check=check,
        explain=what_would_work(place, shaper),
        lasting=True,
    )
