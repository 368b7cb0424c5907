"""Who the server runs as: PostgreSQL refuses root, so root hands it to an unprivileged user."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farhand_control_plane.postgres.errors import NoUnprivilegedUser

# In order of preference: what Debian's PostgreSQL uses, then the user every system has.
CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An unprivileged user, as root sees it."""

    name: str
    uid: int
    gid: int

    def own(self, path: Path) -> None:
        """Give one file or folder of ours to this user; never a parent of it."""
        os.chown(path, self.uid, self.gid)


def unprivileged_account() -> Account | None:
    """Return the user to run the server as, or None when we are not root and run it ourselves."""
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise NoUnprivilegedUser(
        "cannot start the embedded Postgres: it refuses to run as root and this system has neither "
        "a user postgres nor nobody; add one, or start as an ordinary user"
    )


def spawn_options(account: Account | None) -> Mapping[str, Any]:
    """Return the `subprocess` arguments that start a program as that user, apart from us.

    Its own session keeps a Ctrl-C at our terminal away from it; the environment is empty but for
    what it needs, so no secret of ours reaches the server. Any: subprocess has no type for these.
    """
    options: dict[str, Any] = {
        "cwd": "/",
        "env": {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        "start_new_session": True,
        "umask": 0o077,
    }
    if account is not None:
        options |= {"user": account.uid, "group": account.gid, "extra_groups": []}
    return options
