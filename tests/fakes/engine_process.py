"""An engine with a scripted agent in a process of its own, which dies where it is told to.

usage: engine_process.py DSN POINT NTH: kills itself (SIGKILL) the NTH time it reaches POINT. With
POINT "" it works until SIGTERM and then drains. Prints "ready" when it has begun.
"""

import asyncio
import os
import signal
import sys

from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.engine import Engine
from farhand_shared.ids import ReplicaId, new_id
from tests.fakes.scripted_agent import ScriptedAgent


class _Death:
    def __init__(self, point: str, nth: int) -> None:
        self._point = point
        self._left = nth

    def __call__(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


async def main(dsn: str, point: str, nth: int) -> None:
    agents = dict.fromkeys((SessionKind.ROUTER, SessionKind.WORKER), ScriptedAgent())
    async with Database(dsn) as database, Listener(dsn) as listener:
        engine = Engine(database, listener, agents, ReplicaId(new_id()), points=_Death(point, nth))
        drain = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, drain.set)
        async with asyncio.TaskGroup() as group:
            group.create_task(engine.run())
            print("ready", flush=True)
            await drain.wait()
            await engine.drain()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
