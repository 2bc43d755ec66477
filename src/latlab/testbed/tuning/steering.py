"""Which receive queue takes the packets of a VLAN priority, in the NIC (ethtool(8), --config-ntuple).

The NIC finds the priority in the upper three bits of the tag. In a mask of ethtool a bit that is set does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step

PRIORITY_SHIFT = 13
NOT_PRIORITY = "0x1fff"
NO_RULE = "no rule"

FIND = (
    'ethtool -n "$0" | awk -v vlan="$1" -v queue="$2" \''
    '/^Filter:/ {id = $2; asks = ""} '
    '/ mask: / && $NF !~ /^(0x)?[Ff:]+$/ {asks = asks $1 $2 "/" $NF} '
    '/ to queue / && $NF == queue && asks == "VLAN:" vlan "/0x1fff" {print id}\''
)
"""The ids of the rules that ask for tag $1 by its priority, for nothing else, and steer to queue $2 of interface $0."""
PRESENT = f"{FIND} | grep -q ."
DELETE = f'for id in $({FIND}); do ethtool -N "$0" delete "$id" || exit; done'


def steering_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each priority that is steered."""
    for interface, queues in scenario.tuning[host].steering.items():
        for priority, queue in queues.items():
            yield _step(host, interface, priority, queue)


def _step(host: str, interface: str, priority: int, queue: int) -> Step:
    vlan = f"{priority << PRIORITY_SHIFT:#x}"
    rule = ("flow-type", "ether", "vlan", vlan, "m", NOT_PRIORITY, "action", str(queue))
    return Step(
        host=host,
        title=f"{interface} puts VLAN priority {priority} into receive queue {queue}",
        do=("ethtool", "-N", interface, *rule),
        undo=("sh", "-c", DELETE, interface, vlan, str(queue)),
        present=("sh", "-c", PRESENT, interface, vlan, str(queue)),
        check=Check(("ethtool", "-n", interface), expected=f"queue {queue}", read=lambda text: steered(text, vlan)),
        optional=True,
        lasting=True,
    )


def steered(output: str, vlan: str) -> str:
    """Where `ethtool -n` says that the tag goes by its priority alone: `queue 3`; NO_RULE where no rule asks that."""
    found = []
    for rule in output.split("\n\n"):
        asked = [line.strip() for line in re.findall(r"^.* mask: (?!(?:0x)?[Ff:]+$).*$", rule, re.MULTILINE)]
        if asked == [f"VLAN: {vlan} mask: {NOT_PRIORITY}"]:
            found += re.findall(r"Action: (?:Direct to )?(.*)", rule)
    return ", ".join(found) or NO_RULE
