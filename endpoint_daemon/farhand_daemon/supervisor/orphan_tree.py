"""Find and signal what is left of a command whose supervisor was killed.

No subreaper holds it together any more. Its control group does, where it had one: what is in it is
of this command. Else it is found by the command's session and group and by parentage, and a
process is signalled only while it is provably of this command: the leader by pid, start time and
boot; another one because it was found in the session of a process proved before, or below one. A
descendant that had left the session and lost its parent before the first look is then not found.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from signal import SIGKILL

from farhand_daemon import process_identity
from farhand_daemon.process_identity import LINUX, stat_fields
from farhand_daemon.supervisor.cgroup import Group
from farhand_daemon.supervisor.descendants import signal_one
from farhand_daemon.supervisor.records import Started


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    parent: int
    group: int
    session: int
    start_time: int
    dead: bool  # a zombie: it takes no signal, but its pid means nothing else


class OrphanTree:
    """Knows more with each look; made for one ending. Used from one thread at a time."""

    def __init__(self, leader: Started, group: Group | None = None) -> None:
        """`group`: the control group that the command was started in."""
        self._leader, self._control_group = leader, group
        self._known: dict[int, int] = {}  # pid -> start time, proved
        if leader.boot_id == process_identity.boot_id():
            self._known[leader.pid] = leader.start_time
        else:
            self._control_group = None

    def count(self) -> int:
        """Give how many live."""
        return len(self._look()[1])

    def signal(self, number: int) -> int:
        """Send a signal to all that live; give how many those are.

        The group is signalled as one: the kernel lets no member fork past it.
        """
        group_is_ours, living = self._look()
        group = self._leader.pid
        if group_is_ours:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        if number == SIGKILL and self._control_group is not None and self._is_outside():
            self._control_group.kill()  # what was born since the look is in it too
        for pid, process in living.items():
            if process.group != group:
                signal_one(pid, process.start_time, number)
        return len(living)

    def _is_outside(self) -> bool:
        """A command may have started this very daemon."""
        group = self._control_group
        return group is not None and os.getpid() not in group.members()

    def _look(self) -> tuple[bool, dict[int, _Process]]:
        """Say whether the group is provably ours, and give the living."""
        if not LINUX:
            return self._look_at_leader()
        everything = _processes()
        self._known = {
            pid: started
            for pid, started in self._known.items()
            if (process := everything.get(pid)) is not None and process.start_time == started
        }
        leader = self._leader.pid
        # Of the group or session there has always been somebody since it was proved, so its
        # number cannot have come to mean another one.
        group_is_ours = leader in self._known or any(
            everything[pid].group == leader for pid in self._known
        )
        session_is_ours = leader in self._known or any(
            everything[pid].session == leader for pid in self._known
        )
        children: dict[int, list[int]] = {}
        found = list(self._known)
        if self._control_group is not None:
            found += [pid for pid in self._control_group.members() if pid in everything]
        for pid, process in everything.items():
            children.setdefault(process.parent, []).append(pid)
            if (group_is_ours and process.group == leader) or (
                session_is_ours and process.session == leader
            ):
                found.append(pid)
        while found:
            for pid in found:
                self._known[pid] = everything[pid].start_time
            found = [
                child
                for pid in found
                for child in children.get(pid, ())
                if child not in self._known
            ]
        self._known.pop(os.getpid(), None)  # a command may have started this very daemon
        return group_is_ours, {
            pid: everything[pid] for pid in self._known if not everything[pid].dead
        }

    def _look_at_leader(self) -> tuple[bool, dict[int, _Process]]:
        # macOS, not tried: without /proc only the group is reached, while its leader lives.
        leader = self._leader
        if not process_identity.is_alive(leader.pid, leader.start_time, leader.boot_id):
            return False, {}
        alone = _Process(
            parent=0,
            group=leader.pid,
            session=leader.pid,
            start_time=leader.start_time,
            dead=False,
        )
        return True, {leader.pid: alone}


def _processes() -> dict[int, _Process]:
    found = {}
    for name in os.listdir("/proc"):
        fields = stat_fields(int(name)) if name.isdigit() else None
        if fields is not None:
            found[int(name)] = _Process(
                parent=int(fields[1]),
                group=int(fields[2]),
                session=int(fields[3]),
                start_time=int(fields[19]),
                dead=fields[0] in (b"Z", b"X"),
            )
    return found
