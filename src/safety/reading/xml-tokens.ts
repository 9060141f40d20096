import { Tokenizer } from "htmlparser2";

/** One piece of XML, in source order. Names are lower case and references decoded. An empty tag is followed by its end. */
export type XmlToken =
  | {
      readonly type: "open";
      readonly name: string;
      readonly attributes: ReadonlyMap<string, string>;
      readonly source: string;
    }
  | { readonly type: "close"; readonly name: string; readonly source: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "comment"; readonly text: string };

/** Splits XML into tokens, without building a tree. CDATA is text. */
export function tokenizeXml(xml: string): XmlToken[] {
  const tokens: XmlToken[] = [];
  let text = "";
  let tag = { name: "", start: 0, attributes: new Map<string, string>() };
  let attribute = { name: "", value: "" };

  const flush = () => {
    if (text !== "") tokens.push({ type: "text", text });
    text = "";
  };
  const nameIn = (start: number, end: number) => xml.slice(start, end).toLowerCase();
  const open = (end: number) => {
    const { name, start, attributes } = tag;
    tokens.push({ type: "open", name, attributes, source: xml.slice(start - 1, end + 1) });
  };
  const tokenizer = new Tokenizer(
    { decodeEntities: true, xmlMode: true },
    {
      ontext: (start, end) => {
        text += xml.slice(start, end);
      },
      ontextentity: (codepoint) => {
        text += String.fromCodePoint(codepoint);
      },
      onopentagname: (start, end) => {
        flush();
        tag = { name: nameIn(start, end), start, attributes: new Map() };
      },
      onattribname: (start, end) => {
        attribute = { name: nameIn(start, end), value: "" };
      },
      onattribdata: (start, end) => {
        attribute.value += xml.slice(start, end);
      },
      onattribentity: (codepoint) => {
        attribute.value += String.fromCodePoint(codepoint);
      },
      onattribend: () => {
        tag.attributes.set(attribute.name, attribute.value);
      },
      onopentagend: open,
      onselfclosingtag: (end) => {
        open(end);
        tokens.push({ type: "close", name: tag.name, source: "" });
      },
      onclosetag: (start, end) => {
        flush();
        tokens.push({ type: "close", name: nameIn(start, end), source: `</${xml.slice(start, end)}>` });
      },
      oncomment: (start, end, offset) => {
        flush();
        tokens.push({ type: "comment", text: xml.slice(start, end - offset) });
      },
      oncdata: (start, end, offset) => {
        text += xml.slice(start, end - offset);
      },
      ondeclaration: flush,
      onprocessinginstruction: flush,
      onend: flush,
    },
  );
  tokenizer.write(xml);
  tokenizer.end();
  return tokens;
}
