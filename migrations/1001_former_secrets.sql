-- A rotation of a secret leaves the former ones valid until their own time.

-- the valid secrets before former_secret, of which a second rotation would be the end: [{secret: sealed, as base64, until}]
alter table agent_trigger add column older_secrets jsonb not null default '[]';

-- the secrets that sign beside the present one: [{secret: sealed, as base64, until}]
alter table webhook_endpoint add column former_secrets jsonb not null default '[]';
