-- Turns of a conversation by thread and position. It includes the speaker, so that a search reads
-- only the index.
CREATE INDEX records_thread ON records(thread, seq, source) WHERE thread IS NOT NULL;
