import { createHash, createHmac } from "node:crypto";

export interface AwsCredentials {
  readonly access_key_id: string;
  readonly secret_access_key: string;
  /** The token of temporary credentials. */
  readonly session_token: string | null;
}

interface AwsPost {
  readonly host: string;
  readonly region: string;
  readonly service: string;
  /** All sent headers in lower case, except host, x-amz-date and the token. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** `20260131T235959Z` */
  readonly date: string;
}

const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest();
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/**
 * The headers of a signed POST to `/` (AWS Signature Version 4). The JSON services of AWS need no other path or query.
 */
export function signedAwsHeaders(post: AwsPost, credentials: AwsCredentials): Record<string, string> {
  const sent: Record<string, string> = { ...post.headers, host: post.host, "x-amz-date": post.date };
  if (credentials.session_token !== null) sent["x-amz-security-token"] = credentials.session_token;
  const names = Object.keys(sent).sort();
  const signed = names.join(";");
  const lines = names.map((name) => `${name}:${sent[name]}\n`).join("");
  const canonical = ["POST", "/", "", lines, signed, sha256(post.body)].join("\n");

  const day = post.date.slice(0, 8);
  const scope = `${day}/${post.region}/${post.service}/aws4_request`;
  const to_sign = ["AWS4-HMAC-SHA256", post.date, scope, sha256(canonical)].join("\n");
  const key = [post.region, post.service, "aws4_request"].reduce<Buffer>(
    hmac,
    hmac(`AWS4${credentials.secret_access_key}`, day),
  );
  const signature = hmac(key, to_sign).toString("hex");
  const { host: _, ...headers } = sent; // the HTTP client sends it
  return {
    ...headers,
    authorization: `AWS4-HMAC-SHA256 Credential=${credentials.access_key_id}/${scope}, SignedHeaders=${signed}, Signature=${signature}`,
  };
}
