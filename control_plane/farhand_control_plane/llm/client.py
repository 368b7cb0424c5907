"""A client for any service that speaks OpenAI's chat completions, streaming and with tools.

The service is configured by an address, a key and a model name; without an address the offline
planner is mounted in this process and asked through the same interface (no port, no SDK).
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from farhand_control_plane.llm.mounted import AsgiApp, Refused, chunks_of

if TYPE_CHECKING:  # imported on first use: a second of start-up time otherwise
    from openai import AsyncOpenAI

Message = dict[str, Any]  # one chat completions message, as the API has it

_TRIES = 3
_ABOUT_REQUEST = (400, 413, 422)  # 401, 403 and 404 are about the key or the model's name
_FIRST_DELAY_S = 0.5


class ModelFailed(Exception):
    """No usable answer, after the client's own retries. Text is fit for people, without keys.

    ``about_request``: the service will not answer these messages, however often it is asked.
    """

    def __init__(self, reason: str, *, retryable: bool, about_request: bool = False) -> None:
        super().__init__(reason)
        self.retryable = retryable
        self.about_request = about_request


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelService:
    """Where a model answers. ``base_url`` None means the offline planner."""

    model: str
    base_url: str | None = None
    api_key: str = ""
    timeout_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as the API describes it to the model; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that the model wants made. ``arguments`` is the text it wrote: maybe not JSON."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One whole answer. ``finish_reason``: stop, tool_calls, length, content_filter."""

    text: str
    calls: tuple[Call, ...]
    finish_reason: str
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


class ModelClient:
    """Asks one service. Safe to share between sessions; close it when done."""

    def __init__(
        self,
        service: ModelService,
        *,
        planner: AsgiApp | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service = service
        self._planner = planner
        self._sleep = sleep
        self._client: AsyncOpenAI | None = None

    @property
    def model(self) -> str:
        return self._service.model

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Completion:
        """Return the model's answer to the conversation.

        Rate limits, server errors and broken connections are tried three times with jittered
        back-off, obeying Retry-After up to 30 s; then ModelFailed.
        """
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._once(messages, tools)
            except _Retry as fault:
                if attempt == _TRIES:
                    raise ModelFailed(str(fault), retryable=True) from fault.__cause__
                delay = fault.after_s or _FIRST_DELAY_S * 2 ** (attempt - 1)
                await self._sleep(min(delay, 30.0) * random.uniform(0.75, 1.25))  # noqa: S311  # jitter
        raise AssertionError("unreachable")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def warm_up(self) -> None:
        """Import the SDK now (about a second of CPU); call it from a thread at start.

        The planner needs no SDK, so without a service nothing is imported.
        """
        if self._service.base_url is not None:
            import openai  # noqa: F401  # lazily: only processes that ask services pay for it

    def _open(self) -> "AsyncOpenAI":
        if self._client is None:
            from openai import AsyncOpenAI

            service = self._service
            self._client = AsyncOpenAI(
                base_url=service.base_url,
                api_key=service.api_key or "none",
                timeout=service.timeout_s,
                max_retries=0,  # retries are ours, so that they are counted and told
            )
        return self._client

    async def _once(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Completion:
        request: dict[str, Any] = {
            "model": self._service.model,
            "messages": list(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in tools
            ]
        gathered = _Gathered()
        if self._service.base_url is None:
            await self._ask_planner(request, gathered)
        else:
            await self._ask_service(request, gathered)
        if not gathered.finish_reason:
            raise _Retry("the model service ended its answer early", None)
        return gathered.completion()

    async def _ask_planner(self, request: dict[str, Any], gathered: "_Gathered") -> None:
        if self._planner is None:
            raise ModelFailed("no model is configured", retryable=False)
        try:
            for chunk in await chunks_of(self._planner, request):
                gathered.add(chunk)
        except Refused as fault:
            raise _refusal(fault.status) from fault
        except Exception as fault:  # as of a service: its fault is not the caller's
            raise _Retry("the planner broke off its answer", None) from fault

    async def _ask_service(self, request: dict[str, Any], gathered: "_Gathered") -> None:
        import openai

        try:
            stream = await self._open().chat.completions.create(**request)
            async for chunk in stream:
                gathered.add(chunk)
        except (openai.RateLimitError, openai.InternalServerError) as fault:
            raise _Retry(
                f"the model service answered {fault.status_code}", _retry_after(fault)
            ) from fault
        except openai.APIConnectionError as fault:  # a timeout is one of these
            raise _Retry("the model service cannot be reached or timed out", None) from fault
        except openai.APIStatusError as fault:
            raise _refusal(fault.status_code) from fault
        except openai.APIError as fault:  # an error inside the stream
            raise _Retry("the model service broke off its answer", None) from fault


class _Retry(Exception):
    def __init__(self, reason: str, after_s: float | None) -> None:
        super().__init__(reason)
        self.after_s = after_s


def _refusal(status: int) -> ModelFailed:
    return ModelFailed(
        f"the model service refused the request with {status}",
        retryable=False,
        about_request=status in _ABOUT_REQUEST,
    )


def _retry_after(fault: Any) -> float | None:
    value = fault.response.headers.get("retry-after", "")
    return float(value) if value.replace(".", "", 1).isdigit() else None


class _Gathered:
    """A streamed answer, put together. Parts of one call share its index."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._usage: Any = None
        self.finish_reason = ""

    def add(self, chunk: Any) -> None:
        if chunk.usage is not None:
            self._usage = chunk.usage
        for choice in chunk.choices:
            if choice.finish_reason:
                self.finish_reason = choice.finish_reason
            if choice.delta.content:
                self._text.append(choice.delta.content)
            for part in choice.delta.tool_calls or ():
                call = self._calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                call["id"] = part.id or call["id"]
                if part.function is not None:
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""

    def completion(self) -> Completion:
        usage, details = self._usage, getattr(self._usage, "prompt_tokens_details", None)
        return Completion(
            text="".join(self._text),
            calls=tuple(
                Call(call_id=c["id"] or f"call_{i}", name=c["name"], arguments=c["arguments"])
                for i, c in sorted(self._calls.items())
            ),
            finish_reason=self.finish_reason,
            prompt_tokens=getattr(usage, "prompt_tokens", 0) or 0,
            cached_tokens=getattr(details, "cached_tokens", 0) or 0,
            output_tokens=getattr(usage, "completion_tokens", 0) or 0,
        )


def parse_arguments(call: Call) -> dict[str, Any]:
    """Return a call's arguments as an object; raise ValueError with the parser's words."""
    value = json.loads(call.arguments or "{}")
    if not isinstance(value, dict):
        raise ValueError(f"arguments must be a JSON object, not {type(value).__name__}")
    return value
