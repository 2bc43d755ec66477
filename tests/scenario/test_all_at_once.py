"""One pass reports every mistake, of any kind, in its line; and one mistake is reported once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from latlab.scenario import Problem

Problems = Callable[[str], list[Problem]]
Said = Callable[..., list[str]]

MISTAKES = """\
name: -bad-                             #! is not a name
hosts:
  sensor: {kind: netns}
  ecu: {kind: netns}
  Spare: {kind: netns}                  #! 'Spare' is not a name
  board: {kind: moon}                   #! unknown kind 'moon'
  here: {kind: local}
  there: {kind: local}
  inside: {kind: netns, on: there}      #! there is of kind local
  lost: {kind: netns, on: nowhere}      #! unknown host of kind ssh or board 'nowhere'
  emulated:
    kind: board
    time: virtual                       #! a board in virtual time excludes other machines: sensor, ecu, here, there
    cpus: 17                            #! 17 is too large
    memory: 1MiB                        #! 1MiB is too small; expected 128MiB or more
  part: {kind: netns, on: emulated}
links:
  - ends: [sensor.eth0, ecu.eth0]
    mtu: 1400
    queues: 0                           #! 0 is too small
  - ends:
      - sensor.eth0                     #! is already an end of links[0]
      - ecu./                           #! the kernel refuses
  - ends: [sensor.eth2, Spare.eth0]
    mtu: 9999999B                       #! expected a plain number of bytes, such as 1500
  - {ends: [here.p1, there.p2]}
  - ends: [sensor.eth5, part.eth0]      #! a cable between this machine and emulated cannot be made
clock:
  sync: exchange                        #! here and there are both local
streams:
  s:
    talker: sensor
    listener: ecu
    period: 1ms
    size: 1500B                         #! would be fragmented; expected 1372B or less
    priority: 99                        #! 99 is too large
    pcp: 3                              #! expected a vlan in addition
    sizee: 1B                           #! unknown key 'sizee'; expected size?
  t:
    talker: sensor
    listener: sensor                    #! sensor would send to itself
    period: 1                           #! 1 has no unit
    size: 39B                           #! 39B is too small
  u:
    talker: sensor
    listener: Spare
    period: 1ms
    offset: 2ms                         #! a period or more
    size: 64                            #! 64 has no unit
    port: 5556                          #! is used by the clock exchange
  v:
    talker: nobody                      #! unknown host 'nobody'
    listener: ecu
    period: 1ms
    size: 64B
    port: 80
    vlan: 5000                          #! 5000 is not a VLAN id
  x: {talker: here, listener: there, period: 1ms, size: 64B, transport: ethernet}
  w: {talker: ecu, listener: board, period: 1ms, size: 64B}     #! no link joins ecu and board
loads:
  f: {kind: flood, from: Spare, to: sensor, flows: 0}           #! 0 is too small
tuning:
  ecu:
    listener:
      mode: spin                        #! on every CPU would stop the machine
      timer_slack: fast                 #! 'fast' is not a duration
  nobody: {}                            #! unknown host 'nobody'
duration: 1s
warmup: 10s                             #! no time is left after a warm-up of 10s
matrix:
  loads:
    - none
    - gone                              #! unknown load 'gone'
    - [f, f]                            #! appears twice
  streams.s.sizee: [1, 2]               #! unknown key 'sizee' in streams.s
  streams.s.launch_time.lead: [1us]     #! unknown key 'lead'
  streams.t.period:
    - 1us
    - 5                                 #! 5 has no unit
  streams.t.size:
    - 64B
    - 2000kB                            #! expected 65507B or less
  clock.sync:
    - sometimes                         #! is not supported
  name: [a, b]                          #! is the same in every cell
  links.0.mtu: 1500                     #! 1500 is not a list
accept:
  s.latency.p98: 1us                    #! unknown statistic 'p98'
  gone.latency.max: 1us                 #! unknown stream 'gone'
  s.counts.lost: none                   #! is not a number of packets
