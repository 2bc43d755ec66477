"""How a guest that is not ours is reached and started, as far as it is seen without starting one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from latlab.hosts import RemoteHost, host_from
from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.libvirt import interface_xml
from latlab.testbed.guests.over_ssh import interface_of
from latlab.testbed.guests.own import MANAGEMENT_MAC, disk_format, own_argv
from latlab.testbed.makers import make_hosts
from latlab.testbed.plan import PlannedCell, plan_text
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable
from support.machine import scenario

KINDS = sorted(BRIDGES)
ORIGINS = {
    "kernel": {"kernel": "bzImage", "initrd": "rootfs", "append": "console=ttyS0", "ssh": {"port": 2022}},
    "disk": {"disk": "debian.qcow2", "ssh": {}},
    "domain": {"domain": "plc", "ssh": {"destination": "admin@plc.lan"}},
}


def with_guest(origin: str, **parts: Any) -> Scenario:
    """A scenario with one guest of that origin, on a host that is this machine."""
    vm1 = {"host": "ecu", "uplink": "lat0", **ORIGINS[origin], **parts}
    stream = {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}
    return scenario({"sensor": "netns", "ecu": "local"}, guests={"vm1": vm1}, streams={"control": stream})


def argv_of(wanted: Scenario, **machine: Any) -> str:
    """QEMU's command line."""
    site = Site("t1")
    site = replace(site, machine=replace(site.machine, say=lambda argv: None, **machine))
    (joint,) = joints(wanted, site.tag)
    (port,) = joint.ports
    plug = BRIDGES[joint.kind].plug(joint, port, site)
    return " ".join(own_argv(port, plug, site, "CONSOLE", 20000))


def test_a_host_reached_over_ssh_is_the_same_after_its_description() -> None:
    host = RemoteHost(
        "vm1", "vm1", 20000, "conf", "/a", ("-l", "root"), ("ip", "netns", "exec", "n"), "/run/c", "/tmp/x"
    )
    again = host_from(json.loads(json.dumps(host.describe())))
    assert again.command(("id", "-u")) == host.command(("id", "-u"))
    assert (again.describe(), again.scratch, again.agent) == (host.describe(), host.scratch, host.agent)


def test_words_are_quoted_for_the_shell_there_and_options_come_before_the_destination() -> None:
    command = RemoteHost("plc", "root@plc.lan", 2022).command(("echo", "two words"))
    assert command[-3:] == ("root@plc.lan", "--", "echo 'two words'")
    assert "BatchMode=yes" in command and command[command.index("-p") :][:2] == ("-p", "2022")


def test_ssh_s_own_failure_is_an_error_even_where_any_exit_status_was_asked_for() -> None:
    with pytest.raises(LabError, match="Connection refused") as caught:
        asyncio.run(RemoteHost("vm1", "127.0.0.1", 1, "/dev/null").run(("true",), check=False))
    assert caught.value.where == "vm1"
    assert caught.value.remedy.startswith("check that its sshd runs; `ssh ")


def test_a_program_there_that_ends_as_ssh_does_when_it_fails_is_no_failure_of_ssh() -> None:
    host = RemoteHost("vm1", "vm1", through=("sh", "-c", "echo its own words >&2; exit 255", "sh"))
    assert asyncio.run(host.run(("true",), check=False)).returncode == 255
    with pytest.raises(LabError, match="ended with status 255: its own words"):
        asyncio.run(host.run(("true",)))


def test_ssh_goes_to_a_guest_in_a_namespace_from_within_it() -> None:
    stream = {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}
    guests = {"vm1": {"host": "ecu", "uplink": "lat0", **ORIGINS["kernel"]}}
    wanted = scenario({"sensor": "netns", "ecu": "netns"}, guests=guests, streams={"control": stream})
    command = make_hosts(wanted, Site("t1"))["vm1"].command(("true",))
    assert command[:5] == ("ip", "netns", "exec", "latlab-t1-ecu", "ssh")
    assert {"HostName=127.0.0.1", "HostKeyAlias=vm1"} <= set(command)


def test_a_domain_is_reached_where_the_scenario_says_with_its_user() -> None:
    command = make_hosts(with_guest("domain"), Site("t1"))["vm1"].command(("true",))
    assert "admin@plc.lan" in command and "-l" not in command


def test_the_measured_card_comes_before_the_one_for_ssh() -> None:
    argv = argv_of(with_guest("kernel"))
    measured, beside = argv.index("netdev=net0"), argv.index(f"netdev=ssh,mac={MANAGEMENT_MAC}")
    assert measured < beside
    assert "restrict=on" in argv and "hostfwd=tcp:127.0.0.1:20000-10.0.250.15:2022" in argv
    assert "-kernel bzImage -initrd rootfs -append console=ttyS0" in argv


def test_a_disk_is_started_with_its_format_and_never_written_to() -> None:
    argv = argv_of(with_guest("disk"))
    assert "-drive file=debian.qcow2,format=qcow2,if=virtio,snapshot=on" in argv
    assert "-kernel" not in argv and "-append" not in argv


def test_the_format_of_a_disk_is_what_qemu_img_says_before_what_its_name_says() -> None:
    machine = Site("t1").machine
    said = replace(machine, say=lambda argv: '{"format": "raw"}')
    assert disk_format("a.qcow2", Site("t1", machine=said)) == "raw"
    silent = Site("t1", machine=replace(machine, say=lambda argv: None))
    assert [disk_format(name, silent) for name in ("a.qcow2", "a.img", "a")] == ["qcow2", "raw", "raw"]


def test_an_interface_is_known_by_its_hardware_address() -> None:
    links = json.dumps([{"ifname": "lo", "address": "00:00:00:00:00:00"}, {"ifname": "enp0s2", "address": "06:01"}])
    assert interface_of("06:01")(links) == "enp0s2"
    assert interface_of("06:02")(links) == "none of its interfaces, which are enp0s2"


def test_a_domain_on_xdp_gets_a_card_that_leaves_no_checksum_to_others() -> None:
    wanted, site = with_guest("domain", bridge="xdp"), Site("t1")
    (joint,) = joints(wanted, site.tag)
    (port,) = joint.ports
    xml = interface_xml(port, BRIDGES["xdp"].plug(joint, port, site), "llt1t0")
    assert "<target dev='llt1t0' managed='no'/>" in xml
    assert '<host csum="off" gso="off" tso4="off"' in xml and '<guest csum="off" tso4="off"' in xml


@pytest.mark.parametrize("origin", sorted(ORIGINS))
@pytest.mark.parametrize("kind", KINDS)
def test_every_guest_can_be_planned_on_every_bridge(origin: str, kind: str) -> None:
    text = plan_text([PlannedCell("all", with_guest(origin, bridge=kind), Site("t1"))])
    assert "copy the agent to vm1" in text
    taken_back = text[text.index("Undo the test bed") :]
    assert ("rm -r /tmp/latlab-t1" in taken_back) == (origin == "domain")


def test_a_load_that_is_ended_by_signals_does_not_run_in_such_a_guest() -> None:
    wanted = with_guest("kernel", kernel="/bin/sh", initrd="/bin/sh")
    loads = {"heavy": {"kind": "iperf3", "from": "sensor", "to": "vm1", "protocol": "udp", "rate": "10Mbit/s"}}
    raw = wanted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    reasons = unavailable(Scenario.model_validate(raw | {"loads": loads}), Site("t1"))
    assert [(reason.where, reason.remedy) for reason in reasons] == [("loads.heavy", "kind: flood")]
