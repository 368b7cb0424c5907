"""A process that serves a small application as a replica serves its own, with few descriptors.

`SOFT HARD HEAD_S`: its limits at the start, and how long it waits for a head. Writes
one line of JSON (port, soft limit) to stdout, logs to stderr, ends with its standard input.
"""

import asyncio
import json
import resource
import sys
from types import SimpleNamespace
from typing import Any

from farhand_control_plane import logs
from farhand_control_plane.api.access import NotAuthenticated
from farhand_control_plane.api.body_limit import BodyLimit
from farhand_control_plane.api.connections import Connection
from farhand_control_plane.ports import listening_socket
from farhand_control_plane.serve import http_server, raise_descriptor_limit


async def authenticate(_method: str, headers: Any) -> Any:
    if headers.get("authorization") != "Bearer good":
        raise NotAuthenticated("cannot answer: no token")


async def echo(_scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def main() -> None:
    listening = listening_socket("127.0.0.1", 0)
    app = BodyLimit(echo, authenticate=authenticate)
    server = http_server(SimpleNamespace(app=app))  # type: ignore[arg-type]  # all it looks at
    asyncio.get_running_loop().add_reader(0, lambda: setattr(server, "should_exit", True))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    print(json.dumps({"port": listening.getsockname()[1], "soft": soft}), flush=True)
    await server.serve(sockets=[listening])


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
    logs.configure(json_lines=True, level="info")
    raise_descriptor_limit()
    Connection.within_s = {**Connection.within_s, "head": float(sys.argv[3])}
    asyncio.run(main())