"""


def test_a_file_full_of_mistakes_is_reported_in_one_pass_each_in_its_line(problems: Problems) -> None:
    expected = {
        number: line.partition("#! ")[2] for number, line in enumerate(MISTAKES.splitlines(), start=1) if "#! " in line
    }
    found = problems(re.sub(r" +#! .*", "", MISTAKES))
    said = Counter(problem.line for problem in found)
    assert said == dict.fromkeys(expected, 1), [
        str(one) for one in found if said[one.line] != 1 or one.line not in expected
    ]
    for problem in found:
        assert expected[problem.line] in f"{problem.what}; expected {problem.expected}"


ALONE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # what stands wrong, and what else does in the same stream, link or file
    ({"streams.control.size": "1500B"}, {"streams.control.priority": 99}),
    ({"streams.control.listener": "sensor"}, {"streams.control.size": 5}),
    ({"streams.control.offset": "2ms"}, {"streams.control.vlan": "x", "links.0.queues": 0}),
    ({"warmup": "10s"}, {"hosts.ecu.kind": "moon", "matrix": 3, "clock": []}),
    ({"matrix": {"streams.control.sizee": [1]}}, {"streams.control.size": 5, "duration": "x"}),
    ({"matrix": {"streams.control.period": ["1us", 5]}}, {"streams.control.size": 5, "tuning": 7}),
    ({"matrix": {"clock.sync": ["x"], "links.0.mtu": [5]}}, {"streams": 7}),
    ({"accept/control.latency.p98": "1s"}, {"streams.control": 7, "hosts": {}}),
    ({"tuning.ecu.listener.mode": "spin"}, {"tuning.ecu.listener.lock_memory": 3, "tuning.ecu.foo": 1}),
    ({"links.1": {"ends": ["sensor.eth0", "ecu.eth9"]}}, {"links.0.mtu": 1, "links.1.foo": 1}),
]


@pytest.mark.parametrize(("wrong", "other"), ALONE, ids=[next(iter(wrong)) for wrong, _ in ALONE])
def test_a_mistake_is_reported_whatever_else_is_wrong(said: Said, wrong: dict[str, Any], other: dict[str, Any]) -> None:
    alone = said(wrong)
    assert alone
    told = said(wrong | other)
    for line in alone:
        place, _, what = line.rpartition(": ")
        assert any(one.startswith(place.split(": ")[0]) and one.endswith(what) for one in told), told


def test_a_bad_name_of_a_host_is_reported_once_however_often_it_is_used(problems: Problems, base: str) -> None:
    (problem,) = problems(base.replace("ecu", "Ecu_1"))
    assert (problem.line, problem.path) == (4, "hosts.Ecu_1")
    assert problem.expected == "at most 31 of a–z, 0–9 and -, beginning with a letter"


def test_a_reference_that_is_no_name_is_an_unknown_host_and_nothing_else(said: Said) -> None:
    (line,) = said({"streams.control.talker": "Nobody!"})
    assert "unknown host 'Nobody!'" in line


def test_a_percentile_that_cannot_be_measured_is_reported_with_the_packets_it_needs_and_has(said: Said) -> None:
    values = {"accept/control.latency.p99.99": "1ms", "duration": "2s", "warmup": "1s"}
    assert said(values) == [
        "accept.control.latency.p99.99: control has 1000 packets after the warm-up, too few for p99.99; "
        "expected a duration with 36887 or more, or another statistic"
    ]
    assert said(values | {"duration": "38s"}) == []
    assert said(values | {"duration": "37886ms"}) != []


def test_a_cell_that_is_too_short_for_a_percentile_is_reported(said: Said) -> None:
    (line,) = said({"accept/control.latency.p99": "1ms", "matrix": {"duration": ["1s", "100ms"]}})
    assert "in cell duration=100ms" in line


def test_a_stream_may_have_the_clock_s_port_where_no_clocks_are_exchanged(said: Said) -> None:
    assert said({"streams.control.port": 5556}) == []
    (line,) = said({"streams.control.port": 5556, "clock.sync": "exchange"})
    assert line.startswith("streams.control.port: port 5556 is used by the clock exchange")


def test_two_local_hosts_have_no_clocks_to_exchange(said: Said) -> None:
    local = {"hosts.sensor.kind": "local", "hosts.ecu.kind": "local", "links.0.ends": ["sensor.p1", "ecu.p2"]}
    frames = {"streams.control.transport": "ethernet", "loads": {}}
    (line,) = said(local | frames | {"clock.sync": "exchange"})
    assert line.startswith("clock.sync: ")
    assert line.endswith("expected auto")
    assert said({"hosts.ecu.kind": "local", "clock.sync": "exchange"}) == []


def test_the_file_of_mistakes_is_yaml() -> None:
    assert isinstance(yaml.safe_load(MISTAKES), dict)
