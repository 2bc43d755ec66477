"""ARM boards reached over ssh: what a user with two of them on the desk does with an installed latlab."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

import latlab
import package
from latlab.testbed.agent_binary import AGENT, find_agent
from latlab.testbed.images.store import NESTED_INITRAMFS, find_image
from latlab.testbed.site import STATE
from support.agent.process import Agent
from support.agent.streams import MS, Stream, listen_spec, new_run_id, talk_spec
from support.boards.arm import ANSWER_S, CABLE, IMAGE, ArmBoard, arm_boards, with_sshd
from support.command import LATLAB, Place, cells_of
from support.machine import private_network, run
from support.packages.debian import Dist, quickly_built

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
ARCHITECTURE = "aarch64"
UNIT_TESTS = ROOT / "build" / f"unit-tests-{ARCHITECTURE}"
GUEST_IMAGE = "debian-cloud-arm64"
PACKETS = 100
PERIOD_MS = 10
MEASURED = (0, 4)
"""Exit codes of a run that has measured: whether it can be trusted is a matter of the machine."""


@pytest.fixture(scope="module")
def desk(arm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ArmBoard]]:
    """Two boards, for all tests of this file. Nothing outside this machine can be reached while they run."""
    folder = tmp_path_factory.mktemp("desk")
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(arm_cache)):
        image = find_image(IMAGE)
        assert image
        # That which has QEMU, for guests.
        initramfs = with_sshd(replace(image, initramfs=image.folder / NESTED_INITRAMFS), folder)
        with private_network():
            os.makedirs(STATE, exist_ok=True)
            run("mount", "-t", "tmpfs", "tmpfs", STATE)
            with arm_boards(initramfs, folder) as boards:
                yield boards


@pytest.fixture(scope="module")
def agents(arm_agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the agent for each architecture."""
    folder = tmp_path_factory.mktemp("agents")
    shutil.copy(find_agent(), folder / f"{AGENT}-{os.uname().machine}")
    shutil.copy(arm_agent, folder / f"{AGENT}-{ARCHITECTURE}")
    return folder


