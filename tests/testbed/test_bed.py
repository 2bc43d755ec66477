"""The test bed on real namespaces: built, checked, undone, and nothing else touched."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.hosts import MACHINE, Host, LocalMachine
from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.testbed import makers  # by its module: pytest takes a function test_bed_steps for a test
from latlab.testbed.apply import TestBed, read_at_once
from latlab.testbed.bridges.kernel import no_filters
from latlab.testbed.host_setup import namespace_name
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Step, own_folder
from latlab.testbed.undo import clean_stale
from support.machine import dump, run, scenario, until_it_is

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

RECEIVE = """
import socket, sys
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind((sys.argv[1], 5557))
print("listening", flush=True)
print("received", len(receiver.recv(9000)), "bytes", flush=True)
"""
SEND = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(bytes(8000), (sys.argv[1], 5557))
"""
TWO_NAMESPACES = {"sensor": "netns", "ecu": "netns"}
ONE_LOCAL = {"sensor": "netns", "ecu": "local"}


def add_link(name: str) -> None:
    run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p")


def here() -> dict[str, Host]:
    return {MACHINE: LocalMachine(MACHINE)}


async def build(small: Scenario, tag: str) -> TestBed:
    bed = TestBed(tag, makers.make_hosts(small, Site(tag)))
    await bed.apply(makers.test_bed_steps(small, Site(tag)))
    return bed


@pytest.mark.parametrize("hosts", [TWO_NAMESPACES, ONE_LOCAL], ids=["two namespaces", "one end local"])
def test_a_test_bed_is_undone_without_a_trace(hosts: dict[str, str], journals: Path) -> None:
    async def session() -> None:
        async with await build(scenario(hosts), "t1"):
            assert dump() != before

    before = dump()
    asyncio.run(session())
    assert dump() == before
    assert list(journals.iterdir()) == []


def test_packets_cross_the_link_without_arp_or_ipv6() -> None:
    async def session() -> None:
        small = scenario(TWO_NAMESPACES, [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 2, "mtu": 9000}])
        async with await build(small, "t1") as bed:
            sensor = bed.hosts["sensor"]
            peer = str(small.address(small.links[0].ends[1]).ip)
            listener = await bed.hosts["ecu"].spawn((sys.executable, "-c", RECEIVE, peer))
            assert listener.stdout
            assert await listener.stdout.readline() == b"listening\n"
            await sensor.run((sys.executable, "-c", SEND, peer))
            assert await listener.stdout.readline() == b"received 8000 bytes\n"
            await listener.wait()
            link = json.loads((await sensor.run(("ip", "-j", "-d", "link", "show", "eth0"))).stdout)[0]
            neighbours = json.loads((await sensor.run(("ip", "-j", "neigh"))).stdout)
            inet6 = json.loads((await sensor.run(("ip", "-6", "-j", "addr"))).stdout)
        assert (link["mtu"], link["num_tx_queues"], link["num_rx_queues"]) == (9000, 2, 2)
        assert [entry["state"] for entry in neighbours] == [["PERMANENT"]]
        assert not any(entry.get("addr_info") for entry in inet6)

    asyncio.run(session())


def test_a_local_end_carries_our_mark() -> None:
    async def session() -> None:
        async with await build(scenario(ONE_LOCAL), "t1"):
            assert json.loads(run("ip", "-j", "link", "show", "lat0"))[0]["altnames"] == ["latlab-t1-0"]

    asyncio.run(session())


def test_every_step_is_in_the_record_with_what_was_read_back() -> None:
    async def session() -> None:
        async with await build(scenario(TWO_NAMESPACES), "t1") as bed:
            checked = [result for result in bed.results if result.expected is not None]
            assert all(result.ok for result in bed.results)
            assert all(result.actual == result.expected for result in checked)
            assert {"UP", "10.78.0.1/24", "10.78.0.2/24"} <= {result.actual for result in checked}

    asyncio.run(session())


def test_two_labs_at_once_do_not_touch_each_other() -> None:
    async def session() -> None:
        small = scenario(TWO_NAMESPACES)
        async with await build(small, "first"):
            alone = dump()
            async with await build(small, "second"):
                assert await clean_stale() == []
            assert dump() == alone

    asyncio.run(session())


