"""Tuning: what hosts and guests can be told, what it defaults to, and what cannot be tuned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import GuestTuning, IrqTuning, Loaded, Threads, Tuning, cells, parse

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

VM = {"host": "ecu", "uplink": "eth0", "vcpus": 2, "queues": 2}
WITH_VM = {"guests.vm1": VM, "guests.vm2": {"host": "sensor"}}
E = "tuning.ecu."
FULL = WITH_VM | {
    E + "guests": {"vm1": {"vcpus": {"cpus": [2, 3], "fifo": 1}, "emulator": {"cpus": [0]}, "vhost": {"fifo": 2}}},
    E + "isolated": [2, 3],
    E + "irq": {"eth0": {"cpus": [0], "queues": {"1": [2]}}},
    E + "steering": {"eth0": {"7": 1, "0": 0}},
    E + "halt_poll": "200us",
    "tuning.vm1": {"irq": {"eth0": {"cpus": [1]}}, "isolated": [1]},
}


def test_nothing_is_tuned_unless_it_is_said(with_: With) -> None:
    tuning = with_().scenario.tuning_of("ecu")
    assert (tuning.guests, tuning.isolated, tuning.irq, tuning.steering, tuning.halt_poll) == ({}, None, {}, {}, None)
    assert GuestTuning() == GuestTuning(vcpus=Threads(), emulator=Threads(cpus=None, fifo=None), vhost=Threads())
    assert (IrqTuning().cpus, IrqTuning().queues) == (None, {})


def test_a_hosts_tuning_holds_its_guests_threads_interrupts_and_queues(with_: With) -> None:
    scenario = with_(FULL).scenario
    tuning = scenario.tuning_of("ecu")
    assert tuning.guests["vm1"].vcpus == Threads(cpus=(2, 3), fifo=1)
    assert tuning.guests["vm1"].emulator == Threads(cpus=(0,), fifo=None)
    assert tuning.guests["vm1"].vhost == Threads(cpus=None, fifo=2)
    assert tuning.isolated == (2, 3)
    assert (tuning.irq["eth0"].cpus, tuning.irq["eth0"].queues) == ((0,), {1: (2,)})
    assert tuning.steering == {"eth0": {7: 1, 0: 0}}
    assert tuning.halt_poll == 200_000
    assert scenario.tuning_of("vm1").irq["eth0"].cpus == (1,)
    assert scenario.tuning_of("vm2") == Tuning()


def test_a_dumped_tuning_reads_back_as_the_same(with_: With) -> None:
    scenario = with_(FULL).scenario
    assert parse(scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)).scenario == scenario


def test_what_is_tuned_can_be_varied(with_: With) -> None:
    matrix = {
        "matrix/tuning.ecu.guests.vm1.vcpus.fifo": [1, None],
        "matrix/tuning.ecu.irq.eth0.queues.1": [[2]],
        "matrix/tuning.ecu.steering.eth0.7": [0],
        "matrix/tuning.sensor.halt_poll": ["200us"],
    }
    first, second = (cell.scenario.tuning_of("ecu") for cell in cells(with_(FULL | matrix)))
    assert (first.guests["vm1"].vcpus.fifo, second.guests["vm1"].vcpus.fifo) == (1, None)
    assert (first.irq["eth0"].queues, first.steering["eth0"]) == ({1: (2,)}, {7: 0, 0: 0})


WRONG: list[tuple[dict[str, Any], str]] = [
    # what is put into the base scenario with two guests, what is said, all of it
    ({E + "guests": {"vm": {}}}, "tuning.ecu.guests.vm: unknown guest 'vm'; expected vm1? (known: vm1)"),
    ({E + "guests": {"vm2": {}}}, "tuning.ecu.guests.vm2: vm2 is a guest of sensor; expected tuning.sensor.guests.vm2"),
    (
        {E + "guests": {"vm1": {"vcpu": {}}}},
        "tuning.ecu.guests.vm1.vcpu: unknown key 'vcpu'; expected vcpus? (known: vcpus, emulator, vhost)",
    ),
    (
        {E + "guests": {"vm1": {"vhost": {"fifo": 0}}}},
        "tuning.ecu.guests.vm1.vhost.fifo: 0 is too small; expected 1 or more",
    ),
    ({E + "isolated": [1, 1]}, "tuning.ecu.isolated: a CPU twice in [1, 1]; expected each CPU once"),
    ({E + "irq": {"eth1": {}}}, "tuning.ecu.irq.eth1: unknown interface of ecu 'eth1'; expected eth0? (known: eth0)"),
    (
        {E + "irq": {"eth0": {"queues": {"rx0": [1]}}}},
        "tuning.ecu.irq.eth0.queues.rx0: 'rx0' is not a number; expected an integer such as 0",
    ),
    (
        {E + "irq": {"eth0": {"queues": {"4096": [1]}}}},
        "tuning.ecu.irq.eth0.queues.4096: '4096' is too large; expected 4095 or less",
    ),
    ({E + "steering": {"eth0": {"8": 0}}}, "tuning.ecu.steering.eth0.8: '8' is too large; expected 7 or less"),
    ({E + "steering": {"eth0": {"7": -1}}}, "tuning.ecu.steering.eth0.7: -1 is too small; expected 0 or more"),
    (
        {E + "steering": {"ens": {"7": 0}}},
        "tuning.ecu.steering.ens: unknown interface of ecu 'ens'; expected one of eth0",
    ),
    ({E + "halt_poll": "5s"}, "tuning.ecu.halt_poll: 5s is too large; expected 4294967295ns or less"),
    (
        {E + "halt_poll": "1us", "tuning.sensor.halt_poll": "0ns"},
        "tuning.sensor.halt_poll: sensor is on the machine of ecu, which has 1us; "
        "expected the same for both, or one of them",
    ),
    (
        {"tuning.vm1.halt_poll": 0},
        "tuning.vm1.halt_poll: vm1 is a guest, and has no halt_poll; expected halt_poll in tuning of its host",
    ),
    (
        {"tuning.vm1.guests": {"vm1": {}}},
        "tuning.vm1.guests: vm1 is a guest, and has no guests; expected guests in tuning of its host",
    ),
    (
        {"tuning.vm1.listener.cpus": [1, 2]},
        "tuning.vm1.listener.cpus: vm1 has no CPU 2; expected 0 to 1, or more vcpus",
    ),
    ({"tuning.vm1.isolated": [9]}, "tuning.vm1.isolated: vm1 has no CPU 9; expected 0 to 1, or more vcpus"),
    ({"tuning.vm2.load.cpus": [1]}, "tuning.vm2.load.cpus: vm2 has no CPU 1; expected 0, or more vcpus"),
    (
        {"tuning.vm1.irq": {"eth0": {"queues": {"0": [2]}}}},
        "tuning.vm1.irq.eth0.queues.0: vm1 has no CPU 2; expected 0 to 1, or more vcpus",
    ),
    (
        {"tuning.vm1.irq": {"eth0": {"queues": {"2": [0]}}}},
        "tuning.vm1.irq.eth0.queues.2: the network card of vm1 has no queue 2; "
        "expected guests.vm1.queues of 3 or more",
    ),
    (
        {"tuning.vm1.steering": {"eth0": {"7": 5}}},
        "tuning.vm1.steering.eth0.7: the network card of vm1 has no queue 5; expected guests.vm1.queues of 6 or more",
    ),
    ({"tuning.vm1.irq": {"ens3": {}}}, "tuning.vm1.irq.ens3: unknown interface of vm1 'ens3'; expected one of eth0"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "line"), WRONG, ids=[line.split("; ")[0][:70] for _, line in WRONG])
def test_what_cannot_be_tuned_is_one_sentence_where_it_stands(said: Said, values: dict[str, Any], line: str) -> None:
    assert said(WITH_VM | values) == [line]


FINE: list[dict[str, Any]] = [
    {E + "halt_poll": "1us", "tuning.sensor.halt_poll": "1us"},
    {"guests.vm1": VM | {"bridge": "vfio"}, "tuning.vm1.steering": {"eth0": {"7": 5}}},
    {
        "guests.vm1": {"host": "ecu", "domain": "vm", "ssh": {"destination": "vm"}},
        "tuning.vm1": {"isolated": [7], "irq": {"eth0": {"queues": {"5": [7]}}}},
    },
    {"tuning.vm1": {"guests": {}, "halt_poll": None}},
]


@pytest.mark.parametrize("values", FINE)
def test_what_can_be_tuned_is_accepted(said: Said, values: dict[str, Any]) -> None:
    assert said(WITH_VM | values) == []


def test_every_mistake_of_a_tuning_is_reported_at_once(said: Said) -> None:
    values = {
        E + "guests": {"gone": {"vcpus": {"fifo": 100}}, "vm1": {"vhost": {"cpus": []}}, "vm2": {}},
        E + "irq": {"eth9": {"cpus": "all", "queues": {"x": [1]}}, "eth0": {}},
        E + "steering": {"eth8": {"9": 0}},
        E + "listener": {"mode": "spin"},
        "tuning.vm1": {"isolated": [5], "irq": {"eth0": {"cpus": [7], "queues": {"0": [1], "y": [1]}}}},
    }
    assert sorted(line.split(": ")[0] for line in said(WITH_VM | values)) == [
        "tuning.ecu.guests.gone",
        "tuning.ecu.guests.gone.vcpus.fifo",
        "tuning.ecu.guests.vm1.vhost.cpus",
        "tuning.ecu.guests.vm2",
        "tuning.ecu.irq.eth9",
        "tuning.ecu.irq.eth9.cpus",
        "tuning.ecu.irq.eth9.queues.x",
        "tuning.ecu.listener.mode",
        "tuning.ecu.steering.eth8",
        "tuning.ecu.steering.eth8.9",
        "tuning.vm1.irq.eth0.cpus",
        "tuning.vm1.irq.eth0.queues.y",
        "tuning.vm1.isolated",
    ]


def test_interfaces_are_not_judged_while_a_link_is_wrong(said: Said) -> None:
    values = {"links.0.ends": ["sensor.eth0", "ecu/eth0"], E + "irq": {"eth0": {}}}
    assert [line.split(": ")[0] for line in said(values)] == ["links[0].ends[1]"]
