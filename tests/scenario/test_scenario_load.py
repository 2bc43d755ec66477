"""Loading: what a file says, where its mistakes are, and that nothing else than ScenarioErrors comes out."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.model.errors import EXIT_USAGE
from latlab.scenario import Loaded, Problem, ScenarioErrors, cells, load_scenario
from latlab.scenario.findings import unknown

Problems = Callable[[str], list[Problem]]
FIRST = Path(__file__).parents[2] / "scenarios" / "first.yaml"
PLAIN: dict[str, Any] = yaml.safe_load(FIRST.read_text())


def test_a_loaded_scenario_keeps_its_text_and_plain_data(load: Callable[[str], Loaded], base: str) -> None:
    loaded = load(base)
    assert loaded.text == base
    assert loaded.raw == yaml.safe_load(base)
    assert loaded.scenario.streams["control"].period == 1_000_000


def test_the_first_scenario_is_experiment_1s_stream_idle_and_flooded_for_about_20_s() -> None:
    loaded = load_scenario(FIRST)
    scenario = loaded.scenario
    stream = scenario.streams["control"]
    assert (stream.period, stream.size, stream.priority) == (1_006_000, 64, 7)
    assert scenario.tuning_of("sensor").talker.fifo == 90
    assert [cell.slug for cell in cells(loaded)] == ["loads=none", "loads=flood-same"]
    assert 2 * scenario.duration <= 20 * 10**9


def test_all_mistakes_are_reported_at_once_in_the_files_order(problems: Problems, base: str) -> None:
    text = (
        base.replace("listener: ecu", "listener: ecuu").replace("size: 64B", "sise: 64B").replace("10s", "10")
        + "tuning:\n  nobody: {}\nmatrix:\n  loads: [none, gone]\naccept:\n  control.latency.p98: 1us\n"
    )
    assert [(p.line, p.path) for p in problems(text)] == [
        (8, "streams.control.size"),
        (8, "streams.control.listener"),
        (8, "streams.control.sise"),
        (12, "duration"),
        (14, "tuning.nobody"),
        (16, "matrix.loads[1]"),
        (18, "accept.control.latency.p98"),
    ]


def test_a_problem_is_a_line_of_its_own_with_file_line_path_and_what_was_expected(
    load: Callable[[str], Loaded], tmp_path: Path, base: str
) -> None:
    with pytest.raises(ScenarioErrors) as caught:
        load(base.replace("10s", "10"))
    file = str(tmp_path / "s.yaml")
    assert str(caught.value).splitlines() == [
        f"{file}: 1 mistake",
        f"{file}:12: duration: 10 has no unit; expected a duration such as 1006us",
    ]
    assert caught.value.exit_code == EXIT_USAGE
    what = {"path": "duration", "what": "10 has no unit", "expected": "a duration such as 1006us"}
    assert caught.value.as_dict()["problems"] == [{"file": file, "line": 12, "column": 1, **what}]


def test_an_unknown_key_suggests_the_closest_one(problems: Problems, base: str) -> None:
    (problem,) = problems(base + "warmpu: 1s\n")
    assert problem.what == "unknown key 'warmpu'"
    assert problem.expected.startswith("warmup?")


def test_a_key_that_is_there_twice_is_a_mistake_at_its_second_place(problems: Problems, base: str) -> None:
    (problem,) = problems(base + "duration: 11s\n")
    assert (problem.line, problem.path) == (13, "duration")
    assert problem.what == "'duration' appears twice, first in line 12"


def test_a_problem_of_a_list_is_at_its_item(problems: Problems, base: str) -> None:
    (problem,) = problems(base.replace("{ends: [sensor.eth0, ecu.eth0]}", "ends:\n    - sensor.eth0\n    - gone.eth0"))
    assert (problem.line, problem.column, problem.path) == (8, 7, "links[0].ends[1]")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"", 1, "the file is empty"),
        (b"# only a comment\n", 1, "the file is empty"),
        (b"- a\n- b\n", 1, "is not a mapping"),
        (b"name: x\nhosts: {", 2, "not YAML"),
        (b"name: x\n--- \nname: y\n", 2, "not YAML"),
        (b"name: x\ndescription: caf\xe9\n", 2, "byte 0xe9 is not UTF-8"),
        (b"name: x\ndescription: a\x07b\n", 2, "U+0007 is not allowed"),
        (b"name: !!python/object/apply:os.getcwd []\n", 1, "is not supported"),
        (b"a: &a [*a]\n", 1, "nested too deeply"),
        (b"[" * 5000, 1, "nested too deeply"),
        (b'name: "\\uD800"\n', 1, "is not Unicode text"),
        (b'name: "\\UFFFFFFFF"\n', 1, "not YAML"),
        (b"seed: " + b"9" * 5000, 1, "is too large"),
        (b"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
         b"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
         b"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n", 1, "expands to more than"),
        (b"#" * (2**20 + 1), 0, "larger than 1 MiB"),
    ],
)  # fmt: skip
def test_what_is_no_scenario_file_is_one_clear_error(tmp_path: Path, content: bytes, line: int, what: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(content)
    with pytest.raises(ScenarioErrors) as caught:
        load_scenario(path)
    assert any(problem.line == line and what in problem.what for problem in caught.value.problems)


def test_a_key_that_reads_like_a_place_is_unknown_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text('name: x\n"[key]": 1\n')
    with pytest.raises(ScenarioErrors) as caught:
        load_scenario(path)
    assert any(problem.line == 2 and "[key]" in problem.what for problem in caught.value.problems)


@pytest.mark.parametrize(("name", "what"), [("gone.yaml", "no such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_a_scenario_error(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises(ScenarioErrors, match=what) as caught:
        load_scenario(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: "), "a file that is not there has no lines"


def test_plain_words_and_dates_stay_text_and_nothing_is_base_60(load: Callable[[str], Loaded], base: str) -> None:
    text = base.replace("name: base", "name: no").replace("control:", "on:")
    assert load(text).scenario.name == "no"
    assert list(load(text).scenario.streams) == ["on"]


def test_anchors_may_be_used(load: Callable[[str], Loaded], base: str) -> None:
    text = base.replace("{kind: netns}\n  ecu: {kind: netns}", "&n {kind: netns}\n  ecu: *n")
    assert load(text).scenario.hosts["ecu"].kind == "netns"


def test_a_message_holds_no_control_characters(problems: Problems, base: str) -> None:
    found = problems(base + '"\\e[31mred": 1\n')
    assert found
    assert all(str(problem).isprintable() for problem in found)


SCRAPS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["sensor", "ecu", "sensor.eth0", "none", "max", "1us", "0s", "64B", "udp", "netns", "local"]),
    st.sampled_from(
        ["vm1", "vm2", "ecu.inner", "eth0", "user", "vfio", "domain", "uplink", "host", "irq", "guests", "7"]
    ),
    st.sampled_from(["taprio", "mqprio", "etf", "cbs", "txtime-assist", "software", "children", "gates", "open", "15"]),
    st.sampled_from(["ssh", "board", "board1", "on", "virtual", "time", "destination", "a@b", "hosts.board1.time"]),
    st.sampled_from(["control.latency.max", "streams.control.size", "loads", "links.0.mtu", "hosts.ecu.kind"]),
)
GUESTS: dict[str, Any] = {
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "local"}},
    "guests": {
        "vm1": {"host": "ecu", "uplink": "eth0", "bridge": "user", "vcpus": 2, "memory": "512MiB", "queues": 2},
        "vm2": {"host": "ecu", "domain": "vm", "ssh": {"destination": "root@vm", "port": 22}},
        "vm3": {"host": "sensor", "kernel": "/k", "ssh": {"user": "root"}, "device": "0000:3b:00.0"},
    },
    "streams": {
        "control": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B", "port": 7000},
        "back": {"talker": "vm1", "listener": "ecu", "via": "vm1.eth0", "period": "1ms", "size": "64B"},
        "inside": {"talker": "vm2", "listener": "ecu", "period": "1ms", "size": "64B", "vlan": 5},
    },
    "loads": {"same": {"kind": "flood", "from": "sensor", "to": "vm3"}},
    "tuning": {
        "ecu": {
            "guests": {"vm1": {"vcpus": {"cpus": [1], "fifo": 1}, "vhost": {"fifo": 2}}, "vm2": {}},
            "irq": {"eth0": {"cpus": [0], "queues": {"0": [1]}}},
            "steering": {"eth0": {"7": 1}},
            "isolated": [1],
            "halt_poll": "200us",
        },
        "vm1": {"irq": {"eth0": {"queues": {"1": [1]}}}, "listener": {"cpus": [1]}},
    },
    "matrix": {"guests.vm1.bridge": ["tap", "user"], "tuning.ecu.guests.vm1.vcpus.fifo": [1, None]},
}
"""A scenario with guests and their tuning, next to the first one's other keys."""

