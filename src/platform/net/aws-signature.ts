import type { SignatureV4 } from "@smithy/signature-v4";

/** Signers by service and region. Each keeps its credentials and renews them. */
const signers = new Map<string, Promise<SignatureV4>>();

/**
 * The headers of a JSON request to AWS, signed with the credentials of AWS's default chain (environment, profile, web
 * identity, container or instance role). Rejects when there are none.
 */
export async function signedForAws(
  { url, body }: { url: URL; body: string },
  { service, region }: { service: string; region: string },
): Promise<Record<string, string>> {
  const key = `${service} ${region}`;
  const signer = signers.get(key) ?? createSigner(service, region);
  signers.set(key, signer);
  const { headers } = await (await signer).sign({
    method: "POST",
    protocol: url.protocol,
    hostname: url.hostname,
    path: url.pathname,
    headers: { host: url.host, "content-type": "application/json" },
    body,
  });
  const { host: _, ...sent } = headers;
  return sent;
}

/** AWS's own packages are optional dependencies. */
async function createSigner(service: string, region: string): Promise<SignatureV4> {
  const [{ SignatureV4: Signer }, { defaultProvider }, { Hash }] = await Promise.all([
    import("@smithy/signature-v4"),
    import("@aws-sdk/credential-provider-node"),
    import("@smithy/core/serde"),
  ]);
  return new Signer({ service, region, credentials: defaultProvider(), sha256: Hash.bind(null, "sha256") });
}
