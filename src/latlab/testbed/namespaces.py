"""The steps that make the hosts of kind netns."""

from __future__ import annotations

from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step

# What a killed lab left running inside would keep the namespace alive without its name.
REMOVE = 'ip netns pids "$0" | xargs -r kill -KILL; ip netns del "$0"'


def namespace_name(tag: str, host: str) -> str:
    """The name of a host's namespace: ours by its `latlab-`, this run's by its tag."""
    return f"latlab-{tag}-{host}"


def namespace_steps(scenario: Scenario, site: Site) -> list[Step]:
    """The steps that make each namespace, in the order of the scenario's hosts."""
    return [
        step
        for name, host in scenario.hosts.items()
        if host.is_namespace
        for step in _steps(name, namespace_name(site.tag, name), site.on(scenario.machine_of(name)).name)
    ]


def _steps(host: str, namespace: str, machine: str) -> list[Step]:
    return [
        Step(
            host=machine,
            title=f"make {host}'s namespace",
            do=("ip", "netns", "add", namespace),
            undo=("sh", "-c", REMOVE, namespace),
            present=("test", "-e", f"/run/netns/{namespace}"),
        ),
        Step(
            host=machine,
            title=f"bring {host}'s loopback up",
            do=("ip", "-n", namespace, "link", "set", "lo", "up"),
        ),
        ipv6_off(host, "all"),
    ]


def ipv6_off(host: str, interface: str) -> Step:
    """The step that keeps IPv6 off an interface, or off all there are and will be ("all").

    Router solicitations and duplicate address detection would send additional packets in the measured path.
    """
    key = f"net.ipv6.conf.{interface.replace('.', '/')}.disable_ipv6"
    return Step(
        host=host,
        title="no IPv6 traffic of the kernel on the measured path",
        do=("sysctl", "-qew", f"{key}=1"),
        # A kernel without IPv6 has no such key: -e passes over it, and the read-back is empty.
        check=Check(("sysctl", "-ne", key), expected="1", read=lambda output: output.strip() or "1"),
    )
