const HIDDEN = "••••••••";
/**
 * contract 7: a shorter value is hidden completely, because four characters would reveal much of it (litellm#30764).
 */
const SHOWN_FROM_CHARACTERS = 20;
const LAST_CHARACTERS = 4;
/** A prefix is shown only if at least this many characters stay hidden. */
const HIDDEN_CHARACTERS = 8;

/**
 * Public key prefixes of vendors, from their documentation; docs/operating/keys.md lists them. A longer prefix comes
 * before its own beginning.
 */
export const VENDOR_PREFIXES = [
  ...["sk-ant-", "sk-proj-", "sk-or-", "sk-"], // Anthropic, OpenAI, OpenRouter
  ...["sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_", "whsec_"], // Stripe, Standard Webhooks
  ...["github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-"], // GitHub, GitLab
  ...["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xapp-"], // Slack
  ...["AKIA", "ASIA", "AIza", "ya29."], // AWS, Google
  ...["npm_", "pypi-", "dckr_pat_", "hf_", "gsk_", "xai-", "pplx-"], // registries, model providers
  ...["SG.", "key-", "shpat_", "dop_v1_", "hvs.", "lin_api_", "secret_", "ntn_", "figd_", "sntrys_"], // SendGrid to Sentry
  "purser_live_",
];

/** Masks a value: contract 7. */
export function maskOf(value: string): string {
  const characters = [...value];
  if (characters.length < SHOWN_FROM_CHARACTERS || isStructured(value)) return HIDDEN;
  const most = characters.length - LAST_CHARACTERS - HIDDEN_CHARACTERS;
  const prefix = VENDOR_PREFIXES.find((each) => value.startsWith(each) && each.length <= most) ?? "";
  return `${prefix}${HIDDEN}${characters.slice(-LAST_CHARACTERS).join("")}`;
}

/** Whether the value has several lines or is PEM or JSON. Its last characters belong to the format. */
function isStructured(value: string): boolean {
  return /[\r\n\u0085\u2028\u2029]/.test(value) || value.includes("-----BEGIN") || /^\s*[{["]/.test(value);
}
