-- The text that is indexed in addition to a content, so that its parts are found: `parts_of` of
-- memory/text/words.py, which the program registers in SQL. NULL for most.
ALTER TABLE records ADD COLUMN parts TEXT;
UPDATE records SET parts = parts_of(content) WHERE parts_of(content) IS NOT NULL;

-- Records with parts are indexed twice. The first index has only their content, so that parts do
-- not change relevance. This one has content and parts, so that a query can mix words and parts.
CREATE VIEW records_in_parts AS SELECT row, content, parts FROM records WHERE parts IS NOT NULL;
CREATE VIRTUAL TABLE parts_fts USING fts5(
  content, parts, content = 'records_in_parts', content_rowid = 'row', tokenize = "unicode61 remove_diacritics 2"
);
INSERT INTO parts_fts(parts_fts) VALUES ('rebuild');
