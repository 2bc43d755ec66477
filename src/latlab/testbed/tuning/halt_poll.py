"""How long KVM polls for work before it gives a halted vCPU's CPU away (Documentation/virt/kvm/halt-polling.rst)."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Step

HALT_POLL = "/sys/module/kvm/parameters/halt_poll_ns"
SET = 'echo "$1" >"$0"'
PUT_BACK = '[ ! -e "$0" ] || [ "$(cat "$0")" = "$1" ] || echo "$1" >"$0"'


def halt_poll_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """The step that sets it; it is the machine's, for every guest on it."""
    wanted = scenario.tuning[host].halt_poll
    if wanted is None:
        return
    read = ("cat", HALT_POLL)
    yield Step(
        host=host,
        title=f"have KVM poll {wanted} ns for a halted vCPU",
        do=("sh", "-c", SET, HALT_POLL, str(wanted)),
        undo=("sh", "-c", PUT_BACK, HALT_POLL, "{before}"),
        before=Before(read),
        check=Check(read, expected=str(wanted)),
        optional=True,
        lasting=True,
    )
