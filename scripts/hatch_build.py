"""Hatch build hook: the wheel of the control plane carries the page and the wheel of the daemon.

`farhand_control_plane/_page/` is the page, built with the Node that pip brings; a current one in
the checkout is used as it is, and then no Node is asked for. Machines are given the daemon by the
control plane, so `farhand_control_plane/_dist/` holds its wheel, built from the same sources in the
same run, the installer's template and pip.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilder

# The hook is loaded by its path; its neighbours are found like those of a script.
sys.path.insert(0, str(Path(__file__).resolve().parent))

import build_dashboard
import build_wheels
import npm
from building import CannotBuildError


class ServedFilesHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's parameter is private
    """Adds `_page/` and `_dist/` to a standard wheel; an editable one stays plain path lines."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Ask for Node when there is a page to build; pip asks us before it builds anything."""
        return [] if build_dashboard.is_current() else [npm.NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build both and have them included."""
        if self.target_name != "wheel" or version != "standard":
            return
        root = Path(self.root)
        package = "farhand_control_plane"
        try:
            build_dashboard.build()
        except CannotBuildError as error:
            sys.exit(f"farhand: {error}")  # pip shows it without a traceback
        for path in build_dashboard.PAGE.rglob("*"):
            if path.is_file():
                name = path.relative_to(build_dashboard.PAGE).as_posix()
                build_data["force_include"][str(path)] = f"{package}/_page/{name}"
        # Removed with this object, when the build has copied the file.
        self._scratch = tempfile.TemporaryDirectory(prefix="farhand-daemon-wheel-")
        builder = WheelBuilder(str(root / "endpoint_daemon"))
        wheels = builder.build(directory=self._scratch.name, versions=["standard"])
        for path in [*map(Path, wheels), *build_wheels.dist_parts()]:
            build_data["force_include"][str(path)] = f"{package}/_dist/{path.name}"
        for path in build_wheels.release_files():
            name = path.relative_to(build_wheels.RELEASES).as_posix()
            build_data["force_include"][str(path)] = f"{package}/_dist/releases/{name}"
