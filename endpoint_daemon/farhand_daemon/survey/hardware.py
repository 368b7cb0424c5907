"""Disk, graphics cards and power, as the kernel tells them; only macOS needs a program for it."""

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from farhand_daemon.survey.tools import ask

_SYSTEM: Final = Path("/")


class Power(NamedTuple):
    has_battery: bool
    on_battery: bool
    percent: int


NO_BATTERY: Final = Power(False, False, 0)


def disk_of(folder: Path) -> tuple[int, int]:
    """Return all and free bytes of the file system that holds a folder; zeros when it is gone."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return 0, 0
    return state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize


def gpus(system: Path = _SYSTEM) -> tuple[str, ...]:
    """Return the cards that can compute, by the names that their drivers give them."""
    if sys.platform == "darwin":
        return ("Apple",) if platform.machine() == "arm64" else ()
    found = []
    for card in _sorted(system.glob("proc/driver/nvidia/gpus/*/information")):
        model = re.search(r"^Model:\s*(.+)$", _text(card), re.MULTILINE)
        found.append(model[1].strip() if model else "NVIDIA")
    for node in _sorted(system.glob("sys/class/kfd/kfd/topology/nodes/*/properties")):
        if re.search(r"^simd_count [1-9]", _text(node), re.MULTILINE):  # the CPU has none
            found.append(f"AMD {_text(node.parent / 'name')}".strip())
    return tuple(found)


def power(environ: Mapping[str, str], system: Path = _SYSTEM) -> Power:
    """Return whether there is a battery, whether it is used, and how full it is."""
    if sys.platform == "darwin":
        said = ask(("/usr/bin/pmset", "-g", "batt"), environ)
        return NO_BATTERY if said is None else mac_power(said)
    for supply in _sorted(system.glob("sys/class/power_supply/*")):
        if _text(supply / "type") != "Battery" or _text(supply / "scope") == "Device":
            continue  # a mouse has a battery too
        percent = _text(supply / "capacity")
        return Power(
            True,
            _text(supply / "status") == "Discharging",
            min(100, int(percent)) if percent.isdecimal() else 0,
        )
    return NO_BATTERY


def mac_power(said: str) -> Power:
    """Read what ``pmset -g batt`` says."""
    battery = re.search(r"InternalBattery.*?(\d+)%", said)
    if battery is None:
        return NO_BATTERY
    return Power(True, "'Battery Power'" in said, min(100, int(battery[1])))


def _sorted(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
