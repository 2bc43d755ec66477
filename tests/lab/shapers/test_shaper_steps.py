"""Shapers as steps: the commands, what is read back, what is refused, what a refusal says."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
from lab_machine import run, scenario

from latlab import lab  # by its module: pytest takes a function test_bed_steps for a test
from latlab.errors import LabError
from latlab.host import MACHINE, LocalHost
from latlab.lab.apply import BY_HAND, TestBed
from latlab.lab.guests.planned import TAG, planned_site
from latlab.lab.plan import PlannedCell, plan_text
from latlab.lab.shapers import shaper_steps
from latlab.lab.shapers.base import listed
from latlab.lab.shapers.queues import former_queues
from latlab.lab.shapers.refused import refusal
from latlab.lab.shapers.root import DEFAULT, root_in_words
from latlab.lab.shapers.taprio import waiting
from latlab.lab.site import Site
from latlab.lab.step import Explain, Step, StepResult, fill
from latlab.lab.tai import KNOWN
from latlab.scenario import Scenario, parse
from latlab.scenario.shapers import Cbs, Etf, Mqprio, Shaper, Taprio

SITE = Site("0a9f")
HANDLE = "4f7d:"
"""Ours, by the tag."""

TAPRIO: dict[str, Any] = {
    "kind": "taprio",
    "mode": "software",
    "map": {"5": 1, "7": 0},
    "rest": 3,
    "gates": [
        {"open": [0, 1], "for": "101us"},
        {"open": [1], "for": "103us"},
        {"open": [1, 2], "for": "109us"},
        {"open": [1, 3], "for": "190us"},
    ],
}
CLASSES = "num_tc 4 map 3 3 3 3 3 1 3 0 3 3 3 3 3 3 3 3 queues 1@0 1@1 1@2 1@3"
ENTRIES = "sched-entry S 03 101000 sched-entry S 02 103000 sched-entry S 06 109000 sched-entry S 0a 190000"
MQPRIO: dict[str, Any] = {"kind": "mqprio", "map": {"0": 0}, "rest": 1, "queues": [1, 2]}
ETF: dict[str, Any] = {"kind": "etf"}
CBS: dict[str, Any] = {"kind": "cbs", "idle_slope": "1Mbit/s"}
LAUNCHED = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "launch_time": True}

# Recorded of `tc -j qdisc show`, kernel 6.12.
IN_FORCE = (
    '[{"kind":"taprio","handle":"4f7d:","root":true,"refcnt":9,"options":{"tc":4,'
    '"map":[3,3,3,3,3,1,3,0,3,3,3,3,3,3,3,3],"queues":[{"offset":0,"count":1},{"offset":1,"count":1},'
    '{"offset":2,"count":1},{"offset":3,"count":1}],"clockid":"TAI","base_time":0,"cycle_time":503000,'
    '"cycle_time_extension":0,"schedule":[{"index":0,"cmd":"S","gatemask":"0x3","interval":101000},'
    '{"index":1,"cmd":"S","gatemask":"0x2","interval":103000},{"index":2,"cmd":"S","gatemask":"0x6",'
    '"interval":109000},{"index":3,"cmd":"S","gatemask":"0xa","interval":190000}]}},'
    '{"kind":"pfifo","handle":"0:","parent":"4f7d:1","options":{"limit":1000}}]'
)
WAITING = (
    '[{"kind":"taprio","handle":"4f7d:","root":true,"refcnt":9,"options":{"tc":4,'
    '"map":[3,3,3,3,3,1,3,0,3,3,3,3,3,3,3,3],"queues":[{"offset":0,"count":1},{"offset":1,"count":1},'
    '{"offset":2,"count":1},{"offset":3,"count":1}],"clockid":"TAI","base_time":0,"cycle_time":0,'
    '"cycle_time_extension":0,{"base_time":1795381525000000000,"cycle_time":204000,"cycle_time_extension":0,'
    '"schedule":[{"index":0,"cmd":"S","gatemask":"0x3","interval":101000},'
    '{"index":1,"cmd":"S","gatemask":"0x2","interval":103000}]}}}]'
)
ASSISTED = IN_FORCE.replace('"clockid":"TAI"', '"clockid":"TAI","flags":"0x1","txtime_delay":300000')
MQPRIO_THERE = (
    '[{"kind":"mqprio","handle":"4f7d:","root":true,"options":{"tc":2,"map":[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],'
    '"queues":[[0,0],[1,2]],"mode":"dcb","shaper":"dcb"}}]'
)
ETF_OPTIONS = '"options":{"clockid":"TAI","delta":200000,"offload":"off","deadline_mode":"off","skip_sock_check":"on"}'
ETF_THERE = f'{{"kind":"etf","handle":"101:","parent":"4f7d:1",{ETF_OPTIONS}}}'
CBS_THERE = (
    '{"kind":"cbs","handle":"8001:","parent":"4f7d:2","options":{"hicredit":30,"locredit":-1500,'
    '"sendslope":-9999000,"idleslope":1000,"offload":0}}'
)


def as_root(qdisc: str) -> str:
    """The same where the root is."""
    return re.sub('"parent":"[^"]*"', '"root":true', qdisc)


NOQUEUE = '[{"kind":"noqueue","handle":"0:","dev":"eth0","root":true,"refcnt":2,"options":{}}]'
MQ = (
    '[{"kind":"mq","handle":"0:","root":true,"options":{}},'
    '{"kind":"fq_codel","handle":"0:","parent":":2","options":{}}]'
)


def shaped(shaper: dict[str, Any], **parts: Any) -> Scenario:
    """Two namespaces, four transmit queues each; the first's interface has the shaper."""
    link = {"ends": ["sensor.eth0", "ecu.lat0"], "queues": 4}
    return scenario({"sensor": "netns", "ecu": "netns"}, [link], shapers={"sensor.eth0": shaper}, **parts)


