"""The image boots in emulation, answers, and its programs and modules work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from latlab.testbed.images import Image
from support.images.booting import Run, booted

NEEDS_KVM = {"ptp_kvm"}


@pytest.fixture(scope="module")
def guest(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a command in a guest that has booted the image."""
    network = ("-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net")
    with booted(image, tmp_path_factory.mktemp("guest"), *network) as run:
        yield run


WORKS = {
    "a virtual network card by itself": "ip -br link show eth0",
    "a link of a kind that is a module": "ip link add v0 type veth peer name v1",
    "a VLAN": "ip link add link eth0 name eth0.5 type vlan id 5",
    "a bridge": "ip link add br0 type bridge",
    "a qdisc with a table of delays": "tc qdisc replace dev eth0 root netem delay 9ms 1ms distribution normal",
    "a filter": "tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress protocol ip flower action drop",
    "a namespace": "ip netns add x && ip netns exec x ip link",
    "programs of busybox": "ping -c 1 -W 5 127.0.0.1 | grep -q ttl",
    "priority, CPUs and the end of the parent": "setpriv --pdeathsig TERM chrt -f 50 taskset -c 0 true",
    "settings": "sysctl -w net.ipv6.conf.all.disable_ipv6=1",
    "timestamping capabilities": "ethtool -T eth0 | grep -q software-receive",
    "sockets": "ss -tln",
    "a load": "iperf3 --version",
}


@pytest.mark.parametrize("script", WORKS.values(), ids=WORKS)
def test_there_is(guest: Run, script: str) -> None:
    done = guest("sh", "-ec", script)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("starter", ["sh -c 'ip -V'", "env ip -V", "timeout 9 ip -V", "echo -V | xargs ip"])
def test_a_program_that_starts_ip_starts_the_real_one(guest: Run, starter: str) -> None:
    assert "iproute2" in guest("sh", "-c", starter).stdout


def test_every_module_can_be_loaded_by_name(guest: Run) -> None:
    script = (
        "cut -d: -f1 /lib/modules/*/modules.dep | xargs -n 1 basename -s .ko | while read -r name; do "
        'modprobe "$name" 2>/dev/null; echo "$name $?"; done'
    )
    status = dict(line.split() for line in guest("sh", "-c", script).stdout.splitlines())
    assert len(status) > 30
    assert {name for name, code in status.items() if code != "0"} == NEEDS_KVM


def test_a_module_that_is_not_there_is_refused(guest: Run) -> None:
    assert guest("modprobe", "no_such_module").returncode != 0
