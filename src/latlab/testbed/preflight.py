"""Everything that would keep a scenario from running on this machine, found before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from latlab.hosts.tools import missing_tool
from latlab.model.errors import LabError, LatlabError, UsageError
from latlab.scenario import BoardHost, End, Flow, LoadBetween, Loaded, Scenario, Tuning
from latlab.scenario.findings import Path, show_path, shown
from latlab.scenario.parts import parse_end
from latlab.scenario.streams import CLOCK_PORT
from latlab.scenario.trust import renamed_rules
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.guests.start import images_by_name, is_current
from latlab.testbed.images import Image
from latlab.testbed.images.kinds import BOARD_KIND, ready_made
from latlab.testbed.images.recipe import FLAVOURS
from latlab.testbed.loads import LOADS, plan_loads, ports_of
from latlab.testbed.machine import ANY, Machine, no_real_time, no_sysctls, privilege_remedy, read_machine
from latlab.testbed.machines import KINDS as MACHINES
from latlab.testbed.machines.board import build_options
from latlab.testbed.places import Places
from latlab.testbed.probes import is_tool
from latlab.testbed.ptp.daemon import SOFTWARE_REMEDY, STAMPS, stamps
from latlab.testbed.ptp.port import ptp_needs
from latlab.testbed.tuning.cpus import starving
from latlab.testbed.unavailable import scheduling_tools

__all__ = ["find_agent", "image_problems", "preflight", "preflight_cells", "raise_problems", "warnings"]

Problems = Iterator[LatlabError]
Where = Callable[[Path], str]
"""How a place in the scenario is reported."""


def preflight_cells(loaded: Loaded, machine: Machine | None = None) -> list[LatlabError]:
    """The problems of all cells of a file, each once, with file and line where they concern the scenario."""
    machine = machine or read_machine()
    found = (
        problem
        for cell in loaded.combinations
        for problem in preflight(cell.scenario, machine, partial(loaded.where, cell=cell))
    )
    return _each_once(found)


def image_problems(loaded: Loaded) -> list[LatlabError]:
    """What is wrong with the images that the file's guests start from, each once."""
    machine = read_machine()
    found = (
        problem
        for cell in loaded.combinations
        for problem in _images(cell.scenario, machine, partial(loaded.where, cell=cell))
    )
    return _each_once(found)


def _each_once(problems: Iterable[LatlabError]) -> list[LatlabError]:
    """Each once: of what the machine does not have at several places in the file the first is reported."""
    found: dict[object, LatlabError] = {}
    for problem in problems:
        key = (problem.what, problem.remedy) if isinstance(problem, LabError) else str(problem)
        found.setdefault(key, problem)
    return list(found.values())


def warnings(loaded: Loaded, machine: Machine | None = None) -> list[LabError]:
    """What will not keep the file's cells from being begun, but from coming to an end, each once; and old names in it.

    The names of rules that have ids now are one warning.
    """
    machine = machine or read_machine()
    found = (
        LabError(warning.what, where=loaded.where(place, cell), remedy=warning.remedy)
        for cell in loaded.combinations
        for place, warning in starving(cell.scenario, machine)
    )
    return [*_renamed(loaded), *{str(warning): warning for warning in found}.values()]


def _renamed(loaded: Loaded) -> Iterator[LabError]:
    """Yield what to write where the file calls rules by name."""
    trust = loaded.raw.get("trust")
    if named := renamed_rules(trust.get("off") if isinstance(trust, dict) else None):
        ids = ", ".join(f"{id_} instead of {shown(name)}" for name, id_ in named.items())
        yield LabError("rules now have ids", where=loaded.where(("trust", "off")), remedy=f"write {ids}")


def preflight(scenario: Scenario, machine: Machine | None = None, where: Where = show_path) -> list[LatlabError]:
    """All problems of a cell's scenario, each with its remedy; empty when it can run.

    UsageError: the scenario does not fit the machine. LabError: the machine does not have something. Reads only.
    """
    machine = machine or read_machine()
    return [problem for check in CHECKS for problem in check(scenario, machine, where)]


def raise_problems(problems: Sequence[LatlabError]) -> None:
    """Raise one error that lists each problem once; do nothing without any.

    It is a UsageError as soon as one of them is: the scenario has to be put right in any case.
    """
    distinct = list({str(problem): problem for problem in problems}.values())
    if not distinct:
        return
    if len(distinct) == 1:
        raise distinct[0]
    kind = UsageError if any(isinstance(problem, UsageError) for problem in distinct) else LabError
    raise kind(f"{len(distinct)} problems:", parts=distinct)