def of_shaper(shaper: dict[str, Any], **parts: Any) -> list[Step]:
    """The steps of an interface's shaper that change something, and those that read it back."""
    found = list(shaper_steps(shaped(shaper, **parts), SITE))
    return [step for step in found if step.explain]


def read(step: Step, output: str) -> str:
    assert step.check
    return step.check.read(output)


def expected(step: Step) -> str:
    assert step.check
    return step.check.expected


def root_command(words: str) -> tuple[str, ...]:
    return ("tc", "qdisc", "replace", "dev", "eth0", "parent", "root", "handle", HANDLE, *words.split())


def child_command(queue: int, words: str) -> tuple[str, ...]:
    return ("tc", "qdisc", "replace", "dev", "eth0", "parent", f"{HANDLE}{queue + 1}", *words.split())


# The commands.


@pytest.mark.parametrize(
    ("values", "end"),
    [
        ({}, "clockid CLOCK_TAI"),
        ({"mode": "txtime-assist"}, "flags 0x1 txtime-delay 300000 clockid CLOCK_TAI"),
        ({"mode": "txtime-assist", "txtime_delay": "1ms"}, "flags 0x1 txtime-delay 1000000 clockid CLOCK_TAI"),
        ({"mode": "offload"}, "flags 0x2"),
    ],
    ids=["software", "txtime-assist", "with a delay", "offload"],
)
def test_gates_are_set_up_for_the_next_cycle_far_enough_ahead(values: dict[str, Any], end: str) -> None:
    step = of_shaper(TAPRIO | values)[0]
    assert step.do == (
        "sh",
        "-c",
        "base=$(latlab-agent tai --next 503000 --shift 0 --after 200000000) && "
        f"exec tc qdisc replace dev eth0 parent root handle {HANDLE} taprio {CLASSES} "
        f'base-time "$base" {ENTRIES} {end}',
    )


