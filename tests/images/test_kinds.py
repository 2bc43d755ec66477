"""The ready-made images: what each is made of."""

from __future__ import annotations

import pytest

from latlab.model.errors import UsageError
from latlab.testbed.images.kinds import READY_MADE, sort_of
from latlab.testbed.images.recipe import DDS_PROGRAMS, PROGRAMS


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
