"""A probe as the lab hands it to a tool."""

from __future__ import annotations

from latlab.testbed.probes.base import DdsOptions, ToolPlan

DDS = ToolPlan(
    name="dds",
    kind="ddsperf",
    asker="a",
    answerer="b",
    source_address="10.0.0.1",
    sink_address="10.0.0.2",
    listen_address="10.0.0.2",
    asker_interface="veth0",
    answerer_interface="veth1",
    port=0,
    transport="dds",
    size=200,
    period_ns=None,
    seconds=4,
    log="",
    dds=DdsOptions(5, reliable=True, take="listener"),
)
