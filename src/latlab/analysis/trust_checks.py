"""The checks of the trust table: each yields the places where a cell's evidence breaks it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from latlab.analysis.clock_checks import to_bound_clocks
from latlab.analysis.counts import REFUSED, counted, is_no_packets
from latlab.analysis.evidence import (
    RECEIVING,
    Broken,
    Evidence,
    GapSeen,
    RecordingSeen,
    checks,
    counters,
    counts_of,
    listed,
    metrics,
    said_of_some,
    said_received,
    said_sent,
    totals,
    untagged,
)
from latlab.analysis.way import EXPLAINED
from latlab.analysis.words import duration, percent, plural
from latlab.model import timestamps
from latlab.model.bridges import KINDS
from latlab.model.errors import rejection_remedy
from latlab.model.facts import Facts, QdiscFacts, fact, interfaces_in
from latlab.model.metrics import METRICS
from latlab.recordings.cell import Bridge, RecordedStream
from latlab.result.types import Gates, Metric, Stream, Unstamped

_KEEP_LAUNCH_TIMES = {"tai": frozenset({"etf", "taprio"}), "monotonic": frozenset({"fq"})}
"""Qdiscs that send a packet at its launch time (SO_TXTIME), by its clock: net/sched/sch_etf.c, sch_taprio.c, sch_fq.c.

