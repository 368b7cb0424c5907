"""Find the control groups that are ours to divide, and clear away what is left in them.

Version 2: only what the service manager gave us. Our unit asks for `Delegate=yes`, and for
`DelegateSubgroup=` (systemd 254), which puts the daemon one level below the unit's own group. Only
then are controllers switched on there: a group that hands controllers down may hold no process, so
without the subgroup an older systemd could not start the daemon again while commands run. It then
holds commands together and kills them, and limits nothing.

Version 1 has no safe way of giving a part to an account: root uses it below where it is.
"""

from __future__ import annotations

import os

from farhand_daemon import process_identity
from farhand_daemon.supervisor.cgroup import Group, Hierarchy, owner_of

SUBGROUP = "farhandd-self"
_CONTROLLERS = ("memory", "pids")
_DELEGATED = ("user.delegate", "trusted.delegate")  # how systemd marks what it has given away


def usable_hierarchies(
    own: str | None = None, mounts: str | None = None, *, is_root: bool | None = None
) -> list[Hierarchy]:
    """Return the trees where groups can be made; none is the ordinary case of a terminal's daemon.

    `own` and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo.
    """
    try:
        own = _text("/proc/self/cgroup") if own is None else own
        mounts = _text("/proc/self/mountinfo") if mounts is None else mounts
    except OSError:  # not Linux
        return []
    is_root = os.geteuid() == 0 if is_root is None else is_root
    found = []
    for controllers, path in _memberships(own):
        folder = _folder(controllers, path, mounts)
        if folder is None:
            continue
        if not controllers:
            base = _delegated_base(folder, at_the_root=path == "/" and is_root)
        elif is_root and any(controller in controllers for controller in _CONTROLLERS):
            base = folder
        else:
            continue
        if base is not None and os.access(f"{base}/cgroup.procs", os.W_OK):
            found.append(Hierarchy(base, folder))
    return found


def sweep(hierarchies: list[Hierarchy]) -> None:
    """Remove the groups of supervisors that are gone, as far as nothing is in them any more."""
    for hierarchy in hierarchies:
        try:
            names = os.listdir(hierarchy.base)
        except OSError:
            continue
        for name in names:
            owner = owner_of(name)
            if owner is not None and process_identity.start_time(owner[0]) != owner[1]:
                Group(name, [hierarchy]).remove()


def _memberships(own: str) -> list[tuple[list[str], str]]:
    """Give (controllers, path) of each hierarchy we are in; version 2 first, which names none."""
    found = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers.startswith("name="):
            found.append((controllers.split(",") if controllers else [], path))
    return sorted(found, key=lambda entry: bool(entry[0]))


def _folder(controllers: list[str], path: str, mounts: str) -> str | None:
    """Give where a group of a hierarchy is mounted; None when it cannot be seen from here."""
    for line in mounts.splitlines():
        mount, _, system = line.partition(" - ")
        root, point = mount.split()[3:5]
        kind, _, options = system.split(" ", 2)
        fits = (
            kind == "cgroup" and controllers[0] in options.split(",")
            if controllers
            else kind == "cgroup2"
        )
        if not fits:
            continue
        inside = path if root == "/" else path.removeprefix(root)
        if root != "/" and inside == path and path != root:
            continue  # another part of the tree is mounted here
        return point.replace("\\040", " ") + inside.rstrip("/")
    return None


def _delegated_base(folder: str, *, at_the_root: bool) -> str | None:
    parent, _, name = folder.rpartition("/")
    if name == SUBGROUP:
        try:
            with open(f"{parent}/cgroup.subtree_control", "w", encoding="ascii") as file:
                file.write(" ".join(f"+{c}" for c in _offered(parent)))
        except OSError:  # not given after all, or no controller was
            return folder if _is_delegated(folder) else parent
        return parent
    return folder if at_the_root or _is_delegated(folder) else None


def _offered(folder: str) -> list[str]:
    offered = _text(f"{folder}/cgroup.controllers").split()
    return [controller for controller in _CONTROLLERS if controller in offered]


def _is_delegated(folder: str) -> bool:
    for name in _DELEGATED:
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
