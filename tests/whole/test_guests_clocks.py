"""A guest's clock that is set wrong and runs wrong, and figures that are right within their ± still.

The witness is a packet socket on the guest's tap. Its timestamps are the host's own, taken just before a frame is
handed to the guest, and just after one has come out of it. So of every packet into the guest witness ≤ rx_soft + ±, and
of every packet out of it tx_soft ≤ witness + ±, on whichever of the two clocks they are looked at.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest

from latlab.recordings.cell import ClockEdge
from latlab.recordings.clock_offset import Offset, offset_between
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.site import STATE
from support.command import Place
from support.guests.runs import TWO_HOSTS, GuestRun, image_cache, write
from support.machine import private_network
from support.witness import Witness

pytestmark = [pytest.mark.real, pytest.mark.alone]

PPM = 65536
"""A millionth, as adjtimex counts frequencies (adjtimex(2))."""
RATES_PPM = (450, 150)
"""By how much the guest's clock runs too fast, one after the other while packets are sent."""
EACH_S = 3.0
WRONG_BY_S = 5
PERIOD_MS = 4
DATE = f"""#!/bin/sh
echo $(($(/bin/date +%s) + {WRONG_BY_S}))
"""
"""In place of `date`, by which the lab sets a guest's clock to the second."""
SCENARIO: dict[str, Any] = {
    "name": "wrong-clock",
    **TWO_HOSTS,
    "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": "tap", "vhost": "off", "acceleration": "tcg"}},
    "streams": {
        "down": {"talker": "sensor", "listener": "vm1", "period": f"{PERIOD_MS}ms", "size": "64B"},
        "up": {"talker": "vm1", "listener": "sensor", "period": f"{PERIOD_MS}ms", "offset": "2ms", "size": "64B"},
    },
    "duration": f"{len(RATES_PPM) * EACH_S:g}s",
}
PACKETS = int(len(RATES_PPM) * EACH_S * 1000 / PERIOD_MS)


@dataclass(frozen=True)
class Watched:
    """A run with a guest whose clock is wrong: each stream's packets that the witness saw, and when it did.

    down is on the host's clock, up on the guest's.
    """

    run: GuestRun
    down: pl.DataFrame
    up: pl.DataFrame

    def guest_ahead_ns(self, host_tai_ns: pl.Series) -> Offset:
        """The guest's clock − the host's, at instants of the host's."""
        (cell,) = self.run.cells.values()
        found = offset_between(
            [ClockEdge.model_validate(one) for one in cell["clocks"]], "sensor", "vm1", host_tai_ns.to_numpy()
        )
        assert found is not None and found.known.all()
        return replace(found, estimate_ns=-found.estimate_ns)


