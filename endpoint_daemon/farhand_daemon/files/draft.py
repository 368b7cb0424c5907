"""A file's next content, which takes the file's place as a whole or never.

On Linux it has no name until then, so not even KILL leaves anything behind. Elsewhere, and on file
systems that cannot do that, it is ``.NAME.farhand-tmp-RANDOM`` beside the file.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import stat

from farhand_daemon.files.answer import write_all
from farhand_daemon.files.expectation import Expectation, locked
from farhand_daemon.files.fault import Ended, Fault
from farhand_daemon.files.kernel import rename_to_free_name
from farhand_daemon.files.opening import open_file, version_of
from farhand_daemon.files.part import beside, open_part, part_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from farhand_daemon.files.roots import Place

_UNNAMED = getattr(os, "O_TMPFILE", 0)  # Linux
_CANNOT = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
# The rights of its owner (setuid) go with other content, as the system itself does on a write.
_MODE_KEPT = 0o1777
_END = {signal.SIGTERM}


class Draft:
    """Use as a context: what has not taken its place at the end is gone."""

    def __init__(self, place: Place, fd: int, name: bytes | None) -> None:
        """For `new_draft` and `part_draft`; ``name`` None: it has none yet."""
        self.place, self.fd, self._name = place, fd, name
        self.digest = hashlib.sha256(usedforsecurity=False)

    def __enter__(self) -> Draft:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _END)
        except Ended:  # it came meanwhile
            self._drop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._drop()
        os.close(self.fd)

    def keep(self) -> None:
        """Let it stay under its own name."""
        self._name = None

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        write_all(self.fd, data)

    def take_place(self, expectation: Expectation, mode: int | None) -> dict[str, object]:
        """Become the file; give the facts. Fault when what is there is no longer as expected.

        From here on nobody ends the operation but by KILL, so its answer is what happened.
        """
        place = self.place
        facts = self._dress(mode)
        os.fsync(self.fd)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with locked(place) as folder:
            expectation.check_again()
            if expectation.nothing:
                self._take_free_name()
            else:
                self._replace()
            if folder is not None:
                os.fsync(folder)
        state = os.fstat(self.fd)
        return {
            "size": state.st_size,
            "mode": f"{stat.S_IMODE(state.st_mode):04o}",
            "version": version_of(state),
            "sha256": self.digest.hexdigest(),
            "created": place.state is None,
            "hard_links": 0 if place.state is None else place.state.st_nlink - 1,
            **facts,
        }

    def _drop(self) -> None:
        if self._name is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self.place.folder)

    def _take_free_name(self) -> None:
        place = self.place
        if self._name is None:
            self._link(place.name)
        else:
            rename_to_free_name(place.folder, self._name, place.folder, place.name)
            self._name = None

    def _replace(self) -> None:
        place = self.place
        name = self._name
        if name is None:
            name = self._name = _new_name(place)
            self._link(name)
        os.rename(name, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        self._name = None

    def _link(self, name: bytes) -> None:
        os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self.place.folder)

    def _dress(self, mode: int | None) -> dict[str, object]:
        """Give it mode, owner and attributes of what it replaces; tell what could not be kept."""
        old = self.place.state
        if old is None:
            umask = os.umask(0o077)
            os.umask(umask)
            os.fchmod(self.fd, 0o666 & ~umask if mode is None else mode)
            return {"lost_attributes": [], "owner_changed": False}
        own = os.fstat(self.fd)
        if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
            for uid, gid in ((old.st_uid, old.st_gid), (-1, old.st_gid)):
                with contextlib.suppress(PermissionError):
                    os.fchown(self.fd, uid, gid)
                    break
        lost = self._copy_attributes()
        os.fchmod(self.fd, stat.S_IMODE(old.st_mode) & _MODE_KEPT if mode is None else mode)
        return {
            "lost_attributes": lost,
            "owner_changed": os.fstat(self.fd).st_uid != old.st_uid,
        }

    def _copy_attributes(self) -> list[str]:
        if not hasattr(os, "listxattr"):  # macOS: Python reaches none
            return []
        try:
            source, _ = open_file(self.place.folder, self.place.name)
        except (OSError, Fault):  # it cannot be read, or is gone: nothing is known of any
            return []
        lost = []
        try:
            for name in os.listxattr(source):
                value = os.getxattr(source, name)
                try:
                    os.setxattr(self.fd, name, value)
                except OSError:
                    if not self._has(name, value):
                        lost.append(name)
        except OSError:  # a file system without attributes
            return lost
        finally:
            os.close(source)
        return lost

    def _has(self, name: str, value: bytes) -> bool:
        try:
            return os.getxattr(self.fd, name) == value
        except OSError:
            return False


_EFFECTIVE = os.access in os.supports_effective_ids


def new_draft(place: Place, *, unnamed: bool = True) -> Draft:
    """Make an empty one. OSError when the folder takes no new file.

    From here until the context is entered nobody ends the operation: what has a name already would
    stay.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _END)
    if unnamed and _UNNAMED:
        flags = _UNNAMED | os.O_RDWR | os.O_CLOEXEC
        try:
            return Draft(place, os.open(b".", flags, 0o600, dir_fd=place.folder), None)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
    name = _new_name(place)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return Draft(place, os.open(name, flags, 0o600, dir_fd=place.folder), name)


def part_draft(place: Place, sha256: bytes) -> Draft:
    """Take the part of a put of this content; as in `new_draft`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _END)
    return Draft(place, open_part(place, sha256), part_name(place.name, sha256))


def refuse_read_only(place: Place) -> None:
    """Raise the fault of a file without write permission: a rename would ask its folder only, but
    who took the permission off meant something."""
    if place.state is not None and not os.access(
        place.name, os.W_OK, dir_fd=place.folder, effective_ids=_EFFECTIVE
    ):
        raise Fault("permission_denied", "it may only be read; change its mode first")


def _new_name(place: Place) -> bytes:
    return beside(place.name, b".farhand-tmp-" + os.urandom(8).hex().encode())
