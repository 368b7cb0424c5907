"""When the certificate is renewed again, and what is said while it cannot be."""

import asyncio
from typing import Final

from farhand_daemon.boot_clock import boot_seconds
from farhand_daemon.event_log import EventLog
from farhand_daemon.identity import MachineCredentials
from farhand_daemon.paths import Home
from farhand_daemon.renew import renew_in_process, renewal_is_due
from farhand_daemon.status import StatusFile
from farhand_shared.errors import FarhandError, NotAllowed

_AGAIN_S: Final = 600.0  # between tries of a renewal that failed
_REFUSED_AGAIN_S: Final = 3600.0  # of one that was refused: a person has to see to it


class Renewal:
    """Renews when it is time, while the stream goes on."""

    def __init__(self, home: Home, status: StatusFile, log: EventLog) -> None:
        self._home = home
        self._status = status
        self._log = log
        self._one_at_a_time = asyncio.Lock()
        self._not_before = 0.0
        self.problem = ""  # why the last try failed
        self.refused = False  # the last try, by the server

    @property
    def wait_s(self) -> float:
        """How long until the next try."""
        return max(0.0, self._not_before - boot_seconds())

    def try_again(self) -> None:
        """Let the next look try, whatever the last one said: what was in its way may be gone."""
        self._not_before = 0.0

    async def renewed(self, identity: MachineCredentials) -> MachineCredentials | None:
        """Return the identity with a new certificate; None when it is not time or failed."""
        async with self._one_at_a_time:
            if not renewal_is_due(identity) or boot_seconds() < self._not_before:
                return None
            new = None
            try:
                renewed = await renew_in_process(self._home)
            except (FarhandError, OSError) as error:
                self.refused = isinstance(error, NotAllowed)
                again_s = _REFUSED_AGAIN_S if self.refused else _AGAIN_S
                self._not_before = boot_seconds() + again_s
                self.problem = str(error)
                self._log.write("renewal_failed", reason=str(error), refused=self.refused)
            else:
                new, self.refused, self.problem = renewed, False, ""
                self._log.write("renewed", until=renewed.not_after.isoformat())
            self._status.note_renewal(self.problem)
            return new
