import { useLocation } from "@tanstack/react-router";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type Agent, type AgentVersion, stale, versionsQuery } from "../api/queries.ts";
import { instant } from "../format.ts";
import { settingName } from "../service-words.ts";
import { Button } from "../ui/basics.tsx";
import { Confirm } from "../ui/dialog.tsx";
import { type Column, ListCard } from "../ui/list.tsx";

/** The address of what a version changed. */
export const versionLink = (id: string, version: number) =>
  ({ to: "/agents/$id", params: { id }, search: { tab: "versions" }, hash: `version-${version}` }) as const;

function valueText(value: unknown): string {
  if (value === null || value === undefined || value === "") return "Nothing";
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

/** An agent's versions with what each changed. */
export function Versions({ agent }: { agent: Agent }) {
  const [restoring, setRestoring] = useState<number | null>(null);
  const named = useLocation({ select: ({ hash }) => hash });
  const columns: Column<AgentVersion>[] = [
    {
      title: "Version",
      cell: ({ version, created_at }) => (
        <>
          <span id={`version-${version}`} className="scroll-mt-16 rounded target:bg-accent-soft target:font-semibold">
            {version}
          </span>
          {version === agent.version && " (present)"}
          <span className="block text-sm text-muted">{instant(created_at)}</span>
        </>
      ),
    },
    {
      title: "Changed",
      cell: ({ changes, previous_version, version }) =>
        changes.length === 0 ? (
          <span className="text-muted">
            {previous_version === null ? "The first version that is kept" : "Nothing that is shown here"}
          </span>
        ) : (
          <ul className="space-y-1">
            {changes.map(({ field, before, after }) => (
              <li key={field}>
                <details open={named === `version-${version}` || undefined}>
                  <summary className="w-fit hover:text-ink">{settingName(field)}</summary>
                  <div className="mt-1 space-y-1 text-sm wrap-anywhere whitespace-pre-wrap">
                    <p>
                      <span className="text-muted">Before: </span>
                      {valueText(before)}
                    </p>
                    <p>
                      <span className="text-muted">After: </span>
                      {valueText(after)}
                    </p>
                  </div>
                </details>
              </li>
            ))}
          </ul>
        ),
    },
    {
      title: "",
      numeric: true,
      cell: ({ version }) =>
        version === agent.version ? null : (
          <Button aria-label={`Restore version ${version}`} onClick={() => setRestoring(version)}>
            Restore
          </Button>
        ),
    },
  ];
  const restore = async (version: number) => {
    const params = { id: agent.id, version: String(version) };
    await call("POST /api/v1/agents/{id}/versions/{version}/restore", { params });
    await stale("agents", "versions");
  };
  return (
    <>
      <ListCard
        title="Versions"
        note="Each change of the agent makes a version"
        query={versionsQuery(agent.id)}
        columns={columns}
        keyOf={({ version }) => String(version)}
        empty="No versions are kept."
      />
      {restoring !== null && (
        <Confirm
          title={`Restore version ${restoring}?`}
          kind="primary"
          action="Restore version"
          saved="Version restored"
          onConfirm={() => restore(restoring)}
          onClose={() => setRestoring(null)}
        >
          Its settings become the agent's, as a new version. Schedules stay as they are, and so does whether the agent
          is enabled.
        </Confirm>
      )}
    </>
  );
}
