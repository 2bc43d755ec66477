"""Round trips and two-way latency (Linaro, 2022)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from latlab.report.charts import sheet as on
from published.claims import US, Claim, Figures, Of, differ, times
from published.experiment import EXITS, MICROSECONDS, Entry, Experiment, Ours, Part, Picture, Published, Table
from published.pictures import Row, of_bridge, repetitions


def _two(probe: str, leg: str, load: str) -> Of:
    return Of(f"bridge=vfio, probes={probe}, loads={load}", "latency_user", f"{probe}.{leg}")


_LEGS: Final = (
    ("as-sensor", "up", "load-up"),
    ("as-sensor", "down", "load-down"),
    ("as-ecu", "up", "load-down"),
    ("as-ecu", "down", "load-up"),
)
"""A leg, and the load that its sender sends. Up: from who asks."""
_QDISC: Final = ("tx_sched", "tx_soft")
_CLOCK: Final = "The clock counts the instructions of all CPUs: any load slows every leg."


def _leg(probe: str, leg: str) -> str:
    return f"{'VM asks' if probe == 'as-sensor' else 'VM answers'}, {leg}"


def _beside(probe: str, leg: str, load: str) -> tuple[Of, Of]:
    """The leg idle, and next to this load."""
    return _two(probe, leg, "none"), _two(probe, leg, load)


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
                    Ours(_two(probe, "up", at)),
                    Published(f"{asks}, VFIO, {text}: down"),
                    Ours(_two(probe, "down", at)),
                )
            )
    return rows


def _ranges(of: Of, *names: str) -> Iterator[Callable[[Figures], str]]:
    """The least and the greatest of the repetitions, µs, of each of these figures."""
    for name in names:

        def text(figures: Figures, name: str = name) -> str:
            values = sorted(figures.values(of, name).values())
            ends = dict.fromkeys(f"{one / US:,.1f}" for one in (values[:1] + values[-1:]))
            return " to ".join(ends) or "–"

        yield text


def _queued(of: Of) -> Callable[[Figures], str]:
    """Which share of the delay of its late packets a leg has in its sender's qdisc, in each repetition."""

    def text(figures: Figures) -> str:
        chains = (one["metrics"].get(of.metric, {}).get("chain") for one in figures.blocks(of.cells, of.stream))
        shares = sorted(
            next((100 * one["share"] for one in chain["worst"]["grew"] if (one["from"], one["to"]) == _QDISC), 0)
            for chain in chains
            if chain
        )
        return " to ".join(dict.fromkeys(f"{one:.0f} %" for one in (shares[:1] + shares[-1:]))) or "–"

    return text


def _own_rows() -> list[tuple[Entry, ...]]:
    """The legs beside load of their own direction: what their repetitions differ in."""
    return [
        (_leg(probe, leg), *_ranges(of, "p50", "mean", "max"), _queued(of))
        for probe, leg, load in _LEGS
        for of in [_two(probe, leg, load)]
    ]


def _two_drawn() -> Iterator[tuple[str, list[Row]]]:
    for probe, leg, own in _LEGS:
        into = "out of" if (probe == "as-sensor") == (leg == "up") else "into"
        loads = {"idle": "none", "load in its own direction": own, "load against it": _other(own)}
        yield (
            f"{_leg(probe, leg)}: {into} the virtual machine",
            [Row(name, _two(probe, leg, load), of_bridge("vfio")) for name, load in loads.items()],
        )


def _kernels_drawn() -> Iterator[tuple[str, list[Row]]]:
    for leg, title in (("up", "VM answers, up: into the virtual machine"), ("down", "VM answers, down: out of it")):
        yield (
            title,
            [
                Row(f"{pinned}{name}, {kernel}", _kernels(flavour, bool(pinned), leg, load), of_bridge("macvtap"))
                for name, load in (("idle", "none"), ("3 netperf", "load-down"))
                for pinned in ("", "pinned, ")
                for flavour, kernel in (("rt", "PREEMPT_RT"), ("standard", "standard kernel"))
            ],
        )


