import type { ReactNode } from "react";
import { Button } from "./basics.tsx";
import { Dialog } from "./dialog.tsx";
import { Icon } from "./icons.tsx";

interface BesideListProps {
  list: ReactNode;
  /** What the chosen row shows; false: no row is chosen. */
  panel: ReactNode;
  title: string;
  is_wide: boolean;
  onClose: () => void;
}

/** A list with the details of one row: beside it in a wide window, otherwise in a dialog. */
export function BesideList({ list, panel, title, is_wide, onClose }: BesideListProps) {
  const is_open = panel !== false;
  const close = () => {
    onClose();
    document.querySelector<HTMLElement>("tr[aria-current] a")?.focus({ preventScroll: true });
  };
  return (
    <>
      <div className={is_wide && is_open ? "grid grid-cols-[minmax(0,1fr)_24rem] items-start gap-4" : ""}>
        {list}
        {is_wide && is_open && (
          <aside
            aria-label={title}
            className="sticky top-4 max-h-[calc(100dvh-2rem)] overflow-y-auto rounded-xl border border-line bg-panel p-4"
            onKeyDown={({ key }) => key === "Escape" && close()}
          >
            <div className="mb-3 flex items-start justify-between gap-3">
              <h2 className="min-w-0 text-base font-semibold wrap-anywhere">{title}</h2>
              <Button kind="quiet" className="-mt-1 px-1.5" aria-label="Close" onClick={close}>
                <Icon name="close" />
              </Button>
            </div>
            {panel}
          </aside>
        )}
      </div>
      {!is_wide && is_open && (
        <Dialog title={title} onClose={onClose} wide>
          {panel}
        </Dialog>
      )}
    </>
  );
}
