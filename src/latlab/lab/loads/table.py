"""Which kinds of load there are. A new one is one file and one line here."""

from __future__ import annotations

from latlab.lab.loads.base import LoadKind
from latlab.lab.loads.busy import BUSY
from latlab.lab.loads.flood import FLOOD
from latlab.lab.loads.iperf3 import IPERF3
from latlab.lab.loads.netperf import NETPERF
from latlab.lab.loads.stress_ng import STRESS_NG

LOADS: dict[str, LoadKind] = {kind.name: kind for kind in (FLOOD, IPERF3, NETPERF, BUSY, STRESS_NG)}
