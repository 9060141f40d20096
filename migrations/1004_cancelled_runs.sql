-- A cancelled run may have an error that says why the service cancelled it: its API key was revoked.
alter table run
  drop constraint run_check2,
  add constraint run_error_check check (
    case when error is null then status <> 'failed' else status in ('failed', 'cancelling', 'cancelled') end
  ) not valid;
