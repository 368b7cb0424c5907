"""The whole schema as one metadata: what the migrations must arrive at."""

from sqlmodel import SQLModel

from farhand_control_plane.db.tables import (
    commands,
    deployment,
    intake,
    machines,
    people,
    sessions,
    watching,
    work,
)

PARTS = (commands, deployment, intake, machines, people, sessions, watching, work)
METADATA = SQLModel.metadata
