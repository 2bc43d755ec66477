"""The documentation says what the code says: keys, metrics, rules, examples, links and imports."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from latlab.analysis.counts import stream_counts
from latlab.analysis.statistics import NAMES
from latlab.hosts.tools import PACKAGES
from latlab.model.metrics import METRICS, PROBE_METRICS
from latlab.model.statistics import PERCENTILES, smallest_n
from latlab.recordings.cell import Totals
from latlab.scenario import load_scenario, scenario_schema
from latlab.scenario.limits import COUNTED, PROBE_COUNTED, STATISTICS
from latlab.scenario.limits import METRICS as LIMITED
from latlab.scenario.limits import PROBE_METRICS as PROBE_LIMITED
from latlab.scenario.units import DURATION, RATE, SHARE, SIZE
from latlab.testbed.makers import MAKERS
from support.sources import nodes

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"^\s*([A-Z][A-Z0-9_]*[A-Z0-9])\s*$", re.MULTILINE)
"""A line of nothing but capitals and underscores."""
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_ERRORS = {"send_error": pl.Int32, "launch_error": pl.UInt8}

SHARED = {"model"}
"""Everything may import these."""


def page(name: str) -> str:
    """The text of the page of this name, whichever folder of docs it is in."""
    (path,) = (ROOT / "docs").glob(f"*/{name}.md")
    return path.read_text(encoding="utf-8")


def arrows() -> dict[str, set[str]]:
    """What each package may import, as the picture of the code structure has it."""
    pictures = [text for found, text in FENCE.findall(page("code-structure")) if found == "mermaid"]
    pairs = [re.findall(r"^  (\w+) --> (\w+)$", picture, re.MULTILINE) for picture in pictures]
    (drawn,) = (found for found in pairs if ("report", "analysis") in found)
    names = {name for pair in drawn for name in pair} | SHARED
    return {name: {to for start, to in drawn if start == name} for name in names}


def in_code(name: str) -> set[str]:
    """Every word that stands in code font on a page, blocks left out."""
    return {word for span in CODE.findall(FENCE.sub("", page(name))) for word in re.split(r"[\s,:=]+", span)}


def blocks(language: str) -> Iterator[Any]:
    for path in PAGES:
        for number, (found, text) in enumerate(FENCE.findall(path.read_text(encoding="utf-8")), start=1):
            if found == language:
                yield pytest.param(text, id=f"{path.stem}-{number}")


def table_rows(name: str) -> list[list[str]]:
    lines = [line for line in page(name).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, model in (("Scenario", schema), *schema["$defs"].items()):
        for key, field in model["properties"].items():
            yield name, key
            for value in (*field.get("enum", ()), *filter(None, (field.get("const"),))):
                yield f"{name}.{key}", str(value)


def test_every_key_and_choice_of_the_schema_stands_on_the_scenario_page() -> None:
    known = in_code("scenario")
    missing = [f"{where}: {word}" for where, word in properties(scenario_schema()) if word not in known]
    assert not missing


def test_every_unit_metric_statistic_and_count_stands_on_the_scenario_page() -> None:
    known = in_code("scenario")
    units = {unit.replace("μ", "µ") for quantity in (DURATION, SIZE, SHARE, RATE) for unit in quantity.units}
    assert {*units, *LIMITED, *PROBE_LIMITED, *STATISTICS, *COUNTED, *PROBE_COUNTED} <= known


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_a_yaml_example_is_a_scenario_that_loads(text: str, tmp_path: Path) -> None:
    assert isinstance(yaml.safe_load(text), dict)
    if re.search(r"^name:", text, re.MULTILINE):
        path = tmp_path / "example.yaml"
        path.write_text(text, encoding="utf-8")
        assert load_scenario(path).combinations


@pytest.mark.parametrize("text", [one for one in blocks("json") if "…" not in one.values[0]])
def test_a_json_example_is_json(text: str) -> None:
    assert all(json.loads(document) for document in re.split(r"\n(?=\{)", text.strip()))


def test_every_metric_stands_with_its_timestamps_in_the_formulas() -> None:
    rows = {row[0].strip("`"): row for row in table_rows("formulas") if len(row) == 5}
    for metric in (*METRICS, *PROBE_METRICS):
        row = rows[metric.name]
        for pair in metric.pairs:
            assert all(name in row[2] for name in pair), metric.name
        assert row[4] == ("yes" if metric.crosses_hosts else "no"), metric.name


def test_every_statistic_and_count_stands_in_the_formulas() -> None:
    nothing = pl.DataFrame(schema={"warmup": pl.Boolean, "sequence": pl.UInt64, "arrival": pl.UInt64, **_ERRORS})
    counts = stream_counts(nothing, Totals(), 1)
    # The percentiles stand as a range, from the first to the last.
    between = set(list(PERCENTILES)[1:-1])
    assert {*NAMES, *counts} - between - {"n"} <= in_code("formulas")


def test_the_smallest_samples_in_the_formulas_are_the_ones_in_force() -> None:
    row = next(row for row in table_rows("formulas") if row[0] == "smallest n")
    assert [int(cell.replace(",", "").strip("| ")) for cell in row[1:]] == [smallest_n(p) for p in PERCENTILES.values()]


def test_the_steps_of_a_cell_stand_in_the_order_in_which_they_are_made() -> None:
    rows = [row[1] for row in table_rows("how-it-works") if re.fullmatch(r"\d+[a-z]?\d*", row[0])]
    words = {
        "namespace_steps": "namespaces, links",
        "guest_steps": "bridges, then guests",
        "tai_steps": "TAI offset",
        "transmit_queue_steps": "transmit queues",
        "ptp_steps": "ptp4l at each port",
        "shaper_steps": "shapers: ",
        "locked_steps": "check each lock again",
    }
    made = [maker.__name__ for maker in MAKERS if maker.__name__ in words]
    assert made == list(words)
    places = [[place for place, step in enumerate(rows) if words[name] in step] for name in made]
    assert all(len(found) == 1 for found in places), places
    assert places == sorted(places)


def test_the_programs_that_ptp_needs_are_on_the_installing_page_as_its_own() -> None:
    for tool in ("ptp4l", "phc_ctl", "phc2sys", "hwstamp_ctl", "setpriv"):
        (row,) = (row for row in table_rows("install") if tool in re.split(r"[,; ]+", row[0]))
        assert "`clock.ptp`" in row[1], tool


def test_every_package_a_remedy_names_is_on_the_installing_page() -> None:
    words = set(re.split(r"[\s|(),;]+", page("install")))
    assert set(PACKAGES.values()) <= words


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda path: path.stem)
def test_nothing_on_a_page_stands_for_what_was_to_be_put_there(path: Path) -> None:
    assert PLACEHOLDER.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_files_named_in_the_pages_are_there(path: Path) -> None:
    places = (ROOT, ROOT / "src/latlab", ROOT / "tests/testbed")
    for name in CODE.findall(path.read_text(encoding="utf-8")):
        if re.fullmatch(r"(agent|analysis|hosts|recordings|report|run|scenario|src|testbed|tests)/[\w./-]+", name):
            assert any((place / name).exists() for place in places) or "NAME" in name, name


def test_the_arrows_make_no_circle_and_every_package_is_drawn() -> None:
    order = list(TopologicalSorter(arrows()).static_order())
    packages = {path.parent.name for path in (ROOT / "src/latlab").glob("*/__init__.py")}
    assert set(order) == packages


@pytest.mark.parametrize("package", sorted(arrows().keys() - {"cli"}))
def test_imports_go_along_the_arrows(package: str) -> None:
    home = ROOT / "src/latlab" / package
    allowed = arrows()[package] | {package} | (SHARED if package not in SHARED else set())
    for path in home.rglob("*.py") if home.is_dir() else [home.with_suffix(".py")]:
        for node in nodes(path):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                parts = name.split(".")
                if parts[0] == "latlab" and len(parts) > 1:
                    assert parts[1] in allowed, f"{path}: {name}"