@pytest.fixture(scope="module")
def installed(agents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `latlab` of a virtual environment that has the wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = package.build(folder / "dist", agents, ["wheel"])
    venv.create(folder / "venv", with_pip=True)
    pip = (folder / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    subprocess.run(pip, check=True, timeout=1200)
    return folder / "venv/bin/latlab"


def on_the_desk(desk: dict[str, ArmBoard], **streams: tuple[str, str]) -> dict[str, Any]:
    """A scenario of the boards and their cable, and streams: {name: (talker, listener)}."""
    stream = {"period": f"{PERIOD_MS}ms", "size": "64B"}
    return {
        "name": "desk",
        "hosts": {name: {"kind": "ssh", "ssh": {"config": str(board.config)}} for name, board in desk.items()},
        "links": [{"ends": [f"{name}.{CABLE}" for name in desk], "subnet": "10.78.0.0/24"}],
        "streams": {name: {"talker": one, "listener": other, **stream} for name, (one, other) in streams.items()},
        "duration": f"{PACKETS * PERIOD_MS}ms",
    }


def measured(latlab_command: Path, folder: Path, scenario: dict[str, Any], **environment: str) -> Path:
    """The folder of the run of that scenario, by that `latlab` in that folder."""
    (folder / "desk.yaml").write_text(yaml.safe_dump(scenario))
    ran = subprocess.run(
        (latlab_command, "run", "desk.yaml", "--picture", "none"),
        cwd=folder, capture_output=True, text=True, check=False, env=environment, timeout=600,
    )  # fmt: skip
    assert ran.returncode in MEASURED, ran.stderr + ran.stdout
    (run,) = (folder / "runs").iterdir()
    return run


def counted(folder: Path) -> dict[str, tuple[int, int]]:
    """Of each stream how many packets were sent and how many came, of the only cell."""
    (result,) = json.loads((folder / "result.json").read_text())["cells"]
    return {name: (one["counts"]["sent"], one["counts"]["received"]) for name, one in result["streams"].items()}


def architectures(folder: Path) -> dict[str, str]:
    """{host: that of its kernel}, by the facts of the only cell."""
    (path,) = folder.glob("cells/*/*/facts-before.json")
    return {name: facts["kernel"]["architecture"] for name, facts in json.loads(path.read_text()).items()}


def test_a_lab_that_was_installed_from_the_wheel_measures_between_two_arm_boards(
    installed: Path, desk: dict[str, ArmBoard], tmp_path: Path
) -> None:
    before = {name: board.left() for name, board in desk.items()}
    scenario = on_the_desk(desk, there=("board1", "board2"), back=("board2", "board1"))
    # Nothing of these sources, nor of their agents, is known to it.
    alone = {key: value for key, value in os.environ.items() if not key.startswith(("LATLAB_", "PYTHON"))}
    folder = measured(installed, tmp_path, scenario, **alone, LATLAB_STATE=str(tmp_path / "state"))
    assert {name: board.left() for name, board in desk.items()} == before
    (cell,) = cells_of(folder).values()
    assert [clock["source"] for clock in cell["clocks"]] == ["exchange"]
    assert counted(folder) == dict.fromkeys(("there", "back"), (PACKETS, PACKETS))
    packets = latlab.load(folder).packets("all")
    stamps = ("wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user")
    assert {stamp: packets[f"{stamp}_tai_ns"].null_count() for stamp in stamps} == dict.fromkeys(stamps, 0)
    assert architectures(folder) == dict.fromkeys(desk, ARCHITECTURE)
    for board in desk.values():
        (agent,) = board.run("ls /var/lib/latlab/agents/*").split()
        assert board.run(agent, "--version").startswith(f"{AGENT} {latlab.__version__}, built for {ARCHITECTURE}")


def test_a_guest_of_an_arm_board_is_measured_and_nothing_but_its_image_stays(
    arm_cache: Path, desk: dict[str, ArmBoard], tmp_path: Path
) -> None:
    sender, vm_host = desk.values()
    # As its owner would: the errors of `latlab run` name these modules.
    vm_host.run("modprobe -a bridge tun vhost_net")
    before = {name: board.left() for name, board in desk.items()}
    guest = {"host": vm_host.name, "uplink": CABLE, "image": GUEST_IMAGE, "acceleration": "kvm", "memory": "192MiB"}
    streams = {"down": (sender.name, "vm1"), "up": ("vm1", sender.name)}
    scenario = on_the_desk(desk, **streams) | {"guests": {"vm1": guest}}
    environment = {**os.environ, "LATLAB_CACHE": str(arm_cache), "LATLAB_STATE": str(tmp_path / "state")}
    folder = measured(LATLAB, tmp_path, scenario, **environment)
    assert counted(folder) == dict.fromkeys(streams, (PACKETS, PACKETS))
    assert architectures(folder) == dict.fromkeys((*desk, "vm1"), ARCHITECTURE)
    (cell,) = cells_of(folder).values()
    assert [bridge["detail"] for bridge in cell["bridges"]] == ["packets carried by vhost-net"]
    assert {name: board.left() for name, board in desk.items()} == before
    (image,) = vm_host.run("ls /var/lib/latlab/images").split()
    assert find_digest(arm_cache).startswith(image)


def test_a_guest_and_its_arm_host_are_compared_by_kvms_clock(
    arm_cache: Path, desk: dict[str, ArmBoard], tmp_path: Path
) -> None:
    _, vm_host = desk.values()
    vm_host.run("modprobe -a bridge tun vhost_net")
    before = vm_host.left()
    guest = {"host": vm_host.name, "image": GUEST_IMAGE, "acceleration": "kvm", "memory": "192MiB"}
    streams = {"down": (vm_host.name, "vm1"), "up": ("vm1", vm_host.name)}
    scenario = on_the_desk(desk, **streams) | {"guests": {"vm1": guest}}
    environment = {**os.environ, "LATLAB_CACHE": str(arm_cache), "LATLAB_STATE": str(tmp_path / "state")}
    folder = measured(LATLAB, tmp_path, scenario, **environment)
    assert counted(folder) == dict.fromkeys(streams, (PACKETS, PACKETS))
    (cell,) = cells_of(folder).values()
    # Both clocks are made from one counter; no page of memory is coherent between host and guest.
    (clock,) = cell["clocks"]
    assert clock["source"] == "ptp_kvm" and clock["upper_ns"] - clock["lower_ns"] < 1_000_000
    assert vm_host.left() == before


def find_digest(cache: Path) -> str:
    """That of the guest's image."""
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        image = find_image(GUEST_IMAGE)
    assert image
    return image.digest


def measured_alone(board: ArmBoard, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of a stream from the board to itself what its agent, as it is found there, counted: talker's and listener's.

    folder: for the recordings, on the board.
    """
    here = "127.0.0.1"
    own = Stream(period_ns=PERIOD_MS * MS, count=PACKETS, source=here, target=here, sink=here)
    own = replace(own, talks_by="lo", heard_by="lo")
    there, run_id = ("ssh", "-F", str(board.config), board.name, "--"), new_run_id()
    with ExitStack() as running:
        listener = Agent(there, "listen", listen_spec(run_id, folder, own), AGENT)
        running.callback(listener.kill)
        listener.until("ready")
        talker = Agent(there, "talk", talk_spec(run_id, folder, own), AGENT)
        running.callback(talker.kill)
        talker.until("ready")
        talker.tell(start_in_ns=100 * MS)
        (sent,) = talker.until("done")["streams"]
        listener.until("complete")
        listener.tell(stop=True)
        (came,) = listener.until("done")["streams"]
        assert (talker.ended(), listener.ended()) == (0, 0)
    return sent, came


def test_the_debian_package_of_the_agent_installs_on_an_arm_board_and_measures_there(
    agents: Path, desk: dict[str, ArmBoard], tmp_path: Path
) -> None:
    board = desk["board2"]
    quickly_built(tmp_path, agents, ["agents"])
    package_file = Dist(tmp_path, agents).only(f"{AGENT}_*_arm64.deb")
    path = f"/tmp/{package_file.name}"
    # The board's first process is started from that path: a package must not be taken for it.
    board.run(f"mv /usr/bin/{AGENT} /tmp/its-own && mkdir /tmp/alone")
    try:
        assert board.run(f"command -v {AGENT} || echo none") == "none\n"
        board.run(f"cat >{path} && dpkg --install {path}", stdin=package_file.read_bytes())
        assert board.run(f"dpkg --status {AGENT} | grep ^Status") == "Status: install ok installed\n"
        assert board.run(AGENT, "--version").startswith(f"{AGENT} {latlab.__version__}, built for {ARCHITECTURE}")
        sent, came = measured_alone(board, Path("/tmp/alone"))
        assert (sent["sent"], sent["tx_sched"], sent["tx_soft"], came["received"]) == (PACKETS,) * 4
        board.run(f"dpkg --purge {AGENT}")
        assert board.run(f"command -v {AGENT} || echo none") == "none\n"
    finally:
        board.run(f"mv /tmp/its-own /usr/bin/{AGENT} && rm -rf /tmp/alone {path}")


def test_a_board_that_reboots_fails_its_cell_and_the_next_one_is_measured(
    arm_agent: Path, desk: dict[str, ArmBoard], tmp_path: Path
) -> None:
    (tmp_path / f"{AGENT}-{ARCHITECTURE}").symlink_to(arm_agent)
    path = tmp_path / "desk.yaml"
    scenario = on_the_desk(desk, there=("board1", "board2"), back=("board2", "board1"))
    path.write_text(yaml.safe_dump(scenario | {"duration": "20s", "repeat": 2}))
    before = desk["board1"].left()
    with Place(tmp_path) as place:
        place.patience_s = ANSWER_S
        lab = place.start("run", path, "--verbose")
        lab.until("measuring")
        # What it had in memory is gone: recordings, the agent, the folders of the run, its interfaces' settings.
        desk["board2"].reboot()
        ended = lab.ended()
        assert ended.status == 3, ended.err + ended.out
        first, second = sorted(cells_of(place.only_run()).values(), key=lambda cell: cell["order"])
        assert (first["status"], second["status"]) == ("failed", "ok"), ended.err
        assert "board2" in first["reason"]["what"] + first["reason"]["where"]
        assert place.latlab("clean").status == 0
        assert place.trace()["journals"] == []
    assert desk["board1"].left() == before


@pytest.mark.parametrize("crate", ["wire", "sys"])
def test_all_unit_tests_of_the_agent_pass_on_an_arm_kernel(crate: str, desk: dict[str, ArmBoard]) -> None:
    program = UNIT_TESTS / crate
    assert program.is_file(), "`make other-tests` builds it"
    board = desk["board1"]
    board.run(f"gzip -dc >/tmp/{crate} && chmod 755 /tmp/{crate}", stdin=gzip.compress(program.read_bytes(), 1))
    sources = (ROOT / "agent" / crate / "src").rglob("*.rs")
    written = sum(path.read_text().count("#[test]") for path in sources)
    said = board.run(f"cd /tmp && ./{crate} --test-threads 1")
    assert f"test result: ok. {written} passed; 0 failed; 0 ignored;" in said, said
