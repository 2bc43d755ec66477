"""What prevents a cell from being built is one error, whose parts keep their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.scenario import parse
from latlab.testbed.images import Image
from latlab.testbed.machine import assumed_machine
from latlab.testbed.site import Site
from latlab.testbed.unavailable import _guests, _ways, loads_lacking, summed_up

NO_VFIO = LabError("no IOMMU", where="guests.vm1.bridge: vfio", remedy="intel_iommu=on")
NO_TOOL = LabError("stress-ng is not installed", where="loads.memory", remedy="`sudo apt install stress-ng`")


def test_one_reason_is_itself() -> None:
    assert summed_up([NO_VFIO]) is NO_VFIO


def test_several_keep_where_they_are_and_what_to_do() -> None:
    told = summed_up([NO_VFIO, NO_TOOL])
    assert told.what == "no IOMMU; stress-ng is not installed"
    assert told.where == "guests.vm1.bridge: vfio, loads.memory"
    assert told.remedy == "intel_iommu=on; `sudo apt install stress-ng`"


def test_what_two_have_in_common_is_reported_once() -> None:
    there = LabError(NO_TOOL.what, where="loads.files", remedy=NO_TOOL.remedy)
    told = summed_up([NO_TOOL, there])
    assert (told.what, told.where, told.remedy) == (NO_TOOL.what, "loads.memory, loads.files", NO_TOOL.remedy)


@pytest.mark.parametrize(
    ("link", "bridge", "refused"),
    [("veth", "tap", False), ("existing", "tap", True), ("existing", "ovs", True), ("existing", "user", False)],
)
def test_a_host_whose_uplink_was_there_does_not_reach_its_guests(link: str, bridge: str, *, refused: bool) -> None:
    kind = "netns" if link == "veth" else "ssh"
    hosts = {
        name: {"kind": kind} | ({"ssh": {"destination": f"{name}.lan"}} if kind == "ssh" else {})
        for name in ("sensor", "ecu")
    }
    parsed = parse(
        {
            "name": "within",
            "hosts": hosts,
            "links": [{"ends": ["sensor.eth1", "ecu.eth1"], "subnet": "10.78.0.0/24"}],
            "guests": {"vm1": {"host": "ecu", "uplink": "eth1", "bridge": bridge}},
            "streams": {
                "within": {"talker": "ecu", "listener": "vm1", "period": "1ms", "size": "64B"},
                "beyond": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"},
            },
            "duration": "1s",
        }
    )
    assert parsed.scenario, parsed.findings
    told = [reason for reason in _ways(parsed.scenario, Site("0a9f")) if "itself" in reason.what]
    assert [reason.where for reason in told] == ["streams.within"] * refused
    if refused:
        assert told[0].what.startswith("ecu.eth1 is not made for the run: it keeps its addresses")


def on_an_arm_board(image: Image) -> list[LabError]:
    """What of the image keeps a guest from running on a machine over ssh, which is an ARM board."""
    parsed = parse(
        {
            "name": "arm",
            "hosts": {"board": {"kind": "ssh", "ssh": {"destination": "192.0.2.1"}}},
            "guests": {"vm1": {"host": "board", "image": image.name}},
            "streams": {"up": {"talker": "vm1", "listener": "board", "period": "1ms", "size": "64B"}},
            "duration": "1s",
        }
    )
    scenario = parsed.scenario
    assert scenario, parsed.findings
    board = Site(
        "t", name="board", machine=replace(assumed_machine(), architecture="aarch64"), images={image.name: image}
    )
    reasons = _guests(scenario, Site("t", others={"board": board}))
    return [reason for reason in reasons if reason.where == "guests.vm1.image"]


def test_an_image_of_another_architecture_is_refused_with_what_builds_the_right_one() -> None:
    image = Image("small", Path("kernel"), Path("initramfs"), "", "rt", "6.1", "00", {}, "", 0, architecture="amd64")
    (refused,) = on_an_arm_board(image)
    assert refused.what == "the image small is for x86_64, and the machine it is to run on is aarch64"
    assert "latlab image build small --arch arm64" in refused.remedy
    assert on_an_arm_board(replace(image, architecture="arm64")) == []


OVER_SSH: dict[str, Any] = {"kind": "ssh", "ssh": {"destination": "192.0.2.1"}}


def tools_lacking(machine: dict[str, Any], tuning: dict[str, Any]) -> list[str]:
    """What a load lacks on that machine, which has none of the programs that schedule it."""
    parsed = parse(
        {
            "name": "loaded",
            "hosts": {"board": machine, "ecu": {"kind": "netns", "on": "board"}},
            "probes": {"idle": {"probe": "timer", "on": "ecu", "period": "1ms"}},
            "loads": {"busy": {"kind": "stress-ng", "on": "ecu", "what": "cpu"}},
            "tuning": {"ecu": {"load": tuning}},
            "duration": "1s",
        }
    )
    assert parsed.scenario, parsed.findings
    bare = replace(assumed_machine(), has_tool=lambda tool: tool not in ("chrt", "taskset", "setpriv"))
    site = Site("t", others={"board": Site("t", name="board", machine=bare)})
    return [str(one).partition(" (")[0] for one in loads_lacking(parsed.scenario, site)]


@pytest.mark.parametrize(
    ("tuning", "missing"),
    [({}, []), ({"cpus": [1]}, ["taskset"]), ({"fifo": 10, "cpus": [1]}, ["chrt", "taskset"])],
    ids=["nothing", "CPUs", "priority and CPUs"],
)
def test_what_schedules_a_load_on_another_machine_has_to_be_there(tuning: dict[str, Any], missing: list[str]) -> None:
    assert tools_lacking(OVER_SSH, tuning) == [
        f"loads.busy: {tool} is missing on ecu" for tool in ("setpriv", *missing)
    ]


def test_a_board_has_in_its_image_what_schedules_loads() -> None:
    assert tools_lacking({"kind": "board", "time": "virtual", "cpus": 2}, {"cpus": [1]}) == []
