/** Errors as providers and servers write them: a new wording or shape is a new row. */

const openai = (message: string, fields: object = {}) => ({
  error: { message, type: "invalid_request_error", param: null, code: null, ...fields },
});

/** An error that OpenRouter wraps around its provider's answer. */
const openrouter = (raw: unknown) => ({
  error: { message: "Provider returned error", code: 400, metadata: { raw, provider_name: "Lab", is_byok: false } },
});

/** The provider, its status, and its body for a prompt that is too long. */
export const TOO_LONG: readonly (readonly [string, number, unknown])[] = [
  [
    "OpenAI",
    400,
    openai("Your input exceeds the context window of this model. Please adjust your input and try again.", {
      code: "context_length_exceeded",
    }),
  ],
  [
    "OpenAI, one long text",
    400,
    openai(
      "Invalid 'messages[0].content': string too long. Expected a string with maximum length 1048576, but got 2000000.",
      {
        code: "string_above_max_length",
      },
    ),
  ],
  [
    "OpenAI, older",
    400,
    openai(
      "This model's maximum context length is 4097 tokens, however you requested 4238 tokens (4238 in your prompt; 0 for the completion).",
    ),
  ],
  [
    "Azure",
    400,
    openai(
      "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens. Please reduce the length of the messages.",
    ),
  ],
  [
    "Azure, older",
    400,
    openai(
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 10383 tokens. Please reduce the length of the messages.",
      {
        code: "context_length_exceeded",
      },
    ),
  ],
  [
    "Claude",
    400,
    {
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum" },
    },
  ],
  [
    "Claude with its cap",
    400,
    {
      type: "error",
      error: {
        type: "invalid_request_error",
        message:
          "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
      },
    },
  ],
  [
    "Claude, bytes",
    413,
    { type: "error", error: { type: "request_too_large", message: "Request exceeds the maximum size" } },
  ],
  [
    "Gemini",
    400,
    {
      error: {
        code: 400,
        message: "The input token count (1206828) exceeds the maximum number of tokens allowed (1048575).",
        status: "INVALID_ARGUMENT",
      },
    },
  ],
  [
    "Gemini in a list",
    400,
    [
      {
        error: {
          code: 400,
          message:
            "Unable to submit request because the input token count is 1200000 but model only supports up to 1048576.",
          status: "INVALID_ARGUMENT",
        },
      },
    ],
  ],
  [
    "xAI",
    400,
    {
      code: "Client specified an invalid argument",
      error: "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
    },
  ],
  [
    "Groq",
    400,
    openai("Please reduce the length of the messages or completion.", {
      param: "messages",
      code: "context_length_exceeded",
    }),
  ],
  [
    "Groq, more than a minute's tokens",
    413,
    {
      error: {
        message:
          "Request too large for model `llama-3.1-8b-instant` in organization `org_01` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size and try again.",
        type: "tokens",
        code: "rate_limit_exceeded",
      },
    },
  ],
  [
    "DeepSeek",
    400,
    openai(
      "This model's maximum context length is 131072 tokens. However, you requested 133034 tokens (125034 in the messages, 8000 in the completion).",
      { code: "invalid_request_error" },
    ),
  ],
  ["Moonshot", 400, openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)")],
  ["Moonshot, bytes", 400, openai("total message size 10176584 exceeds limit 2097152")],
  [
    "Mistral",
    400,
    {
      object: "error",
      message: "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
      type: "invalid_request_error",
      param: null,
      code: "3051",
    },
  ],
  [
    "Together",
    422,
    openai(
      "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 80125 `inputs` tokens and 4096 `max_new_tokens`",
      { param: "max_tokens" },
    ),
  ],
  [
    "Together, newer",
    400,
    openai("The input (90001 tokens) is longer than the model's context length (32768 tokens)."),
  ],
  [
    "DashScope",
    400,
    {
      error: {
        code: "invalid_parameter_error",
        param: null,
        message: "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        type: "invalid_request_error",
      },
    },
  ],
  [
    "DashScope, its own API",
    400,
    { code: "InvalidParameter", message: "Range of input length should be [1, 30720]", request_id: "r" },
  ],
  ["z.ai", 400, { error: { code: "1261", message: "Prompt exceeds max length" } }],
  ["z.ai, newer", 400, { error: { code: "1261", message: "Prompt too long" } }],
  ["z.ai, in Chinese", 400, { error: { code: "1261", message: "Prompt 超长" } }],
  ["z.ai, coding", 400, { error: { code: "1210", message: "tokens in request more than max tokens allowed" } }],
  ["MiniMax", 400, { error: { message: "invalid params, context window exceeds limit (2013)" } }],
  ["Bedrock", 400, { message: "Input is too long for requested model." }],
  [
    "Bedrock's stream",
    400,
    {
      __type: "ValidationException",
      Message: "The model returned the following errors: Input is too long for requested model.",
    },
  ],
  [
    "Bedrock, Titan",
    400,
    { message: "Too many input tokens. Max input tokens: 8192, request input token count: 9009" },
  ],
  [
    "Bedrock, characters",
    400,
    {
      message:
        "Malformed input request: expected maxLength: 50000, actual: 60000, please reformat your input and try again.",
    },
  ],
  [
    "OpenRouter",
    400,
    {
      error: {
        code: 400,
        message:
          "This endpoint's maximum context length is 262144 tokens. However, you requested about 284283 tokens (8963 of text input).",
      },
    },
  ],
  [
    "OpenRouter, Poolside",
    400,
    { error: { code: 400, message: "Input length 131393 exceeds the maximum allowed input length of 131040 tokens." } },
  ],
  ["Fireworks", 400, openai("The prompt is too long: 139268, model maximum context length: 131071")],
  [
    "Cerebras",
    400,
    {
      message: "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
    },
  ],
  [
    "Cohere",
    400,
    { message: "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 130000." },
  ],
  [
    "GitHub",
    413,
    {
      error: {
        code: "tokens_limit_reached",
        message: "Request body too large for gpt-4o model. Max size: 8000 tokens.",
      },
    },
  ],
  [
    "Copilot",
    400,
    {
      error: {
        code: "model_max_prompt_tokens_exceeded",
        message: "prompt token count of 137208 exceeds the limit of 128000",
      },
    },
  ],
  [
    "Cloudflare",
    400,
    {
      errors: [
        {
          message:
            "AiError: The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8192).",
          code: 5021,
        },
      ],
      success: false,
    },
  ],
  [
    "llama.cpp",
    400,
    {
      error: {
        code: 400,
        message: "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        type: "exceed_context_size_error",
        n_prompt_tokens: 5000,
        n_ctx: 4096,
      },
    },
  ],
  [
    "llama.cpp, older",
    500,
    {
      error: {
        code: 500,
        message:
          "the request exceeds the available context size. try increasing the context size or enable context shift",
        type: "server_error",
      },
    },
  ],
  [
    "LM Studio",
    400,
    {
      error:
        "Trying to keep the first 11000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input",
    },
  ],
  [
    "LM Studio, newer",
    400,
    {
      error: {
        message:
          "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input",
      },
    },
  ],
  ["LM Studio, 0.4", 400, { error: "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)" }],
  ["LM Studio, MLX", 500, { error: "Context size has been exceeded." }],
  [
    "vLLM, old",
    400,
    {
      object: "error",
      message:
        "This model's maximum context length is 131072 tokens. However, you requested 351430 tokens (351330 in the messages, 100 in the completion). Please reduce the length of the messages or completion.",
      type: "BadRequestError",
      param: null,
      code: 400,
    },
  ],
  [
    "vLLM, new",
    400,
    {
      error: {
        message:
          "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. (parameter=input_tokens, value=262145)",
        type: "BadRequestError",
        param: "input_tokens",
        code: 400,
      },
    },
  ],
  [
    "vLLM, the engine",
    400,
    {
      object: "error",
      message:
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.",
      type: "BadRequestError",
      code: 400,
    },
  ],
  [
    "vLLM, newest",
    400,
    {
      error: {
        message:
          "You passed 9001 input tokens and requested 0 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 8192 tokens.",
        type: "BadRequestError",
        code: 400,
      },
    },
  ],
  [
    "SGLang",
    400,
    {
      object: "error",
      message: "Requested token count exceeds the model's maximum context length of 8192 tokens.",
      type: "BadRequestError",
      code: 400,
    },
  ],
  [
    "TGI",
    422,
    {
      error: "Input validation error: `inputs` must have less than 1024 tokens. Given: 5000",
      error_type: "validation",
    },
  ],
  ["Ollama", 400, { error: "prompt too long; exceeded max context length by 1200 tokens" }],
  ["TensorRT", 400, { detail: "Prompt length (9000) exceeds maximum input length (8192)" }],
  [
    "FastAPI",
    422,
    { detail: [{ loc: ["body", "messages"], msg: "Prompt exceeds maximum context length", type: "value_error" }] },
  ],
  [
    "a gateway with its provider's answer in a text",
    400,
    { error: { message: JSON.stringify({ error: { code: 400, message: "Input is too long for requested model." } }) } },
  ],
  [
    "OpenRouter with its provider's answer",
    400,
    openrouter('{"error":{"message":"prompt is too long: 208310 tokens > 200000 maximum"}}'),
  ],
  [
    "MiniMax, its own API",
    400,
    { base_resp: { status_code: 2013, status_msg: "invalid params, context window exceeds limit" } },
  ],
  ["SiliconFlow", 400, { message: "length of prompt_tokens (40000) must be less than max_seq_len (32768)." }],
  ["Volcengine", 400, openai("Total tokens of image and text exceed max message tokens")],
  [
    "watsonx",
    400,
    {
      errors: [
        {
          code: "invalid_input_argument",
          message: "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
        },
      ],
    },
  ],
  ["SambaNova", 400, openai("The model's maximum supported sequence length is just 8192 tokens.")],
  ["Perplexity", 400, openai("Prompt tokens exceed the limit of 127072")],
  ["Novita", 400, { message: "prompt length is too long" }],
  ["KoboldCpp", 400, { detail: { msg: "Prompt is 5000 tokens, max 4096" } }],
  ["vLLM, the scheduler", 400, { message: "Input prompt (5000 tokens) is too long and exceeds limit of 4096" }],
  ["Baidu", 400, { error_code: 336007, error_msg: "the max input characters is 20000" }],
  ["plain text", 400, "prompt is too long: 210000 tokens > 200000 maximum"],
  ["a proxy's limit in bytes", 413, "<html><head><title>413 Request Entity Too Large</title></head></html>"],
];

