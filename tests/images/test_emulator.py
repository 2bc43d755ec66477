"""Which QEMU a board's image gets, and that it is whole: it needs nothing of the machine it runs on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from latlab.model.errors import LabError, UsageError
from latlab.testbed.images import Image, emulator
from latlab.testbed.images.board_recipe import board_recipe
from latlab.testbed.images.emulator import PACKAGE, newest_qemu
from latlab.testbed.images.packages import LISTS, Apt, Package, backports
from latlab.testbed.images.recipe import Recipe, guest_recipe

OLD, NEW = "1:7.2+dfsg-7+deb12u16", "1:10.0.2+ds-2~bpo12+1"
APT_GET = """\
#!/bin/sh
[ "$1" = update ] || exec {real} "$@"
echo update >>{folder}/asked
exit $(cat {folder}/status)
"""


@dataclass
class KnownPackages:
    """An apt that knows one version of QEMU, and one library that it needs."""

    version: str
    asked: list[str] = field(default_factory=list)

    def packages(self, names: Sequence[str]) -> list[Package]:
        self.asked += names
        return [self._package(name) for name in names]

    def libraries_of(self, packages: Sequence[Package]) -> list[Package]:
        return [self._package(f"libof-{package.name}") for package in packages]

    def _package(self, name: str) -> Package:
        return Package(name, self.version, "amd64", "misc", (), 1, 1)


@pytest.mark.parametrize(
    ("own", "later", "chosen", "told"),
    [
        (OLD, NEW, NEW, []),
        (NEW, None, NEW, []),
        (OLD, None, OLD, ["boards get QEMU 7.2 (none); virtual time repeats to the nanosecond from 10.0 on"]),
    ],
    ids=["from backports", "new enough: nobody else is asked", "no backports: the machine's own, which is said"],
)
def test_the_newest_qemu_is_chosen(
    own: str, later: str | None, chosen: str, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def with_backports(cache: Path) -> KnownPackages:
        asked.append(cache)
        if later is None:
            raise LabError("none", where="building an image")
        return KnownPackages(later)

    monkeypatch.setattr(emulator, "backports", with_backports)
    said: list[str] = []
    found = newest_qemu(cast(Apt, KnownPackages(own)), [PACKAGE, "seabios"], tmp_path, said.append)
    assert [package.name for package in found] == [PACKAGE, "seabios", f"libof-{PACKAGE}"]
    assert {package.version for package in found} == {chosen}
    assert said == told
    assert asked == ([] if own == NEW else [tmp_path])


def test_another_release_s_qemu_is_chosen_with_its_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def known(cache: Path, release: str) -> KnownPackages:
        asked.append(release)
        return KnownPackages(NEW)

    monkeypatch.setattr(emulator, "of_release", known)
    found = emulator.qemu_of_release("trixie", board_recipe("rt"), tmp_path)
    assert asked == ["trixie"]
    assert PACKAGE in [package.name for package in found] and found[-1].name == f"libof-{PACKAGE}"


@pytest.mark.parametrize(
    ("release", "recipe", "says"),
    [
        ("main\ndeb http://x", board_recipe("rt"), "not the name of a Debian release"),
        ("trixie", guest_recipe("rt"), "guest's image"),
    ],
    ids=["no name", "a guest's"],
)
def test_what_is_no_release_or_no_board_s_is_an_error(release: str, recipe: Recipe, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        emulator.qemu_of_release(release, recipe, tmp_path)


@pytest.mark.slow
def test_lists_that_cannot_be_fetched_again_still_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "apt-get").write_text(APT_GET.format(real=shutil.which("apt-get"), folder=tmp_path))
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def asks(status: int) -> bool:
        (tmp_path / "status").write_text(str(status))
        (tmp_path / "asked").write_text("")
        backports(tmp_path)
        return bool((tmp_path / "asked").read_text())

    sources = tmp_path / "backports" / "sources.list"
    with pytest.raises(LabError):
        asks(1)
    assert not sources.exists()
    assert asks(0) and not asks(1)
    os.utime(sources, (0, LISTS.stat().st_mtime - 1))
    assert asks(1), "the machine's own lists are newer"
    assert asks(1), "what failed is due again"
    assert "-backports main" in sources.read_text()
    assert asks(0) and not asks(1)


def test_the_qemu_of_an_image_runs_with_nothing_of_this_machines(board: Image) -> None:
    assert board.emulator_program
    command = (str(board.emulator_program), "-machine", "none", "-display", "none", "-S", "-monitor", "stdio")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as qemu:
        assert qemu.stdin and qemu.stdout
        try:
            assert qemu.stdout.readline().startswith(f"QEMU {board.emulator} monitor")
            mapped = (line.split(maxsplit=5) for line in Path(f"/proc/{qemu.pid}/maps").read_text().splitlines())
            files = {Path(fields[5]) for fields in mapped if len(fields) == 6 and fields[5].startswith("/")}
        finally:
            qemu.kill()
    assert any(path.name.startswith("libglib-2.0") for path in files)
    assert [path for path in files if not path.is_relative_to(board.folder.resolve())] == []
