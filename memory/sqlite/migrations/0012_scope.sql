-- A scope's records in order of arrival: by (scope, kind) alone, the few that are asked for are sorted out of all that it has.
CREATE INDEX records_scope ON records(scope);
