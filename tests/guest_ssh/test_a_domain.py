"""A libvirt domain that runs already is measured, and is afterwards as it was."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import Place, cells_of, until_measuring
from support.guests.foreign import PACKETS, System, counted, scenario
from support.guests.libvirt import DOMAIN, INTERFACE, PORT, Libvirt
from support.machine import run


@pytest.fixture
def place(libvirt: Libvirt, tmp_path: Path) -> Iterator[Place]:
    """A folder and a journal of this test's own, on the machine where libvirt is."""
    with Place(tmp_path) as made:
        yield made


def domain(libvirt: Libvirt, **parts: Any) -> dict[str, Any]:
    """The guest as a scenario has it."""
    ssh = {"destination": "127.0.0.1", "port": PORT, "config": str(libvirt.config)}
    return {"host": "ecu", "domain": DOMAIN, "ssh": ssh, "uplink": "lat0", "interface": INTERFACE, **parts}


def on_this_machine(place: Place, vm1: dict[str, Any], **parts: Any) -> Path:
    """A file with the scenario; the domain's host is the machine itself."""
    hosts = {"sensor": {"kind": "netns"}, "ecu": {"kind": "local"}}
    return scenario(place, vm1, **{"hosts": hosts, "links": [{"ends": ["sensor.eth0", "ecu.lat0"]}], **parts})


def as_it_is(libvirt: Libvirt) -> list[str]:
    """All of a domain that a run could change."""
    return [run("virsh", "domiflist", DOMAIN), libvirt.inside("ls -A /tmp; ip -br link; ip -br address")]


def test_a_domain_is_measured_and_left_as_it_was(place: Place, libvirt: Libvirt) -> None:
    before = as_it_is(libvirt)
    ended = place.latlab("run", on_this_machine(place, domain(libvirt)), "--json")
    assert ended.status == 0, ended.err
    assert counted(ended) == {name: (count, 0) for name, count in PACKETS.items()}
    assert as_it_is(libvirt) == before


def test_what_a_killed_lab_left_in_a_domain_is_taken_away_by_clean(place: Place, libvirt: Libvirt) -> None:
    before = as_it_is(libvirt)
    lab = place.start("run", on_this_machine(place, domain(libvirt), duration="60s"))
    lab.until("60 s")
    until_measuring(place, lab)
    assert as_it_is(libvirt) != before
    lab.signal(signal.SIGKILL)
    lab.process.wait()
    assert place.latlab("clean").status == 0
    assert as_it_is(libvirt) == before


def test_a_domain_takes_every_bridge_that_gives_it_a_tap(place: Place, libvirt: Libvirt) -> None:
    kinds = ["macvtap", "xdp", "user"]
    path = on_this_machine(place, domain(libvirt), matrix={"guests.vm1.bridge": kinds}, duration="1s")
    ended = place.latlab("run", path)
    assert ended.status == 0, ended.err
    cells = {cell["slug"]: cell for cell in cells_of(place.only_run()).values()}
    status = {slug.rpartition("=")[2]: cell["status"] for slug, cell in cells.items()}
    assert status == {"macvtap": "ok", "xdp": "ok", "user": "unavailable"}
    (without,) = (cell for cell in cells.values() if cell["status"] == "unavailable")
    assert without["reason"]["what"].startswith("a running domain cannot use user")


def test_a_domain_that_does_not_run_makes_the_cell_unavailable(place: Place, libvirt: Libvirt) -> None:
    ended = place.latlab("run", on_this_machine(place, domain(libvirt, domain="elsewhere")))
    assert ended.status == 3
    (cell,) = cells_of(place.only_run()).values()
    assert cell["reason"]["what"] == "libvirt does not answer, or has no domain elsewhere"
    run("virsh", "suspend", DOMAIN)
    assert "is paused" in place.latlab("run", on_this_machine(place, domain(libvirt))).out
    run("virsh", "resume", DOMAIN)


def test_a_domain_in_a_namespace_is_refused_with_the_reason(place: Place, system: System, libvirt: Libvirt) -> None:
    ended = place.latlab("run", scenario(place, domain(libvirt, uplink="eth0")))
    assert "libvirt's domains are on this machine itself, and ecu is a namespace" in ended.out
