import { useQuery } from "@tanstack/react-query";
import { plansQuery } from "../api/queries.ts";

/** The name of a plan as the operator's configuration has it; a plan that is no longer on offer has only its id. */
export function usePlanName(): (id: string) => string {
  const { data, isPending } = useQuery(plansQuery);
  return (id) => (isPending ? "…" : (data?.plans.find((plan) => plan.id === id)?.name ?? id));
}