def test_a_shift_is_told_to_who_computes_the_base_time_and_is_read_back() -> None:
    step = of_shaper(TAPRIO | {"shift": "7us"})[0]
    assert "tai --next 503000 --shift 7000 --after" in step.do[2]
    assert ", cycle 503000 ns from 7000, " in expected(step)
    assert read(step, IN_FORCE.replace('"base_time":0', f'"base_time":{503_000 * 10**12 + 7_000}')) == expected(step)
    assert read(step, IN_FORCE) != expected(step)


def test_after_a_schedule_is_set_up_it_is_waited_for() -> None:
    steps = list(shaper_steps(shaped(TAPRIO), SITE))
    assert [step.title for step in steps] == [
        "the kernel knows how far TAI is from UTC",
        "nothing shapes sensor.eth0 yet",
        "taprio shapes sensor.eth0",
        "the gates of sensor.eth0 are in force",
    ]
    last = steps[-1]
    assert last.do == ("sleep", "0.2")
    assert last.check
    assert last.check.within_ms == 5_000
    assert (read(last, IN_FORCE), read(last, ASSISTED)) == (last.check.expected, last.check.expected)
    assert read(last, WAITING) == "taprio waits for its base time, 1795381525000000000 ns"
    assert read(last, NOQUEUE) != last.check.expected
    assert read(last, "[]") == "nothing"


@pytest.mark.parametrize(
    ("shaper", "words"),
    [
        (MQPRIO, "mqprio num_tc 2 map 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 queues 1@0 2@1 hw 0"),
        (MQPRIO | {"offload": True}, "mqprio num_tc 2 map 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 queues 1@0 2@1 hw 1"),
        (ETF, "etf clockid CLOCK_TAI delta 200000"),
        (
            ETF | {"delta": "1us", "offload": True, "deadline": True, "skip_sock_check": True},
            "etf clockid CLOCK_TAI delta 1000 offload deadline_mode skip_sock_check",
        ),
        # of 10 Gbit/s: 1522 × 1/10000 = 0.15, 1522 × −9999/10000 = −1521.8
        (CBS, "cbs idleslope 1000 sendslope -9999000 hicredit 1 locredit -1522 offload 0"),
        (
            CBS | {"speed": "100Mbit/s", "offload": True},
            "cbs idleslope 1000 sendslope -99000 hicredit 16 locredit -1507 offload 1",
        ),
        (
            CBS | {"send_slope": -5_000_000, "hi_credit": 30, "lo_credit": -1500},
            "cbs idleslope 1000 sendslope -5000 hicredit 30 locredit -1500 offload 0",
        ),
    ],
)
def test_each_kind_is_one_command(shaper: dict[str, Any], words: str) -> None:
    launched = LAUNCHED | {"launch_time": {"deadline": bool(shaper.get("deadline"))}}
    (step,) = of_shaper(shaper, streams={"control": launched})
    assert step.do == root_command(words)
    assert step.undo == ("tc", "qdisc", "del", "dev", "eth0", "root")
    assert step.lasting


def test_children_stand_beneath_their_queues_and_go_with_the_root() -> None:
    children = {"0": ETF, "2": CBS}
    root, first, second = of_shaper(MQPRIO | {"children": children}, streams={"control": LAUNCHED})
    assert first.title == "etf shapes transmit queue 0 of sensor.eth0"
    assert first.do == child_command(0, "etf clockid CLOCK_TAI delta 200000")
    assert second.do == child_command(2, "cbs idleslope 1000 sendslope -9999000 hicredit 1 locredit -1522 offload 0")
    assert root.undo
    assert [(step.undo, step.present) for step in (first, second)] == [(None, None)] * 2


def test_a_child_reckons_with_its_own_speed_then_with_its_ports() -> None:
    children = {"0": CBS, "1": CBS | {"speed": "100Mbit/s"}}
    _, first, second = of_shaper(MQPRIO | {"speed": "1Gbit/s", "children": children})
    assert "sendslope -999000" in " ".join(first.do)
    assert "sendslope -99000" in " ".join(second.do)


