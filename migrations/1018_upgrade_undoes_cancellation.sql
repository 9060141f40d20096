-- An upgrade that was ordered after a cancellation undoes it once it is paid. A later cancellation sets this to false.
alter table payment add column undoes_cancellation boolean not null default false,
  add constraint payment_undoes_cancellation_check check (not undoes_cancellation or purpose = 'upgrade') not valid;
