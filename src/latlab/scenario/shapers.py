"""What shapes the traffic that leaves an interface. A new kind is one model here and one name in `Shaper`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from latlab.model.units import RATES
from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import END, KeyNumber, Listed, Part, PriorityKey, parse_end
from latlab.scenario.units import DURATION, RATE, SIZE, Duration, Rate, Size, format_rate, within

CLASSES_MAX = 16
"""TC_QOPT_MAX_QUEUE, include/uapi/linux/pkt_sched.h."""
PRIORITIES = 16
"""TC_PRIO_MAX + 1: what a priority map is indexed by."""
GATES_MAX = 30
"""tc builds its message in 1024 bytes (iproute2, tc/q_taprio.c), of which an entry takes 28, and all else up to 180."""
ENTRY_NS_MAX = 2**32 - 1
"""TCA_TAPRIO_SCHED_ENTRY_INTERVAL is a u32."""
DELTA_NS_MAX = 2**31 - 1
"""struct tc_etf_qopt: delta is an s32."""

MADE_BPS = 10**10
"""What a veth says its speed is (drivers/net/veth.c, veth_get_link_ksettings)."""
CABLE_BPS = RATES["Gbit/s"]

TrafficClass = Annotated[int, Field(ge=0, lt=CLASSES_MAX)]
TransmitQueue = Annotated[
    KeyNumber, Field(ge=0), WithJsonSchema({"type": "string", "pattern": "^(0|[1-9][0-9]{0,99})$"})
]
"""As the key of a mapping. How many there are, the classes say."""


def _whole_kbit(rate: int) -> int:
    if rate % RATES["kbit/s"]:
        raise wrong(f"{format_rate(rate)} is a fraction of 1kbit/s", "a whole number of kbit/s")
    return rate


def _whole_kbit_slope(slope: int) -> int:
    if slope % RATES["kbit/s"]:
        raise wrong(f"{slope} bit/s is a fraction of 1kbit/s", "a multiple of 1000: a whole number of kbit/s")
    return slope


def _each_once(classes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(classes)) != len(classes):
        raise wrong(f"a class twice in {shown(list(classes))}", "each class once")
    return classes


KilobitRate = Annotated[Rate, within(RATE, RATES["kbit/s"], (2**31 - 1) * RATES["kbit/s"]), AfterValidator(_whole_kbit)]
"""int bits a second, a multiple of 1000: what struct tc_cbs_qopt takes as an s32 of kbit/s."""
SendSlope = Annotated[
    int,
    Field(ge=-(2**31) * RATES["kbit/s"], lt=0, json_schema_extra={"multipleOf": RATES["kbit/s"]}),
    AfterValidator(_whole_kbit_slope),
]
"""bit/s, as `KilobitRate` is."""
Credit = Annotated[int, Field(ge=-(2**31), lt=2**31)]


def _handed_over(gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
    if len(gates) > GATES_MAX:
        expected = f"{GATES_MAX} or fewer, which is what tc(8) can hand over (1024 bytes, q_taprio.c of iproute2)"
        raise wrong(f"{len(gates)} entries", expected)
    return gates


Speed = Annotated[
    Annotated[Rate, within(RATE, 10_000_000)] | None,
    Field(
        description="of the port, for what is computed from it; 10Gbit/s of links that are made for the run, else "
        "1Gbit/s if not given"
    ),
]


class Gate(Part):
    """An entry of a gate schedule: which traffic classes may send, and for how long (IEEE 802.1Qbv)."""

    open: Annotated[Listed[TrafficClass], AfterValidator(_each_once)] = Field(
        description="traffic classes whose gates are open; [] closes all"
    )
    for_: Annotated[Duration, within(DURATION, 1, ENTRY_NS_MAX)] = Field(alias="for", description="how long")

    @property
    def mask(self) -> int:
        """Its gates as tc has them: bit n is class n."""
        return sum(1 << one for one in self.open)


class ShaperBase(Part):
    """What every shaper is asked, whatever its kind."""

    in_tai: ClassVar[bool] = False
    """Whether it keeps time by TAI."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The programs that it is set up with."""
        return ("tc", "ethtool")

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs that it names."""
        return ()

    @property
    def queue_count(self) -> int:
        """How many transmit queues it needs; 0: as many as there are."""
        return 0

    @property
    def beneath(self) -> Mapping[int, Etf | Cbs]:
        """Transmit queue → what shapes it."""
        return {}

    @property
    def gives_launch_times(self) -> bool:
        """Whether it computes launch times for packets that have none."""
        return False

    def leaf(self, priority: int) -> Etf | Cbs | None:
        """What shapes the packets of a socket priority last."""
        return None


class Etf(ShaperBase):
    """Packets wait for their launch times (tc-etf(8))."""

    in_tai: ClassVar[bool] = True

    kind: Literal["etf"]
    delta: Annotated[Duration, within(DURATION, 0, DELTA_NS_MAX)] = Field(
        default=200_000, description="how long before its launch a packet is handed to the driver, or sent without one"
    )
    offload: bool = Field(default=False, description="the NIC launches it (LaunchTime)")
    deadline: bool = Field(default=False, description="the launch time is a deadline: packets leave at once")
    skip_sock_check: bool = Field(
        default=False,
        description="do not check the socket's settings (clock, deadline); a packet without a launch "
        "time is still dropped, unless taprio's txtime-assist gives it one",
    )

    def leaf(self, priority: int) -> Etf | Cbs | None:
        return self


class Cbs(ShaperBase):
    """A credit-based shaper (IEEE 802.1Q 8.6.8.2, tc-cbs(8))."""

    kind: Literal["cbs"]
    idle_slope: KilobitRate = Field(
        description="the bandwidth reserved for its queue, in whole frames, such as 20Mbit/s"
    )
    send_slope: SendSlope | None = Field(
        default=None, description="bit/s, below zero, in whole kbit/s; idle_slope − speed of the port if not given"
    )
    hi_credit: Credit | None = Field(
        default=None, description="bytes; the credit gained at idle_slope during one interfering frame if not given"
    )
    lo_credit: Credit | None = Field(
        default=None, description="bytes, below zero; the credit that its largest frame costs if not given"
    )
    frame: Annotated[Size, within(SIZE, 64, 65_535)] = Field(
        default=1_522, description="its largest frame, from the destination address to the checksum"
    )
    interference: Annotated[Size, within(SIZE, 64, 65_535)] = Field(
        default=1_522, description="the largest frame of any other queue"
    )
    offload: bool = Field(default=False, description="the NIC shapes")
    speed: Speed = None

    def leaf(self, priority: int) -> Etf | Cbs | None:
        return self

    def send_slope_bps(self, speed: int) -> int:
        """idleSlope − portTransmitRate (802.1Q 8.6.8.2 f), bit/s. speed: of the port, bit/s."""
        return self.send_slope if self.send_slope is not None else self.idle_slope - speed

    def hi_credit_bytes(self, speed: int) -> int:
        """maxInterferenceSize × idleSlope / portTransmitRate (802.1Q L.1), rounded up to bytes."""
        if self.hi_credit is not None:
            return self.hi_credit
        return -(-self.interference * self.idle_slope // speed)

    def lo_credit_bytes(self, speed: int) -> int:
        """maxFrameSize × sendSlope / portTransmitRate (802.1Q L.1), rounded away from zero to bytes."""
        if self.lo_credit is not None:
            return self.lo_credit
        return self.frame * self.send_slope_bps(speed) // speed


class Tbf(ShaperBase):
    """A line rate: frames leave one after the other, no faster than this (tc-tbf(8), a token bucket).

    What waits does so in the order it came, whatever its priority, as it does in a NIC's ring.
    """

    kind: Literal["tbf"]
    rate: Annotated[Rate, within(RATE, 8_000)] = Field(description="such as 100Mbit/s")
    burst: Annotated[Size, within(SIZE, 1_522, 2**31 - 1)] = Field(
        default=1_600, description="what may be sent at once after a pause; one frame of the largest size if not given"
    )
    limit: Annotated[Size, within(SIZE, 1_522, 2**31 - 1)] = Field(
        default=256_000, description="what may be queued; further frames are dropped"
    )


Child = Annotated[Etf | Cbs, Field(discriminator="kind")]


class Classes(ShaperBase):
    """What sorts packets into traffic classes by their socket priority, and classes into transmit queues."""

    map: dict[PriorityKey, TrafficClass] = Field(
        default_factory=dict, description="socket priority, 0 to 15 → the traffic class of its packets"
    )
    rest: TrafficClass = Field(default=0, description="the traffic class of every other priority")
    queues: Listed[Annotated[int, Field(ge=1, le=16)]] = Field(
        default=(),
        max_length=CLASSES_MAX,
        description="how many transmit queues each class has, from class 0 on; one each if not given",
    )
    children: dict[TransmitQueue, Child] = Field(
        default_factory=dict, description="transmit queue → its shaper: an etf or a cbs"
    )
    speed: Speed = None

    @property
    def named_classes(self) -> int:
        """How many classes what is written needs."""
        return 1 + max((self.rest, *self.map.values()))

    @property
    def class_count(self) -> int:
        """How many traffic classes there are."""
        return max(self.named_classes, len(self.queues))

    @property
    def queue_counts(self) -> tuple[int, ...]:
        """The number of queues of each class."""
        return self.queues or (1,) * self.class_count

    @property
    def queue_count(self) -> int:
        return sum(self.queue_counts)

    @property
    def beneath(self) -> Mapping[int, Etf | Cbs]:
        found = ((queue, self.child_of(queue)) for queue in range(self.queue_count))
        return {queue: child for queue, child in found if child is not None}

    def leaf(self, priority: int) -> Etf | Cbs | None:
        """The same is beneath each queue of a class. A class without queues is reported where they are written."""
        traffic_class = self.class_of(priority)
        return self.child_of(self.queues_of(traffic_class)[0]) if traffic_class < len(self.queue_counts) else None

    def class_of(self, priority: int) -> int:
        """The traffic class of a socket priority."""
        return self.map.get(priority, self.rest)

    def queues_of(self, traffic_class: int) -> range:
        """The transmit queues of a class: those of one class follow those of the one before."""
        first = sum(self.queue_counts[:traffic_class])
        return range(first, first + self.queue_counts[traffic_class])

    def child_of(self, queue: int) -> Etf | Cbs | None:
        """What shapes a transmit queue beneath."""
        return self.children.get(queue)


class Mqprio(Classes):
    """Traffic classes by priority, each with its own transmit queues (tc-mqprio(8))."""

    kind: Literal["mqprio"]
    offload: bool = Field(default=False, description="the classes are set in the NIC (hw 1)")


class Taprio(Classes):
    """Gates open and close by a schedule: time-aware shaping (IEEE 802.1Qbv, tc-taprio(8))."""

    in_tai: ClassVar[bool] = True

    kind: Literal["taprio"]
    mode: Literal["software", "txtime-assist", "offload"] = Field(
        description=(
            "what implements the gates: the kernel, when it dequeues packets; a child etf, by launch times that the "
            "kernel computes; the NIC"
        )
    )
    gates: Annotated[Listed[Gate], Field(min_length=1), AfterValidator(_handed_over)] = Field(
        description="the schedule: entry after entry, repeated", json_schema_extra={"maxItems": GATES_MAX}
    )
    shift: Duration = Field(default=0, description="cycles begin this long after multiples of the cycle in TAI")
    txtime_delay: Annotated[Duration, within(DURATION, 0, ENTRY_NS_MAX)] | None = Field(
        default=None,
        description="txtime-assist: the least time from hand-over to launch; 1.5 times the largest delta if not given",
    )
    delta: Annotated[Duration, within(DURATION, 0, DELTA_NS_MAX)] = Field(
        default=200_000, description="txtime-assist: of the etf that each queue without its own one gets"
    )

    cpu: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="software: the CPU whose timer opens and closes the gates; null: whichever tc runs on",
    )

    @property
    def tools(self) -> tuple[str, ...]:
        return super().tools if self.cpu is None else (*super().tools, "taskset")

    @property
    def cpus(self) -> tuple[int, ...]:
        return () if self.cpu is None else (self.cpu,)

    @property
    def gives_launch_times(self) -> bool:
        return self.mode == "txtime-assist"

    @property
    def cycle(self) -> int:
        """The sum of the entries, ns."""
        return sum(gate.for_ for gate in self.gates)

    @property
    def named_classes(self) -> int:
        return max(super().named_classes, *(1 + max(gate.open, default=0) for gate in self.gates))

    def child_of(self, queue: int) -> Etf | Cbs | None:
        found = super().child_of(queue)
        if found is None and self.gives_launch_times:
            return Etf.model_construct(kind="etf", delta=self.delta, skip_sock_check=True)
        return found

    @property
    def delay(self) -> int:
        """txtime-delay, ns: the time a packet has to reach its etf before that would say it has missed its launch.

        Rounded up, so that it is more than any delta above 0.
        """
        if self.txtime_delay is not None:
            return self.txtime_delay
        largest = max((child.delta for child in self.beneath.values() if isinstance(child, Etf)), default=0)
        return -(-largest * 3 // 2)


def port_speed(given: int | None, *, made: bool) -> int:
    """Of a port, bit/s: what its shaper gives; else what a veth says, or 1 Gbit/s of a cable.

    made: its link is made for the run.
    """
    return given or (MADE_BPS if made else CABLE_BPS)


def _interface(text: str) -> str:
    parse_end(text)
    return text


ShapedInterface = Annotated[str, AfterValidator(_interface), WithJsonSchema({"type": "string", "pattern": END})]
"""`host.interface`, as text."""

Shaper = Annotated[Taprio | Mqprio | Etf | Cbs | Tbf, Field(discriminator="kind")]
"""What stands at the root of an interface."""
