import { createAnthropicProvider } from "./anthropic.adapter.ts";
import { googleEmbeddings, openAiEmbeddings } from "./embeddings.adapter.ts";
import { createGoogleProvider } from "./google.adapter.ts";
import type { Provider } from "./models.types.ts";
import { createOpenAiProvider } from "./openai.adapter.ts";
import { createOpenAiCompatible } from "./openai-compatible.adapter.ts";
import type { ProviderKind, ProviderSettings } from "./providers.ts";

const OPENAI_ADDRESS = "https://api.openai.com/v1";

interface Connection {
  base_url: string | null;
  /** null: no key is sent. */
  api_key: string | null;
}

/** The adapter of each kind. `openai` is the Responses API, `openai-compatible` chat completions. */
const ADAPTERS: Record<ProviderKind, (connection: Connection) => Provider> = {
  openai: (connection) => ({
    ...createOpenAiProvider(connection),
    embed: openAiEmbeddings({ ...connection, base_url: connection.base_url ?? OPENAI_ADDRESS }),
  }),
  anthropic: ({ base_url, api_key }) => createAnthropicProvider({ base_url, api_key: api_key ?? "" }),
  google: (connection) => ({
    ...createGoogleProvider({ base_url: connection.base_url, api_key: connection.api_key ?? "" }),
    embed: googleEmbeddings(connection),
  }),
  "openai-compatible": ({ base_url, api_key }) => {
    const connection = { base_url: base_url ?? OPENAI_ADDRESS, api_key };
    return { ...createOpenAiCompatible(connection), embed: openAiEmbeddings(connection) };
  },
};

/** The provider, or null if its key is not set. `keys`: by variable name. */
export function createProvider(
  { kind, base_url, api_key_env }: ProviderSettings,
  keys: Readonly<Record<string, string>>,
): Provider | null {
  const api_key = api_key_env === null ? null : keys[api_key_env];
  return api_key === undefined ? null : ADAPTERS[kind]({ base_url, api_key });
}
