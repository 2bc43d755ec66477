"""Qdiscs without classes: etf and cbs, at the root or beneath one of its queues, and tbf, at the root."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.model.units import RATES, SECOND_NS
from latlab.scenario.shapers import Cbs, Etf, Tbf
from latlab.testbed.shapers.base import Qdisc, QdiscPlace, ShaperKind, in_words
from latlab.testbed.step import Step

SWITCH = {True: "on", False: "off"}
BURST_LOST_NS = 1_000 + 64
"""The kernel has a burst as the time that it takes, and gives that in ticks of 64 ns (PSCHED_NS2TICKS); tc prints what
passes in the whole µs of it (tc_core_tick2time, iproute2)."""


class EtfKind(ShaperKind):
    """tc-etf(8). Its clock is TAI: the kernel takes no other (net/sched/sch_etf.c, validate_input_params)."""

    use = "launch times"
    tried = ("clockid", "CLOCK_TAI", "delta", "100000")

    def steps(self, shaper: Etf, place: QdiscPlace) -> Iterator[Step]:
        """One step."""
        flags = {"offload": shaper.offload, "deadline_mode": shaper.deadline, "skip_sock_check": shaper.skip_sock_check}
        words = ("etf", "clockid", "CLOCK_TAI", "delta", str(shaper.delta), *(name for name, on in flags.items() if on))
        options = {"clockid": "TAI", "delta": shaper.delta, **{name: SWITCH[on] for name, on in flags.items()}}
        check = place.check(in_words({"kind": "etf", "options": options}, etf_words), etf_words)
        yield self.shaped(place, shaper, place.replaced(*words), check)


def etf_words(options: Qdisc) -> str:
    """`TAI, delta 200000 ns, offload off, deadline_mode off, skip_sock_check off`."""
    flags = ", ".join(f"{name} {options[name]}" for name in ("offload", "deadline_mode", "skip_sock_check"))
    return f"{options['clockid']}, delta {options['delta']} ns, {flags}"


class CbsKind(ShaperKind):
    """tc-cbs(8): slopes in kbit/s, credits in bytes."""

    use = "credit-based shapers"

    def steps(self, shaper: Cbs, place: QdiscPlace) -> Iterator[Step]:
        """One step."""
        speed = shaper.speed or place.speed
        options = {
            "idleslope": shaper.idle_slope // RATES["kbit/s"],
            "sendslope": shaper.send_slope_bps(speed) // RATES["kbit/s"],
            "hicredit": shaper.hi_credit_bytes(speed),
            "locredit": shaper.lo_credit_bytes(speed),
            "offload": int(shaper.offload),
        }
        words = ("cbs", *(word for name, value in options.items() for word in (name, str(value))))
        check = place.check(in_words({"kind": "cbs", "options": options}, cbs_words), cbs_words)
        yield self.shaped(place, shaper, place.replaced(*words), check)


def cbs_words(options: Qdisc) -> str:
    """`idleslope 1000 sendslope -9999000 hicredit 1 locredit -1522 offload 0`."""
    return " ".join(f"{name} {options[name]}" for name in ("idleslope", "sendslope", "hicredit", "locredit", "offload"))


class TbfKind(ShaperKind):
    """tc-tbf(8). It prints bytes a second, and instead of its limit how long the last packet within it waits."""

    use = "rate limits"

    def steps(self, shaper: Tbf, place: QdiscPlace) -> Iterator[Step]:
        """One step."""
        words = ("tbf", "rate", f"{shaper.rate}bit", "burst", f"{shaper.burst}b", "limit", f"{shaper.limit}b")
        options = {"rate": shaper.rate // 8, "burst": shaper.burst}
        expected = in_words({"kind": "tbf", "options": options}, tbf_words)
        check = place.check(expected, lambda found: tbf_words(found | {"burst": _burst_set(shaper, found["burst"])}))
        yield self.shaped(place, shaper, place.replaced(*words), check)


def _burst_set(shaper: Tbf, printed: int) -> int:
    """The shaper's burst where tc prints that as it did, else what it printed."""
    # One byte for what passes in a fraction of the time, one as tc cuts the sum.
    lost = shaper.rate * BURST_LOST_NS // (8 * SECOND_NS) + 2
    return shaper.burst if shaper.burst - lost <= printed <= shaper.burst else printed


def tbf_words(options: Qdisc) -> str:
    """`rate 12500000 B/s, burst 1600 B`."""
    return f"rate {options['rate']} B/s, burst {options['burst']} B"
