"""PTP as steps: what is started where, in which order, what is waited for, and what is set as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Scenario
from latlab.testbed import makers  # by its module: pytest takes a function test_bed_steps for a test
from latlab.testbed.guests.start import planned_site
from latlab.testbed.ptp import ptp_ports, ptp_steps
from latlab.testbed.ptp.daemon import ptp4l_argv
from latlab.testbed.step import Service, Step
from support.machine import scenario
from support.testbed.ptp import ONE_BOARD, ROLES, SITE, boards, made


def titles(one: Scenario) -> list[str]:
    return [step.title for step in ptp_steps(one, planned_site(one))]


def argv_of(one: Scenario, end: str) -> tuple[str, ...]:
    (port,) = (port for port in ptp_ports(one, planned_site(one)) if str(port.end) == end)
    return ptp4l_argv(port)


def state(name: str, offset: int | None, sync_s: float | None = 1) -> str:
    ingress = None if sync_s is None else round(sync_s * 1e9)
    return json.dumps({"state": name, "offset_ns": offset, "ingress_ns": ingress})


def test_without_ptp_nothing_is_started() -> None:
    assert list(ptp_steps(scenario({"sensor": "netns", "ecu": "netns"}), SITE)) == []


def test_by_software_ptp4l_is_all_there_is_and_on_one_kernel_it_turns_no_clock() -> None:
    assert titles(made()) == [
        "make the folder of ptp4l's sockets",
        "run ptp4l at sensor.eth0, as master",
        "run ptp4l at ecu.lat0, as slave",
    ]
    for end in ROLES:
        argv = argv_of(made(), end)
        assert "--free_running=1" in argv
        assert "--time_stamping=software" in argv


def test_between_cards_the_masters_follows_its_system_and_the_slaves_system_its_card() -> None:
    assert titles(boards()) == [
        "no other program adjusts board1's clocks",
        "make the folder of ptp4l's sockets",
        "no other program adjusts board2's clocks",
        "make the folder of ptp4l's sockets",
        "board1.eth0 has a separate clock for timestamps",
        "record how board1.eth0 stamps packets",
        "record the frequency of the clock of board1.eth0",
        "the clock of board1.eth0 follows board1's clock",
        "run ptp4l at board1.eth0, as master",
        "board2.eth0 has a separate clock for timestamps",
        "record how board2.eth0 stamps packets",
        "record the frequency of the clock of board2.eth0",
        "record the frequency of board2's clock",
        "run ptp4l at board2.eth0, as slave",
        "board2's clock follows the clock of board2.eth0",
    ]
    assert "--free_running=0" in argv_of(boards(), "board2.eth0")


def test_cards_of_one_machine_leave_its_clock_alone() -> None:
    one = boards(**ONE_BOARD)
    assert not any("board1's clock" in title and "follows the clock" in title for title in titles(one))
    assert "the clock of sensor.eth0 follows board1's clock" in titles(one)
    assert "--free_running=0" in argv_of(one, "ecu.eth1")


def test_gates_are_set_up_when_clocks_are_locked_and_the_lock_is_seen_again_after_them() -> None:
    gates = {"kind": "taprio", "mode": "software", "gates": [{"open": [0], "for": "1ms"}]}
    one = boards(**ONE_BOARD, shapers={"sensor.eth0": gates})
    found = [step.title for step in makers.test_bed_steps(one, planned_site(one))]
    order = [
        "set board1's TAI offset",
        "run ptp4l at sensor.eth0, as master",
        "run ptp4l at ecu.eth1, as slave",
        "taprio shapes sensor.eth0",
        "sensor.eth0 has its system's time before streams start",
        "ecu.eth1 is locked before streams start",
    ]
    assert [title for title in found if title in order] == order


def test_the_scenarios_words_reach_ptp4l() -> None:
    argv = argv_of(made(profile="gptp", priority=5, domain=3, fifo=7, cpus=[0, 1]), "ecu.lat0")
    for word in ("--socket_priority=5", "--domainNumber=3", "--slaveOnly=1", "--transportSpecific=0x1"):
        assert word in argv
    assert argv[:3] == ("setpriv", "--pdeathsig", "TERM")
    assert "exec chrt -f 7 taskset -c 0,1 ptp4l" in argv[5]
    assert "exec ptp4l" in argv_of(made(fifo=None), "ecu.lat0")[5]
    assert "--delay_mechanism=E2E" in argv_of(made(profile="default"), "ecu.lat0")


def test_it_is_called_by_its_name_where_it_fails() -> None:
    services = [one for one in ptp_steps(boards(), planned_site(boards())) if isinstance(one, Service)]
    assert [one.program for one in services] == ["phc2sys", "ptp4l", "ptp4l", "phc2sys"]


def lock(one: Scenario, **changes: Any) -> Callable[[str], str]:
    (slave,) = (port for port in ptp_ports(one, planned_site(one)) if port.role == "slave")
    check = slave.locked(**changes)
    assert check.within_ms == 60_000
    return check.read


def test_a_slave_is_locked_when_its_syncs_have_found_it_within_the_limit_for_a_while() -> None:
    read = lock(boards())
    # Until a delay is known, ptp4l says 0, whatever the offset is.
    assert read(state("SLAVE", 0, 10)) == "SLAVE, offset 0ns, within the limit for 1 Syncs"
    assert read(state("SLAVE", 0, 10)) == "SLAVE, offset 0ns, within the limit for 1 Syncs"
    assert read(state("SLAVE", -1_000, 11)) == "SLAVE, offset -1us, within the limit for 2 Syncs"
    assert read(state("SLAVE", 1_000, 12.4)) == "SLAVE, offset 1us, within the limit for 3 Syncs"
    assert read(state("SLAVE", 1_000, 12.5)) == "locked"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (state("SLAVE", 1_001, 12), "SLAVE, offset 1001ns"),
        (state("UNCALIBRATED", 5, 12), "UNCALIBRATED, offset 5ns"),
        (state("LISTENING", None, 12), "LISTENING"),
        (state("SLAVE", None, None), "SLAVE"),
        (state("SLAVE", 0, 12 - 37), "SLAVE, offset 0ns, within the limit for 1 Syncs"),
        (state("SLAVE", 0, 12 + 37), "SLAVE, offset 0ns, within the limit for 1 Syncs"),
    ],
    ids=["too far", "uncalibrated", "listening", "no Sync", "stepped back", "stepped on"],
)
def test_what_breaks_the_lock_begins_it_again(said: str, words: str) -> None:
    read = lock(boards())
    for sync_s in (10, 11):
        read(state("SLAVE", 0, sync_s))
    assert read(said) == words
    assert read(state("SLAVE", 0, 13)) != "locked"


def test_a_lock_that_is_seen_again_needs_no_while_but_syncs_that_are_new() -> None:
    read = lock(boards(), span_ns=0)
    assert [read(state("SLAVE", 0, sync_s)) == "locked" for sync_s in (10, 10, 10.1, 10.2)] == [False] * 3 + [True]


def test_one_that_turns_no_clock_is_locked_without_ever_being_calibrated() -> None:
    read = lock(made(limit="2us"), span_ns=0)
    said = [read(state("UNCALIBRATED", offset, sync_s)) for sync_s, offset in enumerate((2_000, -2_000, 0), start=1)]
    assert said[-1] == "locked"
    assert read(state("UNCALIBRATED", 2_001)) == "UNCALIBRATED, offset 2001ns"


def test_one_that_runs_already_is_asked_and_left_alone() -> None:
    one = made(ports={}, observed={"ecu.lat0": "/run/ptp4l"})
    (step,) = ptp_steps(one, SITE)
    assert isinstance(step, Step)
    assert step.do == ()
    assert step.undo is None
    assert step.check
    assert step.check.argv[1:4] == ("ptp", "--once", "/run/ptp4l")
    assert step.check.argv[-2:] == ("--transport-specific", "1")
    (plain,) = ptp_steps(made(ports={}, observed={"ecu.lat0": "/run/ptp4l"}, profile="default"), SITE)
    assert isinstance(plain, Step)
    assert plain.check
    assert plain.check.argv[-2:] == ("--transport-specific", "0")
    assert step.check.read(state("MASTER", None, None)) == "locked"
    assert step.check.read(state("LISTENING", None)) == "LISTENING"
    for sync_s in (1, 2, 3.5):
        said = step.check.read(state("SLAVE", 0, sync_s))
    assert said == "locked"


def test_a_cards_clock_is_followed_when_it_is_where_it_ought_to_be() -> None:
    services = [one for one in ptp_steps(boards(), planned_site(boards())) if isinstance(one, Service)]
    check = services[0].ready
    assert check
    said = "phc_ctl[9.1]: offset from CLOCK_REALTIME is {}ns\n"
    near, far = said.format(-37_000_000_400), said.format(-37_000_006_000)
    assert check.read(far) == "the card's clock is off by 6000 ns"
    assert [check.read(one) == "follows" for one in (near, near, far, near, near, near)] == [False] * 5 + [True]
    with pytest.raises(ValueError, match="no offset"):
        check.read("")
