-- Words of a conversation's title with its user, so that a search reads no other user's conversations.
-- src/agents/chat/threads.store.ts has the same expression.
create index concurrently if not exists thread_words on thread using gin ((
  to_tsvector('simple', translate(title, '-_/.:@+<>&', '          ')) || array_to_tsvector(array[user_id::text])
)) with (fastupdate = off);