def test_what_other_tools_made_stays() -> None:
    async def session() -> None:
        async with await build(scenario(TWO_NAMESPACES), "t1"):
            pass
        await clean_stale()

    run("ip", "netns", "add", "mininet-h1")
    run("ip", "netns", "add", "latlab-lookalike")
    run("ip", "link", "add", "lat0", "type", "veth", "peer", "name", "eth0", "netns", "mininet-h1")
    before = dump()
    asyncio.run(session())
    assert dump() == before


def test_an_interface_someone_else_has_is_neither_used_nor_removed() -> None:
    add_link("lat0")
    before = dump()

    async def session() -> None:
        small = scenario(ONE_LOCAL)
        async with TestBed("t1", makers.make_hosts(small, Site("t1"))) as bed:
            await bed.apply(makers.test_bed_steps(small, Site("t1")))

    with pytest.raises(LabError, match="lat0"):
        asyncio.run(session())
    assert dump() == before


@pytest.mark.parametrize("taken", ["eth0", "lat0"])
@pytest.mark.parametrize("names", [["sensor", "ecu"], ["ecu", "sensor"]], ids="-".join)
def test_a_link_of_two_namespaces_may_be_called_like_an_interface_of_the_machine(taken: str, names: list[str]) -> None:
    add_link(taken)
    before = dump()

    async def session() -> None:
        async with await build(scenario(dict.fromkeys(names, "netns")), "t1") as bed:
            interfaces = [
                json.loads((await bed.hosts[host].run(("ip", "-j", "link"))).stdout) for host in ("sensor", "ecu")
            ]
            ends = {one["ifname"] for found in interfaces for one in found if one["link_type"] == "ether"}
            assert ends == {"eth0", "lat0"}
            assert dump()[""] == before[""]

    asyncio.run(session())
    assert dump() == before


@pytest.mark.parametrize(("hosts", "there"), [(TWO_NAMESPACES, "sensor"), (ONE_LOCAL, None)])
def test_a_link_is_made_where_its_first_name_must_be_free(hosts: dict[str, str], there: str | None) -> None:
    """Linux 6.12 looks that name up where the command runs, wherever the interface is to be."""
    steps = makers.test_bed_steps(scenario(hosts), Site("t1"))
    (made,) = [step.do for step in steps if isinstance(step, Step) and step.title.startswith("connect ")]
    ip, first = (("ip", "-n", namespace_name("t1", there)), "eth0") if there else (("ip",), "lat0")
    add = (*ip, "link", "add", "name", first)
    assert made[: len(add)] == add
    assert "netns" not in made[len(ip) : made.index("peer")]


def test_a_namespace_that_is_there_already_is_refused_and_kept() -> None:
    name = namespace_name("t1", "sensor")
    run("ip", "netns", "add", name)
    before = dump()

    async def session() -> None:
        small = scenario(TWO_NAMESPACES)
        async with TestBed("t1", makers.make_hosts(small, Site("t1"))) as bed:
            await bed.apply(makers.test_bed_steps(small, Site("t1")))

    with pytest.raises(LabError, match="exists already"):
        asyncio.run(session())
    assert dump() == before


def test_a_failing_check_names_host_command_expected_and_actual() -> None:
    step = Step(MACHINE, "set it", ("true",), check=Check(("echo", "1500"), expected="9000"))

    async def session() -> None:
        async with TestBed("t1", here()) as bed:
            try:
                await bed.apply([step])
            finally:
                assert [(r.expected, r.actual, r.ok) for r in bed.results] == [("9000", "1500", False)]

    with pytest.raises(LabError) as caught:
        asyncio.run(session())
    assert caught.value.where == MACHINE
    for part in ("set it", "`echo 1500`", "'9000'", "'1500'"):
        assert part in caught.value.what


