-- The fencing epoch of the store's owner. A new owner raises it, and an owner that was presumed
-- dead finds a higher one here.
CREATE TABLE fence(epoch INTEGER NOT NULL) STRICT;
INSERT INTO fence VALUES (0);
