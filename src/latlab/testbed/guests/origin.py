"""What guests of ours start from: the built images."""

from __future__ import annotations

from pathlib import Path

from latlab.model.errors import LabError
from latlab.testbed.agent_binary import agent_for, find_agent
from latlab.testbed.images import Image, list_images


def images_by_name() -> dict[str, Image]:
    """Every built image."""
    return {image.name: image for image in list_images()}


def is_current(image: Image) -> bool:
    """Whether it has this latlab's agent, and would be made in the same way today. LabError: there is no agent.

    An image for another architecture, for which there is no agent here, has none of this latlab's.
    """
    own = find_agent()
    try:
        agent = agent_for(image.architecture) if image.architecture else own
    except LabError:
        return False
    return image.is_up_to_date(agent)


def unbuilt_image(name: str) -> Image:
    """Stands in a plan for an image that is still to be built: its files are named by what they are."""
    return Image(
        name=name,
        kernel=Path(f"KERNEL-OF-{name}"),
        initramfs=Path(f"INITRAMFS-OF-{name}"),
        append="",
        flavour="",
        kernel_version="",
        digest="",
        packages={},
        built="",
        size=0,
    )
