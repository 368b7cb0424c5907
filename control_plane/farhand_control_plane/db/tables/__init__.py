"""The tables, as SQLModel classes: the only source of the schema. Imported inside ``db/`` alone.

Rules: ``instance_id`` leads every primary, unique and foreign key, so a row of one instance cannot
point at another's. Ids are UUIDs (version 7, made by us). Bytes are ``bytea``; JSON is ``jsonb``
(the item codec escapes U+0000, which jsonb refuses). Times are ``timestamptz``. A state is text
with a check constraint. Nothing stores what can be computed: a ticket has no stage column.
Replicas, the schema's record and the root of the private PKI belong to the deployment, not to an
instance, and are the only tables without the leading ``instance_id``.
"""
