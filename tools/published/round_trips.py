"""Round trips and two-way latency (Linaro, 2022)."""

from __future__ import annotations

from typing import Final

from published.claims import Claim, Of, differ, times
from published.experiment import MICROSECONDS, Entry, Experiment, Ours, Part, Picture, Published, Table


def _two(bridge: str, probe: str, leg: str, load: str) -> Of:
    return Of(f"bridge={bridge}, probes={probe}, loads={load}", "latency_user", f"{probe}.{leg}")


_BRIDGES: Final = ("vfio",)
_LEGS: Final = (
    ("as-sensor", "up", "load-up"),
    ("as-sensor", "down", "load-down"),
    ("as-ecu", "up", "load-down"),
    ("as-ecu", "down", "load-up"),
)
"""A leg, and the load that its sender sends. Up: from who asks."""
_LINE: Final = "Here a token bucket of 100 Mbit/s at each end stands for the line."


def _other(load: str) -> str:
    return {"load-up": "load-down", "load-down": "load-up"}[load]


def _two_rows() -> list[tuple[Entry, ...]]:
    loads = {"idle": "none", "3 netperf the same way": "", "3 netperf the other way": "other"}
    rows: list[tuple[Entry, ...]] = []
    for asks, probe, same in (("VM asks", "as-sensor", "load-up"), ("VM answers", "as-ecu", "load-down")):
        for text, load in loads.items():
            at = {"none": "none", "": same, "other": _other(same)}[load]
            rows.append(
                (
                    f"{asks}, VFIO, {text}",
                    Published(f"{asks}, VFIO, {text}: up"),
                    Ours(_two("vfio", probe, "up", at)),
                    Published(f"{asks}, VFIO, {text}: down"),
                    Ours(_two("vfio", probe, "down", at)),
                )
            )
    return rows


def _kernels(flavour: str, pinned: bool, leg: str, load: str) -> Of:
    tuning = "vm1!=without" if pinned else "vm1~=without"
    return Of(f"flavour={flavour}, {tuning}, loads={load}", "latency_user", f"as-ecu.{leg}")


def _kernel_rows() -> list[tuple[Entry, ...]]:
    rows: list[tuple[Entry, ...]] = []
    for pinned, named in ((False, ""), (True, "pinned, ")):
        for text, load in (("idle", "none"), ("3 netperf", "load-down")):
            row = f"VM answers, macvtap, taprio offload, {named}{text}"
            for leg in ("up", "down"):
                ours = [Ours(_kernels(flavour, pinned, leg, load)) for flavour in ("rt", "standard")]
                rows.append((f"{row}: {leg}", Published(f"{row}: {leg}"), *ours))
    return rows


def _rr(bridge: str, probe: str = "vm") -> Of:
    return Of(f"bridge={bridge}, probes={probe}", "round_trip_sent", probe)


_HOST: Final = Of("probes=host", "round_trip_sent", "host")
_VIRTIO: Final = ("tap", "macvtap", "ovs", "xdp")


def _rr_row(name: str, ours: Of, mvpp2: str = "", i225: str = "", rt: str = "") -> tuple[Entry, ...]:
    published = [Published(row) if row else "–" for row in (mvpp2, i225, rt)]
    return name, *published, Ours(ours)


