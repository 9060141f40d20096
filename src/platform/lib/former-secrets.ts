import { errors } from "../../kernel/errors.ts";
import { addSeconds } from "./clock.ts";
import type { Instant } from "./instant.ts";

/** Secrets that were replaced, each of which is valid until its own time. Pure. */

export interface FormerSecret {
  /** Sealed, as base64, because rows keep former secrets as JSON. */
  secret: string;
  until: Instant;
}

/** The most former secrets that are valid at once. */
const MOST = 10;

/**
 * The former secrets after a rotation. The replaced one is valid for `overlap_hours`, the others until their own time; with 0
 * none is valid any more. Throws 409 for too many.
 */
export function addFormerSecret(
  former: readonly FormerSecret[],
  replaced: Uint8Array,
  { overlap_hours, now }: { overlap_hours: number; now: Instant },
): FormerSecret[] {
  if (overlap_hours === 0) return [];
  const valid = selectValid(former, now);
  const ends = valid.map(({ until }) => until).sort();
  if (ends.length >= MOST) throw errors.formerSecretsFull(MOST, ends[0] ?? now);
  const secret = Buffer.from(replaced).toString("base64");
  return [{ secret, until: addSeconds(now, overlap_hours * 3_600) }, ...valid];
}

function selectValid(former: readonly FormerSecret[], now: Instant): FormerSecret[] {
  return former.filter(({ until }) => until > now);
}

/** The end of the former secret that is valid longest; null: none is valid. */
export function findLastEnd(former: readonly FormerSecret[], now: Instant): Instant | null {
  const ends = selectValid(former, now).map(({ until }) => until);
  return ends.sort().at(-1) ?? null;
}

/** The secrets that are valid now, the present one first, as `open` reads them; without those that it cannot read. */
export function openSecrets(
  { secret, former_secrets }: { secret: Uint8Array; former_secrets: readonly FormerSecret[] },
  now: Instant,
  open: (sealed: Uint8Array) => Buffer | null,
): string[] {
  const sealed = [secret, ...selectValid(former_secrets, now).map((each) => Buffer.from(each.secret, "base64"))];
  return sealed.flatMap((each) => open(each)?.toString() ?? []);
}