def test_txtime_assist_puts_an_etf_beneath_every_queue() -> None:
    own = {"1": ETF | {"skip_sock_check": True, "delta": "300us"}}
    root, *beneath = of_shaper(TAPRIO | {"mode": "txtime-assist", "delta": "100us", "children": own})
    assert "txtime-delay 450000" in root.do[2]
    assert [step.do for step in beneath] == [
        child_command(queue, f"etf clockid CLOCK_TAI delta {delta} skip_sock_check")
        for queue, delta in enumerate((100_000, 300_000, 100_000, 100_000))
    ]


def test_every_command_can_be_pasted_into_a_shell() -> None:
    for shaper in (TAPRIO, TAPRIO | {"mode": "txtime-assist"}, MQPRIO | {"children": {"1": CBS}}):
        for step in (*shaper_steps(shaped(shaper), SITE), *shaper_steps(cards(MQPRIO), SITE)):
            argvs = (step.do, step.undo, step.present, step.check and step.check.argv)
            for argv in (*argvs, step.explain and step.explain.argv):
                if argv and argv[:2] == ("sh", "-c"):
                    subprocess.run(["sh", "-n"], input=argv[2], text=True, check=True)


# What is read back.


@pytest.mark.parametrize(
    ("shaper", "output"),
    [
        (TAPRIO, IN_FORCE),
        (TAPRIO | {"mode": "txtime-assist"}, ASSISTED),
        (TAPRIO | {"mode": "offload"}, IN_FORCE.replace('"clockid":"TAI"', '"flags":"0x2"')),
        (MQPRIO, MQPRIO_THERE),
        (ETF | {"skip_sock_check": True}, f"[{as_root(ETF_THERE)}]"),
        (
            CBS | {"hi_credit": 30, "lo_credit": -1500},
            f"[{as_root(CBS_THERE)}]",
        ),
    ],
    ids=["taprio", "txtime-assist", "offload", "mqprio", "etf", "cbs"],
)
def test_what_tc_says_of_a_shaper_is_what_is_expected(shaper: dict[str, Any], output: str) -> None:
    launched = {"streams": {"control": LAUNCHED}} if shaper["kind"] == "etf" else {}
    root = of_shaper(shaper, **launched)[0]
    assert read(root, output) == expected(root)


def test_of_a_schedule_that_waits_it_is_read_back_that_it_was_set_up() -> None:
    shift = 1795381525000000000 % 204_000
    shaper = TAPRIO | {"gates": TAPRIO["gates"][:2], "shift": f"{shift}ns"}
    root = of_shaper(shaper, streams={"control": LAUNCHED | {"priority": 5}})[0]
    assert read(root, WAITING) == expected(root)
    assert f", cycle 204000 ns from {shift}, " in expected(root)
    assert read(root, WAITING.replace('"interval":103000', '"interval":103001')) != expected(root)


@pytest.mark.parametrize(
    ("there", "other"),
    [
        ('"tc":4', '"tc":3'),
        ("[3,3,3,3,3,1,", "[3,3,3,3,3,2,"),
        ('{"offset":3,"count":1}', '{"offset":3,"count":2}'),
        ('"clockid":"TAI"', '"clockid":"REALTIME"'),
        ('"flags":"0x1"', '"flags":"0x0"'),
        ('"txtime_delay":300000', '"txtime_delay":300001'),
        ('"base_time":0', '"base_time":1'),
        ('"cycle_time":503000', '"cycle_time":503001'),
        ('"0x6"', '"0x4"'),
        ('"interval":190000', '"interval":190001'),
    ],
)
def test_any_difference_of_a_schedule_is_seen(there: str, other: str) -> None:
    root = of_shaper(TAPRIO | {"mode": "txtime-assist"})[0]
    assert there in ASSISTED
    assert read(root, ASSISTED.replace(there, other)) != expected(root)


