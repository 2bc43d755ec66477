"""The XDP bridge in its test bed: what it counts until the end is what the trust rules get, true or not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.analysis.evidence import CHECKS, Evidence
from latlab.recordings.cell import Bridge, RecordedCell
from latlab.result.types import Stream
from latlab.scenario import Scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.guests import described_bridges
from latlab.testbed.host_setup import namespace_name
from latlab.testbed.site import Site
from support.machine import run
from support.results import partial
from support.testbed.bridges import TAG, build, comes_back, joint_of, plug_in, real_site, with_guest

pytestmark = pytest.mark.real

CARRIED, EVERY = "xdp-carried", "xdp-carried-all"
EXCHANGES = 5
TAP = f"ll{TAG}t0"


@pytest.fixture
def here(tmp_path: Path, machine: None) -> Site:
    """This machine, in a separate network."""
    return replace(real_site("xdp", tmp_path), agent=str(find_agent()))


def judged(bridges: list[Bridge], host: str) -> set[str]:
    """The rules about XDP that are broken, had each exchange been a packet of a stream each way."""
    ways = {"down": (host, "vm1"), "up": ("vm1", host)}
    streams = [{"name": name, "talker": talker, "listener": listener} for name, (talker, listener) in ways.items()]
    counted = {name: partial(Stream, {"counts": {"received": EXCHANGES}}) for name in ways}
    cell = partial(RecordedCell, {"status": "ok", "streams": streams, "bridges": [one.document() for one in bridges]})
    evidence = Evidence(cell, counted)
    return {id_ for id_ in (CARRIED, EVERY) if any(CHECKS[id_](evidence))}


def after_exchanges(made: Scenario, site: Site, host: str, begin: Callable[[], None] = lambda: None) -> set[str]:
    """What is judged once the host and the guest have exchanged packets; begin: is called before they do."""

    async def exchange(bed: TestBed) -> set[str]:
        await plug_in(bed, made)
        begin()
        while "frames" not in described_bridges(made, site)[0].detail:  # it counts, and reports that once a second
            await asyncio.sleep(0.05)
        for _ in range(EXCHANGES):
            assert await comes_back(bed, made, host) == "came back"
        assert [again.ok for again in await bed.check_again()] == [True, True]
        return judged(described_bridges(made, site), host)

    async def session() -> set[str]:
        async with await build(made, site) as bed:
            return await exchange(bed)

    return asyncio.run(session())


def test_packets_from_port_to_port_are_redirected_and_the_counts_are_of_the_last_of_them(here: Site) -> None:
    made = with_guest("xdp")
    assert after_exchanges(made, here, "sensor") == set()
    (found,) = described_bridges(made, here)
    counts = re.match(rf"nic native, {TAP} native; frames redirected (\d+), passed \d+, dropped 0; ", found.detail)
    assert counts and int(counts[1]) >= 2 * EXCHANGES, found.detail


def test_packets_whose_ends_the_bridge_does_not_know_are_found_to_be_the_kernel_bridges(here: Site) -> None:
    made = with_guest("xdp")
    (port,) = joint_of(made).ports

    def forget() -> None:
        bridge = ("bridge", "-n", namespace_name(TAG, "ecu"))
        run(*bridge, "link", "set", "dev", TAP, "learning", "off")
        run(*bridge, "fdb", "del", port.mac, "dev", TAP, "master")

    assert after_exchanges(made, here, "sensor", forget) == {CARRIED}


def test_packets_of_the_vm_host_itself_are_found_to_be_the_kernel_bridges(here: Site) -> None:
    assert after_exchanges(with_guest("xdp"), here, "ecu") == {EVERY}
