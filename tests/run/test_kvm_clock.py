"""From KVM's clock in a guest to packets on one clock: the true offset is within the bound, wherever that clock is.

Real are the lab's choice and its conversation with the agent, the agent, the facts it prints, the system call by which
it reads the clock, what it records and proves, and the join. Not real is the virtual machine: the guest is a process of
this machine with its own /sys and /dev, and what its kernel would answer about the clock, the test answers
(own_ptp_clock.py), reading this machine's clock around each reading as the kernel does. So the guest's clock is this
machine's, and it is the host's that runs elsewhere and at another rate.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.analysis.described import clock_source
from latlab.hosts import Host, LocalMachine
from latlab.recordings.arrow import read_recording
from latlab.recordings.cell import ClockEdge
from latlab.recordings.packets import join_cell
from latlab.recordings.run_folder import CellFolder
from latlab.run.clocks import KVM_CLOCK, ClockWatch
from latlab.run.events import ClockBound, Event
from latlab.run.fetch import Recordings
from latlab.scenario import Scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.site import Site
from support.programs import PROGRAMS
from support.programs.own_ptp_clock import shown
from support.recordings import Row, cell_document, stream_of, write_cell

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

RUN = "8f3c5e0d12ab34cd"
NS_PER_S = 10**9
AHEAD_NS = 5 * NS_PER_S + 123
GAIN_PPB = 30_000
HOST_TAI_OFFSET_S = 37
"""What the host's kernel has been told, which this machine's has not."""
READINGS = 40
PATIENCE_S = 60.0
OWN = f"""
mount -t tmpfs tmpfs /sys && mount -t tmpfs tmpfs /dev && touch /dev/ptp0 && mkdir -p /sys/class/ptp/ptp0 &&
echo {KVM_CLOCK} >/sys/class/ptp/ptp0/clock_name && exec "$@"
"""
PERIOD_NS, LATENCY_NS = 10_000_000, 250_000
SCENARIO: dict[str, Any] = {
    "hosts": {"sensor": {"kind": "netns"}, "pc": {"kind": "local"}},
    "links": [{"ends": ["sensor.eth0", "pc.lat0"]}],
    "guests": {"ecu": {"host": "pc", "uplink": "lat0", "domain": "ecu", "ssh": {"destination": "ecu.lan"}}},
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "10ms", "size": "64B"}},
}


class Guest(LocalMachine):
    """A process of this machine that sees KVM's clock, instead of a guest of KVM."""

    def __init__(self, name: str, begun_real_ns: int) -> None:
        super().__init__(name)
        self._begun_real_ns = begun_real_ns

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        clock = (sys.executable, str(PROGRAMS / "own_ptp_clock.py"))
        elsewhere = map(str, (AHEAD_NS, GAIN_PPB, self._begun_real_ns))
        return ("unshare", "--mount", "sh", "-c", OWN, "sh", *clock, *elsewhere, *argv)

    @property
    def shared_kernel(self) -> str:
        return f"guest {self.name}"


@dataclass(frozen=True)
class Compared:
    """What became of the comparison: cell.json's `clocks`, and the recorded readings."""

    clocks: list[ClockEdge]
    readings: pl.DataFrame
    begun_real_ns: int
    guest_tai_offset_s: int

    def host_tai_ns(self, guest_tai_ns: int) -> int:
        """What the host's clock showed when the guest's did that."""
        real = guest_tai_ns - self.guest_tai_offset_s * NS_PER_S
        return shown(real, AHEAD_NS, GAIN_PPB, self.begun_real_ns) + HOST_TAI_OFFSET_S * NS_PER_S

    def guest_tai_ns(self, host_tai_ns: int) -> int:
        """The other way round, to the nanosecond."""
        guest = host_tai_ns
        while (missing := host_tai_ns - self.host_tai_ns(guest)) != 0:
            guest += missing
        return guest


@pytest.fixture
def compared(scenario: Callable[..., Scenario], tmp_path: Path) -> Compared:
    """The clocks of pc and ecu, compared until enough readings were recorded."""
    return asyncio.run(compare(scenario(**SCENARIO), tmp_path))


async def compare(scenario: Scenario, path: Path, heard: list[Event] | None = None) -> Compared:
    """heard: what is said live, which is waited for; None: nothing is to be."""
    begun = time.clock_gettime_ns(time.CLOCK_REALTIME)
    agent = str(find_agent())
    hosts: dict[str, Host] = {"sensor": LocalMachine("sensor"), "pc": LocalMachine("pc"), "ecu": Guest("ecu", begun)}
    facts = {name: json.loads((await host.run((agent, "facts"))).stdout) for name, host in hosts.items()}
    guest_tai_offset_s = facts["ecu"]["clock"]["tai_offset_s"]
    facts["pc"]["clock"]["tai_offset_s"] = HOST_TAI_OFFSET_S
    folder = CellFolder(path)
    recording = path / f"{folder.clock_prefix('pc', 'ecu').name}.exchanges.arrow"
    async with TestBed("kvm-clock", hosts) as bed:
        places = Places(agents=dict.fromkeys(hosts, agent))
        live = None if heard is None else heard.append
        watch = ClockWatch(scenario, Site("0a1b"), hosts, places, Recordings(bed, folder), live)
        await watch.start(bed, RUN, folder, facts)
        async with asyncio.timeout(PATIENCE_S):
            while read_recording(recording, "exchanges").table.height < READINGS:
                await asyncio.sleep(0.05)
            while heard is not None and not any(map(bound_of_guest, heard)):
                await asyncio.sleep(0.05)
        clocks, failure = await watch.stop(bed)
    assert failure is None
    found = read_recording(recording, "exchanges", run_id=RUN)
    assert found.complete
    return Compared(clocks, found.table, begun, guest_tai_offset_s)


