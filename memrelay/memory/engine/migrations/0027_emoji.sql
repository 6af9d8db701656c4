-- Emoji are words of a text's parts (memory/text/emoji.py).
CREATE TABLE changing AS
  SELECT row, content, parts, parts_of(content) AS wanted FROM records
  WHERE octet_length(content) <> length(content) AND parts IS NOT parts_of(content);
INSERT INTO parts_fts(parts_fts, rowid, content, parts)
  SELECT 'delete', row, content, parts FROM changing WHERE parts IS NOT NULL ORDER BY row;
UPDATE records SET parts = wanted FROM changing WHERE records.row = changing.row;
INSERT INTO parts_fts(rowid, content, parts) SELECT row, content, wanted FROM changing WHERE wanted IS NOT NULL ORDER BY row;
DROP TABLE changing;
