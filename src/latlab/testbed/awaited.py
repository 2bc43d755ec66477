"""What takes long reports it: what is waited for, and how long by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_S = 10.0
"""What is over by then is not worth a line."""
AGAIN_S = 30.0
Tell = Callable[[str, float], None]
"""Called with what is waited for, and for how many seconds by now."""


class Awaited:
    """What is waited for at one place; within it, more precisely, something else may be."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._within: list[object] = []

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Report `what` after FIRST_S, and every AGAIN_S from then on: unless something is waited for within it."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        one = object()

        async def tell_again() -> None:
            await asyncio.sleep(FIRST_S)
            while True:
                if self._within[-1] is one:
                    self._tell(what, loop.time() - begun)
                await asyncio.sleep(AGAIN_S)

        self._within.append(one)
        telling = loop.create_task(tell_again())
        try:
            yield
        finally:
            telling.cancel()
            self._within.remove(one)
