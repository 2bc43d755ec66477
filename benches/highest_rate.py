"""The highest rate at which every packet has all its software timestamps and nothing is lost: one talker, one listener.

    benches/highest_rate.py [--seconds 3] [--tries 3]

By BPF programs and by the socket's error queue, in turns. Rates are tried upwards until none of `--tries` runs at one
is whole. Two figures of each come of it: up to where every run was whole, and up to where one was (a machine shared
with others is sometimes away for longer than any buffer holds).
"""

from __future__ import annotations

import argparse
import asyncio

import polars as pl
from bed import Measured, Setting, need_root, ours, two_namespaces

from latlab.testbed.apply import TestBed

RATES = (10_000, 25_000, 50_000, 75_000, 100_000, 125_000, 150_000, 200_000, 250_000, 300_000, 400_000)
WAYS = ("ebpf", "socket")
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


async def is_whole(bed: TestBed, setting: Setting) -> bool:
    """Whether all timestamps were taken at the rate asked for; a line says so."""
    measured, rate = await ours(bed, setting), 1_000_000_000 / setting.period_ns
    wrong = faults(measured, setting)
    # The rate really kept: a talker that falls behind still sends everything, only later.
    sent = measured.packets.select(pl.col("submit_tai_ns").max() - pl.col("submit_tai_ns").min()).item()
    kept = setting.packets / (sent / 1e9)
    print(f"{rate:8.0f} packets/s by {setting.stamped_by}: {wrong or 'whole'}; sent {kept:9.0f}/s", flush=True)
    return not wrong and kept > 0.99 * rate


async def main() -> None:
    """Tries the rates upwards and prints what each came to."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=3.0)
    arguments.add_argument("--tries", type=int, default=3)
    given = arguments.parse_args()
    need_root()
    always, sometimes = dict.fromkeys(WAYS, 0), dict.fromkeys(WAYS, 0)
    trying = list(WAYS)
    for rate in RATES:
        settings = {way: Setting(1_000_000_000 // rate, seconds=given.seconds, stamped_by=way) for way in trying}
        held = dict.fromkeys(trying, 0)
        async with two_namespaces(next(iter(settings.values()))) as bed:
            for _ in range(given.tries):
                for way, setting in settings.items():
                    held[way] += await is_whole(bed, setting)
        for way in trying:
            always[way] = rate if held[way] == given.tries and always[way] == sometimes[way] else always[way]
            sometimes[way] = rate if held[way] else sometimes[way]
        trying = [way for way in trying if held[way]]
        if not trying:
            break
    for way in WAYS:
        print(
            f"by {way}: all {given.tries} tries whole up to {always[way]} packets/s, one of them up to {sometimes[way]}"
        )
    first, second = (sometimes[way] for way in WAYS)
    print(f"{' ÷ '.join(WAYS)}, where one was whole: {first / second if second else float('inf'):.2f}")


if __name__ == "__main__":
    asyncio.run(main())
