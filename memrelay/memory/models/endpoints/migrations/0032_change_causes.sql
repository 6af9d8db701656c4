-- What led to the changes from number `first` to `last` of the feed: `hop` messages, and the trace
-- context of the input ('' for none). Deliveries read it. Other changes have no row.
CREATE TABLE change_causes(
  first INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  hop INTEGER NOT NULL,
  traceparent TEXT NOT NULL
) STRICT;