fq takes launch times on CLOCK_MONOTONIC only: one on another clock lies beyond its horizon, and it drops the packet."""
_NOT_PACED = 7
"""TC_PRIO_CONTROL: fq sends packets of this priority before all others, whenever they are due (fq_classify)."""
_XDP_COUNTS = re.compile(r"frames redirected (\d+), passed (\d+)")
"""What the ports of an XDP bridge counted until the cell's end, in the bridge's `detail` (docs/reference/agent.md)."""
_BECAME = ("received", "lost", "unsent", "send_errors", "unknown")
"""What becomes of a packet: one of these."""
_DAMAGED = "restore a complete copy of the file and run `latlab report` again; check the disk and its cable"
_ONE_WAY = tuple(metric.name for metric in METRICS if metric.crosses_hosts and not metric.periodic)


@checks("cell-ended")
def cell_ran_to_its_end(evidence: Evidence) -> Iterator[Broken]:
    """A cell that failed, was interrupted or never begun; one that this machine cannot build is none of these."""
    status, reason = evidence.cell.status, evidence.cell.reason
    if status in ("failed", "interrupted", "not run"):
        what = reason.what if reason else "no reason given"
        yield Broken(reason.where if reason else "", "status ok", f"{status}: {what}")


@checks("agents-ended")
def agents_came_to_their_end(evidence: Evidence) -> Iterator[Broken]:
    """Agents that failed; and in a cell that ended well those without their totals, so that nothing can be checked."""
    for agent in evidence.cell.agents:
        if error := agent.error:
            yield Broken(agent.name, "no error", ": ".join(filter(None, (error.where, error.what))), error.remedy)
        elif evidence.cell.status == "ok" and not agent.done:
            yield Broken(agent.name, "its totals at its end (`done` in cell.json)", "none")


@checks("facts-taken")
def facts_were_taken(evidence: Evidence) -> Iterator[Broken]:
    """Hosts of a cell that ended well of which it has no facts: of them no setting and no counter is judged."""
    if evidence.cell.status != "ok":
        return
    for host in sorted({agent.host for agent in evidence.cell.agents}):
        for when, facts in (("before", evidence.facts_before), ("after", evidence.facts_after)):
            if host not in facts:
                yield Broken(host, f"facts {when} the streams", f"none in facts-{when}.json")


@checks("recordings-whole")
def recordings_are_whole(evidence: Evidence) -> Iterator[Broken]:
    """Recordings without their end, such as are not there, and damaged ones."""
    for name, found in evidence.findings.items():
        if not found.present:
            yield Broken(name, "a recording with its end marker", "absent: there is no such file")
        elif not found.complete:
            yield Broken(name, "a recording with its end marker", f"cut short: {plural(found.rows, 'row')} and no end")
        for gap in found.gaps:
            yield Broken(name, "every batch agrees with its checksum", _damage(found, gap), _DAMAGED)


def _damage(found: RecordingSeen, gap: GapSeen) -> str:
    """Return which rows of a recording are damaged."""
    last = found.stated if gap.rows is None else gap.first_row + gap.rows - 1
    rows = f"rows {gap.first_row} to {last}" if last else f"all rows from {gap.first_row} on"
    return f"batch {gap.batch} is damaged: {rows} are not in any figure"


@checks("ring-full")
def no_record_was_dropped(evidence: Evidence) -> Iterator[Broken]:
    """Agents whose ring was full."""
    for agent, done in totals(evidence):
        if full := done.ring_full:
            yield Broken(agent, "ring_full 0", f"ring_full {full}")


@checks("counts-agree")
def every_packet_is_accounted_for(evidence: Evidence) -> Iterator[Broken]:
    """Counts of the same packets that differ: of an agent and its recordings, or of a stream's two ends."""
    # What an agent counted of its readings is what its other rows leave of all: no more right than their counts are.
    doubtful = {
        f"{name.rpartition('.')[0]}.clocks"
        for name, found in evidence.findings.items()
        if found.stated is not None and found.rows > found.stated >= 0 and not name.endswith(".clocks")
    }
    for name, found in evidence.findings.items():
        if name in doubtful:
            continue
        known = [gap.rows for gap in found.gaps]
        if found.stated is not None and found.stated < 0:
            actual = f"by the totals it should have {found.stated} rows, which is impossible"
            yield Broken(name, "as many rows as its agent's totals allow", actual)
        elif found.stated is not None and None not in known and found.rows + sum(filter(None, known)) != found.stated:
            apart = found.stated - found.rows
            how = f"{plural(apart, 'row')} missing" if apart > 0 else f"{plural(-apart, 'row')} too many"
            yield Broken(name, f"{plural(found.stated, 'row')}, as its agent counted", f"{found.rows}: {how}")
    # Of what is not all there it was said above.
    whole = all(found.complete and found.rows >= (found.stated or 0) for found in evidence.findings.values())
    sent = {}
    for agent, name, said in said_sent(evidence):
        sent[name] = said
        counts = counts_of(evidence, name)
        kept = counts["sent"] + counts["send_errors"] if counts else 0
        if counts is not None and (whole or not counts["unknown"]) and said != kept:
            expected = f"{plural(kept, 'packet')} sent or refused, as recorded"
            yield Broken(f"{agent}, stream {name}", expected, f"{said}, by the talker's own counters")
    for agent, name, said in said_received(evidence):
        counts = counts_of(evidence, name)
        if counts is not None and (whole or not counts["unknown"]) and said != counts["received"]:
            expected = f"{plural(counts['received'], 'packet')} received, as recorded"
            yield Broken(f"{agent}, stream {name}", expected, f"{said}, by the listener's own counters")
        if said > sent.get(name, said):
            expected = f"at most the {plural(sent[name], 'packet')} that the talker counted"
            yield Broken(f"{agent}, stream {name}", expected, f"{said} received, by the listener's own counters")
    for agent, name, which, said in said_of_some(evidence) if whole else ():
        counts = counts_of(evidence, name)
        if counts is not None and said != counts[which]:
            expected = f"{plural(counts[which], 'packet')} {which.replace('_', ' ')}, as recorded"
            yield Broken(f"{agent}, stream {name}", expected, f"{said}, by the agent's own counters")
    for stream in evidence.cell.streams:
        counts = counts_of(evidence, stream.name)
        if counts is None or is_no_packets(stream) or evidence.cell.imported is not None:
            continue
        never = sum(counts[became] for became in _BECAME) - counts["scheduled"]
        if never > 0:
            actual = f"{plural(never, 'packet')} arrived that the talker did not hand over"
            yield Broken(f"stream {stream.name}", "only packets that were sent", actual)


