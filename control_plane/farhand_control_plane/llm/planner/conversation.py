"""A chat completions conversation, as the planner's minds read it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from farhand_control_plane.llm.blocks import Block, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call made earlier, with its result as text (empty while it has none)."""

    name: str
    arguments: dict[str, Any]
    result: str

    @property
    def failed(self) -> bool:
        return any(block.tag == "error" for block in parse(self.result))

    def error(self) -> str:
        return next((b.text for b in parse(self.result) if b.tag == "error"), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A call the planner now wants made."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Everything said so far: input blocks and calls made, each in order."""

    system: str
    blocks: tuple[Block, ...]
    made: tuple[Made, ...]
    tools: frozenset[str]

    def calls(self, name: str, **arguments: object) -> list[Made]:
        """Return the calls of one tool whose arguments include the given ones."""
        return [
            made
            for made in self.made
            if made.name == name and all(made.arguments.get(k) == v for k, v in arguments.items())
        ]


def read(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> Conversation:
    """Return a request's messages as a conversation; malformed ones raise ValueError."""
    system: list[str] = []
    blocks: list[Block] = []
    results = {str(m.get("tool_call_id")): _text(m) for m in messages if m.get("role") == "tool"}
    made: list[Made] = []
    for message in messages:
        match message.get("role"):
            case "system":
                system.append(_text(message))
            case "user":
                blocks.extend(parse(_text(message)))
            case "assistant":
                for call in message.get("tool_calls") or ():
                    function = call["function"]
                    made.append(
                        Made(
                            name=function["name"],
                            arguments=json.loads(function["arguments"] or "{}"),
                            result=results.get(call["id"], ""),
                        )
                    )
            case "tool":
                pass
            case other:
                raise ValueError(f"messages: unknown role {other!r}")
    names = frozenset(str(tool["function"]["name"]) for tool in tools)
    return Conversation(
        system="\n".join(system), blocks=tuple(blocks), made=tuple(made), tools=names
    )


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
