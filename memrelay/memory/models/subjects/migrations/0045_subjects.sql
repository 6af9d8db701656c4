-- The records of an owner by kind, in order of arrival. Records without an owner are not in it.
CREATE INDEX records_owner ON records(owner, kind) WHERE owner IS NOT NULL;