@pytest.mark.parametrize("words", ["0", "0x0"])
def test_gates_that_are_all_closed_are_read_back(words: str) -> None:
    gates = [*TAPRIO["gates"][:2], {"open": [], "for": "109us"}, TAPRIO["gates"][3]]
    root = of_shaper(TAPRIO | {"rest": 3, "gates": gates, "map": {"5": 1, "7": 0}})[0]
    assert "sched-entry S 00 109000" in root.do[2]
    assert read(root, IN_FORCE.replace('"0x6"', f'"{words}"')) == expected(root)


def test_what_stands_beneath_a_queue_is_read_back_there() -> None:
    children = {"0": ETF | {"skip_sock_check": True}, "1": CBS | {"hi_credit": 30, "lo_credit": -1500}}
    _, etf, cbs = of_shaper(MQPRIO | {"children": children}, streams={"control": LAUNCHED})
    output = f"{MQPRIO_THERE[:-1]},{CBS_THERE},{ETF_THERE}]"
    assert read(etf, output) == expected(etf)
    assert read(cbs, output) == expected(cbs)
    assert read(etf, MQPRIO_THERE) == read(cbs, MQPRIO_THERE) == "nothing"
    assert read(cbs, output.replace('"hicredit":30', '"hicredit":31')) != expected(cbs)
    assert read(etf, output.replace('"skip_sock_check":"on"', '"skip_sock_check":"off"')) != expected(etf)


def test_a_schedule_that_waits_is_an_object_without_a_name_in_what_tc_prints() -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(WAITING)
    (qdisc,) = listed(WAITING)
    assert qdisc["options"]["admin"]["cycle_time"] == 204_000
    assert listed(IN_FORCE) == json.loads(IN_FORCE)


def test_a_schedule_is_in_force_once_none_waits() -> None:
    assert waiting(listed(IN_FORCE)[0]["options"]) == "in force"
    assert waiting(listed(WAITING)[0]["options"]) == "waits for its base time, 1795381525000000000 ns"
    assert waiting({"base_time": 7}) == "waits for its base time, 7 ns"


# Where somebody else's stands.


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (NOQUEUE, DEFAULT),
        (MQ, DEFAULT),
        ("[]", DEFAULT),
        ('[{"kind":"fq_codel","handle":"8001:","root":true,"options":{}}]', "fq_codel 8001:"),
        (MQ.replace('"handle":"0:","parent"', '"handle":"8002:","parent"'), DEFAULT),
        (IN_FORCE, f"taprio {HANDLE}"),
        (WAITING, f"taprio {HANDLE}"),
    ],
)
def test_only_the_kernels_default_is_replaced(output: str, words: str) -> None:
    assert root_in_words(output) == words
    free = next(step for step in shaper_steps(shaped(CBS), SITE) if step.title == "nothing shapes sensor.eth0 yet")
    assert (read(free, output) == expected(free)) == (words == DEFAULT)


def applied(steps: Iterable[Step]) -> list[StepResult]:
    """What became of the steps on this machine; all has been undone."""

    async def session() -> list[StepResult]:
        async with TestBed("t1", {"ecu": LocalHost("ecu")}) as bed:
            return await bed.apply(list(steps))

    return asyncio.run(session())


def cards(shaper: dict[str, Any]) -> Scenario:
    """Two hosts of this machine with a cable between them; one has the shaper."""
    stream = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "transport": "ethernet"}
    link = {"ends": ["sensor.lat1", "ecu.lat0"]}
    hosts = {"sensor": "local", "ecu": "local"}
    return scenario(hosts, [link], streams={"control": stream}, shapers={"ecu.lat0": shaper})


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_root_that_somebody_has_set_up_is_refused_and_kept() -> None:
    run("ip", "link", "add", "lat0", "type", "veth", "peer", "name", "lat1")
    run("tc", "qdisc", "add", "dev", "lat0", "root", "handle", "7:", "pfifo", "limit", "11")
    steps = [step for step in shaper_steps(cards(CBS), SITE) if step.host == "ecu"]
    with pytest.raises(LabError, match=r"expected \"the kernel's default\", actual 'pfifo 7:'") as caught:
        applied(steps)
    assert caught.value.where == "ecu"
    assert "`tc qdisc del dev lat0 root`" in caught.value.remedy
    assert "pfifo 7: root" in run("tc", "qdisc", "show", "dev", "lat0")


