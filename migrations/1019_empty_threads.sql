-- Empty threads of a user are counted when one is created. Threads with turns are many, and are not read for that.
create index thread_empty on thread (user_id) where last_turn = 0;
