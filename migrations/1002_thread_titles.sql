-- Conversations have titles. Those from before get theirs from a sweep (src/agents/chat/threads.service.ts), because it has to
-- read the first message of each.

-- by default the first line of the user's first message
alter table thread add column title text;
-- the run whose message the title comes from, so that the title is deleted with it; null: a person chose the title, or there is none yet
alter table thread add column title_run_id uuid;
