from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RedeemRequest(_message.Message):
    __slots__ = ("code_secret", "csr", "name_hint", "capability", "daemon_version", "trust_level", "chosen_by", "rejoin")
    CODE_SECRET_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    NAME_HINT_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    DAEMON_VERSION_FIELD_NUMBER: _ClassVar[int]
    TRUST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_BY_FIELD_NUMBER: _ClassVar[int]
    REJOIN_FIELD_NUMBER: _ClassVar[int]
    code_secret: bytes
    csr: bytes
    name_hint: str
    capability: int
    daemon_version: str
    trust_level: str
    chosen_by: str
    rejoin: Rejoin
    def __init__(self, code_secret: _Optional[bytes] = ..., csr: _Optional[bytes] = ..., name_hint: _Optional[str] = ..., capability: _Optional[int] = ..., daemon_version: _Optional[str] = ..., trust_level: _Optional[str] = ..., chosen_by: _Optional[str] = ..., rejoin: _Optional[_Union[Rejoin, _Mapping]] = ...) -> None: ...

class Rejoin(_message.Message):
    __slots__ = ("certificate", "signed_at_ms", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    signed_at_ms: int
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., signed_at_ms: _Optional[int] = ..., signature: _Optional[bytes] = ...) -> None: ...

class RedeemResponse(_message.Message):
    __slots__ = ("machine_id", "machine_name", "certificate", "link_address", "words", "active")
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    MACHINE_NAME_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    LINK_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    machine_name: str
    certificate: bytes
    link_address: str
    words: _containers.RepeatedScalarFieldContainer[str]
    active: bool
    def __init__(self, machine_id: _Optional[str] = ..., machine_name: _Optional[str] = ..., certificate: _Optional[bytes] = ..., link_address: _Optional[str] = ..., words: _Optional[_Iterable[str]] = ..., active: _Optional[bool] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("certificate", "signed_at_ms", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    signed_at_ms: int
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., signed_at_ms: _Optional[int] = ..., signature: _Optional[bytes] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("status", "machine_name")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_NAME_FIELD_NUMBER: _ClassVar[int]
    status: str
    machine_name: str
    def __init__(self, status: _Optional[str] = ..., machine_name: _Optional[str] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("certificate", "csr", "signed_at_ms", "signature")
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    SIGNED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    csr: bytes
    signed_at_ms: int
    signature: bytes
    def __init__(self, certificate: _Optional[bytes] = ..., csr: _Optional[bytes] = ..., signed_at_ms: _Optional[int] = ..., signature: _Optional[bytes] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("certificate",)
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    certificate: bytes
    def __init__(self, certificate: _Optional[bytes] = ...) -> None: ...
