"""Wake-up latency: latlab's talker against `cyclictest`, same period, priority and CPU.

    benches/wakeup_cyclictest.py [--rounds 5] [--period 1000]

The two run in turn, round by round. latlab's talker does its work meanwhile: it sends a packet after each wake-up,
which cyclictest does not. Both figures are from the planned wake-up to the thread running, in ns.
"""

from __future__ import annotations

import argparse
import asyncio

import numpy as np
from bed import TALKER_CPU, TALKER_FIFO, Setting, need_root, ours, quantile, ratios, tool, two_namespaces
from numpy.typing import NDArray


def cyclictest(setting: Setting) -> NDArray[np.int64]:
    """The latency of each cycle, in ns."""
    command = ["cyclictest", "--verbose", "--nsecs", "--mlockall", "--threads=1", f"--affinity={TALKER_CPU}",
               f"--priority={TALKER_FIFO}", "--policy=fifo", f"--interval={setting.period_ns // 1000}",
               f"--loops={setting.packets}"]  # fmt: skip
    printed = tool(command, setting.seconds + 30)
    rows = [line.split(":") for line in printed.splitlines() if line.count(":") == 2]
    return np.array([int(value) for _, cycle, value in rows if int(cycle) > 0], dtype=np.int64)


async def main() -> None:
    """Runs the rounds and prints each figure of each round, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--period", type=int, default=1000, help="µs")
    given = arguments.parse_args()
    need_root()
    setting = Setting(given.period * 1000)
    medians: dict[str, list[float]] = {"latlab": [], "cyclictest": []}
    async with two_namespaces(setting) as bed:
        for number in range(given.rounds):
            for name in sorted(medians, reverse=bool(number % 2)):
                if name == "latlab":
                    values = (await ours(bed, setting)).difference("wake_tai_ns", "wake_due_tai_ns")
                else:
                    values = await asyncio.to_thread(cyclictest, setting)
                medians[name].append(quantile(values, 0.5))
                p999, most = quantile(values, 0.999) / 1000, float(values.max()) / 1000
                print(
                    f"round {number + 1}  {name:10}  n {len(values):6}  median {medians[name][-1] / 1000:7.2f} µs  "
                    f"p99.9 {p999:8.1f} µs  max {most:8.1f} µs",
                    flush=True,
                )
    print(
        f"latlab ÷ cyclictest, median wake-up, min / median / max: {ratios(medians['latlab'], medians['cyclictest'])}"
    )


if __name__ == "__main__":
    asyncio.run(main())
