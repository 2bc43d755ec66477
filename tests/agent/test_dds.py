"""Questions and answers over Cyclone DDS: all are recorded on both sides, for every reader and in every case."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from latlab.model.limits import LIMITS
from latlab.testbed.probes.dds import Cyclone, DdsPlan, DdsSide, ping_spec, pong_spec
from support.agent.bed import Bed, only_error
from support.agent.process import tai_ns
from support.agent.rounds import assert_no_faster_than_recorded
from support.agent.streams import ECU, MS, ORDINARY, SENSOR, new_run_id, recording
from support.machine import run

pytestmark = pytest.mark.real

UP, DOWN = 1, 2
IN_ONE_PACKET = 1408
"""The largest sample whose packet is no larger than the MTU."""
MODES = ["listener", "block", "spin"]
RATE = {"period_ns": MS, "duration_ns": 200 * MS}
LOOP: dict[str, Any] = {"period_ns": None, "duration_ns": 150 * MS}


def plan(folder: Path, **changes: Any) -> DdsPlan:
    """A probe from `sensor` to `ecu`; changes replace parts of it, `mode` on both sides."""
    mode = changes.pop("mode", "listener")
    asker = DdsSide(Cyclone("ecu", (ECU,)), str(folder / "ping"), mode, realtime=ORDINARY)
    answerer = DdsSide(Cyclone("sensor", (SENSOR,)), str(folder / "pong"), mode, realtime=ORDINARY)
    made = DdsPlan("dds", new_run_id(), asker, answerer, 0, UP, DOWN, 200, **LOOP)
    return replace(made, **changes)


class Probe:
    """A pong at `ecu` and a ping at `sensor`, both ready. more: of each side, what its spec has besides."""

    def __init__(self, bed: Bed, folder: Path, made: DdsPlan, **more: dict[str, Any]) -> None:
        self._folder = folder
        self.pong = bed.agent("ecu", "dds", {**pong_spec(made), **more.get("pong", {})})
        self.pong.until("ready")
        self.ping = bed.agent("sensor", "dds", {**ping_spec(made), **more.get("ping", {})})
        self.found = self.ping.until("ready")
        self.start_tai_ns = 0

    def begin(self) -> None:
        """Nothing; the first question is due soon."""
        self.start_tai_ns = self.ping.begin()

    def at(self, after_ns: int, do: Callable[[], None]) -> None:
        """Nothing; it is so long after the start, and it was done."""
        while tai_ns() < self.start_tai_ns + after_ns:
            time.sleep(0.002)
        do()

    def end(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What ping and pong said in the end."""
        asked = self.ping.until("done")
        assert self.ping.ended() == 0
        self.pong.tell(stop=True)
        answered = self.pong.until("done")
        assert self.pong.ended() == 0
        return asked, answered

    def table(self, name: str) -> pl.DataFrame:
        """A recording, as `ping.sent`, whole."""
        found = recording(self._folder, name)
        assert found.complete
        return found.table


def drop_each(nth: int, host: str) -> None:
    """Nothing; from now on the host's kernel drops each so-manieth datagram that comes in."""
    enter = ("ip", "netns", "exec", host, "nft", "add")
    run(*enter, "table", "inet", "loss")
    run(*enter, "chain", "inet", "loss", "input", "{ type filter hook input priority 0 ; }")
    run(
        *enter, "rule", "inet", "loss", "input", "meta", "l4proto", "udp", "numgen", "inc", "mod", str(nth), "0", "drop"
    )


def measured(bed: Bed, folder: Path, made: DdsPlan) -> tuple[Probe, dict[str, Any], dict[str, Any]]:
    """A probe that ran to its end."""
    probe = Probe(bed, folder, made)
    probe.begin()
    return probe, *probe.end()


