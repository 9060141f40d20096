import type { Answer } from "../api/client.ts";
import { capital } from "../format.ts";
import { Badge } from "../ui/basics.tsx";

type Delivery = Answer<"GET /api/v1/notices">["notices"][number]["deliveries"][number];

const TONES = { delivered: "good", pending: "accent", failed: "bad" } as const;

/** Whether a notice reached an endpoint, and the status that the endpoint answered. */
export function DeliveryStatus({
  delivery: { status, last_status },
}: {
  delivery: Pick<Delivery, "status" | "last_status">;
}) {
  const is_waiting = status === "pending" && last_status !== null && last_status < 300;
  return (
    <Badge
      tone={TONES[status]}
    >{`${capital(status)}${last_status === null || is_waiting ? "" : ` (${last_status})`}`}</Badge>
  );
}
