"""A description from a file: durations with units, kinds by name, and what is wrong told line by line."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from latlab.model.errors import LatlabError, UsageError
from latlab.synthetic import Description, generate
from latlab.synthetic.description import Ingredient, Losses, Noise, Spikes, Stall, Step, Swing, SyntheticGates
from latlab.synthetic_file import KINDS, PACKETS_MAX, read_description

BASE = "seed: 1\npackets: 3000\nperiod: 1ms\n"
EXAMPLE = Path(__file__).parents[2] / "docs" / "reference" / "synthetic.md"


def read(text: str, folder: Path) -> Description:
    path = folder / "it.yaml"
    path.write_text(text, encoding="utf-8")
    return read_description(path)


def said(text: str, folder: Path) -> list[str]:
    """What is wrong, without the file's name."""
    with pytest.raises(UsageError) as told:
        read(text, folder)
    lines = str(told.value).splitlines()
    return [line.removeprefix(f"{folder}/it.yaml:") for line in (lines[1:] if len(lines) > 1 else lines)]


def test_what_is_not_written_has_its_default(tmp_path: Path) -> None:
    assert read(BASE, tmp_path) == Description(seed=1, packets=3_000, period_ns=1_000_000)


def test_every_field_is_written_by_its_name_with_its_unit(tmp_path: Path) -> None:
    text = """
warmup: 100
hardware: true
ptp: true
drain: 700ns
clock_bound: null
least: [4us, 1us, 1us, 1us, 2us, 15us, 5us, 8us]
gates: {cycle: 500us, open: 200us, shift: -10us, schedule_known: false}
noise: {shape: modes, spread: 3us, modes: [[0.1, 20us], [0.05, 60us]], lattice: 100ns}
ingredients:
  - {kind: stall, at: 1s, length: 6ms, where: kernel}
  - {kind: step, at: 1500ms, amplitude: -40us}
  - {kind: losses, share: 0.001, bursts: [[100, 5], [700, 3]]}
  - {kind: spikes, sequences: [5, 2000], extra: 300us}
"""
    found = read(BASE + text, tmp_path)
    assert found == Description(
        seed=1,
        packets=3_000,
        period_ns=1_000_000,
        warmup=100,
        hardware=True,
        ptp=True,
        drain_ns=700,
        least_ns=(4_000, 1_000, 1_000, 1_000, 2_000, 15_000, 5_000, 8_000),
        gates=SyntheticGates(500_000, 200_000, -10_000, schedule_known=False),
        noise=Noise(3_000, "modes", modes=((0.1, 20_000), (0.05, 60_000)), lattice_ns=100),
        ingredients=(
            Stall(10**9, 6_000_000, "kernel"),
            Step(1_500_000_000, -40_000),
            Losses(0.001, ((100, 5), (700, 3))),
            Spikes((5, 2_000), 300_000),
        ),
    )


def test_every_ingredient_has_a_kind() -> None:
    assert set(KINDS.values()) == set(get_args(Ingredient))
    assert {"stall", "periodic_stalls", "late_wakes", "warm_up", "path_change"} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_with_what_it_needs_and_made(kind: str, tmp_path: Path) -> None:
    needed: dict[str, Any] = {
        "at_ns": "1s", "length_ns": "400ms", "extra_ns": "300us", "sequences": "[700]", "every_ns": "100ms",
        "first_ns": "500ms", "count": 3, "decay_ns": "50ms", "amplitude_ns": "20us", "ppb": -300, "pk_pk_ns": "20us",
        "bursts": "[[900, 4]]",
    }  # fmt: skip
    names = [one.name for one in fields(KINDS[kind]) if one.name in needed]
    values = ", ".join(f"{name.removesuffix('_ns')}: {needed[name]}" for name in names)
    text = f"{BASE}gates: {{cycle: 500us, open: 200us}}\ningredients: [{{kind: {kind}, {values}}}]\n"
    (one,) = read(text, tmp_path).ingredients
    assert type(one) is KINDS[kind]
    assert generate(read(text, tmp_path)).packets.height == 3_000


