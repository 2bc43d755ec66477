"""What a kernel lacks is named by its module and by the symbol of its configuration, in every error alike."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latlab.model.errors import LabError
from latlab.testbed.bridges.base import ScratchBridge, lacking_tun, lacking_vhost
from latlab.testbed.bridges.macvtap import Macvtap
from latlab.testbed.bridges.vfio import lacking_driver, lacking_iommu
from latlab.testbed.kernel_parts import kernel_parts
from latlab.testbed.machine import Machine, assumed_machine
from latlab.testbed.site import Site

BARE = replace(assumed_machine(), exists=lambda path: False, list=lambda path: ("0",))


def without_vhost(machine: Machine) -> LabError | None:
    joint = SimpleNamespace(ports=[SimpleNamespace(wants=SimpleNamespace(vhost="on"))])
    return lacking_vhost(cast(Any, joint), Site("t", machine=machine))


def without_macvtap(_: Machine) -> LabError | None:
    async def refuse(*_: object, **__: object) -> Any:
        return SimpleNamespace(returncode=2)

    try:
        asyncio.run(
            Macvtap().tried(cast(Any, SimpleNamespace(run=refuse)), cast(ScratchBridge, SimpleNamespace(far="")))
        )
    except LabError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("lacking", "module"),
    [
        (lambda machine: lacking_tun(Site("t", machine=machine)), "tun"),
        (without_vhost, "vhost_net"),
        (without_macvtap, "macvtap"),
        (lacking_iommu, "vfio_pci"),
        (lacking_driver, "vfio_pci"),
    ],
    ids=["tun", "vhost", "macvtap", "vfio", "its driver"],
)
def test_an_error_of_a_run_names_module_and_symbol(lacking: Any, module: str) -> None:
    error = lacking(BARE)
    assert f"`sudo modprobe {module}`, on a kernel with {kernel_parts(module)[module]}" in error.remedy


def test_queueing_disciplines_have_their_symbols_by_one_rule() -> None:
    assert kernel_parts("sch_etf", "tun") == {"sch_etf": "CONFIG_NET_SCH_ETF", "tun": "CONFIG_TUN"}
