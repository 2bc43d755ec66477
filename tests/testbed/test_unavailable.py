"""What keeps a cell from being built is told as one error, whose parts keep their places."""

from __future__ import annotations

from latlab.errors import LabError
from latlab.testbed.guests.unavailable import summed_up

NO_VFIO = LabError("no IOMMU", where="guests.vm1.bridge: vfio", remedy="intel_iommu=on")
NO_TOOL = LabError("stress-ng is not installed", where="loads.memory", remedy="`sudo apt install stress-ng`")


def test_one_reason_is_itself() -> None:
    assert summed_up([NO_VFIO]) is NO_VFIO


def test_several_keep_where_they_are_and_what_to_do() -> None:
    told = summed_up([NO_VFIO, NO_TOOL])
    assert told.what == "no IOMMU; stress-ng is not installed"
    assert told.where == "guests.vm1.bridge: vfio, loads.memory"
    assert told.remedy == "intel_iommu=on; `sudo apt install stress-ng`"


def test_what_two_have_in_common_is_told_once() -> None:
    there = LabError(NO_TOOL.what, where="loads.files", remedy=NO_TOOL.remedy)
    told = summed_up([NO_TOOL, there])
    assert (told.what, told.where, told.remedy) == (NO_TOOL.what, "loads.memory, loads.files", NO_TOOL.remedy)
