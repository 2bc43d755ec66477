"""Size of a report page, and seconds to make and to open it: `benches/report_page.py [--packets N] [RUN…]`.

Without a RUN: a matrix of 12 cells (4 bridges, one of which is unavailable, × 3 loads), both ways, 3 times, made of
numbers, with N packets a stream, and as many facts of three hosts as real ones have. The page is made without pictures,
then opened in Chromium without a window of 1280 by 900 pixels: seconds until what is in the window is drawn and
answers, and until every chart is, count from its opening, the best of five.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from latlab.recordings.run_folder import RunFolder  # noqa: E402
from latlab.report.build import write_report  # noqa: E402
from support.report import matrix as matrix_run  # noqa: E402
from support.report.browser import Browser  # noqa: E402


def main() -> None:
    """Print a line of JSON for each run."""
    parser = argparse.ArgumentParser(description="size of a report page, and seconds to make and open it")
    parser.add_argument("--packets", type=int, default=1_500, help="of each stream of each cell")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the run there, or take the one that is there")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="a run folder with its result")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="latlab-bench-") as root:
        runs = arguments.runs or [
            made(arguments.keep or Path(root) / "20261121-205152-bridges-3f9a", arguments.packets)
        ]
        for run in runs:
            print(json.dumps(measured(run)))


def made(folder: Path, packets: int) -> Path:
    """A run of so many packets in each stream; the one that is there."""
    if not folder.exists():
        folder.mkdir(parents=True)
        matrix_run.COUNT = packets
        matrix_run.write_matrix_run(folder)
        run = RunFolder(folder)
        for cell in run.cells():
            for number, moment in enumerate(("before", "after")):
                cell.write_facts(moment, {host: facts(host, number) for host in ("board1", "sensor", "ecu")})
    return folder


def facts(host: str, after: int) -> dict[str, Any]:
    """450 facts that are the same in all cells, and 25 that change while one runs: about as many as a board has."""
    same: dict[str, Any] = {f"group{n // 15}": {} for n in range(450)} | {
        "kernel": {"release": "6.12.117+deb12-rt-amd64"}
    }
    for n in range(450):
        same[f"group{n // 15}"][f"setting_{n}"] = f"{host}: value {n * 7919 % 1000}"
    return same | {"counters": {f"interrupts_{n}": 10_000 * n + 137 * after * n for n in range(1, 26)}}


def measured(run: Path) -> dict[str, float | int | str]:
    """The page's size, and how long it takes to be made and to be ready."""
    began = time.perf_counter()
    page = write_report(run, formats=())
    seconds = time.perf_counter() - began
    with Browser() as browser:
        drawn, interactive = [], []
        for _ in range(5):
            drawn.append(browser.show(page))
            interactive.append(browser.run("window.interactiveAt / 1000"))
        charts = browser.run("document.querySelectorAll('[data-chart]').length")
    return {
        "run": run.name,
        "bytes": page.stat().st_size,
        "bytes_of_data": len(page.read_text().partition('id="data">')[2].partition("</script>")[0].encode()),
        "seconds_to_make": round(seconds, 2),
        "seconds_until_interactive": round(min(interactive), 2),
        "seconds_until_all_is_drawn": round(min(drawn), 2),
        "charts": charts,
    }


if __name__ == "__main__":
    main()