MACHINES: dict[str, Any] = {
    "hosts": {
        "board1": {"kind": "board", "time": "real", "memory": "512MiB", "image": "debian-rt-board", "nics": 1},
        "board2": {"kind": "ssh", "ssh": {"destination": "admin@192.0.2.7", "port": 22}},
        "board3": {"kind": "board", "nics": 1},
        "sensor": {"kind": "netns", "on": "board1"},
        "ecu": {"kind": "netns", "on": "board1"},
    },
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}, {"ends": ["board1.eth0", "board3.eth0"]}],
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0"}},
    "streams": {
        "control": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"},
        "cable": {"talker": "board3", "listener": "board1", "period": "1ms", "size": "64B"},
    },
    "tuning": {"ecu": {"listener": {"cpus": [0]}, "halt_poll": 0}, "board1": {"halt_poll": 0}},
    "matrix": {"hosts.board1.cpus": [1, 2], "hosts.board2.ssh.port": [22, 2222]},
}
"""A scenario on other machines, next to the first one's other keys."""

SHAPERS: dict[str, Any] = {
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
    "streams": {
        "control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "priority": 5},
        "timed": {"talker": "ecu", "listener": "sensor", "period": "1ms", "size": "64B", "launch_time": True},
    },
    "shapers": {
        "sensor.eth0": {
            "kind": "taprio",
            "mode": "txtime-assist",
            "map": {"5": 1, "7": 0},
            "rest": 2,
            "queues": [1, 1, 2],
            "children": {"1": {"kind": "etf", "skip_sock_check": True, "delta": "100us"}},
            "gates": [{"open": [0, 1, 2], "for": "100us"}, {"open": [2], "for": "100us"}, {"open": [], "for": "50us"}],
            "shift": "10us",
            "txtime_delay": "300us",
        },
        "ecu.eth0": {
            "kind": "mqprio",
            "map": {"5": 1},
            "children": {"0": {"kind": "etf"}, "1": {"kind": "cbs", "idle_slope": "20Mbit/s", "frame": "300B"}},
            "speed": "1Gbit/s",
        },
    },
    "matrix": {"loads": ["none", "flood-same"], "shapers.sensor.eth0.children.1.delta": ["100us", "150us"]},
}
"""A scenario with shapers, next to the first one's other keys."""

