"""Which repositories lie beneath the roots, and what of a remote is told."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_daemon.survey import remotes
from farhand_daemon.survey.remotes import find_repositories, normalised


def a_copy(folder: Path, *urls: str, names: tuple[str, ...] = ("origin", "upstream")) -> Path:
    """Make a working copy as git would leave it."""
    (folder / ".git").mkdir(parents=True)
    lines = ["[core]", "\tbare = false"]
    for name, url in zip(names, urls, strict=False):
        lines += [f'[remote "{name}"]', f"\turl = {url}", f"\tpushurl = {url}x"]
    (folder / ".git" / "config").write_text("\n".join([*lines, '[branch "main"]', ""]))
    return folder


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://github.com/acme/web.git", "github.com/acme/web"),
        ("https://ada:s3cret@github.com/acme/web", "github.com/acme/web"),
        ("https://x-access-token:ghp_abc@GitHub.com/acme/Web.git/", "github.com/acme/Web"),
        ("git@github.com:acme/web.git", "github.com/acme/web"),
        ("ssh://git@git.acme.test:2222/team/sub/app.git", "git.acme.test/team/sub/app"),
        ("git.acme.test:app", "git.acme.test/app"),
        ("https://git.acme.test/app.git?token=s3cret#s3cret", "git.acme.test/app"),
        ("/srv/git/app.git", None),
        ("../app", None),
        ("file:///srv/git/app.git", None),
        ("C:/src/app", None),
        ("https://github.com/", None),
        ("https://proxy.test/https://ada:s3cret@github.com/acme/web", None),
        ("https://[::1", None),
        ("", None),
    ],
)
def test_a_remote_is_host_and_path(url: str, told: str | None) -> None:
    assert normalised(url) == told


_SECRET = "s3cretS3CRET"


@given(
    st.sampled_from(["https", "ssh", "git", "http", ""]),
    st.text(st.characters(codec="ascii", exclude_characters="/#?@[]"), max_size=6),
    st.sampled_from(["{user}:{secret}@", "{secret}@", "{secret}:@"]),
    st.sampled_from(["", ":22", ":"]),
    st.sampled_from(["/acme/web.git", "acme/web", "/acme/web?x={secret}", "/acme/web#{secret}"]),
)
def test_no_form_of_a_url_tells_its_credentials(
    scheme: str, user: str, who: str, port: str, path: str
) -> None:
    filled = [part.format(user=user, secret=_SECRET) for part in (who, path)]
    separator = "" if scheme else ":"
    url = f"{scheme}://" if scheme else ""
    told = normalised(f"{url}{filled[0]}github.com{port}{separator}{filled[1]}")
    assert told is None or _SECRET not in told


def test_working_copies_are_found_nearest_first_with_all_their_remotes(tmp_path: Path) -> None:
    deep = a_copy(tmp_path / "a" / "b" / "deep", "git@host.test:x/deep.git")
    near = a_copy(tmp_path / "web", "https://github.com/me/web", "https://github.com/acme/web")
    a_copy(near / "vendored", "git@host.test:x/inside.git")
    a_copy(tmp_path / ".cache" / "hidden", "git@host.test:x/hidden.git")
    a_copy(tmp_path / "node_modules" / "m", "git@host.test:x/m.git")
    a_copy(tmp_path / "local", "/srv/git/local.git")
    assert find_repositories([tmp_path, tmp_path, tmp_path / "absent"]) == [
        ("github.com/me/web", os.fsencode(near)),
        ("github.com/acme/web", os.fsencode(near)),
        ("host.test/x/deep", os.fsencode(deep)),
    ]


def test_origin_comes_first_whatever_the_order_in_the_file(tmp_path: Path) -> None:
    copy = a_copy(tmp_path, "git@h.test:a/fork", "git@h.test:a/web", names=("fork", "origin"))
    assert [remote for remote, _ in find_repositories([copy])] == ["h.test/a/web", "h.test/a/fork"]


def test_links_are_not_followed_and_depth_is_bounded(tmp_path: Path) -> None:
    root = tmp_path / "root"
    elsewhere = a_copy(tmp_path / "elsewhere", "git@h.test:a/b")
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    (root / "loop").symlink_to(root)
    a_copy(root.joinpath(*"123456"), "git@h.test:a/deep")
    assert find_repositories([root]) == []
    assert len(find_repositories([root / "1"])) == 1


def test_another_worktree_and_a_submodule_have_the_remotes_of_their_repository(
    tmp_path: Path,
) -> None:
    main = a_copy(tmp_path / "main", "git@h.test:a/web")
    data = main / ".git" / "worktrees" / "second"
    data.mkdir(parents=True)
    (data / "commondir").write_text("../..\n")
    second = tmp_path / "second"
    second.mkdir()
    (second / ".git").write_text(f"gitdir: {data}\n")
    assert find_repositories([second]) == [("h.test/a/web", os.fsencode(second))]


def test_a_name_that_is_no_text_keeps_its_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    copy = a_copy(tmp_path / name, "git@h.test:a/web")
    assert find_repositories([tmp_path])[0][1] == os.fsencode(copy)


def test_folders_that_cannot_be_read_and_odd_configurations_are_passed_over(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    odd = tmp_path / "odd" / ".git"
    odd.mkdir(parents=True)
    (odd / "config").write_bytes(b'[remote "origin"]\n\xff\xfe\nurl\n[remote\nurl = git@h.test:a/b')
    (tmp_path / "pointer").mkdir()
    (tmp_path / "pointer" / ".git").write_text("gitdir: /absent\n")
    assert find_repositories([tmp_path]) == []


def test_the_walk_ends_at_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        a_copy(tmp_path / str(number), f"git@h.test:a/{number}")
    monkeypatch.setattr(remotes, "REPOSITORIES_MAX", 2)
    assert len(find_repositories([tmp_path])) == 2
    monkeypatch.setattr(remotes, "ENTRIES_MAX", 3)
    assert len(find_repositories([tmp_path])) <= 1
    ticks = itertools.count(step=6)
    assert find_repositories([tmp_path], clock=lambda: float(next(ticks))) == []
