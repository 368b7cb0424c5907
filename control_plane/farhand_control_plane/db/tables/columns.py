"""How columns and keys of every table are written: one function per kind."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    LargeBinary,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field

_NOW = text("farhand_now()")


def id_column(*, key: bool = False, null: bool = False) -> Any:
    return Field(sa_column=Column(Uuid(as_uuid=False), primary_key=key, nullable=null))


def text_column(*, key: bool = False, null: bool = False, default: str | None = None) -> Any:
    server = None if default is None else text(f"'{default}'")
    return Field(sa_column=Column(Text, primary_key=key, nullable=null, server_default=server))


def bytes_column(*, null: bool = False) -> Any:
    return Field(sa_column=Column(LargeBinary, nullable=null))


def int_column(*, key: bool = False, null: bool = False, default: int | None = None) -> Any:
    server = None if default is None else text(str(default))
    return Field(
        sa_column=Column(
            BigInteger, primary_key=key, nullable=null, server_default=server, autoincrement=False
        )
    )


def bool_column(*, default: bool = False) -> Any:
    server = text("true" if default else "false")
    return Field(sa_column=Column(Boolean, nullable=False, server_default=server))


def json_column(*, null: bool = False, default: str = "{}") -> Any:
    server = None if null else text(f"'{default}'::jsonb")
    return Field(sa_column=Column(JSONB, nullable=null, server_default=server))


def time_column(*, null: bool = False, now: bool = False) -> Any:
    server = _NOW if now else None
    return Field(sa_column=Column(DateTime(timezone=True), nullable=null, server_default=server))


def texts_column() -> Any:
    return Field(sa_column=Column(ARRAY(Text), nullable=False, server_default=text("'{}'")))


def within_instance(
    table: str, *columns: str, key: tuple[str, ...] | None = None
) -> ForeignKeyConstraint:
    """A foreign key within the instance: (instance_id, columns…) → table's own key."""
    target = key or columns
    return ForeignKeyConstraint(
        ["instance_id", *columns],
        [f"{table}.instance_id", *(f"{table}.{c}" for c in target)],
        name=f"fk_{{own}}_{'_'.join(columns)}",
    )


def one_of(column: str, words: Any) -> CheckConstraint:
    listed = ", ".join(f"'{w.value}'" for w in words)
    return CheckConstraint(f"{column} in ({listed})", name=f"{column}_word")


def named(table: str, *constraints: Any) -> tuple[Any, ...]:
    for constraint in constraints:
        if isinstance(constraint, ForeignKeyConstraint):
            constraint.name = str(constraint.name).format(own=table)
        elif isinstance(constraint, CheckConstraint):
            constraint.name = f"ck_{table}_{constraint.name}"
    return constraints


def of_instance() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["instance_id"], ["instances.instance_id"], name="fk_{own}_instance"
    )