@checks("timestamps-possible")
def every_instant_is_possible(evidence: Evidence) -> Iterator[Broken]:
    """Timestamps before their agent began or after it ended, or before what has to come first."""
    streams = {stream.stream: stream for stream in evidence.cell.streams}
    for name, found in evidence.findings.items():
        for one in found.impossible:
            stream = streams.get(one.stream)
            what = "instant" if stream and stream.timer else "packet"
            of = f"{plural(one.count, what)} of {stream.name if stream else one.stream}"
            first = f"sequence {one.first_sequence}" if one.count == 1 else f"from sequence {one.first_sequence} on"
            which = (
                "not in any figure"
                if one.left_out
                else "most of the stream's, so the card's clock differs from the system's"
            )
            yield Broken(name, f"no {one.stamp} {one.why}", f"{of}, {first}: {which}")


@checks("launches-scheduled")
def launch_times_are_the_schedules(evidence: Evidence) -> Iterator[Broken]:
    """Recordings with launch times that are not start + offset + n × period."""
    for name, found in evidence.findings.items():
        if found.launch_mismatched:
            yield Broken(name, "every launch time as scheduled", f"{plural(found.launch_mismatched, 'other')}")


@checks("launches-honoured")
def launch_times_are_honoured(evidence: Evidence) -> Iterator[Broken]:
    """Streams with launch times that leave by an interface without a qdisc that keeps them."""
    for stream in evidence.cell.streams:
        if stream.launch_time is None:
            continue
        qdiscs = _qdiscs(evidence.facts_before, stream)
        if qdiscs is None:
            continue
        kinds = [qdisc.get("kind", "") for qdisc in qdiscs]
        clock = stream.launch_time.clock
        keeping = _KEEP_LAUNCH_TIMES.get(clock, frozenset())
        if not set(kinds) & keeping:
            expected = " or ".join(sorted(keeping)) or f"another clock: no qdisc uses {clock}"
            yield Broken(_launching(stream), expected, ", ".join(kinds) or "no qdisc")
        elif "fq" in keeping and stream.priority == _NOT_PACED:
            yield Broken(_launching(stream), f"another priority than {_NOT_PACED}", "fq sends that priority at once")


@checks("launch-dropped")
def no_launch_was_dropped_silently(evidence: Evidence) -> Iterator[Broken]:
    """Streams of whose packets with launch times no outcome is known."""
    for stream in evidence.cell.streams:
        measured = evidence.streams.get(stream.name)
        if measured is None or not (silent := measured.silent):
            continue
        first, last = silent.first_sequence, silent.last_sequence
        ahead = duration(stream.lead_ns)
        which = f"sequence {first}" if first == last else f"sequences {first} to {last}"
        actual = f"{silent.count} of {plural(measured.counts['sent'] or 0, 'packet')} without any, {which}"
        actual += f", handed over {ahead} ahead"
        told = [_told(qdisc) for qdisc in _qdiscs(evidence.facts_after, stream) or []]
        if told:
            actual += f" to {', '.join(told)}"
        yield Broken(_launching(stream), "an arrival, a timestamp of leaving or an error record of each", actual)


@checks("xdp-carried")
def xdp_bridge_carried_the_streams(evidence: Evidence) -> Iterator[Broken]:
    """XDP bridges that left most of the packets to the kernel bridge next to them: the figures are that one's."""
    for where, arrived, redirected, passed in _across_xdp(evidence):
        if 2 * redirected < arrived:
            yield _not_redirected(where, arrived, redirected, passed)


@checks("xdp-carried-all")
def xdp_bridge_carried_every_packet(evidence: Evidence) -> Iterator[Broken]:
    """XDP bridges that left some of the packets to the kernel bridge, and streams that it has to carry."""
    for where, arrived, redirected, passed in _across_xdp(evidence):
        if redirected < arrived <= 2 * redirected:
            yield _not_redirected(where, arrived, redirected, passed)
    for bridge in _xdp_bridges(evidence):
        for stream in evidence.cell.streams:
            if _ends(stream) & set(bridge.guests) and bridge.host in _ends(stream):
                yield Broken(f"stream {stream.name}", "from port to port", f"one end is {bridge.host} itself")