def assert_whole(probe: Probe, asked: dict[str, Any], answered: dict[str, Any], *, stamps: int = 0) -> int:
    """How many questions there were: each has its answer, and both sides have written down both.

    stamps: the kernel's of each sample that leaves.
    """
    n: int = asked["sent"]
    assert (asked["answered"], asked["unanswered"], asked["received"], asked["send_errors"]) == (n, 0, n, 0)
    assert (answered["answered"], answered["received"], answered["send_errors"]) == (n, n, 0)
    refused = ("repeated", "out_of_range", "foreign", "truncated", "other_run", "unknown_stream", "ring_full")
    for said in (asked, answered):
        assert {name: said[name] for name in refused} == dict.fromkeys(refused, 0)
    sent, received = probe.table("ping.sent"), probe.table("pong.received").sort("sequence")
    answers, back = probe.table("pong.sent").sort("sequence"), probe.table("ping.received").sort("sequence")
    for table, stream in ((sent, UP), (received, UP), (answers, DOWN), (back, DOWN)):
        assert table["sequence"].to_list() == list(range(n))
        assert table["stream"].unique().to_list() == [stream]
    assert (received["launch_tai_ns"] == sent["launch_tai_ns"]).all()
    assert (answers["launch_tai_ns"] == received["rx_user_tai_ns"]).all()
    assert (back["launch_tai_ns"] == answers["launch_tai_ns"]).all()
    way = [sent["launch_tai_ns"], sent["submit_tai_ns"], received["rx_user_tai_ns"], answers["submit_tai_ns"]]
    for before, after in zip(way, [*way[1:], back["rx_user_tai_ns"]], strict=True):
        assert (after - before).min() >= 0  # type: ignore[operator]
    assert probe.table("ping.stamps").height == probe.table("pong.stamps").height == stamps * n
    assert probe.table("ping.clocks").height >= 2
    return n


@pytest.mark.parametrize("mode", MODES)
def test_in_a_closed_loop_each_answer_starts_the_next_question(bed: Bed, tmp_path: Path, mode: str) -> None:
    probe, asked, answered = measured(bed, tmp_path, plan(tmp_path, mode=mode))
    n = assert_whole(probe, asked, answered)
    assert n > 1
    launches = probe.table("ping.sent")["launch_tai_ns"].to_list()
    back = probe.table("ping.received")["rx_user_tai_ns"].to_list()
    assert launches == [probe.start_tai_ns, *back[:-1]]
    assert launches[-1] < probe.start_tai_ns + LOOP["duration_ns"] <= back[-1]


@pytest.mark.parametrize(("how", "mode"), [(LOOP, "listener"), (LOOP, "spin"), (RATE, "block")], ids=str)
@pytest.mark.parametrize("size", [40, 41, IN_ONE_PACKET, IN_ONE_PACKET + 1, 8_000, LIMITS.dds_datagram_bytes])
def test_programs_stamp_each_sample_where_it_enters_the_qdisc_layer_leaves_and_comes_in(
    bed: Bed, tmp_path: Path, how: dict[str, Any], mode: str, size: int
) -> None:
    made = plan(tmp_path, mode=mode, size=size, stamps_by="ebpf", **how)
    probe, asked, answered = measured(bed, tmp_path, made)
    n = assert_whole(probe, asked, answered, stamps=2)
    for said in (asked, answered):
        assert (said["tx_sched"], said["tx_soft"], said["stages"]) == (n, n, {"lost": 0})
    assert probe.found["stamps_by"]["missing"] == []
    clocks = probe.table("ping.clocks")
    # Whole seconds: the instants of a row are read one after the other.
    offset = round((clocks["tai_ns"][0] - clocks["real_ns"][0]) / 1e9) * 10**9
    for here, there in (("ping", "pong"), ("pong", "ping")):
        stamps = probe.table(f"{here}.stamps").pivot("kind", index="sequence", values="stamp_ns").sort("sequence")
        sent, received = probe.table(f"{here}.sent").sort("sequence"), probe.table(f"{there}.received").sort("sequence")
        way = [sent["submit_tai_ns"], stamps["0"] + offset, stamps["1"] + offset, received["rx_soft_real_ns"] + offset]
        for before, after in pairwise([*way, received["rx_user_tai_ns"]]):
            assert (before <= after).all()


def test_a_sample_that_is_sent_again_has_the_timestamps_of_its_first_packet(bed: Bed, tmp_path: Path) -> None:
    probe = Probe(bed, tmp_path, plan(tmp_path, stamps_by="ebpf", timeout_ns=5_000 * MS, **RATE))
    drop_each(7, "ecu")
    probe.begin()
    asked, answered = probe.end()
    assert asked["resent_bytes"] > 0
    n = assert_whole(probe, asked, answered, stamps=2)
    came = probe.table("pong.received")
    assert came["rx_soft_real_ns"].null_count() == 0
    # What was dropped behind the program waits until it is sent again.
    clocks = probe.table("ping.clocks")
    offset = round((clocks["tai_ns"][0] - clocks["real_ns"][0]) / 1e9) * 10**9
    waited = (came["rx_user_tai_ns"] - came["rx_soft_real_ns"] - offset).sort()
    assert 0 <= waited[0] < MS < waited[n - 1]


