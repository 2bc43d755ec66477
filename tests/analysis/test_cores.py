"""On which kind of core each measured thread ran."""

from __future__ import annotations

from typing import Any

import pytest

from latlab.analysis.cores import cores_used, kinds_of
from latlab.result.types import CoresUsed, CoreUse
from support.analysis.broken.causes import BIG_LITTLE, LARGE, SMALL, on_cpus
from support.analysis.evidence import guest, merged, on_ecu, thread, threads


def test_a_threads_rows_are_shared_among_the_kinds_of_cores_it_ran_on() -> None:
    found = on_ecu(
        merged(BIG_LITTLE, threads(**{"qemu-system-aarch64.1_CPU_0__KVM": thread(cpus=[2, 3], last_cpu=3)})),
        agents=on_cpus([0, 2, 3], cpu0=25, cpu2=75),
        guests=[guest()],
    )
    small = CoreUse(core="Cortex-A53", capacity=446, cpus=[0, 1], share=0.25)
    large = CoreUse(core="Cortex-A72", capacity=1024, cpus=[2, 3], share=0.75)
    assert cores_used(found) == [
        CoresUsed(thread="listen on ecu", host="ecu", may=[0, 2, 3], cores=[small, large]),
        CoresUsed(thread="ecu, CPU 0/KVM", host="ecu", may=[2, 3], cores=[large.model_copy(update={"share": None})]),
    ]


def test_a_thread_that_is_bound_to_one_kind_ran_on_that() -> None:
    (found,) = cores_used(on_ecu(BIG_LITTLE, agents=on_cpus([1])))
    assert [(one.core, one.share) for one in found.cores] == [("Cortex-A53", None)]


@pytest.mark.parametrize(
    ("cpus", "kinds"),
    [
        ({"0": SMALL, "1": LARGE}, ["Cortex-A53 (CPU 0)", "Cortex-A72 (CPU 1)"]),
        ({"0": LARGE, "1": SMALL}, ["Cortex-A53 (CPU 1)", "Cortex-A72 (CPU 0)"]),
        ({"0": {"capacity": 1024}, "1": {"capacity": 812}}, ["CPU 1, capacity 812", "CPU 0, capacity 1024"]),
        (
            {
                "0": {"core_type": "core", "maximum_khz": 5_000_000},
                "1": {"core_type": "atom", "maximum_khz": 3_800_000},
            },
            ["atom (CPU 1)", "core (CPU 0)"],
        ),
        ({"0": {"maximum_khz": 3_800_000}, "1": {"maximum_khz": 4_000_000}}, []),
        ({"0": LARGE, "1": LARGE}, []),
        ({}, []),
    ],
)
def test_kinds_are_listed_from_the_slowest_to_the_fastest(cpus: dict[str, Any], kinds: list[str]) -> None:
    assert [kind.name for kind in kinds_of({"cpu": {"cpus": cpus}})] == kinds


def test_a_machine_whose_cores_are_alike_has_nothing_to_say() -> None:
    assert cores_used(on_ecu({}, agents=on_cpus([0, 1]))) == []
