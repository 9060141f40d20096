/** The APIs by which programs call models, with the routes that the request log has. */

export const MODEL_APIS = ["chat_completions", "messages", "responses", "embeddings"] as const;
export type ModelApi = (typeof MODEL_APIS)[number];

const OF_ROUTE: Readonly<Record<string, ModelApi>> = {
  "/api/v1/chat/completions": "chat_completions",
  "/api/v1/messages": "messages",
  "/api/v1/responses": "responses",
  "/api/v1/embeddings": "embeddings",
};

/** The API that a route calls models by; null for any other route. */
export const modelApiOf = (route: string): ModelApi | null => OF_ROUTE[route] ?? null;