def test_a_sample_that_ip_cuts_has_come_in_with_its_last_fragment(bed: Bed, tmp_path: Path) -> None:
    # Of each third sample the last fragment stays at home, and Cyclone sends it again, in fragments of its own.
    enter = ("ip", "netns", "exec", "sensor", "nft", "add")
    run(*enter, "table", "netdev", "loss")
    run(*enter, "chain", "netdev", "loss", "out", "{ type filter hook egress device ecu priority 0 ; }")
    last = ("ip", "frag-off", "&", "0x2000", "==", "0", "ip", "frag-off", "&", "0x1fff", "!=", "0")
    run(*enter, "rule", "netdev", "loss", "out", *last, "numgen", "inc", "mod", "3", "0", "drop")
    made = plan(tmp_path, size=8_000, stamps_by="ebpf", timeout_ns=5_000 * MS, **RATE)
    probe, asked, answered = measured(bed, tmp_path, made)
    n = assert_whole(probe, asked, answered, stamps=2)
    assert asked["resent_bytes"] > 0
    came = probe.table("pong.received").sort("sequence")
    assert came["sequence"].filter(came["rx_soft_real_ns"].is_null()).len() in (n // 3, n // 3 + 1)
    assert probe.table("ping.received")["rx_soft_real_ns"].null_count() == 0


def test_samples_that_go_in_several_datagrams_have_no_timestamps_of_the_kernel_and_a_reason(
    bed: Bed, tmp_path: Path
) -> None:
    probe, asked, answered = measured(
        bed, tmp_path, plan(tmp_path, size=LIMITS.dds_datagram_bytes + 1, stamps_by="auto", **RATE)
    )
    assert assert_whole(probe, asked, answered) > 1
    (why,) = probe.found["stamps_by"]["missing"]
    assert why.endswith("a sample of 64505 bytes is sent in several datagrams; of 64504 in one")
    with pytest.raises(AssertionError, match="is sent in several datagrams"):
        Probe(bed, tmp_path, plan(tmp_path, size=LIMITS.dds_datagram_bytes + 1, stamps_by="ebpf"))


def test_cyclones_sockets_keep_no_timestamps(bed: Bed, tmp_path: Path) -> None:
    probe = Probe(bed, tmp_path, plan(tmp_path, stamps_by="socket"))
    (why,) = probe.found["stamps_by"]["missing"]
    assert why.endswith("samples are sent by sockets of Cyclone DDS, which keep no timestamps")
    with pytest.raises(AssertionError, match="which keep no timestamps"):
        Probe(bed, tmp_path, plan(tmp_path, stamps_by="both"))


def test_the_other_side_is_found_although_the_first_announcements_are_lost(bed: Bed, tmp_path: Path) -> None:
    made = plan(tmp_path)
    pong = bed.agent("ecu", "dds", pong_spec(made))
    pong.until("ready")
    drop_each(1, "ecu")
    ping = bed.agent("sensor", "dds", ping_spec(made))
    time.sleep(2)
    run("ip", "netns", "exec", "ecu", "nft", "delete", "table", "inet", "loss")
    assert ping.until("ready")["discovered_ns"] > 1_000 * MS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("slow", ["ping", "pong"])
def test_a_closed_loop_is_no_faster_than_either_side_records(bed: Bed, tmp_path: Path, slow: str, mode: str) -> None:
    # The last quarter of the ring holds a question each 10 ms of all the loop.
    tiny = {slow: {"ring_records": 32}}
    probe = Probe(bed, tmp_path, plan(tmp_path, mode=mode, duration_ns=80 * MS), **tiny)
    probe.begin()
    assert assert_whole(probe, *probe.end()) > 1
    launches, back = probe.table("ping.sent")["launch_tai_ns"], probe.table("ping.received")["rx_user_tai_ns"]
    assert (launches[1:] >= back[:-1]).all()
    assert_no_faster_than_recorded(launches, 32)


@pytest.mark.parametrize("mode", MODES)
def test_at_a_rate_questions_are_due_by_the_clock_alone(bed: Bed, tmp_path: Path, mode: str) -> None:
    probe, asked, answered = measured(bed, tmp_path, plan(tmp_path, mode=mode, offset_ns=3 * MS, **RATE))
    assert assert_whole(probe, asked, answered) == 197, "those due in 200 ms"
    sent = probe.table("ping.sent")
    first = probe.start_tai_ns + 3 * MS
    assert sent["launch_tai_ns"].to_list() == [first + n * MS for n in range(197)]
    assert (sent["wake_tai_ns"] >= sent["wake_due_tai_ns"]).all()


def test_samples_far_larger_than_a_packet_come_whole(bed: Bed, tmp_path: Path) -> None:
    for size in (40, 1500, 65_507, 1_000_000):
        folder = tmp_path / str(size)
        folder.mkdir()
        probe, asked, answered = measured(bed, folder, plan(folder, size=size, period_ns=20 * MS, duration_ns=100 * MS))
        assert assert_whole(probe, asked, answered) == 5


def test_ready_tells_how_cyclone_s_own_threads_run(bed: Bed, tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    made = plan(tmp_path)
    threads = {"recvUC": 31, "tev": 30}
    asker = replace(made.asker, cyclone=Cyclone("ecu", (ECU,), threads), cpus=(cpu,))
    probe = Probe(bed, tmp_path, replace(made, asker=asker))
    found = {thread["name"]: thread for thread in probe.found["threads"]}
    assert {name: found[name]["priority"] for name in threads} == threads
    assert {thread["policy"] for name, thread in found.items() if name in threads} == {"SCHED_FIFO"}
    assert {thread["policy"] for name, thread in found.items() if name not in threads} == {"SCHED_OTHER"}
    assert {tuple(thread["cpus"]) for thread in found.values()} == {(cpu,)}
    assert probe.found["discovered_ns"] > 0
    assert probe.found["cyclone"]


def test_a_pong_held_up_makes_no_question_late_and_takes_none_away(bed: Bed, tmp_path: Path) -> None:
    probe = Probe(bed, tmp_path, plan(tmp_path, **RATE | {"duration_ns": 500 * MS}))
    probe.begin()
    probe.at(100 * MS, lambda: probe.pong.signal(signal.SIGSTOP))
    probe.at(400 * MS, lambda: probe.pong.signal(signal.SIGCONT))
    asked, answered = probe.end()
    assert assert_whole(probe, asked, answered) == 500
    took = round_trips(probe)
    # Who asked as the pong was stopped waits for all of it, who asked last before it goes on for nothing of it.
    assert 250 * MS < took.max() < 1_000 * MS
    assert np.count_nonzero(took > 50 * MS) > 50


def test_a_closed_loop_goes_on_after_its_timeout_and_late_answers_start_nothing(bed: Bed, tmp_path: Path) -> None:
    probe = Probe(bed, tmp_path, plan(tmp_path, timeout_ns=50 * MS, duration_ns=500 * MS))
    probe.begin()
    probe.at(100 * MS, lambda: probe.pong.signal(signal.SIGSTOP))
    probe.at(350 * MS, lambda: probe.pong.signal(signal.SIGCONT))
    asked, _ = probe.end()
    sent = probe.table("ping.sent")
    launches = sent["launch_tai_ns"].to_numpy()
    rx_user = dict(probe.table("ping.received").select("sequence", "rx_user_tai_ns").iter_rows())
    given_up = 0
    for sequence, (launch, following) in enumerate(pairwise(launches)):
        in_time = rx_user.get(sequence, launch + 50 * MS)
        assert following == min(in_time, launch + 50 * MS)
        given_up += following == launch + 50 * MS
    assert given_up >= 3
    assert asked["sent"] == sent.height
    assert asked["answered"] == asked["received"] == len(rx_user)
    assert asked["unanswered"] == asked["sent"] - asked["answered"]


def test_nobody_there_is_an_error_that_says_what_to_look_at(bed: Bed, tmp_path: Path) -> None:
    ping = bed.agent("sensor", "dds", {**ping_spec(plan(tmp_path)), "discovery_ns": 300 * MS})
    assert ping.ended() == 1
    error, done = ping.events
    assert (error["event"], done["event"]) == ("error", "done")
    assert "no peer was found within 0.3 s" in error["what"]
    assert error["where"] == "dds on ecu, domain 0"
    for word in ("interface", "multicast", "domain", "firewall", "7400 to 7649"):
        assert word in error["remedy"]
    assert done["sent"] == done["recorded"] - recording(tmp_path, "ping.clocks").table.height == 0
    assert recording(tmp_path, "ping.sent").complete


def test_probes_of_other_runs_and_domains_are_not_found(bed: Bed, tmp_path: Path) -> None:
    made = plan(tmp_path)
    pong = bed.agent("ecu", "dds", pong_spec(made))
    pong.until("ready")
    for other in (replace(made, run_id=new_run_id()), replace(made, up=7), replace(made, domain=3)):
        ping = bed.agent("sensor", "dds", {**ping_spec(other), "discovery_ns": 300 * MS})
        assert ping.ended() == 1
        assert "no peer was found" in ping.events[0]["what"]


def test_two_probes_at_once_keep_apart(bed: Bed, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    first = plan(folders[0], **RATE)
    second = replace(plan(folders[1], **RATE), run_id=first.run_id, up=3, down=4)
    probes = [Probe(bed, folder, made) for folder, made in zip(folders, (first, second), strict=True)]
    for probe in probes:
        probe.begin()
    for probe in probes:
        asked, answered = probe.end()
        assert (asked["sent"], asked["answered"], answered["answered"]) == (200, 200, 200)
        assert asked["other_run"] == asked["unknown_stream"] == answered["unknown_stream"] == 0


def test_a_pong_that_leaves_is_an_error_with_recordings_whole(bed: Bed, tmp_path: Path) -> None:
    probe = Probe(bed, tmp_path, plan(tmp_path, **RATE | {"duration_ns": 5_000 * MS}))
    probe.begin()
    probe.at(100 * MS, lambda: probe.pong.tell(stop=True))
    assert probe.ping.ended() == 1
    error, done = (event for event in probe.ping.events if event["event"] in ("error", "done"))
    assert "the other side is gone" in error["what"]
    assert 0 < done["answered"] < 5000
    assert probe.table("ping.received").height == done["answered"]


def test_an_interface_that_does_not_exist_is_cyclone_s_error_with_its_own_words(bed: Bed, tmp_path: Path) -> None:
    made = plan(tmp_path)
    made = replace(made, asker=replace(made.asker, cyclone=Cyclone("eth9", (ECU,))))
    error = only_error(bed.agent("sensor", "dds", ping_spec(made)))
    assert "eth9" in error["what"]
    assert "ip addr" in error["remedy"]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"size": 39}, "size"),
        ({"timeout_ns": 0}, "timeout_ns"),
        ({"period_ns": 0, "count": 3}, "period_ns"),
        ({"down": UP}, "down"),
        ({"realtime": {"fifo": 100}}, "realtime.fifo"),
        ({"colour": "red"}, "spec of dds"),
        ({"mode": "sleepy"}, "spec of dds"),
        ({"recording": "/nowhere/at/all"}, "/nowhere/at/all"),
    ],
)
def test_a_spec_that_cannot_be_done_is_one_error(bed: Bed, tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    error = only_error(bed.agent("sensor", "dds", {**ping_spec(plan(tmp_path)), **changes}))
    assert where in error["where"]


def test_a_configuration_that_is_none_is_an_error(bed: Bed, tmp_path: Path) -> None:
    spec = ping_spec(plan(tmp_path))
    spec["transport"]["config"] = "<General><Interfarces/></General>"
    assert "Interfarces" in only_error(bed.agent("sensor", "dds", spec))["what"]


def test_killed_it_leaves_what_it_had_written(bed: Bed, tmp_path: Path) -> None:
    probe = Probe(bed, tmp_path, plan(tmp_path, **RATE | {"duration_ns": 60_000 * MS}))
    probe.begin()
    probe.ping.until("progress")
    probe.ping.until("progress")
    probe.ping.kill()
    for name in ("ping.sent", "ping.received"):
        rows = recording(tmp_path, name).table
        assert rows["sequence"].to_list() == list(range(rows.height))
        assert rows.height > 100


def round_trips(probe: Probe) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Of each question that was answered, from its launch until the answer, ns."""
    both = probe.table("ping.sent").join(probe.table("ping.received"), on="sequence", suffix="_back")
    return (both["rx_user_tai_ns"] - both["launch_tai_ns"]).to_numpy()
