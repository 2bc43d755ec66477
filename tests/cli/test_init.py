"""`latlab init`: a scenario of one's own, from options or from answers."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import latlab.cli
from latlab.cli import app
from latlab.cli.init import DEFAULTS, QUESTIONS
from latlab.model.errors import EXIT_OK, EXIT_USAGE
from latlab.scenario import BRIDGES, Loaded, load_scenario, load_text
from latlab.scenario.draft import DIRECTIONS, LOADS, SENT, Draft, DraftMachine, draft_text
from support.cli import parse, shown
from support.suite.examples import examples

LATLAB = Path(sys.executable).with_name("latlab")
SSH = ("--sensor", "root@board1:eth1", "--ecu", "board2:enp3s0")
MACHINES = {
    "namespaces": (None, None),
    "two machines": (DraftMachine("root@board1", "eth1"), DraftMachine("board2", "enp3s0")),
    "this machine and another": (DraftMachine("", "eth1"), DraftMachine("board2", "eth1")),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which the test is in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(*options: str) -> Loaded:
    """The scenario that these options make."""
    ended = CliRunner().invoke(app, ["init", "lab.yaml", *options, "--force"])
    assert ended.exit_code == EXIT_OK, ended.output
    return load_scenario(Path("lab.yaml"))


def refused(*options: str, capsys: pytest.CaptureFixture[str], answers: str | None = None) -> str:
    """The one line of the error that these options make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["latlab", "init", "lab.yaml", *options])
        with pytest.raises(SystemExit) as ended:
            latlab.cli.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (EXIT_USAGE, "")
    assert not Path("lab.yaml").exists()
    (line,) = err.splitlines()
    return line


@pytest.mark.slow
@pytest.mark.parametrize("machines", MACHINES)
@pytest.mark.parametrize("guests", [0, 1, 3])
def test_every_combination_is_a_scenario(machines: str, guests: int) -> None:
    sensor, ecu = MACHINES[machines]
    bridges = ((), *((one,) for one in BRIDGES), ("tap", "macvtap", "user")) if guests else (("tap",),)
    loads = ((), LOADS, ("flood",), ("stress-ng",))
    for with_bridges, direction, with_loads in product(bridges, DIRECTIONS, loads):
        if not with_bridges or (guests > 1 and {*with_bridges} & {"vfio", "ovs-afxdp"}):
            continue  # one card is one guest's
        draft = Draft("lab", sensor, ecu, guests=guests, bridges=with_bridges, direction=direction, loads=with_loads)
        loaded = load_text(draft_text(draft), Path("lab.yaml"))
        ways = 2 if direction == "both" else 1
        assert len(loaded.scenario.streams) == ways * max(guests, 1)
        assert len(loaded.scenario.guests) == guests
        named = ways * len({*with_loads} & {"flood", "iperf3"}) + len({*with_loads} & {"stress-ng", "busy"})
        assert len(loaded.combinations) == max(len(with_bridges), 1) * (named + 1 if with_loads else 1)


@pytest.mark.parametrize("guests", [0, 1, 2])
def test_what_stands_in_it_as_a_comment_is_right_too(guests: int) -> None:
    text = draft_text(Draft("lab", guests=guests, direction="both"))
    assert {"# tuning:", "# matrix:", "# accept:"} < {*text.splitlines()}
    whole = re.sub(r"^# (?=(?:tuning|matrix|accept):$|  )", "", text, flags=re.MULTILINE)
    loaded = load_text(whole.replace("cpus: [2]", "cpus: [0]").replace("cpus: [3]", "cpus: [0]"), Path("lab.yaml"))
    assert len(loaded.combinations) == 2 and loaded.scenario.accept


def test_loads_on_one_host_have_their_keys_and_what_they_do() -> None:
    lines = draft_text(Draft("lab", loads=("busy", "stress-ng"))).splitlines()
    assert "  busy: {kind: busy, on: ecu, what: calls}     # calls the kernel" in lines
    assert "  stress-ng: {kind: stress-ng, on: ecu, what: cpu}     # computes" in lines


def test_the_question_and_the_help_name_every_load_that_can_be_chosen() -> None:
    asked = {one.option: one.text for one in QUESTIONS}
    helped = {entry.term.split()[0]: entry.text for _, entries in shown(("init",)).groups for entry in entries}
    for kind in LOADS:
        assert kind in asked["--load"] and kind in helped["--load"]
        assert (kind in helped["--rate"]) == (kind in SENT)


