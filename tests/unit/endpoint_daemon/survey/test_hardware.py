"""Disk, graphics cards and power, read from a kernel's files; macOS from what its program says."""

import sys
from pathlib import Path

import pytest

from farhand_daemon.survey.hardware import NO_BATTERY, Power, disk_of, gpus, mac_power, power

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's files")


def a_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_disk_of_a_folder_has_room(tmp_path: Path) -> None:
    total, free = disk_of(tmp_path)
    assert total >= free > 0
    assert disk_of(tmp_path / "absent") == (0, 0)


@linux_only
def test_cards_that_compute_are_told_by_name(tmp_path: Path) -> None:
    assert gpus(tmp_path) == ()
    a_file(
        tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information",
        "Model: \t\t NVIDIA A10\nIRQ: 5\n",
    )
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    a_file(nodes / "0/properties", "cpu_cores_count 16\nsimd_count 0\n")
    a_file(nodes / "1/properties", "cpu_cores_count 0\nsimd_count 256\n")
    a_file(nodes / "1/name", "gfx1030\n")
    assert gpus(tmp_path) == ("NVIDIA A10", "AMD gfx1030")


@linux_only
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Discharging", Power(True, True, 81)),
        ("Charging", Power(True, False, 81)),
        ("Full", Power(True, False, 81)),
    ],
)
def test_a_laptop_tells_how_it_is_fed(tmp_path: Path, status: str, expected: Power) -> None:
    supplies = tmp_path / "sys/class/power_supply"
    a_file(supplies / "AC/type", "Mains\n")
    a_file(supplies / "A_mouse/type", "Battery\n")
    a_file(supplies / "A_mouse/scope", "Device\n")
    assert power({}, tmp_path) == NO_BATTERY
    for name, text in (("type", "Battery"), ("status", status), ("capacity", "81")):
        a_file(supplies / "BAT0" / name, f"{text}\n")
    assert power({}, tmp_path) == expected


def test_what_macos_says_of_its_battery() -> None:
    """Only the words are tried: pmset runs on macOS alone."""
    used = (
        "Now drawing from 'Battery Power'\n"
        " -InternalBattery-0 (id=4653155)\t85%; discharging; 4:12 remaining present: true\n"
    )
    assert mac_power(used) == Power(True, True, 85)
    assert mac_power(used.replace("Battery Power", "AC Power")) == Power(True, False, 85)
    assert mac_power("Now drawing from 'AC Power'\n") == NO_BATTERY
