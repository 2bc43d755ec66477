"""What is reported of a shaper that the kernel refuses."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.scenario.shapers import GATES_MAX, Cbs, Etf, Mqprio, Shaper, Taprio
from latlab.testbed.apply import BY_HAND
from latlab.testbed.shapers import KINDS, shaper_steps
from latlab.testbed.shapers.mqprio import class_words
from latlab.testbed.shapers.taprio import schedule_words
from latlab.testbed.step import Explain, Step
from support.machine import run
from support.testbed.shapers import CBS, ETF, MQPRIO, SITE, TAPRIO, applied, cards

IGB = """\
driver: igb
version: 6.12.117+deb12-rt-amd64
firmware-version: 2.1.0
Time stamping parameters for eth0:
PTP Hardware Clock: 0
tx-queues: 8
kernel: 6.12.117+deb12-rt-amd64
"""
VETH = """\
driver: veth
version: 1.0
firmware-version:{space}
Time stamping parameters for eth0:
PTP Hardware Clock: none
tx-queues: 4
kernel: 6.12.117
""".format(space=" ")
ON_IGB = "eth0: driver igb (firmware 2.1.0), 8 transmit queues, PTP clock 0, kernel 6.12.117+deb12-rt-amd64; "
ON_VETH = "eth0: driver veth, 4 transmit queues, no PTP clock, kernel 6.12.117; "


@pytest.mark.parametrize(
    ("model", "values", "output", "words"),
    [
        (
            Taprio,
            TAPRIO | {"mode": "offload"},
            IGB,
            f"{ON_IGB}mode: txtime-assist or mode: software works with a transmit queue for each class",
        ),
        (
            Taprio,
            TAPRIO | {"mode": "offload"},
            VETH,
            f"{ON_VETH}full offload needs a NIC with a PTP clock; "
            "mode: txtime-assist or mode: software works with a transmit queue for each class",
        ),
        (
            Taprio,
            TAPRIO,
            VETH,
            f"{ON_VETH}it needs sch_taprio (CONFIG_NET_SCH_TAPRIO), and as many transmit queues as its classes have",
        ),
        (Etf, ETF | {"offload": True}, VETH, f"{ON_VETH}offload: false works with any NIC"),
        (Etf, ETF, VETH, f"{ON_VETH}it needs sch_etf (CONFIG_NET_SCH_ETF)"),
        (Cbs, CBS | {"offload": True}, IGB, f"{ON_IGB}offload: false works with any NIC"),
        (Cbs, CBS, IGB, f"{ON_IGB}it needs sch_cbs (CONFIG_NET_SCH_CBS)"),
        (Mqprio, MQPRIO, VETH, f"{ON_VETH}it needs sch_mqprio (CONFIG_NET_SCH_MQPRIO)"),
        (
            Taprio,
            TAPRIO | {"mode": "offload"},
            IGB.replace("PTP Hardware Clock", "Hardware timestamp provider index"),
            f"{ON_IGB}mode: txtime-assist or mode: software works with a transmit queue for each class",
        ),
        (
            Etf,
            ETF,
            "",
            "eth0: driver unknown, no transmit queues, no PTP clock, kernel unknown; "
            "it needs sch_etf (CONFIG_NET_SCH_ETF)",
        ),
    ],
)
def test_a_refusal_says_what_is_there_and_what_would_work(
    model: type[Taprio | Mqprio | Etf | Cbs], values: dict[str, Any], output: str, words: str
) -> None:
    shaper: Shaper = model.model_validate(values)
    assert KINDS[shaper.kind].refusal("eth0", shaper, output) == words


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_shaper_that_is_refused_is_reported_with_what_its_interface_has() -> None:
    run("ip", "link", "add", "lat0", "numtxqueues", "2", "type", "veth", "peer", "name", "lat1")
    step = next(step for step in shaper_steps(cards(ETF | {"offload": True, "skip_sock_check": True}), SITE) if step.do)
    with pytest.raises(LabError) as caught:
        applied([step])
    assert caught.value.what.startswith("etf shapes ecu.lat0: ")
    assert caught.value.remedy == (
        f"lat0: driver veth, 2 transmit queues, no PTP clock, kernel {os.uname().release}; "
        "offload: false works with any NIC"
    )


@pytest.mark.real
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("mode", ["software", "txtime-assist", "offload"])
def test_tc_can_hand_over_as_many_gates_as_a_schedule_may_have(mode: str) -> None:
    run("ip", "link", "add", "lat0", "numtxqueues", "2", "type", "veth", "peer", "name", "lat1")
    gates = [{"open": [0, 1], "for": "4294967295ns"}] * GATES_MAX
    shaper = Taprio.model_validate(TAPRIO | {"mode": mode, "gates": gates})
    words = (*class_words(shaper), "base-time", str(2**62), *schedule_words(shaper))
    argv = ("tc", "qdisc", "replace", "dev", "lat0", "parent", "root", "handle", "7:", "taprio", *words)
    # Whether the kernel takes it is another question, which is asked once the message is whole.
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "exceeded bound" not in said.stderr


REFUSED = ("sh", "-c", "echo not here >&2; exit 3")


def failure(step: Step) -> LabError:
    with pytest.raises(LabError) as caught:
        applied([step])
    return caught.value


def test_a_step_that_fails_is_explained_by_what_was_asked_then() -> None:
    asked = Explain(("sh", "-c", "echo seen; exit 1"), lambda output: f"instead of {output.strip()}")
    error = failure(Step("ecu", "set it", REFUSED, explain=asked))
    assert error.remedy == "instead of seen"
    assert error.where == "ecu"
    assert error.what.startswith("set it: ")
    assert "not here" in error.what


def test_an_explanation_that_fails_itself_leaves_the_error_as_it_was() -> None:
    plain = failure(Step("ecu", "set it", REFUSED))
    explained = failure(Step("ecu", "set it", REFUSED, explain=Explain(("nosuchprogram",), str)))
    assert (explained.what, explained.where, explained.remedy) == (plain.what, plain.where, plain.remedy)
    assert plain.remedy == BY_HAND


def test_a_step_that_works_or_may_fail_is_not_explained() -> None:
    asked = Explain(("true",), lambda output: pytest.fail("nothing is to be explained"))
    assert applied([Step("ecu", "set it", ("true",), explain=asked)])[0].ok
    (result,) = applied([Step("ecu", "set it", REFUSED, optional=True, explain=asked)])
    assert result.why == "ended with status 3: not here"
