"""Sending input to a server that takes a part, forgets, goes away, or gives it to somebody else."""

import json
import queue
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from farhand_control_plane.cli.input_writer import InputWriter, start_thread
from farhand_control_plane.client.api import Target
from farhand_shared.redact import Secret

DEADLINE_S = 20.0


class Server:
    """Takes input as a replica does; what it answers can be bent. Does not model windows."""

    def __init__(self) -> None:
        self.taken = bytearray()  # the command has these
        self.held = bytearray()  # these would be lost with the replica
        self.ended = self.closed = False
        self.most = 1 << 20  # of one request
        self.holder = ""
        self.sizes: list[tuple[int, int]] = []
        self.refuse: list[int] = []  # statuses of the next answers
        self.takes = True
        self.nonsense = False
        self.news = threading.Condition()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                query = {k: v[-1] for k, v in parse_qs(urlsplit(self.path).query).items()}
                with server.news:
                    status, answer = server.answer(query, body)
                    server.news.notify_all()
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, query: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        if self.nonsense:
            return 200, {}
        if self.refuse:
            status = self.refuse.pop(0)
            code = "input_held" if status == 409 else "x"
            return status, {"error": {"code": code, "message": "cannot write: somebody does"}}
        if "rows" in query:
            self.sizes.append((int(query["rows"]), int(query["columns"])))
        if query.get("take") == "true" or not self.holder:
            self.holder = query["writer"]
        whole = len(self.taken) + len(self.held)
        offset = int(query.get("offset", whole))
        if offset <= whole:
            fresh = body[whole - offset :]
            self.held += fresh[: self.most]
            all_of_it = len(fresh) <= self.most
            self.ended = self.ended or (query.get("end") == "true" and all_of_it)
        if self.takes:
            self.taken += self.held
            self.held.clear()
            self.closed = self.closed or self.ended
        return 200, {
            "accepted": len(self.taken) + len(self.held),
            "taken": len(self.taken),
            "ended": self.ended,
            "closed": self.closed,
        }

    def until(self, condition: Any) -> None:
        with self.news:
            assert self.news.wait_for(condition, DEADLINE_S)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


Losses = queue.Queue[tuple[str, bool]]


def a_writer(server: Server) -> tuple[InputWriter, Losses]:
    losses: Losses = queue.Queue()
    target = Target(
        url=f"http://127.0.0.1:{server.http.server_port}", token=Secret(b"t"), this_machine=None
    )
    writer = InputWriter(target, "a", on_loss=lambda reason, held: losses.put((reason, held)))
    writer.start()
    return writer, losses


def test_everything_is_sent_to_its_end_though_a_part_is_taken_at_a_time(server: Server) -> None:
    server.most = 1000
    writer, _ = a_writer(server)
    for number in range(40):
        writer.write(bytes((number,)) * 250)
    writer.end()
    server.until(lambda: server.closed)
    assert server.taken == b"".join(bytes((number,)) * 250 for number in range(40))


def test_an_answer_that_makes_no_sense_ends_it_and_holds_up_nobody(server: Server) -> None:
    server.nonsense = True
    writer, losses = a_writer(server)
    writer.write(b"first")
    assert losses.get(timeout=DEADLINE_S) == (
        "cannot send the input: KeyError: 'closed'; see farhand doctor",
        False,
    )
    for _ in range(100):
        writer.write(b"more")
    assert writer.lost


def test_what_a_lost_replica_had_is_sent_again_without_being_asked(server: Server) -> None:
    server.takes = False
    writer, _ = a_writer(server)
    writer.write(b"all of it")
    writer.end()
    server.until(lambda: server.ended)
    with server.news:
        server.held.clear()  # the next replica knows what the machine has: nothing
        server.ended = False
        server.takes = True
    server.until(lambda: server.closed)
    assert server.taken == b"all of it"


def test_a_server_that_is_away_is_waited_for(server: Server) -> None:
    server.refuse = [503, 502, 408]
    writer, losses = a_writer(server)
    writer.write(b"patience")
    server.until(lambda: bytes(server.taken) == b"patience")
    assert losses.empty()


def test_another_writer_is_told_of_and_the_input_can_be_taken_back(server: Server) -> None:
    writer, losses = a_writer(server)
    writer.write(b"one ")
    server.until(lambda: bytes(server.taken) == b"one ")
    with server.news:
        server.refuse = [409]
    writer.type(b"lost ")
    assert losses.get(timeout=DEADLINE_S) == ("cannot write: somebody does", True)
    assert writer.lost
    with server.news:
        server.taken += b"theirs "
    writer.take()
    writer.type(b"two")
    server.until(lambda: bytes(server.taken) == b"one theirs two")
    assert not writer.lost


def test_a_refusal_for_good_ends_it(server: Server) -> None:
    server.refuse = [404]
    writer, losses = a_writer(server)
    writer.write(b"x")
    assert losses.get(timeout=DEADLINE_S) == ("cannot write: somebody does", False)


def test_the_newest_size_is_told(server: Server) -> None:
    writer, _ = a_writer(server)
    writer.resize(50, 132)
    server.until(lambda: server.sizes[-1:] == [(50, 132)])


def test_signals_reach_the_main_thread_alone() -> None:
    masks: queue.Queue[set[int]] = queue.Queue()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    start_thread(lambda: masks.put(set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))), name="any")
    blocked = masks.get(timeout=DEADLINE_S)
    assert {signal.SIGTERM, signal.SIGCONT, signal.SIGWINCH, signal.SIGUSR1} <= blocked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
