"""A board's image: in emulation a whole test bed can be made in it, with guests that run there with KVM."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from latlab.model.errors import LabError, UsageError
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.architecture import X86_64
from latlab.testbed.images import Image, build_image, clean_images, find_image, kinds, list_images
from latlab.testbed.images import modules as own_modules
from latlab.testbed.images.base import chosen_modules
from latlab.testbed.images.board_recipe import BOARDS, FEATURES, NEEDED, NESTED_KVM
from latlab.testbed.images.modules import IGB, IGB_FEATURE, Modules
from latlab.testbed.images.recipe import guest_recipe
from latlab.testbed.images.tree import ELF_MAGIC, module_facts
from support.images.booting import Run, booted
from support.images.cpio import Found, at, dynamic_programs, modules_dep, read

NAME = "debian-rt-board"
LATLAB = Path(sys.executable).with_name("latlab")
QEMU = "usr/bin/qemu-system-x86_64"
IMAGES = "usr/share/latlab/images"
NOT_HERE = {"ptp_kvm": "needs KVM outside", "kvm_intel": "not on a CPU of AMD's kind"}
"""Modules that refuse the emulated machine."""


@pytest.fixture(scope="module")
def found(board: Image) -> dict[str, Found]:
    """What the kernel unpacks where guests are nested, by name; of two of a name the later one."""
    assert board.nested_initramfs
    return {one.name: one for one in read(board.nested_initramfs.read_bytes())}


@pytest.fixture(scope="module")
def machine(board: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a command in an emulated board that can hold guests, with a link from va to vb in it."""
    folder = tmp_path_factory.mktemp("board")
    with booted(board, folder, "-cpu", "max", memory="1024M", initramfs=board.nested_initramfs) as run:
        linked = run("sh", "-ec", VETH)
        assert linked.returncode == 0, linked.stderr
        yield run


def test_every_library_a_program_needs_is_there_where_the_loader_looks(found: dict[str, Found], board: Image) -> None:
    assert QEMU in dynamic_programs(found)
    without = {one.name: one for one in read(board.initramfs.read_bytes())}
    assert {"usr/sbin/ptp4l", "usr/sbin/ovsdb-server", "usr/bin/ip"} <= dynamic_programs(without)
    assert QEMU not in without
    assert not any(name.startswith(IMAGES) for name in without)


@pytest.mark.parametrize(
    "name",
    [
        *("dash", "sh", "ip", "tc", "bridge", "ss", "ethtool", "ptp4l", "phc2sys", "pmc", "phc_ctl", "sysctl", "chrt"),
        *(
            "taskset",
            "setpriv",
            "flock",
            "ping",
            "iperf3",
            "ovs-vswitchd",
            "ovsdb-server",
            "ovs-vsctl",
            "ovs-ofctl",
            "ovs-appctl",
        ),
        *("modprobe", "qemu-system-x86_64", "latlab-agent"),
    ],
)
def test_the_program_is_there_and_is_not_busyboxs(found: dict[str, Found], name: str) -> None:
    places = [f"usr/{folder}/{name}" for folder in ("bin", "sbin") if f"usr/{folder}/{name}" in found]
    assert places
    for place in places:
        assert at(found, place).mode & 0o111
        assert at(found, place).data != at(found, "usr/bin/busybox").data


def test_every_module_is_there_or_built_in_with_what_it_needs(found: dict[str, Found], board: Image) -> None:
    home = f"usr/lib/modules/{board.kernel_version}"
    needs = modules_dep(found, board)
    for module, before in needs.items():
        assert {f"{home}/{one}" for one in (module, *before)} <= set(found)
    files = {posixpath.basename(module) for module in needs}
    built_in = {posixpath.basename(line) for line in found[f"{home}/modules.builtin"].data.decode().splitlines()}
    known = {name.removesuffix(".ko").replace("-", "_") for name in files | built_in}
    assert set(FEATURES) - known == set(board.lacking) - {*own_modules.OWN_MODULES, IGB}
    assert set(NEEDED) <= known


def test_the_image_does_not_have_nothing_here(board: Image) -> None:
    assert board.lacking == {}
    assert (board.kind, board.flavour) == ("board", "rt")


def test_the_kernel_is_one_that_need_not_unpack_itself(board: Image) -> None:
    assert board.kernel.read_bytes()[:4] == ELF_MAGIC


def test_the_guest_image_in_it_is_the_one_that_was_built(found: dict[str, Found], board: Image, image: Image) -> None:
    folder = f"{IMAGES}/{image.name}"
    assert found[f"{folder}/kernel"].data == image.kernel.read_bytes()
    assert found[f"{folder}/initramfs"].data == image.initramfs.read_bytes()
    assert json.loads(found[f"{folder}/image.json"].data)["digest"] == board.nested_image == image.digest


