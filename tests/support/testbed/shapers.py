"""An interface that is shaped, in tests: scenarios, its steps, what tc said of each kind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from latlab.hosts import LocalMachine
from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.shapers import shaper_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Step, StepResult
from support.machine import scenario

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
BENEATH_1 = {"1": CBS, "2": CBS}
"""A cbs beneath each queue of MQPRIO's class 1."""
TBF: dict[str, Any] = {"kind": "tbf", "rate": "100Mbit/s"}
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

TBF_THERE = (
    '[{"kind":"tbf","handle":"4f7d:","root":true,"refcnt":3,"options":{"rate":12500000,"burst":1600,"lat":20352}}]'
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


def applied(steps: Iterable[Step]) -> list[StepResult]:
    """What became of the steps on this machine; all has been undone."""

    async def session() -> list[StepResult]:
        async with TestBed("t1", {"ecu": LocalMachine("ecu")}) as bed:
            return await bed.apply(list(steps))

    return asyncio.run(session())


def cards(shaper: dict[str, Any]) -> Scenario:
    """Two hosts of this machine with a cable between them; one has the shaper."""
    stream = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "transport": "ethernet"}
    link = {"ends": ["sensor.lat1", "ecu.lat0"]}
    hosts = {"sensor": "local", "ecu": "local"}
    return scenario(hosts, [link], streams={"control": stream}, shapers={"ecu.lat0": shaper})
