"""Which tools can be probes. A new one is one file and one line here."""

from __future__ import annotations

from latlab.testbed.probes.base import ToolKind
from latlab.testbed.probes.cyclictest import CYCLICTEST
from latlab.testbed.probes.ddsperf import DDSPERF
from latlab.testbed.probes.netperf import NETPERF
from latlab.testbed.probes.sockperf import SOCKPERF
from latlab.testbed.probes.timerlat import TIMERLAT

TOOLS: dict[str, ToolKind] = {kind.name: kind for kind in (DDSPERF, NETPERF, SOCKPERF, CYCLICTEST, TIMERLAT)}

OURS = ("ping", "dds", "timer")
"""The kinds that latlab's own agents measure."""
