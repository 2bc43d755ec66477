"""Which receive queues the NIC spreads flows over (receive side scaling; ethtool(8), --set-rxfh-indir).

The NIC hashes a flow's addresses and ports, and looks the queue up in a table. A frame without a hash, as one of PTP
over Ethernet or of a raw stream, goes to queue 0 whatever the table says. So a table without queue 0 keeps TCP and UDP
away from them, on cards that cannot steer by VLAN priority.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Step

NO_TABLE = "no table"


def scaling_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each interface whose flows are spread over chosen queues."""
    for interface, queues in scenario.tuning[host].rss.items():
        weights = ["1" if queue in queues else "0" for queue in range(max(queues) + 1)]
        yield Step(
            host=host,
            title=f"{interface} spreads flows over receive queues {_listed(queues)}",
            do=("ethtool", "-X", interface, "weight", *weights),
            undo=("sh", "-c", 'ethtool -X "$0" $1', interface, "{before}"),
            before=Before(("ethtool", "-x", interface), read=shares),
            check=Check(("ethtool", "-x", interface), _listed(queues), read=lambda text: _listed(table(text))),
            optional=True,
            lasting=True,
        )


def table(output: str) -> list[int]:
    """Return the queue of each of the table's entries, from what `ethtool -x` prints; none where there is no table."""
    rows = re.findall(r"^ *\d+:((?: +\d+)+) *$", output, re.MULTILINE)
    return [int(queue) for row in rows for queue in row.split()]


def shares(output: str) -> dict[str, str]:
    """Return, as `before`, what `ethtool -X` is given for the shares that the queues have now."""
    entries = table(output)
    count = max(entries, default=0) + 1
    if all(queue == place % count for place, queue in enumerate(entries)):
        return {"before": "default"}
    found = Counter(entries)
    return {"before": " ".join(("weight", *(str(found[queue]) for queue in range(count))))}


def _listed(queues: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(queues)))) or NO_TABLE
