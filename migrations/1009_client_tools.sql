-- Whether an agent that is called as a model offers the caller's tools to its model, beside its own.
-- Versions of agents keep their configuration as it is: a version without this setting ignores them.

alter table agent add column client_tools text not null default 'ignore' check (client_tools in ('ignore', 'pass'));
