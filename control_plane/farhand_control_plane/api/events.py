"""What happens, as it happens: server-sent events."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse

from farhand_control_plane.api.access import Reader
from farhand_control_plane.api.request_headers import headers_of
from farhand_control_plane.api.services import Services, services_of
from farhand_control_plane.db import events
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import ThreadId, TicketId, is_id

router = APIRouter(prefix="/v1/events", tags=["events"])

_Services = Annotated[Services, Depends(services_of)]


_DIGITS_MAX: Final = 18  # far more events than there will be

_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "after `data:` an Event each, with its `seq` as `id:`; comments in between",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("", response_class=StreamingResponse, responses=_STREAM)
async def stream_events(
    caller: Reader,
    request: Request,
    services: _Services,
    after: Annotated[
        int | None, Query(ge=0, description="start after this number; from now on when absent")
    ] = None,
    thread_id: str | None = None,
    ticket_id: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Stream events; `id` is the number to come back with (Last-Event-ID wins over `after`)."""
    for name, value in (("thread_id", thread_id), ("ticket_id", ticket_id)):
        if value is not None and not is_id(value):
            raise InvalidInput(f"cannot filter by {name}: {value!r} is not an id")
    if last_event_id is not None:
        if not last_event_id.isdecimal() or len(last_event_id) > _DIGITS_MAX:
            raise InvalidInput("cannot resume: Last-Event-ID is not a number of ours")
        after = int(last_event_id)
    async with services.database.transaction() as tx:
        last = await events.last_seq(tx, caller.instance_id)
    if after is None:
        after = last
    elif after > last:  # of another database, or of this one before it was restored
        raise InvalidInput(
            f"cannot resume: the newest event has the number {last}; start without a number"
        )
    headers = headers_of(request.scope["headers"])
    stream = services.event_streams.stream(
        caller.instance_id,
        after,
        check=lambda: services.authenticator.caller_of(request.method, headers),
        thread_id=None if thread_id is None else ThreadId(thread_id),
        ticket_id=None if ticket_id is None else TicketId(ticket_id),
    )
    return StreamingResponse(
        stream,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