/** Errors that say `long`, `tokens` or `context` and mean something else, with the field that they name. */
export const NOT_TOO_LONG: readonly (readonly [string, number, unknown])[] = [
  [
    "an id",
    400,
    openai(
      "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 70 instead.",
      { code: "string_above_max_length", param: "messages[1].tool_calls[0].id" },
    ),
  ],
  ["a name", 400, openai("'messages[0].name' is too long", { param: "messages[0].name" })],
  [
    "stop sequences",
    400,
    openai("Invalid 'stop': array too long. Expected an array with maximum length 4.", { param: "stop" }),
  ],
  [
    "the output cap",
    400,
    openai("max_tokens is too large: 99999. This model supports at most 16384 completion tokens."),
  ],
  ["a picture", 400, openai("The input image is too large: its size exceeds 20 MB.")],
  ["a cache key", 400, openai("Invalid 'prompt_cache_key': string too long.", { param: "prompt_cache_key" })],
  [
    "an unknown setting",
    422,
    { detail: [{ type: "extra_forbidden", loc: ["body", "context"], msg: "Extra inputs are not permitted" }] },
  ],
];

/** A body, and the message in it. */
export const MESSAGES_IN: readonly (readonly [string, unknown, string])[] = [
  ["error as a text", { error: "no such model" }, "no such model"],
  ["error as an object", { error: { message: "no such model" } }, "no such model"],
  ["message", { message: "no such model" }, "no such model"],
  [
    "message of an error object",
    { object: "error", message: "no such model", type: "NotFoundError", code: 404 },
    "no such model",
  ],
  ["detail", { detail: "no such model" }, "no such model"],
  [
    "details of fields",
    { detail: [{ loc: ["body", "messages", 0, "content"], msg: "field required", type: "missing" }] },
    "messages.0.content: field required",
  ],
  [
    "details inside message (Mistral)",
    {
      object: "error",
      message: {
        detail: [
          { type: "extra_forbidden", loc: ["body", "max_completion_tokens"], msg: "Extra inputs are not permitted" },
        ],
      },
    },
    "max_completion_tokens: Extra inputs are not permitted",
  ],
  ["errors", { success: false, errors: [{ code: 7009, message: "one" }, { message: "two" }] }, "one; two"],
  ["errors as texts", { errors: ["one", "two"] }, "one; two"],
  ["a list", [{ error: { code: 400, message: "no such model" } }], "no such model"],
  ["a problem", { type: "about:blank", title: "Bad Request", status: 400, detail: "no such model" }, "no such model"],
  ["msg", { code: 500, msg: "no such model", success: false }, "no such model"],
  ["OpenRouter's raw text", openrouter("no such model"), "no such model"],
  ["OpenRouter's raw object", openrouter({ error: { message: "no such model" } }), "no such model"],
  ["OpenRouter's own words", openrouter(""), "Provider returned error"],
  [
    "metadata that is not an error",
    { error: { message: "no such model", metadata: { reason: "policy", title: "a call" } } },
    "no such model",
  ],
  ["base_resp (MiniMax)", { base_resp: { status_code: 1004, status_msg: "no such model" } }, "no such model"],
  [
    "errors of fields",
    { errors: { model: ["is unknown", "is empty"], n: "is 0" } },
    "model: is unknown; is empty; n: is 0",
  ],
  [
    "a problem with errors of fields",
    { title: "One or more validation errors occurred.", status: 400, errors: { Model: ["is unknown"] } },
    "Model: is unknown",
  ],
  ["error_msg (Baidu)", { error_code: 336003, error_msg: "no such model" }, "no such model"],
  ["err", { err: "no such model" }, "no such model"],
  ["a fault", { fault: { faultstring: "no such model", detail: { errorcode: "messaging.x" } } }, "no such model"],
  ["ErrorMessage", { ErrorMessage: "no such model" }, "no such model"],
  ["AWS", { __type: "ValidationException", Message: "no such model" }, "no such model"],
  [
    "an OAuth error",
    { error: "invalid_client", error_description: "The client is unknown." },
    "The client is unknown.",
  ],
  ["JSON in a text", { error: { message: '{"error":{"message":"no such model"}}' } }, "no such model"],
  [
    "plain text",
    "upstream connect error or disconnect/reset before headers",
    "upstream connect error or disconnect/reset before headers",
  ],
  [
    "a page with a title",
    "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body><center><h1>413</h1></center></body></html>",
    "413 Request Entity Too Large",
  ],
  [
    "a page without a title",
    "<!DOCTYPE html><body><script>var a = 1</script><h1>Bad  gateway</h1><p>Try again.</p></body>",
    "Bad gateway Try again.",
  ],
  ["nothing", "", ""],
  ["an empty object", {}, ""],
  ["other values", { error: { message: 5, code: null } }, ""],
];

/** Headers and body of a provider at its limit, and the seconds that the caller must wait. */
export const WAITS: readonly (readonly [string, number, Record<string, string>, unknown, string | null])[] = [
  ["seconds", 429, { "retry-after": "17" }, { error: { message: "slow down" } }, "17"],
  ["a part of a second", 429, { "retry-after": "0.4" }, {}, "1"],
  ["milliseconds (OpenAI, Azure)", 429, { "retry-after-ms": "2500" }, {}, "3"],
  [
    "Anthropic's overload",
    529,
    { "retry-after": "9" },
    { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
    "9",
  ],
  ["unavailable", 503, { "retry-after": "30" }, "<html><title>503</title></html>", "30"],
  ["a gateway's failure", 502, { "retry-after": "4" }, "", "4"],
  [
    "Gemini's body",
    429,
    {},
    {
      error: {
        code: 429,
        message: "Resource exhausted",
        status: "RESOURCE_EXHAUSTED",
        details: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "37s" }],
      },
    },
    "37",
  ],
  ["nothing", 429, {}, { error: { message: "slow down" } }, null],
  ["a word", 429, { "retry-after": "soon" }, {}, null],
];
