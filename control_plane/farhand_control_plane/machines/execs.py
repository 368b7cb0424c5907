"""Direct commands: asked over the API, followed live, recorded like every other command."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from farhand_shared.command import CommandSpec
from farhand_shared.ids import AttemptId, InstanceId, MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecRequest:
    instance_id: InstanceId
    member_id: MemberId
    machine: str  # name or id
    spec: CommandSpec
    wait_offline: bool = False


class Execs:
    """Starts direct commands and follows attempts; frames are those of ``exec_frames``."""

    def run(self, request: ExecRequest) -> AsyncIterator[bytes]:
        """Yield the frames of a new command until its result is committed."""
        raise NotImplementedError

    def follow(
        self,
        instance_id: InstanceId,
        member_id: MemberId,
        attempt_id: AttemptId,
        *,
        stdout_offset: int = 0,
        stderr_offset: int = 0,
    ) -> AsyncIterator[bytes]:
        """Yield the frames of an attempt from these offsets on."""
        raise NotImplementedError