def test_the_same_again_builds_nothing(board: Image, shared: Path) -> None:
    told: list[str] = []
    assert build_image(NAME, say=told.append) == board
    assert told == []
    assert board.is_up_to_date(find_agent())


def test_another_agent_needs_no_package_and_is_in_the_nested_guest_too(board: Image, own: Path) -> None:
    folder = board.folder.parent
    shutil.copytree(folder, own / "images" / folder.name)
    agent = own / "latlab-agent"
    agent.write_bytes(find_agent().read_bytes() + b"another")
    told: list[str] = []
    after = build_image(NAME, agent=agent, say=told.append)
    assert not any("unpacking" in line for line in told)
    assert (after.base, after.lacking, after.kernel_version) == (board.base, board.lacking, board.kernel_version)
    nested = find_image("debian-cloud")
    assert nested
    assert after.nested_image == nested.digest != board.nested_image
    assert nested.is_up_to_date(agent)
    assert [path.name for path in after.folder.parent.glob("*/")] == [after.folder.name] != [board.folder.name]


def test_an_option_of_the_command_means_the_same_and_the_list_shows_the_kind(board: Image, shared: Path) -> None:
    def printed(*arguments: str) -> str:
        return subprocess.run([LATLAB, "image", *arguments], capture_output=True, text=True, check=True).stdout

    assert json.loads(printed("build", "--board", "--json"))["digest"] == board.digest
    listed = {line.split()[0]: line.split()[1] for line in printed("list").splitlines() if line.startswith("debian-")}
    assert listed == {"debian-cloud": "guest", NAME: "board"}


@pytest.mark.parametrize(
    ("name", "flavour", "kind"), [("debian-cloud", None, "board"), (NAME, None, "guest"), ("mine", "cloud", "board")]
)
def test_what_cannot_be_a_board_is_a_usage_error(name: str, flavour: str | None, kind: str) -> None:
    with pytest.raises(UsageError, match="board"):
        build_image(name, flavour, kind=kind)


def kernel_with(folder: Path, *names: str) -> Modules:
    """The modules of a kernel that has these, none of them with contents."""
    modules = folder / "lib/modules/6.99-rt/kernel"
    modules.mkdir(parents=True)
    for name in names:
        (modules / f"{name}.ko.xz").touch()
    return Modules(folder)


def test_a_module_the_kernel_does_not_have_is_recorded_with_what_cannot_be_done_without(tmp_path: Path) -> None:
    kernel = kernel_with(tmp_path, *NEEDED, *(name for name in FEATURES if name != "act_gate"))
    names, lacking = chosen_modules(kernel, BOARDS["rt"])
    assert lacking == {"act_gate": FEATURES["act_gate"]}
    assert set(names) == {*NEEDED, *FEATURES} - {"act_gate"}


@pytest.mark.parametrize("module", ["virtio_console", "veth", "bridge", "tun"])
def test_a_kernel_without_what_no_board_can_be_without_is_refused(tmp_path: Path, module: str) -> None:
    kernel = kernel_with(tmp_path, *(name for name in (*NEEDED, *FEATURES) if name != module))
    with pytest.raises(LabError, match=f"kernel 6.99-rt has no module {module}$"):
        chosen_modules(kernel, BOARDS["rt"])


