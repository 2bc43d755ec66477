"""Bringing home what a host recorded while it could not be reached."""

from __future__ import annotations

from pathlib import Path

from latlab.hosts import Host
from latlab.model.errors import LabError

WITHIN_S = 300.0
LARGER = 'cd "$0" && for file in *.arrow; do [ -f "$file" ] && wc -c "$file"; done; :'


async def rescue(host: Host, there: str, here: Path) -> list[str]:
    """The names of the recordings that were copied: those of `there` that are larger than what is `here`.

    LabError: they cannot be copied; nothing is lost there.
    """
    copied = []
    for line in (await host.run(("sh", "-c", LARGER, there))).stdout.splitlines():
        size, name = line.split(maxsplit=1)
        local = here / name
        if not here.is_dir() or (local.exists() and local.stat().st_size >= int(size)):
            continue
        part = local.with_name(f"{name}.part")
        try:
            with part.open("wb") as file:
                await host.run(("cat", f"{there}/{name}"), output=file.fileno(), timeout_s=WITHIN_S)
            part.replace(local)
        except OSError as error:
            raise LabError(f"{name} cannot be saved: {error.strerror}", where=str(here)) from None
        finally:
            part.unlink(missing_ok=True)
        copied.append(name)
    return copied
