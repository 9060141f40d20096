import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../api/client.ts";
import { type EndUserBudget, endUserBudgetsQuery, stale } from "../api/queries.ts";
import { number } from "../format.ts";
import { Button, Card, Empty } from "../ui/basics.tsx";
import { Confirm, Dialog, DialogForm } from "../ui/dialog.tsx";
import { TextField } from "../ui/fields.tsx";
import { type Column, PagedTable } from "../ui/list.tsx";
import { confirmSaved } from "../ui/saved.tsx";
import { WithTooltip } from "../ui/tooltip.tsx";
import { type BudgetDraft, BudgetFields, BudgetUse, budgetDraftOf, budgetOf } from "./budget.tsx";

type Open = { what: "set"; budget: EndUserBudget | null } | { what: "delete"; budget: EndUserBudget } | null;

/** Budgets of the end users that programs name in their requests. */
export function EndUsersTab() {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const columns: Column<EndUserBudget>[] = [
    { title: "End user", cell: ({ user }) => <span className="font-medium wrap-anywhere">{user}</span> },
    {
      title: "Used",
      cell: (budget) => <BudgetUse name={budget.user} budget_tokens={budget.budget_tokens} used={budget} />,
    },
    {
      title: "Left",
      numeric: true,
      wide: true,
      cell: ({ budget_tokens, budget_used_tokens }) => number(Math.max(0, budget_tokens - budget_used_tokens)),
    },
    { title: "", numeric: true, cell: (budget) => <Actions budget={budget} onOpen={setOpen} /> },
  ];
  const set = (
    <Button kind="primary" icon="plus" onClick={() => setOpen({ what: "set", budget: null })}>
      Set budget
    </Button>
  );
  return (
    <Card
      title="Budgets of end users"
      note="Your programs name the end user of each request in its field “user”. A budget limits what their requests cost."
      actions={set}
      flush
    >
      <PagedTable
        label="Budgets of end users"
        query={endUserBudgetsQuery}
        columns={columns}
        keyOf={({ user }) => user}
        empty={
          <Empty icon="person" title="No budgets yet">
            Without a budget, the requests of an end user are limited by your balance only.
          </Empty>
        }
      />
      {open?.what === "set" && <BudgetForm budget={open.budget} onClose={close} />}
      {open?.what === "delete" && (
        <Confirm
          title={`Delete the budget of ${open.budget.user}?`}
          action="Delete budget"
          saved="Budget deleted"
          onClose={close}
          onConfirm={async () => {
            await call("DELETE /api/v1/end-user-budgets/{user}", { params: { user: open.budget.user } });
            await stale("end-user-budgets");
          }}
        >
          The requests of this end user are then limited by your balance only. Their usage stays recorded.
        </Confirm>
      )}
    </Card>
  );
}

function Actions({ budget, onOpen }: { budget: EndUserBudget; onOpen: (open: Open) => void }) {
  return (
    <span className="flex justify-end gap-1">
      <WithTooltip text="Edit budget">
        <Button
          kind="quiet"
          icon="edit"
          className="px-2"
          aria-label={`Edit the budget of ${budget.user}`}
          onClick={() => onOpen({ what: "set", budget })}
        />
      </WithTooltip>
      <WithTooltip text="Delete budget">
        <Button
          kind="quiet"
          icon="trash"
          className="px-2"
          aria-label={`Delete the budget of ${budget.user}`}
          onClick={() => onOpen({ what: "delete", budget })}
        />
      </WithTooltip>
    </span>
  );
}

/** Sets the budget of one end user; null: of one whom the person names. */
function BudgetForm({ budget, onClose }: { budget: EndUserBudget | null; onClose: () => void }) {
  const [user, setUser] = useState(budget?.user ?? "");
  const [draft, setDraft] = useState<BudgetDraft>(
    budget === null ? { budget: "", interval: "month" } : budgetDraftOf(budget),
  );
  const save = useMutation({
    mutationFn: () => {
      const { budget_interval } = budgetOf(draft);
      const body = { budget_tokens: Number(draft.budget), budget_interval };
      return call("PUT /api/v1/end-user-budgets/{user}", { params: { user }, body });
    },
    onSuccess: async () => {
      await stale("end-user-budgets");
      confirmSaved("Budget saved");
      onClose();
    },
  });
  return (
    <Dialog title={budget === null ? "Set a budget" : `Budget of ${budget.user}`} onClose={onClose}>
      <DialogForm save={save} action="Save budget" onCancel={onClose}>
        {budget === null && (
          <TextField
            label="End user"
            param="user"
            required
            maxLength={256}
            pattern="(?!\.{1,2}$).*"
            title="A name other than . and .., which no address can hold"
            autoComplete="off"
            value={user}
            onValue={setUser}
            placeholder="guest-4711"
            hint="As your requests name them in the field “user”."
          />
        )}
        <div className="grid gap-4 sm:grid-cols-2">
          <BudgetFields
            draft={draft}
            onDraft={(changes) => setDraft({ ...draft, ...changes })}
            used={budget}
            required
          />
        </div>
      </DialogForm>
    </Dialog>
  );
}
