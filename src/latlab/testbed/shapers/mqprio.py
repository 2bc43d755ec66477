"""Traffic classes by priority, each with its own queues (tc-mqprio(8)); taprio has the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from latlab.scenario.shapers import PRIORITIES, Classes, Mqprio
from latlab.testbed.shapers.base import Qdisc, QdiscPlace, ShaperKind, in_words
from latlab.testbed.step import Argv, Step


class MqprioKind(ShaperKind):
    """tc-mqprio(8)."""

    use = "queues by priority"
    tried = ("num_tc", "2", "map", "0", "1", "queues", "1@0", "1@1", "hw", "0")

    def steps(self, shaper: Mqprio, place: QdiscPlace) -> Iterator[Step]:
        """One step."""
        words = ("mqprio", *class_words(shaper), "hw", str(int(shaper.offload)))
        expected = in_words({"kind": "mqprio", "options": class_options(shaper)}, classes_in_words)
        yield self.shaped(place, shaper, place.replaced(*words), place.check(expected, classes_in_words))


def class_words(shaper: Classes) -> Argv:
    """`num_tc 2 map 1 1 … queues 1@0 2@1`."""
    queues = [f"{len(queues)}@{queues[0]}" for queues in _queues(shaper)]
    return ("num_tc", str(shaper.class_count), "map", *map(str, priority_map(shaper)), "queues", *queues)


def priority_map(shaper: Classes) -> list[int]:
    """The traffic class of each socket priority, 16 of them."""
    return [shaper.class_of(priority) for priority in range(PRIORITIES)]


def class_options(shaper: Classes) -> Qdisc:
    """What `tc -j` is to say of the classes."""
    queues = [{"offset": queues[0], "count": len(queues)} for queues in _queues(shaper)]
    return {"tc": shaper.class_count, "map": priority_map(shaper), "queues": queues}


def classes_in_words(options: Qdisc) -> str:
    """`2 classes, priorities 1 1 …, queues 1@0 2@1`. mqprio reports the first and last queue, taprio first and
    count.
    """
    queues = " ".join(map(_queues_in_words, options["queues"]))
    return f"{options['tc']} classes, priorities {' '.join(map(str, options['map']))}, queues {queues}"


def _queues_in_words(queues: Any) -> str:
    if isinstance(queues, dict):
        return f"{queues['count']}@{queues['offset']}"
    first, last = queues
    return f"{last - first + 1}@{first}"


def _queues(shaper: Classes) -> list[range]:
    return [shaper.queues_of(number) for number in range(shaper.class_count)]
