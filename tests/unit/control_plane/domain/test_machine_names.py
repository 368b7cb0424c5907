"""A machine is meant by its name, however it is written."""

import pytest

from farhand_control_plane.domain.machine_names import the_one_named


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("vm-2", "vm-2"),
        ("VM-2", "vm-2"),
        ("box", "box"),  # this very one, though another differs in case alone
        ("Box", "Box"),
        ("BOX", None),  # either could be meant
        ("vm", None),
        ("", None),
    ],
)
def test_case_counts_only_between_names_that_differ_in_nothing_else(
    said: str, meant: str | None
) -> None:
    assert the_one_named(said, ["vm-2", "box", "Box", "vm-2"]) == meant
