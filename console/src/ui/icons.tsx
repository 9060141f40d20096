/** Line icons on a 16-pixel grid. They say nothing that the text beside them does not, so readers are spared them. */
const PATHS = {
  overview: "M2.5 9.5h3v4h-3zM6.5 5.5h3v8h-3zM10.5 2.5h3v11h-3z",
  agents:
    "M8 2v2M4 4.5h8a1.5 1.5 0 0 1 1.5 1.5v5.5A1.5 1.5 0 0 1 12 13H4a1.5 1.5 0 0 1-1.5-1.5V6A1.5 1.5 0 0 1 4 4.5zM6 8v1.5M10 8v1.5",
  secrets: "M4.5 7V5a3.5 3.5 0 0 1 7 0v2M3.5 7h9v6.5h-9zM8 9.5v1.5",
  billing: "M2.5 4h11v8.5h-11zM2.5 6.8h11M5 10h2.5",
  keys: "M10.2 9.3a3.5 3.5 0 1 1 .1-.1zM7.3 8.7 2.5 13.5v-2.2M4.6 11.4 6 12.8",
  notices: "M4 11V7a4 4 0 0 1 8 0v4l1 1.2H3zM6.8 14h2.4",
  reference:
    "M3 3.5h4a1.5 1.5 0 0 1 1 .5 1.5 1.5 0 0 1 1-.5h4v9H9.3a1.6 1.6 0 0 0-1.3.7 1.6 1.6 0 0 0-1.3-.7H3zM8 4.2v8.8",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  play: "M5 3.5v9l7-4.5z",
  stop: "M4.5 4.5h7v7h-7z",
  chat: "M3 3.5h10v7.5H7l-3 2.5V11H3z",
  edit: "M10.5 3 13 5.5 5.8 12.7l-3 .5.5-3z",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  check: "M3.5 8.5l3 3 6-7",
  warning: "M8 2.8 14 13H2zM8 6.5v3M8 11.2v.3",
  tool: "M10.5 2.8a3 3 0 0 0-2.7 4.4L3 12l1.3 1.3 4.7-4.8a3 3 0 0 0 4.3-3.2l-1.7 1.7-1.9-.6-.5-1.8 1.8-1.7z",
  model: "M8 2.5l1.5 4 4 1.5-4 1.5-1.5 4-1.5-4-4-1.5 4-1.5z",
  shield: "M8 2.2 13 4v4c0 3-2 4.9-5 5.9C5 12.9 3 11 3 8V4z",
  clock: "M8 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.200l2.2 1.3",
  arrow: "M3.5 8h9M9 4.5 12.5 8 9 11.5",
  download: "M8 2.500v7.500M5 7.5 8 10.500l3-3M3 13h10",
  person: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.500c.5-2.5 2.5-4 5-4s4.5 1.5 5 4",
  leave: "M6.5 3H3v10h3.5M6.5 8h7M10.5 5l3 3-3 3",
  trash: "M3 4.500h10M6.5 4.500v-2h3v2M4.5 4.500l.5 9h6l.5-9",
  send: "M13.5 2.5 7 9M13.5 2.5 9.5 13.5 7 9 2.5 6.500z",
} as const;
export type IconName = keyof typeof PATHS;

export function Icon({ name, className = "size-4" }: { name: IconName; className?: string }) {
  return (
    <svg
      className={`shrink-0 ${className}`}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.3"
      strokeLinejoin="round"
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo({ className = "size-7" }: { className?: string }) {
  return (
    <svg className={`shrink-0 ${className}`} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#0d5c63" />
      <circle cx="16" cy="16" r="8.5" fill="none" stroke="#fff" strokeWidth="2.6" />
      <path d="M12 16h8M16 12v8" stroke="#f4c26b" strokeWidth="2.6" strokeLinecap="round" />
    </svg>
  );
}
