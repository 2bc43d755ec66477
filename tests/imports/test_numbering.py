"""Numbers that senders put into packets: read of each protocol, and what gaps in them say."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest

from latlab.imports.numbering import NUMBERINGS, numbers_of
from latlab.imports.numbering.base import Frame, Gaps, Number, frame_of, gaps_of
from support.imports.captures import ethernet, ipv4, ipv6, udp
from support.imports.frames import (
    GOOD,
    avtp,
    goose,
    hsr,
    profinet,
    rtps,
    rtps_data,
    rtps_heartbeat,
    rtps_message,
    rtps_submessage,
    sampled,
    some_ip,
    some_ip_message,
)


def rtp(number: int, source: int = 7) -> bytes:
    return ethernet(ipv4(udp(struct.pack(">BBHII", 0x80, 96, number % 65536, 90 * number, source) + bytes(40))))


def rtp6(number: int) -> bytes:
    return ethernet(ipv6(udp(struct.pack(">BBHII", 0x80, 96, number % 65536, 90 * number, 7) + bytes(40))), 0x86DD)


def r_tagged(number: int) -> bytes:
    inner = struct.pack(">HHH", 0, number % 65536, 0x88B5) + bytes(46)
    return ethernet(inner, 0xF1C1)


def prp(number: int, lan: int = 0xA) -> bytes:
    body = bytes(46)
    return ethernet(body + struct.pack(">HHH", number % 65536, lan << 12 | len(body) + 6, 0x88FB), 0x88B5)


def seen(frames: Sequence[bytes]) -> list[Frame | None]:
    return [frame_of(frame, len(frame), ethernet=True) for frame in frames]


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (rtp, "rtp"),
        (rtp6, "rtp"),
        (sampled, "sv"),
        (r_tagged, "r-tag"),
        (prp, "prp"),
        (lambda n: goose(1, n), "goose"),
        (profinet, "profinet"),
        (hsr, "hsr"),
        (avtp, "avtp"),
        (lambda n: avtp(n, 0x82), "avtp"),
        (some_ip, "some-ip"),
        (rtps, "rtps"),
    ],
)
def test_what_is_missing_came_twice_and_came_late_is_counted(frame: Callable[[int], bytes], name: str) -> None:
    order = [0, 1, 2, 5, 6, 8, 7, 9, 9, 10]
    found = numbers_of(seen([frame(number) for number in order]))
    assert found
    assert (found.numbering.name, found.sources, found.gaps) == (name, 1, Gaps(lost=2, duplicated=1, reordered=1))


@pytest.mark.parametrize(
    ("frame", "turn"),
    [(rtp, 65536), (r_tagged, 65536), (prp, 65536), (hsr, 65536), (profinet, 2048), (avtp, 256), (some_ip, 65535)],
)
def test_counting_goes_on_behind_the_last_number(frame: Callable[[int], bytes], turn: int) -> None:
    order = (-5, -4, -3, -2, 1, 0, 2, 3, 4)
    found = numbers_of(seen([frame(turn + number) for number in order]))
    assert found
    assert found.gaps == Gaps(lost=1, duplicated=0, reordered=1)


def test_samples_are_counted_again_each_second_and_several_may_be_in_a_frame() -> None:
    lost = {37, 4100, 4101}
    found = numbers_of(seen([sampled(number) for number in range(9000) if number not in lost]))
    assert found
    assert (found.gaps, found.rates) == (Gaps(3, 0, 0), (4000,))
    # Not a whole second of them.
    found = numbers_of(seen([sampled(number) for number in range(3000)]))
    assert found
    assert found.rates == ()
    found = numbers_of(seen([sampled(number, in_each=8) for number in range(1200) if number != 600]))
    assert found
    assert found.gaps == Gaps(1, 0, 0)


def test_of_a_new_state_of_goose_the_first_that_was_seen_shows_what_is_missing() -> None:
    order = [(1, 7), (1, 8), (1, 9), (2, 2), (2, 3), (2, 4), (2, 5)]
    found = numbers_of(seen([goose(*one) for one in order]))
    assert found
    assert found.gaps == Gaps(2, 0, 0)


def test_each_source_counts_by_itself() -> None:
    frames = [
        rtp(100 * source + number, source) for number in range(9) for source in (1, 2) if (number, source) != (4, 2)
    ]
    found = numbers_of(seen(frames))
    assert found
    assert (found.sources, found.gaps) == (2, Gaps(1, 0, 0))
    both = [prp(number, lan) for number in range(5) for lan in (0xA, 0xB)]
    found = numbers_of(seen(both))
    assert found
    assert (found.sources, found.gaps) == (2, Gaps(0, 0, 0))


def test_rtcp_on_the_port_of_rtp_is_no_gap_and_no_flow_by_itself() -> None:
    media = [rtp(number) for number in range(9) if number != 4]
    for body in (bytes(4), bytes(24)):
        report = ethernet(ipv4(udp(struct.pack(">BBHI", 0x80, 200, len(body) // 4, 7) + body)))
        found = numbers_of(seen([*media[:3], report, *media[3:], report]))
        assert found
        assert (found.numbering.name, found.sources, found.gaps) == ("rtp", 1, Gaps(1, 0, 0))
        assert numbers_of(seen([report] * 9)) is None


def test_the_counter_of_profinet_shows_the_cycle_and_when_each_frame_was_due() -> None:
    order = [0, 1, 2, 5, 4, 6]
    found = numbers_of(seen([profinet(number) for number in order]))
    assert found
    assert (found.periods_ns, found.gaps) == ((1_000_000,), Gaps(lost=1, duplicated=0, reordered=1))
    ahead_ns = [one and (one.before, one.ns) for one in found.counted]
    ms = 1_000_000
    assert ahead_ns == [None, (0, ms), (1, ms), (2, 3 * ms), (3, -ms), (4, 2 * ms)]


def test_two_senders_of_profinet_with_cycles_of_their_own_are_counted_apart() -> None:
    frames = []
    for number in range(40):
        frames += [profinet(number)] if number != 9 else []
        frames += [profinet(number, frame_id=0xC002)] if number % 4 == 0 and number != 20 else []
    found = numbers_of(seen(frames))
    assert found
    assert (found.sources, found.periods_ns, found.gaps) == (2, (1_000_000, 4_000_000), Gaps(2, 0, 0))


def test_what_senders_say_of_their_data_is_counted() -> None:
    status = {2: 0x31, 3: 0x21, 5: 0x15}
    found = numbers_of(seen([profinet(number, status=status.get(number, GOOD)) for number in range(9)]))
    assert found
    assert found.said == {"data not valid": 2, "provider stopped": 1, "station problem": 1}
    found = numbers_of(seen([profinet(number, transfer=number == 4, status=GOOD | 0x80) for number in range(9)]))
    assert found
    assert found.said == {"to be ignored": 9, "transfer status 1": 1}


def test_alarms_and_configuration_of_profinet_have_no_cycle() -> None:
    for frame_id in (0x0080, 0xFC01, 0xFE01, 0xFEFD, 0xFF00):
        assert numbers_of(seen([profinet(number, frame_id=frame_id) for number in range(9)])) is None


def test_of_some_ip_events_may_count_by_themselves_or_all_together() -> None:
    lost = {(0x8001, 7), (0x8002, 3), (0x8002, 4)}
    own = [some_ip(n, method=event) for n in range(20) for event in (0x8001, 0x8002) if (event, n) not in lost]
    found = numbers_of(seen(own))
    assert found
    assert (found.sources, found.gaps) == (2, Gaps(3, 0, 0))
    together = [some_ip(n, method=0x8001 + n % 3 % 2) for n in range(40) if n not in (7, 20, 21)]
    found = numbers_of(seen(together))
    assert found
    assert (found.sources, found.gaps) == (1, Gaps(3, 0, 0))


def test_several_messages_or_samples_may_be_in_a_datagram() -> None:
    pairs = [
        ethernet(ipv4(udp(some_ip_message(2 * n + 1) + some_ip_message(2 * n + 2))))
        for n in range(20)
        if n not in (4, 9)
    ]
    found = numbers_of(seen(pairs))
    assert found
    assert (found.numbering.name, found.gaps) == ("some-ip", Gaps(4, 0, 0))
    # What else is in a datagram that was cut is unknown.
    assert numbers_of([frame_of(frame[:70], len(frame), ethernet=True) for frame in pairs]) is None
    samples = [rtps_message(rtps_data(2 * n), rtps_data(2 * n + 1, order=">")) for n in range(20) if n != 4]
    found = numbers_of(seen(samples))
    assert found
    assert (found.numbering.name, found.gaps) == ("rtps", Gaps(2, 0, 0))
    assert numbers_of([frame_of(frame[:110], len(frame), ethernet=True) for frame in samples]) is None
    # A time that is declared invalid has no bytes, and a sample follows it.
    timeless = [rtps_message(rtps_submessage(0x09, b""), rtps_data(n)) for n in range(20) if n != 4]
    found = numbers_of(seen(timeless))
    assert found
    assert (found.numbering.name, found.gaps) == ("rtps", Gaps(1, 0, 0))


def test_heartbeats_of_dds_have_no_number_and_a_sample_that_is_sent_again_came_again() -> None:
    frames = []
    for number in range(1, 20):
        frames += [rtps_message(rtps_data(number, size=200), rtps_heartbeat(number))] if number not in (5, 6) else []
        frames += [rtps_message(rtps_heartbeat(number))] if number % 5 == 0 else []
    frames.append(rtps_message(rtps_data(5, size=200)))
    found = numbers_of(seen(frames))
    assert found
    assert (found.sources, found.gaps) == (1, Gaps(lost=1, duplicated=0, reordered=1))
    # A heartbeat behind a sample may be cut off.
    cut = numbers_of([frame_of(frame[:128], len(frame), ethernet=True) for frame in frames])
    assert cut and cut.gaps == found.gaps


def test_bytes_that_do_not_count_up_are_no_numbers() -> None:
    frames = [ethernet(ipv4(udp(bytes([0x80, 96]) + bytes(70)))) for _ in range(20)]
    assert numbers_of(seen(frames)) is None
    assert numbers_of(seen([rtp(n * 7919) for n in range(20)])) is None
    assert numbers_of(seen([rtp(1), rtp(2)])) is None
    assert numbers_of([]) is None


def test_a_frame_that_was_cut_has_the_numbers_that_are_left_of_it() -> None:
    assert numbers_of([frame_of(rtp(n)[:80], len(rtp(n)), ethernet=True) for n in range(5)])
    # What is at the end is cut off.
    for frame in (prp, profinet):
        assert numbers_of([frame_of(frame(n)[:60], len(frame(n)), ethernet=True) for n in range(5)]) is None
    every = (rtp, sampled, lambda n: goose(1, n), r_tagged, prp, profinet, hsr, avtp, some_ip, rtps)
    for whole in (one(1) for one in every):
        for length in range(len(whole)):
            cut = frame_of(whole[:length], len(whole), ethernet=True)
            assert cut is None or all(one.read(cut) is None or one.read(cut) for one in NUMBERINGS)


def test_a_turn_without_a_modulus_ends_behind_the_largest_number() -> None:
    numbers = [Number(value) for value in (2, 3, 0, 1, 3, 0)]
    assert gaps_of(numbers, None) == Gaps(1, 0, 0)
    assert gaps_of([], None) == gaps_of([], 8) == Gaps(0, 0, 0)
