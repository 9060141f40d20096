import { useState } from "react";

/** A form's or a button's act: whether it is under way, and what went wrong the last time. */
export function useAct() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  /** Carries `work` out; the value, or undefined when it failed. */
  const act = async <Value>(work: () => Promise<Value>): Promise<Value | undefined> => {
    setBusy(true);
    setError(null);
    try {
      return await work();
    } catch (thrown) {
      setError(thrown);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return { act, busy, error, clear: () => setError(null) };
}