def _kernels(flavour: str, pinned: bool, leg: str, load: str) -> Of:
    tuning = "pinned" if pinned else "not pinned"
    return Of(f"flavour={flavour}, vm1={tuning}, loads={load}", "latency_user", f"as-ecu.{leg}")


def _by_kernel(leg: str, load: str) -> tuple[Of, Of]:
    return _kernels("standard", False, leg, load), _kernels("rt", False, leg, load)


_HELP: Final = 0.949
"""230.4 / 242.9: the least pinned / not pinned that the author still calls no improvement."""


def _kernel_rows() -> list[tuple[Entry, ...]]:
    rows: list[tuple[Entry, ...]] = []
    for pinned, named in ((False, ""), (True, "pinned, ")):
        for text, load in (("idle", "none"), ("3 netperf", "load-down")):
            row = f"VM answers, macvtap, taprio offload, {named}{text}"
            for leg in ("up", "down"):
                ours = [Ours(_kernels(flavour, pinned, leg, load)) for flavour in ("rt", "standard")]
                rows.append((f"{named}{text}: {leg}", Published(f"{row}: {leg}"), *ours))
    return rows


def _rr(bridge: str, probe: str = "vm") -> Of:
    return Of(f"bridge={bridge}, probes={probe}", "round_trip_sent", probe)


_HOST: Final = Of("probes=host", "round_trip_sent", "host")
_VIRTIO: Final = ("tap", "macvtap", "ovs", "xdp")
_NAMES: Final = {"tap": "tap", "macvtap": "macvtap", "vfio": "VFIO", "ovs": "Open vSwitch", "xdp": "XDP"}


def _rr_drawn(probe: str) -> list[Row]:
    return [Row(f"vm to host1, {name}", _rr(bridge, probe), of_bridge(bridge)) for bridge, name in _NAMES.items()]


def _rr_row(name: str, bridge: str, mvpp2: str = "", i225: str = "", rt: str = "") -> tuple[Entry, ...]:
    published = [Published(f"{name}, {bench}") if bench else "–" for bench in (mvpp2, i225, rt)]
    ours = _rr(bridge) if bridge else _HOST
    loop = Ours(_rr(bridge, "vm-loop")) if bridge else ""
    return name, *published, Ours(ours), Ours(ours, ("n",)), loop


