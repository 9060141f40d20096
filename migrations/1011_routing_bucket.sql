-- The first two characters of the user's API keys and sessions. Null until the first new key or session after this migration.
alter table users add column routing_bucket text;
