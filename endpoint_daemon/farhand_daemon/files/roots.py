"""Where a path leads, never out of the machine's roots nor into the daemon's own folders.

A path is followed folder by folder from a root that is held open, and what comes out is a folder
that is held open and one name in it. So a name that is exchanged for a link between the look and
the use leads nowhere: the use is of that name in that folder, and follows no link.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from farhand_daemon.files.fault import Fault, shown
from farhand_daemon.files.kernel import FOLDER_FLAGS, Openat2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LINKS_MAX = 40  # as Linux: more links on one path are a circle, or no accident
_TRIES_MAX = 100  # how often one name may be exchanged under our eyes
_PATH_MAX_BYTES = 32 * 1024  # the system takes 4 KiB; links on the way may make it longer

Identity = tuple[int, int]  # device and inode: a folder, whatever its name is


class Place:
    """A folder, held open, and a name in it that is no link; "." for the folder itself.

    ``state`` is what was there, None for nothing. ``path`` is for people: absolute, without links.
    """

    __slots__ = ("folder", "name", "path", "root", "state")

    def __init__(
        self, folder: int, name: bytes, state: os.stat_result | None, root: bytes, path: bytes
    ) -> None:
        self.folder, self.name, self.state = folder, name, state
        self.root, self.path = root, path

    def expect(self) -> os.stat_result:
        """Give what is there; the fault not_found when that is nothing."""
        if self.state is None:
            raise Fault("not_found", "it does not exist")
        return self.state


class Roots:
    """The folders that operations stay beneath, and those of the daemon, which they never enter."""

    def __init__(self, roots: Sequence[bytes], own: Sequence[bytes]) -> None:
        """Roots that do not exist are left out: nothing is beneath them."""
        self.openat2 = Openat2()
        self._asked = [os.path.normpath(root) for root in roots]
        self._held: dict[bytes, int] = {}  # the real paths of the outermost roots → held open
        # How a path may begin, the root where that is, and the way from the root to there.
        self._beginnings: list[tuple[bytes, bytes, bytes]] = []
        self._open_roots()
        there = [path for path in own if os.path.isdir(path)]
        self.own = {identity(os.stat(path)) for path in there}
        self._way_to_own = {one for path in there for one in _way(path)}

    def place(self, path: bytes, *, follow: bool = True, make_parents: bool = False) -> Place:
        """Say where an absolute path leads; ``follow``: also through a link at its end.

        Fault path_denied; OSError when a folder on the way is not there or may not be entered.
        """
        wants_folder = path.endswith((b"/", b"/.", b"/.."))
        links = 0
        for _ in range(_TRIES_MAX):
            if len(path) > _PATH_MAX_BYTES:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            root, rest = self._begin(path)
            above, _, name = rest.rpartition(b"/")
            whole = name in (b"", b"..")  # a root itself, or the folder above another
            if whole:
                above, name = rest, b"."
            folder, arrived = self._folder(root, above, make=make_parents and not whole)
            self._guard(folder, arrived)
            state, target = _look(folder, name)
            if target and (follow or wants_folder):
                os.close(folder)
                links += 1
                if links > _LINKS_MAX:
                    break
                path = os.path.join(root, above, target)
                continue
            if state is not None:
                if stat.S_ISLNK(state.st_mode) and not target:
                    os.close(folder)  # exchanged between the two looks
                    continue
                if wants_folder and not stat.S_ISDIR(state.st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                if identity(state) in self.own:
                    raise _own_fault()
            real = path_of(folder, os.path.join(root, above))
            return Place(folder, name, state, arrived, real if whole else joined(real, name))
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def hold(self, path: bytes) -> bool:
        """Tell whether a path is, or leads, beneath a root; of what is not to be under anybody's
        hands but the owner's."""
        return any(
            _beneath(one, outer) for one in (path, os.path.realpath(path)) for outer in self._held
        )

    def refuse_taking_away(self, state: os.stat_result) -> None:
        """Raise the fault of a folder, or a link, that leads to the daemon's own: with another in
        its place the daemon would find another home when it starts again."""
        if identity(state) in self._way_to_own:
            raise _own_fault()

    def climb(self, folder: int, root: bytes) -> Iterator[int]:
        """Give a folder and those above it, up to the root; each is open until the next is asked
        for. Fault when the way up misses the root: the folder was moved out meanwhile."""
        top = identity(os.fstat(self._held[root]))
        fd, last = os.dup(folder), None
        try:
            while True:
                this = identity(os.fstat(fd))
                if this == last:
                    raise Fault("path_denied", "it was moved out of the allowed roots; look again")
                yield fd
                if this == top:
                    return
                last = this
                higher = os.open(b"..", FOLDER_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = higher
        finally:
            os.close(fd)

    # -- which root --------------------------------------------------------------------------------

    def _open_roots(self) -> None:
        real_of = {root: os.path.realpath(root) for root in self._asked}
        for real in sorted(set(real_of.values())):
            if not any(_beneath(real, outer) for outer in self._held):
                try:
                    self._held[real] = os.open(real, FOLDER_FLAGS)
                except OSError:
                    continue
        for root, real in real_of.items():
            for outer in self._held:
                if _beneath(real, outer):
                    way = real[len(outer) :].strip(b"/")
                    self._beginnings += [(root, outer, way), (real, outer, way)]

    def _begin(self, path: bytes) -> tuple[bytes, bytes]:
        """Give the root that an absolute path begins in, and the rest: names and "..", one slash
        between them."""
        for _ in range(_LINKS_MAX):
            clean = b"/" + b"/".join(_parts(path))
            found = [one for one in self._beginnings if _beneath(clean, one[0])]
            if not found:
                raise self._outside()
            prefix, root, way = max(found, key=lambda one: len(one[0]))
            parts = [*_parts(way), *_parts(clean[len(prefix.rstrip(b"/")) :])]
            if parts[:1] != [b".."]:
                return root, b"/".join(parts)
            # Out at the top of a root, and perhaps in again. Above a real path there are no links,
            # so this may be done in words.
            above = root
            while parts[:1] == [b".."]:
                above, parts = os.path.dirname(above), parts[1:]
            path = os.path.join(above, *parts)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _outside(self) -> Fault:
        roots = ", ".join(shown(root) for root in self._asked)
        return Fault(
            "path_denied",
            f"it, or a link on its way, leads out of the allowed roots ({roots}); choose a path "
            "beneath them, or add its folder to roots in machine.toml on the machine",
        )

    # -- the way down ------------------------------------------------------------------------------

    def _folder(self, root: bytes, path: bytes, *, make: bool) -> tuple[int, bytes]:
        """Open the folder that a path beneath a root leads to; give it and the root it is in."""
        try:
            fd = self.openat2.folder(self._held[root], path or b".")
        except FileNotFoundError:
            if not make:
                raise
            fd = None
        return self._walk(root, path, make=make) if fd is None else (fd, root)

    def _walk(self, root: bytes, path: bytes, *, make: bool) -> tuple[int, bytes]:
        """The same step by step: each name is looked up in the folder held open before it, and a
        link is read and followed in words, so it is held against the roots like any path."""
        held, todo = [os.dup(self._held[root])], _parts(path)
        links = tries = 0
        try:
            while todo:
                part = todo.pop(0)
                again = b""  # a path from the root of all to go on with
                if part == b"..":
                    os.close(held.pop())
                    if not held:
                        again = os.path.join(os.path.dirname(root), *todo)
                else:
                    target = self._down(held, root, part, make=make)
                    if target is None:
                        tries += 1
                        todo.insert(0, part)
                    elif target:
                        links += 1
                        todo = [*_parts(target), *todo]
                        again = os.path.join(b"/", *todo) if target.startswith(b"/") else b""
                    else:
                        tries = 0
                if again:
                    links += 1  # no less work than one
                    root, rest = self._begin(again)
                    _close_all(held)
                    held, todo = [os.dup(self._held[root])], _parts(rest)
                if links > _LINKS_MAX or tries > _TRIES_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            return held.pop(), root
        finally:
            _close_all(held)

    def _down(self, held: list[int], root: bytes, part: bytes, *, make: bool) -> bytes | None:
        """Enter the folder of a name; give b"", where it leads if it is a link, or None when it has
        to be looked at again: it was made, or exchanged between look and use."""
        state, target = _look(held[-1], part)
        if target:
            return target
        if state is None:
            if not make:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self._guard(held[-1], root)
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o777, dir_fd=held[-1])
            return None
        if stat.S_ISLNK(state.st_mode):
            return None
        if not stat.S_ISDIR(state.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        try:
            held.append(os.open(part, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=held[-1]))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
                return None
            raise
        return b""

    def _guard(self, folder: int, root: bytes) -> None:
        """Raise the fault of a folder that is, or lies beneath, one of the daemon's."""
        for fd in self.climb(folder, root):
            if identity(os.fstat(fd)) in self.own:
                raise _own_fault()


def identity(state: os.stat_result) -> Identity:
    return state.st_dev, state.st_ino


def joined(folder: bytes, name: bytes) -> bytes:
    return folder.rstrip(b"/") + b"/" + name


def path_of(fd: int, otherwise: bytes) -> bytes:
    """Give the path of an open folder as the system has it now; for people only."""
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    except OSError:
        return otherwise


def _look(folder: int, name: bytes) -> tuple[os.stat_result | None, bytes]:
    """Give what a name is, None for nothing, and where it leads if it is a link."""
    try:
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return state, os.readlink(name, dir_fd=folder) if stat.S_ISLNK(state.st_mode) else b""
    except FileNotFoundError:
        return None, b""
    except OSError as error:
        if error.errno == errno.EINVAL:  # a link no more
            return _look(folder, name)
        raise


def _own_fault() -> Fault:
    return Fault(
        "path_denied",
        "it belongs to the daemon, which no file operation enters; choose another path",
    )


def _parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _beneath(path: bytes, root: bytes) -> bool:
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def _way(path: bytes) -> Iterator[Identity]:
    """Give all that is passed on the way to an absolute path, links and what they lead to."""
    done, todo = b"/", _parts(path)
    for _ in range(_PATH_MAX_BYTES):
        if not todo:
            return
        part = todo.pop(0)
        one = os.path.dirname(done) if part == b".." else joined(done, part)
        state = os.lstat(one)
        yield identity(state)
        if stat.S_ISLNK(state.st_mode):
            target = os.readlink(one)
            todo = [*_parts(target), *todo]
            done = b"/" if target.startswith(b"/") else done
        else:
            done = one


def _close_all(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())
