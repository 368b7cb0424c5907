"""What one daemon's service is: its name, its program, its home."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

EXIT_NOT_WANTED: Final = 3  # of `farhandd run`: the server does not want this machine any more
EXIT_MISUSE: Final = 2
_LABEL_PREFIX: Final = "dev.farhand."  # launchd names jobs by reversed domain


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """Everything a service manager is told. ``program`` are the words before ``--home``."""

    program: tuple[str, ...]
    home: Path
    account_home: Path
    is_default_home: bool
    for_system: bool  # of the computer (root), not of one account's session
    # What the service's environment must hold beside what its manager gives: proxies.
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    linger_is_ours: bool = False  # we let the account's services outlive its sessions

    @property
    def name(self) -> str:
        """One per home, the same at every call; the default home has the plain name."""
        if self.is_default_home:
            return "farhandd"
        return f"farhandd-{hashlib.sha256(str(self.home).encode()).hexdigest()[:8]}"

    @property
    def unit(self) -> str:
        return f"{self.name}.service"

    @property
    def label(self) -> str:
        return f"{_LABEL_PREFIX}{self.name}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The whole command line. The home is always named: no variable may lead elsewhere."""
        return (*self.program, "--home", str(self.home), "run")
