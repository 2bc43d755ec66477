"""From when on a packet was late: said of every stream, and most of all of those in which nothing was found."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latlab.analysis.words import duration
from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.report import anomalies
from latlab.report.anomalies import LIMITS_HEADINGS, bursts_text, late_note, late_rows, late_text
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.terminal import print_result
from latlab.result.store import typed
from latlab.result.types import LateLimits, Result, Stream
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import Noise
from support.report.marked import LATE_SENDS, SPIKES, write_marked_run
from support.results import partial

PERIOD_NS = 1_000_000


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """5 s of noise alone."""
    description = Description(
        seed=11, packets=5_000, period_ns=PERIOD_NS, warmup=500, clock_bound_ns=1_000, noise=Noise(2_000)
    )
    run = RunFolder(write_run(generate(description), tmp_path_factory.mktemp("clean") / "run"))
    make_result(run)
    return run


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return write_marked_run(tmp_path_factory.mktemp("marked") / "run")


def only_block(result: dict[str, Any]) -> dict[str, Any]:
    ((block,),) = [list(cell["streams"].values()) for cell in result["cells"]]
    found: dict[str, Any] = block
    return found


def lateness(block: dict[str, Any]) -> str:
    return late_text(Stream.model_validate(block))


def bursts(limits: dict[str, Any]) -> str:
    return bursts_text(LateLimits.model_validate(limits))


def shown(result: dict[str, Any]) -> str:
    with Console(width=300, record=True, file=StringIO()) as console:
        print_result(typed(result), console)
    return " ".join(console.export_text().split())


def test_where_nothing_was_found_every_report_says_so_and_from_when_on_a_packet_is_late(clean: RunFolder) -> None:
    result = clean.result()
    (row,) = anomalies.anomaly_rows(typed(result))
    told = lateness(only_block(result))
    assert row.texts[3:6] == (anomalies.NONE_FOUND, "0", "0") and row.texts[-1] == told
    page = write_report(clean, formats=()).read_text()
    assert '<section id="anomalies">' in page and '<a href="#anomalies">' in page
    for text in (page, shown(result), result_markdown(typed(result), ["latency"]).replace("\\_", "_")):
        assert anomalies.NONE_FOUND in text and told in text


def test_a_heavy_tail_whose_limit_is_beyond_all_that_was_measured_is_reported_next_to_what_was_found(
    marked: RunFolder,
) -> None:
    """In the table of anomalies, of a stream that has some as of one that has none."""
    result = marked.result()
    limits = only_block(result)["late_limits"]
    assert not limits["out_of_reach"] and anomalies.NOT_TOLD not in shown(result)
    limits |= {"heavy": True, "out_of_reach": True, "from_ns": limits["from_ns"] | {"middle": 2_798_500}}
    limits["largest_ns"] = 2_255_000
    told = (
        "single late packets cannot be told from the tail below 2.799 ms from launch to rx_user: the tail is heavy up "
        "to that value, and the latest packet took 2.255 ms"
    )
    assert list(anomalies.anomaly_rows(typed(result)))[-1].texts[3:] == (anomalies.NOT_TOLD, "", "", told)
    assert told in shown(result) and told in result_markdown(typed(result), ["latency"]).replace("\\_", "_")
    assert told in lateness(only_block(result))


def test_where_nothing_bounds_the_clocks_lateness_is_reported_beyond_what_is_usual_and_no_level_is(
    clean: RunFolder,
) -> None:
    result = clean.result()
    block = only_block(result)
    limits, latency = block["late_limits"], block["metrics"]["latency_user"]
    assert anomalies.UNKNOWN not in lateness(block)
    latency["uncertainty_ns"] = None
    for key in ("usual_ns", "from_ns"):
        limits[key] = {name: value - 15_000_000 for name, value in limits[key].items()}
    told = lateness(block)
    assert told.startswith(
        f"lateness threshold {duration(limits['above_ns']['middle'])} above the surrounding packets from launch"
    )
    assert anomalies.UNKNOWN in told and "-15" not in told
    (row,) = late_rows(typed(result))
    found = dict(zip(LIMITS_HEADINGS, row, strict=True))
    assert found["usual"] == found["late from"] == "not known" and "not known" not in found["late if above usual by"]
    limits |= {"out_of_reach": True, "largest_ns": limits["usual_ns"]["middle"] + 9_000}
    above = duration(limits["from_ns"]["middle"] - limits["usual_ns"]["middle"])
    assert f"below {above} beyond usual from launch to rx_user" in lateness(block)
    assert lateness(block).endswith("the latest packet took 9 µs more than usual")


def test_where_neighbours_are_alike_it_is_said_from_when_on_one_is_late_next_to_them(clean: RunFolder) -> None:
    result = clean.result()
    limits = only_block(result)["late_limits"]
    assert limits["beside_ns"] is None
    (row,) = late_rows(typed(result))
    assert dict(zip(LIMITS_HEADINGS, row, strict=True))["or above its neighbours by"] == ""
    limits |= {"beside_ns": {"least": 9_000, "middle": 9_500, "greatest": 10_000}}
    (row,) = late_rows(typed(result))
    assert dict(zip(LIMITS_HEADINGS, row, strict=True))["or above its neighbours by"] == "9.0 … 10.0"
    assert "), or 9.5 µs later than the packets before and after it" in late_text(
        Stream.model_validate(only_block(result))
    )
    limits |= {"out_of_reach": True}
    assert "from launch to rx_user, unless 9.5 µs later than their neighbours: " in late_text(
        Stream.model_validate(only_block(result))
    )


def test_limits_are_in_order_and_no_packet_of_a_clean_run_is_beyond_the_greatest(clean: RunFolder) -> None:
    block = only_block(clean.result())
    limits = block["late_limits"]
    for key in ("usual_ns", "above_ns", "from_ns", "sender_ns"):
        assert 0 < limits[key]["least"] <= limits[key]["middle"] <= limits[key]["greatest"]
    latency = block["metrics"]["latency_user"]
    assert limits["until"] == "rx_user" and limits["packets"] == latency["n"]
    assert latency["max"] < limits["from_ns"]["greatest"]
    assert limits["usual_ns"]["least"] <= latency["p50"] <= limits["usual_ns"]["greatest"]


def test_every_late_packet_was_compared_with_limits_within_those_that_are_reported(marked: RunFolder) -> None:
    block = only_block(marked.result())
    limits, found = block["late_limits"], block["anomalies"]
    assert found["late_sender"]["episodes"] == LATE_SENDS and found["unexplained"]["episodes"] == len(SPIKES)
    above, sender = limits["above_ns"], limits["sender_ns"]
    for one in (shown["evidence"] for shown in found["unexplained"]["shown"]):
        assert above["least"] <= one["limit_ns"] <= above["greatest"] < one["late_ns"]
    # By the way's limit or by the talker's own, which is the nearer one here.
    for one in (shown["evidence"] for shown in found["late_sender"]["shown"]):
        assert sender["least"] <= one["limit_ns"] <= above["greatest"] < one["late_ns"]
        assert max(one["wake_ns"], one["submit_ns"]) > sender["least"]


def test_the_limits_stand_next_to_the_thresholds_a_row_a_stream(marked: RunFolder) -> None:
    result = marked.result()
    (row,) = late_rows(typed(result))
    found = dict(zip(LIMITS_HEADINGS, row, strict=True))
    limits = only_block(result)["late_limits"]
    assert found["packets judged"] == str(limits["packets"])
    assert found["late sender: before submit more than"].split(" … ")[0] == f"{limits['sender_ns']['least'] / 1000:.1f}"
    assert found["wake-up suspect beyond"] == f"{PERIOD_NS / 1000:.1f}"
    assert "50%" in late_note(typed(result))
    page, markdown = write_report(marked, formats=()).read_text(), result_markdown(typed(result), ["latency"])
    assert anomalies.LIMITS_TITLE in page and anomalies.LIMITS_TITLE in markdown
    for text in row:
        assert text in page and text.replace("_", "\\_") in markdown


def test_watched_packets_have_no_limit_of_a_sender(clean: RunFolder) -> None:
    result = clean.result()
    only_block(result)["late_limits"] |= {"until": "second_point"}
    (row,) = late_rows(typed(result))
    found = dict(zip(LIMITS_HEADINGS, row, strict=True))
    assert found["latency from … to"] == "first_point … second_point"
    assert found["late sender: before submit more than"] == "" and "sender" not in late_note(typed(result))


def test_packets_that_come_in_bursts_are_said_to_in_words_and_in_the_table(clean: RunFolder) -> None:
    limits = only_block(clean.result())["late_limits"]
    assert limits["bursts"] is None and bursts(limits) == ""
    some = {"packets": 880, "of": 900, "share": 0.9778, "times": 110, "size": 8, "every_ns": 8_000_000}
    often = limits | {"bursts": some | {"regular": True, "usual": True}}
    told = "880 of 900 packets (97.78%) came in 110 bursts, of 8 in the median, every 8 ms"
    assert bursts(often) == f"{told}, as throughout the run: they are not reported as stalls"
    seldom = limits | {"bursts": some | {"regular": False, "usual": False}}
    assert bursts(seldom).endswith("at irregular intervals, 8 ms in the median")
    result = clean.result()
    before = lateness(only_block(result))
    only_block(result)["late_limits"] = often
    assert lateness(only_block(result)) == f"{before}; {bursts(often)}"
    (row,) = late_rows(typed(result))
    assert dict(zip(LIMITS_HEADINGS, row, strict=True))["in bursts"] == bursts(often)


def test_what_has_no_schedule_says_that_it_was_not_looked_for(result: dict[str, Any]) -> None:
    block = next(block for cell in result["cells"] for block in cell["streams"].values())
    block |= {"anomalies": None, "late_limits": None}
    last = list(anomalies.anomaly_rows(typed(result)))[-1]
    assert last.texts[3:6] == (anomalies.NOT_LOOKED_FOR, "", "") and "schedule of its packets" in last.texts[-1]


def test_many_streams_of_which_nothing_was_looked_for_are_one_row(result: dict[str, Any]) -> None:
    streams = result["cells"][0]["streams"]
    (name, block), *_ = streams.items()
    for number in range(anomalies.STREAMS_NAMED + 1):
        streams[f"{name}.{number}"] = block | {"anomalies": None, "late_limits": None}
    unlooked = [one.texts for one in anomalies.anomaly_rows(typed(result)) if one.texts[3] == anomalies.NOT_LOOKED_FOR]
    assert [texts[2] for texts in unlooked] == [f"{anomalies.STREAMS_NAMED + 1} streams"]


def test_what_nothing_was_looked_for_in_stands_once_a_stream_and_reason(result: dict[str, Any]) -> None:
    for cell in result["cells"]:
        for block in cell["streams"].values():
            block |= {"anomalies": None, "late_limits": None, "probe": {"name": "loop", "period_ns": None}}
    found = list(anomalies.anomaly_rows(partial(Result, result)))
    names = {name for cell in result["cells"] for name in cell["streams"]}
    assert len(found) == len(names) < sum(len(cell["streams"]) for cell in result["cells"])
    assert all("closed loop" in row.texts[-1] and row.texts[0].startswith("all ") for row in found)


def test_a_run_without_packets_has_the_section_nevertheless(new_run: Callable[..., Path]) -> None:
    run = RunFolder(new_run())
    result = run.result()
    for cell in result["cells"]:
        cell["streams"] = {}
    run.write_result(result)
    page = write_report(run, formats=()).read_text()
    assert '<section id="anomalies">' in page and "Not evaluated" in page
