"""Cells and runs: every combination, validated, named, in an order that a seed decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded, Problem, cells, runs
from latlab.scenario.matrix import short_names

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]
SIZE = "matrix/streams.control.size"


def test_without_a_matrix_there_is_one_cell_with_every_load(with_: With) -> None:
    (cell,) = cells(with_())
    assert (cell.slug, cell.label) == ("all", {})
    assert list(cell.scenario.loads) == ["same", "back"]


def test_every_combination_is_a_cell_in_the_matrixs_order(with_: With) -> None:
    found = cells(with_({SIZE: ["64B", "1400B"], "matrix.loads": ["none", "same"]}))
    assert [cell.slug for cell in found] == [
        "streams.control.size=64B,loads=none",
        "streams.control.size=64B,loads=same",
        "streams.control.size=1400B,loads=none",
        "streams.control.size=1400B,loads=same",
    ]
    assert [cell.scenario.streams["control"].size for cell in found] == [64, 64, 1400, 1400]


def test_a_cells_scenario_has_its_active_loads_only(with_: With) -> None:
    found = cells(with_({"matrix.loads": ["none", "same", ["same", "back"]]}))
    assert [list(cell.scenario.loads) for cell in found] == [[], ["same"], ["same", "back"]]
    assert [cell.label["loads"] for cell in found] == [["none"], ["same"], ["same", "back"]]
    assert [cell.slug for cell in found] == ["loads=none", "loads=same", "loads=same+back"]
    assert all(not cell.scenario.matrix for cell in found)


def test_what_is_not_written_can_be_varied_too(with_: With) -> None:
    values = {
        "matrix/tuning.ecu.listener.fifo": [70, None],
        "matrix/links.0.queues": [4],
        "matrix/clock.sync": ["exchange"],
        "matrix/streams.control.launch_time.lead": ["1ms"],
        "streams.control.launch_time": True,
    }
    first, second = (cell.scenario for cell in cells(with_(values)))
    assert (first.tuning_of("ecu").listener.fifo, second.tuning_of("ecu").listener.fifo) == (70, None)
    assert first.links[0].queues == 4
    assert first.clock.sync == "exchange"
    launch_time = first.streams["control"].launch_time
    assert launch_time is not None
    assert launch_time.lead == 1_000_000


def test_flows_that_are_watched_can_be_varied(with_: With, said: Said) -> None:
    values = {"flows": {"plc": {"match": "udp port 5", "at": ["sensor.eth0"]}}}
    key = "matrix/flows.plc.match"
    found = cells(with_(values | {key: ["udp port 5", "tcp port 5"]}))
    assert [cell.scenario.watched["plc"].match for cell in found] == ["udp port 5", "tcp port 5"]
    (told,) = said(values | {key.replace("plc", "control"): ["udp port 5"]})
    assert "unknown key 'control' in flows; expected one of plc" in told


def test_a_cell_leaves_the_base_scenario_and_the_other_cells_alone(with_: With) -> None:
    loaded = with_({"matrix/links.0.mtu": [1000, 9000]})
    assert [cell.scenario.links[0].mtu for cell in cells(loaded)] == [1000, 9000]
    assert loaded.scenario.links[0].mtu == 1500
    assert "mtu" not in loaded.raw["links"][0]


def test_slugs_are_file_names_and_unique(with_: With) -> None:
    rates = ["100Mbit/s", "200 Mbit/s", "max"]
    launch_times = [False, {"lead": "300us"}, {"lead": "1ms", "batch": 64, "deadline": True}]
    values = {"matrix/loads.same.rate": rates, "matrix/streams.control.launch_time": launch_times}
    slugs = [cell.slug for cell in cells(with_(values))]
    assert slugs[0] == "loads.same.rate=100Mbit-s,streams.control.launch_time=false"
    assert len({slug.lower() for slug in slugs}) == 9
    assert all("/" not in slug and slug.isprintable() and len(slug) < 200 for slug in slugs)


TAP_XDP = "vm1.bridge tap + vm2.bridge xdp"


def on(**bridges: str) -> dict[str, Any]:
    """Guests of these names on one uplink, each with its bridge."""
    return {name: {"host": "ecu", "uplink": "eth0", "bridge": bridge} for name, bridge in bridges.items()}


def test_guests_that_change_their_bridge_together_are_cells_called_after_it(with_: With) -> None:
    values = [on(vm1=bridge, vm2=bridge) for bridge in ("tap", "macvtap")]
    found = cells(
        with_({"guests": on(vm1="tap", vm2="tap"), "matrix.guests": values, "matrix.loads": ["none", "same"]})
    )
    assert [cell.slug for cell in found] == [
        "guests=bridge-tap,loads=none",
        "guests=bridge-tap,loads=same",
        "guests=bridge-macvtap,loads=none",
        "guests=bridge-macvtap,loads=same",
    ]
    assert found[2].label == {"guests": "bridge macvtap", "loads": ["none"]}
    assert {guest.bridge for guest in found[2].scenario.guests.values()} == {"macvtap"}


def test_the_place_of_what_a_mapping_sets_is_its_own_line_of_the_matrix(
    load: Callable[[str], Loaded], base: str
) -> None:
    text = (
        base
        + "guests: {vm1: {host: ecu}}\nmatrix:\n  guests:\n    - vm1: {host: ecu}\n    - vm1: {host: ecu, vcpus: 2}\n"
    )
    found = load(text)
    lines = [found.where(("guests", "vm1", "vcpus"), cell).split(":")[1] for cell in cells(found)]
    assert lines == [str(text.splitlines().index(line) + 1) for line in text.splitlines()[-2:]]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([on(vm1="tap", vm2="xdp"), on(vm1="xdp", vm2="tap")], [TAP_XDP, "vm1.bridge xdp + vm2.bridge tap"]),
        ([on(vm1="tap", vm2="xdp"), on(vm1="xdp", vm2="xdp")], ["vm1.bridge tap", "bridge xdp"]),
        ([on(vm1="tap"), on(vm1="tap", vm2="tap")], ["vm1", "vm1 + vm2"]),
        ([on(vm1="tap"), on(vm1="xdp", vm2="xdp")], ["vm1 + bridge tap", "vm1 + vm2 + bridge xdp"]),
        ([False, {"lead": "300us"}, {"lead": "1ms", "batch": 64}], [False, "lead 300us", "lead 1ms + batch 64"]),
        ([{"lead": "1ms"}, {"lead": "1ms", "deadline": True}], ["without deadline", "deadline true"]),
        ([{}, {"lead": "1ms"}], ["without lead", "lead 1ms"]),
        ([{"lead": "1ms", "batch": None}], ["lead 1ms + batch none"]),
        ([{}], ["defaults"]),
        ([[{"mtu": 1500, "queues": 2}], [{"mtu": 9000, "queues": 2}]], ["mtu 1500", "mtu 9000"]),
        ([{"cpus": [2, 3]}, {"cpus": [2]}], ["cpus 2,3", "cpus 2"]),
        ([{"a": True}, {"a": "true"}], ["a true", "a true (2)"]),
        (["64B", 3, None, [1, 2]], ["64B", 3, None, [1, 2]]),
    ],
)
def test_a_mapping_is_called_by_what_tells_it_from_the_others(values: list[object], names: list[object]) -> None:
    assert short_names(values) == names


def test_a_long_label_still_makes_a_file_name(with_: With) -> None:
    paths = (
        "talker.fifo",
        "talker.busy_wait",
        "talker.lock_memory",
        "talker.timer_slack",
        "listener.fifo",
        "load.fifo",
    )
    values = [[9], ["1us"], [True], ["1ns"], [8], [1, 2]]
    matrix = {f"matrix/tuning.ecu.{path}": value for path, value in zip(paths, values, strict=True)}
    slugs = [cell.slug for cell in cells(with_(matrix))]
    assert len(set(slugs)) == 2
    assert all(len(slug) <= 120 for slug in slugs)


@pytest.mark.parametrize(
    ("matrix", "path", "what"),
    [
        (
            {"streams.contrl.size": ["64B"]},
            "streams.contrl.size",
            "unknown key 'contrl' in streams; expected control?",
        ),
        ({"streams.control.sise": ["64B"]}, "streams.control.sise", "unknown key 'sise' in streams.control"),
        ({"stream.control.size": ["64B"]}, "stream.control.size", "unknown key 'stream'"),
        ({"links.1.mtu": [1500]}, "links.1.mtu", "unknown key '1' in links"),
        (
            {"streams.control.size.x": [1]},
            "streams.control.size.x",
            "unknown key 'x' in streams.control.size",
        ),
        ({"guests.vm1.bridge": ["tap"]}, "guests.vm1.bridge", "unknown key 'vm1'"),
        ({"tuning.gone.talker.fifo": [1]}, "tuning.gone.talker.fifo", "unknown key 'gone' in tuning"),
        ({"": [1]}, "", "unknown key ''"),
        ({"name": ["a"]}, "name", "is the same in every cell"),
        ({"exclude": [[{"a": 1}], [{"b": 2}]]}, "exclude", "is the same in every cell"),
        ({"clock.sync": []}, "clock.sync", "it is empty"),
        ({"clock.sync": "shared"}, "clock.sync", "'shared' is not a list"),
        ({"links.0.mtu": [1500, 1500]}, "links.0.mtu", "1500 appears twice"),
        (
            {"streams.control.period": ["1ms", "2ms", "1000us"]},
            "streams.control.period[2]",
            "'1000us' is the same as '1ms'; expected each value once",
        ),
        (
            {"streams.control.size": {"small": "1000B", "large": "1kB"}},
            "streams.control.size.large",
            "'1kB' is the same as '1000B'",
        ),
        (
            {"streams.control.launch_time": [False, True, {}]},
            "streams.control.launch_time[2]",
            "{} is the same as true",
        ),
        ({"tuning.ecu": [{}, {"listener": {}}]}, "tuning.ecu[1]", "{'listener': {}} is the same as {}"),
        ({"loads": ["none", "x"]}, "loads[1]", "unknown load 'x'; expected one of none, same, back"),
        ({"loads": [["same", "gone"]]}, "loads[0][1]", "unknown load 'gone'"),
        ({"loads": [["same", "none"]]}, "loads[0]", "is not a combination of loads"),
        ({"loads": [[]]}, "loads[0]", "is not a combination of loads"),
        ({"loads": [None]}, "loads[0]", "null names no load"),
        ({"loads": ["same", ["same"]]}, "loads[1]", "appears twice"),
        ({"loads": [["same", "same"]]}, "loads[0]", "appears twice"),
        (
            {"streams.control": [{}], "streams.control.size": ["64B"]},
            "streams.control.size",
            "is part of streams.control",
        ),
        (
            {"tuning.ecu.talker.fifo": list(range(1, 100)), "links.0.mtu": list(range(1000, 1200))},
            "",
            "19800 cells",
        ),
    ],
)
def test_a_matrix_that_cannot_be_is_refused(said: Said, matrix: dict[str, Any], path: str, what: str) -> None:
    where = "matrix" if what.endswith(" cells") else f"matrix.{path}"
    found = said({"matrix": matrix})
    assert any(line.startswith(f"{where}: ") and what in line for line in found), found


def test_values_that_mean_the_same_are_reported_next_to_other_mistakes(said: Said) -> None:
    found = said({"streams.control.period": "1", "matrix/streams.control.period": ["1ms", "1000us"]})
    assert [line.split(": ")[0] for line in found] == ["streams.control.period", "matrix.streams.control.period[1]"]


def test_guests_that_only_some_cells_use_do_not_make_two_values_the_same(with_: With) -> None:
    vm1, vm2 = ({"host": "ecu", "uplink": "eth0"} | runs for runs in ({}, {"runs": "used"}))
    values = {
        "guests": {"vm1": vm1, "vm2": vm2},
        "probes.native": {"probe": "timer", "on": "ecu", "period": "1ms"},
        "probes.virtual": {"probe": "timer", "on": "vm2", "period": "1ms"},
        "matrix.guests": [{"vm1": vm1, "vm2": vm2}, {"vm1": vm1, "vm2": vm2 | {"vcpus": 2}}],
        "matrix.probes": ["native", "virtual"],
    }
    assert len(cells(with_(values))) == 4


def test_a_value_that_spoils_a_cell_is_a_mistake_in_its_line_of_the_matrix(
    problems: Callable[[str], list[Problem]], base: str
) -> None:
    text = base + "matrix:\n  loads: [none, same]\n  streams.control.size:\n    - 64B\n    - 9kB\n"
    (problem,) = problems(text)
    assert (problem.line, problem.path) == (17, "matrix.streams.control.size[1]")
    assert problem.what == (
        "in cell loads=none,streams.control.size=9kB: streams.control.size: 9kB would be fragmented"
    )


def test_a_mistake_in_a_cell_is_reported_with_the_path_that_it_has_without_the_matrix(said: Said) -> None:
    (mtu,) = said({"matrix": {"links.0.mtu": [1500, 20]}})
    assert mtu == "matrix.links.0.mtu[1]: in cell links.0.mtu=20: links[0].mtu: 20 is too small; expected 68 or more"
    (vlan,) = said({"matrix": {"links.0.vlans": [{}, {"4095": {}}]}})
    assert vlan.endswith(": links[0].vlans.4095: '4095' is not a VLAN id; expected 1 to 4094")


def test_a_combination_is_judged_as_a_whole(said: Said, with_: With) -> None:
    matrix = {"links.0.mtu": [1500, 9000], "streams.control.size": ["64B", "8000B"]}
    (found,) = said({"matrix": matrix})
    assert "in cell links.0.mtu=1500,streams.control.size=8000B" in found
    assert len(cells(with_({"matrix": matrix | {"links.0.mtu": [9000]}}))) == 2


def test_a_key_unknown_next_to_a_broken_stream_is_still_told(said: Said) -> None:
    found = said({"streams.control.size": 64, SIZE: ["64B"], "matrix/streams.gone.size": ["64B"]})
    assert [line.split(": ")[0] for line in found] == ["streams.control.size", "matrix.streams.gone.size"]


def test_runs_hold_every_cell_in_each_repetition_and_repetitions_do_not_mix(with_: With) -> None:
    found = cells(with_({SIZE: [f"{n}B" for n in range(40, 60)]}))
    order = runs(found, repeat=3, seed=1)
    assert [run.repeat for run in order] == [1] * 20 + [2] * 20 + [3] * 20
    for start in (0, 20, 40):
        assert Counter(run.cell.slug for run in order[start : start + 20]) == Counter(cell.slug for cell in found)


def test_the_order_of_runs_is_shuffled_again_for_each_repetition_and_the_same_for_a_seed(with_: With) -> None:
    found = cells(with_({SIZE: [f"{n}B" for n in range(40, 60)]}))
    first, second = ([run.cell.slug for run in runs(found, 2, 7)][at : at + 20] for at in (0, 20))
    assert first != second
    assert first != [cell.slug for cell in found]
    assert [run.cell.slug for run in runs(found, 2, 7)] == first + second
    assert [run.cell.slug for run in runs(found, 2, 8)] != first + second


def test_a_guest_that_runs_where_it_is_used_is_in_no_other_cell(with_: With) -> None:
    guest = {"host": "ecu", "uplink": "eth0"}
    values = {
        "guests.vm1": guest | {"runs": "used"},
        "guests.vm2": guest | {"runs": "used"},
        "guests.vm3": guest,
        "probes.native": {"probe": "timer", "on": "ecu", "period": "1ms"},
        "probes.virtual": {"probe": "timer", "on": "vm1", "period": "1ms"},
        "loads.of": {"kind": "flood", "from": "vm2", "to": "sensor", "rate": "10Mbit/s"},
        "tuning.ecu.guests": {"vm1": {"vcpus": {"fifo": 1}}, "vm3": {"vcpus": {"fifo": 2}}},
        "tuning.vm1.talker": {"fifo": 70},
        "matrix.probes": ["native", "virtual"],
        "matrix.loads": ["none", "of"],
    }
    found = {cell.slug: cell.scenario for cell in cells(with_(values))}
    assert {slug: list(scenario.guests) for slug, scenario in found.items()} == {
        "probes=native,loads=none": ["vm3"],
        "probes=native,loads=of": ["vm2", "vm3"],
        "probes=virtual,loads=none": ["vm1", "vm3"],
        "probes=virtual,loads=of": ["vm1", "vm2", "vm3"],
    }
    tuned = {slug: (list(one.tuning_of("ecu").guests), "vm1" in one.tuning) for slug, one in found.items()}
    assert tuned["probes=native,loads=of"] == (["vm3"], False)
    assert tuned["probes=virtual,loads=of"] == (["vm1", "vm3"], True)


USED: dict[str, Any] = {
    "guests.vm1": {"host": "ecu", "uplink": "eth0", "runs": "used"},
    "probes.native": {"probe": "timer", "on": "ecu", "period": "1ms"},
    "probes.virtual": {"probe": "timer", "on": "vm1", "period": "1ms"},
    "matrix.probes": ["native", "virtual"],
    "matrix/guests.vm1.bridge": ["tap", "macvtap"],
}
"""A guest that runs in half of the cells, and a key that leads to it."""


def test_a_key_that_leads_to_a_guest_says_nothing_of_cells_without_it(with_: With) -> None:
    values = USED | {
        "tuning.ecu.guests": {"vm1": {"vcpus": {"fifo": 1}}},
        "matrix/tuning.ecu.guests.vm1.vcpus.fifo": [None, 1],
    }
    assert [cell.slug for cell in cells(with_(values))] == [
        "probes=native",
        *(
            f"probes=virtual,guests.vm1.bridge={bridge},tuning.ecu.guests.vm1.vcpus.fifo={fifo}"
            for bridge in ("tap", "macvtap")
            for fifo in ("null", 1)
        ),
    ]


@pytest.mark.parametrize(("bridge", "sizes"), [("tap", [64, 99, 64]), ("macvtap", [64, 64, 99])])
def test_an_override_for_such_a_key_sets_nothing_in_cells_without_the_guest(
    with_: With, bridge: str, sizes: list[int]
) -> None:
    override = {"when": {"guests.vm1.bridge": bridge}, "set": {"streams.control.size": "99B"}}
    found = cells(with_(USED | {"overrides": [override]}))
    assert [cell.scenario.streams["control"].size for cell in found] == sizes


def test_a_value_for_which_an_override_takes_the_guest_away_makes_a_cell(with_: With) -> None:
    override = {"when": {"guests.vm1.bridge": "tap"}, "set": {"probes.virtual.on": "ecu"}}
    found = cells(with_(USED | {"matrix.probes": ["virtual"], "overrides": [override]}))
    assert [(cell.slug, list(cell.scenario.guests)) for cell in found] == [
        ("probes=virtual,guests.vm1.bridge=tap", []),
        ("probes=virtual,guests.vm1.bridge=macvtap", ["vm1"]),
    ]


def test_exclude_with_such_a_key_leaves_out_no_cell_without_the_guest(with_: With) -> None:
    exclude = [{"guests.vm1.bridge": bridge} for bridge in ("tap", "macvtap")]
    assert [cell.slug for cell in cells(with_(USED | {"exclude": exclude}))] == ["probes=native"]


def test_without_a_matrix_too_a_guest_that_nobody_uses_is_not_there(with_: With) -> None:
    (cell,) = cells(with_({"guests.vm1": {"host": "ecu", "uplink": "eth0", "runs": "used"}}))
    assert not cell.scenario.guests


def test_values_have_the_names_that_a_mapping_gives_them(with_: With) -> None:
    values = {"big frames": "1400B", "small": "64B"}
    found = cells(with_({SIZE: values, "matrix.loads": ["none", "same"]}))
    assert [cell.slug for cell in found] == [
        f"streams.control.size={name},loads={load}" for name in ("big-frames", "small") for load in ("none", "same")
    ]
    assert [cell.label["streams.control.size"] for cell in found] == ["big frames"] * 2 + ["small"] * 2
    assert [cell.scenario.streams["control"].size for cell in found] == [1400, 1400, 64, 64]


def test_a_name_stands_for_its_value_in_exclude_and_in_overrides(with_: With) -> None:
    asked = {
        SIZE: {"big": "1400B", "small": "64B"},
        "matrix.loads": ["none", "same"],
        "exclude": [{"streams.control.size": "big", "loads": "same"}],
        "overrides": [{"when": {"streams.control.size": "small"}, "set": {"streams.control.period": "3ms"}}],
    }
    found = cells(with_(asked))
    assert [cell.slug for cell in found] == [
        "streams.control.size=big,loads=none",
        "streams.control.size=small,loads=none",
        "streams.control.size=small,loads=same",
    ]
    assert [cell.scenario.streams["control"].period == 3_000_000 for cell in found] == [False, True, True]


@pytest.mark.parametrize("written", ["1", "2.50", "1e3", "true", "null"])
def test_a_name_may_be_a_number_or_a_word_of_yaml(load: Callable[[str], Loaded], base: str, written: str) -> None:
    found = load(
        base
        + f"matrix:\n  streams.control.size: {{{written}: 64B, 10: 1400B}}\n"
        + f"exclude:\n  - {{streams.control.size: {written}}}\n"
        + "overrides:\n  - {when: {streams.control.size: 10}, set: {streams.control.period: 3ms}}\n"
    )
    (cell,) = cells(found)
    assert (cell.slug, cell.scenario.streams["control"].period) == ("streams.control.size=10", 3_000_000)


def test_a_number_is_the_name_of_no_other_number(said: Said) -> None:
    (found,) = said({SIZE: {"1": "64B", "2": "1400B"}, "exclude": [{"streams.control.size": True}]})
    assert found.startswith("exclude[0].streams.control.size: unknown value 'true'")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({SIZE: {}}, "it is empty"),
        ({SIZE: {"a": "64B", "b": "64B"}}, "'64B' appears twice"),
        ({SIZE: {"a,b": "64B"}}, "a,b"),
        ({SIZE: {"a": "none of it"}}, "matrix.streams.control.size.a: "),
        ({"matrix.loads": {"quiet": "none"}}, "a mapping of names to loads"),
        ({SIZE: {"big": "1400B"}, "exclude": [{"streams.control.size": "bg"}]}, "'bg'"),
    ],
)
def test_what_is_wrong_with_named_values_is_reported_where_it_stands(
    said: Said, changes: dict[str, Any], told: str
) -> None:
    assert any(told in line for line in said(changes)), said(changes)
