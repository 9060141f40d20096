declare module "html-encoding-sniffer" {
  /** The encoding's name, by byte order mark, transport label, and what the text itself declares. */
  export default function htmlEncodingSniffer<Default>(
    bytes: Uint8Array,
    options: {
      xml?: boolean;
      transportLayerEncodingLabel?: string | undefined;
      defaultEncoding: Default;
      /** The bytes that are searched for a `meta`. Not with `xml`. */
      maxPrescanBytes?: number;
    },
  ): string | Default;
}
