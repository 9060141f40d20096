import { Tooltip } from "radix-ui";
import type { ReactElement } from "react";

/** Names a button or link that shows only an icon, for pointer, keyboard and screen reader. */
export function WithTooltip({ text, children }: { text: string; children: ReactElement }) {
  return (
    <Tooltip.Provider delayDuration={300}>
      <Tooltip.Root>
        <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
        <Tooltip.Portal>
          <Tooltip.Content
            sideOffset={4}
            collisionPadding={8}
            className="z-30 max-w-64 rounded-md bg-ink px-2 py-1 text-sm text-page wrap-anywhere shadow-lg"
          >
            {text}
          </Tooltip.Content>
        </Tooltip.Portal>
      </Tooltip.Root>
    </Tooltip.Provider>
  );
}
