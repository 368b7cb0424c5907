"""Where the environments of this computer lie, told apart from those of other computers."""

import contextlib
import os
from pathlib import Path
from typing import Final

from farhand_shared.errors import Unavailable
from farhand_shared.ids import is_id, new_id

_NAME: Final = "place"


def place_of(folder: Path) -> str:
    """Return the id of a folder on this computer, made with it when it is not there yet.

    Replicas that come together agree on one id. A folder that two computers share is a mistake: the
    processes of its environments are reached on one of them only.
    """
    path = folder / _NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = folder / f".{_NAME}.{os.getpid()}"
        fresh.write_text(new_id())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)  # whoever is second finds it there, whole
        fresh.unlink()
        found = path.read_text().strip()
    except OSError as error:
        raise Unavailable(
            f"cannot use {folder} for environments: {error.strerror}; make it writable or set "
            "FARHAND_ENVIRONMENTS_FOLDER to a folder that is"
        ) from error
    if not is_id(found):
        raise Unavailable(f"cannot use {path}: it holds no id; remove it when no environment runs")
    return found
