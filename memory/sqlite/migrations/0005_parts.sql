-- What is indexed of a content beside itself, so that its parts are found: memory/words.py's `parts_of`, which the program
-- gives to SQL; NULL for most.
ALTER TABLE records ADD COLUMN parts TEXT;
UPDATE records SET parts = parts_of(content) WHERE parts_of(content) IS NOT NULL;

DROP TABLE records_fts;
CREATE VIRTUAL TABLE records_fts USING fts5(
  content, parts, content = 'records', content_rowid = 'row', tokenize = "unicode61 remove_diacritics 2"
);
INSERT INTO records_fts(records_fts) VALUES ('rebuild');
