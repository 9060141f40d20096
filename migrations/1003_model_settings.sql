-- How an agent's model is called: temperature, top_p, reasoning_effort and max_output_tokens. Null: the model's default.
-- Versions of agents keep their configuration as it is: settings that it lacks have their defaults on reading.

alter table agent add column model_settings jsonb not null
  default '{"temperature": null, "top_p": null, "reasoning_effort": null, "max_output_tokens": null}';