def test_options_stand_in_the_scenario() -> None:
    loaded = written(
        *("--bridge", "tap", "--bridge", "xdp", "--image", "debian-rt", "--direction", "up", "--period", "503us"),
        *("--size", "200B", "--load", "flood", "--rate", "20Mbit/s", "--duration", "20s", "--repeat", "7"),
    )
    scenario = loaded.scenario
    assert scenario.name == "lab"
    assert [cell.slug for cell in loaded.combinations] == [
        f"guests.vm1.bridge={bridge},loads={load}" for bridge in ("tap", "xdp") for load in ("none", "flood-up")
    ]
    stream, load, guest = scenario.streams["up"], scenario.loads["flood-up"], scenario.guests["vm1"]
    assert (stream.talker, stream.listener, stream.period, stream.size) == ("vm1", "sensor", 503_000, 200)
    assert (load.from_, load.to, load.rate) == ("vm1", "sensor", 20_000_000)  # type: ignore[union-attr]
    assert (guest.host, guest.uplink, guest.image) == ("ecu", "eth0", "debian-rt")
    assert (scenario.duration, scenario.repeat) == (20 * 10**9, 7)


def test_machines_are_reached_as_the_options_say() -> None:
    loaded = written(*SSH, "--subnet", "10.20.0.0/24")
    hosts, (link,) = loaded.raw["hosts"], loaded.scenario.links
    assert hosts["sensor"] == {"kind": "ssh", "ssh": {"destination": "root@board1"}}
    assert hosts["ecu"] == {"kind": "ssh", "ssh": {"destination": "board2"}}
    assert [tuple(end) for end in link.ends] == [("sensor", "eth1"), ("ecu", "enp3s0")]
    assert str(link.subnet) == "10.20.0.0/24"
    assert loaded.scenario.guests["vm1"].uplink == "enp3s0"


def test_guests_on_one_uplink_change_their_bridge_together() -> None:
    loaded = written("--guests", "2", "--bridge", "tap", "--bridge", "macvtap")
    bridges = [{guest.bridge for guest in cell.scenario.guests.values()} for cell in loaded.combinations]
    assert bridges == [{"tap"}, {"macvtap"}]


@pytest.mark.parametrize(
    ("options", "option", "said"),
    [
        (["--period", "5"], "--period", "5 has no unit"),
        (["--period", "1parsec"], "--period", "is not a duration"),
        (["--period", "1ms, size: 3"], "--period", "is not a duration"),
        (["--period", ""], "--period", ""),
        (["--period", "100ns"], "--period", "is too small"),
        (["--size", "1MB"], "--size", "is too large"),
        (["--size", "2000B"], "--size", ""),
        (["--bridge", "tapp"], "--bridge", "tap?"),
        (["--bridge", "tap", "--bridge", "tapp"], "--bridge", "tap?"),
        (["--bridge", "vfio", "--guests", "2"], "--bridge", "a different uplink"),
        (["--bridge", "tap", "--guests", "0"], "--bridge", "there is no guest"),
        (["--image", "Mine"], "--image", "name of an image"),
        (["--image", "x\nhosts: {}"], "--image", "name of an image"),
        (["--image", "x", "--guests", "0"], "--image", "there is no guest"),
        (["--guests", "nine"], "--guests", "0 to 8"),
        (["--guests", "9"], "--guests", "0 to 8"),
        (["--direction", "left"], "--direction", "one of down, up, both"),
        (["--load", "heavy"], "--load", f"one of {', '.join(LOADS)}"),
        (["--load", "flood", "--rate", "fast"], "--rate", "is not a rate"),
        (["--rate", "5Mbit/s"], "--rate", "--load flood"),
        (["--repeat", "0"], "--repeat", "is too small"),
        (["--repeat", "often"], "--repeat", "whole number"),
        (["--duration", "10"], "--duration", "has no unit"),
        (["--duration", "100ms"], "--duration", "no time is left after a warm-up"),
        (["--sensor", "board1:eth1"], "--ecu", "give both, or neither"),
        (["--ecu", "board1:eth1"], "--sensor", "give both, or neither"),
        (["--sensor", "board1:eth1", "--ecu", "board2"], "--ecu", "such as root@board1:eth1"),
        (["--sensor", "-oProxyCommand=x:eth1", "--ecu", "board2:eth1"], "--sensor", "is not a destination"),
        (["--sensor", "a:eth1", "--ecu", "b:e/1"], "--ecu", "the kernel refuses"),
        (["--sensor", "a:anamethatistoolong", "--ecu", "b:eth1"], "--sensor", "the kernel takes 15"),
        (["--sensor", "a:eth1", "--ecu", "a:eth1"], "--ecu", "is already an end"),
        (["--sensor", "local:eth1", "--ecu", "local:eth2"], "--ecu", "both are this machine"),
        ([*SSH, "--subnet", "ten"], "--subnet", "is not a network"),
        ([*SSH, "--subnet", "10.0.0.0/30"], "--subnet", "no room"),
        (["--subnet", "10.0.0.0/24"], "--subnet", "give --sensor and --ecu"),
    ],
    ids=" ".join,
)
def test_a_value_that_cannot_be_is_one_error_that_names_its_option(
    options: list[str], option: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(*options, capsys=capsys)
    assert line.startswith(f"latlab: {option}: ")
    assert said in line


_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(DEFAULTS)), _TEXTS)
@example("--image", "a: b")
@example("--period", "{}")
@example("--bridge", "tap]\nname: x")
@example("--rate", "# max")
def test_whatever_is_given_is_a_scenario_or_an_error_that_names_an_option(option: str, text: str) -> None:
    path = Path("lab.yaml")
    path.unlink(missing_ok=True)
    more = ["--load", "flood"] if option == "--rate" else []
    if option in ("--sensor", "--ecu", "--subnet"):
        more = [f"{name}={place}" for name, place in zip(SSH[::2], SSH[1::2], strict=True) if name != option]
    ended = CliRunner().invoke(app, ["init", "lab.yaml", f"{option}={text}", *more])
    if ended.exit_code == EXIT_OK:
        assert load_scenario(path).scenario.name == "lab"
    else:
        assert not path.exists()
        error = ended.exception
        assert getattr(error, "exit_code", None) == EXIT_USAGE
        assert getattr(error, "where", "") in DEFAULTS


