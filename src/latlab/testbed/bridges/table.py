"""Which virtual bridges there are. A new one is one file and one line here."""

from __future__ import annotations

from latlab.testbed.bridges.base import BridgeMaker
from latlab.testbed.bridges.kernel import TapBridge
from latlab.testbed.bridges.macvtap import Macvtap
from latlab.testbed.bridges.ovs import OvsBridge
from latlab.testbed.bridges.ovs_afxdp import OvsAfxdp
from latlab.testbed.bridges.user import UserNat
from latlab.testbed.bridges.vf import Vf
from latlab.testbed.bridges.vfio import Vfio
from latlab.testbed.bridges.xdp import XdpBridge

BRIDGES: dict[str, BridgeMaker] = {
    bridge.kind.name: bridge
    for bridge in (
        UserNat(),
        TapBridge(),
        Macvtap(),
        XdpBridge(),
        OvsBridge(),
        OvsAfxdp(),
        Vf(),
        Vfio(),
    )
}
