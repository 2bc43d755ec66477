"""The verb that writes a scenario to begin with, from options or from answers to questions."""

# Without annotations as text: the command line library would evaluate each of them at every start.
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, NoReturn

import typer

from latlab.cli.options import FILES, Json
from latlab.cli.output import print_json, write
from latlab.model.bridges import KINDS
from latlab.model.errors import UsageError, writing

if TYPE_CHECKING:
    from latlab.scenario.draft import Draft, DraftMachine

Given = Mapping[str, str]
"""{option: its text}, of those that were given or answered; several values stand with blanks between them."""

MACHINES: Final = "Machines"
GUESTS: Final = "Guests"
TRAFFIC: Final = "Traffic"
LENGTH: Final = "Length"
GUESTS_MAX: Final = 8
THIS_MACHINE: Final = "local"
FILE: Final = Path("scenario.yaml")


class Question(NamedTuple):
    """What is asked for an option. default: of the option, too. when: whether it is asked, by what is known by then."""

    option: str
    text: str
    default: str
    when: Callable[[Given], bool] = lambda _given: True


def _has_guests(given: Given) -> bool:
    return given.get("--guests") != "0"


def _is_sent(given: Given) -> bool:
    """Whether there is a load that has a rate."""
    from latlab.scenario.draft import SENT

    return not {*SENT}.isdisjoint(_words(given, "--load"))


# Asked one after the other, in this order.
QUESTIONS: Final = (
    Question("--sensor", "The machine that sends, as [USER@]HOST:INTERFACE (empty: a namespace of this machine)", ""),
    Question("--ecu", "The VM host, as [USER@]HOST:INTERFACE", "", lambda given: bool(given.get("--sensor"))),
    Question("--guests", "How many virtual machines", "1"),
    Question("--subnet", "The network of the cable", "10.78.0.0/24", lambda given: bool(given.get("--sensor"))),
    Question("--image", "Their image", "debian-cloud", _has_guests),
    Question("--bridge", f"Bridges to compare: {' '.join(KINDS)}", "tap", _has_guests),
    Question("--direction", "Direction of the streams: down (to the guest), up, or both", "down"),
    Question("--period", "Period", "1006us"),
    Question("--size", "Size of a packet's payload", "64B"),
    Question("--load", "Background loads: flood iperf3 stress-ng busy, or none", "none"),
    Question("--rate", "Rate of the loads", "100Mbit/s", _is_sent),
    Question("--duration", "How long each cell sends", "10s"),
    Question("--repeat", "How often each cell is measured", "3"),
)
DEFAULTS: Final = {question.option: question.default for question in QUESTIONS}