PROBES: dict[str, Any] = {
    "probes": {
        "rr": {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B", "period": "1ms", "offset": "1us"},
        "frames": {"probe": "ping", "from": "ecu", "to": "sensor", "size": "64B", "vlan": 5, "via": "ecu.eth0"},
        "nrr": {"probe": "netperf", "from": "sensor", "to": "ecu", "test": "UDP_RR"},
        "sp": {"probe": "sockperf", "from": "sensor", "to": "ecu", "period": "1ms", "transport": "tcp"},
        "dds": {"probe": "dds", "from": "sensor", "to": "ecu", "size": "1kB"},
        "irq": {"probe": "timer", "on": "ecu", "trace": False, "how": "timerfd", "offset": "1us"},
    },
    "shapers": {"ecu.eth0": {"kind": "cbs", "idle_slope": "20Mbit/s"}},
    "accept": {"rr.round_trip.max": "1ms", "frames.down.latency.p50": "1ms"},
    "matrix": {"probes": [["rr", "nrr"], ["frames", "irq"]], "probes.rr.size": ["64B", "9kB"], "links.0.mtu": [1500]},
}
"""A scenario with probes, next to the first one's other keys."""

VALUES = st.recursive(
    SCRAPS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | SCRAPS, inner, max_size=3),
    max_leaves=6,
)


