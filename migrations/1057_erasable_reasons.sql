-- What operators write about a user can be erased with the user: hashes cover it only by a salted hash, or not at all.

-- The operator's reason of an adjustment, or note of a grant. The entry has a fixed description, which its hash covers.
create table entry_reason (
  user_id uuid not null,
  seq bigint not null,
  reason text not null,
  primary key (user_id, seq)
);

-- The reason of an act about a user; operator_act.reason has its salted hash.
alter table operator_act_email add column reason text;
