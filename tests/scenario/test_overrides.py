"""What a value of the matrix sets besides its own key: in which cells, with which names, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded, Problem, cells

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

GUEST = {"host": "ecu", "uplink": "eth0"}
FRAMES = {"transport": "ethernet", "vlan": 5, "pcp": 7, "listener": "vm1"}
UDP = {
    "links.0.vlans": {"5": {"egress": {"7": 7}}},
    "guests.vm1.uplink": "eth0.5",
    "streams.control.transport": "udp",
    "streams.control.vlan": None,
    "streams.control.pcp": None,
}
USER = {"when": {"guests.vm1.bridge": "user"}, "set": UDP}
BRIDGES: dict[str, Any] = {
    "guests": {"vm1": GUEST},
    "loads.same.to": "vm1",
    "loads.back.from": "vm1",
    **{f"streams.control.{key}": value for key, value in FRAMES.items()},
    "matrix/guests.vm1.bridge": ["tap", "user"],
    "matrix/loads": ["none", "same"],
}


def test_a_value_sets_other_paths_in_its_cells_and_in_no_others(with_: With) -> None:
    found = cells(with_(BRIDGES | {"overrides": [USER]}))
    streams = [cell.scenario.streams["control"] for cell in found]
    assert [(one.transport, one.vlan, one.pcp) for one in streams] == [("ethernet", 5, 7)] * 2 + [
        ("udp", None, None)
    ] * 2
    assert [list(cell.scenario.links[0].vlans) for cell in found] == [[], [], [5], [5]]


def test_cells_are_called_by_the_matrix_alone(with_: With) -> None:
    found = cells(with_(BRIDGES | {"overrides": [USER]}))
    assert [cell.slug for cell in found] == [cell.slug for cell in cells(with_(BRIDGES))]
    assert found[2].label == {"guests.vm1.bridge": "user", "loads": ["none"]}
    assert all(not cell.scenario.overrides for cell in found)


def test_a_stream_to_user_nat_goes_through_the_vlan_to_the_hosts_interface(with_: With) -> None:
    cell = cells(with_(BRIDGES | {"overrides": [USER]}))[3].scenario
    for route in (cell.route("control"), cell.load_route("same")):
        assert (str(route.talker_end), str(route.destination), str(route.listen)) == (
            *("sensor.eth0.5", "10.80.0.2"),
            "10.0.2.15",
        )
    assert cell.links[0].vlans[5].egress == {7: 7}
    assert cell.parent_of(cell.route("control").talker_end) == cell.links[0].ends[0]


def test_an_override_may_ask_for_values_of_several_keys(with_: With) -> None:
    when = {"links.0.mtu": 9000, "loads": ["back", "same"]}
    values = {
        "matrix": {"links.0.mtu": [1500, 9000], "loads": ["none", ["same", "back"]]},
        "overrides": [{"when": when, "set": {"streams.control.size": "8kB"}}],
    }
    assert [cell.scenario.streams["control"].size for cell in cells(with_(values))] == [64, 64, 64, 8000]


def test_what_is_set_of_a_load_is_left_out_of_cells_without_it(with_: With) -> None:
    values = {
        "matrix": {"links.0.mtu": [1500, 9000], "loads": ["none", "same"]},
        "overrides": [{"when": {"links.0.mtu": 9000}, "set": {"loads.same.size": "8kB"}}],
    }
    found = [[getattr(load, "size", None) for load in cell.scenario.loads.values()] for cell in cells(with_(values))]
    assert found == [[], [1400], [], [8000]]


def test_overrides_of_different_values_may_set_one_path(with_: With) -> None:
    both = [{"when": {"links.0.mtu": mtu}, "set": {"streams.control.size": f"{mtu - 100}B"}} for mtu in (1500, 9000)]
    found = cells(with_({"matrix": {"links.0.mtu": [1500, 9000]}, "overrides": both}))
    assert [cell.scenario.streams["control"].size for cell in found] == [1400, 8900]


MATRIX = {"links.0.mtu": [1500, 9000], "loads": ["none", "same"]}
BIG = {"streams.control.size": "8kB"}


def override(set_: dict[str, Any] | None = None, **when: Any) -> dict[str, Any]:
    return {"when": when or {"links.0.mtu": 9000}, "set": set_ or BIG}


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (
            [override(None, **{"links.0.mtv": 9000})],
            "overrides[0].when.links.0.mtv: unknown key of the matrix 'links.0.mtv'; "
            "expected links.0.mtu? (known: links.0.mtu, loads)",
        ),
        (
            [override(None, **{"links.0.mtu": 900})],
            "overrides[0].when.links.0.mtu: unknown value '900' of matrix.links.0.mtu; "
            "expected 9000? (known: 1500, 9000)",
        ),
        (
            [override(loads="back")],
            "overrides[0].when.loads: unknown value 'back' of matrix.loads; expected one of none, same",
        ),
        (
            [override({"streams.control.sise": "64B"})],
            "overrides[0].set.streams.control.sise: unknown key 'sise' in streams.control; expected size?",
        ),
        ([override({"seed": 1})], "overrides[0].set.seed: seed is the same in every cell; expected a path such as "),
        (
            [override({"loads": "none"})],
            "overrides[0].set.loads: only the matrix says which loads a cell has; expected a path into loads",
        ),
        (
            [override({"links.0.mtu": 1500})],
            "overrides[0].set.links.0.mtu: matrix.links.0.mtu is set in the same cells; expected one of them",
        ),
        (
            [override(), override({"streams.control": {}}, loads="same")],
            "overrides[1].set.streams.control: overrides[0].set.streams.control.size is set in the same cells; "
            "expected one of them",
        ),
        (
            [override({"streams.control": {}, "streams.control.size": "8kB"})],
            "overrides[0].set.streams.control.size: overrides[0].set.streams.control is set in the same cells; "
            "expected one of them",
        ),
        ([{"when": {"links.0.mtu": 9000}}], "overrides[0].set: missing; expected path in this file"),
        ([{"when": {}, "set": BIG}], "overrides[0].when: too few; expected 1 or more"),
        ([override() | {"unset": []}], "overrides[0].unset: unknown key 'unset'; expected "),
        ({"links.0.mtu": BIG}, "overrides: {'links.0.mtu': {'streams.control.size': '8kB'}} is not a list"),
    ],
)
def test_an_override_that_cannot_be_is_one_mistake(said: Said, overrides: Any, what: str) -> None:
    (found,) = said({"matrix": MATRIX, "overrides": overrides})
    assert found.startswith(what), found


def test_a_value_that_spoils_a_cell_is_a_mistake_in_its_line_of_the_override(
    problems: Callable[[str], list[Problem]], base: str
) -> None:
    text = base + (
        "matrix:\n  links.0.mtu: [1500, 9000]\noverrides:\n  - when: {links.0.mtu: 1500}\n"
        "    set:\n      streams.control.priority: 7\n      streams.control.size: 8kB\n"
    )
    (problem,) = problems(text)
    assert (problem.line, problem.path) == (len(text.splitlines()), "overrides[0].set.streams.control.size")
    assert problem.what == "in cell links.0.mtu=1500: streams.control.size: 8kB would be fragmented"


def test_the_place_of_what_an_override_sets_is_its_own_line(load: Callable[[str], Loaded], base: str) -> None:
    text = base + (
        "matrix: {links.0.mtu: [1500, 9000]}\noverrides:\n  - when: {links.0.mtu: 9000}\n"
        "    set: {streams.control.size: 8kB}\n"
    )
    found = load(text)
    lines = [found.where(("streams", "control", "size"), cell).split(":")[1] for cell in cells(found)]
    assert lines == [
        str(text.splitlines().index(line) + 1)
        for line in ("  control: {talker: sensor, listener: ecu, period: 1ms, size: 64B}", text.splitlines()[-1])
    ]


def test_next_to_other_mistakes_a_value_is_tried_with_what_it_sets(said: Said) -> None:
    values = BRIDGES | {"duration": "10", "overrides": [USER]}
    assert [line.split(": ")[0] for line in said(values)] == ["duration"]
    wrong = USER | {"set": UDP | {"guests.vm1.uplink": "eth0.6"}}
    found = said(BRIDGES | {"duration": "10", "overrides": [wrong]})
    assert [line.split(": ")[0] for line in found] == ["duration", "overrides[0].set.guests.vm1.uplink"]


def test_cells_that_are_excluded_are_not_measured(with_: With) -> None:
    exclude = [{"links.0.mtu": 9000, "loads": "same"}]
    found = cells(with_({"matrix": MATRIX, "exclude": exclude}))
    assert [cell.slug for cell in found] == [
        *("links.0.mtu=1500,loads=none", "links.0.mtu=1500,loads=same", "links.0.mtu=9000,loads=none"),
    ]
    assert all(not cell.scenario.exclude for cell in found)


@pytest.mark.parametrize(
    ("exclude", "what"),
    [
        (
            [{"links.0.mtv": 9000}],
            "exclude[0].links.0.mtv: unknown key of the matrix 'links.0.mtv'; "
            "expected links.0.mtu? (known: links.0.mtu, loads, loads.same.size)",
        ),
        ([{"loads": "back"}], "exclude[0].loads: unknown value 'back' of matrix.loads; expected one of none, same"),
        (
            [{"links.0.mtu": 1500}, {"links.0.mtu": 9000}],
            "exclude: every cell is excluded; expected one cell that is measured",
        ),
        (
            [{"links.0.mtu": 9000, "loads": "same"}, {"loads": "none", "loads.same.size": "64B"}],
            "exclude[1]: no cell has these values; expected values that one cell has together",
        ),
    ],
)
def test_what_excludes_names_cells_of_the_matrix_and_not_all(
    said: Said, exclude: list[dict[str, Any]], what: str
) -> None:
    assert said({"matrix": MATRIX | {"loads.same.size": ["64B", "1kB"]}, "exclude": exclude}) == [what]


def test_an_override_that_applies_in_no_cell_is_a_mistake(said: Said) -> None:
    asked = {"matrix": MATRIX | {"loads.same.size": ["64B", "1kB"]}}
    (found,) = said(
        asked | {"overrides": [override({"watch_drops": "never"}, loads="none", **{"loads.same.size": "64B"})]}
    )
    assert found == "overrides[0].when: no cell has these values; expected values that one cell has together"


def test_an_override_that_applies_in_excluded_cells_only_is_none(said: Said) -> None:
    assert not said({"matrix": MATRIX, "overrides": [override()], "exclude": [{"links.0.mtu": 9000}]})


PUBLISHED = {"source": "theirs", "row": "of theirs", "metric": "latency", "max": "9us"}


def test_a_cell_knows_the_published_rows_that_name_it(with_: With) -> None:
    whens: tuple[dict[str, Any], ...] = ({"loads": "same"}, {}, {"loads": "none", "links.0.mtu": 1500})
    found = cells(with_({"matrix": MATRIX, "published": [PUBLISHED | {"when": when} for when in whens]}))
    assert {cell.slug: sorted(cell.published) for cell in found} == {
        "links.0.mtu=1500,loads=none": [1, 2],
        "links.0.mtu=1500,loads=same": [0, 1],
        "links.0.mtu=9000,loads=none": [1],
        "links.0.mtu=9000,loads=same": [0, 1],
    }


def test_a_published_row_may_name_cells_that_a_narrower_matrix_does_not_have(with_: With) -> None:
    whens: tuple[dict[str, Any], ...] = ({"load": "same"}, {"loads": "back"}, {"links.0.mtu": 9000})
    published = [PUBLISHED | {"when": when, "stream": "other"} for when in whens]
    found = cells(with_({"matrix": MATRIX, "exclude": [{"links.0.mtu": 9000}], "published": published}))
    assert [cell.published for cell in found] == [frozenset()] * 2