def bound_of_guest(event: Event) -> bool:
    return isinstance(event, ClockBound) and "ecu" in (event.from_, event.to)


def test_how_well_the_guests_clock_is_known_is_heard_live(scenario: Callable[..., Scenario], tmp_path: Path) -> None:
    heard: list[Event] = []
    compared = asyncio.run(compare(scenario(**SCENARIO), tmp_path, heard))
    assert [(event.from_, event.to) for event in heard if isinstance(event, ClockBound)][:2] == [
        ("sensor", "pc"),
        ("pc", "ecu"),
    ]
    (leg,) = (leg for leg in compared.clocks if leg.windows)
    for event in filter(bound_of_guest, heard):
        assert isinstance(event, ClockBound)
        # Of the last second or two: narrower than that of the whole comparison, or the same.
        assert leg.lower_ns is not None and leg.upper_ns is not None
        assert leg.lower_ns <= event.upper_ns and event.lower_ns <= leg.upper_ns
        assert abs(event.lower_ns + event.upper_ns) // 2 > AHEAD_NS // 2


def test_the_guest_is_joined_to_its_host_by_kvms_clock_and_its_name_is_reported(compared: Compared) -> None:
    assert [(leg.from_, leg.to, leg.source) for leg in compared.clocks] == [
        ("sensor", "pc", "one kernel"),
        ("pc", "ecu", "ptp_kvm"),
    ]
    assert clock_source(compared.clocks, "sensor", "ecu") == "ptp_kvm"
    assert (compared.clocks[1].exchanges, compared.clocks[1].lost) == (compared.readings.height, 0)


def test_every_reading_and_every_window_holds_the_true_offset(compared: Compared) -> None:
    for row in compared.readings.iter_rows(named=True):
        assert row["t1_tai_ns"] == row["t4_tai_ns"]
        # The reading stood between the two of this machine's clock.
        assert compared.host_tai_ns(row["t3_tai_ns"]) <= row["t1_tai_ns"] <= compared.host_tai_ns(row["t2_tai_ns"])
    (leg,) = (leg for leg in compared.clocks if leg.windows)
    assert leg.lower_ns is not None and leg.upper_ns is not None
    for window in leg.windows:
        assert window.drift_lower_ppb is not None and window.drift_upper_ppb is not None
        at = window.reference_tai_ns
        true = compared.guest_tai_ns(at) - at
        assert window.lower_ns - 2 <= true <= window.upper_ns + 2
        assert window.drift_lower_ppb <= GAIN_PPB / (1 - GAIN_PPB * 1e-9) <= window.drift_upper_ppb
        assert leg.lower_ns <= true <= leg.upper_ns


def test_packets_that_the_guest_received_are_put_on_the_hosts_clock_within_the_bound(
    compared: Compared, tmp_path: Path
) -> None:
    """What the guest's agent would have recorded of packets that all took the same time, joined as a cell's are."""
    first, last = compared.readings["t1_tai_ns"].min(), compared.readings["t1_tai_ns"].max()
    assert isinstance(first, int) and isinstance(last, int)
    count = (last - first) // PERIOD_NS
    launches = [first + n * PERIOD_NS for n in range(count)]
    stream = stream_of(1, period_ns=PERIOD_NS, count=count)
    cell = cell_document(
        [stream], clocks=[leg.document() for leg in compared.clocks], start_tai_ns=first, duration_ns=count * PERIOD_NS
    )
    utc = compared.guest_tai_offset_s * NS_PER_S
    arrivals = [compared.guest_tai_ns(launch + LATENCY_NS) for launch in launches]
    readings: list[Row] = [(at, at - utc, at, at, 50) for at in (arrivals[0], arrivals[-1])]
    received: list[Row] = [
        (1, n, launch, None, at - utc, at) for n, (launch, at) in enumerate(zip(launches, arrivals, strict=True))
    ]
    packets = join_cell(write_cell(tmp_path / "joined", cell, received=received, clocks=readings)).packets
    assert count > READINGS and packets["clock_bound_ns"].null_count() == 0
    wrong = (packets["rx_soft_tai_ns"] - packets["launch_tai_ns"] - LATENCY_NS).abs()
    assert (wrong <= packets["clock_bound_ns"] + 2).all()
    assert (packets["clock_bound_ns"] < AHEAD_NS // 1000).all()
