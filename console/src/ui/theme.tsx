import { useState } from "react";
import { segmentClass } from "./chart.tsx";

const THEMES = [
  ["system", "Auto"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;
const KEPT = "purser.theme";

/** Light or dark, or as the system has it. Kept in this browser. */
export function ThemeChoice() {
  const [theme, setTheme] = useState<string>(document.documentElement.dataset.theme ?? "system");
  const choose = (chosen: string) => {
    if (chosen === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(KEPT);
    } else {
      document.documentElement.dataset.theme = chosen;
      localStorage.setItem(KEPT, chosen);
    }
    setTheme(chosen);
  };
  return (
    <fieldset className="flex justify-between rounded-lg bg-sunken p-0.5">
      <legend className="sr-only">Theme</legend>
      {THEMES.map(([value, name]) => (
        <button
          key={value}
          type="button"
          aria-pressed={theme === value}
          className={`flex-1 ${segmentClass(theme === value)}`}
          onClick={() => choose(value)}
        >
          {name}
        </button>
      ))}
    </fieldset>
  );
}
