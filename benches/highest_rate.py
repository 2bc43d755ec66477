"""The highest rate at which every packet has all its software timestamps and nothing is lost: one talker, one listener.

    benches/highest_rate.py [--seconds 3] [--tries 3]

Rates are tried upwards until none of `--tries` runs at one is whole. Two figures come of it: up to where every run was
whole, and up to where one was (a machine shared with others is sometimes away for longer than any buffer holds).
"""

from __future__ import annotations

import argparse
import asyncio

import polars as pl
from bed import Measured, Setting, need_root, ours, two_namespaces

RATES = (10_000, 25_000, 50_000, 75_000, 100_000, 125_000, 150_000, 200_000, 250_000)
STAMPS = ("tx_sched_tai_ns", "tx_soft_tai_ns", "rx_soft_tai_ns", "rx_user_tai_ns")


def faults(measured: Measured, setting: Setting) -> str:
    """What is not whole, in words; empty when every packet arrived with every timestamp."""
    packets = measured.packets
    missing = {name: count for name in STAMPS if (count := packets[name].null_count())}
    words = [f"{count} without {name.removesuffix('_tai_ns')}" for name, count in missing.items()]
    if packets.height != setting.packets:
        words.append(f"{packets.height} rows for {setting.packets} packets")
    for verb, said in (("talker", measured.talk), ("listener", measured.listen)):
        if said["ring_full"]:
            words.append(f"{verb}'s ring full {said['ring_full']} times")
    return ", ".join(words)


async def main() -> None:
    """Tries the rates upwards and prints what each came to."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--tries", type=int, default=3)
    given = arguments.parse_args()
    need_root()
    always = sometimes = 0
    for rate in RATES:
        setting = Setting(1_000_000_000 // rate, seconds=given.seconds)
        held = 0
        async with two_namespaces(setting) as bed:
            for number in range(given.tries):
                measured = await ours(bed, setting)
                wrong = faults(measured, setting)
                # The rate really kept: a talker that falls behind still sends everything, only later.
                sent = measured.packets.select(pl.col("submit_tai_ns").max() - pl.col("submit_tai_ns").min()).item()
                kept = setting.packets / (sent / 1e9)
                held += not wrong and kept > 0.99 * rate
                print(f"{rate:8} packets/s, try {number + 1}: {wrong or 'whole'}; sent {kept:9.0f}/s", flush=True)
        always = rate if held == given.tries and always == sometimes else always
        sometimes = rate if held else sometimes
        if not held:
            break
    stamps = f"every packet with {len(STAMPS)} software timestamps, none lost"
    print(f"highest rate at which all {given.tries} tries were whole: {always} packets/s ({stamps})")
    print(f"highest rate at which one of them was: {sometimes} packets/s")


if __name__ == "__main__":
    asyncio.run(main())