def test_a_file_that_exists_is_overwritten_only_by_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.yaml").write_text("precious\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["latlab", "init", "mine.yaml"])
        with pytest.raises(SystemExit) as ended:
            latlab.cli.main()
    assert ended.value.code == EXIT_USAGE
    assert capsys.readouterr().err == "latlab: mine.yaml: this file exists (give another name, or --force)\n"
    assert (folder / "mine.yaml").read_text(encoding="utf-8") == "precious\n"
    assert CliRunner().invoke(app, ["init", "mine.yaml", "--force"]).exit_code == EXIT_OK
    assert load_scenario(folder / "mine.yaml").scenario.name == "mine"


@pytest.mark.parametrize(
    ("file", "name"),
    [("lab.yaml", "lab"), ("My Lab (2).yaml", "my-lab-2"), ("ü.yaml", "scenario"), (f"{'long' * 20}.yaml", "long" * 8)],
)
def test_a_scenario_is_named_after_its_file(file: str, name: str) -> None:
    assert CliRunner().invoke(app, ["init", file]).exit_code == EXIT_OK
    assert load_scenario(Path(file)).scenario.name == name


@pytest.mark.parametrize("name", ["2024", "0x1f", "1e3", "null", "true", "false", "no"])
def test_a_file_whose_name_is_a_number_or_a_word_of_yaml_names_a_scenario(name: str) -> None:
    assert CliRunner().invoke(app, ["init", f"{name}.yaml", "--bridge", "tap"]).exit_code == EXIT_OK
    assert load_scenario(Path(f"{name}.yaml")).scenario.name == name


def test_interfaces_and_machines_whose_names_are_numbers_stay_text() -> None:
    loaded = written("--sensor", "10:1e3", "--ecu", "true:007")
    assert loaded.raw["hosts"] == {
        "sensor": {"kind": "ssh", "ssh": {"destination": "10"}},
        "ecu": {"kind": "ssh", "ssh": {"destination": "true"}},
    }
    assert loaded.scenario.guests["vm1"].uplink == "007"