# Where in a scenario the value of an option stands.
_OPTION_OF: Final = (
    (r"hosts\.sensor\b|links\[0\]\.ends\[0\]", "--sensor"),
    (r"hosts\.ecu\b|links\[0\]\.ends|guests\.\w+\.uplink", "--ecu"),
    (r"links\[0\]", "--subnet"),
    (r".*\.image\b", "--image"),
    (r"(matrix\.)?guests\b", "--bridge"),
    (r".*\.period\b", "--period"),
    (r".*\.size\b", "--size"),
    (r".*\.rate\b", "--rate"),
    (r"streams\b", "--period"),
    (r"duration|warmup", "--duration"),
    (r"repeat", "--repeat"),
    (r"name", "FILE"),
)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; scenario.yaml if not given.")] = FILE,
    sensor: Annotated[
        str | None,
        typer.Option(
            "--sensor",
            metavar="PLACE",
            rich_help_panel=MACHINES,
            help="The machine that sends, as [USER@]HOST:INTERFACE by ssh, or local:INTERFACE for this machine.",
        ),
    ] = None,
    ecu: Annotated[
        str | None,
        typer.Option(
            "--ecu",
            metavar="PLACE",
            rich_help_panel=MACHINES,
            help="The VM host, in the same form; without both, two namespaces of this machine.",
        ),
    ] = None,
    subnet: Annotated[
        str | None,
        typer.Option(
            "--subnet",
            metavar="NETWORK",
            rich_help_panel=MACHINES,
            help="The network of the cable between two machines; 10.78.0.0/24 if not given.",
        ),
    ] = None,
    guests: Annotated[
        str | None,
        typer.Option(
            "--guests", metavar="N", rich_help_panel=GUESTS, help="How many virtual machines, 0 to 8; 1 if not given."
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="NAME",
            rich_help_panel=GUESTS,
            help="Their image, of `latlab image build`; debian-cloud if not given.",
        ),
    ] = None,
    bridge: Annotated[
        list[str] | None,
        typer.Option(
            "--bridge",
            metavar="NAME",
            rich_help_panel=GUESTS,
            help=f"Compare this bridge (repeatable): {', '.join(KINDS)}; tap if not given.",
        ),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(
            "--direction",
            metavar="WAY",
            rich_help_panel=TRAFFIC,
            help="Send to the guests (down), from them (up), or both; down if not given.",
        ),
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period",
            metavar="DURATION",
            rich_help_panel=TRAFFIC,
            help="The time between packets; 1006us if not given.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="SIZE",
            rich_help_panel=TRAFFIC,
            help="The payload of a packet, without headers; 64B if not given.",
        ),
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load",
            metavar="KIND",
            rich_help_panel=TRAFFIC,
            help="Measure also under this load (repeatable): flood, iperf3, stress-ng or busy.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="RATE",
            rich_help_panel=TRAFFIC,
            help="The rate of flood and iperf3, or max; 100Mbit/s if not given.",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration", metavar="DURATION", rich_help_panel=LENGTH, help="How long each cell sends; 10s if not given."
        ),
    ] = None,
    repeat: Annotated[
        str | None,
        typer.Option(
            "--repeat", metavar="N", rich_help_panel=LENGTH, help="How often each cell is measured; 3 if not given."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", rich_help_panel=FILES, help="Overwrite FILE if it exists.")] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask for everything that no option gives, also without a terminal.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a scenario, with comments.

    On a terminal, without options, it asks questions. The scenario is checked before it is written.

    Examples:
        # Answer questions, each with a default
        latlab init lab.yaml
        # On this machine: a guest behind two bridges, idle and under load
        latlab init lab.yaml --bridge tap --bridge macvtap --load flood
        # Two machines with a cable between them
        latlab init lab.yaml --sensor board1:eth1 --ecu board2:eth0 --period 503us
    """
    texts = {
        "--sensor": sensor,
        "--ecu": ecu,
        "--subnet": subnet,
        "--guests": guests,
        "--image": image,
        "--bridge": _joined(bridge),
        "--direction": direction,
        "--period": period,
        "--size": size,
        "--load": _joined(load),
        "--rate": rate,
        "--duration": duration,
        "--repeat": repeat,
    }
    given = {option: text for option, text in texts.items() if text is not None}
    if file.exists() and not force:
        raise UsageError("this file exists", where=str(file), remedy="give another name, or --force")
    if ask or (not given and sys.stdin.isatty()):
        given = _asked(given, file)
    draft, text = _drafted(given, file)
    with writing(file):
        file.write_text(text, encoding="utf-8")
    commands = next_commands(draft, file)
    if as_json:
        print_json({"scenario": str(file), "next": commands})
    else:
        write("\n".join([f"Written: {file}", "Next:", *(f"  {command}" for command in commands)]) + "\n")


def next_commands(draft: "Draft", file: Path) -> list[str]:
    """Return what to enter now, in this order."""
    import shlex

    name = shlex.quote(str(file))
    image = "" if draft.image == DEFAULTS["--image"] else f" {draft.image}"
    build = [f"sudo latlab image build{image}"] if draft.guests else []
    machines = [one.destination for one in (draft.sensor, draft.ecu) if one] or [""]
    doctor = [f"latlab doctor --on {shlex.quote(one)}" if one else "sudo latlab doctor" for one in machines]
    return [*dict.fromkeys(doctor), *build, f"latlab validate {name}", f"latlab plan {name}", f"sudo latlab run {name}"]


def _asked(given: Given, file: Path) -> dict[str, str]:
    """Return what was given, and what was answered, question by question; an answer that cannot be is asked for again.

    UsageError: the answers ended.
    """
    known = dict(given)
    for question in QUESTIONS:
        if question.option in given or not question.when(known):
            continue
        while True:
            # Standard output is for the document of --json.
            sys.stderr.write(f"{question.text}{f' [{question.default}]' if question.default else ''}: ")
            sys.stderr.flush()
            if not (line := sys.stdin.readline()):
                raise UsageError(
                    "the answers ended", where=question.option, remedy="answer every question, or give options"
                )
            answer = " ".join(line.replace(",", " ").split()) or question.default
            found = _mistakes(_provisional({**known, question.option: answer}), file)
            if error := next((one for one in found if one.where == question.option), None):
                sys.stderr.write(f"  {error}\n")
                continue
            known[question.option] = answer
            break
    return known


def _provisional(given: Given) -> Given:
    """Return the answers so far, with another machine where the first of two has been named."""
    return {"--ecu": "another:eth0", **given} if given.get("--sensor") else given


def _drafted(given: Given, file: Path) -> "tuple[Draft, str]":
    """Return the draft, and its text, which is a scenario that loads.

    UsageError: an option has a value that cannot be; its `where` names the option.
    """
    from latlab.scenario.draft import draft_text

    for error in _mistakes(given, file):
        raise error
    draft = _draft(given, file)
    return draft, draft_text(draft)


def _mistakes(given: Given, file: Path) -> list[UsageError]:
    """Return what is wrong with values of options, each with its option as `where`."""
    from latlab.scenario import ScenarioErrors, load_text
    from latlab.scenario.draft import draft_text

    try:
        load_text(draft_text(_draft(given, file)), file)
    except ScenarioErrors as errors:
        return [
            UsageError(
                problem.what,
                where=_option(problem.path),
                remedy=f"expected {problem.expected}" if problem.expected else "",
            )
            for problem in errors.problems
        ]
    except UsageError as error:
        return [error]
    return []


def _option(path: str) -> str:
    """Return the option whose value stands at this path of a scenario, or the path itself."""
    return next((option for pattern, option in _OPTION_OF if re.match(pattern, path)), path)


def _draft(given: Given, file: Path) -> "Draft":
    """Return what the options ask for, the others at their defaults. UsageError: as of `_drafted`."""
    from latlab.scenario.draft import DIRECTIONS, LOADS, Draft

    known = {option: text for option, text in {**DEFAULTS, **given}.items() if text or option in given}
    sensor, ecu = (_place(known.get(option, ""), option) for option in ("--sensor", "--ecu"))
    if (sensor is None) != (ecu is None):
        absent, there = ("--sensor", "--ecu") if sensor is None else ("--ecu", "--sensor")
        raise UsageError(f"{there} is given and {absent} is not", where=absent, remedy="give both, or neither")
    if sensor and ecu and not sensor.destination and not ecu.destination:
        raise UsageError("both are this machine", where="--ecu", remedy="leave both out for two namespaces")
    if known["--direction"] not in DIRECTIONS:
        _unknown("--direction", known["--direction"], DIRECTIONS)
    loads = [one for one in _words(known, "--load") if one != "none"]
    for one in loads:
        if one not in LOADS:
            _unknown("--load", one, LOADS)
    number = known["--guests"]
    if not number.isdecimal() or int(number) > GUESTS_MAX:
        raise UsageError(f"{number!r} is not a valid number of guests", where="--guests", remedy=f"0 to {GUESTS_MAX}")
    if number == "0" and (wanted := next((one for one in ("--bridge", "--image") if one in given), None)):
        raise UsageError("there is no guest", where=wanted, remedy="--guests 1")
    if "--subnet" in given and sensor is None:
        raise UsageError("there is no cable between machines", where="--subnet", remedy="give --sensor and --ecu")
    if "--rate" in given and not _is_sent(known):
        raise UsageError("no load is sent", where="--rate", remedy="--load flood, or iperf3")
    return Draft(
        _name(file),
        sensor,
        ecu,
        known["--subnet"],
        int(number),
        known["--image"],
        tuple(dict.fromkeys(_words(known, "--bridge"))) or ("",),
        known["--direction"],
        known["--period"],
        known["--size"],
        tuple(loads),
        known["--rate"],
        known["--duration"],
        known["--repeat"],
    )


def _place(text: str, option: str) -> "DraftMachine | None":
    """Return the machine and the interface that the text names; None: it is empty. UsageError: it names none."""
    from latlab.scenario.draft import DraftMachine

    if not text:
        return None
    destination, _, interface = text.rpartition(":")
    if not (destination and interface):
        remedy = "such as root@board1:eth1, or local:eth1 for this machine"
        raise UsageError(f"{text!r} is not a machine and interface", where=option, remedy=remedy)
    return DraftMachine("" if destination == THIS_MACHINE else destination, interface)


def _name(file: Path) -> str:
    """Return the scenario's name: that of the file, as far as one may have it."""
    return re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")[:32].strip("-") or FILE.stem


def _unknown(option: str, text: str, known: Sequence[str]) -> NoReturn:
    raise UsageError(f"{text!r} is unknown", where=option, remedy=f"one of {', '.join(known)}")


def _joined(values: Sequence[str] | None) -> str | None:
    return None if values is None else " ".join(values)


def _words(given: Given, option: str) -> list[str]:
    return given.get(option, "").replace(",", " ").split()
