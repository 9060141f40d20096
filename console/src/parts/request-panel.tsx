import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { instant, number, words } from "../format.ts";
import {
  apiName,
  callerName,
  failureLink,
  failureWords,
  type LoggedRequest,
  statusFilterName,
} from "../request-words.ts";
import { Facts, Skeleton } from "../ui/basics.tsx";
import { Copyable } from "../ui/copy.tsx";
import { RequestCost } from "./explain.tsx";

/** Everything about one request, beside the list of requests. */
export function RequestPanel({ request, is_loading }: { request: LoggedRequest | undefined; is_loading: boolean }) {
  if (request === undefined) {
    return is_loading ? <Skeleton lines={6} /> : <p className="text-muted">This request is not in the list.</p>;
  }
  const { error, run_id, agent_id, agent_name, agent_deleted } = request;
  const link = error === null ? null : failureLink(request);
  return (
    <div className="space-y-4">
      {error !== null && (
        <div className="rounded-lg bg-bad-soft px-3 py-2.5">
          <h3 className="font-medium text-bad">
            {statusFilterName(request.status)}: {words(error.code)}
          </h3>
          <p className="mt-1 wrap-anywhere">{failureWords(error)}</p>
          {link !== null && (
            <Link to={link.to} className="link">
              {link.text}
            </Link>
          )}
        </div>
      )}
      <Facts facts={factsOf(request)} />
      {run_id !== null && agent_id !== null && !agent_deleted && (
        <p>
          Made by a{" "}
          <Link to="/agents/$id/runs/$run_id" params={{ id: agent_id, run_id }} className="link">
            run of {agent_name ?? "an agent"}
          </Link>
        </p>
      )}
      <Copyable label="Request id" text={request.request_id} />
      {request.total_tokens > 0 && (
        <section>
          <h3 className="mb-1 font-semibold">Cost</h3>
          <RequestCost request_id={request.request_id} hold_id={request.id} />
        </section>
      )}
    </div>
  );
}

function factsOf(request: LoggedRequest): [string, ReactNode][] {
  const { error, duration_ms, first_token_ms } = request;
  const facts: [string, ReactNode][] = [
    ["Ended", instant(request.created_at)],
    ["API", apiName(request)],
    ["HTTP status", String(request.http_status)],
    ["Model", request.model ?? "—"],
    ["Caller", callerName(request)],
    ["End user", request.user ?? "—"],
    ["Duration", duration_ms === null ? "Not known" : `${number(duration_ms)} ms`],
    ["Tokens", `${number(request.input_tokens)} in, ${number(request.output_tokens)} out`],
  ];
  if (first_token_ms !== null) facts.push(["First token", `After ${number(first_token_ms)} ms`]);
  if (error !== null) facts.push(["Error code", <code key="code">{error.code}</code>]);
  if (error?.param != null) facts.push(["Field", <code key="field">{error.param}</code>]);
  return facts;
}