WRONG = [
    ("packets: 5000000000\n", "4: packets: 'packets' appears twice"),
    ("seedd: 1\n", "4: seedd: unknown key 'seedd'; expected seed? (known: seed, packets, period, "),
    ("warmup: -1\n", "4: warmup: -1 is not a whole number"),
    ("warmup: true\n", "4: warmup: true is not a whole number"),
    ("warmup: 3000\n", "4: warmup: 3000 of 3000 packets; expected give fewer than there are"),
    ("drain: 5\n", "4: drain: 5 has no unit; expected a duration such as 1006us"),
    ("drain: 2ms\n", "4: drain: 2000000 ns between packets every 1000000 ns"),
    (
        "noise: {shape: pink}\n",
        "4: noise.shape: 'pink' is not supported; expected one of gaussian, lognormal, heavy, mod",
    ),
    ("noise: wide\n", "4: noise: 'wide' is not a mapping"),
    ("noise: {sigma: much}\n", "4: noise.sigma: 'much' is not a number"),
    (
        "noise: {shape: modes, modes: [[0.9, 1us], [0.9, 2us]]}\n",
        "4: noise.modes: the modes' weights add up to more than 1",
    ),
    ("noise: {shape: modes, modes: [[-0.1, 1us]]}\n", "4: noise.modes: a weight that is not a share; expected give 0"),
    ("noise: {shape: modes}\n", "4: noise.modes: there are none; expected give a weight and an offset for each"),
    ("noise: {modes: [[0.1, 1us]]}\n", "4: noise.modes: the shape gaussian has no modes; expected leave it out, or "),
    ("noise: {degrees: 3}\n", "4: noise.degrees: the shape gaussian has no degrees; expected leave it out, or "),
    ("noise: {shape: heavy, rho: 0.5}\n", "4: noise.rho: the shape heavy has no rho; expected leave it out, or "),
    ("noise: {shape: heavy, degrees: 0}\n", "4: noise.degrees: 0.0 degrees of freedom; expected give 1.0 to 1000.0"),
    ("noise: {shape: lognormal, sigma: 1000}\n", "4: noise.sigma: a sigma of 1000.0; expected give 0 to 3.0"),
    ("noise: {shape: lognormal, sigma: -1}\n", "4: noise.sigma: a sigma of -1.0; expected give 0 to 3.0"),
    ("noise: {rho: 1}\n", "4: noise.rho: a correlation of 1.0; expected give 0 or more, and less than 1"),
    ("noise: {rho: 2}\n", "4: noise.rho: a correlation of 2.0; expected give 0 or more, and less than 1"),
    ("noise: {rho: -0.5}\n", "4: noise.rho: a correlation of -0.5; expected give 0 or more, and less than 1"),
    ("noise: {rho: 0.9999}\n", "4: noise.rho: a correlation of 0.9999 between packets lasts for longer than 3000 "),
    ("noise: {slow: 1us, slow_correlation: 1h}\n", "4: noise.slow_correlation: correlated over 3600000000000 ns of a "),
    ("noise: {slow_correlation: 1s}\n", "4: noise.slow_correlation: nothing is slow; expected give slow_ns, too"),
    ("noise: {spread: 2s}\n", "4: noise.spread: 2000000000 ns; expected give 1000000000 ns or less"),
    ("least: [1us]\n", "4: least: (1000,); expected give a delay"),
    ("hardware: 1\n", "4: hardware: 1 is neither true nor false"),
    ("ingredients: {kind: stall}\n", "4: ingredients: {'kind': 'stall'} is not a list"),
    ("ingredients:\n  - 3\n", "5: ingredients[0]: 3 is not a mapping"),
    ("ingredients:\n  - {at: 1s}\n", "5: ingredients[0]: unknown kind ''"),
    ("ingredients:\n  - {kind: stal}\n", "5: ingredients[0].kind: unknown kind 'stal'; expected stall?"),
    ("ingredients:\n  - {kind: stall, at: 1s}\n", "5: ingredients[0]: length is missing; expected length: a duration"),
    ("ingredients:\n  - {kind: stall, at: -1s, length: 1ms}\n", "5: ingredients[0].at: '-1s' is not a duration"),
    ("ingredients:\n  - {kind: step, at: 1s, amplitude: -40}\n", "5: ingredients[0].amplitude: -40 has no unit"),
    ("ingredients:\n  - {kind: losses, bursts: [[1]]}\n", "5: ingredients[0].bursts[0]: [1] is not a list of 2"),
    ("ingredients:\n  - {kind: spikes, sequences: [3000], extra: 1us}\n", "5: ingredients[0]: packet 3000 of 3000"),
    ("ingredients:\n  - {kind: missed_slots, sequences: [3]}\n", "5: ingredients[0]: there are no gates"),
    *(
        (f"ingredients:\n  - {{kind: {one}}}\n", f"5: ingredients[0]{said}")
        for one, said in [
            *(
                (
                    f"warm_up, extra: 1us, decay: 1s, where: {where}",
                    f".where: '{where}' is not supported; expected one of",
                )
                for where in ("kernel", "talker", "qdisc")
            ),
            ("warm_up, extra: 1us, decay: 0", ": decay_ns is 0; expected give 1 or more"),
            ("stall, at: 1s, length: 0", ": length_ns is 0; expected give 1 or more"),
            ("swing, at: 1s, length: 0, amplitude: 1us", ": length_ns is 0; expected give 1 or more"),
            ("path_change, at: 1s, length: 0, amplitude: 1us", ": length_ns is 0; expected give 1 or more"),
            ("throttling, first: 1s, gap: 0", ": gap_ns is 0; expected give 1 or more"),
            (
                "oscillation, pk_pk: 1us, every: 0",
                ": every 0 ns, packets every 1000000 ns; expected give more than two",
            ),
            (
                "oscillation, pk_pk: 1us, every: 2ms",
                ": every 2000000 ns, packets every 1000000 ns; expected give more ",
            ),
            (
                "periodic, extra: 1us, every: 1s, scatter: 5",
                ": a scatter of 5.0; expected give 0 to 1, the share by wh",
            ),
            ("periodic_stalls, length: 1us, every: 1s, scatter: -1", ": a scatter of -1.0; expected give 0 to 1"),
            (
                "swing, at: 1s, length: 1s, amplitude: 1us, ptp: true",
                ": ptp: nothing observes a ptp4l; expected add ptp ",
            ),
            ("step, at: 1s, amplitude: 1us, ptp: true", ": ptp: nothing observes a ptp4l; expected add ptp to the de"),
            ("stall, at: 4s, length: 1ms", ": it begins 4000000000 ns after the first packet, the run lasts 3000"),
            ("throttling, first: 3s", ": it begins 3000000000 ns after the first packet, the run lasts 30000"),
            ("drift, ppb: -1e9", ": -1000000000.0 ppb; expected give less than 1000000000, of either sign"),
            ("losses, bursts: [[5, 0]]", ": a burst of no packet; expected give 1 or more"),
            ("reorders, sequences: [2999]", ": packet 2999 of 3000 is overtaken by 1; expected name packets that"),
            ("reorders, sequences: [5], places: 0", ": overtaken by 0 packets; expected give 1 or more"),
            ("spikes, sequences: [5], extra: 100000h", ": extra_ns is 360000000000000000; expected give 365 days at"),
        ]
    ),
    (
        "drain: 1ns\ningredients:\n  - {kind: reorders, sequences: [5]}\n",
        "6: ingredients[0]: packets pass 1 ns apart: none is between two of them; expected give a drain_ns of 2",
    ),
]


