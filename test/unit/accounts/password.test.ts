import { describe, expect, it } from "vitest";
import { createPasswords } from "../../../src/account/users/password.ts";
import { cheapPasswords } from "../../support/passwords.ts";

describe("passwords", () => {
  const passwords = createPasswords();

  it("are stored as scrypt hashes with a salt each, and match only themselves", async () => {
    const [first, second] = await Promise.all([passwords.hash("correct horse"), passwords.hash("correct horse")]);
    expect(first).toMatch(/^scrypt\$32768\$8\$3\$[\w-]{22}\$[\w-]{43}$/);
    expect(first).not.toBe(second);
    expect(await passwords.matches("correct horse", first)).toBe(true);
    expect(await passwords.matches("correct horsf", first)).toBe(false);
  });

  it("of unknown users match nothing, and take equally long", async () => {
    const stored = await passwords.hash("correct horse");
    const timed = async (hash: string | null) => {
      const started = performance.now();
      expect(await passwords.matches("wrong", hash)).toBe(false);
      return performance.now() - started;
    };
    // The quicker of two attempts, because other processes slow the machine.
    const known = Math.min(await timed(stored), await timed(stored));
    const nobody = Math.min(await timed(null), await timed(null));
    expect(nobody).toBeGreaterThan(known / 4);
  });

  it("hashed with other costs still match, so that costs can be raised", async () => {
    const cheap = "scrypt$16384$8$1$AAAAAAAAAAAAAAAAAAAAAA$";
    expect(await passwords.matches("x", `${cheap}${"A".repeat(43)}`)).toBe(false);
  });

  it("are refused with 503 if too many wait", async () => {
    const cheap = cheapPasswords();
    const outcomes = await Promise.allSettled(Array.from({ length: 60 }, () => cheap.matches("x", null)));
    const refused = outcomes.filter((each) => each.status === "rejected");
    expect(refused).toHaveLength(8);
    expect(refused[0]).toMatchObject({ reason: { code: "overloaded" } });
  });
});
