import type { AgentTemplate } from "../../api/contract/agents.ts";

/** Agents to begin with: contract 6.8.5. Each names its blanks as <NAME>. */

const PAGE = {
  url: { name: "PAGE_URL", description: "The address of the page", example: "https://example.com/news" },
  host: {
    name: "PAGE_HOST",
    description: "The host of that address, which the agent may read",
    example: "example.com",
  },
};
const MAIL = { name: "MAIL", description: "Your confirmed e-mail address", example: "ada@example.com" };
const TIMEZONE = { name: "TIMEZONE", description: "Your time zone", example: "Europe/Berlin" };
const readsPage = { web_fetch: { enabled: true, hosts: ["<PAGE_HOST>"] } };

export const AGENT_TEMPLATES: readonly AgentTemplate[] = [
  {
    id: "page-watcher",
    name: "Page watcher",
    description: "Reads a page on weekdays and mails what has changed; while nothing changes, it sends nothing.",
    blanks: [
      PAGE.url,
      PAGE.host,
      { name: "TOPIC", description: "What on the page interests you", example: "ferry times and fares" },
      MAIL,
      TIMEZONE,
    ],
    agent: {
      name: "Page watcher",
      description: "Reports what has changed on <PAGE_URL>.",
      auto_route: true,
      system_prompt: "You watch a page for a reader. You report only what the page says.",
      run_prompt: [
        "Fetch <PAGE_URL>. List what it says about <TOPIC>: one fact a line, in the order of the page, with its numbers and dates.",
        "If all of it is in your last report below, repeat that report word for word. Otherwise write the new list, and begin each new or changed line with “New: ”.",
        "Your last report:\n{{last_output}}",
      ].join("\n\n"),
      tools_config: readsPage,
      deliveries: [{ to: "mailto:<MAIL>", on: ["succeeded", "failed"], unless: "unchanged" }],
      schedule_enabled: true,
      schedule_interval: "weekly",
      schedule_days_of_week: ["monday", "tuesday", "wednesday", "thursday", "friday"],
      schedule_time: "08:30",
      schedule_timezone: "<TIMEZONE>",
    },
  },
  {
    id: "morning-digest",
    name: "Morning digest",
    description: "Reads a page of news every morning and mails the few lines that matter to you.",
    blanks: [
      PAGE.url,
      PAGE.host,
      { name: "TOPIC", description: "What interests you", example: "energy policy and local transport" },
      MAIL,
      TIMEZONE,
    ],
    agent: {
      name: "Morning digest",
      description: "Reports the news of <PAGE_URL> about <TOPIC>.",
      auto_route: true,
      system_prompt:
        "You write a short digest in plain language. You report only what the pages say, and link each item.",
      run_prompt:
        "It is {{weekday}}, {{date}}. Fetch <PAGE_URL>. Choose at most five items about <TOPIC>, the most important first. For each, write its title as a link and one sentence. If there is none, say so in one sentence.",
      tools_config: readsPage,
      deliveries: [{ to: "mailto:<MAIL>", on: ["succeeded", "failed"] }],
      schedule_enabled: true,
      schedule_interval: "daily",
      schedule_time: "07:00",
      schedule_timezone: "<TIMEZONE>",
    },
  },
  {
    id: "price-check",
    name: "Price check",
    description: "Called with the address of a product, answers its price as JSON.",
    blanks: [
      { name: "SHOP_HOST", description: "The host of the shop, which the agent may read", example: "shop.example.com" },
    ],
    agent: {
      name: "Price check",
      description: "Answers the price of a product of <SHOP_HOST> as JSON.",
      auto_route: true,
      system_prompt: "You read product pages. You answer only what the page says, and null where it does not say it.",
      run_prompt: "Fetch {{input.url}} and answer the product's name, its present price and whether it is in stock.",
      tools_config: { web_fetch: { enabled: true, hosts: ["<SHOP_HOST>"] } },
      input_schema: {
        type: "object",
        properties: { url: { type: "string", description: "the address of the product's page" } },
        required: ["url"],
        additionalProperties: false,
      },
      output_schema: {
        type: "object",
        properties: {
          product: { type: "string" },
          price: { type: ["number", "null"] },
          currency: { type: ["string", "null"], description: "ISO 4217, such as EUR" },
          in_stock: { type: ["boolean", "null"] },
        },
        required: ["product", "price", "currency", "in_stock"],
        additionalProperties: false,
      },
    },
  },
  {
    id: "status-report",
    name: "Status report",
    description: "Reads a status page every Monday and posts a report to your program, also when it fails.",
    blanks: [
      PAGE.url,
      PAGE.host,
      { name: "WEBHOOK_URL", description: "The address that gets the report", example: "https://example.com/reports" },
      TIMEZONE,
    ],
    agent: {
      name: "Status report",
      description: "Posts a weekly report of <PAGE_URL> to <WEBHOOK_URL>.",
      auto_route: true,
      system_prompt: "You write status reports in Markdown. You report only what the page says.",
      run_prompt:
        "It is {{date}}. Fetch <PAGE_URL>. Report the present state in one sentence, then the incidents of the last seven days as a list with their times, and what is planned.",
      tools_config: readsPage,
      deliveries: [{ to: "<WEBHOOK_URL>", on: ["succeeded", "failed"] }],
      schedule_enabled: true,
      schedule_interval: "weekly",
      schedule_days_of_week: ["monday"],
      schedule_time: "09:00",
      schedule_timezone: "<TIMEZONE>",
    },
  },
];
