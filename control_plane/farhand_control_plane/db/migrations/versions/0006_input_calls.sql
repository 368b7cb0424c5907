-- Input on its way from the replica that a client reached to the one that holds the machine's link.
-- Unlogged: a call is answered within seconds or made again; after a crash nobody waits for it.
create unlogged table input_calls (
  instance_id uuid not null,
  call_id uuid not null,
  attempt_id uuid not null,
  request jsonb default '{}'::jsonb not null,
  data bytea not null,
  answer jsonb,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id, call_id)
);
alter table input_calls alter column data set storage external;

update schema_record set schema_version = 6, migrated_at = statement_timestamp();
