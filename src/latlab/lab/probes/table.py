"""Which tools can be probes. A new one is one file and one line here."""

from __future__ import annotations

from latlab.lab.probes.base import ToolKind
from latlab.lab.probes.cyclictest import CYCLICTEST
from latlab.lab.probes.ddsperf import DDSPERF
from latlab.lab.probes.netperf import NETPERF
from latlab.lab.probes.sockperf import SOCKPERF
from latlab.lab.probes.timerlat import TIMERLAT

TOOLS: dict[str, ToolKind] = {kind.name: kind for kind in (DDSPERF, NETPERF, SOCKPERF, CYCLICTEST, TIMERLAT)}

OURS = ("ping", "dds", "timer")
"""The kinds that latlab's own agents measure."""