@checks("packets-arrived")
def packets_arrived(evidence: Evidence) -> Iterator[Broken]:
    """Streams of which packets were sent after the warm-up, and none arrived; probes that were never answered.

    What arrived without its VLAN tag has a separate finding.
    """
    without_tag = {name for _, name, _ in untagged(evidence)}
    lost = {
        stream: figures.lost or 0
        for _, stream, _, figures in metrics(evidence, *EXPLAINED)
        if figures.nothing_arrived and stream not in without_tag
    }
    for stream, count in lost.items():
        entry = next((one for one in evidence.cell.streams if one.name == stream), None)
        none = f"none of the {count} packets" if count > 1 else "not the one packet"
        actual = f"{none} sent after the warm-up"
        yield Broken(f"stream {stream}", "packets that arrive", actual, _where_dropped(entry) if entry else "")


def _where_dropped(stream: RecordedStream) -> str:
    """Where to look for the packets of a stream, by its entry in cell.json, of which none arrived."""
    return (
        f"check that the firewall on {stream.listener} accepts {_port(stream)} (`nft list ruleset`, `iptables -S`), "
        "and compare the counters of both ends' cards and qdiscs (`ip -s link`, `tc -s qdisc show dev IF`); for a "
        "probe check that the answerer runs"
    )


def _port(stream: RecordedStream) -> str:
    """The port that a stream's packets go to, in words."""
    if number := stream.to_port:
        return f"{str(stream.transport).upper()} port {number} of {stream.listener}"
    return "its packets"


@checks("vlan-tags-kept")
def frames_kept_their_tags(evidence: Evidence) -> Iterator[Broken]:
    """Streams with a VLAN of which frames reached their listener without the tag: in the counts they are lost."""
    for host, name, count in untagged(evidence):
        counts = counts_of(evidence, name)
        of_all = f" of {counts['sent']}" if counts else ""
        actual, remedy = f"{count}{of_all} arrived without it and count as lost", ""
        for bridge in evidence.cell.bridges:
            if host in bridge.guests and (device := bridge.uplink):
                actual += f"; the bridge ({bridge.kind}) has them from {bridge.host}.{device}"
                remedy = f"`ethtool -K {device} rxvlan off` on {bridge.host}, if that card strips tags: `ethtool -k"
                remedy += f" {device}` has rx-vlan-offload on then"
        yield Broken(f"stream {name}, {host}", "each frame with its VLAN tag", actual, remedy)


@checks("clock-stepped")
def clocks_were_not_stepped(evidence: Evidence) -> Iterator[Broken]:
    """Hosts whose REALTIME jumped against MONOTONIC, or TAI against REALTIME, between two readings."""
    for name, clocks in evidence.clocks.items():
        # Reading the clocks takes time itself: a difference is only as sharp as the two brackets.
        bracket = clocks["bracket_ns"].to_numpy()
        sharp = evidence.thresholds.clock_step_ns + bracket[1:] + bracket[:-1]
        pairs = {
            "REALTIME − MONOTONIC": clocks["real_ns"] - clocks["monotonic_ns"],
            "TAI − REALTIME": clocks["tai_ns"] - clocks["real_ns"],
        }
        for pair, difference in pairs.items():
            jump = np.diff(difference.to_numpy())
            stepped = np.abs(jump) > sharp
            if stepped.any():
                worst = int(jump[np.abs(jump).argmax()])
                expected = f"{pair} steady within {duration(evidence.thresholds.clock_step_ns)}"
                yield Broken(name, expected, f"a step of {duration(worst)}")


@checks("arrived-early")
def no_packet_arrived_before_it_left(evidence: Evidence) -> Iterator[Broken]:
    """One-way figures further below zero than the clocks' bound, and than packets may leave early."""
    streams = {stream.name: stream for stream in evidence.cell.streams}
    for where, stream, metric, figures in metrics(evidence, *_ONE_WAY, "delivery"):
        if figures.uncertainty_ns is None or figures.min is None:
            continue
        lowest = -figures.uncertainty_ns
        if metric.startswith("latency"):
            lowest -= streams[stream].lead_ns
        if figures.min < lowest:
            actual = f"{duration(figures.min)} (sequence {figures.min_sequence})"
            yield Broken(where, f"{duration(lowest)} or more", actual)


