"""The driver igb of a board's image: the kernel's own source, patched; the stock one where that cannot be had."""

from __future__ import annotations

import lzma
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from latlab.model.errors import LabError
from latlab.testbed.images import Image
from latlab.testbed.images.modules import IGB_FOLDER, Module, apply_patch, mended_igb, source_files
from latlab.testbed.images.packages import Apt, Package
from latlab.testbed.images.tree import module_facts
from support.images.cpio import Found, modules_dep, read

DRIVER = "kernel/drivers/net/ethernet/intel/igb/igb.ko"
SOURCE = {
    f"{IGB_FOLDER}/Makefile": b"obj-m += igb.o\n",
    f"{IGB_FOLDER}/igb_ptp.c": b"/* a driver of another kind */\n",
    "drivers/net/ethernet/intel/igbvf/Makefile": b"obj-m += igbvf.o\n",
}
CONTROL = "Package: linux-source-6.99\nVersion: 6.99-1\nArchitecture: all\nMaintainer: nobody\nDescription: a source\n"


def source_package(folder: Path, files: dict[str, bytes]) -> Path:
    """A package of a kernel's source with these files, made as Debian's is."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    (tree / "usr/src").mkdir(parents=True)
    with lzma.open(tree / "usr/src/linux-source-6.99.tar.xz", "w") as packed, tarfile.open(None, "w", packed) as source:
        for name, data in files.items():
            member = tarfile.TarInfo(f"linux-source-6.99/{name}")
            member.size = len(data)
            source.addfile(member, BytesIO(data))
    package = folder / "linux-source-6.99_6.99-1_all.deb"
    subprocess.run(["dpkg-deb", "--build", tree, package], check=True, capture_output=True)
    return package


@pytest.fixture(scope="module")
def found(board: Image) -> dict[str, Found]:
    """What is in the board's initial file system, by name."""
    return {one.name: one for one in read(board.initramfs.read_bytes())}


def test_the_boards_driver_is_the_patched_one_where_modprobe_finds_the_stock_one(
    found: dict[str, Found], board: Image
) -> None:
    home = f"usr/lib/modules/{board.kernel_version}"
    assert [name for name in found if name.endswith("/igb.ko")] == [f"{home}/{DRIVER}"]
    needs = {Path(one).stem for one in modules_dep(found, board)[DRIVER]}
    assert needs == {"dca", "i2c-algo-bit"}
    ours, theirs = (
        found[f"{home}/{DRIVER}"].data,
        found[f"{home}/kernel/drivers/net/ethernet/intel/e1000e/e1000e.ko"].data,
    )
    facts, others = dict(module_facts(ours)), dict(module_facts(theirs))
    assert facts["vermagic"] == others["vermagic"]
    # The kernel reports it itself of what was built with it.
    assert others["intree"] == "Y" and "intree" not in facts
    assert b"igb_ptp_expect_answer" in ours
    assert b"/.building-" not in ours, "another folder would make other bytes"
    kernel = next(name for name in board.packages if name.startswith("linux-image-"))
    source = next(name for name in board.packages if name.startswith("linux-source-"))
    assert board.packages[source] == board.packages[kernel]


def test_a_folder_of_the_source_is_read_and_nothing_else(tmp_path: Path) -> None:
    package = source_package(tmp_path, SOURCE)
    assert source_files(package, IGB_FOLDER) == {Path(name).name: SOURCE[name] for name in list(SOURCE)[:2]}


def test_a_folder_that_was_read_is_kept_for_other_images(tmp_path: Path) -> None:
    package = source_package(tmp_path, SOURCE)
    whole = source_files(package, IGB_FOLDER)
    package.write_bytes(b"nothing")
    assert source_files(package, IGB_FOLDER) == whole
    with pytest.raises(LabError):
        source_files(package, "drivers/net/ethernet/intel/igbvf")


def test_a_kept_folder_that_is_damaged_is_read_again(tmp_path: Path) -> None:
    package = source_package(tmp_path, SOURCE)
    whole = source_files(package, IGB_FOLDER)
    (kept,) = package.parent.glob("*.tar")
    kept.write_bytes(b"")
    assert source_files(package, IGB_FOLDER) == whole
    assert kept.stat().st_size > 0


@pytest.mark.parametrize("broken", ["no such folder", "cut off", "no package"])
def test_a_source_without_the_driver_is_told_by_its_packages_name(tmp_path: Path, broken: str) -> None:
    package = source_package(tmp_path, {} if broken == "no such folder" else SOURCE)
    if broken == "cut off":
        package.write_bytes(package.read_bytes()[:-100])
    elif broken == "no package":
        package.write_bytes(b"nothing")
    with pytest.raises(LabError, match=rf"{package.name} has no complete {IGB_FOLDER}") as caught:
        source_files(package, IGB_FOLDER)
    assert caught.value.remedy == f"delete {package}: it is downloaded again"


def test_a_source_that_the_patch_is_not_for_makes_no_driver(tmp_path: Path) -> None:
    package = source_package(tmp_path, SOURCE)
    stock = Module("igb", DRIVER, b"")
    with pytest.raises(LabError, match=rf"the patch igb\.patch does not apply to this kernel's {IGB_FOLDER}"):
        mended_igb(stock, package, tmp_path, tmp_path)


def test_the_patch_fits_once(board: Image, shared: Path, tmp_path: Path) -> None:
    (package,) = (shared / "packages").glob(f"linux-source-*_{board.packages[source_of(board)]}_all.deb")
    for name, data in source_files(package, IGB_FOLDER).items():
        (tmp_path / name).write_bytes(data)
    apply_patch(tmp_path)
    assert list(tmp_path.glob("*.rej")) == []
    with pytest.raises(LabError):
        apply_patch(tmp_path)


def source_of(board: Image) -> str:
    """The name of the package of the kernel's source."""
    (name,) = (name for name in board.packages if name.startswith("linux-source-"))
    return name


def test_only_the_source_of_the_very_version_serves(board: Image, tmp_path: Path) -> None:
    name, apt = source_of(board), Apt(tmp_path)
    version = board.packages[name]

    def found(kernels: str) -> Package | None:
        return apt.source(Package("linux-image-any", kernels, "amd64", "kernel", (), 1, 1))

    source = found(version)
    assert source and (source.name, source.version, source.architecture) == (name, version, "all")
    assert found(f"{version}.1") is None
    assert found("9.99.1-1") is None
    assert found("unheard of") is None
