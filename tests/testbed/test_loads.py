"""Loads: the commands they are, what their tools' output says, and that they really run."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.testbed import makers
from latlab.testbed.apply import TestBed
from latlab.testbed.loads import LOADS, plan_loads
from latlab.testbed.loads.base import Cores, LoadPlan, Output
from latlab.testbed.loads.runner import LoadRunner
from latlab.testbed.places import Places
from latlab.testbed.site import Site
from support.machine import dump, scenario
from support.programs import PROGRAMS

AGENT = str(PROGRAMS / "flooding_agent.py")
PLACES = Places({"sensor": AGENT, "ecu": AGENT})
HOSTS = {"sensor": "netns", "ecu": "netns"}
UP = {"from": "sensor", "to": "ecu"}


def planned(**load: Any) -> LoadPlan:
    return plan_loads(scenario(HOSTS, loads={"load1": {**UP, **load}}), 2_500_000_000, PLACES)[0]


def achieved(plan: LoadPlan, *files: Path) -> Any:
    processes = LOADS[plan.kind].processes(plan)
    return LOADS[plan.kind].parse(
        plan, [Output(process, file.read_text(), "") for process, file in zip(processes, files, strict=True)]
    )


def test_an_interrupted_iperf3_is_known_by_its_server_s_bytes_over_its_client_s_time(captured: Path) -> None:
    plan = planned(kind="iperf3", rate="100Mbit/s", size="1400B")
    server = captured / "iperf3-udp-server-interrupted.json"
    result = achieved(plan, server, captured / "iperf3-udp-client-interrupted.json")
    assert result.version == "iperf 3.12"
    assert result.sent_bps == pytest.approx(99.96e6, rel=1e-4)
    assert result.received_bps == pytest.approx(8 * 27_477_800 / 2.199156)
    assert result.sent_pps == pytest.approx(19_628 / 2.199156)


def test_tcp_has_rates_but_no_packets(captured: Path) -> None:
    plan = planned(kind="iperf3", protocol="tcp")
    result = achieved(plan, captured / "iperf3-tcp-server.json", captured / "iperf3-tcp-client.json")
    assert result.sent_bps == pytest.approx(37.4988e9, rel=1e-4)
    assert result.received_bps == pytest.approx(37.4988e9, rel=1e-4)
    assert result.sent_pps is None


def test_an_iperf3_that_gave_up_is_reported_with_what_it_said(captured: Path, tmp_path: Path) -> None:
    plan = planned(kind="iperf3", rate="100Mbit/s", size="1400B")
    said = {"start": {}, "intervals": [], "end": {}, "error": "error - unable to send control message: Broken pipe"}
    client = tmp_path / "client.json"
    client.write_text(json.dumps(said))
    with pytest.raises(
        LabError, match=r"^sensor: load load1: iperf3's client failed: error - unable to send control message"
    ):
        achieved(plan, captured / "iperf3-udp-server-interrupted.json", client)


def test_the_instances_of_netperf_are_added_up(captured: Path) -> None:
    plan = planned(kind="netperf", instances=3)
    file = captured / "netperf-udp-stream.txt"
    result = achieved(plan, captured / "README.md", file, file, file)
    assert result.sent_bps == pytest.approx(3000e6)
    assert result.received_bps == pytest.approx(2995.5e6)
    assert result.sent_pps == pytest.approx(3 * 89_285.7)


def test_output_of_a_tool_that_failed_is_not_a_result(captured: Path) -> None:
    plan = planned(kind="netperf")
    with pytest.raises(LookupError):
        achieved(plan, captured / "README.md", captured / "README.md")


def test_each_instance_has_its_share_of_the_rate_and_a_port_of_its_own() -> None:
    plan = planned(kind="iperf3", instances=2, rate="100Mbit/s", size="1000B")
    commands = [" ".join(process.argv) for process in LOADS["iperf3"].processes(plan)]
    server = "iperf3 --server --one-off --json --bind 10.78.0.2 --port"
    client = "iperf3 --client 10.78.0.2 --bind 10.78.0.1 --port"
    each = "--json --udp --bitrate 50000000 --length 1000 --time 243"
    assert commands == [
        f"{server} 5600",
        f"{server} 5601",
        f"{client} 5600 {each}",
        f"{client} 5601 {each}",
    ]


def test_as_fast_as_it_goes_is_not_iperf3_s_own_limit() -> None:
    client = LOADS["iperf3"].processes(planned(kind="iperf3"))[1].argv
    assert client[client.index("--bitrate") + 1] == "0"


def test_netperf_measures_with_one_server_for_all_its_instances() -> None:
    commands = [
        " ".join(p.argv) for p in LOADS["netperf"].processes(planned(kind="netperf", instances=2, size="1400B"))
    ]
    assert commands[0] == "netserver -D -4 -L 10.78.0.2 -p 5600"
    assert len(commands) == 3
    assert commands[2].startswith(
        "netperf -H 10.78.0.2 -L 10.78.0.1 -4 -p 5600 -t UDP_STREAM -l 3 -f m -P 0 -- -m 1400"
    )
    assert "-P ,5602 " in commands[2]


def test_a_load_runs_where_the_tuning_wants_it() -> None:
    tuning = {"sensor": {"load": {"fifo": 5, "cpus": [0, 1]}}}
    small = scenario(HOSTS, tuning=tuning, loads={"i": {"kind": "iperf3", **UP}, "f": {"kind": "flood", **UP}})
    iperf3, flood = plan_loads(small, 1_000_000_000, PLACES)
    server, client = LOADS["iperf3"].processes(iperf3)
    assert client.argv[:6] == ("chrt", "-f", "5", "taskset", "-c", "0,1")
    assert server.argv[0] == "iperf3"
    spec = LOADS["flood"].processes(flood)[1].spec
    assert spec and (spec["realtime"]["fifo"], spec["realtime"]["cpus"]) == (5, [0, 1])


def test_no_two_loads_and_no_stream_share_a_port() -> None:
    stream = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "port": 5601}
    loads = {name: {"kind": "flood", "flows": 3, **UP} for name in ("a", "b")}
    small = scenario(HOSTS, streams={"control": stream}, loads=loads)
    first, second = plan_loads(small, 1_000_000_000, PLACES)
    used = [*range(first.port, first.port + 3), *range(second.port, second.port + 3), 5601]
    assert len(set(used)) == len(used)


def test_a_load_against_the_stream_goes_the_other_way() -> None:
    plan = planned(kind="flood", **{"from": "ecu", "to": "sensor"})
    assert (plan.source_address, plan.sink_address) == ("10.78.0.2", "10.78.0.1")
    assert plan.source_interface == "lat0"


async def loaded(plan_change: dict[str, Any], seconds: float, **load: Any) -> Any:
    """The results of a load that ran on a real test bed."""
    small = scenario(HOSTS, loads={"load1": {**UP, **load}})
    plans = [replace(plan, **plan_change) for plan in plan_loads(small, 20_000_000_000, PLACES)]
    async with TestBed("t1", makers.make_hosts(small, Site("t1"))) as bed:
        await bed.apply(makers.test_bed_steps(small, Site("t1")))
        runner = LoadRunner(bed, plans)
        await runner.start()
        try:
            await asyncio.sleep(seconds)
            return [result.document() for result in await runner.stop()]
        finally:
            await runner.kill()


@pytest.mark.real
@pytest.mark.usefixtures("machine")
class TestOnRealNamespaces:
    """Real tools, real packets."""

    def test_iperf3_sends_what_it_was_asked_for_and_says_what_arrived(self) -> None:
        (result,) = asyncio.run(loaded({}, 1.0, kind="iperf3", instances=2, rate="20Mbit/s", size="1000B"))
        assert result["asked_bps"] == 20_000_000
        assert result["sent_bps"] == pytest.approx(20e6, rel=0.5)
        assert 0 < result["received_bps"] <= result["sent_bps"] * 1.01
        assert result["sent_pps"] == pytest.approx(result["sent_bps"] / 8000, rel=0.01)
        assert result["version"].startswith("iperf 3")
        assert len(result["commands"]) == 4

    def test_iperf3_can_do_tcp(self) -> None:
        (result,) = asyncio.run(loaded({}, 0.5, kind="iperf3", protocol="tcp"))
        assert result["received_bps"] > 1e6

    @pytest.mark.usefixtures("netperf")
    def test_netperf_says_what_it_sent_and_what_arrived(self) -> None:
        (result,) = asyncio.run(loaded({"seconds": 1}, 1.5, kind="netperf", instances=2, size="1000B"))
        assert 0 < result["received_bps"] <= result["sent_bps"] * 1.01
        assert result["sent_pps"] == pytest.approx(result["sent_bps"] / 8000, rel=0.02)
        assert result["version"].startswith("Netperf version 2.")
        assert len(result["detail"]["instances"]) == 2

    def test_flood_says_what_it_sent_and_what_arrived(self) -> None:
        (result,) = asyncio.run(loaded({}, 0.5, kind="flood", size="1000B"))
        assert result["version"] == "0.1.0", "the stand-in's"
        assert result["asked_bps"] is None
        assert result["detail"]["received"]["packets"] == result["detail"]["sent"]["packets"] > 100

    def test_a_load_that_dies_is_an_error_with_its_last_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DIE_AFTER", "200")
        before = dump()
        with pytest.raises(LabError, match=r"load1.*ended early with status 1: flood: the interface went away"):
            asyncio.run(loaded({}, 2.0, kind="flood", size="1000B"))
        assert dump() == before

    def test_an_agent_s_error_comes_back_whole(self) -> None:
        with pytest.raises(LabError, match=r"sensor: load load1.*SCHED_FIFO 99 is not permitted.*run with sudo"):
            asyncio.run(loaded({"source_cores": Cores(fifo=99)}, 0, kind="flood"))

    def test_a_tool_that_cannot_start_is_an_error_with_its_last_words(self) -> None:
        with pytest.raises(LabError, match=r"ecu: load load1: `.*iperf3 --server.*ended before it was ready.*assign"):
            asyncio.run(loaded({"listen_address": "192.0.2.1"}, 0, kind="iperf3"))
