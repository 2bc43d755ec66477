"""Whether a kernel takes BPF programs: an agent there loads those that take a talker's timestamps. Nothing is sent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.testbed.agent_copy import agent_copy

OF_PROGRAMS: Final = "eBPF: timestamps, losses, watch"
"""What takes BPF programs."""
KERNEL_TYPES: Final = "/sys/kernel/btf/vmlinux"
"""Without these no program is loaded."""
WITH_TYPES: Final = "a kernel with CONFIG_DEBUG_INFO_BTF"
PROGRAMS_REMEDY: Final = "let root load them; without them sockets take the timestamps, and losses have no place"
LOADED: Final = "BPF programs can be loaded"
TRIED_S: Final = 60.0
FOLDER: Final = "/var/lib"
"""Where a machine over ssh has its agents, too: programs may be run there."""

_TRY: Final = r"""
umask 077
there=$1
until [ -d "${there:=/}" ]; do there=${there%/*}; done
folder=$(mktemp -d "$there/latlab-doctor-XXXXXX") || exit
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit
agent=$3
if [ -z "$agent" ]; then
    agent=./latlab-agent
    gzip -dc >"$agent" && chmod 700 "$agent" || exit
fi
printf '%s\n' "$2" | "$agent" talk
"""
_WHERE: Final = "timestamps by eBPF"
_STREAM: Final = {
    "stream": 0,
    "name": "doctor",
    "interface": "lo",
    "period_ns": 1_000_000,
    "offset_ns": 0,
    "size": 64,
    "count": 1,
    "priority": 0,
    "batch": 1,
    "launch_time": None,
    "transport": {
        "kind": "ethernet",
        "destination": "00:00:00:00:00:00",
        "ethertype": 0x88B5,
        "vlan": None,
        "pcp": None,
    },
}
_SPEC: Final = {
    "run_id": "0" * 16,
    "recording": "talker",
    "realtime": {"lock_memory": False},
    "busy_wait_ns": 0,
    "stamps": {"sched": True, "software": True, "hardware": False, "key": "auto", "by": "ebpf"},
    "streams": [_STREAM],
}


async def no_programs(host: Host, agent: str, folder: str) -> str:
    """Why the host's kernel takes no BPF programs; empty: it takes them.

    agent: the path of one that runs there. On a machine whose files are not here it is a path here: the program is
    copied into a new folder in `folder` there, or in the nearest folder above it that is there. That one is removed.
    """
    is_copied = not host.files_are_here
    packed = gzip.compress(agent_copy(Path(agent)), compresslevel=6) if is_copied else None
    argv = ("sh", "-c", _TRY, "sh", folder, json.dumps(_SPEC), "" if is_copied else agent)
    try:
        ended = await host.run(argv, input=packed, timeout_s=TRIED_S, check=False)
    except LabError as error:
        return f"not tried: {error.what}"
    first, _, _ = ended.stdout.partition("\n")
    try:
        event = json.loads(first)
    except ValueError:
        return f"not tried: {ended.stderr.strip() or f'the agent ended with status {ended.returncode}'}"
    if event["event"] == "ready":
        return ""
    return str(event["what"]) if event["where"] == _WHERE else f"not tried: {event['what']}"
