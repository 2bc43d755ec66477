"""Probes over DDS in a scenario: their domains, their flows, and what of them cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded
from latlab.scenario.flows import dds_domains

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

DDS = {"probe": "dds", "from": "sensor", "to": "ecu", "size": "64B"}
DDSPERF = DDS | {"probe": "ddsperf"}


def test_each_probe_has_a_domain_of_its_own_unless_it_names_one(with_: With) -> None:
    probes = {
        "probes.a": DDS,
        "probes.ping": DDS | {"probe": "ping"},
        "probes.b": DDSPERF | {"domain": 41},
        "probes.c": DDSPERF,
        "probes.d": DDS,
    }
    assert dds_domains(with_(probes).scenario.probes) == {"a": 40, "b": 41, "c": 42, "d": 43}


def test_a_flow_over_dds_has_no_port_and_a_schedule_where_our_own_agents_ask(with_: With) -> None:
    scenario = with_({"probes.a": DDS | {"period": "1ms", "offset": "250us"}, "probes.b": DDSPERF}).scenario
    flows = {name: flow for name, flow in scenario.flows.items() if flow.probe}
    assert {flow.transport for flow in flows.values()} == {"dds"}
    assert {flow.port for flow in flows.values()} == {None}
    assert (flows["a.up"].period, flows["a.up"].offset, flows["a.down"].period) == (1_000_000, 250_000, None)
    assert [name for name in flows if name in scenario.recorded] == ["a.up", "a.down"]


SPINNING = {"probes.a": DDS | {"take": "spin"}, "tuning.ecu": {"listener": {"cpus": [1]}}}
IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    (
        {"probes.a": DDS | {"domain": 3}, "probes.b": DDSPERF | {"domain": 3}},
        "probes.b.domain: domain 3 is a's; expected another one, or leave it out",
    ),
    ({"probes.a": DDS | {"domain": 231}}, "probes.a.domain: 231"),
    ({"probes.a": DDS | {"size": "39B"}}, "probes.a.size: 39B"),
    ({"probes.a": DDSPERF | {"size": "11B"}}, "probes.a.size: 11B"),
    ({"probes.a": DDS | {"size": "17MiB"}}, "probes.a.size: 17MiB"),
    ({"probes.a": DDS | {"offset": "1ms"}}, "probes.a.offset: a closed loop has no period, so it has no offset"),
    ({"probes.a": DDS | {"period": "1ms", "offset": "1ms"}}, "probes.a.offset: an offset of 1ms is a period or more"),
    ({"probes.a": DDS | {"threads": {"recvUC": 100}}}, "probes.a.threads.recvUC"),
    ({"probes.a": DDS | {"threads": {"recv<": 3}}}, "probes.a.threads"),
    ({"probes.a": DDSPERF | {"take": "spin"}}, "probes.a.take"),
    ({"probes.a": DDSPERF | {"period": "3us"}}, "probes.a.period: that is not a whole number of messages a second"),
    (SPINNING, "probes.a.take: sensor would poll for samples at SCHED_FIFO 90 on every CPU"),
]


@pytest.mark.parametrize(("changes", "told"), IMPOSSIBLE)
def test_what_cannot_be_is_reported_where_it_stands(said: Said, changes: dict[str, Any], told: str) -> None:
    (found,) = said(changes)
    assert found.startswith(told)


def test_who_spins_on_cpus_of_its_own_may(with_: With) -> None:
    assert with_(SPINNING | {"tuning.sensor": {"talker": {"cpus": [0]}}}).scenario.probes
