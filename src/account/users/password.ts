import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { errors } from "../../kernel/errors.ts";

/** OWASP's password storage cheat sheet: N = 2^15, r = 8, p = 3 is as strong as its first choice and takes a quarter of the memory. */
const COST = { N: 2 ** 15, r: 8, p: 3 };
const MEMORY_BYTES = 128 * COST.N * COST.r + 2 ** 20;
const SALT_BYTES = 16;
const HASH_BYTES = 32;
/** Each hash takes 32 MiB and a core for a tenth of a second. More at once would slow all of them. */
const AT_ONCE = 2;
const MAX_WAITING = 50;

export type Passwords = ReturnType<typeof createPasswords>;

/** Hashes and compares passwords, a few at a time. Throws 503 when too many wait. `cost` is scrypt's. */
export function createPasswords(cost: typeof COST = COST) {
  const encode = (salt: Buffer, hash: Buffer) =>
    ["scrypt", cost.N, cost.r, cost.p, salt.toString("base64url"), hash.toString("base64url")].join("$");
  /** Unknown users are compared with this hash, so that they take as long as known ones. */
  const nobodys = encode(Buffer.alloc(SALT_BYTES), Buffer.alloc(HASH_BYTES));
  const waiting: (() => void)[] = [];
  let running = 0;

  const derive = async (password: string, salt: Buffer, given: typeof COST): Promise<Buffer> => {
    if (waiting.length >= MAX_WAITING) throw errors.overloaded();
    if (running < AT_ONCE) running += 1;
    else await new Promise<void>((resolve) => waiting.push(resolve)); // the finished call passes its slot to the next
    try {
      return await hashByScrypt(password, salt, given);
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };

  return {
    async hash(password: string): Promise<string> {
      const salt = randomBytes(SALT_BYTES);
      return encode(salt, await derive(password, salt, cost));
    },
    /** True if `password` matches `stored`. Always false when `stored` is null, after the same time. */
    async matches(password: string, stored: string | null): Promise<boolean> {
      const [, N, r, p, salt = "", hash = ""] = (stored ?? nobodys).split("$");
      const its_cost = { N: Number(N), r: Number(r), p: Number(p) };
      const derived = await derive(password, Buffer.from(salt, "base64url"), its_cost);
      return timingSafeEqual(derived, Buffer.from(hash, "base64url")) && stored !== null;
    },
  };
}

/** NIST SP 800-63B: another keyboard may send the same password in another Unicode form. */
function hashByScrypt(password: string, salt: Buffer, cost: typeof COST): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password.normalize("NFKC"), salt, HASH_BYTES, { ...cost, maxmem: MEMORY_BYTES }, (error, hash) =>
      error === null ? resolve(hash) : reject(error),
    );
  });
}
