"""Frames on the wire: their bytes by IEEE 802.3, and how long these take."""

from __future__ import annotations

import pytest

from latlab.analysis.frames import FrameSize, wire_ns


@pytest.mark.parametrize(
    ("frame", "handed_over", "size"),
    [
        (FrameSize.of(64, "udp"), 64 + 8 + 20 + 14, 110),
        (FrameSize.of(64, "ethernet", vlan=True), 64 + 14 + 4, 86),
        (FrameSize.of(40, "ethernet"), 54, 64),
        (FrameSize.of(64, "udp", beside=True), 64 + 8 + 20 + 14, 114),
        (FrameSize.of(40, "ethernet", beside=True), 54, 64),
        (FrameSize.largest(1500), 1514, 1518),
        (FrameSize.largest(1500, beside=True), 1514, 1522),
        (FrameSize.largest(1500, vlan=True), 1518, 1522),
    ],
)
def test_a_frame_has_its_headers_its_checksum_and_the_least_size(frame: FrameSize, handed_over: int, size: int) -> None:
    assert (frame.handed_over, frame.size) == (handed_over, size)
    assert (frame.sent, frame.occupied) == (size + 8, size + 8 + 12)


def test_a_tag_that_a_vlan_interface_puts_in_is_on_the_wire_and_unknown_to_the_qdisc() -> None:
    plain, tagged = FrameSize.of(64, "udp"), FrameSize.of(64, "udp", beside=True)
    assert tagged.serialisation_ns(10**9) - plain.serialisation_ns(10**9) == 4 * 8
    assert tagged.kernel_ns(10**9) == plain.kernel_ns(10**9)


def test_the_smallest_frame_occupies_672_bit_times() -> None:
    assert FrameSize.of(40, "ethernet").occupied_ns(10**9) == 672
    assert FrameSize.of(40, "ethernet").occupied_ns(10**8) == 6720


def test_times_are_rounded_up_and_the_kernels_down() -> None:
    assert wire_ns(110 + 8, 10**10) == 95
    frame = FrameSize.of(64, "udp")
    assert frame.kernel_ns(10**10) == 106 * 800 // 1000 == 84
    assert frame.guard_ns(10**10) == 95


@pytest.mark.parametrize("speed", [10**7, 10**8, 10**9, 25 * 10**8, 10**10, 4 * 10**10, 10**11, 4 * 10**11])
@pytest.mark.parametrize("payload", [40, 64, 1400, 9000])
def test_the_guard_is_enough_for_the_wire_and_for_the_kernel(speed: int, payload: int) -> None:
    frame = FrameSize.of(payload, "udp")
    assert frame.guard_ns(speed) >= frame.serialisation_ns(speed)
    assert frame.guard_ns(speed) > frame.kernel_ns(speed)