def _mutate(data: st.DataObject, value: Any) -> Any:
    """The value with something in it replaced, removed, added or renamed."""
    if isinstance(value, dict | list) and value and data.draw(st.integers(0, 4)):
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        what = data.draw(st.sampled_from(["deeper", "deeper", "deeper", "remove", "rename"]))
        if what == "deeper":
            value[key] = _mutate(data, value[key])
        elif what == "remove" or isinstance(value, list):
            value.pop(key)
        else:
            value[
                data.draw(st.text(min_size=1, max_size=8) | st.sampled_from(["size", "kind", "via", "vlan", *GUESTS]))
            ] = value.pop(key)
        return value
    return data.draw(VALUES)


def _loads_or_says_why(path: Path) -> None:
    try:
        loaded = load_scenario(path)
    except ScenarioErrors as errors:
        assert errors.problems
        assert str(errors)
    else:
        assert cells(loaded)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{}, GUESTS, MACHINES, SHAPERS, PROBES], ids=["hosts", "guests", "machines", "shapers", "probes"]
)
@given(data=st.data())
@settings(max_examples=300)
def test_mutated_values_load_or_are_scenario_errors(
    tmp_path_factory: pytest.TempPathFactory, more: dict[str, Any], data: st.DataObject
) -> None:
    scenario = deepcopy(PLAIN | more)
    scenario["clock"] = {"sync": "exchange"}
    scenario["accept"] = {"control.latency.max": "1ms"} | more.get("accept", {})
    scenario["matrix"]["streams.control.size"] = ["64B", "128B"]
    scenario["overrides"] = [{"when": {"streams.control.size": "128B"}, "set": {"links.0.mtu": 1400}}]
    for _ in range(data.draw(st.integers(1, 4))):
        scenario = _mutate(data, scenario)
    path = tmp_path_factory.getbasetemp() / "mutated-values.yaml"
    path.write_text(yaml.safe_dump(scenario, allow_unicode=True), encoding="utf-8", errors="replace")
    _loads_or_says_why(path)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=300)
def test_mutated_text_loads_or_is_scenario_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = FIRST.read_bytes()
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 12))
        scrap = data.draw(
            st.binary(max_size=6)
            | st.sampled_from([b"\n", b": ", b"- ", b"{", b"]", b"&a ", b"*a", b"!!int ", b"? ", b'"', b"\\"])
        )
        content = content[:at] + scrap + content[at + length :]
    path = tmp_path_factory.getbasetemp() / "mutated-text.yaml"
    path.write_bytes(content)
    _loads_or_says_why(path)


@pytest.mark.parametrize("more", [GUESTS, MACHINES, SHAPERS], ids=["guests", "machines", "shapers"])
def test_the_scenario_that_is_mutated_is_right_itself(tmp_path: Path, more: dict[str, Any]) -> None:
    path = tmp_path / "right.yaml"
    path.write_text(yaml.safe_dump(PLAIN | more), encoding="utf-8")
    assert len(cells(load_scenario(path))) == 4


def test_the_scenario_with_probes_is_right_itself(tmp_path: Path) -> None:
    path = tmp_path / "right.yaml"
    path.write_text(yaml.safe_dump(PLAIN | PROBES), encoding="utf-8")
    assert [cell.slug for cell in cells(load_scenario(path))] == [
        "links.0.mtu=1500,probes=rr+nrr,probes.rr.size=64B",
        "links.0.mtu=1500,probes=rr+nrr,probes.rr.size=9kB",
        "links.0.mtu=1500,probes=frames+irq",
    ]


def test_a_key_cut_short_is_taken_for_the_beginning_of_the_known_one() -> None:
    assert unknown("key", "prio", ["period", "priority"])[1].startswith("priority? ")
