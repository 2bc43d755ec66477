"""User NAT: QEMU's own network stack stands between the guest and the host's sockets; no privilege is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.scenario.network import USER_GATEWAY, USER_GUEST, USER_NETWORK
from latlab.testbed.bridges.base import BridgeMaker, GuestPort, Joint, Plug
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step


class UserNat(BridgeMaker):
    """Inwards only what is forwarded arrives; outwards the guest's packets come from the host's address."""

    kind = bridges.USER

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """Nothing: it is a part of QEMU."""
        return None

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """Return no steps."""
        return ()

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """QEMU's user network, with each port that a stream or a load needs inwards."""
        return Plug(",".join(self._options(joint, port, site)), form="user")

    def carries_in_kernel(self, joint: Joint, site: Site) -> str:
        """QEMU's slirp."""
        return "QEMU"

    def _options(self, joint: Joint, port: GuestPort, site: Site) -> Iterator[str]:
        yield "user"
        yield f"net={USER_NETWORK},host={USER_GATEWAY.ip},dhcpstart={USER_GUEST.ip}"
        for protocol, number in site.inward.get(port.guest, ()):
            yield f"hostfwd={protocol}:{joint.address.ip}:{number}-{USER_GUEST.ip}:{number}"