@pytest.mark.parametrize("options", [[], ["--image", "debian-rt"], ["--guests", "0"], [*SSH]], ids=" ".join)
def test_the_commands_that_come_next_are_printed_and_are_commands(options: list[str]) -> None:
    ended = CliRunner().invoke(app, ["init", "my lab.yaml", *options])
    first, heading, *commands = ended.output.splitlines()
    assert (first, heading) == ("Written: my lab.yaml", "Next:")
    lines = [re.findall(r"'[^']*'|\S+", command.strip().removeprefix("sudo ")) for command in commands]
    for line in lines:
        assert line[0] == "latlab"
        parse(line[1:])
    verbs = [line[1] for line in lines]
    examined = [line[2:] for line in lines if line[1] == "doctor"]
    assert examined == ([["--on", "root@board1"], ["--on", "board2"]] if options == [*SSH] else [[]])
    assert verbs == [
        *(["doctor"] * len(examined)),
        *(["image"] if "0" not in options else []),
        "validate",
        "plan",
        "run",
    ]
    assert all(line[-1] == "'my lab.yaml'" for line in lines[-3:])
    if "debian-rt" in options:
        assert ["latlab", "image", "build", "debian-rt"] in lines


def test_as_json_it_is_one_document() -> None:
    document = json.loads(CliRunner().invoke(app, ["init", "lab.yaml", "--json"]).output)
    assert document["scenario"] == "lab.yaml"
    assert document["next"][-1] == "sudo latlab run lab.yaml"


def test_it_asks_for_what_no_option_says_and_again_where_an_answer_cannot_be() -> None:
    answers = ["", "2", "", "tap, macvtap", "sideways", "both", "fast", "2ms", "flood", "max", "", ""]
    ended = CliRunner().invoke(app, ["init", "lab.yaml", "--ask", "--size", "100B"], input="\n".join(answers) + "\n")
    assert ended.exit_code == EXIT_OK, ended.output
    loaded = load_scenario(Path("lab.yaml"))
    assert len(loaded.scenario.guests) == 2 and len(loaded.combinations) == 2 * 3
    assert loaded.scenario.streams["up-vm2"].period == 2_000_000
    assert loaded.scenario.streams["up-vm2"].size == 100
    asked = ended.stderr
    assert asked.count("Direction of the streams") == asked.count("Period [1006us]") == 2
    assert "--direction: 'sideways' is unknown (one of down, up, both)" in asked
    assert "--period: 'fast' is not a duration" in asked
    assert "VM host" not in asked and "network of the cable" not in asked and "Size of" not in asked


def test_machines_and_no_guest_are_asked_for_no_more_than_they_need() -> None:
    answers = ["board1", "board1:e/1", "board1:eth1", "board2:eth1", "0", "10.20.0.0/24", "", "", "", "", "", ""]
    ended = CliRunner().invoke(app, ["init", "lab.yaml", "--ask"], input="\n".join(answers) + "\n")
    assert ended.exit_code == EXIT_OK, ended.output
    assert "image" not in ended.stderr and "Bridges" not in ended.stderr and "Rate" not in ended.stderr
    assert ended.stderr.count("The machine that sends") == 3
    loaded = load_scenario(Path("lab.yaml"))
    assert str(loaded.scenario.links[0].subnet) == "10.20.0.0/24"
    assert not loaded.scenario.guests


def test_answers_that_end_too_soon_are_an_error_and_nothing_is_written() -> None:
    ended = CliRunner().invoke(app, ["init", "lab.yaml", "--ask"], input="\n")
    assert getattr(ended.exception, "where", "") == "--guests"
    assert not Path("lab.yaml").exists()


def test_an_answer_is_the_default_where_the_line_is_empty() -> None:
    ended = CliRunner().invoke(app, ["init", "asked.yaml", "--ask"], input="\n" * len(QUESTIONS))
    assert ended.exit_code == EXIT_OK, ended.output
    assert CliRunner().invoke(app, ["init", "given.yaml"]).exit_code == EXIT_OK
    texts = [Path(f"{name}.yaml").read_text(encoding="utf-8") for name in ("asked", "given")]
    assert texts[0].replace("name: asked", "name: given") == texts[1]


@pytest.mark.parametrize(("options", "asks"), [([], True), (["--period", "2ms"], False)])
def test_on_a_terminal_it_asks_unless_an_option_is_given(options: list[str], asks: bool) -> None:
    ours, theirs = pty.openpty()
    command: list[str | Path] = [LATLAB, "init", "lab.yaml", *options]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as asked:
        os.close(theirs)
        os.write(ours, b"\n" * len(QUESTIONS))
        said = asked.communicate(timeout=300)[0]
    os.close(ours)
    assert asked.returncode == EXIT_OK, said
    assert ("The machine that sends" in said) == asks
    assert load_scenario(Path("lab.yaml")).scenario.guests
