-- A page of a conversation costs the page, however long the conversation is.
create index ix_triggers_thread_received
  on triggers (instance_id, thread_id, received_at, trigger_id);
create index ix_outbox_thread_sent
  on outbox (instance_id, thread_id, sent_at, outbox_id) where state = 'sent';

update schema_record set schema_version = 3, migrated_at = statement_timestamp();
