import { generateKeyPairSync, sign } from "node:crypto";

/** A key and its certificate, in PEM. */
export interface Certified {
  key: string;
  cert: string;
}

/** DER: a tag, the content's length, and the content. */
function der(tag: number, ...parts: (Buffer | number[])[]): Buffer {
  const held = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = held;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), held]);
}
const [INTEGER, OCTETS, OID, UTF8, SEQUENCE, SET, TIME] = [0x02, 0x04, 0x06, 0x0c, 0x30, 0x31, 0x18];
const ED25519 = der(SEQUENCE, der(OID, [0x2b, 0x65, 0x70]));
const COMMON_NAME = der(OID, [0x55, 0x04, 0x03]);
const ALTERNATIVE_NAME = der(OID, [0x55, 0x1d, 0x11]);

/** A self-signed certificate for `host` (RFC 5280). */
export function selfSigned(host: string): Certified {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const name = der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, der(UTF8, Buffer.from(host)))));
  const validity = ["20000101000000Z", "29991231235959Z"].map((time) => der(TIME, Buffer.from(time)));
  const names = der(SEQUENCE, der(0x82, Buffer.from(host)));
  const extensions = der(0xa3, der(SEQUENCE, der(SEQUENCE, ALTERNATIVE_NAME, der(OCTETS, names))));
  const body = der(
    SEQUENCE,
    der(0xa0, der(INTEGER, [2])), // version 3
    der(INTEGER, [1]),
    ED25519,
    name,
    der(SEQUENCE, ...validity),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    extensions,
  );
  const bits = der(0x03, [0], sign(null, body, privateKey));
  const text = der(SEQUENCE, body, ED25519, bits).toString("base64");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`,
  };
}
