import { describe, expect, it } from "vitest";
import { judgeTry } from "../../../src/account/notices/deliveries.service.ts";

const answered = (status: number) => ({ status, error: null });

/** The age in seconds of every attempt of a delivery that always fails and is retried when it is due. */
function agesOfTries(): number[] {
  const ages = [0];
  for (let age_s = 0; ; ) {
    const verdict = judgeTry(answered(500), { attempt: ages.length, age_s });
    if (verdict.outcome !== "retry") return ages;
    age_s += verdict.delay_s;
    ages.push(age_s);
  }
}

describe("a delivery after an attempt", () => {
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
    expect(judgeTry(answered(status), { attempt: 1, age_s: 0 }).outcome).toBe(outcome);
  });

  it("is retried if there was no answer", () => {
    for (const error of ["connect_failed", "timeout", "egress_refused", "dns_failed"]) {
      expect(judgeTry({ status: null, error }, { attempt: 1, age_s: 0 })).toEqual({ outcome: "retry", delay_s: 5 });
    }
  });

  it("counts as delivered after 2xx, also if the rest of the answer is missing", () => {
    expect(judgeTry({ status: 200, error: "too_large" }, { attempt: 1, age_s: 0 }).outcome).toBe("delivered");
  });

  it("is retried after seconds at first and after hours at last, for at most a day", () => {
    expect(agesOfTries()).toEqual([0, 5, 25, 105, 425, 1705, 6825, 27_305, 56_105, 84_905]);
  });

  it("is attempted once if it waited behind others for more than a day", () => {
    expect(judgeTry(answered(500), { attempt: 1, age_s: 90_000 }).outcome).toBe("failed");
  });
});
