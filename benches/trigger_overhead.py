"""What a flight recorder costs the packets that it judges: a stream without it, with it, and with a whole trace.

    benches/trigger_overhead.py [--rounds 10] [--seconds 10] [--period 1000] [--above 500us] [--cpus 0,1]

Each measurement is a run of one cell between two namespaces, its ends pinned and SCHED_FIFO: without anything, with
`trigger: latency > ABOVE`, and with `listener: {trace: true}`, alternately. Printed: median, p99.9 and maximum of each
run of the latency up to the application (rx_user − launch), how many windows the recorder kept, and the size of the
trace's recordings; then for median and p99.9 the geometric mean of with ÷ without over the rounds, with its 95 %
interval.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

from bed import TALKER_FIFO, mean_ratio, need_root
from live_overhead import took
from numpy.typing import NDArray
from rounds import COMPARED, side_by_side

from latlab.run.matrix import run
from latlab.scenario import load_scenario

WITHOUT: Final = "without"
PARTS: Final = {WITHOUT: ("", ""), "trigger": ("trigger: latency > ABOVE", ""), "trace": ("", ", trace: true")}
"""What stands in the scenario, and what in the listener's tuning."""
RECORDED: Final = ("trace", "tasks")


def scenario(name: str, given: argparse.Namespace) -> str:
    """Its text: a stream from `sensor` to `ecu`, with this part."""
    sends, receives = given.cpus.split(",")
    whole, listener = PARTS[name]
    return f"""
name: {name}
hosts: {{sensor: {{kind: netns}}, ecu: {{kind: netns}}}}
links: [{{ends: [sensor.eth0, ecu.eth0]}}]
streams: {{one: {{talker: sensor, listener: ecu, size: 64B, period: {given.period}us}}}}
tuning:
  sensor: {{talker: {{fifo: {TALKER_FIFO}, cpus: [{sends}]}}}}
  ecu: {{listener: {{fifo: 80, cpus: [{receives}]{listener}}}}}
{whole.replace("ABOVE", given.above)}
duration: {round(given.seconds * 1000)}ms
"""


async def measured(name: str, given: argparse.Namespace) -> NDArray[Any]:
    """How long each packet took in one run, ns."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "trigger.yaml")
        path.write_text(scenario(name, given))
        folder = await run(load_scenario(path), Path(place))
        (cell,) = folder.cells()
        found = cell.cell()
        if found.status != "ok":
            raise SystemExit(str(found.reason))
        tables = [path for table in RECORDED for path in cell.path.glob(f"*.{table}.arrow")]
        if tables:
            windows = sum(one.totals.kept.windows for one in found.agents if one.totals.kept)
            kept = f", {windows} windows" if name == "trigger" else ""
            print(f"  {name}: {sum(path.stat().st_size for path in tables) / 1e6:.2f} MB recorded{kept}", flush=True)
        return took(cell.path)


async def main() -> None:
    """Runs the rounds and prints each, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=10, help="of each measurement")
    arguments.add_argument("--period", type=int, default=1000, help="µs")
    arguments.add_argument("--above", default="500us", help="packets that are later are kept")
    arguments.add_argument("--cpus", default="0,1", help="of who sends, and of who receives")
    given = arguments.parse_args()
    need_root()
    found = await side_by_side({name: partial(measured, name, given) for name in PARTS}, given.rounds)
    for name in (name for name in PARTS if name != WITHOUT):
        for figure in COMPARED:
            ratio = mean_ratio(found[figure][name], found[figure][WITHOUT])
            print(f"  {figure:7}  {name:7} ÷ {WITHOUT}  {ratio}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