def test_without_a_compiler_or_a_module_there_is_an_image_that_says_what_it_does_not_have(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = guest_recipe("cloud").parts
    small = replace(BOARDS["rt"], parts=parts, features={"no_such_module": "miracles", "igb": FEATURES["igb"]})
    monkeypatch.setattr(kinds, "BOARDS", {"rt": small})
    monkeypatch.setattr(own_modules, "COMPILER", ("gcc", "no-such-make"))
    told: list[str] = []
    board = build_image(NAME, say=told.append)
    without = dict.fromkeys(own_modules.OWN_MODULES, NESTED_KVM) | {IGB: IGB_FEATURE}
    assert board.lacking == {"no_such_module": "miracles"} | without
    assert any("no module no_such_module" in line and "miracles" in line for line in told)
    for feature in (NESTED_KVM, IGB_FEATURE):
        (line,) = (line for line in told if feature in line)
        assert "no-such-make not on the PATH" in line
    assert find_image(NAME) == board
    found = {one.name: one for one in read(board.initramfs.read_bytes())}
    (driver,) = (name for name in found if name.endswith("/igb.ko"))
    assert ("intree", "Y") in module_facts(found[driver].data), "the kernel's own"
    listed = found["etc/latlab/modules"].data
    assert b"virtio_net" in listed
    assert not any(name.encode() in listed for name in own_modules.OWN_MODULES)


FOUND_OUT_ON_THE_WAY = "from latlab.testbed.images import build; build._Inputs.needed = 0"
BUILD = f"import sys; from latlab.cli import main; sys.argv = ['latlab', 'image', 'build', '{NAME}']; main()"
# The file system is there for this shell and what it runs only.
IN_LITTLE_ROOM = """
mount -t tmpfs -o size=400M tmpfs "$LATLAB_CACHE" && cp -r "$1/." "$LATLAB_CACHE" || exit
"$2" -c "$3"
status=$?
ls -A "$LATLAB_CACHE"/images/*board
exit "$status"
"""


@pytest.mark.parametrize("before", ["", FOUND_OUT_ON_THE_WAY], ids=["known beforehand", "found out on the way"])
def test_no_room_is_reported_in_a_line_with_where_and_how_much_and_leaves_nothing(
    own: Path, tmp_path: Path, before: str
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", IN_LITTLE_ROOM, "room", own, sys.executable, f"{before}\n{BUILD}"],
        env=os.environ | {"LATLAB_CACHE": str(small)},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"latlab: {small}/images/{NAME}: not enough space: building it takes about "), done.stderr
    assert re.search(r"[0-9]+ MB, and [0-9]+ MB are free \(.*LATLAB_CACHE to another folder\)$", last)
    assert "Traceback" not in done.stderr
    assert ("unpacking" in done.stderr) == bool(before)
    assert (done.returncode, done.stdout.split()) == (3, [".lock"])


@pytest.fixture
def no_lists(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apt knows no package from now on."""
    (own / "lists").mkdir()
    settings = own / "apt.conf"
    settings.write_text(f'Dir::State::lists "{own}/lists"; Dir::State::status "/dev/null";')
    monkeypatch.setenv("APT_CONFIG", str(settings))


@pytest.mark.usefixtures("no_lists")
def test_a_board_whose_packages_are_not_to_be_had_is_reported_with_what_fills_the_lists() -> None:
    with pytest.raises(LabError, match=r"linux-image-6.12-rt-amd64, linux-image-rt-amd64.*`apt-get update`"):
        build_image(NAME)
    assert find_image(NAME) is None
    clean_images(["debian-cloud"])
    with pytest.raises(LabError, match=r"debian-cloud, for guests nested in the board, is not built: apt finds no"):
        build_image(NAME)
    assert list_images() == []


def test_no_room_for_the_guests_image_in_a_board_is_reported_as_such(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_images(["debian-cloud"])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    with pytest.raises(LabError, match=r"debian-cloud: debian-cloud, for guests .*: not enough space: .*LATLAB_CACHE"):
        build_image(NAME)
    assert list_images() == []
    assert [path.name for path in own.glob("images/*/*")] == [".lock"]


VETH = """
ip link add va numtxqueues 4 numrxqueues 4 type veth peer name vb numtxqueues 4 numrxqueues 4
ip link set va up
ip link set vb up
"""
OVS = """
mkdir /run/ovs; cd /run/ovs; export OVS_RUNDIR=/run/ovs
ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server conf.db --remote=punix:db.sock --detach --no-chdir --pidfile --log-file=db.log
ovs-vswitchd unix:db.sock --detach --no-chdir --pidfile --log-file=switch.log
ovs-vsctl --db=unix:db.sock --timeout=30 add-br sw0
ovs-dpctl show | grep "port .*: sw0"
"""
GATES = """
tc qdisc replace dev va parent root handle 100 taprio num_tc 4 map 0 1 2 3 3 3 3 3 0 0 0 0 0 0 0 0 \\
  queues 1@0 1@1 1@2 1@3 base-time 0 sched-entry S 1 200000 sched-entry S e 300000 clockid CLOCK_TAI
tc qdisc replace dev va parent 100:1 etf clockid CLOCK_TAI delta 200000 skip_sock_check
"""
SHAPER = """
tc qdisc replace dev vb root handle 1 mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0
tc qdisc replace dev vb parent 1:2 cbs idleslope 1000 sendslope -999000 hicredit 10 locredit -1000
"""
GATES_INWARDS = """
tc qdisc add dev vb clsact
tc filter add dev vb ingress matchall action gate clockid CLOCK_TAI sched-entry open 1000000 -1 -1
tc filter add dev vb egress protocol 802.1q flower vlan_prio 5 action mirred egress redirect dev lo
"""
BRIDGE = """
ip link add br0 type bridge vlan_filtering 1
bridge vlan add vid 5 dev br0 self
ip link add link br0 name br0.5 type vlan id 5 egress-qos-map 3:5
"""
SCENES = {
    "gates in time, and launch times below them": GATES,
    "credit-based shaping": SHAPER,
    "gates for what comes in, and filters": GATES_INWARDS,
    "a kernel bridge with VLANs": BRIDGE,
    "impairment": "tc qdisc add dev lo root netem delay 9ms 1ms distribution normal",
    "macvtap": "ip link add link va name mt0 type macvtap mode bridge; ls /dev/tap*",
    "a tap with vhost": "modprobe vhost_net; [ -c /dev/vhost-net ]; ip tuntap add tap9 mode tap",
    "Open vSwitch with the kernel's datapath": OVS,
    "the PTP programs": "ptp4l -v; phc2sys -v; pmc -v",
    "a real ping": "ping -V | grep iputils; ping -c 1 127.0.0.1",
    "VFIO": "modprobe vfio-pci; modprobe vfio_iommu_type1; [ -c /dev/vfio/vfio ]",
    "NIC drivers": "modprobe igb; modprobe e1000e",
    "soft dependencies": "modprobe openvswitch; grep ^crc32c_generic /proc/modules",
    "KVM": "modprobe kvm_amd; [ -c /dev/kvm ]",
    "QEMU": "qemu-system-x86_64 --version",
    "several programs of a real-time priority": "setpriv --pdeathsig TERM chrt -f 50 taskset -c 0 flock /tmp/x true",
}


@pytest.mark.parametrize("script", SCENES.values(), ids=SCENES)
def test_in_the_board_there_is(machine: Run, script: str) -> None:
    done = machine("sh", "-ec", script)
    assert done.returncode == 0, done.stderr


def test_every_module_can_be_loaded_by_name(machine: Run) -> None:
    script = (
        "cut -d: -f1 /lib/modules/*/modules.dep | xargs -n 1 basename -s .ko | while read -r name; do "
        'modprobe "$name" 2>/dev/null; echo "$name $?"; done'
    )
    status = dict(line.split() for line in machine("sh", "-c", script).stdout.splitlines())
    assert len(status) > 60
    refused = {name.replace("-", "_") for name, code in status.items() if code != "0"}
    assert refused == set(NOT_HERE)


INNER = """
set -e
modprobe kvm_amd
modprobe vhost_net
ip tuntap add tap0 mode tap
ip link set tap0 up
mkdir /run/inner
cd /usr/share/latlab/images/debian-cloud
setsid qemu-system-x86_64 -machine q35 -accel kvm -cpu host -m 192M -nodefaults -no-user-config -no-reboot \\
  -display none -serial file:/run/inner/console -kernel kernel -initrd initramfs -append "$1" \\
  -device virtio-serial-pci -chardev socket,id=port1,path=/run/inner/port1.sock,server=on,wait=off \\
  -device virtserialport,chardev=port1,nr=1,name=latlab.1 \\
  -netdev tap,id=net,ifname=tap0,script=no,downscript=no,vhost=on -device virtio-net-pci,netdev=net,romfile= \\
  </dev/null >/run/inner/log 2>&1 &
timeout 400 latlab-agent in --patience 300 /run/inner sh -c 'uname -r; ls /sys/class/net; dmesg | grep Hypervisor' \\
  </dev/null || cat /run/inner/log /run/inner/console
"""


def test_a_guest_of_the_image_in_it_runs_in_the_board_with_kvm_and_vhost(machine: Run, image: Image) -> None:
    done = machine("sh", "-c", INNER, "inner", image.append)
    assert done.stdout.splitlines()[0] == image.kernel_version, (done.stdout, done.stderr)
    assert "eth0" in done.stdout.split()
    assert "Hypervisor detected: KVM" in done.stdout


def test_on_a_cpu_that_does_not_say_it_is_emulated_nothing_is_pretended(board: Image, tmp_path: Path) -> None:
    with booted(board, tmp_path, "-cpu", "max,tcg-cpuid=off", memory="512M") as run:
        assert all(run("modprobe", name).returncode != 0 for name in own_modules.OWN_MODULES)
        assert run("modprobe", "kvm_amd").returncode != 0
        assert "RT requires X86_FEATURE_CONSTANT_TSC" in run("dmesg").stdout


def test_where_instructions_are_counted_the_kernel_clears_and_copies_without_string_instructions(
    board: Image, tmp_path: Path
) -> None:
    counted = replace(board, append=f"{board.append} {X86_64.counted_used}")
    with booted(counted, tmp_path, "-cpu", f"{X86_64.cpu}{X86_64.counted}", memory="512M") as run:
        flags = set(run("sh", "-c", "grep -m 1 ^flags /proc/cpuinfo").stdout.split())
        assert "svm" in flags
        assert not flags & {"erms", "fsrm", "rep_good"}
        # 12:11 is FSRS (arch/x86/include/asm/cpufeatures.h).
        assert "Clearing CPUID bits: rep_good 12:11" in run("dmesg").stdout