def test_a_check_may_take_its_time(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    check = Check(("cat", str(flag)), expected="up", within_ms=10_000)

    async def session() -> None:
        async with TestBed("t1", here()) as bed:
            applying = asyncio.ensure_future(bed.apply([Step(MACHINE, "wait", (), check=check)]))
            await asyncio.sleep(0.05)
            flag.write_text("up\n")
            assert (await applying)[0].ok

    asyncio.run(session())


def test_a_command_is_given_up_after_the_time_that_its_step_has() -> None:
    slow = Step(MACHINE, "copy it", ("sleep", "0.3"))

    async def session(step: Step) -> None:
        async with TestBed("t1", here()) as bed:
            await bed.apply([step])

    with pytest.raises(LabError, match=r"did not end within 0\.1 s"):
        asyncio.run(session(replace(slow, within_s=0.1)))
    asyncio.run(session(replace(slow, within_s=10)))


def test_the_former_value_is_put_back() -> None:
    key = "net.ipv4.conf.lo.log_martians"
    former = run("sysctl", "-n", key).strip()
    other = "0" if former == "1" else "1"
    step = Step(
        MACHINE,
        "log martians",
        ("sysctl", "-w", f"{key}={other}"),
        undo=("sysctl", "-w", key + "={before}"),
        before=Before(("sysctl", "-n", key)),
        check=Check(("sysctl", "-n", key), expected=other),
    )

    async def session() -> None:
        async with TestBed("t1", here()) as bed:
            await bed.apply([step])

    asyncio.run(session())
    assert run("sysctl", "-n", key).strip() == former


def test_a_former_value_that_cannot_be_read_ends_the_step_with_what_was_printed() -> None:
    def read(output: str) -> dict[str, str]:
        return {"before": str(int(output))}

    step = Step(MACHINE, "turn it", ("true",), undo=("echo", "{before}"), before=Before(("echo", "as it was"), read))

    async def session(step: Step) -> str | None:
        async with TestBed("t1", here()) as bed:
            await bed.apply([step])
            return bed.results[0].why

    with pytest.raises(LabError, match=r"turn it: `echo 'as it was'` printed 'as it was': invalid literal") as raised:
        asyncio.run(session(step))
    assert raised.value.where == MACHINE
    assert "another version" in raised.value.remedy
    assert "printed 'as it was'" in (asyncio.run(session(replace(step, optional=True))) or "")


def test_the_firewall_of_bridges_is_as_before_afterwards() -> None:
    keys = [f"net.bridge.bridge-nf-call-{name}" for name in ("iptables", "ip6tables", "arptables")]
    run("sysctl", "-qew", *(f"{key}=1" for key in keys))
    former = run("sysctl", "-ne", *keys)

    async def session() -> str:
        async with TestBed("t1", here()) as bed:
            await bed.apply([no_filters(MACHINE)])
            return run("sysctl", "-ne", *keys)

    assert asyncio.run(session()) == former.replace("1", "0")
    assert run("sysctl", "-ne", *keys) == former


def test_one_undo_that_fails_is_reported_and_keeps_no_other_from_being_done(journals: Path) -> None:
    add_link("other0")
    steps = [
        Step(MACHINE, "first", ("true",), undo=("ip", "link", "del", "other0")),
        Step(MACHINE, "second", ("true",), undo=("ip", "link", "del", "nosuch0")),
        Step(MACHINE, "third", ("true",), undo=("ip", "link", "del", "nosuch1")),
    ]

    async def session() -> None:
        async with TestBed("t1", here()) as bed:
            await bed.apply(steps)

    with pytest.raises(LabError) as caught:
        asyncio.run(session())
    assert "nosuch0" in caught.value.what
    assert "nosuch1" in caught.value.what
    assert "other0" not in run("ip", "link")
    assert [path.name for path in journals.iterdir()] == ["t1.jsonl"]


def test_an_error_of_the_run_is_not_hidden_by_an_undo_that_fails() -> None:
    async def session() -> None:
        async with TestBed("t1", here()) as bed:
            await bed.apply([Step(MACHINE, "first", ("true",), undo=("ip", "link", "del", "nosuch0"))])
            raise LabError("the agent died", where="sensor")

    with pytest.raises(LabError) as caught:
        asyncio.run(session())
    assert "the agent died" in str(caught.value)
    assert "nosuch0" in str(caught.value)


def test_cancelling_at_any_moment_leaves_nothing() -> None:
    small = scenario(TWO_NAMESPACES)

    async def session() -> None:
        async with TestBed("t1", makers.make_hosts(small, Site("t1"))) as bed:
            await bed.apply(makers.test_bed_steps(small, Site("t1")))

    async def cancelled(after: int) -> bool:
        """Whether it was still at work when it had gone on `after` times in the event loop."""
        task = asyncio.ensure_future(session())
        for _ in range(after):
            await asyncio.sleep(0.002)
        done = task.done()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.001)
        return not done

    before = dump()
    after = 0
    while asyncio.run(cancelled(after := after + 3)):
        assert dump() == before
    assert dump() == before


