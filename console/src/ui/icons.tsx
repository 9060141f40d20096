import {
  ArrowRight,
  Bell,
  Bot,
  ChartColumn,
  Check,
  ChevronDown,
  Clock,
  Copy,
  CreditCard,
  Download,
  House,
  KeyRound,
  LockKeyhole,
  LogOut,
  Menu,
  MessageCircle,
  Pencil,
  Play,
  Plug,
  Plus,
  Search,
  Send,
  Shield,
  Sparkles,
  Square,
  Trash2,
  TriangleAlert,
  UserRound,
  Wrench,
  X,
} from "lucide-react";

const ICONS = {
  home: House,
  usage: ChartColumn,
  agents: Bot,
  secrets: LockKeyhole,
  billing: CreditCard,
  keys: KeyRound,
  notices: Bell,
  menu: Menu,
  close: X,
  plus: Plus,
  play: Play,
  stop: Square,
  chat: MessageCircle,
  edit: Pencil,
  copy: Copy,
  check: Check,
  warning: TriangleAlert,
  tool: Wrench,
  model: Sparkles,
  provider: Plug,
  shield: Shield,
  clock: Clock,
  arrow: ArrowRight,
  down: ChevronDown,
  find: Search,
  download: Download,
  person: UserRound,
  leave: LogOut,
  trash: Trash2,
  send: Send,
} as const;
export type IconName = keyof typeof ICONS;

/** An icon repeats the text beside it, so screen readers skip it. */
export function Icon({ name, className = "size-4" }: { name: IconName; className?: string }) {
  const Shape = ICONS[name];
  return <Shape className={`shrink-0 ${className}`} strokeWidth={1.9} aria-hidden="true" />;
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
