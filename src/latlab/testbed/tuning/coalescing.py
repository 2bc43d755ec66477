"""How long the NIC's receive interrupts may wait for more packets (interrupt coalescing; ethtool(8), --coalesce).

Where the card or its driver adapts that to the traffic, a packet waits longer next to load than alone:
igb and igc do so with rx-usecs 3, their default, and then hold interrupts back for up to 250 us.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from latlab.scenario import Scenario
from latlab.scenario.guests import facts_of
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Step

ADAPTIVE = "Adaptive RX: on"
SET = f"""\
case $(ethtool -c "$0") in *"{ADAPTIVE}"*) ethtool -C "$0" adaptive-rx off || exit;; esac
ethtool -C "$0" rx-usecs "$1"
"""
RESTORE = 'ethtool -C "$0" rx-usecs "$1" && { [ "$2" = off ] || ethtool -C "$0" adaptive-rx on; }'
"""The kernel refuses adaptive-rx, off too, of drivers that do not know it."""
NO_SETTING = "no such setting"


def coalescing_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each interface whose coalescing is set; of our guests' cards only real ones have any."""
    guest = scenario.guests.get(host)
    if guest is not None and guest.is_ours and not facts_of(guest).gives_device:
        return
    for interface, wait_ns in scenario.tuning[host].coalescing.items():
        wait_us = str(wait_ns // 1_000)
        read = ("ethtool", "-c", interface)
        yield Step(
            host=host,
            title=f"receive interrupts of {interface} wait {wait_us} us at most",
            do=("sh", "-c", SET, interface, wait_us),
            undo=("sh", "-c", RESTORE, interface, "{wait}", "{adaptive}"),
            before=Before(read, read=former),
            check=Check(read, f"{wait_us} us", read=in_words),
            optional=True,
            lasting=True,
        )


def in_words(output: str) -> str:
    """Return what `ethtool -c` prints of receiving: `3 us`, or `3 us, adaptive`; NO_SETTING where it has none."""
    found = re.search(r"^rx-usecs:\s*(\d+)", output, re.MULTILINE)
    if found is None:
        return NO_SETTING
    return f"{found[1]} us" + (", adaptive" if ADAPTIVE in output else "")


def former(output: str) -> dict[str, str]:
    """Return, as `wait` and `adaptive`, what RESTORE is given for what `ethtool -c` prints now."""
    wait, _, adaptive = in_words(output).partition(", ")
    return {"wait": wait.removesuffix(" us"), "adaptive": "on" if adaptive else "off"}
