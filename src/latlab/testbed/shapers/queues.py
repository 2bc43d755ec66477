"""Transmit queues: each traffic class has its own. Links that are made have theirs already, by the scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from latlab.scenario import Scenario
from latlab.testbed.shapers.base import Place
from latlab.testbed.step import Before, Check, Step

COUNT = 'ls -d "/sys/class/net/$0/queues/tx-"* | wc -l'
MORE = f'[ "$({COUNT})" -ge "$1" ] || ethtool -L "$0" combined "$1" || ethtool -L "$0" tx "$1"'
BACK = f'''[ "$({COUNT})" = "$1" ] ||
ethtool -L "$0" combined "$2" tx "$3" || ethtool -L "$0" combined "$2" || ethtool -L "$0" tx "$3"'''


def queue_steps(scenario: Scenario, place: Place, needed: int) -> Iterator[Step]:
    """A card with fewer queues than needed gets more, until the end of the cell (ethtool(8), --set-channels)."""
    link = next(link for link in scenario.links if place.end in link.ends)
    if scenario.link_is_created(link) or scenario.is_emulated(place.end):
        return
    yield Step(
        host=place.end.host,
        title=f"{place.end} has {needed} transmit queues",
        do=("sh", "-c", MORE, place.device, str(needed)),
        undo=("sh", "-c", BACK, place.device, "{queues}", "{combined}", "{tx}"),
        before=Before(("sh", "-c", f'{COUNT}; ethtool -l "$0" 2>/dev/null || true', place.device), former_queues),
        check=Check(
            ("sh", "-c", COUNT, place.device),
            expected=f"{needed} or more",
            read=lambda output: f"{needed} or more" if int(output) >= needed else output.strip(),
        ),
    )


def former_queues(output: str) -> Mapping[str, str]:
    """`{"queues": …, "combined": …, "tx": …}`: transmit queues there are, and ethtool's numbers; 0 for none."""
    count, _, rest = output.partition("\n")
    now = rest.partition("Current hardware settings:")[2]
    numbers = dict(re.findall(r"^(TX|Combined):\s+(\d+)$", now, re.MULTILINE))
    return {"queues": str(int(count)), "combined": numbers.get("Combined", "0"), "tx": numbers.get("TX", "0")}