ROUND_TRIPS = Experiment(
    "round-trips",
    "Round trips, and latency in each direction",
    "Linaro, T. Akashi, weekly report, week ending 15 July 2022 (not public)",
    "How long are round trips of a virtual machine, how long is each direction, idle and with load in either "
    "direction?",
    [
        Part(
            "netperf-rr-board",
            "round_trip_sent",
            "Round trips of TCP",
            [
                Table(
                    "TCP_RR: min / avg ± / max / stddev, µs, one transaction of 1 byte each 10 ms (ours: 64 bytes each "
                    "10.1 ms). In our closed loop each question follows the answer before.",
                    "µs",
                    (
                        "",
                        "published: mvpp2, 5.10",
                        "published: i225, 5.18",
                        "published: i225, PREEMPT_RT",
                        "ours: PREEMPT_RT",
                        "transactions",
                        "ours: closed loop",
                    ),
                    [
                        _rr_row("host2 to host1", "", "mvpp2, kernel 5.10", "i225, kernel 5.18", "i225, PREEMPT_RT"),
                        _rr_row("vm to host1, tap", "tap", "mvpp2"),
                        _rr_row("vm to host1, macvtap", "macvtap", "mvpp2"),
                        _rr_row("vm to host1, VFIO", "vfio", "", "i225", "i225, PREEMPT_RT host"),
                        _rr_row("vm to host1, Open vSwitch", "ovs", "mvpp2"),
                        _rr_row("vm to host1, XDP", "xdp", "mvpp2"),
                    ],
                )
            ],
            [
                Claim(
                    "(his figures: a virtual machine adds 17 to 88 µs, × 1.20 to × 1.43)",
                    "average, vm / host: 1.20 to 1.43, his",
                    times([(b, _HOST, _rr(b)) for b in (*_VIRTIO, "vfio")], 1.2, 1.43),
                    EXITS,
                ),
                Claim(
                    "(his figures: XDP / tap × 1.00, / macvtap × 1.04, / Open vSwitch × 0.87)",
                    "average, XDP / each other bridge: 0.87 to 1.04, his",
                    times([(b, _rr(b), _rr("xdp")) for b in _VIRTIO if b != "xdp"], 0.87, 1.04),
                    MICROSECONDS,
                ),
                Claim(
                    "(his figures: VFIO adds 17 to 22 µs, bridges on the other card 41 to 88)",
                    "average, each bridge − VFIO: above 0",
                    differ([(b, _rr("vfio"), _rr(b)) for b in _VIRTIO], 0),
                    MICROSECONDS,
                ),
            ],
            [
                Picture(
                    repetitions(
                        "Round trips of TCP",
                        "answered − send call",
                        [
                            (
                                "one transaction each 10.1 ms",
                                [Row("host2 to host1", _HOST, on.QUIET), *_rr_drawn("vm")],
                            ),
                            ("closed loop", _rr_drawn("vm-loop")),
                        ],
                    ),
                    "netperf-rr",
                    "Round trips of the host and of the virtual machine by bridge, each repetition",
                )
            ],
            "Transactions are latlab's own ping over TCP, at the rate of netperf's. The report has bridges on one "
            "card and VFIO on another; here all use one emulated card.",
        ),
        Part(
            "two-way-board",
            "latency_user",
            "Up and down separately",
            [
                Table(
                    "min / avg ± / max / stddev, µs. `up` is the question, `down` the answer. When the VM answers, "
                    "`up` goes into it. *The same way*: load in the direction of the question. In the scenario "
                    "`load-up` leaves the VM, `load-down` enters it.",
                    "µs",
                    ("", "up: published", "up: ours", "down: published", "down: ours"),
                    _two_rows(),
                ),
                Table(
                    "Each row is a leg with load in its own direction. Each figure is from the repetition with the "
                    "least to that with the greatest, µs. Last column: the share of its late packets' delay that a leg "
                    "has in its sender's queue, at the token bucket that stands for the line.",
                    "µs",
                    ("load in its own direction", "median", "average", "maximum", "late packets' delay in the queue"),
                    _own_rows(),
                ),
            ],
            [
                Claim(
                    '"A latency in host->vm case is always bigger than the opposite"',
                    "idle, into the VM − out of it: above 0",
                    differ(
                        [
                            ("VM asks: down − up", _two("as-sensor", "up", "none"), _two("as-sensor", "down", "none")),
                            ("VM answers: up − down", _two("as-ecu", "down", "none"), _two("as-ecu", "up", "none")),
                        ],
                        0,
                    ),
                    MICROSECONDS,
                ),
                Claim(
                    '"Senders can easily contend with each other" (his: × 1.5 to × 14; to idle × 4.0 to × 43)',
                    "load in a leg's own direction / load against it: above 1",
                    times([(_leg(p, leg), _two(p, leg, _other(own)), _two(p, leg, own)) for p, leg, own in _LEGS], 1),
                    _CLOCK,
                ),
                Claim(
                    '"Receive actions may not have a big impact on sender actions" (his: × 2.3 to × 4.5)',
                    "load against a leg's direction / idle: at most 2, less than his least",
                    times([(_leg(p, leg), *_beside(p, leg, _other(own))) for p, leg, own in _LEGS], at_most=2),
                    _CLOCK,
                ),
            ],
            [
                Picture(
                    repetitions("Up and down separately, VFIO", "rx_user − launch", _two_drawn()),
                    "two-way",
                    "Each leg idle and next to load, each repetition",
                )
            ],
            "The report's author gives his figures of VFIO only for reference. Here both ends are namespaces of one "
            "emulated board, and a token bucket of 100 Mbit/s at each end emulates the line rate. The load is three "
            "iperf3 streams of 80 Mbit/s together; the report does not state the rate of its netperf. The report uses "
            "the author's own probe, we use latlab's.",
        ),
        Part(
            "two-way-kernels-board",
            "latency_user",
            "PREEMPT_RT or not, pinned or not",
            [
                Table(
                    "min / avg ± / max / stddev, µs, by the board's kernel. The report's table names no kernel. Its "
                    "statements on PREEMPT_RT are about netperf and VFIO.",
                    "µs",
                    ("VM answers, macvtap", "published (taprio offload)", "ours: PREEMPT_RT", "ours: standard kernel"),
                    _kernel_rows(),
                )
            ],
            [
                Claim(
                    '"RT kernel always has some SW overhead" (of netperf: host 85 → 100.5 µs, VFIO 102 → 122.4 µs)',
                    "two-way over macvtap here, average idle, PREEMPT_RT − standard: above 0",
                    differ([(leg, *_by_kernel(leg, "none")) for leg in ("up", "down")], 0),
                    MICROSECONDS,
                ),
                Claim(
                    '"RT kernel won\'t help reducing latencies there" (of netperf)',
                    f"two-way over macvtap here, average with load, PREEMPT_RT / standard: at least {_HELP}, as for "
                    "pinning below",
                    times([(leg, *_by_kernel(leg, "load-down")) for leg in ("up", "down")], _HELP),
                    "vCPU, vhost and QEMU run with SCHED_FIFO here; the report names no such setting.",
                ),
                Claim(
                    '"long-tail in worst-case latency", of macvtap with load (his: × 2.5 and × 3.8)',
                    "maximum with load / idle, PREEMPT_RT, not pinned: above 1",
                    times(
                        [
                            (leg, _kernels("rt", False, leg, "none"), _kernels("rt", False, leg, "load-down"))
                            for leg in ("up", "down")
                        ],
                        1,
                        figure="max",
                    ),
                    MICROSECONDS,
                ),
                Claim(
                    '"Again, I don\'t see any improvement here" (pinned)',
                    f"average, PREEMPT_RT, pinned / not: at least {_HELP} (his 230.4 / 242.9, no improvement to him)",
                    times(
                        [
                            (f"{leg} {name}", _kernels("rt", False, leg, load), _kernels("rt", True, leg, load))
                            for leg in ("up", "down")
                            for name, load in (("idle", "none"), ("loaded", "load-down"))
                        ],
                        _HELP,
                    ),
                    "Pinning helps where a CPU's time is its own; here all CPUs share one clock. The report pins the "
                    "whole virtual machine to one CPU; here vCPU, vhost and QEMU have a CPU each.",
                    testable=False,
                ),
            ],
            [
                Picture(
                    repetitions("PREEMPT_RT or not, pinned or not, macvtap", "rx_user − launch", _kernels_drawn()),
                    "two-way-kernels",
                    "Each leg by kernel, pinning and load, each repetition",
                )
            ],
            "The guest has Debian's standard kernel, as in the report. The report had PREEMPT_RT on host2 only; here "
            "sensor and VM host are one board with one kernel. It pins the whole virtual machine to one CPU and the "
            "sender likewise; here vCPU, vhost and QEMU have a CPU each, and the sender none. The report does not "
            "state its load; ours is three iperf3 streams of 60 Mbit/s together. No taprio: the emulated card cannot "
            "offload it. With the standard kernel a cell "
            "would be suspect; the scenario turns that rule off, because the kernel is what is compared here.",
            ("--board", "--board --flavour standard", "debian-standard"),
        ),
    ],
)
