import type { ComponentProps } from "react";
import { wrongObject } from "../json.ts";
import { AreaField } from "./fields.tsx";

/** A field for a JSON object, or nothing. */
export function JsonField(field: Omit<ComponentProps<typeof AreaField>, "mono" | "wrong">) {
  return <AreaField {...field} mono wrong={wrongObject(field.value)} />;
}
