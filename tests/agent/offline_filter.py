"""What libpcap itself says of a frame: its own interpreter of filters, pcap_offline_filter(3PCAP)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from latlab.scenario.pcap_filter import BpfProgram, Instruction, SockFilter


class _Header(ctypes.Structure):
    _fields_ = (
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("captured", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
    )


def accepts(filtering: Sequence[Instruction], frame: bytes) -> bool:
    """Whether the filter accepts the frame."""
    program = BpfProgram(len(filtering), (SockFilter * len(filtering))(*(SockFilter(*one) for one in filtering)))
    header = _Header(0, 0, len(frame), len(frame))
    library = ctypes.CDLL("libpcap.so.0.8")
    return bool(library.pcap_offline_filter(ctypes.byref(program), ctypes.byref(header), frame))
