-- The epoch of the store's owner. Whoever takes a store over raises it, and an owner that was taken for dead finds that out here.
CREATE TABLE fence(epoch INTEGER NOT NULL) STRICT;
INSERT INTO fence VALUES (0);
