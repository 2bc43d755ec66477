"""The report page, opened in a real browser."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl
import pytest

from latlab.analysis.bins import binned
from latlab.analysis.metrics import metric_values
from latlab.model.metrics import METRICS_BY_NAME
from latlab.recordings.run_folder import RunFolder
from latlab.report import build, payload
from latlab.report.build import write_report
from latlab.report.payload import GOOD_BINS, MOST_BINS, PAGE_BYTES, bins_of
from support.recordings import rewrite_run
from support.report.page import Elements, acted, body, charts, opened

CELLS = ("loads=none/r1", "loads=none/r2", "loads=flood1/r1", "loads=flood1/r2")
EVIL = "</script><script>document.body.dataset.hacked=1</script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture(scope="module")
def dom(reported_run: Path) -> str:
    return opened(reported_run / "report.html")


@pytest.fixture(scope="module")
def all_opened(reported_run: Path) -> str:
    """The same with all that is packed, and each metric's charts, the first one's last."""
    return acted(reported_run / "report.html", OPEN_ALL)


def received(run: Path, cell: str, stream: int) -> tuple[int, int]:
    """(packets with a latency, packets lost) of one stream after the warm-up, from the packet table."""
    packets = pl.read_parquet(run / "cells" / cell / "packets.parquet")
    counted = packets.filter((pl.col("stream") == stream) & ~pl.col("warmup"))
    lost = counted["rx_user_tai_ns"].null_count()
    return len(counted) - lost, lost


def test_every_chart_is_drawn_from_every_packet_of_the_packet_table(reported_run: Path, dom: str) -> None:
    assert body(dom)["data-ready"] == "true"
    found = charts(dom)
    assert {chart["data-metric"] for chart in found} == {"latency"}
    for number, stream in enumerate(("control", "status"), start=1):
        of_stream = [chart for chart in found if chart["data-stream"] == stream]
        expected = {cell: received(reported_run, cell, number) for cell in CELLS}
        for kind in ("series", "histogram"):
            drawn = {c["data-cell"]: int(c["data-points"]) for c in of_stream if c["data-chart"] == kind}
            assert drawn == {cell: count for cell, (count, _) in expected.items()}
        (ccdf,) = [chart for chart in of_stream if chart["data-chart"] == "ccdf"]
        assert int(ccdf["data-points"]) == sum(count for count, _ in expected.values())
        marked = {c["data-cell"]: int(c["data-lost"]) for c in of_stream if c["data-chart"] == "series"}
        assert marked == {cell: lost for cell, (_, lost) in expected.items()}
        assert sum(marked.values()) == 14


def test_a_metric_named_in_the_address_is_the_one_shown(reported_run: Path) -> None:
    dom = opened(reported_run / "report.html", "#metric-arrival_offset")
    assert body(dom)["data-ready"] == "true"
    assert {chart["data-metric"] for chart in charts(dom)} == {"arrival_offset"}
    tables = {e["data-for-metric"]: "hidden" not in e for e in Elements(dom).found if "data-for-metric" in e}
    assert [name for name, shown in tables.items() if shown] == ["arrival_offset"]


def test_choosing_a_metric_draws_its_charts_instead(reported_run: Path) -> None:
    dom = acted(reported_run / "report.html", "document.querySelector('input[value=delivery]').click();")
    assert body(dom)["data-ready"] == "true"
    assert {chart["data-metric"] for chart in charts(dom)} == {"delivery"}


ZOOMS = {
    "keys": """const place = document.querySelector('.charts');
      const press = (key) => place.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
      press('+'); press('+');""",
    "buttons": """const place = document.querySelector('.charts');
      for (const n of [1, 2]) place.querySelector('[aria-label="Zoom in"]').click();""",
    "dragging": """const over = document.querySelector('.series .u-over');
      const box = over.getBoundingClientRect();
      const send = (target, type, share) => target.dispatchEvent(new MouseEvent(type,
        {clientX: box.left + share * box.width, clientY: box.top + 50, movementX: 9, bubbles: true}));
      send(over, 'mousemove', 0.4); send(over, 'mousedown', 0.4);
      send(over, 'mousemove', 0.65); send(over, 'mouseup', 0.65);""",
}


@pytest.mark.parametrize("script", ZOOMS.values(), ids=ZOOMS)
def test_zooming_one_chart_zooms_every_cell_of_its_stream(reported_run: Path, script: str) -> None:
    dom = acted(reported_run / "report.html", script)
    drawn = {
        (chart["data-stream"], chart["data-cell"]): int(chart["data-points"])
        for chart in charts(dom)
        if chart["data-chart"] == "series"
    }
    for cell in CELLS:
        whole, _ = received(reported_run, cell, 1)
        assert 0.22 * whole < drawn["control", cell] < 0.28 * whole
        assert drawn["status", cell] == received(reported_run, cell, 2)[0]


def test_reset_shows_every_packet_again(reported_run: Path) -> None:
    script = """document.querySelector('[aria-label="Zoom in"]').click();
      await new Promise((done) => setTimeout(done, 50));
      document.querySelector('[aria-label="Reset zoom"]').click();"""
    dom = acted(reported_run / "report.html", script)
    drawn = [c for c in charts(dom) if c["data-chart"] == "series" and c["data-stream"] == "control"]
    expected = [received(reported_run, c["data-cell"], 1)[0] for c in drawn]
    assert [int(c["data-points"]) for c in drawn] == expected


def test_above_the_budget_the_page_holds_bins_of_all_packets_and_says_so(
    new_run: Callable[..., Path],
) -> None:
    run = new_run()
    page = write_report(run, formats=(), budget=0)
    held = {(v["stream"], v["metric"]): [set(t) & {"samples", "bins"} for t in v["traces"]] for v in data(page)}
    assert held["control", "latency"] == [{"bins"}] * 4
    dom = opened(page)
    drawn = {
        c["data-cell"]: int(c["data-points"])
        for c in charts(dom)
        if c["data-chart"] == "series" and c["data-stream"] == "control"
    }
    assert drawn == {cell: received(run, cell, 1)[0] for cell in CELLS}
    assert "min, max and count in fixed bins" in dom


@pytest.mark.slow
def test_the_first_metrics_come_packet_by_packet_as_far_as_there_is_room(new_run: Callable[..., Path]) -> None:
    run = new_run()
    whole = {(v["stream"], v["metric"]): v for v in data(write_report(run, formats=()))}
    needed = sum(len(t["samples"]["value"]["data"]) for t in whole["control", "latency"]["traces"])
    traces = 7 * 2 * 4
    heads = sum(len(json.dumps({**v, "traces": [{**t, "samples": {}} for t in v["traces"]]})) for v in whole.values())
    # 7 metrics of 2 streams of 4 cells have their bins' room, 6 bytes each, before any has samples; and their names.
    page = write_report(run, formats=(), budget=heads + needed + traces * (GOOD_BINS * 6 + 220))
    held = {(v["stream"], v["metric"]): {*v["traces"][0]} & {"samples", "bins"} for v in data(page)}
    assert held["control", "latency"] == {"samples"}
    assert held["control", "delivery"] == {"bins"}


def test_neighbouring_bins_taken_together_keep_the_least_the_greatest_and_every_packet() -> None:
    rng = np.random.default_rng(5)
    at = np.sort(rng.choice(900_000, 700, replace=False)).astype(np.int64)
    at = at[(at < 300_000) | (at > 500_000)]  # parts without any packet
    value = rng.integers(-50, 9_000, len(at))
    span = (0, 899_999)
    found = bins_of(span, binned(at, value, MOST_BINS, span_tai_ns=span), 9)
    edges = math.ceil(MOST_BINS / 9) * 900_000 // MOST_BINS
    part = at // edges
    filled = np.unique(part)
    assert unpacked(found["count"]) == [int((part == one).sum()) for one in filled]
    assert unpacked(found["min"]) == [int(value[part == one].min()) for one in filled]
    assert unpacked(found["max"]) == [int(value[part == one].max()) for one in filled]
    assert unpacked(found["begin"]) == [int(one * edges) for one in filled]
    assert found["length"] == edges


def unpacked(packed: dict[str, Any]) -> list[int]:
    """What the page's own decoder makes of them."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"]), -15), np.uint8)
    stored = planes.reshape(packed["bytes"], -1).T.copy().view(f"<i{packed['bytes']}").ravel().astype(np.int64)
    found: list[int] = (np.cumsum(stored) if packed["delta"] else stored).tolist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("most", [700_000, 600_000])
