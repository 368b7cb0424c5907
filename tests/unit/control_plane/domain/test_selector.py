"""What a selector says: text to terms and back, and errors that point at a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farhand_control_plane.domain.selector import (
    FLAGS,
    TEXT_MAX,
    Flag,
    Kind,
    Label,
    Named,
    Needs,
    Operator,
    Quantity,
    Repository,
    Selector,
    SelectorError,
    System,
    Tool,
    asks_on_demand,
    parse,
    render,
)
from farhand_control_plane.domain.words import MachineKind
from farhand_shared.errors import InvalidInput

_values = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_names = st.from_regex(r"[a-z0-9][a-z0-9._+-]{0,8}", fullmatch=True)
_operators = st.sampled_from(Operator)
_versions = st.lists(st.integers(0, 10**9 - 1), min_size=1, max_size=6).map(tuple)
_sizes = st.tuples(st.integers(0, 10**9 - 1), st.sampled_from([10**3, 10**6, 10**9, 10**12])).map(
    lambda pair: pair[0] * pair[1]
)
_terms = st.one_of(
    st.builds(System, fact=st.sampled_from(["os", "arch"]), value=_values),
    st.builds(Flag, name=st.sampled_from(FLAGS)),
    st.builds(Kind, kind=st.sampled_from(MachineKind)),
    st.builds(
        Repository,
        path=st.lists(
            st.text(
                st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='/"'),
                min_size=1,
                max_size=8,
            ).map(str.lower),
            min_size=2,
            max_size=4,
        ).map("/".join),
    ),
    st.builds(Tool, name=_names),
    st.builds(Tool, name=_names, operator=_operators, version=_versions),
    st.builds(Label, name=_names),
    st.builds(Label, name=_names, value=_values),
    st.builds(Quantity, fact=st.just("cpu"), operator=_operators, amount=st.integers(0, 10**9 - 1)),
    st.builds(
        Quantity, fact=st.sampled_from(["memory", "disk"]), operator=_operators, amount=_sizes
    ),
)
_selectors = st.one_of(
    st.builds(Named, name=_values),
    st.builds(Needs, terms=st.lists(_terms, min_size=1, max_size=6, unique=True).map(tuple)),
)


@given(_selectors)
def test_what_is_written_is_read_back_as_the_same(selector: Selector) -> None:
    assert parse(render(selector)) == selector


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_at_a_place_in_it(text: str) -> None:
    try:
        selector = parse(text)
    except SelectorError as error:
        refused = error
    else:
        assert parse(render(selector)) == selector
        return
    assert 0 <= refused.position <= len(text)
    _, line, caret = str(refused).split("\n")
    assert len(line) == 4 + len(text)
    assert caret == " " * (4 + refused.position) + "^"


def test_the_example_of_the_documentation_is_read_term_by_term() -> None:
    text = (
        "os=linux gpu repo:acme/web tool:docker>=24 label=build label:team=infra cpu>=8 memory>=16G"
    )
    assert parse(text) == Needs(
        terms=(
            System(fact="os", value="linux"),
            Flag(name="gpu"),
            Repository(path="acme/web"),
            Tool(name="docker", operator=Operator.AT_LEAST, version=(24,)),
            Label(name="build"),
            Label(name="team", value="infra"),
            Quantity(fact="cpu", operator=Operator.AT_LEAST, amount=8),
            Quantity(fact="memory", operator=Operator.AT_LEAST, amount=16 * 10**9),
        )
    )
    assert render(parse(text)) == text


def test_a_machines_name_with_spaces_is_quoted() -> None:
    assert parse(r'machine="Ada\'s \"big\" box"'.replace(r"\'", "'")) == Named(
        name='Ada\'s "big" box'
    )
    assert parse("  machine=laptop  ") == Named(name="laptop")


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "there is nothing"),
        ("   ", 3, "there is nothing"),
        ("os=linux fast", 9, "no term"),
        ("gpus", 0, "no term"),
        ("os", 2, "os needs a value, such as os=linux"),
        ("os=", 3, "here belongs a value of os"),
        ('os="lin', 3, 'the closing " is missing'),
        (r'os="a\b"', 6, "comes"),
        ('os=""', 3, "here belongs"),
        ('os="linux"gpu', 10, "a space belongs"),
        ("kind", 4, "kind=on-demand"),
        ("kind=cloud", 5, "here belongs a kind: kind=personal, kind=managed, kind=on-demand"),
        ("kind=managedd", 5, "here belongs a kind"),
        ("repo:web", 5, "owner/name"),
        ("repo=acme/web", 4, "such as repo:acme/web"),
        ("tool:docker>=new", 13, "a version"),
        ("label", 5, "label needs a name"),
        ("label:team", 10, "write label=team"),
        ("cpu", 3, "needs a comparison"),
        ("cpu>=many", 5, "a number"),
        ("cpu>=8G", 6, "a space belongs"),
        ("memory>=16", 10, "needs a unit"),
        ("memory>=16GB", 11, "a space belongs"),
        ("gpu gpu", 4, "is there twice"),
        ("machine=a gpu", 10, "stands alone"),
        ("gpu machine=a", 4, "stands alone"),
        ("machine", 7, "machine=NAME"),
    ],
)
def test_a_fault_is_told_with_its_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert (caught.value.position, reason in caught.value.reason) == (position, True), str(
        caught.value
    )


def test_the_caret_stands_under_the_character() -> None:
    with pytest.raises(SelectorError) as caught:
        parse("os=linux\tfast")
    assert (
        str(caught.value).splitlines()[0].startswith("cannot read the selector at character 10: ")
    )
    assert str(caught.value).splitlines()[1:] == ["    os=linux fast", "             ^"]


def test_a_text_without_end_is_refused() -> None:
    with pytest.raises(InvalidInput, match="characters long"):
        parse("gpu " * TEXT_MAX)


@pytest.mark.parametrize("text", ["kind=on-demand", "kind=on_demand", "os=linux kind=ON-DEMAND"])
def test_an_environment_is_asked_for_in_either_spelling(text: str) -> None:
    assert asks_on_demand(parse(text))


def test_other_kinds_and_names_ask_for_no_environment() -> None:
    assert not asks_on_demand(parse("kind=managed"))
    assert not asks_on_demand(parse("machine=on-demand"))
