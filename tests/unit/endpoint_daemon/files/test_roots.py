"""Whatever a path says, it leads beneath the roots or nowhere; with openat2 and without it."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from farhand_daemon.files.fault import Fault
from farhand_daemon.files.opening import open_file
from farhand_daemon.files.roots import Place, Roots

SECRET = b"the secret"


@pytest.fixture(params=["openat2", "step by step"])
def there(request: pytest.FixtureRequest) -> bool:
    """Whether the kernel resolves, or we do."""
    return bool(request.param == "openat2")


class World:
    """A root with files, a second root, and what is outside of both."""

    def __init__(self, tmp_path: Path, there: bool) -> None:
        self.root, self.second = tmp_path / "root", tmp_path / "second"
        self.outside, self.own = tmp_path / "outside", self.root / "state" / "daemon"
        for folder in (self.root / "a" / "b", self.second, self.outside, self.own):
            folder.mkdir(parents=True)
        (self.root / "a" / "b" / "file").write_bytes(b"inside")
        (self.second / "file").write_bytes(b"second")
        (self.outside / "file").write_bytes(SECRET)
        (self.own / "machine.toml").write_bytes(SECRET)
        self._there = there

    def roots(self, *roots: Path) -> Roots:
        roots = roots or (self.root, self.second)
        made = Roots([os.fsencode(root) for root in roots], [os.fsencode(self.own)])
        made.openat2.there = made.openat2.there and self._there
        return made

    def place(self, path: str | bytes, *, roots: Roots | None = None, follow: bool = True) -> Place:
        path = os.fsencode(path)
        whole = path if path.startswith(b"/") else os.fsencode(self.root) + b"/" + path
        return (roots or self.roots()).place(whole, follow=follow)

    def read(self, path: str | bytes) -> bytes:
        with nothing_stays_open():
            place = self.place(path)
            fd, _ = open_file(place.folder, place.name)
            with os.fdopen(fd, "rb") as file:
                return file.read()

    def link(self, name: str, target: str | Path) -> None:
        (self.root / name).symlink_to(target)


@contextlib.contextmanager
def nothing_stays_open() -> Iterator[None]:
    """Close what an operation leaves open: it has a process of its own, whose end does it."""
    before = descriptors()
    try:
        yield
    finally:
        for descriptor in descriptors() - before:
            os.close(descriptor)


def descriptors() -> set[int]:
    found = set()
    for name in (entry.name for entry in Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):  # that of the look itself
            os.fstat(int(name))
            found.add(int(name))
    return found


@pytest.fixture
def world(tmp_path: Path, there: bool) -> Iterator[World]:
    with nothing_stays_open():
        yield World(tmp_path, there)


@pytest.mark.parametrize(
    "path",
    [
        "a/b/file",
        "a//b/./file",
        "a/b/../b/file",
        "./a/b/file",
        "a/../a/b/../../a/b/file",
        "../root/a/b/file",  # out at the top, and in again
    ],
)
def test_what_is_inside_is_found(world: World, path: str) -> None:
    assert world.read(path) == b"inside"


def test_links_from_inside_to_inside_are_followed(world: World) -> None:
    world.link("relative", "a/b")
    world.link("absolute", world.root / "a")
    world.link("up", "a/../a/b/file")
    world.link("chain", "relative/../b/file")
    world.link("other_root", world.second)
    world.link("around", "../second/file")
    assert world.read("relative/file") == b"inside"
    assert world.read("absolute/b/file") == b"inside"
    assert world.read("up") == b"inside"
    assert world.read("chain") == b"inside"
    assert world.read("other_root/file") == b"second"
    assert world.read("around") == b"second"


@pytest.mark.parametrize(
    ("name", "target", "path"),
    [
        ("", "", "../outside/file"),
        ("", "", "a/../../outside/file"),
        ("", "", "a/b/../../../outside/file"),
        ("", "", "../../../../../../../../etc/passwd"),
        ("", "", "/etc/passwd"),
        ("", "", "/"),
        ("", "", "/proc/self/root/etc/passwd"),
        ("out", "../outside", "out/file"),
        ("out", "../outside/file", "out"),
        ("out", "{outside}/file", "out"),
        ("out", "{outside}", "out/file"),
        ("out", "{outside}", "out/"),
        ("out", "{outside}", "out/."),
        ("out", "/proc/self/root/etc/passwd", "out"),
        ("out", "/proc/self/cwd/../../../../etc/passwd", "out"),
        ("out", "/dev/fd/0", "out"),
        ("out", "a/../../outside/file", "out"),
        ("out", "a/b/../../..", "out/outside/file"),
        ("a/b/out", "../../../outside/file", "a/b/out"),
        ("out", "/", "out/etc/passwd"),
        ("out", "//etc/passwd", "out"),
    ],
)
def test_what_leads_out_is_denied(world: World, name: str, target: str, path: str) -> None:
    if name:
        world.link(name, target.format(outside=world.outside))
    with pytest.raises(Fault) as caught:
        world.read(path)
    assert caught.value.code == "path_denied"
    assert str(world.root) in caught.value.reason


def test_what_is_not_there_outside_is_denied_too(world: World) -> None:
    world.link("out", "../outside/nothing")
    for path in ("../outside/nothing", "/nothing/at/all", "out"):
        with pytest.raises(Fault, match="leads out of the allowed roots"):
            world.place(path)


def test_a_folder_whose_name_begins_like_a_root_is_outside(world: World) -> None:
    (world.root.parent / "root-evil").mkdir()
    with pytest.raises(Fault, match="leads out of the allowed roots"):
        world.place(str(world.root) + "-evil/file")


def test_a_circle_of_links_ends(world: World) -> None:
    world.link("one", "two")
    world.link("two", "one")
    world.link("deeper", "deeper/deeper")
    for path in ("one", "one/file", "deeper", "deeper/x"):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            world.place(path)


def test_a_link_itself_is_found_when_it_is_not_to_be_followed(world: World) -> None:
    world.link("out", world.outside)
    assert world.place("out", follow=False).name == b"out"
    with pytest.raises(Fault, match="leads out"):
        world.place("out/", follow=False)  # with a slash it is a folder that is meant


def test_a_root_that_is_a_link_and_a_root_in_a_root_are_one_place(world: World) -> None:
    home = world.root.parent / "home"
    home.symlink_to(world.root)
    roots = world.roots(home, world.root / "a")
    for path in (home / "a/b/file", world.root / "a/b/file", world.root / "a/../a/b/file"):
        place = world.place(str(path), roots=roots)
        assert place.path == os.fsencode(world.root / "a/b/file")
    with pytest.raises(Fault, match="leads out"):
        world.place(str(home / "../outside"), roots=roots)


def test_a_root_that_is_not_there_lets_nothing_in(world: World) -> None:
    missing = world.root / "missing"
    roots = world.roots(missing)
    with pytest.raises(Fault, match="leads out"):
        world.place(str(missing / "file"), roots=roots)
    missing.symlink_to(world.outside)  # it comes into being too late
    with pytest.raises(Fault, match="leads out"):
        world.place(str(missing / "file"), roots=roots)


def test_everything_is_beneath_the_root_of_all(world: World) -> None:
    roots = world.roots(Path("/"))
    place = world.place(str(world.outside / ".." / "outside/file"), roots=roots)
    assert place.path == os.fsencode(world.outside / "file")
    assert world.place("/", roots=roots).path == b"/"
    assert world.place("/../..", roots=roots).path == b"/"


@pytest.mark.parametrize(
    "path",
    [
        "state/daemon/machine.toml",
        "state/daemon",
        "state/daemon/",
        "state/daemon/.",
        "state/daemon/new",
        "state/../state/daemon/machine.toml",
        "a/to_own/machine.toml",
        "a/to_own",
        "a/to_file",
    ],
)
def test_the_daemons_own_folder_is_not_entered(world: World, path: str) -> None:
    world.link("a/to_own", "../state/daemon")
    world.link("a/to_file", world.own / "machine.toml")
    with pytest.raises(Fault, match="it belongs to the daemon"):
        world.place(path)


def test_no_folder_is_made_in_the_daemons_own(world: World) -> None:
    with pytest.raises(Fault, match="it belongs to the daemon"):
        world.roots().place(os.fsencode(world.own / "new/deep/file"), make_parents=True)
    assert not (world.own / "new").exists()


def test_what_leads_to_the_daemons_own_is_not_taken_away(world: World) -> None:
    """Not the folders above it, nor the links by which its home is named."""
    (world.root / "share").symlink_to("a/other")
    (world.root / "a/other").symlink_to(world.root / "state")
    named = world.root / "share" / ".." / "share" / "daemon"
    roots = Roots([os.fsencode(world.root)], [os.fsencode(world.own), os.fsencode(named)])
    for path in ("state", "share", "a/other", "a", ".", "..", "state/daemon"):
        with pytest.raises(Fault, match="it belongs to the daemon"):
            roots.refuse_taking_away((world.root / path).lstat())
    roots.refuse_taking_away((world.root / "a/b").lstat())


@pytest.mark.parametrize(
    "part",
    ["a/../", "../root/", "a/../../root/", "a/", "x"],
    ids=["up", "out", "out and in", "down", "name"],
)
def test_a_path_without_end_is_refused_in_no_time(world: World, part: str) -> None:
    begun = time.process_time()
    with pytest.raises(OSError, match="File name too long"):
        world.place(part * 1_000_000)
    with contextlib.suppress(OSError):
        assert world.place(part * (30_000 // len(part)) + "none").state is None
    assert time.process_time() - begun < 5.0


def test_missing_folders_are_made_one_by_one_and_only_inside(world: World) -> None:
    world.link("way", "a")
    world.link("out", "../outside")
    place = world.roots().place(os.fsencode(world.root / "way/x/y/file"), make_parents=True)
    assert (world.root / "a/x/y").is_dir()
    assert place.state is None
    with pytest.raises(Fault, match="leads out"):
        world.roots().place(os.fsencode(world.root / "out/x/file"), make_parents=True)
    assert not (world.outside / "x").exists()


def test_many_missing_folders_are_made(world: World) -> None:
    deep = "/".join("d" * 150)
    world.roots().place(os.fsencode(world.root / deep / "file"), make_parents=True)
    assert (world.root / deep).is_dir()


def test_a_file_is_no_folder_on_the_way(world: World) -> None:
    for path in ("a/b/file/x", "a/b/file/", "a/b/file/../file"):
        with pytest.raises(NotADirectoryError):
            world.place(path)


def test_a_folder_that_was_moved_out_is_noticed_on_the_way_up(world: World) -> None:
    roots = world.roots()
    place = roots.place(os.fsencode(world.root / "a/b/file"))
    (world.root / "a/b").rename(world.outside / "b")
    with pytest.raises(Fault, match="moved out of the allowed roots"):
        list(roots.climb(place.folder, place.root))


@pytest.mark.parametrize(
    "name", [b"new\nline", b"\xff\xfe", b"-rf", b" ", b"*", b"\\", "é".encode()]
)
def test_any_name_is_a_name(world: World, name: bytes) -> None:
    folder = world.root / os.fsdecode(name)
    folder.mkdir()
    (folder / "file").write_bytes(name)
    assert world.read(name + b"/file") == name


@contextlib.contextmanager
def exchanged(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names for each other, again and again, in a thread."""
    stop = threading.Event()
    third = one.with_name("third")

    def work() -> None:
        while not stop.is_set():
            one.rename(third)
            other.rename(one)
            one.rename(other)
            third.rename(one)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_name_that_is_exchanged_for_a_link_never_leads_out(world: World, what: str) -> None:
    if what == "folder":
        world.link("evil", world.outside)
        name, path = world.root / "dir", "dir/file"
        name.mkdir()
        (name / "file").write_bytes(b"inside")
    else:
        world.link("evil", world.outside / "file")
        name, path = world.root / "plain", "plain"
        name.write_bytes(b"inside")
    read = refused = 0
    with exchanged(name, world.root / "evil"):
        while read < 100 or refused < 20:
            try:
                assert world.read(path) == b"inside"
                read += 1
            except (Fault, OSError):
                refused += 1
            assert read + refused < 100_000
