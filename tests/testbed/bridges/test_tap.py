"""The kernel bridge in its test bed: what the uplink was before is left as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from latlab.model.errors import LabError
from latlab.testbed.apply import TestBed
from latlab.testbed.makers import make_hosts
from latlab.testbed.site import Site
from support.machine import dump, run
from support.testbed.bridges import TAG, assert_no_trace, bridge_steps, lay_cable, on_a_cable, real_site

pytestmark = pytest.mark.real


@pytest.fixture
def here(tmp_path: Path, machine: None) -> Site:
    """This machine, in a separate network, with a cable between two interfaces that are there already."""
    lay_cable()
    return real_site("tap", tmp_path)


@pytest.mark.parametrize("kind", ["tap", "xdp"])
def test_an_uplink_that_is_a_port_already_is_refused_by_the_name_of_its_bridge(
    here: Site, journals: Path, kind: str
) -> None:
    run("ip", "link", "add", "theirs", "type", "bridge")
    run("ip", "link", "set", "near", "master", "theirs")
    before = dump()

    async def session() -> None:
        made = on_a_cable(kind)
        async with TestBed(TAG, make_hosts(made, here)) as bed:
            await bed.apply(bridge_steps(made, here))

    with pytest.raises(LabError) as refused:
        asyncio.run(session())
    assert refused.value.what.startswith("near is not a port of another bridge: ")
    assert refused.value.what.endswith("expected 'no bridge', actual 'theirs'")
    assert refused.value.where == "ecu"
    assert "`ip link set dev near nomaster`" in refused.value.remedy
    assert_no_trace(before, journals)
