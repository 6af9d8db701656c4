-- Items with a namespace in the order of their keys, for pages over all namespaces of a store. Items
-- without one are in that order in `store_items`.
CREATE INDEX store_items_by_key ON records(scope, key, owner, json_extract(data,'$.namespace'))
WHERE kind = 'store.item' AND json_extract(data,'$.namespace') <> '';
-- The grants that an agent gave, and the stores that an agent can use in the order of their ids.
CREATE INDEX grants_granter ON grants(store, granted_by);
CREATE INDEX grants_grantee_store ON grants(grantee, store);
CREATE INDEX contexts_agent_id ON contexts(agent, id);