ROUND_TRIPS = Experiment(
    "round-trips",
    "Round trips, and latency in each direction",
    "Linaro, T. Akashi, weekly report, week ending 15 July 2022",
    "How long are round trips of a virtual machine, how long there and how long back, idle and with load either way?",
    [
        Part(
            "two-way-board",
            "latency_user",
            "Up and down apart",
            [
                Table(
                    "min / avg ± / max / stddev, µs. Up is from who asks to who answers.",
                    "µs",
                    ("", "up: published", "up: ours", "down: published", "down: ours"),
                    _two_rows(),
                )
            ],
            [
                Claim(
                    "A latency into the VM is always larger than one out of it (idle)",
                    differ(
                        [(b, _two(b, "as-sensor", "up", "none"), _two(b, "as-ecu", "up", "none")) for b in _BRIDGES], 0
                    ),
                    MICROSECONDS,
                ),
                Claim(
                    "Senders contend: load from a leg's sender makes the leg slower",
                    times(
                        [
                            (f"{b} {p} {leg}", _two(b, p, leg, "none"), _two(b, p, leg, own))
                            for b in _BRIDGES
                            for p, leg, own in _LEGS
                        ],
                        1,
                    ),
                    _LINE,
                ),
                Claim(
                    "Receiving hardly affects sending: load into a leg's sender slows the leg less than load out of it",
                    times(
                        [
                            (f"{b} {p} {leg}", _two(b, p, leg, _other(own)), _two(b, p, leg, own))
                            for b in _BRIDGES
                            for p, leg, own in _LEGS
                        ],
                        1,
                    ),
                    _LINE + " Frames that arrive take the CPU of the thread that sends.",
                ),
            ],
            [
                Picture(
                    "as-sensor.up-latency_user-together.png", "two-way-from-vm", "From the virtual machine that asks"
                ),
                Picture(
                    "as-ecu.up-latency_user-together.png", "two-way-into-vm", "Into the virtual machine that answers"
                ),
            ],
            "The report's author calls his figures of VFIO just for reference. Here both ends are namespaces of one "
            "emulated board, a token bucket of 100 Mbit/s at each end stands for the line, and loads are iperf3's, of "
            "80 Mbit/s together. No taprio: the emulated card cannot offload it.",
        ),
        Part(
            "two-way-kernels-board",
            "latency_user",
            "PREEMPT_RT or not, pinned or not",
            [
                Table(
                    "min / avg ± / max / stddev, µs, of the VM host's kernel. The report's table is of PREEMPT_RT's "
                    "bench.",
                    "µs",
                    ("", "published", "ours: PREEMPT_RT", "ours: standard kernel"),
                    _kernel_rows(),
                )
            ],
            [
                Claim(
                    "An RT kernel always has some overhead (idle)",
                    differ(
                        [
                            (f"{leg}", _kernels("standard", False, leg, "none"), _kernels("rt", False, leg, "none"))
                            for leg in ("up", "down")
                        ],
                        0,
                    ),
                    MICROSECONDS,
                ),
                Claim(
                    "An RT kernel does not reduce latencies here (with load; at most 10 % shorter)",
                    times(
                        [
                            (
                                f"{leg}",
                                _kernels("standard", False, leg, "load-down"),
                                _kernels("rt", False, leg, "load-down"),
                            )
                            for leg in ("up", "down")
                        ],
                        0.9,
                    ),
                    "vCPU, vhost and QEMU run with SCHED_FIFO here; the report names no such setting.",
                ),
                Claim(
                    "Pinning makes little difference: no improvement (at most 10 % shorter)",
                    times(
                        [
                            (f"{leg} {load}", _kernels("rt", False, leg, load), _kernels("rt", True, leg, load))
                            for leg in ("up", "down")
                            for load in ("none", "load-down")
                        ],
                        0.9,
                    ),
                    "The report pins the whole virtual machine to one CPU; here vCPU, vhost and QEMU have a CPU each.",
                ),
            ],
            [
                Picture(
                    "as-ecu.up-latency_user-together.png",
                    "two-way-kernels",
                    "Into the virtual machine, by kernel and pinning",
                )
            ],
            "The guest has Debian's standard kernel, as in the report. No taprio: the emulated card cannot offload it.",
            ("--board", "--board --flavour standard", "debian-standard"),
        ),
        Part(
            "netperf-rr-board",
            "round_trip_sent",
            "Round trips of TCP",
            [
                Table(
                    "min / avg ± / max / stddev, µs, one transaction each 10 ms (ours: 10.1 ms).",
                    "µs",
                    ("", "published: mvpp2, 5.10", "published: i225, 5.18", "published: i225, PREEMPT_RT", "ours"),
                    [
                        _rr_row(
                            "host2 to host1",
                            _HOST,
                            "host2 to host1, mvpp2, kernel 5.10",
                            "host2 to host1, i225, kernel 5.18",
                            "host2 to host1, i225, PREEMPT_RT",
                        ),
                        _rr_row("vm to host1, tap", _rr("tap"), "vm to host1, tap, mvpp2"),
                        _rr_row("vm to host1, macvtap", _rr("macvtap"), "vm to host1, macvtap, mvpp2"),
                        _rr_row(
                            "vm to host1, VFIO",
                            _rr("vfio"),
                            "",
                            "vm to host1, VFIO, i225",
                            "vm to host1, VFIO, i225, PREEMPT_RT host",
                        ),
                        _rr_row("vm to host1, Open vSwitch", _rr("ovs"), "vm to host1, Open vSwitch, mvpp2"),
                        _rr_row("vm to host1, eBPF (XDP)", _rr("xdp"), "vm to host1, XDP, mvpp2"),
                    ],
                )
            ],
            [
                Claim(
                    "A virtual machine adds tens of µs to the host's round trip (10 to 100)",
                    differ([(b, _HOST, _rr(b)) for b in (*_VIRTIO, "vfio")], 10, 100),
                    MICROSECONDS,
                ),
                Claim(
                    "XDP is not much shorter than the other bridges (not below 0.8 of any)",
                    times([(b, _rr(b), _rr("xdp")) for b in _VIRTIO if b != "xdp"], 0.8),
                    MICROSECONDS,
                ),
                Claim("VFIO adds least", differ([(b, _rr("vfio"), _rr(b)) for b in _VIRTIO], 0), MICROSECONDS),
            ],
            [
                Picture(
                    "vm-round_trip_sent-together.png",
                    "netperf-rr",
                    "Round trips of the virtual machine by bridge, all repetitions",
                )
            ],
            "Transactions are latlab's own ping over TCP, at the rate of netperf's. The report has bridges on one "
            "card and VFIO on another; here all use one emulated card.",
        ),
    ],
)
