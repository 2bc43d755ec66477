"""A lab with a witness: `witnessed_lab.py COUNTS latlab ARGUMENT…` has filters of the kernel (tc(8), flower) count what
comes in at ecu's eth0 by the priority in its VLAN tag, and reads at the end that it was COUNTS: `0: 12, 7: 34`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from latlab import lab
from latlab.cli import main
from latlab.lab.site import Site
from latlab.lab.step import Check, Step
from latlab.scenario import Scenario

COUNT = """\
tc qdisc add dev eth0 clsact
for priority in 0 1 2 3 4 5 6 7; do
  tc filter add dev eth0 ingress protocol 802.1Q flower vlan_id 5 vlan_prio $priority vlan_ethtype ipv4 action ok
done
"""


def counted(output: str) -> str:
    """`PRIORITY: PACKETS` of each filter that took any, as `tc -s -j filter show` printed them."""
    found = {}
    for entry in json.loads(output):
        options = entry.get("options", {})
        if "keys" in options:
            found[options["keys"]["vlan_prio"]] = options["actions"][0]["stats"]["packets"]
    return ", ".join(f"{priority}: {count}" for priority, count in sorted(found.items()) if count)


def witness(expected: str) -> None:
    """Nothing; from now on every test bed counts, and its last step reads the counts."""

    def steps(scenario: Scenario, site: Site) -> Iterator[Step]:
        yield Step("ecu", "count what comes in", ("sh", "-ec", COUNT))
        show = ("tc", "-s", "-j", "filter", "show", "dev", "eth0", "ingress")
        yield Step("ecu", "tags by priority", (), check=Check(show, expected, counted), closing=True)

    lab.MAKERS = (*lab.MAKERS, steps)


if __name__ == "__main__":
    witness(sys.argv[1])
    sys.argv = sys.argv[2:]
    main()
