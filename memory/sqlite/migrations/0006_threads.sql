-- Turns of a conversation, by thread and place; with who said them, so that a search reads the index alone.
CREATE INDEX records_thread ON records(thread, seq, source) WHERE thread IS NOT NULL;
