"""Images for ARM, built on a machine of another architecture: what is made of which packages, and by what names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import LabError, UsageError
from latlab.testbed import agent_binary
from latlab.testbed.images import base, build
from latlab.testbed.images import packages as archives
from latlab.testbed.images.base import find_ingredients
from latlab.testbed.images.board_recipe import BOARDS, ONLY_X86, board_recipe
from latlab.testbed.images.build import _Inputs
from latlab.testbed.images.kinds import command_line, named_for, ready_made, sort_of
from latlab.testbed.images.modules import missing_compiler
from latlab.testbed.images.packages import Apt, Package
from latlab.testbed.images.store import Image

VERSION = "6.12.1-1"
KERNEL = "linux-image-6.12.1-rt"


@dataclass
class StandIn(Apt):
    """An apt that knows every package, for one architecture."""

    architecture: str
    asked: list[str] = field(default_factory=list)

    def packages(self, names: Iterable[str]) -> list[Package]:
        return list(self._known(list(names)))

    def kernel(self, *metas: str) -> Package:
        self.asked += metas
        return self.packages([f"{KERNEL}-{self.architecture}"])[0]

    def libraries_of(self, packages: Iterable[Package]) -> list[Package]:
        return self.packages([f"libof-{package.name}" for package in packages])

    def source(self, kernel: Package) -> Package:
        return Package("linux-source-6.12", kernel.version, "all", "kernel", (), 1, 1)

    def _known(self, names: list[str]) -> Any:
        self.asked += names
        depends = ("linux-headers-6.12.1-common-rt", "linux-kbuild-6.12.1", "gcc-12")
        for name in names:
            needs = depends if name.startswith("linux-headers") and not name.endswith("common-rt") else ()
            yield Package(name, VERSION, self.architecture, "misc", needs, 1, 1)


@pytest.fixture
def apts(monkeypatch: pytest.MonkeyPatch) -> dict[str, StandIn]:
    """The apts of an x86-64 machine that has every compiler."""
    found = {name: StandIn(name) for name in ("amd64", "arm64")}
    monkeypatch.setattr(base, "machine_architecture", lambda: "amd64")
    monkeypatch.setattr(base, "Apt", lambda cache: found["amd64"])
    monkeypatch.setattr(base, "foreign", lambda cache, architecture: found[architecture])
    monkeypatch.setattr(base, "missing_compiler", lambda cross=None: [])
    monkeypatch.setattr(base, "missing_programs", lambda cross=None: [])

    def newest(
        apt: StandIn, names: Sequence[str], cache: Path, say: object, architecture: str | None = None
    ) -> tuple[Package, ...]:
        found = apt.packages(names)
        return (*found, *apt.libraries_of(found))

    monkeypatch.setattr(base, "newest_qemu", newest)
    return found


def test_a_boards_packages_are_for_arm_and_what_runs_here_is_this_machines(
    apts: dict[str, StandIn], tmp_path: Path
) -> None:
    sort = sort_of("debian-rt-board-arm64", None, None)
    found = find_ingredients(sort.recipe, (), tmp_path, print, sort.architecture)
    assert found.cross == "arm64"
    assert {one.architecture for one in (found.kernel, *found.programs, *found.libraries)} == {"arm64"}
    assert {one.architecture for one in found.tools} == {"amd64"}
    assert {"busybox-static", "kmod", "qemu-system-arm", "libof-qemu-system-arm"} <= {one.name for one in found.tools}
    assert "qemu-system-arm" in {one.name for one in found.programs}
    by = {one.name: one.architecture for one in found.headers}
    assert by == {
        f"{KERNEL.replace('image', 'headers')}-arm64": "arm64",
        "linux-headers-6.12.1-common-rt": "arm64",
        "linux-kbuild-6.12.1": "amd64",
    }


def test_a_board_of_this_machines_architecture_asks_nobody_else(apts: dict[str, StandIn], tmp_path: Path) -> None:
    sort = sort_of("debian-rt-board", None, None)
    found = find_ingredients(sort.recipe, (), tmp_path, print, sort.architecture)
    assert (found.cross, found.tools) == (None, ())
    assert apts["arm64"].asked == []
    assert {one.architecture for one in found.unpacked} == {"amd64"}


def test_packages_of_both_architectures_are_told_apart_in_what_an_image_is_made_of(
    apts: dict[str, StandIn], tmp_path: Path
) -> None:
    sort = sort_of("debian-rt-board-arm64", None, None)
    found = find_ingredients(sort.recipe, (), tmp_path, print, sort.architecture)
    inputs = _Inputs("debian-rt-board-arm64", sort, (), "a" * 64, found, None, "r")
    assert {"kmod", "kmod:amd64", "qemu-system-arm", "qemu-system-arm:amd64"} <= set(inputs.versions)


def test_an_arm_board_has_kvm_in_its_own_hypervisor_mode_and_no_module_of_ours() -> None:
    arm, pc = board_recipe("rt", "arm64"), BOARDS["rt"]
    assert command_line(sort_of("debian-rt-board-arm64", None, None), "arm64").startswith("console=ttyAMA0 ")
    assert "kvm-arm.mode=nvhe" in arm.command_line.split()
    assert "kvm-arm" not in pc.command_line
    assert arm.own_modules == ()
    assert pc.own_modules == ("constant_tsc", "svm_inject_once")
    assert set(pc.features) - set(arm.features) == set(ONLY_X86)
    assert arm.nested and arm.nested.packages == ("qemu-system-arm",)


def test_the_images_for_arm_go_by_names_of_their_own() -> None:
    assert named_for("debian-rt", "arm64") == "debian-rt-arm64"
    assert named_for("debian-rt", None) == named_for("debian-rt", "amd64") == "debian-rt"
    assert named_for("mine", "arm64") == "mine"
    for name in ("debian-cloud", "debian-rt-dds", "debian-rt-board"):
        plain, arm = ready_made(name), ready_made(f"{name}-arm64")
        assert plain and arm
        assert (arm.kind, arm.flavour, arm.dds) == (plain.kind, plain.flavour, plain.dds)
        assert (plain.architecture, arm.architecture) == ("", "arm64")
    assert sort_of("mine", "rt", None, "arm64").architecture == "arm64"
    with pytest.raises(UsageError, match="image debian-rt-arm64 is for arm64"):
        sort_of("debian-rt-arm64", None, None, "amd64")
    with pytest.raises(UsageError, match="there is no image for 'armhf'"):
        sort_of("mine", "rt", None, "armhf")


def test_without_an_agent_for_arm_the_build_says_what_makes_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(agent_binary, "find_agents", lambda own: {"x86_64": str(own)})
    with pytest.raises(LabError) as caught:
        build.build_image("debian-rt-board", architecture="arm64")
    assert caught.value.remedy == "`make agents`"
    assert not (tmp_path / "images").exists()


def test_the_lists_for_arm_are_kept_apart_and_name_no_other_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[tuple[Path, tuple[str, ...]]] = []
    target = archives._Target("Debian", "http://debian.example", "stable", "main")
    monkeypatch.setattr(archives, "_targets", lambda: (target,))
    monkeypatch.setattr(
        archives, "_apt", lambda folder, targets, options=(): told.append((folder.relative_to(tmp_path), options))
    )
    archives.foreign(tmp_path, "arm64")
    archives.backports(tmp_path, "arm64")
    archives.backports(tmp_path)
    only = ("-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64")
    newest = ("-o", "APT::Default-Release=stable-backports")
    assert told == [
        (Path("arm64"), only),
        (Path("backports-arm64"), (*newest, *only)),
        (Path("backports"), newest),
    ]


def test_a_boards_emulator_is_the_one_for_its_architecture() -> None:
    def image(architecture: str) -> Image:
        files = Path("/images/board")
        return Image(
            "board", files / "kernel", files / "initramfs", "", "rt", "", "d", {}, "", 0,
            emulator="10.0.2", architecture=architecture,
        )  # fmt: skip

    assert str(image("arm64").emulator_program) == "/images/board/qemu/qemu-system-aarch64"
    assert {str(image(name).emulator_program) for name in ("", "amd64")} == {"/images/board/qemu/qemu-system-x86_64"}


def test_modules_for_arm_take_a_compiler_for_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name.startswith("aarch64") else f"/usr/bin/{name}")
    assert missing_compiler() == []
    assert missing_compiler("arm64") == ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-strip"]
