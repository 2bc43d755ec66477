"""XDP: frames between the uplink and the guests' taps are redirected before the kernel's network stack sees them.

Our own program does it (docs/reference/xdp-bridge.md), next to a kernel bridge that gets everything it does not know.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any

from latlab.hosts import MACHINE, Host
from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.bridges.base import CHECKSUM_OFFLOADS_OFF, GuestPort, Joint, Plug, ScratchBridge
from latlab.testbed.bridges.kernel import TapBridge, bridge_device, tap_device, tap_plug
from latlab.testbed.bridges.offloads import lacking_tags, tags_in_frames, whole_frames
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Service, Step

READY_MS = 10_000
KERNEL = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, and a link that accepts an XDP program"
# The agent prints its counts once a second.
COUNTED_ANEW = """
told=$(grep -c progress "$1")
for again in $(seq 100); do
  [ "$(grep -c progress "$1")" = "$told" ] || { echo told; break; }
  sleep 0.05
done
"""


class XdpBridge(TapBridge):
    """The kernel bridge of `tap`, and latlab's XDP bridge on its ports."""

    kind = bridges.XDP
    is_tried = True

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """Prerequisites of the kernel bridge; ethtool; a second port: to the host itself the kernel bridge carries all.

        And VLAN tags, where streams have them: the uplink must leave them in its frames.
        """
        if not joint.uplink and len(joint.ports) == 1:
            return LabError(
                f"XDP redirects from port to port, and {joint.ports[0].guest} has the only one",
                remedy="an uplink, a second guest, or bridge: tap",
            )
        return super().lacking(joint, site) or lacking_tags(joint, site)

    async def tried(self, host: Host, scratch: ScratchBridge) -> str:
        """Our own agent: it ends as soon as its standard input does."""
        spec = {"bridge": scratch.bridge, "ports": [scratch.uplink, scratch.tap], "mode": "auto", "realtime": {}}
        said = await host.run((str(find_agent()), "bridge"), input=json.dumps(spec).encode() + b"\n", check=False)
        events = {event["event"]: event for line in said.stdout.splitlines() if (event := json.loads(line))}
        if ready := events.get("ready"):
            modes = {port["interface"]: port["mode"] for port in ready["ports"]}
            return f"{modes[scratch.uplink]} on a veth, {modes[scratch.tap]} on a tap"
        refused = events.get("error", {"what": re.sub(r"\s+", " ", said.stderr) or "no answer", "remedy": ""})
        raise LabError(refused["what"], remedy=refused["remedy"] or KERNEL)

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """The kernel bridge; whole frames, tags in them, from the uplink; then each port's program, and its counts."""
        ports = [*([joint.uplink] if joint.uplink else ()), *(tap_device(port, site) for port in joint.ports)]
        log = site.log(f"xdp-bridge-{joint.number}")
        service = Service(
            host=joint.host,
            title="redirect known frames between the bridge's ports",
            argv=(site.agent, "bridge"),
            log=log,
            spec={
                "bridge": bridge_device(joint, site),
                "ports": ports,
                "mode": "auto",
                "realtime": {
                    "fifo": None,
                    "cpus": None,
                    "lock_memory": False,
                    "cpu_dma_latency_us": None,
                    "timer_slack_ns": None,
                },
            },
            ready=Check(("grep", "-c", '"event":"ready"', log), expected="1", within_ms=READY_MS, at=MACHINE),
        )
        counted = Step(
            host=joint.host,
            title="have the XDP bridge print its counts again",
            do=(),
            check=Check(("sh", "-c", COUNTED_ANEW, "sh", log), expected="told", at=MACHINE),
            closing=True,
        )
        return [*super().before_guests(joint, site), *whole_frames(joint), *tags_in_frames(joint), service, counted]

    def detail(self, joint: Joint, site: Site) -> str:
        """In which mode each port's program runs, native in the driver or generic above it, and what all have counted.

        docs/reference/agent.md has the words of the counts: the trust rules read them. The last step of a cell has made
        them those of its end.
        """
        log = site.logged(f"xdp-bridge-{joint.number}")
        said: dict[str, list[dict[str, Any]]] = {}
        for line in log.splitlines():
            with contextlib.suppress(ValueError, LookupError, TypeError):
                event = json.loads(line)
                said[event["event"]] = event["ports"]
        modes = ", ".join(f"{port['interface']} {port['mode']}" for port in said.get("ready", ()))
        counts = ", ".join(
            f"{key} {sum(port[key] for port in said['progress'])}"
            for key in ("redirected", "passed", "dropped")
            if said.get("progress") and all(port.get(key) is not None for port in said["progress"])
        )
        return "; ".join(filter(None, (modes, f"frames {counts}" if counts else "")))

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """The guest's tap; the guest computes every checksum itself."""
        return tap_plug(port, site, CHECKSUM_OFFLOADS_OFF)