@checks("clock-bound")
def clock_offset_is_bounded(evidence: Evidence) -> Iterator[Broken]:
    """One-way figures between hosts whose clock offset nothing bounds, for some packets or for all."""
    expected = "a bound of the offset between the two clocks"
    for where, stream, _, figures in metrics(evidence, *_ONE_WAY):
        unbounded = figures.unbounded
        remedy = to_bound_clocks(evidence.cell, stream, figures)
        if unbounded:
            said = f"none for {unbounded} of {plural((figures.n or 0) + unbounded, 'packet')}: not in any figure"
            yield Broken(where, expected, said, remedy)
        elif figures.uncertainty_ns is None and not figures.nothing_arrived:
            yield Broken(where, expected, "none in cell.json", remedy)


@checks("clock-bound-large")
def clock_bound_is_small(evidence: Evidence) -> Iterator[Broken]:
    """Streams whose median latency is not well above the clocks' bound."""
    for where, _, _, figures in metrics(evidence, "latency"):
        bound, median = figures.uncertainty_ns, figures.p50
        if bound and median is not None and bound > evidence.thresholds.clock_bound_share * abs(median):
            share = evidence.thresholds.clock_bound_share
            most = duration(round(share * abs(median)))
            expected = f"at most ± {most}, {percent(share)} of the median of {duration(median)}"
            yield Broken(where, expected, f"± {duration(bound)}")


@checks("talker-punctual")
def talker_is_punctual(evidence: Evidence) -> Iterator[Broken]:
    """Streams whose talker woke late by more than a period and its lead: once, or for one packet in a hundred.

    Within the lead, the launch time makes up for a late wake-up.
    """
    streams = {stream.name: stream for stream in evidence.cell.streams if stream.timer is None}
    for where, name, _, figures in metrics(evidence, "wakeup"):
        latest, p99 = figures.max, figures.p99
        period, lead = (streams[name].period_ns, streams[name].lead_ns) if name in streams else (None, 0)
        if period is None or latest is None or latest <= max(period, lead):
            continue
        most, what = (lead, "the lead") if lead > period else (period, "a period")
        often = f", p99 {duration(p99)}" if p99 is not None and p99 > most else ""
        actual = f"max {duration(latest)} (sequence {figures.max_sequence}){often}"
        yield Broken(where, f"every wake-up within {what}, {duration(most)}", actual)


@checks("rt-settings")
def realtime_settings_are_in_force(evidence: Evidence) -> Iterator[Broken]:
    """Agents that found their settings other than asked for."""
    for agent in evidence.cell.agents:
        for problem in agent.realtime.problems:
            yield Broken(agent.name, "every real-time setting as requested", problem)


@checks("tuning-in-force")
def tuning_is_in_force(evidence: Evidence) -> Iterator[Broken]:
    """Settings that could not be made, where the run continues without them, and those that had changed at the end."""
    if evidence.cell.status == "ok":  # in another the step that failed may be what ended it
        for step in evidence.cell.steps:
            if not step.ok:
                actual = step.why or step.actual or "not done"
                yield Broken(f"{step.host}: {step.title}", step.expected or "done", actual)
    for again in evidence.cell.rechecks:
        if not again.ok:
            where = f"{again.host}: {again.title}"
            yield Broken(where, again.expected or "as set", f"{again.actual} at the end")


_UNSTAMPED_ARRIVALS: Final = (
    "the listener's kernel, or its card, gave none: check whether that card stamps every packet (`ethtool -T IF`, "
    "receive filter `all`), and lower the rate: a card can store only few at a time"
)


@checks("timestamps-there")
def timestamps_are_there(evidence: Evidence) -> Iterator[Broken]:
    """Metrics for which too many packets are without a timestamp."""
    for where, name, _, figures in metrics(evidence, *(metric.name for metric in METRICS)):
        if figures.missing is None:
            continue  # a tool keeps figures, and no packets
        share = figures.missing / max(1, (figures.n or 0) + figures.missing)
        if share > evidence.thresholds.missing_share:
            between = f"{figures.from_} or {figures.to}"
            expected = f"at most {percent(evidence.thresholds.missing_share)} of packets without {between}"
            unstamped = {one.stamp for stream, one in _unstamped(evidence) if stream.name == name}
            here = unstamped & {figures.from_, figures.to}
            of_listener = bool(here) and all(stamp.startswith("rx_") for stamp in here)
            yield Broken(where, expected, f"{share:.1%} ({figures.missing})", _UNSTAMPED_ARRIVALS * of_listener)
    yield from _missing_from_all(evidence)