@pytest.mark.parametrize(("more", "line"), WRONG, ids=[line[:50] for _, line in WRONG])
def test_what_is_wrong_is_reported_in_its_line(more: str, line: str, tmp_path: Path) -> None:
    (found,) = said(BASE + more, tmp_path)
    assert found.startswith(line)


def test_all_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    text = "packets: many\nperiod: 1\nnoise: {spred: 1us}\ningredients: [{kind: stall, at: soon}]\n"
    found = said(text, tmp_path)
    assert [line.split(":")[0] for line in found] == ["1", "1", "2", "3", "4", "4"]
    assert any("seed is missing" in line for line in found)


@pytest.mark.parametrize(
    ("text", "line"), [("", "the file is empty"), ("[1]", "[1] is not a mapping"), ("a: [", "YAML")]
)
def test_a_file_that_is_no_mapping_is_reported(text: str, line: str, tmp_path: Path) -> None:
    assert any(line in one for one in said(text, tmp_path))


def test_more_packets_than_can_be_made_are_refused(tmp_path: Path) -> None:
    (found,) = said(f"seed: 1\npackets: {PACKETS_MAX + 1}\nperiod: 1ms\n", tmp_path)
    assert found.startswith(f"2: packets: {PACKETS_MAX + 1} packets; expected {PACKETS_MAX} or fewer")


def test_a_run_of_more_than_a_year_is_refused(tmp_path: Path) -> None:
    (found,) = said("seed: 1\npackets: 20000000\nperiod: 2s\n", tmp_path)
    assert found.startswith("2: packets: 20000000 packets every 2000000000 ns; expected give fewer: a run lasts 365 ")


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LatlabError, match="there is no such file"):
        read_description(tmp_path / "none.yaml")


def test_the_example_of_the_documentation_is_read_as_it_stands(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = read(text, tmp_path)
    assert {type(one) for one in found.ingredients} >= {Stall, Swing, Spikes, Losses}
