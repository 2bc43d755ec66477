"""Which timestamps an interface can take, and switching hardware ones on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from latlab.testbed.step import Before, Check, Step

TX_ON = 1  # HWTSTAMP_TX_ON, include/uapi/linux/net_tstamp.h
RX_ALL = 1  # HWTSTAMP_FILTER_ALL: any packet; the PTP filters would pass ours by


@dataclass(frozen=True)
class NicTimestamping:
    """What `ethtool -T` says: which stamps there are, the PTP clock's number (None without), the modes."""

    tx_software: bool
    rx_software: bool
    tx_hardware: bool
    rx_hardware: bool
    phc: int | None
    tx_modes: tuple[str, ...]
    rx_filters: tuple[str, ...]

    @property
    def any_packet_in_hardware(self) -> bool:
        """Whether the NIC stamps every packet in both directions, not only those of PTP."""
        modes = "on" in self.tx_modes and "all" in self.rx_filters
        return self.ptp_in_hardware and modes

    @property
    def ptp_in_hardware(self) -> bool:
        """Whether the NIC can stamp what PTP sends and receives, by its own clock."""
        return self.tx_hardware and self.rx_hardware and self.phc is not None


def parse_timestamping(text: str) -> NicTimestamping:
    """What `ethtool -T` printed; ValueError when it is not its output."""
    sections = _sections(text)
    if "capabilities" not in sections:
        raise ValueError("no capabilities in the output of ethtool -T")
    capabilities = sections["capabilities"]
    clock = re.search(r"^(?:PTP Hardware Clock|Hardware timestamp provider index): (\d+)$", text, re.MULTILINE)
    return NicTimestamping(
        tx_software="software-transmit" in capabilities,
        rx_software="software-receive" in capabilities,
        tx_hardware="hardware-transmit" in capabilities,
        rx_hardware="hardware-receive" in capabilities,
        phc=int(clock.group(1)) if clock else None,
        tx_modes=sections.get("hardware transmit timestamp modes", ()),
        rx_filters=sections.get("hardware receive filter modes", ()),
    )


def hardware_stamps_step(host: str, interface: str, able: NicTimestamping) -> Step | None:
    """The step that has the NIC stamp every packet, undone to the former setting; None when it cannot. Where it fails,
    the kernel's timestamps are there.
    """
    if not able.any_packet_in_hardware:
        return None
    read = ("hwstamp_ctl", "-i", interface)
    return Step(
        host=host,
        title=f"have {interface} stamp every packet in hardware",
        do=(*read, "-t", str(TX_ON), "-r", str(RX_ALL)),
        undo=(*read, "-t", "{tx_type}", "-r", "{rx_filter}"),
        before=Before(read, hardware_setting),
        check=Check(read, expected=f"tx_type {TX_ON}, rx_filter {RX_ALL}", read=_setting_in_words),
        optional=True,
    )


def hardware_setting(output: str) -> Mapping[str, str]:
    """`{"tx_type": …, "rx_filter": …}` as hwstamp_ctl printed it; ValueError when it did not."""
    found = dict(re.findall(r"^(tx_type|rx_filter) (\d+)$", output, re.MULTILINE))
    if set(found) != {"tx_type", "rx_filter"}:
        raise ValueError("no setting in the output of hwstamp_ctl")
    return found


def _setting_in_words(output: str) -> str:
    setting = hardware_setting(output)
    return f"tx_type {setting['tx_type']}, rx_filter {setting['rx_filter']}"


def _sections(text: str) -> dict[str, tuple[str, ...]]:
    """The indented lines under each heading, their first words; headings in lower case."""
    sections: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line[:1] in ("\t", " "):
            sections.setdefault(heading, []).append(line.split()[0])
        elif ":" in line:
            heading = line.partition(":")[0].lower()
    return {name: tuple(words) for name, words in sections.items()}