# Queues.


def queue_step(needed: int = 3) -> Step:
    shaper = {"kind": "mqprio", "queues": [1] * needed}
    return next(step for step in shaper_steps(cards(shaper), SITE) if step.before)


def test_only_a_card_that_is_there_gets_more_queues() -> None:
    assert queue_step().title == "ecu.lat0 has 3 transmit queues"
    assert not any(step.before for step in shaper_steps(shaped(MQPRIO), SITE))
    assert not any(step.before for step in shaper_steps(cards(CBS), SITE))


IGB_CHANNELS = """\
Channel parameters for eth0:
Pre-set maximums:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t8
Current hardware settings:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\t1
Combined:\t2
"""


@pytest.mark.parametrize(
    ("output", "queues", "combined", "tx"),
    [
        (f"2\n{IGB_CHANNELS}", "2", "2", "0"),
        (f"6\n{IGB_CHANNELS}".replace("TX:\t\tn/a", "TX:\t\t6").replace("Combined:\t2", "Combined:\t0"), "6", "0", "6"),
        ("1\n", "1", "0", "0"),
    ],
    ids=["igb", "separate", "none"],
)
def test_former_queues_are_those_in_use_now(output: str, queues: str, combined: str, tx: str) -> None:
    assert former_queues(output) == {"queues": queues, "combined": combined, "tx": tx}
    undo = fill(queue_step().undo or (), former_queues(output))
    assert undo[3:] == ("lat0", queues, combined, tx)


@pytest.mark.real
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("before", "meanwhile"), [(1, 3), (4, 4)])
def test_a_card_has_the_queues_until_the_end(before: int, meanwhile: int) -> None:
    def there() -> int:
        return sum(name.startswith("tx-") for name in os.listdir("/sys/class/net/lat0/queues"))

    several = ("numtxqueues", "4", "numrxqueues", "4")
    run("ip", "link", "add", "lat0", *several, "type", "veth", "peer", "name", "lat1", *several)
    run("ethtool", "-L", "lat0", "tx", str(before))
    (result,) = applied([queue_step()])
    assert (result.ok, result.actual) == (True, "3 or more")
    assert there() == before
    subprocess.run(queue_step().do, check=True)
    assert there() == meanwhile


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_card_that_cannot_have_the_queues_ends_the_run() -> None:
    run("ip", "link", "add", "lat0", "type", "veth", "peer", "name", "lat1")
    with pytest.raises(LabError, match=r"ecu\.lat0 has 3 transmit queues"):
        applied([queue_step()])


# TAI.


def test_this_machine_must_know_how_far_tai_is_from_utc() -> None:
    clock = next(iter(shaper_steps(shaped(TAPRIO), SITE)))
    assert (clock.host, clock.do, clock.undo) == (MACHINE, (), None)
    assert clock.check
    assert clock.check.argv == ("latlab-agent", "tai")
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":37}') == clock.check.expected == KNOWN
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":0}') == "0 s: nothing has told the kernel"
    assert "`latlab-agent tai --set 37`" in clock.check.remedy
    assert "phc2sys" in clock.check.remedy


def test_only_what_counts_tai_asks_for_it_and_once_for_a_machine() -> None:
    def asks(steps: Iterable[Step]) -> int:
        return sum("TAI" in step.title for step in steps)

    assert asks(shaper_steps(shaped(CBS), SITE)) == 0
    assert asks(shaper_steps(shaped(MQPRIO | {"children": {"1": CBS}}), SITE)) == 0
    launched = {"control": LAUNCHED}
    assert asks(shaper_steps(shaped(MQPRIO | {"children": {"0": ETF}}, streams=launched), SITE)) == 1
    link = {"ends": ["sensor.eth0", "ecu.lat0"], "queues": 4}
    both = {"sensor.eth0": TAPRIO, "ecu.lat0": TAPRIO}
    two = scenario({"sensor": "netns", "ecu": "netns"}, [link], shapers=both)
    assert asks(shaper_steps(two, SITE)) == 1


