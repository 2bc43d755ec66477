"""Comparing clocks: the true offset is always inside the bound, and the bound is as wide as the delays make it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.relay import Relay, hold, one_at_a_time
from support.agent.streams import ECU, MS, SENSOR, new_run_id, recording

pytestmark = pytest.mark.real

PORT = 5556
COUNT = 50
HOLD_NS = 5 * MS
UNDER_WAY = 8
"""Questions under way at most."""


def exchange(
    bed: Bed, folder: Path, *, peer: str = ECU, listen: str = ECU, source: str = SENSOR, count: int = COUNT
) -> dict[str, Any]:
    """The initiator's `done`. peer: whom it asks; source: whom the responder answers."""
    run_id = new_run_id()
    shared = {"run_id": run_id, "realtime": {}}
    responder = bed.agent(
        "ecu", "clock", shared | {"role": "responder", "listen": f"{listen}:{PORT}", "peer": f"{source}:{PORT}"}
    )
    responder.until("ready")
    initiator = bed.agent(
        "sensor",
        "clock",
        shared
        | {"role": "initiator", "source": f"{SENSOR}:{PORT}", "peer": f"{peer}:{PORT}", "period_ns": 10 * MS}
        | {"count": count, "recording": str(folder / "clock")},
    )
    initiator.until("ready")
    done = initiator.until("done")
    assert initiator.ended() == 0
    responder.signal(signal.SIGTERM)
    answered = responder.until("done")
    assert responder.ended() == 0
    assert answered["bound"] is None
    assert answered["exchanges"] >= done["exchanges"]
    return done


def test_between_hosts_on_one_clock_the_bound_holds_zero(bed: Bed, tmp_path: Path) -> None:
    done = exchange(bed, tmp_path)
    assert (done["exchanges"], done["lost"]) == (COUNT, 0)
    assert done["bound"]["lower_ns"] <= 0 <= done["bound"]["upper_ns"]
    assert done["bound"]["drift_lower_ppb"] <= 0 <= done["bound"]["drift_upper_ppb"]
    rows = recording(tmp_path, "clock.exchanges")
    assert rows.complete
    table = rows.table
    assert table["sequence"].to_list() == list(range(COUNT))
    for before, after in (("t1", "t2"), ("t2", "t3"), ("t3", "t4")):
        assert (table[f"{before}_tai_ns"] <= table[f"{after}_tai_ns"]).all()


def test_every_window_of_exchanges_has_a_bound_that_holds_zero(bed: Bed, tmp_path: Path) -> None:
    done = exchange(bed, tmp_path, count=120)
    assert len(done["windows"]) == 2
    assert all(window["lower_ns"] <= 0 <= window["upper_ns"] for window in done["windows"])


@pytest.mark.parametrize("held", ["questions", "answers"])
def test_a_delay_in_one_direction_widens_the_bound_on_its_side_and_never_moves_it_off_the_truth(
    relay_bed: Bed, tmp_path: Path, held: str
) -> None:
    near = relay_bed.udp("relay", "10.78.0.2", PORT)
    far = relay_bed.udp("relay", "10.78.1.1", PORT)
    near.connect((SENSOR, PORT))
    far.connect(("10.78.1.2", PORT))
    there, back = (hold(HOLD_NS), hold(0)) if held == "questions" else (hold(0), hold(HOLD_NS))
    with near, far, Relay(near, far, there), Relay(far, near, back):
        done = exchange(relay_bed, tmp_path, peer="10.78.0.2", listen="10.78.1.2", source="10.78.1.1")
    assert done["exchanges"] + done["lost"] == COUNT
    bound = done["bound"]
    # θ ≤ t2 − t1 and θ ≥ t3 − t4: a question that always takes D leaves the upper bound at D or above, an answer that
    # does leaves the lower one at −D or below. A tighter bound would be a lie about clocks that were not compared.
    assert bound["lower_ns"] <= (0 if held == "questions" else -HOLD_NS)
    assert bound["upper_ns"] >= (HOLD_NS if held == "questions" else 0)


