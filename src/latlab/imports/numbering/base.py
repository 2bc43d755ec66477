"""What every reader of numbers takes and gives, and how gaps are counted."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_VLAN: Final = (0x8100, 0x88A8, 0x9100)
_R_TAG: Final = 0xF1C1
_HSR: Final = 0x892F
_LONG: Final = 6
"""Bytes of an R-TAG and of an HSR tag with the EtherType that follows."""
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_UDP: Final = 17
_UDP_HEADER: Final = 8
_FRAGMENT: Final = 44


@dataclass(frozen=True)
class Frame:
    """One frame as far as it was kept. ether_type, body: behind all tags. r_tag: what follows the EtherType of an
    802.1CB tag, empty without one. udp: a datagram's payload, empty of anything else. whole: nothing of it is missing.
    fragment: it is a part of an IP packet. hsr: as r_tag, of HSR's tag. udp_length: of the datagram's payload, by its
    header.
    """

    ether_type: int
    body: bytes
    r_tag: bytes
    udp: bytes
    whole: bool
    fragment: bool = False
    hsr: bytes = b""
    udp_length: int = 0


@dataclass(frozen=True)
class UtcTime:
    """An instant by the sender's clock, ns since 1970, UTC. accuracy_bits: n, where the sender states that its clock is
    right to 2^-n s; None: it does not say.
    """

    ns: int
    accuracy_bits: int | None


@dataclass(frozen=True)
class Number:
    """What a sender numbered a packet: `value`, counted up by `step` from one to the next; step 0: by how much is not
    in the packet, its numbers show it.

    source: who counts, where several do in one flow. epoch: counting begins again at 0 with the next one. said: what
    else the sender says of this packet, for people. valid_ns: within which time the sender promises the next one; None:
    it promises nothing. sampled: when its data was sampled; None: that is not in it, or its clock is not to be trusted.
    """

    value: int
    source: bytes = b""
    epoch: int = 0
    step: int = 1
    said: tuple[str, ...] = ()
    valid_ns: int | None = None
    sampled: UtcTime | None = None


@dataclass(frozen=True)
class Numbering:
    """One protocol's numbers. title: for people. modulus: the number behind the last one is 0; None: the sender's
    period, which its numbers show. read: the number of a frame, or the numbers of all that is in it; an empty sequence:
    it is of this protocol, and has none; None: it is of another one. unit_ns: the number is the sender's time, in such
    units; None: it counts packets. Of two numberings of one name, the one that leaves less unexplained is right.
    by_second: counting begins again at 0 every second. of_node: the sender counts all that it sends: a number that is
    missing may be another flow's.
    """

    name: str
    title: str
    modulus: int | None
    read: Callable[[Frame], Number | Sequence[Number] | None]
    unit_ns: int | None = None
    by_second: bool = False
    of_node: bool = False

    def numbers(self, frame: Frame) -> Sequence[Number] | None:
        """As `read`, always a sequence."""
        found = self.read(frame)
        return (found,) if isinstance(found, Number) else found


@dataclass(frozen=True)
class Gaps:
    """What the numbers of packets, in the order in which they were seen, say of those that are missing."""

    lost: int
    duplicated: int
    reordered: int


def frame_of(data: bytes, length: int, *, ethernet: bool) -> Frame | None:
    """The frame that begins with these bytes. length: of all of it. None: its headers are not all there."""
    whole = len(data) == length
    place, ether_type, tags = 0, 0, {_R_TAG: b"", _HSR: b""}
    if ethernet:
        if len(data) < 14:
            return None
        place, ether_type = 14, struct.unpack_from(">H", data, 12)[0]
        while ether_type in _VLAN or ether_type in tags:
            long = 4 if ether_type in _VLAN else _LONG
            if place + long > len(data):
                return None
            if ether_type in tags:
                tags[ether_type] = data[place : place + 4]
            place += long
            ether_type = struct.unpack_from(">H", data, place - 2)[0]
    elif data:
        ether_type = _IPV4 if data[0] >> 4 == 4 else _IPV6
    body = data[place:]
    datagram = _datagram(ether_type, body)
    fragment = _is_fragment(ether_type, body)
    length = max(0, int.from_bytes(datagram[4:6], "big") - _UDP_HEADER)
    return Frame(ether_type, body, tags[_R_TAG], datagram[_UDP_HEADER:], whole, fragment, tags[_HSR], length)


def _is_fragment(ether_type: int, body: bytes) -> bool:
    if ether_type == _IPV4:
        return len(body) >= 20 and bool(int.from_bytes(body[6:8], "big") & 0x3FFF)
    return ether_type == _IPV6 and len(body) >= 40 and body[6] == _FRAGMENT


def _datagram(ether_type: int, body: bytes) -> bytes:
    """UDP's header and what follows it; empty of anything else."""
    if ether_type == _IPV4 and len(body) >= 20 and body[9] == _UDP and not int.from_bytes(body[6:8], "big") & 0x3FFF:
        return body[(body[0] & 0x0F) * 4 :]
    if ether_type == _IPV6 and len(body) >= 40 and body[6] == _UDP:
        return body[40:]
    return b""


_CONSTRUCTED: Final = 0x20
"""In a tag of BER: its value is made of others."""


def tags_of(data: bytes) -> Iterable[tuple[int, bytes]]:
    """Each tag of a BER sequence with its value (X.690, 8.1; tags of one byte). Of a frame that was cut a value that is
    made of others may be cut, too; any other is left out then, as a part of a number is another number.
    """
    place = 0
    while place + 2 <= len(data):
        tag, length = data[place], data[place + 1]
        place += 2
        if length & 0x80:
            long = length & 0x7F
            length = int.from_bytes(data[place : place + long], "big")
            place += long
        if tag & _CONSTRUCTED or place + length <= len(data):
            yield tag, data[place : place + length]
        place += length


def gaps_of(numbers: Iterable[Number], modulus: int | None) -> Gaps:
    """What is missing of one source's numbers, in the order in which they were seen.

    Each number is taken for the one that is nearest to the largest so far (RFC 3550, A.1, "extended"): what lies
    between the first and the largest and was never seen is lost. Without a modulus the largest number, and the step
    behind it, is the period of the sender's counting.
    """
    epochs: dict[int, list[Number]] = {}
    for one in numbers:
        epochs.setdefault(one.epoch, []).append(one)
    if modulus is None:
        modulus = max((one.value + one.step for all_of in epochs.values() for one in all_of), default=1)
    found = [_of_epoch(all_of, modulus, from_zero=epoch - 1 in epochs) for epoch, all_of in epochs.items()]
    return Gaps(*(sum(column) for column in zip(*found, strict=True))) if found else Gaps(0, 0, 0)


def _of_epoch(numbers: Sequence[Number], modulus: int, *, from_zero: bool) -> tuple[int, int, int]:
    """Lost, duplicated and reordered. from_zero: those before the first one that was seen are lost, too."""
    seen = set[int]()
    largest = numbers[0].value
    duplicated = reordered = 0
    for one in numbers:
        ahead = (one.value - largest) % modulus
        extended = largest + (ahead if 2 * ahead <= modulus else ahead - modulus)
        if extended in seen:
            duplicated += 1
            continue
        reordered += extended < largest
        seen.add(extended)
        largest = max(largest, extended)
    first = 0 if from_zero else min(seen)
    # A sender that changes its step may have sent more than its first one says.
    return max(0, (largest - first) // numbers[0].step + 1 - len(seen)), duplicated, reordered
