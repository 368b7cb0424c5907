"""Operations on names: make a folder, move, remove.

Imported by the processes of operations: small parts of the standard library only.
"""

from __future__ import annotations

import os
import stat

from farhand_daemon.files.expectation import Expectation, locked
from farhand_daemon.files.fault import Fault, kind_of
from farhand_daemon.files.kernel import rename_to_free_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from farhand_daemon.files.roots import Place, Roots


def make_folder(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = roots.place(fields["path"], make_parents=fields["parents"])
    if place.state is not None:
        if not stat.S_ISDIR(place.state.st_mode):
            raise Fault("exists", f"it is a {kind_of(place.state.st_mode)} already")
        return {"created": False}
    try:
        os.mkdir(place.name, 0o777, dir_fd=place.folder)
    except FileExistsError:
        return {"created": False} if _is_folder(place) else _raise_exists()
    return {"created": True}


def move_file(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = roots.place(fields["path"], follow=False)
    state = place.expect()
    to = roots.place(fields["to"], follow=False)
    _refuse_root(place)
    _refuse_root(to)
    roots.refuse_taking_away(state)
    if to.state is not None:
        if not fields["replace"]:
            _raise_exists()
        roots.refuse_taking_away(to.state)
    if fields["replace"]:
        os.rename(place.name, to.name, src_dir_fd=place.folder, dst_dir_fd=to.folder)
    else:
        rename_to_free_name(place.folder, place.name, to.folder, to.name)
    return {"replaced": to.state is not None}


def remove_file(roots: Roots, fields: dict[str, Any]) -> dict[str, object]:
    place = roots.place(fields["path"], follow=False)
    state = place.expect()
    _refuse_root(place)
    roots.refuse_taking_away(state)
    if stat.S_ISDIR(state.st_mode):
        if fields["expected_sha256"]:
            raise Fault("not_a_file", "it is a folder, which has no content to expect")
        os.rmdir(place.name, dir_fd=place.folder)
    elif fields["expected_sha256"]:
        expectation = Expectation(place, fields["expected_sha256"])
        with locked(place):
            expectation.check_again()
            os.unlink(place.name, dir_fd=place.folder)
    else:
        os.unlink(place.name, dir_fd=place.folder)
    return {"type": kind_of(state.st_mode)}


def _refuse_root(place: Place) -> None:
    if place.name == b".":
        raise Fault("path_denied", "name the folder itself, beneath a root: roots stay")


def _is_folder(place: Place) -> bool:
    return stat.S_ISDIR(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)


def _raise_exists() -> NoReturn:
    raise Fault("exists", "something is there already")
