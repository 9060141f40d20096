import type { Client, Service } from "./service.ts";

/** The same user with a key that may read agents and decide what their runs wait for. */
export async function approverOf(service: Service, { user_id }: Client): Promise<Omit<Client, "user_id">> {
  const wanted = { name: "Approver", scopes: ["agents:read", "agents:approve"], reason: "a test" };
  const { body } = await service.admin.post(`/api/v1/admin/users/${user_id}/api-keys`, wanted);
  return service.as(body.key);
}
