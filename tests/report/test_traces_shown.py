"""A traced listener's packets, in every report: bars that stand next to each metric, tables, and what was lost."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from latlab.analysis.interrupt_way import NO_CLOCK, REASONS
from latlab.analysis.reception import RECEPTION, receptions
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.charts.chain import ChainView, chain_chart, chain_views
from latlab.report.charts.sheet import write_chart
from latlab.report.document import Toned
from latlab.report.markdown import result_markdown
from latlab.report.terminal import print_result
from latlab.report.traces import INTERVAL_TITLE, MISSING_TITLE, TITLE, trace_tables
from latlab.report.where import where_tables
from latlab.result.store import typed
from latlab.result.types import Result
from support.analysis.traces import COUNT, KNOWN, LATE, READER, listened, trace
from support.results import partial

SLUG = "loads=flood1"


def with_trace(result: dict[str, Any], **said: Any) -> dict[str, Any]:
    """The result, in which the listener of `control` in one cell was traced."""
    packets, events = listened()
    (found,) = receptions(packets, trace(*events), KNOWN, READER).values()
    document = found.document()
    block = next(cell for cell in result["cells"] if (cell["slug"], cell["repeat"]) == (SLUG, 1))["streams"]["control"]
    block["trace"] = {"host": "ecu", "events": len(events), "lost": 0, **document, **said}
    return result


def shown(result: dict[str, Any]) -> ChainView:
    return chain_views(typed(with_trace(result)))["control", RECEPTION]


def test_its_bars_are_typical_packets_and_the_worst_one_by_the_stops_of_the_way(result: dict[str, Any]) -> None:
    view = shown(result)
    assert view.start == "irq"
    assert [one.name for one in view.intervals] == ["handler", "poll", "stack", "scheduling", "return"]
    assert len({one.colour for one in view.intervals}) == len(view.intervals)
    (cell,) = view.cells
    assert [bar.what for bar in cell.bars] == ["typical", "mean ≥ p99", "worst"]
    typical, worst = cell.bars[0], cell.bars[-1]
    grown = [late.ns - usual.ns for late, usual in zip(worst.segments, typical.segments, strict=True)]
    assert grown == [0, 0, 0, 400, 0]
    assert "packets" in cell.grew


@pytest.mark.slow
def test_its_bars_stand_on_the_page_whichever_metric_is_chosen(new_run: Callable[..., Path]) -> None:
    run = RunFolder(new_run())
    run.write_result(with_trace(run.result(), lost=7))
    write_report(run, formats=())
    page = html.unescape(run.report_path.read_text(encoding="utf-8"))
    opened = page[: page.index("where the time went · from the interrupt to the application")]
    assert opened.rfind("<div data-for-metric") < opened.rfind("</div>"), "it is of no metric"
    for title in (TITLE, INTERVAL_TITLE):
        assert title in page
    assert '<td class="bad">7</td>' in page


def test_how_packets_woke_the_thread_and_whom_interrupts_came_to_is_in_one_row(result: dict[str, Any]) -> None:
    table, _ = trace_tables(typed(with_trace(result, lost=None)))
    (row,) = table.rows
    said = dict(zip(table.headings, row, strict=True))
    assert (said["stream"], said["n"], said["woke it"], said["thread was awake"]) == (
        "control",
        str(COUNT),
        str(COUNT),
        "0",
    )
    assert said["interrupts arrived in"] == f"vCPU CPU 0/KVM {COUNT - 1}, thread hog 1"
    assert said["lost"] == "not reported"
    assert [heading for number, heading in enumerate(table.headings) if isinstance(row[number], Toned)] == ["lost"]


IN_GUEST = [{"what": "guest idle", "n": 900}, {"what": "guest user", "n": 90}, {"what": "hypervisor", "n": 5}]
CAME_TO = "guest idle 900, guest user 90, hypervisor 5"


@pytest.mark.parametrize(
    ("acceleration", "entry", "said"),
    [
        ("kvm", {"told": 1190, "uncertainty_ns": 1_400, "interrupted": []}, "of 1190, to ±1.4 µs"),
        ("kvm", {"told": 1190, "uncertainty_ns": 1_400, "interrupted": IN_GUEST}, f"of 1190, to ±1.4 µs; to {CAME_TO}"),
        ("kvm", {"told": 0, "uncertainty_ns": None, "interrupted": []}, "not known"),
        ("kvm", None, "not requested"),
        ("tcg", None, "emulated, without KVM"),
    ],
)
def test_of_a_guest_it_is_said_whether_the_way_into_it_is_reported(
    result: dict[str, Any], acceleration: str, entry: dict[str, Any] | None, said: str
) -> None:
    traced = with_trace(result, host="vm1", **({"entry": entry} if entry else {}))
    for cell in traced["cells"]:
        cell["guests"] = [{"name": "vm1", "acceleration": acceleration}]
    table, _ = trace_tables(partial(Result, traced))
    assert table.rows[0][table.headings.index("path into the guest")] == said
    plain, _ = trace_tables(partial(Result, with_trace(result)))
    assert plain.rows[0][plain.headings.index("path into the guest")] == ""


def test_of_many_that_were_interrupted_the_first_are_named(result: dict[str, Any]) -> None:
    many = [{"what": "thread", "comm": f"t{number}", "n": 10 - number} for number in range(6)]
    table, _ = trace_tables(typed(with_trace(result, interrupted=many)))
    assert "thread t0 10, thread t1 9, thread t2 8, others 18" in table.rows[0]


def test_every_interval_has_its_figures(result: dict[str, Any]) -> None:
    _, table = trace_tables(partial(Result, with_trace(result)))
    rows = {row[3]: row for row in table.rows}
    assert list(rows) == ["handler", "poll", "stack", "scheduling", "return"]
    assert rows["handler"][4:] == ("irq", "softirq", str(COUNT), *["0.0"] * 5)


def test_a_terminal_and_markdown_have_all_of_it(result: dict[str, Any]) -> None:
    traced = with_trace(result)
    file = io.StringIO()
    print_result(typed(traced), Console(file=file, width=300))
    for said in (file.getvalue(), result_markdown(typed(traced), ("latency",)).replace("\\", "")):
        for part in (TITLE, INTERVAL_TITLE, f"where the time of {RECEPTION} went", "vCPU CPU 0/KVM"):
            assert part in said


def test_the_worst_packet_is_reported_with_whom_its_interrupt_came_to(result: dict[str, Any]) -> None:
    found = [one for one in where_tables(typed(with_trace(result)), "latency") if RECEPTION in one.title]
    assert len(found) == 1
    assert f"worst: packet {LATE}, whose interrupt arrived in thread hog" in found[0].remarks[0]


def test_what_was_kept_around_late_packets_of_other_programs_is_shown_of_each_kernel(result: dict[str, Any]) -> None:
    window: dict[str, Any] = {"from_tai_ns": 2_500_000, "to_tai_ns": 5_700_000, "whole": False, "events": 412}
    window |= {"ran": [{"comm": "dd", "ns": 2_900_000}, {"comm": None, "ns": 1_000}], "waited": []}
    window |= {"interrupts_ns": 21_000, "softirqs_ns": 0}
    judged = {"judged": 6000, "late": 1, "typical": 0, "unjudged": 3}
    flights: list[dict[str, Any]] = [
        {"judged": judged, "kept": {"windows": 1, "overran": 1, "overwritten": 9}, "windows": [window]},
        {"judged": None, "kept": None, "windows": []},
    ]
    hosts = [one | {"host": host, "trigger": "latency > 500us"} for one, host in zip(flights, "ab", strict=True)]
    unknown: dict[str, Any] = dict.fromkeys(("format", "tool", "version", "latency"), "")
    imported = unknown | {"files": [], "clock_bound_ns": None, "notes": [], "left_out": [], "facts": {}}
    result["cells"][0] |= {"start_tai_ns": 1_000_000, "imported": imported | {"flights": hosts}}
    kept, around = trace_tables(typed(result))
    assert [str(row[2]) for row in kept.rows] == ["a", "b"]
    first, second = (tuple(map(str, row[3:])) for row in kept.rows)
    assert first == ("latency > 500us", "6000", "1", "0", "3", "1", "1")
    assert second == ("latency > 500us", "", "", "", "", "not reported", "not reported")
    (row,) = around.rows
    assert tuple(map(str, row[2:])) == ("a", "1.5", "3200.0", "412", "dd 2900.0, unknown 1.0", "", "21.0", "0.0")
    assert isinstance(row[5], Toned)


def test_the_table_of_intervals_is_there_without_a_row_if_something_was_traced(result: dict[str, Any]) -> None:
    _, intervals = trace_tables(typed(with_trace(result, intervals=[])))
    assert intervals.title.startswith(INTERVAL_TITLE) and not intervals.rows


def test_what_was_not_traced_has_no_table(result: dict[str, Any]) -> None:
    assert trace_tables(typed(result)) == []
    assert (("control", RECEPTION) in chain_views(typed(result))) is False


def test_its_picture_is_drawn(result: dict[str, Any], tmp_path: Path) -> None:
    view = shown(result)
    chart = chain_chart(view)
    assert chart.title == "control: where the time went · from the interrupt to the application"
    (path,) = write_chart(chart, tmp_path, caption="measured")
    assert path.name == f"control-{RECEPTION}-chain.png"
    with Image.open(path) as image:
        assert image.width > 500


@pytest.mark.slow
def test_breakdowns_that_are_not_whole_stand_with_their_reason_in_every_report(
    result: dict[str, Any], new_run: Callable[..., Path]
) -> None:
    missing = [
        {"id": NO_CLOCK, "n": 7, "reason": REASONS[NO_CLOCK]},
        {"id": "awake", "n": 2, "reason": REASONS["awake"]},
    ]
    ran = [{"what": "another guest's vCPU", "comm": "CPU 0/KVM", "n": 5}]
    entry = {"told": 1191, "uncertainty_ns": 700, "interrupted": [], "ran": ran}
    traced = with_trace(result, whole=COUNT - 9, missing=missing, entry=entry)
    table, reasons, _ = trace_tables(partial(Result, traced))
    assert reasons.title.startswith(MISSING_TITLE)
    assert [row[3:] for row in reasons.rows] == [
        ("7", str(COUNT), NO_CLOCK, REASONS[NO_CLOCK]),
        ("2", str(COUNT), "awake", REASONS["awake"]),
    ]
    said = dict(zip(table.headings, table.rows[0], strict=True))
    assert said["whole"] == f"{COUNT - 9} of {COUNT}"
    assert said["VM host's interrupt arrived in"] == "another guest's vCPU CPU 0/KVM 5"
    assert REASONS[NO_CLOCK] in result_markdown(typed(traced), ["latency"])
    run = RunFolder(new_run())
    run.write_result(with_trace(run.result(), missing=missing))
    write_report(run, formats=())
    assert REASONS[NO_CLOCK] in html.unescape(run.report_path.read_text(encoding="utf-8"))
