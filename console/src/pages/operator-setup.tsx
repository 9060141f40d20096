import { PageHeader } from "../ui/basics.tsx";

/** The first set-up of a service. */
export function OperatorSetupPage() {
  return (
    <PageHeader
      title="Set-up"
      note={
        <>
          The guide says how to set up a service:{" "}
          <a href="/docs/guides" className="link">
            operating Purser
          </a>
          .
        </>
      }
    />
  );
}
