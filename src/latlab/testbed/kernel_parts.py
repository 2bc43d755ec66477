"""Parts of the kernel that a test bed may need: their modules, and the symbols of its configuration that make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from latlab.model.bridges import KINDS

SYMBOLS: Final[Mapping[str, str]] = {
    "8021q": "CONFIG_VLAN_8021Q",
    "veth": "CONFIG_VETH",
    "vhost_net": "CONFIG_VHOST_NET",
    **{module: symbol for kind in KINDS.values() for module, symbol in kind.kernel.items()},
}
"""By the name of the module, which may be built in."""


def kernel_parts(*modules: str) -> dict[str, str]:
    """{module: symbol} of these; sch_etf and the like have theirs by one rule (net/sched/Kconfig)."""
    by_rule = {module: f"CONFIG_NET_{module.upper()}" for module in modules if module.startswith("sch_")}
    return {module: by_rule.get(module) or SYMBOLS[module] for module in modules}


def load_remedy(module: str) -> str:
    """What puts the part into a kernel, for a reader."""
    return f"`sudo modprobe {module}`, on a kernel with {kernel_parts(module)[module]}"