def test_a_board_is_told_how_far_tai_is_from_utc() -> None:
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
    clock, *rest = shaper_steps(boards, site)
    agent = site.on("board1").agent
    assert (clock.host, clock.do) == ("board1", (agent, "tai", "--set", "37"))
    assert clock.check
    assert clock.check.argv == (agent, "tai")
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":37}') == clock.check.expected == "37 s"
    assert read(clock, '{"tai_ns":1,"real_ns":1,"tai_offset_s":0}') == "0 s"
    assert {step.host for step in rest} == {"sensor"}
    assert f"base=$({agent} tai --next" in rest[1].do[2]


# Their place among the others.


def test_shapers_come_after_tuning() -> None:
    tuning = {"ecu": {"irq": {"lat0": {"cpus": [0]}}}}
    link = {"ends": ["sensor.eth0", "ecu.lat0"], "queues": 4}
    shapers = {"sensor.eth0": TAPRIO, "ecu.lat0": MQPRIO}
    small = scenario({"sensor": "netns", "ecu": "local"}, [link], tuning=tuning, shapers=shapers)
    titles = [step.title for step in lab.test_bed_steps(small, SITE)]
    shaping = titles.index("the kernel knows how far TAI is from UTC")
    assert titles.index("lat0's interrupts on CPU 0") < shaping
    assert titles[-2:] == ["nothing shapes ecu.lat0 yet", "mqprio shapes ecu.lat0"]
    assert titles[shaping:] == [step.title for step in shaper_steps(small, SITE)]


def test_the_plan_has_the_shapers_and_takes_them_away() -> None:
    text = plan_text([PlannedCell("all", shaped(MQPRIO | {"children": {"1": CBS}}), Site(TAG))])
    set_up, undo = text.split("\n# ---- Undo the test bed")
    inside = "ip netns exec latlab-RUN-sensor tc"
    assert "# mqprio shapes sensor.eth0\n" in set_up
    assert f"{inside} -j qdisc show dev eth0  # expect: the kernel's default" in set_up
    assert f"{inside} qdisc replace dev eth0 parent root handle " in set_up
    assert "mqprio num_tc 2 map 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 queues 1@0 2@1 hw 0" in set_up
    assert "# cbs shapes transmit queue 1 of sensor.eth0\n" in set_up
    assert f"{inside} qdisc del dev eth0 root  # mqprio shapes sensor.eth0" in undo


# A refusal.

IGB = """\
driver: igb
version: 6.12.117+deb12-rt-amd64
firmware-version: 2.1.0
Time stamping parameters for eth0:
PTP Hardware Clock: 0
tx-queues: 8
kernel: 6.12.117+deb12-rt-amd64
"""
VETH = """\
driver: veth
version: 1.0
firmware-version:{space}
Time stamping parameters for eth0:
PTP Hardware Clock: none
tx-queues: 4
kernel: 6.12.117
""".format(space=" ")
ON_IGB = "eth0: driver igb (firmware 2.1.0), 8 transmit queues, PTP clock 0, kernel 6.12.117+deb12-rt-amd64; "
ON_VETH = "eth0: driver veth, 4 transmit queues, no PTP clock, kernel 6.12.117; "


