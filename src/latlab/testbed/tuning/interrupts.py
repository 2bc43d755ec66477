"""A network card's interrupts and receive queues: their CPUs, how long they wait, and which packets they get."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from latlab.model.units import MICROSECOND_NS
from latlab.scenario import Scenario
from latlab.scenario.guests import facts_of
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Before, Check, Step
from latlab.testbed.tuning.cpus import cpu_list, same_list

# Which CPUs take an interface's interrupts (Documentation/core-api/irq/irq-affinity.rst).
#
# Their numbers are known only on the host, so that each command finds them: a PCI device's, or that of the PCI device a
# virtio one is a part of, in `msi_irqs`; any other's by the name it or its device has given them. One that the kernel
# manages itself cannot be moved: the others are, and it is reported.


FIND_IRQS = """cd /sys/kernel/irq && d=/sys/class/net/$0/device && m=$d/msi_irqs
case $(readlink $d/subsystem) in */virtio) m=$d/../msi_irqs;; esac
if [ -d $m ]; then all=$(ls $m)
elif [ -e $d ]; then all=$(grep -lwF -e $0 -e $(basename $(readlink $d)) */actions | cut -d/ -f1)
fi
[ "$all" ] || { echo "$0 has no interrupts" >&2; exit 1; }
irqs=$(grep $1 "$2" $(printf "%s/actions " $all) | cut -d/ -f1)
[ "$irqs" ] || { echo "no such queue among" $(cat $(printf "%s/actions " $all)) >&2; exit 1; }
"""
"""Numbers in $irqs. $0: the interface. $1 and $2: what grep takes their names by; one that is not in use has none."""

READ_AFFINITIES = FIND_IRQS + 'for n in $irqs; do echo "$n=$(cat /proc/irq/$n/smp_affinity_list)"; done'
SET_AFFINITIES = FIND_IRQS + 'for n in $irqs; do echo "$3" >/proc/irq/$n/smp_affinity_list || no="$no $n"; done\n'
SET_AFFINITIES += '[ -z "$no" ] || { echo "the kernel does not let these be moved:$no" >&2; exit 1; }'
PUT_AFFINITIES_BACK = """for pair in $0; do
f=/proc/irq/${pair%%=*}/smp_affinity_list; was=${pair#*=}
[ ! -e $f ] || [ "$(cat $f)" = "$was" ] || echo "$was" >$f || exit
done"""

ALL_IRQS = ("-lE", ".")
QUEUE_IRQS = "(rx|rx-?tx|input|comp)[-._]?({})(@|,|$)"
"""Names that drivers give the interrupts of receive queues: eth0-TxRx-0, eth0-rx-0, eth0-rxtx0, virtio0-input.0,
mlx5_comp0@pci:…"""


def irq_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """The steps for each interface: all its interrupts, then those of the queues that have their own CPUs."""
    for interface, wanted in scenario.tuning[host].irq.items():
        queues = wanted.queues
        if wanted.cpus:
            others = ("-lviE", QUEUE_IRQS.format("|".join(map(str, queues)))) if queues else ALL_IRQS
            title = f"{interface}'s{' other' if queues else ''} interrupts"
            yield _affinity_step(host, title, (interface, *others), wanted.cpus)
        for queue, cpus in queues.items():
            title = f"{interface}'s interrupt of receive queue {queue}"
            yield _affinity_step(host, title, (interface, "-liE", QUEUE_IRQS.format(queue)), cpus)


def _affinity_step(host: str, title: str, which: Argv, cpus: tuple[int, ...]) -> Step:
    wanted = cpu_list(cpus)
    read = ("sh", "-c", READ_AFFINITIES, *which)
    return Step(
        host=host,
        title=f"{title} on CPU {wanted}",
        do=("sh", "-c", SET_AFFINITIES, *which, wanted),
        undo=("sh", "-c", PUT_AFFINITIES_BACK, "{pairs}"),
        before=Before(read, former_affinities),
        check=Check(read, expected=wanted, read=affinity),
        optional=True,
        lasting=True,
    )


def former_affinities(output: str) -> Mapping[str, str]:
    """`{"pairs": "38=0-1 39=2"}`: the CPUs of each interrupt, as they were."""
    return {"pairs": " ".join(output.split())}


def affinity(output: str) -> str:
    """The CPUs that all interrupts have in common; where they differ, each interrupt's: `38: 0-1, 39: 2`."""
    found = {number: same_list(cpus) for number, _, cpus in (pair.partition("=") for pair in output.split())}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return ", ".join(f"{number}: {cpus}" for number, cpus in found.items())


# How long the NIC's receive interrupts may wait for more packets (interrupt coalescing; ethtool(8), --coalesce).
#
# Where the card or its driver adapts that to the traffic, a packet waits longer next to load than alone: igb and igc do
# so with rx-usecs 3, their default, and then hold interrupts back for up to 250 us.


ADAPTIVE = "Adaptive RX: on"
SET_COALESCING = f"""\
case $(ethtool -c "$0") in *"{ADAPTIVE}"*) ethtool -C "$0" adaptive-rx off || exit;; esac
ethtool -C "$0" rx-usecs "$1"
"""
RESTORE_COALESCING = f"""\
[ -n "$1" ] || exit 0
now=$(ethtool -c "$0")
echo "$now" | grep -Eq "^rx-usecs:[[:space:]]*$1\\$" || ethtool -C "$0" rx-usecs "$1" || exit
case $2,$now in off,*|*"{ADAPTIVE}"*) ;; *) ethtool -C "$0" adaptive-rx on;; esac
"""
"""What is as it was is not set: a card may refuse that. The kernel refuses adaptive-rx, off too, of drivers that do not
know it.
"""
NO_SETTING = "no such setting"


def coalescing_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each interface whose coalescing is set; of our guests' cards only real ones have any."""
    guest = scenario.guests.get(host)
    if guest is not None and guest.is_ours and not facts_of(guest).gives_device:
        return
    for interface, wait_ns in scenario.tuning[host].coalescing.items():
        wait_us = str(wait_ns // MICROSECOND_NS)
        read = ("ethtool", "-c", interface)
        yield Step(
            host=host,
            title=f"receive interrupts of {interface} wait {wait_us} us at most",
            do=("sh", "-c", SET_COALESCING, interface, wait_us),
            undo=("sh", "-c", RESTORE_COALESCING, interface, "{wait}", "{adaptive}"),
            before=Before(read, read=former),
            check=Check(read, f"{wait_us} us", read=in_words if wait_ns else _off_in_words),
            optional=True,
            lasting=True,
        )


def in_words(output: str) -> str:
    """Return what `ethtool -c` prints of receiving: `3 us`, or `3 us, adaptive`; NO_SETTING where it has none."""
    found = re.search(r"^rx-usecs:\s*(\d+)", output, re.MULTILINE)
    if found is None:
        return NO_SETTING
    return f"{found[1]} us" + (", adaptive" if ADAPTIVE in output else "")


def _off_in_words(output: str) -> str:
    """The same where no wait is asked for: igbvf's smallest is 1 us (kernel: igbvf/ethtool.c, igbvf_set_coalesce)."""
    words = in_words(output)
    return "0 us" if words == "1 us" else words


def former(output: str) -> dict[str, str]:
    """Return, as `wait` and `adaptive`, what RESTORE is given for what `ethtool -c` prints now."""
    wait, _, adaptive = in_words(output).partition(", ")
    known = wait != NO_SETTING
    return {"wait": wait.removesuffix(" us") if known else "", "adaptive": "on" if adaptive else "off"}


# Which receive queues the NIC spreads flows over (receive side scaling; ethtool(8), --set-rxfh-indir).
#
# The NIC hashes a flow's addresses and ports, and looks the queue up in a table. A frame without a hash, as one of PTP
# over Ethernet or of a raw stream, goes to queue 0 whatever the table says. So a table without queue 0 keeps TCP and
# UDP away from them, on cards that cannot steer by VLAN priority.


NO_TABLE = "no table"
TABLE = "ethtool -x \"$0\" | sed -nE 's/^ *[0-9]+:(( +[0-9]+)+) *$/\\1/p'"
PUT_SHARES_BACK = f'now=$({TABLE}); [ "$(echo $now)" = "$2" ] || ethtool -X "$0" $1'
"""What is as it was is not set: a card without a table, or with one that cannot be set, refuses that."""


def scaling_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each interface whose flows are spread over chosen queues."""
    for interface, queues in scenario.tuning[host].rss.items():
        weights = ["1" if queue in queues else "0" for queue in range(max(queues) + 1)]
        yield Step(
            host=host,
            title=f"{interface} spreads flows over receive queues {_listed(queues)}",
            do=("ethtool", "-X", interface, "weight", *weights),
            undo=("sh", "-c", PUT_SHARES_BACK, interface, "{before}", "{table}"),
            before=Before(("ethtool", "-x", interface), read=shares),
            check=Check(("ethtool", "-x", interface), _listed(queues), read=lambda text: _listed(table(text))),
            optional=True,
            lasting=True,
        )


def table(output: str) -> list[int]:
    """Return the queue of each of the table's entries, from what `ethtool -x` prints; none where there is no table."""
    rows = re.findall(r"^ *\d+:((?: +\d+)+) *$", output, re.MULTILINE)
    return [int(queue) for row in rows for queue in row.split()]


def shares(output: str) -> dict[str, str]:
    """Return, as `before`, what `ethtool -X` is given for the shares that the queues have now; and the `table`."""
    entries = table(output)
    count = max(entries, default=0) + 1
    told = {"table": " ".join(map(str, entries))}
    if all(queue == place % count for place, queue in enumerate(entries)):
        whole = re.search(rf"\bwith {count} RX ring", output)
        return {"before": "default" if whole else f"equal {count}", **told}
    found = Counter(entries)
    return {"before": " ".join(("weight", *(str(found[queue]) for queue in range(count)))), **told}


def _listed(queues: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(queues)))) or NO_TABLE


