"""Which virtual bridges there are. A new one is one file and one line here."""

from __future__ import annotations

from latlab.lab.bridges.base import Bridge
from latlab.lab.bridges.kernel import TapBridge
from latlab.lab.bridges.macvtap import Macvtap
from latlab.lab.bridges.ovs import OvsBridge
from latlab.lab.bridges.ovs_afxdp import OvsAfxdp
from latlab.lab.bridges.user import UserNat
from latlab.lab.bridges.vfio import Vfio
from latlab.lab.bridges.xdp import XdpBridge

BRIDGES: dict[str, Bridge] = {
    bridge.kind.name: bridge
    for bridge in (
        UserNat(),
        TapBridge(),
        Macvtap(),
        XdpBridge(),
        OvsBridge(),
        OvsAfxdp(),
        Vfio(),
    )
}
