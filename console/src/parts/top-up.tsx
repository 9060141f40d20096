import { useMutation, useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { PURCHASE_CENTS } from "../../../src/kernel/constants.ts";
import { previewQuery } from "../api/billing.ts";
import { type Answer, call } from "../api/client.ts";
import { stale } from "../api/queries.ts";
import { centsOf, money, number } from "../format.ts";
import { Button, Callout } from "../ui/basics.tsx";
import { Dialog, DialogForm } from "../ui/dialog.tsx";
import { DollarField, wrongDollars } from "../ui/fields.tsx";

type Purchase = Answer<"GET /api/v1/billing/purchases/{id}">;

const AMOUNTS = [5, 10, 25, 50];

/** An idempotency key: a repeated request does not buy twice. */
const newKey = () => [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("-");

/** Buys tokens for an amount of dollars. */
export function TopUp({ onClose }: { onClose: () => void }) {
  const [amount, setAmount] = useState("10");
  const [bought, setBought] = useState<Purchase | null>(null);
  const attempt = useRef({ amount, key: newKey() });
  const cents = centsOf(amount);
  const wrong = wrongDollars(amount === "" ? "0" : amount, PURCHASE_CENTS.min);
  const valid = wrong === null && cents <= PURCHASE_CENTS.max;
  const change = { of: "purchase", body: { amount_cents: cents } } as const;
  const { data: preview } = useQuery({ ...previewQuery(change), enabled: valid });
  const buy = useMutation({
    mutationFn: () => {
      if (attempt.current.amount !== amount) attempt.current = { amount, key: newKey() };
      const back = `${location.origin}/billing?tab=purchases`;
      return call("POST /api/v1/billing/purchase", {
        body: { amount_cents: cents, success_url: back, cancel_url: back },
        headers: { "Idempotency-Key": attempt.current.key },
      });
    },
    onSuccess: async (purchase) => {
      if (purchase.checkout_url !== null) return location.assign(purchase.checkout_url);
      setBought(purchase);
      await stale("profile", "buckets", "transactions", "payments", "agents");
    },
  });
  if (bought !== null) {
    return (
      <Dialog title="Tokens bought" onClose={onClose}>
        <div className="space-y-4">
          <Callout tone="good" icon="check">
            Your account has {number(bought.tokens)} more tokens.
          </Callout>
          {bought.sandbox === true && <p className="text-muted">Payments are simulated: no money was moved.</p>}
          <div className="flex justify-end">
            <Button kind="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Buy tokens" onClose={onClose}>
      <DialogForm save={buy} action="Buy tokens" onCancel={onClose} disabled={!valid || preview === undefined}>
        <div className="flex gap-2">
          {AMOUNTS.map((dollars) => (
            <Button
              key={dollars}
              className="flex-1"
              aria-pressed={amount === String(dollars)}
              kind={amount === String(dollars) ? "primary" : "plain"}
              onClick={() => setAmount(String(dollars))}
            >
              ${dollars}
            </Button>
          ))}
        </div>
        <DollarField
          label="Amount in US dollars"
          param="amount_cents"
          least_cents={PURCHASE_CENTS.min}
          value={amount}
          onValue={setAmount}
        />
        <p aria-live="polite">
          {valid ? (
            preview !== undefined && (
              <>
                <strong>{number(preview.tokens)} tokens</strong> for {money(preview.due_now_cents, preview.currency)},
                valid for 12 months.
              </>
            )
          ) : (
            <span className="text-muted">{wrong ?? `The maximum is ${money(PURCHASE_CENTS.max, "usd")}.`}</span>
          )}
        </p>
      </DialogForm>
    </Dialog>
  );
}
