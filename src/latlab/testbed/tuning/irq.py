"""Which CPUs take an interface's interrupts (Documentation/core-api/irq/irq-affinity.rst).

Their numbers are known only on the host, so that each command finds them: a PCI device's, or that of the PCI device a
virtio one is a part of, in `msi_irqs`; any other's by the name it or its device has given them. One that the kernel
manages itself cannot be moved: the others are, and it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Before, Check, Step
from latlab.testbed.tuning.cpus import cpu_list, same_list

FIND = """cd /sys/kernel/irq && d=/sys/class/net/$0/device && m=$d/msi_irqs
case $(readlink $d/subsystem) in */virtio) m=$d/../msi_irqs;; esac
if [ -d $m ]; then all=$(ls $m)
elif [ -e $d ]; then all=$(grep -lwF -e $0 -e $(basename $(readlink $d)) */actions | cut -d/ -f1)
fi
[ "$all" ] || { echo "$0 has no interrupts" >&2; exit 1; }
irqs=$(grep $1 "$2" $(printf "%s/actions " $all) | cut -d/ -f1)
[ "$irqs" ] || { echo "no such queue among" $(cat $(printf "%s/actions " $all)) >&2; exit 1; }
"""
"""Numbers in $irqs. $0: the interface. $1 and $2: what grep takes their names by; one that is not in use has none."""

READ = FIND + 'for n in $irqs; do echo "$n=$(cat /proc/irq/$n/smp_affinity_list)"; done'
SET = FIND + 'for n in $irqs; do echo "$3" >/proc/irq/$n/smp_affinity_list || no="$no $n"; done\n'
SET += '[ -z "$no" ] || { echo "the kernel does not let these be moved:$no" >&2; exit 1; }'
PUT_BACK = """for pair in $0; do
f=/proc/irq/${pair%%=*}/smp_affinity_list; was=${pair#*=}
[ ! -e $f ] || [ "$(cat $f)" = "$was" ] || echo "$was" >$f || exit
done"""

ALL = ("-lE", ".")
QUEUE = "(rx|rx-?tx|input|comp)[-._]?({})(@|,|$)"
"""Names that drivers give the interrupts of receive queues: eth0-TxRx-0, eth0-rx-0, eth0-rxtx0, virtio0-input.0,
mlx5_comp0@pci:…"""


def irq_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """The steps for each interface: all its interrupts, then those of the queues that have their own CPUs."""
    for interface, wanted in scenario.tuning[host].irq.items():
        queues = wanted.queues
        if wanted.cpus:
            others = ("-lviE", QUEUE.format("|".join(map(str, queues)))) if queues else ALL
            title = f"{interface}'s{' other' if queues else ''} interrupts"
            yield _step(host, title, (interface, *others), wanted.cpus)
        for queue, cpus in queues.items():
            title = f"{interface}'s interrupt of receive queue {queue}"
            yield _step(host, title, (interface, "-liE", QUEUE.format(queue)), cpus)


def _step(host: str, title: str, which: Argv, cpus: tuple[int, ...]) -> Step:
    wanted = cpu_list(cpus)
    read = ("sh", "-c", READ, *which)
    return Step(
        host=host,
        title=f"{title} on CPU {wanted}",
        do=("sh", "-c", SET, *which, wanted),
        undo=("sh", "-c", PUT_BACK, "{pairs}"),
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
