"""How the processes, guests and interrupts of a host are scheduled."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from latlab.model.units import MICROSECOND_NS
from latlab.scenario.findings import shown, wrong
from latlab.scenario.links import PcpKey
from latlab.scenario.parts import Cpus, Interface, ItemName, KeyNumber, Listed, Part
from latlab.scenario.units import DURATION, Duration, format_duration, within

Fifo = Annotated[int, Field(ge=1, le=99)]
_S32_MAX_US = 2**31 - 1
QUEUE_MAX = 4095
"""An interface is made with 4096 queues at most (rtnl_create_link in net/core/rtnetlink.c)."""


def _whole_us(ns: int) -> int:
    if ns % MICROSECOND_NS:
        raise wrong(f"{format_duration(ns)} is a fraction of 1us", "a whole number of us")
    return ns


Microseconds = Annotated[Duration, within(DURATION, 0, _S32_MAX_US * MICROSECOND_NS), AfterValidator(_whole_us)]
"""int nanoseconds, a multiple of 1000: what the kernel takes as an s32 of microseconds."""


class Realtime(Part):
    """How a measuring thread runs. null leaves a setting as it is."""

    fifo: Fifo | None = Field(description="SCHED_FIFO priority, 1 to 99; null: the ordinary scheduler")
    cpus: Cpus | None = Field(default=None, description="CPUs it may run on; null: all")
    lock_memory: bool = Field(default=True, description="lock its memory, to avoid page faults while it measures")
    cpu_dma_latency: Microseconds | None = Field(
        default=0,
        description="longest wake-up from an idle state the kernel may choose (/dev/cpu_dma_latency)",
    )
    timer_slack: Annotated[Duration, within(DURATION, 1)] | None = Field(
        default=1, description="how much later than asked a timer may fire (PR_SET_TIMERSLACK)"
    )

    @property
    def cpu_dma_latency_us(self) -> int | None:
        """The wake-up limit in microseconds, as the agent's spec has it."""
        return None if self.cpu_dma_latency is None else self.cpu_dma_latency // MICROSECOND_NS


class TalkerTuning(Realtime):
    """How a host's talker runs."""

    fifo: Fifo | None = Field(default=90, description="SCHED_FIFO priority, 1 to 99; null: the ordinary scheduler")
    busy_wait: Duration = Field(default=0, description="wake this much before the launch and spin until it")


def _traced(value: object) -> object:
    if not isinstance(value, bool) and value != "threads":
        raise wrong(f"{shown(value)} is not supported", "true, false or threads")
    return value


class ListenerTuning(Realtime):
    """How a host's listener runs."""

    fifo: Fifo | None = Field(default=80, description="SCHED_FIFO priority, 1 to 99; null: the ordinary scheduler")
    mode: Literal["block", "spin", "busy-poll"] = Field(default="block", description="how it waits for packets")
    busy_poll: Annotated[Microseconds, within(DURATION, MICROSECOND_NS)] | None = Field(
        default=50_000,
        description="how long the kernel polls the NIC for it (SO_BUSY_POLL); used in mode busy-poll",
    )
    trace: Annotated[
        Literal[False, True, "threads"],
        BeforeValidator(_traced, json_schema_input_type=bool | Literal["threads"]),
    ] = Field(
        default=False,
        description="record the kernel's tracepoints from the interrupt to the running thread; threads: "
        "only its wake-up and start",
    )

    @property
    def busy_poll_us(self) -> int | None:
        """Microseconds of SO_BUSY_POLL, as the agent's spec has it; None in the other modes."""
        return self.busy_poll // MICROSECOND_NS if self.mode == "busy-poll" and self.busy_poll is not None else None


class Threads(Part):
    """How threads that latlab does not program run. null leaves a setting as it is."""

    cpus: Cpus | None = Field(default=None, description="CPUs they may run on; null: all")
    fifo: Fifo | None = Field(default=None, description="SCHED_FIFO priority, 1 to 99; null: the ordinary scheduler")


class LoadTuning(Threads):
    """How a host's load generators run."""


class GuestTuning(Part):
    """How a guest's threads run on its host."""

    vcpus: Threads = Field(
        default=Threads(),
        description="the virtual CPUs; as many cpus as vCPUs: one each, in their order; else each may run on all",
    )
    emulator: Threads = Field(default=Threads(), description="QEMU's other threads")
    vhost: Threads = Field(default=Threads(), description="the kernel's threads that move the guest's packets")


Queue = Annotated[int, Field(ge=0, le=QUEUE_MAX)]
QueueKey = Annotated[
    KeyNumber,
    Field(ge=0, le=QUEUE_MAX),
    WithJsonSchema({"type": "string", "pattern": "^(0|[1-9][0-9]{0,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-5])$"}),
]
"""A receive queue, and the same as the key of a mapping."""


class IrqTuning(Part):
    """Which CPUs take an interface's interrupts. null leaves them as they are."""

    cpus: Cpus | None = Field(default=None, description="of every interrupt of the interface; null: unchanged")
    queues: dict[QueueKey, Cpus] = Field(
        default_factory=dict, description="receive queue → CPUs of its interrupt, instead of cpus"
    )


Steering = dict[PcpKey, Queue]
"""VLAN priority → receive queue."""


class Tuning(Part):
    """How things run on one host, or in one guest."""

    talker: TalkerTuning = Field(default=TalkerTuning(), description="the process that sends streams")
    listener: ListenerTuning = Field(default=ListenerTuning(), description="the process that receives streams")
    load: LoadTuning = Field(default=LoadTuning(), description="the processes that make load")
    guests: dict[ItemName, GuestTuning] = Field(
        default_factory=dict, description="guest of this host → how its threads run here"
    )
    isolated: Cpus | None = Field(default=None, description="CPUs that must be isolated; checked, not set")
    irq: dict[Interface, IrqTuning] = Field(
        default_factory=dict, description="interface → which CPUs take its interrupts"
    )
    steering: dict[Interface, Steering] = Field(
        default_factory=dict, description="interface → VLAN priority, 0 to 7 → the receive queue of its packets"
    )
    rss: dict[Interface, Annotated[Listed[Queue], Field(min_length=1)]] = Field(
        default_factory=dict, description="interface → the receive queues that flows are spread over by their hash"
    )
    coalescing: dict[Interface, Microseconds] = Field(
        default_factory=dict, description="interface → how long its receive interrupts may wait for more packets"
    )
    profile: Literal["realtime-virtual-host", "realtime-virtual-guest"] | None = Field(
        default=None, description="the runtime settings of the tuned profile with that name"
    )
    halt_poll: Annotated[Duration, within(DURATION, 0, 2**32 - 1)] | None = Field(
        default=None,
        description="how long KVM polls before it gives up a halted vCPU's CPU (halt_poll_ns); null: unchanged",
    )
