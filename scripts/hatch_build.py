"""Hatch build hook: the wheel of the control plane carries the wheel of the daemon.

Machines are given the daemon by the control plane, so `farhand_control_plane/_dist/` holds its
wheel, built from the same sources in the same run, and the installer's template.
"""

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilder


class DaemonWheelHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's parameter is private
    """Adds `_dist/` to a standard wheel; an editable one stays three plain path lines."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the daemon's wheel and have it included."""
        if self.target_name != "wheel" or version != "standard":
            return
        root = Path(self.root)
        # Removed with this object, when the build has copied the file.
        self._scratch = tempfile.TemporaryDirectory(prefix="farhand-daemon-wheel-")
        builder = WheelBuilder(str(root / "endpoint_daemon"))
        included = [
            Path(p) for p in builder.build(directory=self._scratch.name, versions=["standard"])
        ]
        template = root / "deploy" / "install.sh"
        included += [template] if template.exists() else []
        for path in included:
            build_data["force_include"][str(path)] = f"farhand_control_plane/_dist/{path.name}"