@pytest.mark.parametrize(
    ("model", "values", "output", "words"),
    [
        (
            Taprio,
            TAPRIO | {"mode": "offload"},
            IGB,
            f"{ON_IGB}mode: txtime-assist or mode: software works with a transmit queue for each class",
        ),
        (
            Taprio,
            TAPRIO | {"mode": "offload"},
            VETH,
            f"{ON_VETH}full offload needs a NIC with a PTP clock; "
            "mode: txtime-assist or mode: software works with a transmit queue for each class",
        ),
        (
            Taprio,
            TAPRIO,
            VETH,
            f"{ON_VETH}it needs sch_taprio (CONFIG_NET_SCH_TAPRIO), and as many transmit queues as its classes have",
        ),
        (Etf, ETF | {"offload": True}, VETH, f"{ON_VETH}offload: false works with any NIC"),
        (Etf, ETF, VETH, f"{ON_VETH}it needs sch_etf (CONFIG_NET_SCH_ETF)"),
        (Cbs, CBS | {"offload": True}, IGB, f"{ON_IGB}offload: false works with any NIC"),
        (Cbs, CBS, IGB, f"{ON_IGB}it needs sch_cbs (CONFIG_NET_SCH_CBS)"),
        (Mqprio, MQPRIO, VETH, f"{ON_VETH}it needs sch_mqprio (CONFIG_NET_SCH_MQPRIO)"),
        (
            Taprio,
            TAPRIO | {"mode": "offload"},
            IGB.replace("PTP Hardware Clock", "Hardware timestamp provider index"),
            f"{ON_IGB}mode: txtime-assist or mode: software works with a transmit queue for each class",
        ),
        (
            Etf,
            ETF,
            "",
            "eth0: driver unknown, no transmit queues, no PTP clock, kernel unknown; "
            "it needs sch_etf (CONFIG_NET_SCH_ETF)",
        ),
    ],
)
def test_a_refusal_says_what_is_there_and_what_would_work(
    model: type[Taprio | Mqprio | Etf | Cbs], values: dict[str, Any], output: str, words: str
) -> None:
    shaper: Shaper = model.model_validate(values)
    assert refusal("eth0", shaper, output) == words


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_shaper_that_is_refused_is_told_with_what_its_interface_has() -> None:
    run("ip", "link", "add", "lat0", "numtxqueues", "2", "type", "veth", "peer", "name", "lat1")
    step = next(step for step in shaper_steps(cards(ETF | {"offload": True, "skip_sock_check": True}), SITE) if step.do)
    with pytest.raises(LabError) as caught:
        applied([step])
    assert caught.value.what.startswith("etf shapes ecu.lat0: ")
    assert caught.value.remedy == (
        f"lat0: driver veth, 2 transmit queues, no PTP clock, kernel {os.uname().release}; "
        "offload: false works with any NIC"
    )


REFUSED = ("sh", "-c", "echo not here >&2; exit 3")


def failure(step: Step) -> LabError:
    with pytest.raises(LabError) as caught:
        applied([step])
    return caught.value


def test_a_step_that_fails_is_explained_by_what_was_asked_then() -> None:
    asked = Explain(("sh", "-c", "echo seen; exit 1"), lambda output: f"instead of {output.strip()}")
    error = failure(Step("ecu", "set it", REFUSED, explain=asked))
    assert error.remedy == "instead of seen"
    assert error.where == "ecu"
    assert error.what.startswith("set it: ")
    assert "not here" in error.what


def test_an_explanation_that_fails_itself_leaves_the_error_as_it_was() -> None:
    plain = failure(Step("ecu", "set it", REFUSED))
    explained = failure(Step("ecu", "set it", REFUSED, explain=Explain(("nosuchprogram",), str)))
    assert (explained.what, explained.where, explained.remedy) == (plain.what, plain.where, plain.remedy)
    assert plain.remedy == BY_HAND


def test_a_step_that_works_or_may_fail_is_not_explained() -> None:
    asked = Explain(("true",), lambda output: pytest.fail("nothing is to be explained"))
    assert applied([Step("ecu", "set it", ("true",), explain=asked)])[0].ok
    (result,) = applied([Step("ecu", "set it", REFUSED, optional=True, explain=asked)])
    assert result.why == "ended with status 3: not here"
