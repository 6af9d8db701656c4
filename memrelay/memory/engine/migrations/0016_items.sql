-- Items in shared stores: their key is unique for a store, a namespace and an owner. The order serves
-- pages by (key, owner). SQLite uses the index only if a query names the kind literally. Records of
-- users that already have this kind get another one; their checksum covered the kind.
UPDATE records SET kind = 'user.store.item', crc = NULL WHERE kind = 'store.item';
CREATE UNIQUE INDEX store_items ON records(scope, ifnull(json_extract(data,'$.namespace'),''), key, owner)
WHERE kind = 'store.item';
