"""Which kinds of load there are. A new one is one file and one line here."""

from __future__ import annotations

from latlab.lab.loads.base import LoadKind
from latlab.lab.loads.flood import FLOOD
from latlab.lab.loads.iperf3 import IPERF3
from latlab.lab.loads.netperf import NETPERF

LOADS: dict[str, LoadKind] = {kind.name: kind for kind in (FLOOD, IPERF3, NETPERF)}
