"""What takes long says so: what is waited for, and how long by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_S = 10.0
"""What is over by then is not worth a line."""
AGAIN_S = 30.0
Tell = Callable[[str, float], None]
"""Told what is waited for, and for how many seconds by now."""


@contextmanager
def awaited(what: str, tell: Tell) -> Iterator[None]:
    """Call `tell` after FIRST_S, and every AGAIN_S from then on, as long as `what` is waited for within."""
    loop = asyncio.get_running_loop()
    begun = loop.time()

    async def tell_again() -> None:
        await asyncio.sleep(FIRST_S)
        while True:
            tell(what, loop.time() - begun)
            await asyncio.sleep(AGAIN_S)

    telling = loop.create_task(tell_again())
    try:
        yield
    finally:
        telling.cancel()