def _missing_from_all(evidence: Evidence) -> Iterator[Broken]:
    """Streams in which every packet is without a kernel timestamp that the kernel could give."""
    for stream, one in _unstamped(evidence):
        if one.n == one.of and _is_given(evidence, stream, one.stamp):
            actual = f"none of {one.of} has it"
            remedy = _UNSTAMPED_ARRIVALS * one.stamp.startswith("rx_")
            yield Broken(f"stream {stream.name}", f"packets with {one.stamp}", actual, remedy)


@checks("unstamped-alike")
def unstamped_are_like_the_others(evidence: Evidence) -> Iterator[Broken]:
    """Streams in which the packets without a timestamp are later than others: figures without them look better."""
    for stream, one in _unstamped(evidence):
        if not one.late:
            continue
        latest = f"the {percent(one.share or 0, 2)} of all that took the longest from launch to {one.until}"
        told = f"{one.later} of {plural(one.n, 'packet')} without {one.stamp}"
        verb = "is" if one.later == 1 else "are"
        actual = f"{told} {verb} among {latest}"
        yield Broken(f"stream {stream.name}", f"packets without {one.stamp} as late as the others", actual)


@checks("timestamps-matched")
def timestamps_match_their_packets(evidence: Evidence) -> Iterator[Broken]:
    """Recordings with rows of no packet, or with timestamps on no known clock."""
    for name, found in evidence.findings.items():
        if found.stray:
            yield Broken(name, "every row of one packet, once", plural(found.stray, "unmatched row"))
        if found.unconverted:
            unusable = plural(found.unconverted, "unusable timestamp")
            yield Broken(name, "clocks recorded with the timestamps", unusable)


@checks("sends-succeeded")
def every_send_succeeded(evidence: Evidence) -> Iterator[Broken]:
    """Streams of which the kernel refused packets."""
    for name, stream in evidence.streams.items():
        if errors := stream.counts["send_errors"]:
            numbers = {int(number): count for number, count in (stream.send_errnos or {}).items()}
            names = ", ".join(f"{os.strerror(number)} ({number}): {count}" for number, count in numbers.items())
            actual = f"{errors} of {plural(stream.counts['scheduled'] or 0, 'packet')}{f': {names}' if names else ''}"
            entry = next((one for one in evidence.cell.streams if one.name == name), None)
            remedies = (rejection_remedy(number, _port(entry)) for number in numbers if entry)
            yield Broken(f"stream {name}", "no send errors", actual, next(filter(None, remedies), ""))


@checks("icmp-rejected")
def no_packet_was_answered_by_icmp(evidence: Evidence) -> Iterator[Broken]:
    """Streams whose talker got ICMP answers: a firewall rejects its packets, or no socket listens on their port."""
    streams = {stream.stream: stream for stream in evidence.cell.streams}
    for _, done in totals(evidence, "talk"):
        for said in done.streams or ():
            entry = streams.get(said.stream or 0)
            if entry and (rejected := said.rejected):
                number = said.rejected_errno or errno.ECONNREFUSED
                actual = f"at least {plural(rejected, 'packet')}: {os.strerror(number)} ({number})"
                remedy = rejection_remedy(number, _port(entry))
                yield Broken(f"stream {entry.name}", "no packet answered by ICMP", actual, remedy)


@checks("socket-drops")
def socket_kept_every_packet(evidence: Evidence) -> Iterator[Broken]:
    """Listeners whose socket dropped packets."""
    for agent, done in totals(evidence, *RECEIVING):
        if drops := done.socket_drops:
            yield Broken(agent, "socket_drops 0", f"socket_drops {drops}")


@checks("packets-refused")
def no_packet_was_refused(evidence: Evidence) -> Iterator[Broken]:
    """Listeners that were sent what is no packet of theirs."""
    for agent, done in totals(evidence, *RECEIVING):
        counts = {kind: getattr(done, kind) for kind in REFUSED}
        counts["out_of_range"] = sum(one.out_of_range for one in done.each)
        if any(counts.values()):
            yield Broken(agent, "only packets of the streams", counted(counts))


