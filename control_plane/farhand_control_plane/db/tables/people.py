"""Members, who they are elsewhere, their API tokens and browser sessions."""

from datetime import datetime

from sqlalchemy import (
    CheckConstraint,
    Column,
    LargeBinary,
)
from sqlmodel import Field, SQLModel

from farhand_control_plane.db.tables.columns import (
    bytes_column,
    id_column,
    named,
    of_instance,
    one_of,
    text_column,
    texts_column,
    time_column,
    within_instance,
)
from farhand_control_plane.domain.words import (
    MemberRole,
)


class Member(SQLModel, table=True):
    __tablename__ = "members"
    instance_id: str = id_column(key=True)
    member_id: str = id_column(key=True)
    name: str = text_column()
    role: str = text_column()
    created_at: datetime = time_column(now=True)
    removed_at: datetime | None = time_column(null=True)
    __table_args__ = named(__tablename__, of_instance(), one_of("role", MemberRole))


class Identity_(SQLModel, table=True):
    """Who a provider's stable id is here: (slack, U123) → member."""

    __tablename__ = "identities"
    instance_id: str = id_column(key=True)
    provider: str = text_column(key=True)
    external_id: str = text_column(key=True)
    member_id: str = id_column()
    proved_at: datetime = time_column(now=True)
    __table_args__ = named(__tablename__, within_instance("members", "member_id"))


class ApiToken(SQLModel, table=True):
    """A token, or a browser's session: that one has a page key beside it, and always an end."""

    __tablename__ = "api_tokens"
    instance_id: str = id_column(key=True)
    token_id: str = id_column(key=True)
    member_id: str = id_column()
    name: str = text_column()
    token_sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    scopes: list[str] = texts_column()
    machine_id: str | None = id_column(null=True)  # "this machine" of a CLI that uses this token
    created_at: datetime = time_column(now=True)
    expires_at: datetime | None = time_column(null=True)
    revoked_at: datetime | None = time_column(null=True)
    used_at: datetime | None = time_column(null=True)
    page_key_sha256: bytes | None = bytes_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("members", "member_id"),
        CheckConstraint("page_key_sha256 is null or expires_at is not null", name="session_ends"),
    )


class SignInLink(SQLModel, table=True):
    """What signs a member in once; it opens a session with these scopes."""

    __tablename__ = "sign_in_links"
    instance_id: str = id_column(key=True)
    link_id: str = id_column(key=True)
    link_sha256: bytes = Field(sa_column=Column(LargeBinary, nullable=False, unique=True))
    member_id: str = id_column()
    scopes: list[str] = texts_column()
    made_with_token_id: str = id_column()
    created_at: datetime = time_column(now=True)
    expires_at: datetime = time_column()
    used_at: datetime | None = time_column(null=True)
    __table_args__ = named(
        __tablename__,
        within_instance("members", "member_id"),
        within_instance("api_tokens", "made_with_token_id", key=("token_id",)),
    )
