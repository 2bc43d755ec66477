"""Which clock follows which where a machine hands on the time that it gets: a slave of one, the master of another."""

from __future__ import annotations

import pytest

from latlab.scenario import Scenario
from latlab.testbed.guests.start import planned_site
from latlab.testbed.ptp import locked_steps, ptp_ports, ptp_steps
from latlab.testbed.ptp.daemon import ptp4l_argv
from support.testbed.ptp import boards, chain

IN_A_ROW = ("b1.eth0 master", "b2.eth0 slave", "b2.eth1 master", "b3.eth0 slave")


def kept(one: Scenario) -> list[str]:
    """What keeps time, and what follows what, in the order in which it is started."""
    titles = [step.title for step in ptp_steps(one, planned_site(one))]
    return [title for title in titles if "run ptp4l" in title or " follows " in title]


@pytest.mark.parametrize("ports", [IN_A_ROW, IN_A_ROW[::-1]], ids=["in order", "the other way"])
def test_a_machine_between_two_hands_on_what_it_got_and_only_once_it_has_it(ports: tuple[str, ...]) -> None:
    assert kept(chain(*ports)) == [
        "the clock of b1.eth0 follows b1's clock",
        "run ptp4l at b1.eth0, as master",
        "run ptp4l at b2.eth0, as slave",
        "b2's clock follows the clock of b2.eth0",
        "the clock of b2.eth1 follows b2's clock",
        "run ptp4l at b2.eth1, as master",
        "run ptp4l at b3.eth0, as slave",
        "b3's clock follows the clock of b3.eth0",
    ]
    again = [step.title for step in locked_steps(chain(*ports), planned_site(chain(*ports)))]
    assert again == [
        "b1.eth0 has its system's time before streams start",
        "b2.eth0 is locked before streams start",
        "b2 has b2.eth0's time before streams start",
        "b2.eth1 has its system's time before streams start",
        "b3.eth0 is locked before streams start",
        "b3 has b3.eth0's time before streams start",
    ]


def test_in_software_the_one_between_turns_its_clock_as_it_is_no_masters_of_its_own() -> None:
    one = chain(*IN_A_ROW, timestamps="software")
    free = {
        str(port.end): "--free_running=1" in ptp4l_argv(port)
        for port in ptp_ports(one, planned_site(one))
        if port.role == "slave"
    }
    assert free == {"b2.eth0": False, "b3.eth0": False}


def test_a_slave_of_somebody_elses_master_turns_its_machine_although_another_port_there_is_a_master() -> None:
    assert "b2's clock follows the clock of b2.eth0" in kept(chain("b2.eth0 slave", "b2.eth1 master", "b3.eth0 slave"))


def test_of_two_slaves_on_a_machine_its_clock_follows_the_first() -> None:
    hosts = {name: {"kind": "board", "nics": 2} for name in ("board1", "board2")}
    links = [{"ends": [f"board1.eth{n}", f"board2.eth{n}"]} for n in (0, 1)]
    roles = {f"{board}.eth{n}": role for n in (0, 1) for board, role in (("board1", "master"), ("board2", "slave"))}
    stream = {"talker": "board1", "listener": "board2", "via": "board1.eth0", "period": "1ms", "size": "64B"}
    one = boards(hosts=hosts, links=links, clock={"ptp": {"ports": roles}}, streams={"control": stream})
    assert [title for title in kept(one) if title.startswith("board2's clock follows")] == [
        "board2's clock follows the clock of board2.eth0"
    ]