def _interfaces(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """Interfaces of this machine: those of cables must be there, those of links to make must not."""
    for number, link in enumerate(scenario.links):
        created = scenario.link_is_created(link)
        for side, end in enumerate(link.ends):
            if not scenario.hosts[end.host].is_here or created != (end.interface in machine.interfaces):
                continue
            place = where(("links", number, "ends", side))
            if created:
                yield UsageError(
                    f"this machine has an interface {end.interface} already",
                    where=place,
                    remedy="choose another name; if a crashed run left it, `latlab clean`",
                )
            else:
                there = ", ".join(sorted(machine.interfaces - {"lo"})) or "none"
                yield UsageError(
                    f"this machine has no interface {end.interface}",
                    where=place,
                    remedy=f"its interfaces: {there}",
                )
    for segment in scenario.segments():
        for end in segment.ends if segment.vlan is not None else ():
            if scenario.hosts[end.host].is_here and end.interface in machine.interfaces:
                yield UsageError(
                    f"this machine has an interface {end.interface} already",
                    where=where(segment.path),
                    remedy=f"another VLAN id; if a crashed run left it, `latlab clean`; else `ip link "
                    f"del dev {end.interface}` removes it",
                )


def _cpus(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """CPUs that the tuning names, and those of linuxptp."""
    here, ptp = _here(scenario), scenario.clock.ptp
    named: list[tuple[Path, Sequence[int] | None]] = [
        (("tuning", host, *place), cpus)
        for host, tuning in scenario.tuning.items()
        for place, cpus in (_named_cpus(tuning) if host in here else ())
    ]
    if ptp and any(ptp_needs(scenario, here)):
        named.append((("clock", "ptp", "cpus"), ptp.cpus))
    for name, shaper in scenario.shapers.items():
        if parse_end(name).host in here:
            named.append((("shapers", name, "cpu"), shaper.cpus))
    for place, cpus in named:
        missing = sorted(set(cpus or ()) - machine.cpus)
        if missing:
            yield UsageError(
                f"no CPU {', '.join(map(str, missing))} is online",
                where=where(place),
                remedy=f"online: {', '.join(map(str, sorted(machine.cpus)))}",
            )


def _named_cpus(tuning: Tuning) -> Iterator[tuple[Path, Sequence[int] | None]]:
    """Every list of CPUs in a host's tuning, and where it stands."""
    yield ("talker", "cpus"), tuning.talker.cpus
    yield ("listener", "cpus"), tuning.listener.cpus
    yield ("load", "cpus"), tuning.load.cpus
    yield ("isolated",), tuning.isolated
    for interface, irq in tuning.irq.items():
        yield ("irq", interface, "cpus"), irq.cpus
        for queue, cpus in irq.queues.items():
            yield ("irq", interface, "queues", str(queue)), cpus
    for guest, threads in tuning.guests.items():
        yield ("guests", guest, "vcpus", "cpus"), threads.vcpus.cpus
        yield ("guests", guest, "emulator", "cpus"), threads.emulator.cpus
        yield ("guests", guest, "vhost", "cpus"), threads.vhost.cpus


def _privilege(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """What the kernel allows only to root, or to those it gave the capability; and what it forbids to them, too."""
    needed = _capabilities(scenario)
    missing = sorted(needed - machine.capabilities)
    if missing:
        yield LabError(f"missing privilege: {', '.join(missing)}", remedy=privilege_remedy(missing))
    elif "CAP_SYS_NICE" in needed and (forbidden := no_real_time(machine)):
        yield forbidden
    if _sets_sysctls(scenario) and (forbidden := no_sysctls(machine)):
        yield forbidden


def _sets_sysctls(scenario: Scenario) -> bool:
    """Whether a test bed sets any."""
    return bool(scenario.guests or scenario.switches) or any(
        scenario.link_is_created(link) or link.vlans for link in scenario.links
    )


def _capabilities(scenario: Scenario) -> set[str]:
    """Those that the scenario needs on this machine."""
    # Every agent makes room for timestamps in its sockets beyond the usual limit (SO_RCVBUFFORCE).
    needed = {"CAP_NET_ADMIN"}
    here = _here(scenario)
    if here & {guest.host for guest in scenario.guests.values()} or any(
        scenario.hosts[name].is_namespace for name in here
    ):
        needed |= {"CAP_SYS_ADMIN"}
    if here & {guest.host for guest in scenario.guests.values()}:
        needed |= {"CAP_NET_RAW"}  # whether a guest is reached is asked with ping
    if any(flow.transport == "ethernet" for flow in scenario.recorded.values()):
        needed |= {"CAP_NET_RAW"}
    for flow in scenario.recorded.values():
        # Who answers a probe runs as a listener, on its path back, too.
        sender, receiver = scenario.tuning_of(flow.sender), scenario.tuning_of(flow.receiver)
        for part in () if flow.is_answer else (sender.talker, receiver.listener):
            needed |= {"CAP_SYS_NICE"} if part.fifo else set()
            needed |= {"CAP_IPC_LOCK"} if part.lock_memory else set()
    for tuning in scenario.tuning.values():
        for guest in tuning.guests.values():
            needed |= {"CAP_SYS_NICE"} if any(part.cpus or part.fifo for _, part in guest) else set()
    for needs in ptp_needs(scenario, here):
        needed |= needs.capabilities
    return needed


def _tools(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """The programs that the steps and the loads call."""
    needed: dict[str, Path] = {"ip": ()}
    kinds = {host.kind for host in scenario.hosts.values()} & MACHINES.keys()
    needed |= dict.fromkeys((tool for kind in kinds for tool in MACHINES[kind].tools), ())
    if _sets_sysctls(scenario):
        needed |= {"sysctl": (), "grep": ()}
    if scenario.guests:
        needed |= {"ping": ("guests",)}
    for name, probe in scenario.probes.items():
        # The tool itself may be missing: its cells are unavailable then, and the others run.
        here = set(scenario.probe_hosts(name)) & _here(scenario)
        tools = {"ss", "setpriv"} if is_tool(probe) else set()
        for host in here if is_tool(probe) else ():
            tools |= scheduling_tools(scenario, host)
        needed = dict.fromkeys(tools if here else (), ("probes", name)) | needed
    for name, load in scenario.loads.items():
        own = LOADS[load.kind].tools
        tools = {"setpriv"} if own else set()
        if isinstance(load, LoadBetween):
            tools |= {"ss", *own} if own else set()
            here = {load.from_, load.to} & _here(scenario)
        else:
            # The tool itself may be missing: its cells are unavailable then, as a probe's.
            here = {load.on} & _here(scenario)
        for host in here if tools else ():
            tools |= scheduling_tools(scenario, host)
        needed = dict.fromkeys(tools if here else (), ("loads", name)) | needed
    for host in set(scenario.tuning) & _here(scenario):
        tuned = scenario.tuning[host]
        threads = [part for guest in tuned.guests.values() for _, part in guest]
        tools = {"taskset"} if any(part.cpus for part in threads) else set()
        tools |= {"chrt"} if any(part.fifo for part in threads) else set()
        tools |= {"ethtool", "awk"} if any(tuned.steering.values()) else set()
        tools |= {"ethtool"} if tuned.rss or tuned.coalescing else set()
        needed = dict.fromkeys(tools, ("tuning", host)) | needed
    for name, shaper in scenario.shapers.items():
        if parse_end(name).host in _here(scenario):
            needed = dict.fromkeys(shaper.tools, ("shapers", name)) | needed
    for needs in ptp_needs(scenario, _here(scenario)):
        needed = dict.fromkeys(needs.tools, ("clock", "ptp", "ports", str(needs.end))) | needed
    for tool, place in sorted(needed.items()):
        if not machine.has_tool(tool):
            yield missing_tool(tool, where(place) if place else "")


def _ports(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """UDP ports of this machine on which streams, probes, loads and clock exchanges arrive."""
    needed: dict[tuple[End, int], Path] = {}
    for name, flow in scenario.flows.items():
        route = scenario.route(name)
        if flow.is_recorded and exchanges_clocks(scenario, flow):
            for end in (route.talker_end, route.listener_end):
                needed[end, CLOCK_PORT] = ("clock", "sync")
        if flow.transport == "udp" and not flow.is_answer:
            needed |= {(route.listener_end, port): flow.path for port in ports_of(scenario, flow)}
    for plan in plan_loads(scenario, 0, Places()):
        if plan.work:
            continue
        end = scenario.load_route(plan.name).listener_end
        for port in range(plan.port, plan.port + plan.instances if plan.protocol == "udp" else plan.port):
            needed[end, port] = ("loads", plan.name)
    for (end, port), place in needed.items():
        taken = {(ANY, port), (str(scenario.address(end).ip), port)} & machine.udp
        if taken and end.host in scenario.hosts and scenario.hosts[end.host].is_here:
            remedy = f"stop the program that uses it: `ss -ulpn sport = :{port}`"
            remedy += ", or give the stream another `port`" if place[0] == "streams" else ""
            remedy += ", or give the probe another `port`" if _has_port(scenario, place) else ""
            yield LabError(
                f"UDP port {port} of {end.host} is in use on this machine", where=where(place), remedy=remedy
            )


def _cards_clocks(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """Cards of this machine whose own clocks are to be what PTP keeps."""
    for needs in ptp_needs(scenario, _here(scenario)):
        host, device = needs.end
        printed = machine.say(("ethtool", "-T", device)) if scenario.hosts[host].is_here else None
        if needs.in_hardware and printed and (lacks := stamps(printed)) != STAMPS:
            place = where(("clock", "ptp", "ports", str(needs.end)))
            yield UsageError(f"{needs.end} has {lacks}", where=place, remedy=SOFTWARE_REMEDY)


def _has_port(scenario: Scenario, place: Path) -> bool:
    """Whether it is a probe whose port the scenario can say."""
    return place[0] == "probes" and hasattr(scenario.probes[str(place[1])], "port")


def exchanges_clocks(scenario: Scenario, flow: Flow) -> bool:
    """Whether the clocks of the flow's ends are compared over the network."""
    guests = [scenario.guests[name] for name in (flow.sender, flow.receiver) if name in scenario.guests]
    sync = scenario.clock.sync
    return sync == "exchange" or (sync == "auto" and any(guest.domain for guest in guests))


def _build_command(scenario: Scenario, image: str, place: Path) -> str:
    """What builds the image: of a board, or of a guest, whose kernel must be given if the name does not imply it."""
    command = f"latlab image build {image}"
    if ready_made(image):
        return command
    kind, name = place
    if kind == "hosts":
        return f"{command} {build_options(scenario, str(name))}"
    machine = scenario.machine_of(str(name))
    on = scenario.boards.get(machine) if machine else None
    arch = f" --arch {on.arch}" if on and on.arch else ""
    return f"{command}{arch} --flavour {'|'.join(FLAVOURS)}"


def _images(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """The images that boards and guests of ours start from."""
    needed = {("guests", name): scenario.image_of(name) for name, guest in scenario.guests.items() if guest.is_ours}
    needed |= {("hosts", name): board.image_name for name, board in scenario.boards.items()}
    built = images_by_name() if needed else {}
    for place, image in needed.items():
        board = scenario.boards[str(place[1])] if place[0] == "hosts" else None
        if board and (flavour := _other_flavour(board, built.get(image))):
            yield UsageError(
                f"the image {image} is of the flavour {flavour}, not {board.flavour}",
                where=where((*place, "flavour")),
                remedy=f"no `flavour`, or another `image`; without `image`, debian-{board.flavour}-board",
            )
        elif image not in built:
            yield LabError(
                f"there is no image {image}",
                where=where(place),
                remedy=f"`{_build_command(scenario, image, place)}`; those built: {', '.join(built) or 'none'}",
            )
        elif board and built[image].kind != BOARD_KIND:
            yield UsageError(
                f"the image {image} is for guests, not for boards",
                where=where((*place, "image")),
                remedy="no `image`, or one of `latlab image build NAME --board`",
            )
        elif not board and built[image].kind == BOARD_KIND and scenario.machine_of(str(place[1])) in scenario.boards:
            yield UsageError(
                f"the image {image} is for boards, not for guests of one",
                where=where((*place, "image")),
                remedy="no `image`, or one of `latlab image build NAME --flavour`",
            )
        elif not is_current(built[image]):
            yield LabError(
                f"the image {image} has another agent than this latlab",
                where=where(place),
                remedy=f"`{built[image].build_command()}`: it takes some seconds, and downloads nothing",
            )


def _other_flavour(board: BoardHost, built: Image | None) -> str | None:
    """The flavour of the image that the board names, where the scenario states another; None: they agree.

    built: the image; None before it is built, when only a ready-made one's flavour is known.
    """
    if board.image is None or "flavour" not in board.model_fields_set:
        return None
    described = built or ready_made(board.image)
    return described.flavour if described and described.flavour not in ("", board.flavour) else None


def _here(scenario: Scenario) -> set[str]:
    """The hosts on this machine."""
    return {name for name in scenario.hosts if scenario.machine_of(name) is None}


def _agent(scenario: Scenario, machine: Machine, where: Where) -> Problems:
    """The agent's binary."""
    try:
        find_agent()
    except LabError as error:
        yield error


CHECKS: tuple[Callable[[Scenario, Machine, Where], Problems], ...] = (
    _interfaces,
    _cpus,
    _privilege,
    _tools,
    _ports,
    _cards_clocks,
    _images,
    _agent,
)
