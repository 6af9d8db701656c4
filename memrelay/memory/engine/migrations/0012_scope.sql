-- The records of a scope in order of arrival. With only (scope, kind), a page would require sorting
-- the whole scope.
CREATE INDEX records_scope ON records(scope);
