"""ddsperf as the lab runs it: its commands, what it prints, each way in which it fails, and that it really measures."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.imports.ddsperf import round_trips
from latlab.model.errors import LabError
from latlab.testbed.loads.base import Cores
from latlab.testbed.probes.base import DdsOptions, ToolPlan
from latlab.testbed.probes.dds import Cyclone, configuration
from latlab.testbed.probes.ddsperf import DDSPERF, client, failed, measured, server, version_of
from support.machine import private_network, run, until_it_is
from support.testbed.probes import DDS

ASKER, ANSWERER = Cyclone("veth0", ("10.0.0.2",)), Cyclone("veth1", ("10.0.0.1",))
CAPTURED = Path(__file__).parents[1] / "imports/captured/ddsperf-ping.txt"


def said() -> str:
    return CAPTURED.read_text(encoding="utf-8")


def error(stdout: str, status: int, plan: ToolPlan = DDS, stderr: str = "") -> LabError:
    """What is reported of a ping that printed this."""
    if status:
        told = failed(plan, status, stdout, stderr)
    else:
        with pytest.raises(LabError) as caught:
            measured(plan, stdout, stderr)
        told = caught.value
    assert told.remedy
    assert told.where == "a: probes.dds"
    return told


def test_both_sides_are_reported_their_interface_and_each_other_s_address() -> None:
    assert configuration(ASKER) == (
        '<General><Interfaces><NetworkInterface name="veth0"/></Interfaces><AllowMulticast>false</AllowMulticast>'
        "<MaxMessageSize>65500B</MaxMessageSize></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
        '<MaxAutoParticipantIndex>9</MaxAutoParticipantIndex><Peers><Peer address="10.0.0.2"/></Peers>'
        "<SPDPInterval>4s</SPDPInterval></Discovery>"
        "<Internal><MultipleReceiveThreads>true</MultipleReceiveThreads></Internal>"
    )
    threads = configuration(Cyclone("a&b", (), {"recvUC": 31}))
    assert 'name="a&amp;b"' in threads
    scheduling = "<Scheduling><Class>realtime</Class><Priority>31</Priority></Scheduling>"
    assert threads.endswith(f'<Threads><Thread name="recvUC">{scheduling}</Thread></Threads>')


def test_pong_answers_until_told_to_end_and_ping_ends_by_itself_a_second_later_than_asked() -> None:
    plan = replace(DDS, asker_cores=Cores(5, (1,)))
    pong, ping = server(plan), client(plan)
    assert (pong.host, pong.ending, ping.host, ping.ending) == ("b", "terminate", "a", "itself")
    assert pong.udp_port == 7400 + 5 * 250 + 10
    uri = f"CYCLONEDDS_URI={configuration(ANSWERER)}"
    assert pong.argv == ("env", uri, "ddsperf", "-i", "5", "-T", "KS", "pong", "listener")
    assert ping.argv[:6] == ("chrt", "-f", "5", "taskset", "-c", "1")
    assert " ".join(ping.argv[8:]) == ("ddsperf -i 5 -Q minmatch:1 -Q initwait:10 -D 5 -T KS ping size 200 listener")


def test_a_rate_a_waitset_and_best_effort_are_reported() -> None:
    plan = replace(DDS, period_ns=1_000_000, dds=DdsOptions(5, reliable=False, take="waitset"))
    pong, ping = server(plan), client(plan)
    assert ping.argv[-5:] == ("ping", "1000Hz", "size", "200", "waitset")
    assert pong.argv[-2:] == ("pong", "waitset")
    assert pong.argv[5] == ping.argv[5] == "-u"


def test_seconds_stay_seconds_and_the_first_is_dropped() -> None:
    told = measured(DDS, said())
    assert [one.start_ns for one in told] == [1_000_000_000 * n for n in range(1, 5)]
    assert [one.p99 for one in told] == [239_611, 693_015, 487_827, 162_932]
    (figures,) = round_trips(told, "dds", "a", "b", "0.10.2").figures
    assert (figures.metric, figures.kept, figures.n) == ("round_trip", "intervals", 400)
    assert (figures.min, figures.max) == (2 * 55_873, 2 * 693_015), "ddsperf prints half a round trip"
    assert figures.mean == pytest.approx((114_053 + 126_141 + 125_728 + 116_583) / 2)
    assert [one.p99 for one in figures.intervals] == [2 * one.p99 for one in told]
    assert not figures.percentiles, "there are none of all seconds together"


def test_its_version_is_in_cyclone_s_trace() -> None:
    assert version_of("1.2 [230] ddsperf: spdp_write(1:2:3:1c1) - internals: vm/0.10.2/Linux/Linux\n") == "0.10.2"
    assert version_of("7 [230] x: ddsi_spdp_write(1:2) - internals: a.b/11.0.1/Linux/Linux\n") == "11.0.1"
    with pytest.raises(ValueError, match=r"it is 0\.7, and 0\.8 to 11 are supported"):
        version_of("spdp_write(1) - internals: vm/0.7.0/Linux/Linux")
    with pytest.raises(ValueError, match="has no version; it ends with 'lo: does not match'"):
        version_of("one\nlo: does not match\n")


def test_each_exit_status_has_its_own_meaning() -> None:
    nobody = error("[9] participant vm:9: new (self)\n[9] error: too few matching participants (0)\n", 1)
    assert "found no peer" in nobody.what and "too few matching participants" in nobody.what
    for word in ("veth0", "veth1", "firewall", "8650", "domain 5"):
        assert word in nobody.remedy
    assert "DDS error" in error("dds_create_participant(domain 5) failed: -1\n", 2).what
    old = error("-Q initwait:10: invalid success criterium\n", 3)
    assert "rejects its arguments" in old.what and "initwait:10" in old.what
    assert "Cyclone DDS 0.8 to 11" in old.remedy
    missing = error("", 127, stderr="env: 'ddsperf': No such file or directory\n")
    assert "does not exist" in missing.what and "cyclonedds-tools" in missing.remedy
    assert "was ended (exit status 137)" in error("", 137).what
    assert "was ended (exit status -9)" in error("", -9).what


def test_output_that_changed_is_an_error_that_shows_it() -> None:
    changed = error(said().replace(" mean ", " average "), 0)
    assert "no line of figures in a known format" in changed.what
    assert "discarded 0" in changed.what, "its last words"
    silent = error("\n".join(said().splitlines()[:5]), 0)
    assert "received no answer after the first second" in silent.what


def test_another_size_or_a_second_peer_is_not_what_was_asked_for() -> None:
    assert "samples of 200 bytes, not 300" in error(said(), 0, replace(DDS, size=300)).what
    assert "received answers from 2 programs" in error(said() + said().replace("vm:3779 size", "other:12 size"), 0).what


@pytest.fixture
def two_hosts() -> Iterator[None]:
    """Namespaces a and b, joined by a cable."""
    if not shutil.which("ddsperf"):
        pytest.skip("ddsperf is not installed (Debian package: cyclonedds-tools)")
    with private_network():
        for name in ("a", "b"):
            run("ip", "netns", "add", name)
        run("ip", "-n", "a", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", "b")
        for name, device, address in (("a", "veth0", "10.0.0.1/24"), ("b", "veth1", "10.0.0.2/24")):
            # Cyclone ends its receiving threads by a packet to itself: without lo they never end.
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "addr", "add", address, "dev", device)
            run("ip", "-n", name, "link", "set", device, "up")
        until_it_is("veth0", namespace="a")
        until_it_is("veth1", namespace="b")
        yield


@pytest.mark.real
@pytest.mark.usefixtures("two_hosts")
class TestOnRealNamespaces:
    """The real tool."""

    def test_what_it_prints_is_what_is_read(self) -> None:
        plan = replace(DDS, seconds=1, period_ns=5_000_000)
        pong, ping = (("ip", "netns", "exec", one.host, *one.argv) for one in (server(plan), client(plan)))
        with subprocess.Popen(pong, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as answerer:
            try:
                ended = subprocess.run(ping, capture_output=True, text=True, timeout=60, check=False)
                answerer.send_signal(signal.SIGTERM)
                answerer.communicate(timeout=30)
            finally:
                answerer.kill()
        assert ended.returncode == 0
        (second,) = measured(plan, ended.stdout, ended.stderr)
        assert second.size == 200
        assert 0 < second.n <= 220
        assert 0 < second.min <= second.p50 <= second.p90 <= second.p99 <= second.max

    def test_without_a_peer_it_says_so(self) -> None:
        words = ("ip", "netns", "exec", "a", *client(DDS).argv)
        argv = [word.replace("initwait:10", "initwait:0.3") for word in words]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert "found no peer" in error(ended.stdout, ended.returncode, stderr=ended.stderr).what

    def test_an_interface_that_does_not_exist_is_dds_s_error(self) -> None:
        argv = ("ip", "netns", "exec", "a", *client(replace(DDS, asker_interface="eth9")).argv)
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 2
        assert "eth9" in error(ended.stdout, ended.returncode, stderr=ended.stderr).what

    def test_it_tells_its_version(self) -> None:
        ended = subprocess.run(
            ("ip", "netns", "exec", "a", *DDSPERF.version), capture_output=True, text=True, timeout=60, check=False
        )
        assert version_of(ended.stdout + ended.stderr)
