"""A shaper that the kernel or the NIC refuses: what is there, and what would work with it."""

from __future__ import annotations

import re

from latlab.scenario.shapers import Cbs, Etf, Mqprio, Shaper, Taprio
from latlab.testbed.shapers.base import Place
from latlab.testbed.step import Explain

LOOK = """ethtool -i "$0" 2>/dev/null
ethtool -T "$0" 2>/dev/null
echo "tx-queues: $(ls -d "/sys/class/net/$0/queues/tx-"* | wc -l)"
echo "kernel: $(uname -r)"
"""


def what_would_work(place: Place, shaper: Shaper) -> Explain:
    """Asked of the interface once its shaper was refused."""
    return Explain(("sh", "-c", LOOK, place.device), lambda output: refusal(place.device, shaper, output))


def refusal(device: str, shaper: Shaper, output: str) -> str:
    """The NIC, its driver and what it has, and which mode would work there."""
    facts = dict(re.findall(r"^(driver|firmware-version|tx-queues|kernel): (.+)$", output, re.MULTILINE))
    clock = re.search(r"^(?:PTP Hardware Clock|Hardware timestamp provider index): (\d+)$", output, re.MULTILINE)
    firmware = facts.get("firmware-version", "").strip()
    there = [
        f"driver {facts.get('driver', 'unknown')}" + (f" (firmware {firmware})" if firmware not in ("", "N/A") else ""),
        f"{facts.get('tx-queues', 'no')} transmit queues",
        f"PTP clock {clock[1]}" if clock else "no PTP clock",
        f"kernel {facts.get('kernel', 'unknown')}",
    ]
    return f"{device}: {', '.join(there)}; {_instead(shaper, bool(clock))}"


def _instead(shaper: Shaper, has_clock: bool) -> str:
    if isinstance(shaper, Taprio):
        if shaper.mode == "offload":
            why = "" if has_clock else "full offload needs a NIC with a PTP clock; "
            return f"{why}mode: txtime-assist or mode: software works with a transmit queue for each class"
        return "it needs sch_taprio (CONFIG_NET_SCH_TAPRIO), and as many transmit queues as its classes have"
    if isinstance(shaper, Etf | Cbs | Mqprio) and shaper.offload:
        return "offload: false works with any NIC"
    module = {"etf": "sch_etf", "cbs": "sch_cbs", "mqprio": "sch_mqprio", "tbf": "sch_tbf"}[shaper.kind]
    return f"it needs {module} (CONFIG_NET_{module.upper()})"
