"""The ready-made images: what each is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.model.errors import UsageError
from latlab.testbed.images.kinds import READY_MADE, sort_of
from latlab.testbed.images.recipe import DDS_PROGRAMS, PROGRAMS
from latlab.testbed.images.store import Image


def test_the_image_for_dds_is_the_real_time_one_and_ddsperf() -> None:
    plain, dds = (sort_of(name, None, None) for name in ("debian-rt", "debian-rt-dds"))
    assert (dds.kind, dds.flavour) == (plain.kind, plain.flavour)
    assert dict(dds.recipe.parts.programs) == {**plain.recipe.parts.programs, "cyclonedds-tools": ("ddsperf",)}
    assert dds.recipe.kernels == plain.recipe.kernels


def test_no_other_image_has_what_only_dds_needs() -> None:
    others = {name: sort.recipe.parts.packages for name, sort in READY_MADE.items() if name != "debian-rt-dds"}
    assert len(others) > 3
    assert not any(set(DDS_PROGRAMS) & set(packages) for packages in others.values())
    assert not set(DDS_PROGRAMS) & set(PROGRAMS)


def test_its_name_stands_for_it_and_for_no_other() -> None:
    with pytest.raises(UsageError, match="is of the flavour rt, not cloud"):
        sort_of("debian-rt-dds", "cloud", None)
    assert not sort_of("mine", "rt", None).dds


@pytest.mark.parametrize(
    ("name", "kind", "flavour", "architecture", "extra", "emulator_from", "command"),
    [
        ("debian-rt", "guest", "rt", "amd64", (), "", "debian-rt"),
        ("debian-rt", "guest", "rt", "amd64", ("netperf",), "", "debian-rt --package netperf"),
        ("debian-rt-board-arm64", "board", "rt", "arm64", (), "", "debian-rt-board-arm64"),
        ("mine", "guest", "cloud", "amd64", (), "", "mine --flavour cloud"),
        ("mine", "board", "rt", "arm64", ("bc",), "", "mine --board --flavour rt --arch arm64 --package bc"),
        ("vf-board", "board", "rt", "amd64", (), "trixie", "vf-board --board --flavour rt --emulator-from trixie"),
    ],
)
def test_the_command_that_builds_an_image_again_is_whole(
    name: str, kind: str, flavour: str, architecture: str, extra: tuple[str, ...], emulator_from: str, command: str
) -> None:
    path = Path("none")
    more = {"kind": kind, "architecture": architecture, "emulator_from": emulator_from}
    image = Image(name, path, path, "", flavour, "6", "d", {}, "", 0, extra, **more)  # type: ignore[arg-type]
    assert image.build_command() == f"latlab image build {command}"
    assert image.build_command("stress-ng") == f"latlab image build {command} --package stress-ng"