@checks("cpu-stolen")
def no_cpu_time_was_stolen(evidence: Evidence) -> Iterator[Broken]:
    """Hosts whose own host took CPU time away, all CPUs together, between the facts before and after.

    In virtual time a guest has the one CPU in turn with its host, in the same way every time.
    """
    if evidence.cell.instructions_per_ns:
        return
    elapsed_ns = {host: after - before for host, before, after in counters(evidence, "taken_tai_ns")}
    for host, before, after in counters(evidence, "cpu", "steal_ns"):
        share = (after - before) / (elapsed_ns.get(host) or evidence.cell.duration_ns)
        if share > evidence.thresholds.steal_share:
            expected = f"at most {percent(evidence.thresholds.steal_share)} of the time stolen"
            yield Broken(host, expected, f"{share:.1%}")


@checks("preempt-rt")
def kernel_is_preempt_rt(evidence: Evidence) -> Iterator[Broken]:
    """Hosts whose kernel says it is not PREEMPT_RT."""
    for host, facts in evidence.facts_before.items():
        if fact(facts, "kernel", "preempt_rt") is False:
            yield Broken(host, "a PREEMPT_RT kernel", str(fact(facts, "kernel", "release") or "another kernel"))


@checks("cpus-isolated")
def agents_cpus_are_isolated(evidence: Evidence) -> Iterator[Broken]:
    """Agents that ran on CPUs which the scheduler uses for others too. No packet waits for one that asks a ptp4l.

    In virtual time there is one CPU for all, and it is shared in the same way every time.
    """
    if evidence.cell.instructions_per_ns:
        return
    for agent in evidence.cell.agents:
        if agent.verb == "ptp":
            continue
        isolated = fact(evidence.facts_before.get(agent.host, {}), "cpu", "isolated")
        cpus = agent.realtime.cpus
        if isolated is None or cpus is None:
            continue
        if shared := sorted(set(cpus) - set(isolated)):
            yield Broken(agent.name, "isolated CPUs only", f"{listed(shared)} not isolated")


def _xdp_bridges(evidence: Evidence) -> list[Bridge]:
    """Those of a cell that ran to its end: in another the counts may be older than the last packets."""
    if evidence.cell.status != "ok":
        return []
    return [bridge for bridge in evidence.cell.bridges if _counts_packets(bridge)]


def _counts_packets(bridge: Bridge) -> bool:
    kind = KINDS.get(bridge.kind)
    return kind is not None and kind.counts_packets


def _across_xdp(evidence: Evidence) -> Iterator[tuple[str, int, int, int]]:
    """(where, packets that arrived, frames redirected, frames passed) of every XDP bridge that streams go across.

    Frames of anything else are among them: fewer redirected than arrived can only be packets that were not.
    """
    for bridge in _xdp_bridges(evidence):
        counts = _XDP_COUNTS.search(bridge.detail)
        names = [
            stream.name
            for stream in evidence.cell.streams
            if _ends(stream) & set(bridge.guests) and bridge.host not in _ends(stream) and not is_no_packets(stream)
        ]
        measured = [evidence.streams[name] for name in names if name in evidence.streams]
        if counts and measured:
            arrived = sum(stream.counts["received"] or 0 for stream in measured)
            yield f"bridge xdp on {bridge.host}, {', '.join(names)}", arrived, int(counts[1]), int(counts[2])


def _not_redirected(where: str, arrived: int, redirected: int, passed: int) -> Broken:
    return Broken(where, f"{plural(arrived, 'frame')} redirected, or more", f"{redirected}, and {passed} passed")


def _ends(stream: RecordedStream) -> set[str]:
    return {stream.talker, stream.listener}


def _launching(stream: RecordedStream) -> str:
    return f"stream {stream.name}, {stream.talker}.{stream.queue}"


def _qdiscs(facts: Facts, stream: RecordedStream) -> list[QdiscFacts] | None:
    """The qdiscs of the port a stream leaves by, as tc prints them: of a VLAN interface, its parent. None: unknown."""
    port = interfaces_in(facts.get(stream.talker)).get(stream.queue or "") or {}
    return port.get("qdiscs")


