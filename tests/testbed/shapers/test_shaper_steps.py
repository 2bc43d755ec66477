"""Shapers as steps: the commands, what is read back, what is refused, their place among the others."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.testbed import makers  # by its module: pytest takes a function test_bed_steps for a test
from latlab.testbed.guests.start import TAG
from latlab.testbed.plan import PlannedCell, plan_text
from latlab.testbed.shapers import shaper_steps
from latlab.testbed.shapers.base import DEFAULT, listed, root_in_words
from latlab.testbed.shapers.taprio import waiting
from latlab.testbed.site import Site
from support.machine import run, scenario
from support.testbed.shapers import (
    ASSISTED,
    BENEATH_1,
    CBS,
    CBS_THERE,
    CLASSES,
    ENTRIES,
    ETF,
    ETF_THERE,
    HANDLE,
    IN_FORCE,
    LAUNCHED,
    MQ,
    MQPRIO,
    MQPRIO_THERE,
    NOQUEUE,
    SITE,
    TAPRIO,
    TBF,
    TBF_THERE,
    WAITING,
    applied,
    as_root,
    cards,
    child_command,
    expected,
    of_shaper,
    read,
    root_command,
    shaped,
)

# The commands.


def test_gates_have_their_timer_on_the_cpu_that_is_named() -> None:
    first, _, last = list(shaper_steps(shaped(TAPRIO | {"cpu": 1}), SITE))[1:]
    assert "&& exec taskset -c 1 tc qdisc replace dev eth0 " in first.do[2]
    assert (last.title, last.do) == ("the timer of the gates of sensor.eth0 is on CPU 1", ())
    assert last.check and last.check.expected == "CPU 1"
    lists = "cpu: 0\n #1: <0>, advance_sched, S:01\ncpu: 1\n"
    assert (read(last, lists), read(last, "cpu: 0\ncpu: 1\n")) == ("CPU 0", "no timer")
    assert read(last, f"{lists} #4: <0>, advance_sched, S:01\n") == "CPU 1"


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
        "sensor.eth0 has no shaper yet",
        "taprio shapes sensor.eth0",
        "the gates of sensor.eth0 are in force",
    ]
    last = steps[-1]
    assert last.do == ("sleep", "0.200000000")
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
        (TBF, "tbf rate 100000000bit burst 1600b limit 256000b"),
        (TBF | {"burst": "3kB", "limit": "64kB"}, "tbf rate 100000000bit burst 3000b limit 64000b"),
    ],
)
def test_each_kind_is_one_command(shaper: dict[str, Any], words: str) -> None:
    launched = LAUNCHED | {"launch_time": {"deadline": bool(shaper.get("deadline"))}}
    (step,) = of_shaper(shaper, streams={"control": launched})
    assert step.do == root_command(words)
    assert step.undo == ("tc", "qdisc", "del", "dev", "eth0", "root")
    assert step.lasting


def test_children_stand_beneath_their_queues_and_go_with_the_root() -> None:
    children = {"0": ETF, **BENEATH_1}
    root, first, second, third = of_shaper(MQPRIO | {"children": children}, streams={"control": LAUNCHED})
    assert first.title == "etf shapes transmit queue 0 of sensor.eth0"
    assert first.do == child_command(0, "etf clockid CLOCK_TAI delta 200000")
    for queue, step in ((1, second), (2, third)):
        words = "cbs idleslope 1000 sendslope -9999000 hicredit 1 locredit -1522 offload 0"
        assert step.do == child_command(queue, words)
    assert root.undo
    assert [(step.undo, step.present) for step in (first, second, third)] == [(None, None)] * 3


def test_a_child_reckons_with_its_own_speed_then_with_its_ports() -> None:
    children = {"0": CBS, **dict.fromkeys("12", CBS | {"speed": "100Mbit/s"})}
    _, first, second, third = of_shaper(MQPRIO | {"speed": "1Gbit/s", "children": children})
    assert "sendslope -999000" in " ".join(first.do)
    assert "sendslope -99000" in " ".join(second.do)
    assert "sendslope -99000" in " ".join(third.do)


def test_txtime_assist_puts_an_etf_beneath_every_queue() -> None:
    own = {"1": ETF | {"skip_sock_check": True, "delta": "300us"}}
    root, *beneath = of_shaper(TAPRIO | {"mode": "txtime-assist", "delta": "100us", "children": own})
    assert "txtime-delay 450000" in root.do[2]
    assert [step.do for step in beneath] == [
        child_command(queue, f"etf clockid CLOCK_TAI delta {delta} skip_sock_check")
        for queue, delta in enumerate((100_000, 300_000, 100_000, 100_000))
    ]


def test_every_command_can_be_pasted_into_a_shell() -> None:
    for shaper in (TAPRIO, TAPRIO | {"mode": "txtime-assist"}, MQPRIO | {"children": BENEATH_1}):
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
        (TBF, TBF_THERE),
    ],
    ids=["taprio", "txtime-assist", "offload", "mqprio", "etf", "cbs", "tbf"],
)
def test_what_tc_says_of_a_shaper_is_what_is_expected(shaper: dict[str, Any], output: str) -> None:
    launched = {"streams": {"control": LAUNCHED}} if shaper["kind"] == "etf" else {}
    root = of_shaper(shaper, **launched)[0]
    assert read(root, output) == expected(root)


@pytest.mark.parametrize(
    ("rate", "burst", "printed"),
    [
        # Recorded of iproute2 6.1, kernel 6.18.
        ("100Mbit/s", "1522B", '"rate":12500000,"burst":1512,"lat":20359'),
        ("300Mbit/s", "1600B", '"rate":37500000,"burst":1575,"lat":6784'),
        ("1Gbit/s", "1600B", '"rate":125000000,"burst":1500,"lat":2036'),
        ("1Gbit/s", "1630B", '"rate":125000000,"burst":1500,"lat":2036'),
        ("2500Mbit/s", "1600B", '"rate":312500000,"burst":1562,"lat":814'),
        ("10Gbit/s", "100kB", '"rate":1250000000,"burst":98750,"lat":125'),
        ("40Gbit/s", "1600B", '"rate":5000000000,"burst":0,"lat":51'),
    ],
)
def test_a_burst_is_read_back_although_tc_prints_it_in_whole_microseconds(rate: str, burst: str, printed: str) -> None:
    (step,) = of_shaper({"kind": "tbf", "rate": rate, "burst": burst})
    there = TBF_THERE.replace('"rate":12500000,"burst":1600,"lat":20352', printed)
    assert read(step, there) == expected(step)


@pytest.mark.parametrize("other", [0, 1584, 1601, 3000])
def test_another_burst_is_seen(other: int) -> None:
    (step,) = of_shaper(TBF)
    there = TBF_THERE.replace('"burst":1600', f'"burst":{other}')
    assert read(step, there) == f"tbf rate 12500000 B/s, burst {other} B" != expected(step)


@pytest.mark.parametrize(("bridge", "place"), [("tap", "ecu lat0"), ("vfio", "vm1 eth0")])
def test_a_line_rate_goes_with_the_card_that_vfio_hands_to_a_guest(bridge: str, place: str) -> None:
    found = scenario(
        {"sensor": "netns", "ecu": "local"},
        [{"ends": ["sensor.eth0", "ecu.lat0"]}],
        guests={"vm1": {"host": "ecu", "uplink": "lat0", "bridge": bridge}},
        shapers={"ecu.lat0": TBF},
    )
    step = next(step for step in shaper_steps(found, SITE) if step.explain)
    assert f"{step.host} {step.do[4]}" == place
    # A guest that ends with the cell takes its settings along.
    assert (step.undo is None) == (bridge == "vfio")


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
    credits_of = CBS | {"hi_credit": 30, "lo_credit": -1500}
    children = {"0": ETF | {"skip_sock_check": True}, "1": credits_of, "2": credits_of}
    _, etf, cbs, other = of_shaper(MQPRIO | {"children": children}, streams={"control": LAUNCHED})
    output = f"{MQPRIO_THERE[:-1]},{CBS_THERE},{ETF_THERE}]"
    assert read(etf, output) == expected(etf)
    assert read(cbs, output) == expected(cbs)
    assert read(etf, MQPRIO_THERE) == read(cbs, MQPRIO_THERE) == "nothing"
    assert read(other, output) == "nothing"
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


# Where a foreign one is.


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
    free = next(step for step in shaper_steps(shaped(CBS), SITE) if step.title == "sensor.eth0 has no shaper yet")
    assert (read(free, output) == expected(free)) == (words == DEFAULT)


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


# Their place among the others.


def test_shapers_come_after_tuning() -> None:
    tuning = {"ecu": {"irq": {"lat0": {"cpus": [0]}}}}
    link = {"ends": ["sensor.eth0", "ecu.lat0"], "queues": 4}
    shapers = {"sensor.eth0": TAPRIO, "ecu.lat0": MQPRIO}
    small = scenario({"sensor": "netns", "ecu": "local"}, [link], tuning=tuning, shapers=shapers)
    titles = [step.title for step in makers.test_bed_steps(small, SITE)]
    known = titles.index("the kernel has the TAI offset")
    assert titles.index("lat0's interrupts on CPU 0") < known
    assert titles[-2:] == ["ecu.lat0 has no shaper yet", "mqprio shapes ecu.lat0"]
    assert titles[known + 1 :] == [step.title for step in shaper_steps(small, SITE)]


def test_the_plan_has_the_shapers_and_takes_them_away() -> None:
    text = plan_text([PlannedCell("all", shaped(MQPRIO | {"children": BENEATH_1}), Site(TAG))])
    set_up, undo = text.split("\n# ---- Undo the test bed")
    inside = "ip netns exec latlab-RUN-sensor tc"
    assert "# mqprio shapes sensor.eth0\n" in set_up
    assert f"{inside} -j qdisc show dev eth0  # expect: the kernel's default" in set_up
    assert f"{inside} qdisc replace dev eth0 parent root handle " in set_up
    assert "mqprio num_tc 2 map 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 queues 1@0 2@1 hw 0" in set_up
    assert "# cbs shapes transmit queue 1 of sensor.eth0\n" in set_up
    assert f"{inside} qdisc del dev eth0 root  # mqprio shapes sensor.eth0" in undo
