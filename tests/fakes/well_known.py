"""The one HTTP document that a computer needs to enrol, over a real socket.

It gives the listeners of a MachineService. What it does not model: everything else of the API.
"""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from farhand_control_plane.machines.service import MachineService


@contextmanager
def well_known(replica: MachineService) -> Iterator[str]:
    """Serve /.well-known/farhand for a replica; give its URL."""
    document = json.dumps(
        {
            "root_certificate_pem": replica.root_pem.decode(),
            "enrol_address": f"127.0.0.1:{replica.enrol_port}",
            "link_address": f"127.0.0.1:{replica.link_port}",
            "instance_name": "farhand",
        }
    ).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
