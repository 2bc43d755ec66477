"""Filters of pcap-filter(7), compiled by libpcap for Ethernet, as the agent has them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from latlab.model.errors import UsageError
from latlab.model.limits import LIMITS

Instruction = tuple[int, int, int, int]
"""Of classic BPF (`struct sock_filter` of linux/filter.h): code, jump if true, jump if false, number."""

_LIBRARIES: Final = ("libpcap.so.0.8", "libpcap.so.1")
"""Its name on Debian, and on others."""
_ETHERNET: Final = 1
"""DLT_EN10MB."""
_LONGEST: Final = 65_535
_NETMASK_UNKNOWN: Final = 0xFFFFFFFF
_LOADS: Final = {0x20: 4, 0x28: 2, 0x30: 1, 0x40: 4, 0x48: 2, 0x50: 1, 0xB1: 1}
"""{code of a load from a place, or from one so far behind X: how many bytes}."""


class SockFilter(ctypes.Structure):
    """`struct sock_filter` of linux/filter.h, which is libpcap's `struct bpf_insn`."""

    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint32))


class BpfProgram(ctypes.Structure):
    """libpcap's `struct bpf_program`."""

    _fields_ = (("length", ctypes.c_uint), ("instructions", ctypes.POINTER(SockFilter)))


def compiled(expression: str) -> list[Instruction]:
    """The instructions of a filter. UsageError: it is none, the agent cannot apply it, or libpcap is not here."""
    if not expression:
        raise _wrong(expression, "an expression is missing", "for instance 'pcap: ip[8] < 5'")
    library = _library()
    handle, program = library.pcap_open_dead(_ETHERNET, _LONGEST), BpfProgram()
    try:
        if library.pcap_compile(handle, ctypes.byref(program), expression.encode(), 1, _NETMASK_UNKNOWN):
            raise _wrong(expression, library.pcap_geterr(handle).decode(errors="replace"), "see pcap-filter(7)")
        found = [(one.code, one.yes, one.no, one.k) for one in program.instructions[: program.length]]
        library.pcap_freecode(ctypes.byref(program))
    finally:
        library.pcap_close(handle)
    if len(found) > LIMITS.filter_instructions:
        what = f"{len(found)} instructions; at most {LIMITS.filter_instructions} can be applied to a packet"
        raise _wrong(expression, what, "write a shorter filter")
    last = max((k + _LOADS[code] for code, _, _, k in found if code in _LOADS), default=0)
    seen = LIMITS.filter_bytes
    if last > seen:
        what = f"it reads byte {last - 1} of the frame, or one behind it"
        raise _wrong(expression, what, f"only the first {seen} bytes are read: 0 to {seen - 1}")
    return found


def _library() -> Any:
    """libpcap, with the types of what is called."""
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.pcap_open_dead.restype = ctypes.c_void_p
        library.pcap_geterr.restype = ctypes.c_char_p
        library.pcap_geterr.argtypes = library.pcap_close.argtypes = [ctypes.c_void_p]
        library.pcap_compile.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_uint32,
        ]
        return library
    what = "a filter of pcap-filter(7) needs libpcap, which this machine does not have"
    remedy = "install it (Debian package: libpcap0.8), or write the flow without `pcap:` (docs/reference/watch.md)"
    raise UsageError(what, where="--flow", remedy=remedy)


def _wrong(expression: str, what: str, remedy: str) -> UsageError:
    return UsageError(f"'pcap: {expression}': {what}", where="--flow", remedy=remedy)
