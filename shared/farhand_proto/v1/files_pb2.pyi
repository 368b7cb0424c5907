from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FileOperation(_message.Message):
    __slots__ = ("stat", "list", "glob", "search", "read", "write", "edit", "put", "make_folder", "move", "remove")
    class Stat(_message.Message):
        __slots__ = ("path", "nofollow", "put_sha256", "hash_bytes")
        PATH_FIELD_NUMBER: _ClassVar[int]
        NOFOLLOW_FIELD_NUMBER: _ClassVar[int]
        PUT_SHA256_FIELD_NUMBER: _ClassVar[int]
        HASH_BYTES_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        nofollow: bool
        put_sha256: bytes
        hash_bytes: int
        def __init__(self, path: _Optional[bytes] = ..., nofollow: _Optional[bool] = ..., put_sha256: _Optional[bytes] = ..., hash_bytes: _Optional[int] = ...) -> None: ...
    class List(_message.Message):
        __slots__ = ("path", "after", "limit")
        PATH_FIELD_NUMBER: _ClassVar[int]
        AFTER_FIELD_NUMBER: _ClassVar[int]
        LIMIT_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        after: bytes
        limit: int
        def __init__(self, path: _Optional[bytes] = ..., after: _Optional[bytes] = ..., limit: _Optional[int] = ...) -> None: ...
    class Glob(_message.Message):
        __slots__ = ("path", "pattern", "after", "limit", "all")
        PATH_FIELD_NUMBER: _ClassVar[int]
        PATTERN_FIELD_NUMBER: _ClassVar[int]
        AFTER_FIELD_NUMBER: _ClassVar[int]
        LIMIT_FIELD_NUMBER: _ClassVar[int]
        ALL_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        pattern: bytes
        after: bytes
        limit: int
        all: bool
        def __init__(self, path: _Optional[bytes] = ..., pattern: _Optional[bytes] = ..., after: _Optional[bytes] = ..., limit: _Optional[int] = ..., all: _Optional[bool] = ...) -> None: ...
    class Search(_message.Message):
        __slots__ = ("path", "pattern", "fixed", "ignore_case", "include", "limit", "all")
        PATH_FIELD_NUMBER: _ClassVar[int]
        PATTERN_FIELD_NUMBER: _ClassVar[int]
        FIXED_FIELD_NUMBER: _ClassVar[int]
        IGNORE_CASE_FIELD_NUMBER: _ClassVar[int]
        INCLUDE_FIELD_NUMBER: _ClassVar[int]
        LIMIT_FIELD_NUMBER: _ClassVar[int]
        ALL_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        pattern: bytes
        fixed: bool
        ignore_case: bool
        include: _containers.RepeatedScalarFieldContainer[bytes]
        limit: int
        all: bool
        def __init__(self, path: _Optional[bytes] = ..., pattern: _Optional[bytes] = ..., fixed: _Optional[bool] = ..., ignore_case: _Optional[bool] = ..., include: _Optional[_Iterable[bytes]] = ..., limit: _Optional[int] = ..., all: _Optional[bool] = ...) -> None: ...
    class Read(_message.Message):
        __slots__ = ("path", "offset", "length", "if_version")
        PATH_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        IF_VERSION_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        offset: int
        length: int
        if_version: str
        def __init__(self, path: _Optional[bytes] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., if_version: _Optional[str] = ...) -> None: ...
    class Write(_message.Message):
        __slots__ = ("path", "data", "expect", "mode", "has_mode", "make_parents")
        PATH_FIELD_NUMBER: _ClassVar[int]
        DATA_FIELD_NUMBER: _ClassVar[int]
        EXPECT_FIELD_NUMBER: _ClassVar[int]
        MODE_FIELD_NUMBER: _ClassVar[int]
        HAS_MODE_FIELD_NUMBER: _ClassVar[int]
        MAKE_PARENTS_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        data: bytes
        expect: FileOperation.Expect
        mode: int
        has_mode: bool
        make_parents: bool
        def __init__(self, path: _Optional[bytes] = ..., data: _Optional[bytes] = ..., expect: _Optional[_Union[FileOperation.Expect, _Mapping]] = ..., mode: _Optional[int] = ..., has_mode: _Optional[bool] = ..., make_parents: _Optional[bool] = ...) -> None: ...
    class Expect(_message.Message):
        __slots__ = ("absent", "sha256")
        ABSENT_FIELD_NUMBER: _ClassVar[int]
        SHA256_FIELD_NUMBER: _ClassVar[int]
        absent: bool
        sha256: bytes
        def __init__(self, absent: _Optional[bool] = ..., sha256: _Optional[bytes] = ...) -> None: ...
    class Edit(_message.Message):
        __slots__ = ("path", "edits", "expected_sha256")
        PATH_FIELD_NUMBER: _ClassVar[int]
        EDITS_FIELD_NUMBER: _ClassVar[int]
        EXPECTED_SHA256_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        edits: _containers.RepeatedCompositeFieldContainer[FileOperation.Replacement]
        expected_sha256: bytes
        def __init__(self, path: _Optional[bytes] = ..., edits: _Optional[_Iterable[_Union[FileOperation.Replacement, _Mapping]]] = ..., expected_sha256: _Optional[bytes] = ...) -> None: ...
    class Replacement(_message.Message):
        __slots__ = ("old", "new", "all")
        OLD_FIELD_NUMBER: _ClassVar[int]
        NEW_FIELD_NUMBER: _ClassVar[int]
        ALL_FIELD_NUMBER: _ClassVar[int]
        old: bytes
        new: bytes
        all: bool
        def __init__(self, old: _Optional[bytes] = ..., new: _Optional[bytes] = ..., all: _Optional[bool] = ...) -> None: ...
    class Put(_message.Message):
        __slots__ = ("path", "size", "sha256", "expect", "mode", "has_mode", "resume_offset", "make_parents")
        PATH_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        SHA256_FIELD_NUMBER: _ClassVar[int]
        EXPECT_FIELD_NUMBER: _ClassVar[int]
        MODE_FIELD_NUMBER: _ClassVar[int]
        HAS_MODE_FIELD_NUMBER: _ClassVar[int]
        RESUME_OFFSET_FIELD_NUMBER: _ClassVar[int]
        MAKE_PARENTS_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        size: int
        sha256: bytes
        expect: FileOperation.Expect
        mode: int
        has_mode: bool
        resume_offset: int
        make_parents: bool
        def __init__(self, path: _Optional[bytes] = ..., size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., expect: _Optional[_Union[FileOperation.Expect, _Mapping]] = ..., mode: _Optional[int] = ..., has_mode: _Optional[bool] = ..., resume_offset: _Optional[int] = ..., make_parents: _Optional[bool] = ...) -> None: ...
    class MakeFolder(_message.Message):
        __slots__ = ("path", "parents")
        PATH_FIELD_NUMBER: _ClassVar[int]
        PARENTS_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        parents: bool
        def __init__(self, path: _Optional[bytes] = ..., parents: _Optional[bool] = ...) -> None: ...
    class Move(_message.Message):
        __slots__ = ("path", "to", "replace")
        PATH_FIELD_NUMBER: _ClassVar[int]
        TO_FIELD_NUMBER: _ClassVar[int]
        REPLACE_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        to: bytes
        replace: bool
        def __init__(self, path: _Optional[bytes] = ..., to: _Optional[bytes] = ..., replace: _Optional[bool] = ...) -> None: ...
    class Remove(_message.Message):
        __slots__ = ("path", "expected_sha256")
        PATH_FIELD_NUMBER: _ClassVar[int]
        EXPECTED_SHA256_FIELD_NUMBER: _ClassVar[int]
        path: bytes
        expected_sha256: bytes
        def __init__(self, path: _Optional[bytes] = ..., expected_sha256: _Optional[bytes] = ...) -> None: ...
    STAT_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    GLOB_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    EDIT_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    MAKE_FOLDER_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    stat: FileOperation.Stat
    list: FileOperation.List
    glob: FileOperation.Glob
    search: FileOperation.Search
    read: FileOperation.Read
    write: FileOperation.Write
    edit: FileOperation.Edit
    put: FileOperation.Put
    make_folder: FileOperation.MakeFolder
    move: FileOperation.Move
    remove: FileOperation.Remove
    def __init__(self, stat: _Optional[_Union[FileOperation.Stat, _Mapping]] = ..., list: _Optional[_Union[FileOperation.List, _Mapping]] = ..., glob: _Optional[_Union[FileOperation.Glob, _Mapping]] = ..., search: _Optional[_Union[FileOperation.Search, _Mapping]] = ..., read: _Optional[_Union[FileOperation.Read, _Mapping]] = ..., write: _Optional[_Union[FileOperation.Write, _Mapping]] = ..., edit: _Optional[_Union[FileOperation.Edit, _Mapping]] = ..., put: _Optional[_Union[FileOperation.Put, _Mapping]] = ..., make_folder: _Optional[_Union[FileOperation.MakeFolder, _Mapping]] = ..., move: _Optional[_Union[FileOperation.Move, _Mapping]] = ..., remove: _Optional[_Union[FileOperation.Remove, _Mapping]] = ...) -> None: ...
