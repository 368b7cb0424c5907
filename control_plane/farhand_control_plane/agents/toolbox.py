"""The tools of one agent: what the model is told of them, and who carries out a call."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from farhand_control_plane.db.transaction import Tx
from farhand_control_plane.domain.environments import Offer
from farhand_control_plane.engine.contract import SessionRef, ToolDone, ToolIntent, ToolWaits
from farhand_control_plane.llm.blocks import render
from farhand_control_plane.llm.client import Tool
from farhand_shared.errors import FarhandError

# Stands in the arguments of a call whose text was not a JSON object: what the parser said.
MALFORMED = "malformed_arguments"


class Arguments(BaseModel):
    """Base of every tool's arguments. The class docstring is what the model reads of the tool."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """Where a call stands: its transaction, its session, and the key of its effect."""

    tx: Tx
    ref: SessionRef
    item_seq: int
    call_index: int
    offer: Offer | None = None  # what makes environments here

    @property
    def effect_key(self) -> str:
        """Unique per call, the same at every repetition: the idempotency key of its effect."""
        return f"{self.ref.session_id}:{self.item_seq}:{self.call_index}"


Outcome = ToolDone | ToolWaits
Handler = Callable[[CallSite, Any], Awaitable[Outcome]]


class Toolbox:
    """Named tools, each with typed arguments and a handler."""

    def __init__(self, offer: Offer | None = None) -> None:
        self._offer = offer
        self._tools: dict[str, tuple[type[Arguments], Handler]] = {}

    def add(self, name: str, arguments: type[Arguments], handler: Handler) -> None:
        self._tools[name] = (arguments, handler)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def described(self) -> list[Tool]:
        """Return the tools as the model's API wants them."""
        return [
            Tool(
                name=name,
                description=" ".join((arguments.__doc__ or "").split()),
                parameters=_schema(arguments),
            )
            for name, (arguments, _) in self._tools.items()
        ]

    async def act(self, tx: Tx, ref: SessionRef, item_seq: int, intent: ToolIntent) -> Outcome:
        """Carry out one call. What the model can mend comes back as an ``error`` block."""
        if MALFORMED in intent.arguments:
            reason = intent.arguments[MALFORMED]
            return failed("malformed", f"the arguments are not a JSON object: {reason}")
        if intent.name not in self._tools:
            known = ", ".join(self._tools)
            return failed("unknown_tool", f"there is no tool {intent.name!r}; there are: {known}")
        model, handler = self._tools[intent.name]
        try:
            arguments = model.model_validate(intent.arguments)
        except ValidationError as fault:
            return failed("invalid_arguments", _reasons(fault))
        site = CallSite(
            tx=tx,
            ref=ref,
            item_seq=item_seq,
            call_index=intent.call_index,
            offer=self._offer,
        )
        try:
            async with tx.transaction():  # a refused call leaves none of its writes behind
                return await handler(site, arguments)
        except FarhandError as fault:
            if fault.retryable:
                raise
            return failed(fault.code, str(fault))


def failed(code: str, message: str) -> ToolDone:
    """Return the result of a call that was not carried out."""
    return ToolDone(content=render("error", message, code=code))


def _schema(arguments: type[Arguments]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    return schema


def _reasons(fault: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in error['loc']) or 'arguments'}: {error['msg']}"
        for error in fault.errors(include_url=False)
    )
