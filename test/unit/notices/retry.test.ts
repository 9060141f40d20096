import { describe, expect, it } from "vitest";
import { verdictOf } from "../../../src/notices/deliveries.service.ts";

const answered = (status: number) => ({ status, error: null });

/** Every try of a delivery that never succeeds and is tried the moment it is due: its age in seconds. */
function agesOfTries(): number[] {
  const ages = [0];
  for (let age_s = 0; ; ) {
    const verdict = verdictOf(answered(500), { attempt: ages.length, age_s });
    if (verdict.outcome !== "retry") return ages;
    age_s += verdict.delay_s;
    ages.push(age_s);
  }
}

describe("what becomes of a delivery after a try", () => {
  it.each([
    [200, "delivered"],
    [204, "delivered"],
    [299, "delivered"],
    [100, "retry"],
    [301, "retry"],
    [304, "retry"],
    [400, "retry"],
    [404, "retry"],
    [410, "gone"],
    [429, "retry"],
    [500, "retry"],
    [503, "retry"],
  ])("%i: %s", (status, outcome) => {
    expect(verdictOf(answered(status), { attempt: 1, age_s: 0 }).outcome).toBe(outcome);
  });

  it("no answer at all is tried again", () => {
    for (const error of ["connect_failed", "timeout", "egress_refused", "dns_failed"]) {
      expect(verdictOf({ status: null, error }, { attempt: 1, age_s: 0 })).toEqual({ outcome: "retry", delay_s: 5 });
    }
  });

  it("2xx before the answer broke off counts: the receiver has it", () => {
    expect(verdictOf({ status: 200, error: "too_large" }, { attempt: 1, age_s: 0 }).outcome).toBe("delivered");
  });

  it("tries come after seconds at first and hours at last, for a day and no longer", () => {
    expect(agesOfTries()).toEqual([0, 5, 25, 105, 425, 1705, 6825, 27_305, 56_105, 84_905]);
  });

  it("a delivery that waited its day out behind others is tried once and not again", () => {
    expect(verdictOf(answered(500), { attempt: 1, age_s: 90_000 }).outcome).toBe("failed");
  });
});
