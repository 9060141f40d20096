import { extendZodWithOpenApi, type RouteConfig } from "@asteasolutions/zod-to-openapi";
import { z } from "zod";

extendZodWithOpenApi(z);

/** Zod, whose schemas also say how the reference shows them: `.openapi({ description, example })`. */
export { z };

/** The definition of a route: where it is, what it takes and answers, and who may call it. */
export interface RouteDefinition extends RouteConfig {
  /** The scope that an API key needs. */
  "x-required-scope"?: string;
  /** The reference leaves it out. */
  hide?: boolean;
  /** The user in the path is the caller: an operator's route with the handler of the user's own. */
  for_user_in_path?: "not_erased" | "also_erased";
}
