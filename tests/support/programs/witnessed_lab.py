"""A lab with a witness: `witnessed_lab.py COUNTS latlab ARGUMENT…` has filters of the kernel (tc(8), flower) count what
comes in at ecu's eth0 in VLANs 5 and 6, of any EtherType, by VLAN and by the priority in its tag, and reads at the end
that it was COUNTS: `5/0: 12, 5/7: 34`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from latlab.cli import main
from latlab.scenario import Scenario
from latlab.testbed import makers
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step

COUNT = """\
tc qdisc add dev eth0 clsact
for vlan in 5 6; do
  for priority in 0 1 2 3 4 5 6 7; do
    tc filter add dev eth0 ingress protocol 802.1Q flower vlan_id $vlan vlan_prio $priority action ok
  done
done
"""


def counted(output: str) -> str:
    """`VLAN/PRIORITY: PACKETS` of each filter that took any, as `tc -s -j filter show` printed them."""
    found = {}
    for entry in json.loads(output):
        options = entry.get("options", {})
        if "keys" in options:
            keys = options["keys"]
            found[keys["vlan_id"], keys["vlan_prio"]] = options["actions"][0]["stats"]["packets"]
    return ", ".join(f"{vlan}/{priority}: {count}" for (vlan, priority), count in sorted(found.items()) if count)


def witness(expected: str) -> None:
    """Nothing; from now on every test bed counts, and its last step reads the counts."""

    def steps(scenario: Scenario, site: Site) -> Iterator[Step]:
        yield Step("ecu", "count what comes in", ("sh", "-ec", COUNT))
        show = ("tc", "-s", "-j", "filter", "show", "dev", "eth0", "ingress")
        yield Step("ecu", "tags by priority", (), check=Check(show, expected, counted), closing=True)

    makers.MAKERS = (*makers.MAKERS, steps)


if __name__ == "__main__":
    witness(sys.argv[1])
    sys.argv = sys.argv[2:]
    main()
