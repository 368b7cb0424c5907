"""The checkout: what lies at its top, and that every folder of code says what it is."""

import ast
import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ALLOWED_AT_THE_TOP = {
    ".ci",
    ".gitignore",
    "LICENSE",
    "README.md",
    "control_plane",
    "deploy",
    "endpoint_daemon",
    "proto",
    "pyproject.toml",
    "scripts",
    "shared",
    "tests",
}


def code_folders() -> list[Path]:
    """Every folder with hand-written Python that does more than mark a package."""
    found = set()
    for container in ("control_plane", "endpoint_daemon", "shared", "scripts"):
        for path in (ROOT / container).rglob("*.py"):
            if {"node_modules", ".node"} & set(path.parts):  # others' code, here to build the page
                continue
            generated = "farhand_proto" in path.parts
            # A migration is found by its number; the folder above says how they work.
            if path.name != "__init__.py" and path.parent.name != "versions" and not generated:
                found.add(path.parent)
    return sorted(found)


@pytest.mark.parametrize("folder", code_folders(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_folder_of_code_has_a_readme(folder: Path) -> None:
    # The root of a package may be described one level up, in the folder that people open first.
    places = [folder, folder.parent] if folder.parent.parent == ROOT else [folder]
    assert any((place / "README.md").is_file() for place in places)


@pytest.mark.skipif(
    not ((ROOT / ".git").exists() and shutil.which("git")), reason="no git, or not a checkout of it"
)
def test_nothing_new_appears_at_the_top_of_the_repository() -> None:
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    tops = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    assert tops <= ALLOWED_AT_THE_TOP


def test_every_invariant_names_tests_that_exist() -> None:
    tests = ROOT / "tests"
    table = (tests / "README.md").read_text().partition("## Invariants")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if re.match(r"\| \d", line)]
    assert [int(row.split("|")[1]) for row in rows] == [1, 2, 3, 4, 5, 6, 8, 9, 10]
    for row in rows:
        named = re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1])
        assert named, row
        for name in named:
            assert is_a_test(name), name


def test_every_clause_of_delivery_names_tests_that_exist() -> None:
    readme = (ROOT / "tests" / "README.md").read_text()
    section = readme.partition("## Delivery")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    told = [line for line in rows if not re.match(r"\| (clause|report) \|", line)]
    assert len(told) > 20, told
    for row in told:
        named = re.findall(r"`([^`]*\btest_[^`]+)`", row.rsplit("|", 2)[1])
        assert named or "nothing here is done" in row, row
        for name in named:
            assert is_a_test(name), name


@functools.cache
def all_tests() -> str:
    return "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def is_a_test(name: str) -> bool:
    """Tell whether a test or a file of tests has this name, the end of its path included."""
    if name.endswith(".py"):
        return bool(list((ROOT / "tests").rglob(f"**/{name.removeprefix('daemon/')}")))
    return f"def {name}(" in all_tests()


def imported(path: Path) -> set[str]:
    """The first part of every name that a module imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names.add((node.module or "").partition(".")[0])
    return names


def test_the_domain_imports_the_standard_library_and_shared_values_only() -> None:
    # import-linter can forbid names it is told; that nothing else slips in is checked here.
    package = ROOT / "control_plane" / "farhand_control_plane"
    for path in (package / "domain").rglob("*.py"):
        foreign = imported(path) - sys.stdlib_module_names - {"farhand_shared"}
        assert foreign <= {"farhand_control_plane"}, f"{path} imports {foreign}"