def _told(qdisc: QdiscFacts) -> str:
    """A qdisc with what it counted as dropped: "fq (10 dropped, 10 beyond its horizon)"."""
    counted_there = {"dropped": qdisc.get("drops", 0), "beyond its horizon": qdisc.get("horizon_drops", 0)}
    said = counted(counted_there)
    return f"{qdisc.get('kind', '')} ({said})" if said else str(qdisc.get("kind", ""))


def _unstamped(evidence: Evidence) -> Iterator[tuple[RecordedStream, Unstamped]]:
    """(stream of cell.json, timestamp that is missing in its packets) of the result's `unstamped`."""
    for stream in evidence.cell.streams:
        if stream.name in evidence.streams:
            yield from ((stream, one) for one in evidence.streams[stream.name].unstamped)


def _is_given(evidence: Evidence, stream: RecordedStream, stamp: str) -> bool:
    """Whether the kernel was asked for a timestamp, and can give it: of leaving for the driver only some drivers do."""
    probes = {probe.name: probe for probe in evidence.cell.probes}
    probe = probes.get(stream.probe or "")
    # Recordings over DDS of earlier versions say nothing of it, and have none.
    is_said = stream.transport != "dds" or (probe is not None and "timestamps" in probe.asked.model_fields_set)
    if not is_said or (probe is not None and probe.asked.timestamps != "kernel"):
        return False
    needed = timestamps.BY_NAME[stamp].flag
    if not needed:
        return True
    port = interfaces_in(evidence.facts_before.get(stream.talker)).get(stream.queue or "")
    flags = fact(port, "timestamping", "flags")
    return flags is None or needed in flags


# Whether packets left soon after they were handed over, or queued up before they did: a check of the trust table.


@checks("queue-drains")
def queues_drain(evidence: Evidence) -> Iterator[Broken]:
    """Streams of which at least four packets in ten lay in a queue for more than a period, beyond what gates explain.

    Half of the packets left later after their launch than nine in ten of the talker's wake-ups, the latest departure
    that the gate schedule guarantees, and a period together. Each packet then met the one before still waiting: a queue
    that is left as fast as it is joined keeps its length.
    """
    streams = {stream.name: stream for stream in evidence.cell.streams if stream.timer is None}
    for where, name, _, figures in metrics(evidence, "lateness"):
        stream, measured = streams.get(name), evidence.streams[name]
        # A closed loop has no period: it waits for the answer before it asks again.
        if stream is None or stream.period_ns is None or figures.p50 is None:
            continue
        woken_ns = _woken_ns(measured)
        gates = measured.gates
        # txtime-assist has packets leave later than they wait for their gate, launch times earlier.
        gated_ns = max(gates.promised.latest_ns, 0) if gates else 0
        allowed_ns = stream.period_ns + gated_ns
        if woken_ns is None or figures.p50 <= allowed_ns + max(woken_ns, 0):
            continue
        expected = f"most packets sent within a period, {duration(stream.period_ns)}, after the handover"
        if gated_ns:
            expected += f", or up to {duration(gated_ns)} later by their gate schedule"
        yield Broken(where, expected, _waiting(figures, gates, stream.period_ns, woken_ns))


def _woken_ns(measured: Stream) -> int | None:
    """Within what time of the instant due the talker woke nine times in ten; in so few packets, each time."""
    wakeup = measured.metrics.get("wakeup")
    if wakeup is None:
        return None
    return wakeup.max if wakeup.p90 is None else wakeup.p90


def _waiting(figures: Metric, gates: Gates | None, period_ns: int, woken_ns: int) -> str:
    """How late they left, how many periods that is, and which windows of their gate they missed."""
    least, middle, most = (duration(ns or 0) for ns in (figures.min, figures.p50, figures.max))
    said = (
        f"half of them {middle} or more after their launch ({least} to {most}), {(figures.p50 or 0) / period_ns:.4g} "
        f"periods, although the talker woke within {duration(max(woken_ns, 0))}"
    )
    if gates and gates.missed:
        windows = list(gates.windows_late)
        late = f", {min(windows):,} to {max(windows):,} windows late" if windows else ""
        said += f"; {gates.missed:,} of {gates.left:,} missed their window of {gates.interface}{late}"
    return said
