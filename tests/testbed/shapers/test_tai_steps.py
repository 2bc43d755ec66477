"""TAI as steps: on an emulated board it is set, on any other machine it must be known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from latlab.hosts import MACHINE
from latlab.scenario import parse
from latlab.testbed.guests.start import planned_site
from latlab.testbed.host_setup import KNOWN, tai_steps
from latlab.testbed.step import Step
from support.machine import scenario
from support.testbed.shapers import BENEATH_1, CBS, ETF, LAUNCHED, MQPRIO, SITE, TAPRIO, read, shaped


def test_this_machine_must_know_how_far_tai_is_from_utc() -> None:
    clock = next(iter(tai_steps(shaped(TAPRIO), SITE)))
    assert (clock.host, clock.do, clock.undo) == (MACHINE, (), None)
    assert clock.check
    assert clock.check.argv == ("latlab-agent", "tai")
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":37}') == clock.check.expected == KNOWN
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":0}') == "0 s: the kernel's TAI offset is not set"
    assert "phc2sys" in clock.check.remedy


def test_a_machine_that_does_not_know_is_reported_with_its_own_agent() -> None:
    on_it = {"kind": "netns", "on": "far"}
    far = parse(
        {
            "name": "far",
            "hosts": {"far": {"kind": "ssh"}, "sensor": on_it, "ecu": on_it},
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
            "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}},
            "shapers": {"sensor.eth0": TAPRIO},
            "duration": "1s",
        }
    ).scenario
    assert far
    site = replace(planned_site(far).on("far"), agent="/var/lib/latlab/agents/latlab-agent-1a2b")
    (there,) = tai_steps(far, replace(planned_site(far), others={"far": site}))
    (here,) = tai_steps(shaped(TAPRIO), replace(SITE, agent="/opt/latlab-agent"))
    assert there.check and here.check
    assert "on far until its next boot: `/var/lib/latlab/agents/latlab-agent-1a2b tai --set 37`" in there.check.remedy
    assert "on this machine until its next boot: `/opt/latlab-agent tai --set 37`" in here.check.remedy


def test_only_what_counts_tai_asks_for_it_and_once_for_a_machine() -> None:
    def asks(steps: Iterable[Step]) -> int:
        return sum("TAI" in step.title for step in steps)

    assert asks(tai_steps(shaped(CBS), SITE)) == 0
    assert asks(tai_steps(shaped(MQPRIO | {"children": BENEATH_1}), SITE)) == 0
    launched = {"control": LAUNCHED}
    assert asks(tai_steps(shaped(MQPRIO | {"children": {"0": ETF}}, streams=launched), SITE)) == 1
    link = {"ends": ["sensor.eth0", "ecu.lat0"], "queues": 4}
    both = {"sensor.eth0": TAPRIO, "ecu.lat0": TAPRIO}
    two = scenario({"sensor": "netns", "ecu": "netns"}, [link], shapers=both)
    assert asks(tai_steps(two, SITE)) == 1


def test_a_board_is_reported_how_far_tai_is_from_utc() -> None:
    on_board = {"kind": "netns", "on": "board1"}
    boards = parse(
        {
            "name": "boards",
            "hosts": {"board1": {"kind": "board"}, "sensor": on_board, "ecu": on_board},
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
            "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}},
            "shapers": {"sensor.eth0": TAPRIO},
            "duration": "1s",
        }
    ).scenario
    assert boards
    site = planned_site(boards)
    (clock,) = tai_steps(boards, site)
    agent = site.on("board1").agent
    assert (clock.host, clock.do) == ("board1", (agent, "tai", "--set", "37"))
    assert clock.check
    assert clock.check.argv == (agent, "tai")
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":37}') == clock.check.expected == "37 s"
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":0}') == "0 s"