def test_answers_that_take_longer_than_the_period_between_questions_count(relay_bed: Bed, tmp_path: Path) -> None:
    near = relay_bed.udp("relay", "10.78.0.2", PORT)
    far = relay_bed.udp("relay", "10.78.1.1", PORT)
    near.connect((SENSOR, PORT))
    far.connect(("10.78.1.2", PORT))
    with near, far, Relay(near, far, hold(3 * HOLD_NS)), Relay(far, near, hold(3 * HOLD_NS)):
        done = exchange(relay_bed, tmp_path, peer="10.78.0.2", listen="10.78.1.2", source="10.78.1.1", count=100)
    assert done["exchanges"] + done["lost"] == 100
    assert done["exchanges"] > 50
    bound = done["bound"]
    assert bound["lower_ns"] <= -3 * HOLD_NS < 0 < 3 * HOLD_NS <= bound["upper_ns"]
    assert recording(tmp_path, "clock.exchanges").table.height == done["exchanges"]


def test_a_peer_that_is_too_slow_is_asked_as_often_as_it_answers(relay_bed: Bed, tmp_path: Path) -> None:
    near = relay_bed.udp("relay", "10.78.0.2", PORT)
    far = relay_bed.udp("relay", "10.78.1.1", PORT)
    near.connect((SENSOR, PORT))
    far.connect(("10.78.1.2", PORT))
    there, back = Relay(near, far, one_at_a_time(3 * 10 * MS)), Relay(far, near, hold(0))
    with near, far, there, back:
        done = exchange(relay_bed, tmp_path, peer="10.78.0.2", listen="10.78.1.2", source="10.78.1.1", count=200)
    # Three times as many questions are due as can be answered: most are not asked, and those that are come back.
    assert done["exchanges"] + done["lost"] == 200
    assert len(there.came) - UNDER_WAY <= done["exchanges"] <= len(there.came) < 100
    answered = dict(back.went)
    for at in there.came.values():
        under_way = [one for one, came in there.came.items() if came <= at < answered.get(one, at + 1)]
        assert len(under_way) <= UNDER_WAY
    assert done["bound"]["lower_ns"] <= 0 <= done["bound"]["upper_ns"]


def test_without_a_responder_every_exchange_is_lost_and_nothing_is_bounded(bed: Bed, tmp_path: Path) -> None:
    spec = {"role": "initiator", "run_id": new_run_id(), "source": f"{SENSOR}:{PORT}", "peer": f"{ECU}:{PORT}"}
    rest = {"period_ns": 5 * MS, "count": 10, "recording": str(tmp_path / "clock"), "realtime": {}}
    initiator = bed.agent("sensor", "clock", spec | rest)
    done = initiator.until("done")
    assert initiator.ended() == 0
    assert (done["exchanges"], done["lost"], done["bound"], done["windows"]) == (0, 10, None, [])


def test_an_exchange_of_another_run_is_not_answered(bed: Bed, tmp_path: Path) -> None:
    responder = bed.agent(
        "ecu",
        "clock",
        {"role": "responder", "run_id": new_run_id(), "listen": f"{ECU}:{PORT}", "peer": f"{SENSOR}:{PORT}"}
        | {"realtime": {}},
    )
    responder.until("ready")
    spec = {"role": "initiator", "run_id": new_run_id(), "source": f"{SENSOR}:{PORT}", "peer": f"{ECU}:{PORT}"}
    rest = {"period_ns": 5 * MS, "count": 10, "recording": str(tmp_path / "clock"), "realtime": {}}
    initiator = bed.agent("sensor", "clock", spec | rest)
    assert initiator.until("done")["lost"] == 10
    responder.hang_up()
    assert responder.until("done")["exchanges"] == 0
