"""PTP in a scenario: what follows from it, and what does not fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import End, Loaded, parse
from support.scenario.ptp import CABLE, GATES, PTP, ROLES, TWO_SLAVES, P, cables

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]


def test_there_is_no_ptp_unless_it_is_said(with_: With) -> None:
    assert with_().scenario.clock.ptp is None


def test_cards_stamp_by_themselves_and_what_is_made_by_the_kernel(with_: With) -> None:
    made = with_({P: PTP}).scenario
    assert made.ptp_timestamps(End("sensor", "eth0")) == "software"
    cards = with_(CABLE | {P: {"ports": {"board1.eth0": "master", "board2.eth0": "slave"}}}).scenario
    assert cards.ptp_timestamps(End("board1", "eth0")) == "hardware"
    told = with_(CABLE | {P: {"ports": {"board2.eth0": "slave"}, "timestamps": "software"}}).scenario
    assert told.ptp_timestamps(End("board2", "eth0")) == "software"


def test_a_slave_is_locked_within_what_its_timestamps_are_worth_or_as_it_is_said(with_: With) -> None:
    ptp = with_({P: PTP}).scenario.clock.ptp
    assert ptp is not None
    assert (ptp.limit_ns("hardware"), ptp.limit_ns("software")) == (1_000, 100_000)
    given = with_({P: PTP | {"limit": "5us"}}).scenario.clock.ptp
    assert given is not None
    assert (given.limit_ns("hardware"), given.limit_ns("software")) == (5_000, 5_000)


def test_a_dumped_scenario_reads_back_as_the_same(with_: With) -> None:
    observed = {"ports": {}, "observed": {"ecu.eth0": "/run/ptp4l"}, "cpus": [1], "fifo": None, "wait": "5s"}
    for ptp in (PTP, observed):
        scenario = with_({P: ptp}).scenario
        assert parse(scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)).scenario == scenario


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({P: {}}, [
        "clock.ptp: no port; expected ports: {host.interface: slave}, or observed: {host.interface: /run/ptp4l}"
    ]),
    ({P: {"ports": {"sensor.eth1": "master"}}}, [
        "clock.ptp.ports.sensor.eth1: unknown end of a link 'sensor.eth1'; expected sensor.eth0? (known: sensor.eth0, "
        "ecu.eth0)"
    ]),
    ({P: {"ports": {"senso.eth0": "slave"}, "observed": {"c.eth0": "/run/ptp4l"}}}, [
        "clock.ptp.ports.senso.eth0: unknown host 'senso'; expected sensor? (known: sensor, ecu)",
        "clock.ptp.observed.c.eth0: unknown host 'c'; expected one of sensor, ecu",
    ]),
    (cables("ssh", 2) | {P: {"ports": TWO_SLAVES, "timestamps": "software"}}, [
        "clock.ptp.ports.board2.eth1: board2.eth0 adjusts the same machine's clock; expected one slave a machine, or "
        "timestamps: hardware"
    ]),
    ({P: PTP | {"observed": {"ecu.eth0": "/run/ptp4l"}}}, [
        "clock.ptp.observed.ecu.eth0: a ptp4l is started at ecu.eth0; expected one that is started, or one that is "
        "observed"
    ]),
    ({P: {"observed": {"ecu.eth0": "run/ptp4l"}}}, [
        "clock.ptp.observed.ecu.eth0: 'run/ptp4l' is not an absolute path; expected the path of ptp4l's socket, "
        "such as /run/ptp4l"
    ]),
    ({P: {"ports": {"ecu.eth0": "mastr"}}}, [
        "clock.ptp.ports.ecu.eth0: 'mastr' is not supported; expected master? (known: master, slave)"
    ]),
    ({P: {"observed": {"ecu.eth0": "/" + 107 * "a"}}}, [
        f"clock.ptp.observed.ecu.eth0: '/{55 * 'a'}... has 108 bytes; expected a socket's path of 107 or fewer"
    ]),
    ({P: PTP | {"timestamps": "hardware"}}, [
        f"clock.ptp.ports.{end}: {end} is made for the run, and has no hardware clock; expected timestamps: software, "
        "or a network card"
        for end in ROLES
    ]),
    ({P: {"ports": {"ecu.eth0": "slave"}}}, [
        "clock.ptp.ports: the ends of links[0] are nothing and slave; expected a master and a slave"
    ]),
    ({P: {"ports": dict.fromkeys(ROLES, "master")}}, [
        "clock.ptp.ports: the ends of links[0] are master and master; expected a master and a slave"
    ]),
    ({P: PTP | {"profile": "automotiv"}}, [
        "clock.ptp.profile: 'automotiv' is not supported; expected automotive? (known: automotive, gptp, default)"
    ]),
    ({P: PTP | {"wait": "10ms"}}, ["clock.ptp.wait: 10ms is too small; expected 1s or more"]),
    ({P: PTP | {"fifo": 0}}, ["clock.ptp.fifo: 0 is too small; expected 1 or more"]),
    ({P: PTP | {"domain": 128}}, ["clock.ptp.domain: 128 is too large; expected 127 or less"]),
    ({P: PTP | {"priorty": 5}}, [
        "clock.ptp.priorty: unknown key 'priorty'; expected priority? (known: ports, observed, profile, timestamps, "
        "domain, priority, fifo, cpus, limit, wait)"
    ]),
    ({"loads": None, "streams.control.launch_time": True, "shapers/ecu.eth0": {"kind": "etf"}, P: PTP}, [
        "clock.ptp.priority: packets without a launch time are dropped by the etf at ecu.eth0; expected another "
        "priority"
    ]),
    ({"loads": None, "links.0.queues": 2, "shapers/ecu.eth0": GATES, P: PTP | {"priority": 5}}, [
        "clock.ptp.priority: priority 5 is traffic class 1 at ecu.eth0, whose gate never opens; expected a gate "
        "for it, or another priority"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "lines"), WRONG, ids=[lines[0][:70] for _, lines in WRONG])
def test_what_does_not_fit_is_reported_where_it_stands(said: Said, values: dict[str, Any], lines: list[str]) -> None:
    assert said(values) == lines


def test_a_cable_may_lead_to_a_master_of_somebody_elses(said: Said) -> None:
    assert said(CABLE | {P: {"ports": {"board1.eth0": "slave"}}}) == []
    assert said({P: {"observed": {"ecu.eth0": "/run/ptp4l"}}}) == []