@pytest.fixture(scope="module")
def watched(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The run: the guest's clock begins seconds ahead, and its rate changes while packets are in flight."""
    cache = image_cache(pytestconfig)
    with private_network(), Place(tmp_path_factory.mktemp("clocks")) as place:
        wrong = place.folder / "wrong"
        wrong.mkdir()
        (wrong / "date").write_text(DATE)
        (wrong / "date").chmod(0o755)
        path = f"{wrong}:{os.environ['PATH']}"
        lab = place.start("run", write(place, SCENARIO), "--verbose", LATLAB_CACHE=str(cache), PATH=path)
        lab.until(": measuring")
        (namespace,) = Path("/run/netns").glob("latlab-*-ecu")
        tag = namespace.name.split("-")[1]
        with Witness(namespace, f"ll{tag}t0") as witness:
            for ppm in RATES_PPM:
                _in_guest(tag, "busybox", "adjtimex", "-q", "-f", str(ppm * PPM))
                time.sleep(EACH_S)
            run = GuestRun(lab.ended(), place.only_run())
        seen = {
            out: rows.drop("outgoing") for (out,), rows in witness.seen().partition_by("outgoing", as_dict=True).items()
        }
        yield Watched(
            run,
            run.packets("all", "down").join(seen[True], on=["stream", "sequence"], how="inner"),
            run.packets("all", "up").join(seen[False], on=["stream", "sequence"], how="inner"),
        )


def _in_guest(tag: str, *words: str) -> None:
    """Nothing; the command has ended well in the guest."""
    argv = [str(find_agent()), "in", f"{STATE}/{tag}/vm1", *words]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done


def test_the_guest_s_clock_was_seconds_ahead_and_ran_at_two_rates(watched: Watched) -> None:
    ahead = watched.guest_ahead_ns(watched.up["witness_tai_ns"])
    # The lab sets it to the whole second that has begun, a moment later.
    assert (WRONG_BY_S - 1.5) * 1e9 < ahead.estimate_ns.min() <= ahead.estimate_ns.max() < WRONG_BY_S * 1e9
    gained = int(ahead.estimate_ns[-1] - ahead.estimate_ns[0])
    assert gained == pytest.approx(sum(RATES_PPM) * EACH_S * 1000, rel=0.15)


def test_the_witness_saw_every_packet_both_ways(watched: Watched) -> None:
    assert watched.run.ended.status == 0, watched.run
    for seen in (watched.down, watched.up):
        assert seen["sequence"].n_unique() == seen.height == PACKETS
        assert seen["clock_bound_ns"].null_count() == 0


def test_every_packet_into_the_guest_arrived_after_the_host_had_handed_it_over_within_the_bound(
    watched: Watched,
) -> None:
    later = watched.down["rx_soft_tai_ns"] - watched.down["witness_tai_ns"]
    assert (later >= -watched.down["clock_bound_ns"]).all(ignore_nulls=False), later.min()


def test_every_packet_out_of_the_guest_left_it_before_the_host_saw_it_within_the_bound(watched: Watched) -> None:
    ahead = watched.guest_ahead_ns(watched.up["witness_tai_ns"])
    later = watched.up["witness_tai_ns"] + ahead.estimate_ns - watched.up["tx_soft_tai_ns"]
    assert (later >= -ahead.half_ns).all(), later.min()


def test_the_bound_is_far_below_what_the_clock_was_wrong_by(watched: Watched) -> None:
    for seen in (watched.down, watched.up):
        assert 0 < median(seen["clock_bound_ns"]) < 50_000
        assert max(seen["clock_bound_ns"]) < 1_000_000


def test_the_latencies_are_those_of_the_same_packets_next_to_the_witness(watched: Watched) -> None:
    """From the talker to the tap is the host's own, and can be taken from its clock alone."""
    down = watched.down
    assert (down["witness_tai_ns"] >= down["tx_soft_tai_ns"]).all()
    result = watched.run.result["all"]["streams"]["down"]["metrics"]["latency"]
    by_witness = (down["witness_tai_ns"] - down["launch_tai_ns"]).median()
    assert by_witness < result["p50"] + result["uncertainty_ns"]


def test_as_read_every_packet_would_be_wrong_by_seconds(watched: Watched) -> None:
    down, up = watched.down, watched.up
    as_read = watched.guest_ahead_ns(down["witness_tai_ns"]).estimate_ns
    assert min(down["rx_soft_tai_ns"] + as_read - down["witness_tai_ns"]) > 3 * 10**9
    assert max(up["witness_tai_ns"] - up["tx_soft_tai_ns"]) < -3 * 10**9


def test_with_one_offset_for_all_packets_left_the_guest_after_the_host_had_seen_them(watched: Watched) -> None:
    """The drift matters: the offset of the run's middle puts packets out of their order on the way."""
    up, down = watched.up, watched.down
    ahead = watched.guest_ahead_ns(up["witness_tai_ns"]).estimate_ns
    middle = int(median(ahead))
    too_early = up["witness_tai_ns"] + middle - up["tx_soft_tai_ns"]
    of_down = watched.guest_ahead_ns(down["witness_tai_ns"]).estimate_ns
    arrived = down["rx_soft_tai_ns"] + of_down - middle
    assert min(too_early) < -200_000
    assert min(arrived - down["witness_tai_ns"]) < -200_000