def test_cancelling_while_it_undoes_leaves_nothing() -> None:
    small = scenario(TWO_NAMESPACES)

    async def session() -> None:
        bed = await build(small, "t1")
        undoing = asyncio.ensure_future(bed.undo_all())
        await asyncio.sleep(0)
        for _ in range(5):
            undoing.cancel()
            await asyncio.sleep(0.001)
        with pytest.raises(asyncio.CancelledError):
            await undoing

    before = dump()
    asyncio.run(session())
    assert dump() == before


def test_an_existing_cable_is_only_checked() -> None:
    add_link("cable0")
    run("ip", "link", "set", "cable0", "up")
    until_it_is("cable0", "LOWERLAYERDOWN")
    before = dump()

    async def session() -> None:
        stream = {"talker": "a", "listener": "b", "period": "1ms", "size": "64B", "transport": "ethernet"}
        cable = [{"ends": ["a.cable0", "b.cable0p"]}]
        small = scenario({"a": "local", "b": "local"}, cable, streams={"control": stream})
        steps = [
            replace(step, check=step.check and replace(step.check, within_ms=0))
            for step in makers.test_bed_steps(small, Site("t1"))
            if isinstance(step, Step)
        ]
        async with TestBed("t1", makers.make_hosts(small, Site("t1"))) as bed:
            await bed.apply(steps)

    with pytest.raises(LabError, match=r"a: a.cable0 is up: .*expected 'up', actual 'lowerlayerdown'"):
        asyncio.run(session())
    assert dump() == before
    run("ip", "link", "set", "cable0p", "up")
    until_it_is("cable0", "UP")
    until_it_is("cable0p", "UP")
    before = dump()
    asyncio.run(session())
    assert dump() == before


ANOTHER = 12345


@pytest.mark.parametrize("what", ["a folder", "a link"])
def test_another_user_s_folder_where_all_may_write_is_not_written_to_and_not_removed(
    what: str, tmp_path: Path, journals: Path
) -> None:
    shared, others = tmp_path / "shared", tmp_path / "others"
    for folder in (shared, others):
        folder.mkdir()
    taken = shared / "latlab-t1-ecu"
    if what == "a folder":
        taken.mkdir()
    else:
        taken.symlink_to(others)
    os.chown(taken, ANOTHER, ANOTHER, follow_symlinks=False)

    async def session() -> None:
        async with TestBed("t1", here()) as bed:
            await bed.apply([own_folder(MACHINE, "make a folder", str(taken))])

    with pytest.raises(LabError, match=r"make a folder: .*mkdir.*File exists"):
        asyncio.run(session())
    assert taken.lstat().st_uid == ANOTHER
    assert list(others.iterdir()) == []


def test_a_folder_that_only_its_user_may_enter_is_made_and_removed(tmp_path: Path, journals: Path) -> None:
    folder = tmp_path / "latlab-t1-ecu"

    async def session() -> None:
        async with TestBed("t1", here()) as bed:
            await bed.apply([own_folder(MACHINE, "make a folder", str(folder))])
            assert folder.stat().st_mode & 0o7777 == 0o700
            (folder / "a recording").touch()

    asyncio.run(session())
    assert not folder.exists()


def test_what_several_checks_read_comes_in_one_piece() -> None:
    checks = [Check(("sh", "-c", "echo one; sleep 0.2"), "one"), Check(("sh", "-c", "echo two; exit 3"), "two")]
    with subprocess.Popen(read_at_once(checks), stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert os.read(process.stdout.fileno(), 1 << 16) == b"one\n\0000\0two\n\0003\0"