# Which receive queue takes the packets of a VLAN priority, in the NIC (ethtool(8), --config-ntuple).
#
# The NIC finds the priority in the upper three bits of the tag. In a mask of ethtool a bit that is set does not matter.


PRIORITY_SHIFT = 13
NOT_PRIORITY = "0x1fff"
NO_RULE = "no rule"

FIND_RULES = (
    'ethtool -n "$0" | awk -v vlan="$1" -v queue="$2" \''
    '/^Filter:/ {id = $2; asks = ""} '
    '/ mask: / && $NF !~ /^(0x)?[Ff:]+$/ {asks = asks $1 $2 "/" $NF} '
    '/ to queue / && $NF == queue && asks == "VLAN:" vlan "/0x1fff" {print id}\''
)
"""The ids of the rules that ask for tag $1 by its priority, for nothing else, and steer to queue $2 of interface $0."""
RULES_PRESENT = f"{FIND_RULES} | grep -q ."
DELETE_RULES = f'for id in $({FIND_RULES}); do ethtool -N "$0" delete "$id" || exit; done'


def steering_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each priority that is steered."""
    for interface, queues in scenario.tuning[host].steering.items():
        for priority, queue in queues.items():
            yield _steering_step(host, interface, priority, queue)


def _steering_step(host: str, interface: str, priority: int, queue: int) -> Step:
    vlan = f"{priority << PRIORITY_SHIFT:#x}"
    rule = ("flow-type", "ether", "vlan", vlan, "m", NOT_PRIORITY, "action", str(queue))
    return Step(
        host=host,
        title=f"{interface} puts VLAN priority {priority} into receive queue {queue}",
        do=("ethtool", "-N", interface, *rule),
        undo=("sh", "-c", DELETE_RULES, interface, vlan, str(queue)),
        present=("sh", "-c", RULES_PRESENT, interface, vlan, str(queue)),
        check=Check(("ethtool", "-n", interface), expected=f"queue {queue}", read=lambda text: steered(text, vlan)),
        optional=True,
        lasting=True,
    )


def steered(output: str, vlan: str) -> str:
    """Where `ethtool -n` says that the tag goes by its priority alone: `queue 3`; NO_RULE where no rule asks that."""
    found = []
    for rule in output.split("\n\n"):
        asked = [line.strip() for line in re.findall(r"^.* mask: (?!(?:0x)?[Ff:]+$).*$", rule, re.MULTILINE)]
        if asked == [f"VLAN: {vlan} mask: {NOT_PRIORITY}"]:
            found += re.findall(r"Action: (?:Direct to )?(.*)", rule)
    return ", ".join(found) or NO_RULE
