"""Loads that keep one host or guest busy: what they are in a scenario, and what fits together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded, cells
from latlab.scenario.loads import Busy, StressNg

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

CALLS = {"kind": "busy", "on": "ecu", "what": "calls"}
MEMORY = {"kind": "stress-ng", "on": "ecu", "what": "memory"}
GUEST = {"guests.vm1": {"host": "ecu", "uplink": "eth0"}}
L = "loads.l"


def test_what_keeps_a_host_busy_stands_next_to_what_is_sent(with_: With) -> None:
    guest = {"kind": "stress-ng", "on": "vm1", "what": "cpu", "workers": 2}
    scenario = with_({**GUEST, "loads.calls": CALLS, "loads.cpu": guest}).scenario
    assert list(scenario.loads) == ["same", "back", "calls", "cpu"]
    assert list(scenario.sent_loads) == ["same", "back"]
    with pytest.raises(KeyError):
        scenario.load_route("calls")


def test_the_matrix_chooses_it_as_any_load(with_: With) -> None:
    chosen = with_({"loads.calls": CALLS, "matrix.loads": ["none", "calls", ["calls", "same"]]})
    assert [list(cell.scenario.loads) for cell in cells(chosen)] == [[], ["calls"], ["same", "calls"]]


def test_it_needs_no_way(with_: With) -> None:
    alone = {
        "links": None,
        "hosts": {"ecu": {"kind": "netns"}},
        "streams": None,
        "loads": {"calls": CALLS},
        "probes.irq": {"probe": "timer", "on": "ecu"},
    }
    found = with_(alone).scenario.loads["calls"]
    assert isinstance(found, Busy) and found.on == "ecu"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({L: {**CALLS, "on": "eccu"}}, "loads.l.on: unknown host 'eccu'; expected ecu?"),
    ({L: {**CALLS, "what": "naps"}}, "loads.l.what: "),
    ({L: {**CALLS, "from": "ecu"}}, "loads.l.from: "),
    ({L: {**CALLS, "workers": 33}}, "loads.l.workers: 33 is too large"),
    ({L: {**MEMORY, "size": "1023KiB"}}, "loads.l.size: "),
    ({L: {**MEMORY, "path": "/var/tmp"}}, "loads.l.path: memory writes no files; expected what: io, or no path"),
    ({L: {**MEMORY, "what": "io", "path": "tmp"}}, "loads.l.path: 'tmp' is not an absolute path"),
    ({L: {**MEMORY, "what": "cpu", "size": "1MiB"}}, "loads.l.size: what: cpu uses almost no memory"),
    (
        {**GUEST, L: {**MEMORY, "what": "io", "on": "vm1"}},
        "loads.l.what: vm1 has its files in memory, not on a disk; expected kind: flood from vm1",
    ),
    (
        {L: CALLS, "tuning.ecu.load": {"fifo": 5}},
        "loads.l: busy at SCHED_FIFO 5 on every CPU would stop ecu; expected tuning.ecu.load.cpus: [n]",
    ),
]


@pytest.mark.parametrize(("values", "expected"), WRONG, ids=[expected for _, expected in WRONG])
def test_what_does_not_fit_is_reported_where_it_stands(said: Said, values: dict[str, Any], expected: str) -> None:
    (line,) = said(values)
    assert line.startswith(expected), line


def test_a_priority_on_chosen_cpus_and_files_of_a_host_are_fine(with_: With) -> None:
    files = {**MEMORY, "what": "io", "path": "/srv", "size": "8MiB"}
    found = with_({L: CALLS, "loads.io": files, "tuning.ecu.load": {"fifo": 5, "cpus": [1]}}).scenario.loads["io"]
    assert isinstance(found, StressNg)
    assert (found.path, found.size) == ("/srv", 8 * 2**20)


def test_what_is_wrong_in_one_hides_nothing_in_another(said: Said) -> None:
    wrong = {"loads.a": {**CALLS, "what": "naps"}, "loads.b": {**MEMORY, "path": "/x"}}
    assert [line.partition(":")[0] for line in said(wrong)] == ["loads.a.what", "loads.b.path"]
