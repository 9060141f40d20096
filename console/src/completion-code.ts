/** One chat completion as code to copy. The texts contain what a person typed, so each is quoted for its language. */

export interface Completion {
  model: string;
  messages: { role: "system" | "user"; content: string }[];
}

interface Call {
  /** The address of the service, without a path. */
  url: string;
  key: string;
  body: Completion;
}

export const LANGUAGES = ["curl", "Python", "TypeScript"] as const;
export type Language = (typeof LANGUAGES)[number];

/** The call in a language. Strings, arrays and objects of JSON are also values of Python and TypeScript. Pure. */
export function completionCode(language: Language, { url, key, body: { model, messages } }: Call): string {
  const json = JSON.stringify;
  const list = `[\n${messages.map((message) => `    ${json(message)},`).join("\n")}\n  ]`;
  switch (language) {
    case "curl":
      return [
        `curl -s ${url}/api/v1/chat/completions \\`,
        `  -H "Authorization: Bearer ${key}" \\`,
        '  -H "Content-Type: application/json" \\',
        `  -d '${json({ model, messages }).replaceAll("'", "'\\''")}'`,
      ].join("\n");
    case "Python":
      return [
        "from openai import OpenAI",
        "",
        `client = OpenAI(base_url="${url}/api/v1", api_key=${json(key)})`,
        "completion = client.chat.completions.create(",
        `  model=${json(model)},`,
        `  messages=${list},`,
        ")",
        "print(completion.choices[0].message.content)",
      ].join("\n");
    case "TypeScript":
      return [
        'import OpenAI from "openai";',
        "",
        `const openai = new OpenAI({ baseURL: "${url}/api/v1", apiKey: ${json(key)} });`,
        "const completion = await openai.chat.completions.create({",
        `  model: ${json(model)},`,
        `  messages: ${list},`,
        "});",
        "console.log(completion.choices[0].message.content);",
      ].join("\n");
  }
}