def test_the_data_of_long_series_has_what_the_rest_of_the_page_leaves_it(
    new_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(payload, "WHOLE_PACKETS", 100)
    page = write_report(new_run(), formats=())
    assert most < page.stat().st_size <= PAGE_BYTES
    monkeypatch.setattr(build, "PAGE_BYTES", most)
    page = write_report(new_run("20261121-205152-first-3f9b"), formats=())
    assert most - 400_000 < page.stat().st_size <= most


@pytest.mark.slow
def test_series_of_at_most_20000_packets_are_drawn_whole_whatever_else_the_page_has(
    new_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert payload.WHOLE_PACKETS == 20_000
    monkeypatch.setattr(build, "PAGE_BYTES", 100_000)
    page = write_report(new_run(), formats=())
    assert page.stat().st_size > 100_000
    drawn = [{*trace} & {"samples", "bins"} for view in data(page) for trace in view["traces"]]
    assert drawn == [{"samples"}] * len(drawn)


@pytest.mark.slow
def test_what_short_series_take_has_an_end(new_run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PAGE_BYTES", 100_000)
    monkeypatch.setattr(build, "WHOLE_BYTES", 0)
    page = write_report(new_run(), formats=())
    assert any("bins" in trace for view in data(page) for trace in view["traces"])


OPEN_ALL = """for (const one of document.querySelectorAll("details"))
        if (one.querySelector("[data-part]")) one.open = true;
      const later = (ms) => new Promise((done) => setTimeout(done, ms));
      for (const input of [...document.querySelectorAll('input[name="metric"]')].reverse()) {
        input.click();
        while (document.body.dataset.ready !== "true") await later(20);
      }
      await later(300);"""
"""Opens what is packed, and chooses each metric, the first one last."""


def still_packed(dom: str) -> list[str]:
    """Parts that wait to be opened; charts for narrow windows wait for one."""
    return re.findall(r'(?<!class="narrow">)<div data-part="\d+">', dom)


def test_facts_steps_and_plan_are_there_once_packed_and_unpacked_when_they_are_opened(
    reported_run: Path, all_opened: str
) -> None:
    written = (reported_run / "report.html").read_text(encoding="utf-8")
    assert "ethtool -K eth0" not in written and "kernel.release" not in written
    assert "This part is unpacked by JavaScript" in written
    assert "# on &lt;sensor&gt;\nethtool -K eth0 gro off" in all_opened
    assert '<th scope="row">kernel.release</th><td>6.1.0-26-amd64</td>' in all_opened
    assert not still_packed(all_opened)


def test_charts_of_another_metric_are_packed_until_it_is_chosen(dom: str, all_opened: str) -> None:
    waiting = r'<div class="wide"><div data-part="\d+">'
    assert re.search(waiting, dom) and not re.search(waiting, all_opened)
    # What is unpacked is what stands there for the metric that is chosen at first: a drawing with its description.
    drawn = [one.count('role="img"') for one in (dom, all_opened)]
    assert drawn[0] < drawn[1]


def test_what_other_metrics_add_up_to_is_held_once_and_drawn_to_the_nanosecond(reported_run: Path) -> None:
    held = {(v["stream"], v["metric"]): v["traces"] for v in data(reported_run / "report.html")}
    metrics = ["latency_user", "arrival_offset", "path"]
    for metric in metrics:
        assert all("sum" in trace["samples"] for trace in held["control", metric]), metric
    script = """const sum = (values) => values.reduce((total, one) => total + one, 0);
      const all = {};
      for (const metric of METRICS) {
        const view = views.find((one) => one.stream === "control" && one.metric === metric);
        const found = await Promise.all(view.traces.map((trace) => samplesOf("control", trace)));
        all[metric] = found.map(({ sequence, value }) =>
          [value.length, sum(value), sum(value.map((ns, at) => ns * (sequence[at] % 7)))]);
      }
      document.body.dataset.found = JSON.stringify(all);"""
    page = acted(reported_run / "report.html", script.replace("METRICS", json.dumps(metrics)))
    found = json.loads(html.unescape(body(page)["data-found"]))
    assert [*found] == metrics
    for metric in metrics:
        for cell, sums in zip(CELLS, found[metric], strict=True):
            packets = pl.read_parquet(reported_run / "cells" / cell / "packets.parquet").filter(pl.col("stream") == 1)
            values = metric_values(packets, METRICS_BY_NAME[metric], 1_006_000)
            assert values
            weighted = values.value_ns * (values.sequence.astype(int) % 7)
            assert sums == [len(values.value_ns), int(values.value_ns.sum()), int(weighted.sum())]


def data(page: Path) -> list[dict[str, Any]]:
    """What the page embeds for its charts."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    views: list[dict[str, Any]] = json.loads(found[1])
    return views


def test_the_page_asks_nothing_of_the_network(reported_run: Path) -> None:
    page = (reported_run / "report.html").read_text()
    addresses = [
        (element.tag, name, value)
        for element in Elements(page).found
        for name, value in element.items()
        if name in ("src", "href", "srcset", "action", "data", "poster")
    ]
    files = {element["href"] for element in Elements(page).found if "download" in element}
    assert all((reported_run / unquote(name)).is_file() for name in files)
    assert all(value.startswith(("#", "data:")) for _, _, value in addresses if value not in files), addresses
    style = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert "url(" not in style
    assert "@import" not in style
    policy = next(e["content"] for e in Elements(page).found if e.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_what_the_run_says_cannot_become_markup_or_script(new_run: Callable[..., Path]) -> None:
    folder = RunFolder(new_run(scenario=f"name {EVIL}"))
    for cell in folder.cells():
        document = json.loads(
            json.dumps(cell.cell().document()).replace("create the link", "TITLE").replace("0.1.0", "VERSION")
        )
        for step in document["steps"]:
            step["title"] = step["command"] = step["host"] = EVIL
        cell.write_cell(document)
        if document["status"] == "ok":
            cell.write_facts("before", {EVIL: {EVIL: EVIL}})
    result = renamed(folder.result(), "loads", EVIL)
    result["label"] = EVIL
    result["reasons"][0]["actual"] = EVIL
    folder.write_result(result)
    page = write_report(folder, formats=())
    assert page.read_text().count("<script") == 10
    dom = acted(page, OPEN_ALL)
    assert body(dom)["data-ready"] == "true" and not still_packed(dom)
    assert "data-hacked" not in body(dom)
    assert [element for element in Elements(dom).found if element.tag == "img"] == []
    assert len([element for element in Elements(dom).found if element.tag == "script"]) == 11, (
        "the page's, and the one that acts"
    )


def only(result: dict[str, Any], stream: str, metric: str) -> dict[str, Any]:
    """The result with nothing but one metric of one stream."""
    for cell in result["cells"]:
        for block in cell["streams"].values():
            block["metrics"] = {metric: block["metrics"][metric]}
        cell["streams"] = {name: block for name, block in cell["streams"].items() if name == stream}
    return result


def renamed(result: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    """The result with this matrix value in every cell."""
    for cell in result["cells"]:
        cell["cell"] = {key: value}
    return result


def test_the_page_explains_itself(all_opened: str) -> None:
    text = re.sub(r"<script.*?</script>", "", all_opened, flags=re.DOTALL)
    for said in (
        "suspect",
        "CPU 1 takes part in load balancing",
        "boot with isolcpus=1",
        "measured",
        "no iperf3 on this machine",
        "812 Mbit/s",
        "EXCEEDED",
        "rx_user − launch",
        "standard deviation of the population",
        "the receiving kernel",
        "ip link add eth0 type veth peer name eth0 netns ecu",
        "irq.24.affinity",
        "Example &lt;CPU&gt; &amp; Co",
        "versions.latlab-agent",
    ):
        assert said in text, said


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(new_run: Callable[..., Path]) -> None:
    run = new_run()
    folder = RunFolder(run)
    kept = only(folder.result(), "status", "latency")
    for compared in kept["comparisons"]:
        compared["comparisons"] = [one for one in compared["comparisons"] if one["stream"] == "status"]
    kept["comparisons"] = [compared for compared in kept["comparisons"] if compared["metric"] == "latency"]
    folder.write_result(kept)

    def files() -> dict[str, bytes]:
        write_report(run, formats=("png", "svg"))
        made = [run / "report.html", *sorted((run / "pictures").iterdir())]
        return {path.name: path.read_bytes() for path in made}

    first = files()
    assert set(first) == {
        "report.html",
        "status-latency-chain.png",
        "status-latency-chain.svg",
        "status-latency-together.png",
        "status-latency-together.svg",
        "status-latency.png",
        "status-latency.svg",
        "status-latency-ccdf.png",
        "status-latency-ccdf.svg",
        "status-latency-comparison.png",
        "status-latency-comparison.svg",
        "status-latency-repeats.png",
        "status-latency-repeats.svg",
    }
    assert files() == first


def test_a_run_with_no_cell_that_ran_still_has_a_page(new_run: Callable[..., Path]) -> None:
    folder = RunFolder(new_run())
    result = folder.result()
    result["cells"] = [cell for cell in result["cells"] if cell["status"] != "ok"]
    folder.write_result(result)
    dom = opened(write_report(folder, formats=()))
    assert body(dom)["data-ready"] == "true"
    assert "No cell of this run has figures" in dom


def headings(page: str, table: str) -> list[str]:
    """The column headings of the table with this caption."""
    found = re.search(rf"<caption>{table}.*?<tr>(.*?)</tr>", page, re.DOTALL)
    assert found
    return re.findall(r"<th[^>]*>(.*?)</th>", found[1])


def test_counts_that_are_zero_everywhere_take_no_room_and_those_that_are_not_do(new_run: Callable[..., Path]) -> None:
    folder = RunFolder(new_run())
    usual = ["cell", "repeat", "stream", "scheduled", "warmup", "sent", "received", "lost"]
    page = write_report(folder, formats=()).read_text()
    assert headings(page, "Packets of the whole stream") == usual
    assert "Packets that listeners refused" not in page
    result = folder.result()
    result["cells"][0]["refused"] = {"ecu": {"foreign": 0, "truncated": 5, "other_run": 0}}
    result["cells"][0]["streams"]["control"]["counts"]["out_of_range"] = 2
    folder.write_result(result)
    page = write_report(folder, formats=()).read_text()
    assert headings(page, "Packets of the whole stream") == [*usual, "out of range"]
    assert headings(page, "Packets that listeners refused") == ["cell", "repeat", "listener", "truncated"]


def test_the_page_says_what_was_found_and_where_the_slowest_packet_lost_its_time(reported_run: Path) -> None:
    page = (reported_run / "report.html").read_text()
    assert "the agents&#39; CPUs are not isolated" in page
    assert "the agents&#39; CPUs are isolated" not in page.partition('<section id="trust">')[0]
    slowest = RunFolder(reported_run).result()["cells"][0]["streams"]["control"]["metrics"]["latency"]
    assert re.search(rf"max [\d.]+ is packet {slowest['max_sequence']}: wake-up [\d.]+ \+ prepare ", page)


def test_the_page_says_what_the_scenario_is_for(new_run: Callable[..., Path]) -> None:
    folder = RunFolder(new_run())
    rewrite_run(folder, description="A sensor's stream & <its> load")
    page = write_report(folder, formats=()).read_text()
    assert "<p>A sensor&#39;s stream &amp; &lt;its&gt; load</p>" in page


CCDF_POINTS = "document.querySelector('.ccdf[data-stream=up]').dataset.points"
LEGEND = ".ccdf[data-stream=up] .legend"


def test_the_legend_names_each_dimension_once_and_what_its_colour_dash_or_marker_says(matrix_run: Path) -> None:
    dom = opened(matrix_run / "report.html")
    legend = re.search(r'<div class="legend">(.*?)</figure>', dom, re.DOTALL)
    assert legend
    rows = legend[1].split('role="group"')[1:]
    said = [re.findall(r"<span class=\"quiet\">(.*?)</span>|</svg>(.*?)</button>", row) for row in rows]
    assert [["".join(one) for one in row] for row in said] == [
        ["bridge", "tap", "macvtap", "xdp"],
        ["loads", "none", "load-down", "load-up"],
        ["repeat", "1", "2", "3"],
    ]
    assert [re.findall(r'class="swatch (.*?)"', row) for row in rows] == [
        ["line-0", "line-1", "line-2"],
        *[["any"] * 3] * 2,
    ]
    assert re.findall(r'stroke-dasharray="(.*?)"', rows[1]) == ["", "6 2", "2 2"]
    assert [row.count("<path") for row in rows] == [3, 3, 5]


def test_a_value_of_the_legend_hides_every_line_that_has_it_and_shows_them_again(matrix_run: Path) -> None:
    script = f"""const seen = [];
      const press = async (text) => {{
        [...document.querySelectorAll('{LEGEND} button')].find((one) => one.textContent === text).click();
        await new Promise((done) => setTimeout(done, 50));
        seen.push({CCDF_POINTS});
      }};
      for (const text of ['tap', 'load-up', '2', 'tap', 'load-up', '2']) await press(text);
      document.body.dataset.seen = seen.join(' ');"""
    dom = acted(matrix_run / "report.html", script)
    # 3 bridges, 3 loads and 3 repetitions of 1400 packets each.
    assert [int(points) / 1400 for points in body(dom)["data-seen"].split()] == [18, 12, 8, 12, 18, 27]


WIDTHS = """document.body.dataset.widths = JSON.stringify({
      page: [document.documentElement.scrollWidth, document.documentElement.clientWidth],
      boxes: [...document.querySelectorAll('.scroll')].filter((box) => box.offsetParent)
        .map((box) => [box.scrollWidth, box.clientWidth, box.querySelector('table').className]),
    });"""


def widths(page: Path, window: int) -> dict[str, Any]:
    """[content, room] of the page and of each box that is shown, in a window of this width."""
    found: dict[str, Any] = json.loads(
        html.unescape(body(acted(page, WIDTHS, f"--window-size={window},1000"))["data-widths"])
    )
    return found


def test_every_column_can_be_read_in_a_window_of_1280_pixels(slow_matrix_run: Path) -> None:
    found = widths(slow_matrix_run / "report.html", 1280)
    assert found["page"][0] <= found["page"][1]
    assert [box[2].split()[0] for box in found["boxes"] if box[2]].count("numbers") > 2
    assert [box for box in found["boxes"] if box[0] > box[1]] == []


@pytest.mark.parametrize("window", [1024, 720, 500])
def test_in_a_narrower_window_tables_scroll_in_their_own_boxes(slow_matrix_run: Path, window: int) -> None:
    found = widths(slow_matrix_run / "report.html", window)
    assert found["page"][0] <= found["page"][1]
    assert any(box[0] > box[1] for box in found["boxes"])
