import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Button, Card, Empty, Skeleton } from "./basics.tsx";
import { ProblemNotice } from "./problem.tsx";

interface RecordsCardProps<One> {
  /** Also the list's label. */
  title: string;
  query: UseQueryResult<readonly One[]>;
  /** Verb and object, on the button that adds one. */
  add: string;
  /** The icon and the text of an empty list. */
  icon: Parameters<typeof Empty>[0]["icon"];
  empty: string;
  /** The dialog that changes one; null: it adds one. */
  dialog: (one: One | null, onClose: () => void) => ReactNode;
  /** One of them, as a list item with its key. */
  children: (one: One, onEdit: () => void) => ReactNode;
}

/** The few records of one kind that an agent has, in a card: each with its own buttons. */
export function RecordsCard<One>({ title, query, add, icon, empty, dialog, children }: RecordsCardProps<One>) {
  const { data, error, refetch } = query;
  const [shown, setShown] = useState<{ one: One | null } | null>(null);
  const has_some = data !== undefined && data.length > 0;
  const button = (
    <Button kind="primary" icon="plus" onClick={() => setShown({ one: null })}>
      {add}
    </Button>
  );
  return (
    <Card title={title} flush {...(has_some && { actions: button })}>
      {error !== null && (
        <div className="p-4">
          <ProblemNotice error={error} onRetry={() => void refetch()} />
        </div>
      )}
      {error === null && data === undefined && <Skeleton />}
      {data?.length === 0 && (
        <Empty icon={icon} title={`No ${title.toLowerCase()} yet`} action={button}>
          {empty}
        </Empty>
      )}
      {has_some && (
        <ul aria-label={title} className="divide-y divide-line border-t border-line">
          {data.map((one) => children(one, () => setShown({ one })))}
        </ul>
      )}
      {shown !== null && dialog(shown.one, () => setShown(null))}
    </Card>
  );
}

interface RecordProps {
  name: string;
  status: ReactNode;
  /** Below the name. */
  facts: ReactNode;
  /** Before "Edit" and "Delete". */
  buttons: ReactNode;
  onEdit: () => void;
  onDelete: () => void;
  /** Below all of it. */
  children: ReactNode;
}

/** One record of a card. */
export function RecordItem({ name, status, facts, buttons, onEdit, onDelete, children }: RecordProps) {
  return (
    <li className="space-y-2 px-4 py-3">
      <div className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-60">
          <h3 className="font-medium wrap-anywhere">
            {name} {status}
          </h3>
          {facts}
        </div>
        <div className="flex flex-wrap gap-1.5">
          {buttons}
          <Button icon="edit" aria-label={`Edit ${name}`} onClick={onEdit}>
            Edit
          </Button>
          <Button kind="danger" icon="trash" className="px-2" aria-label={`Delete ${name}`} onClick={onDelete} />
        </div>
      </div>
      {children}
    </li>
  );
}
