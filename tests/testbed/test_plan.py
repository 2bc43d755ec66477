"""The plan: everything that will be done, to read and to paste."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from latlab.scenario import parse
from latlab.testbed.guests.start import TAG, planned_site
from latlab.testbed.loads import plan_loads
from latlab.testbed.places import Places
from latlab.testbed.plan import UNTIL_READY, Command, PlannedCell, plan_text
from latlab.testbed.site import Site
from latlab.testbed.tuning.cpus import HALT_POLL
from support.machine import dump, scenario

HOSTS = {"sensor": "netns", "ecu": "netns"}
UP = {"from": "sensor", "to": "ecu"}

SITE = Site(TAG)


def two_cells() -> list[PlannedCell]:
    idle = scenario(HOSTS)
    busy = scenario(HOSTS, loads={"iperf": {"kind": "iperf3", **UP}})
    talk = Command("sensor", ("latlab-agent", "talk"), "SCHED_FIFO 90")
    return [
        PlannedCell("loads=none", idle, SITE, (), (talk,)),
        PlannedCell("loads=iperf", busy, SITE, plan_loads(busy, 10**9, Places()), (talk,)),
    ]


def test_what_cells_share_stands_once_and_what_differs_by_its_cell() -> None:
    text = plan_text(two_cells())
    assert text.count("ip netns add latlab-RUN-sensor") == 1
    common, idle, busy = text.split("# ---- Cell ")[0], *text.split("# ---- Cell ")[1:]
    assert "ip -n latlab-RUN-sensor link add" in common
    assert "iperf3" not in common + idle
    assert "ip netns exec latlab-RUN-sensor iperf3 --client" in busy
    assert "# sensor: SCHED_FIFO 90\nip netns exec latlab-RUN-sensor latlab-agent talk &" in idle


@pytest.mark.slow
@pytest.mark.parametrize(
    ("process", "ready", "says"),
    [
        (
            "sleep 60",
            'sh -c "echo not yet; exit 1"',
            "start vm1: 'sh -c echo not yet; exit 1' expected 'answers' within 3 s",
        ),
        ("sleep 60", "sleep 50", "start vm1: 'sleep 50' expected 'answers' within 3 s, actual ''"),
        ("true", "false", "start vm1: it ended"),
        ("sleep 60", "rm once", ""),
    ],
    ids=["refuses", "hangs", "ended", "ready"],
)
def test_a_pasted_service_is_waited_for_as_long_as_by_a_run_and_what_it_printed_is_shown(
    tmp_path: Path, process: str, ready: str, says: str
) -> None:
    (tmp_path / "vm1.log").write_text("its last words\n")
    script = f"""{UNTIL_READY}
        {process} >/dev/null 2>&1 & service=$!
        (sleep 0.5; touch once) &
        status=0; until_ready 3 $service 'start vm1' vm1.log answers {ready} || status=$?
        kill $service 2>/dev/null
        exit $status"""
    began = time.monotonic()
    ended = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert time.monotonic() - began < 20
    assert (ended.returncode, ended.stderr.startswith(says)) == (1 if says else 0, True), ended.stderr
    assert ("its last words" in ended.stderr) == bool(says)


def test_a_cell_with_another_test_bed_has_its_own_commands() -> None:
    cells = [
        PlannedCell(f"mtu={mtu}", scenario(HOSTS, [{"ends": ["sensor.eth0", "ecu.lat0"], "mtu": mtu}]), SITE)
        for mtu in (1500, 9000)
    ]
    common, *own = plan_text(cells).split("# ---- Cell ")
    assert "ip" not in common
    for part, mtu in zip(own, (1500, 9000), strict=True):
        assert "ip netns add" in part
        assert f"mtu {mtu}" in part
        assert "link del dev eth0" in part
        assert 'ip netns del "$0"' in part


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_plan_of_cells_with_test_beds_of_their_own_can_be_pasted_whole() -> None:
    before = dump()
    cells = [
        PlannedCell(f"mtu={mtu}", scenario(HOSTS, [{"ends": ["sensor.eth0", "ecu.lat0"], "mtu": mtu}]), SITE)
        for mtu in (1500, 9000)
    ]
    subprocess.run(["sh", "-e"], input=plan_text(cells), text=True, check=True, capture_output=True)
    assert dump() == before


def test_a_plan_is_the_same_each_time() -> None:
    assert plan_text(two_cells()) == plan_text(two_cells())


def test_each_check_stands_with_what_it_must_read() -> None:
    text = plan_text(two_cells())
    assert "ip -n latlab-RUN-sensor -j link show dev eth0  # expect: UP" in text
    assert "# wait until sensor.eth0 is up" in text


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_the_plan_can_be_pasted_and_undoes_itself() -> None:
    before = dump()
    text = plan_text([PlannedCell("all", scenario({"sensor": "netns", "ecu": "local"}), SITE)])
    set_up, undo = text.split("\n# ---- Undo the test bed")
    subprocess.run(["sh", "-e"], input=set_up, text=True, check=True, capture_output=True)
    assert "latlab-RUN-sensor" in dump()
    subprocess.run(["sh", "-e"], input="#" + undo, text=True, check=True, capture_output=True)
    assert dump() == before


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_what_stood_before_is_kept_for_the_undo(tmp_path: Path) -> None:
    polled = tmp_path / "halt_poll_ns"
    polled.write_text("200000\n")
    tuned = scenario({"sensor": "netns", "ecu": "local"}, tuning={"ecu": {"halt_poll": 0}})
    text = plan_text([PlannedCell("all", tuned, SITE)]).replace(HALT_POLL, str(polled))
    set_up, undo = text.split("\n# ---- Undo the test bed")
    printed = f"{set_up}\ncat {polled}\n#{undo}"
    ran = subprocess.run(["sh", "-e"], input=printed, text=True, check=True, capture_output=True)
    assert ran.stdout.splitlines()[-1] == "0"
    assert polled.read_text() == "200000\n"


def test_what_only_a_reader_can_take_from_an_output_is_named_for_the_undo() -> None:
    clock = {"ptp": {"ports": {"sensor.eth0": "master", "ecu.lat0": "slave"}}}
    stream = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "transport": "ethernet"}
    cards = scenario({"sensor": "local", "ecu": "local"}, clock=clock, streams={"control": stream})
    text = plan_text([PlannedCell("all", cards, planned_site(cards))])
    noted = "hwstamp_ctl -i eth0  # the undo needs these variables, set manually: TX_TYPE_1 RX_FILTER_1"
    assert noted in text
    assert 'hwstamp_ctl -i eth0 -t "$TX_TYPE_1" -r "$RX_FILTER_1"' in text


def test_a_plan_in_virtual_time_does_nothing_on_this_machine() -> None:
    on_board = {"kind": "netns", "on": "board1"}
    virtual = parse(
        {
            "name": "virtual",
            "hosts": {"board1": {"kind": "board", "time": "virtual"}, "sensor": on_board, "ecu": on_board},
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}},
            "duration": "1s",
        }
    ).scenario
    assert virtual
    text = plan_text([PlannedCell("all", virtual, planned_site(virtual))])
    assert "# ip netns add latlab-" in text and "its lines cannot be pasted" in text
    assert [line for line in text.splitlines() if line.strip() and not line.startswith("#")] == []
