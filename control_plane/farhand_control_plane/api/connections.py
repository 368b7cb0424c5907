"""What uvicorn lacks: a client that does not finish its request is dropped, or has to make room.

uvicorn times idle connections between requests only. A client that sends nothing at all, half a
head, half a body, or a body that nobody reads any more would keep its descriptor for good.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from farhand_control_plane.api.request_body import BODY_WITHIN_S

_HEAD, _BODY, _REST = "head", "body", "rest"


class Connection(HttpToolsProtocol):
    """One connection, with a deadline for whatever the client owes us at the moment.

    When there are too many, the one that has owed us a head for longest makes room: who really
    wants something sends it at once.
    """

    within_s: ClassVar[dict[str, float]] = {
        _HEAD: 30.0,  # a new connection's, too: its first request
        _BODY: BODY_WITHIN_S + 5.0,  # the application, which can say why, comes first
        # Answered before the request was whole. Closing at once would, on many systems, throw away
        # the answer that the client has not read yet; it has this long to finish or to read.
        _REST: 2.0,
    }

    # Those for whom nothing is in hand, longest first. A server has a subclass with its own.
    silent: ClassVar[dict["Connection", None]] = {}

    _arriving = ""  # the part of a message that has begun to come
    _messages = 0  # that came whole
    _owed: tuple[str, int] = ("", 0)
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # a Transport; uvicorn narrows it likewise
        super().connection_made(transport)
        limit = self.limit_concurrency
        if limit is not None and len(self.connections) >= limit and self.silent:
            next(iter(self.silent))._drop()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._arriving = _HEAD

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._arriving = _BODY

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._arriving = ""
        self._messages += 1

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _owes(self) -> str:
        answered = self.cycle is None or self.cycle.response_complete
        if self._arriving == _BODY and answered:
            return _REST
        if self._arriving:
            return self._arriving
        # Between requests uvicorn's own timer runs, until the first byte of anything.
        return _HEAD if answered and self.timeout_keep_alive_task is None else ""

    def _watch(self) -> None:
        """Set the deadline anew when the client owes something else than before.

        A short request comes in one piece and costs no timer.
        """
        owed = (self._owes(), self._messages)
        if owed == self._owed:
            return
        self._forget_deadline()
        if owed[0] and not self.transport.is_closing():
            self._owed = owed
            if owed[0] != _BODY:
                self.silent[self] = None
            self._deadline = self.loop.call_later(self.within_s[owed[0]], self._too_late)

    def _drop(self) -> None:
        self._forget_deadline()
        self.transport.abort()

    def _forget_deadline(self) -> None:
        self._owed = ("", 0)
        self.silent.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        if self.pipeline:  # it is we who do not read on, until the request before is answered
            self._forget_deadline()
            self._watch()
            return
        self._drop()
