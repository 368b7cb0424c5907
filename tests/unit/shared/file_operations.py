"""Operations on files of every kind, for properties that hold for all of them."""

from hypothesis import strategies as st

from farhand_shared.file_operation import (
    ABSENT,
    ANY,
    LIMIT_MAX,
    MODE_MAX,
    EditFile,
    FileOperation,
    GlobFiles,
    ListFolder,
    MakeFolder,
    MoveFile,
    PutFile,
    ReadFile,
    RemoveFile,
    Replacement,
    SearchFiles,
    StatFile,
    WriteFile,
)

paths = st.binary(min_size=1).filter(lambda path: b"\0" not in path)
hashes = st.binary(min_size=32, max_size=32)
maybe_hash = hashes | st.just(b"")
expects = st.sampled_from([ANY, ABSENT]) | hashes
limits = st.integers(0, LIMIT_MAX)
modes = st.none() | st.integers(0, MODE_MAX)
offsets = st.integers(0, 1 << 62)
yes_or_no = st.booleans()

operations: st.SearchStrategy[FileOperation] = st.one_of(
    st.builds(StatFile, path=paths, nofollow=yes_or_no, put_sha256=maybe_hash, hash_bytes=offsets),
    st.builds(ListFolder, path=paths, after=st.binary(), limit=limits),
    st.builds(GlobFiles, path=paths, pattern=paths, after=st.binary(), limit=limits, all=yes_or_no),
    st.builds(
        SearchFiles,
        path=paths,
        pattern=paths,
        fixed=yes_or_no,
        ignore_case=yes_or_no,
        include=st.lists(paths, max_size=3).map(tuple),
        limit=limits,
        all=yes_or_no,
    ),
    st.builds(ReadFile, path=paths, offset=offsets, length=offsets, if_version=st.text("0a-")),
    st.builds(
        WriteFile,
        path=paths,
        data=st.binary(),
        expect=expects,
        mode=modes,
        make_parents=yes_or_no,
    ),
    st.builds(
        EditFile,
        path=paths,
        edits=st.lists(
            st.builds(Replacement, old=st.binary(min_size=1), new=st.binary(), all=yes_or_no),
            min_size=1,
            max_size=3,
        ).map(tuple),
        expected_sha256=maybe_hash,
    ),
    offsets.flatmap(
        lambda size: st.builds(
            PutFile,
            path=paths,
            size=st.just(size),
            sha256=hashes,
            expect=expects,
            mode=modes,
            resume_offset=st.integers(0, size),
            make_parents=yes_or_no,
        )
    ),
    st.builds(MakeFolder, path=paths, parents=yes_or_no),
    st.builds(MoveFile, path=paths, to=paths, replace=yes_or_no),
    st.builds(RemoveFile, path=paths, expected_sha256=maybe_hash),
)
