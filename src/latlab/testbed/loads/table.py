"""Which kinds of load there are. A new one is one file and one line here."""

from __future__ import annotations

from latlab.testbed.loads.base import LoadKind
from latlab.testbed.loads.busy import BUSY
from latlab.testbed.loads.flood import FLOOD
from latlab.testbed.loads.iperf3 import IPERF3
from latlab.testbed.loads.netperf import NETPERF
from latlab.testbed.loads.stress_ng import STRESS_NG

LOADS: dict[str, LoadKind] = {kind.name: kind for kind in (FLOOD, IPERF3, NETPERF, BUSY, STRESS_NG)}
