-- What a machine's Hello looks for among its attempts that are over provisionally: few of many.
create index ix_attempts_provisional
  on attempts (instance_id, machine_id, ended_at) where state in ('lost', 'indeterminate');

update schema_record set schema_version = 5, migrated_at = statement_timestamp();
