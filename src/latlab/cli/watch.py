"""The verb that measures any program's packets without touching them."""

# Without annotations as text: the command line library would evaluate each of them at every start.
from pathlib import Path
from typing import Annotated, Final

import typer

from latlab.cli.options import (
    FILES,
    MEASUREMENT,
    RUNS,
    Formats,
    Full,
    Json,
    Runs,
    Strict,
    Trigger,
    duration_ns,
)
from latlab.cli.output import open_console
from latlab.cli.run import report_run
from latlab.model.limits import LIMITS

SNAP: Final = LIMITS.snap_usual_bytes
RING: Final = 65_536
EVERY: Final = 1


def watch(
    flow: Annotated[
        str,
        typer.Option(
            "--flow",
            metavar="FLOW",
            rich_help_panel=MEASUREMENT,
            help="Packets to watch: 'udp port 5000', 'ether proto sv and vlan 10', or 'pcap: FILTER' (pcap-filter).",
        ),
    ],
    at: Annotated[
        list[str],
        typer.Option(
            "--at",
            metavar="PLACE",
            rich_help_panel=MEASUREMENT,
            help="Where (repeatable): [MACHINE/][ns:NAMESPACE/]INTERFACE[:in|:out|:read]; MACHINE over ssh, or "
            "guest:NAME.",
        ),
    ],
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            rich_help_panel=MEASUREMENT,
            help="Duration, such as 30s; until Ctrl-C if not given.",
        ),
    ] = None,
    snap: Annotated[
        int,
        typer.Option(
            "--snap",
            metavar="N",
            min=LIMITS.snap_least_bytes,
            max=LIMITS.snap_most_bytes,
            rich_help_panel=MEASUREMENT,
            help="Bytes of each packet to keep; packets are recognised by them.",
        ),
    ] = SNAP,
    ring: Annotated[
        int,
        typer.Option(
            "--ring",
            metavar="N",
            min=1,
            max=LIMITS.ring_records,
            rich_help_panel=MEASUREMENT,
            help="Size of the rings in the kernel, in packets.",
        ),
    ] = RING,
    sample: Annotated[
        int,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            max=LIMITS.sample,
            rich_help_panel=MEASUREMENT,
            help="Record one packet in N, the same ones at every point; for high rates.",
        ),
    ] = EVERY,
    clock_bound: Annotated[
        str | None,
        typer.Option(
            "--clock-bound",
            metavar="DURATION",
            rich_help_panel=MEASUREMENT,
            help="The largest difference between the clocks of two machines, such as 1us.",
        ),
    ] = None,
    ssh_config: Annotated[
        Path | None,
        typer.Option(
            "--ssh-config", metavar="FILE", rich_help_panel=MEASUREMENT, help="The ssh configuration file to use."
        ),
    ] = None,
    streamed: Annotated[
        bool,
        typer.Option(
            "--streamed",
            rich_help_panel=MEASUREMENT,
            help="Store no recording on machines over ssh: each is sent as it is written.",
        ),
    ] = False,
    trigger: Trigger = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", rich_help_panel=FILES, help="Name of the run.")] = (
        "watch"
    ),
    full: Full = False,
    picture: Formats = None,
    strict: Strict = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Measure the packets of your own application at interfaces.

    Nothing is sent and nothing is changed. Between every two points: latency and loss; at each point: the time between
    packets. `socket` instead of an interface: what programs send and receive. It needs root, and a kernel with BTF.
    Ctrl-C ends it in order. docs/reference/watch.md has the terms of a flow, the places, and what counts as lost.

    Examples:
        # From a network card into a bridge and out to a guest
        latlab watch --flow 'udp port 5000' --at eth0:in --at tap0:out --for 30s
        # From a board, reached over ssh, to this machine, by clocks that PTP sets
        latlab watch --flow udp --at board1/eth0:out --at eth0:in --clock-bound 1us
        # From the VM host's network card into a running guest, of libvirt or a lab
        latlab watch --flow udp --at eth0:in --at guest:vm1/eth0:in --clock-bound 50us
        # A million packets/s: one in 100 is recorded, the same ones at both points
        latlab watch --flow 'udp port 5000' --at eth0:in --at tap0:out --sample 100
        # From a program's send call to another program's receive call
        latlab watch --flow udp --at ns:mu/socket:out --at ns:bay/socket:in
        # What the kernel did around packets that took longer between the two
        latlab watch --flow udp --at eth0:in --at tap0:out --trigger 'latency > 1ms'
        # Sampled values through two namespaces, until Ctrl-C
        latlab watch --flow 'ether proto sv' --at ns:merging/eth0 --at ns:bay/eth0
    """
    import asyncio

    from latlab.console import make_console
    from latlab.report.columns import print_sentence
    from latlab.run.events import Phase
    from latlab.run.watch import WatchRequest
    from latlab.run.watch import watch as measure
    from latlab.scenario.load import trigger_given

    asked = WatchRequest(
        flow,
        tuple(at),
        None if for_ is None else duration_ns(for_, "--for"),
        snap,
        ring,
        sample,
        None if clock_bound is None else duration_ns(clock_bound, "--clock-bound"),
        None if ssh_config is None else str(ssh_config),
        streamed,
        None if trigger is None else trigger_given(trigger),
    )
    console = make_console(stderr=as_json) if as_json else open_console()
    until = "until Ctrl-C" if asked.for_ns is None else f"for {for_}"

    def show(event: object) -> None:
        if isinstance(event, Phase):
            print_sentence(f"Watching {flow} {until}", console)

    folder = asyncio.run(measure(asked, runs, show, name=name))
    raise typer.Exit(report_run(folder, as_json=as_json, strict=strict, metrics=None, formats=picture, full=full))
