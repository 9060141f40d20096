import { type Hidden, type VisibleText, visibleText } from "./visible.ts";

/** Code blocks and spans of CommonMark. Their content is shown, not rendered. */
const CODE =
  /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))[^`\n]*\n[\s\S]*?(?:^ {0,3}\1[^\n]*$|(?![\s\S]))|(?<!`)(`{1,3})(?!`)[^`\n]+\2(?!`)/gm;
const AUTOLINK = /<(https?:\/\/[^\s<>]{1,2000})>/g;
/**
 * A tag that contains a comment. HTML ends it at the first `>`; Markdown does not see a tag and hides text up to `-->`.
 * Text that either one hides counts as hidden.
 */
const TAG_WITH_COMMENT = /<\/?[a-z](?:[^<>"']|"[^"<]{0,1000}"|'[^'<]{0,1000}'){0,1000}<!--[^>]*>?/gi;
/** `[//]: # (…)`: a link definition without a reference, used as a comment. */
const HIDDEN_DEFINITION = /^ {0,3}\[(?:\/\/|comment|#|_)\][ \t]*:[^\n]*(?:\n[ \t]+[("'][^\n]*)?$/gim;
const DEFINITION = /^ {0,3}\[([^\]\n]{1,200})\]:[ \t]*<?([^\s<>]{1,2000})>?([^\n]*)$/gm;
/**
 * Leaves nested brackets to `sanitize`, which removes every `![`. So this pattern is bounded, unambiguous and linear.
 */
const IMAGE = /!\[([^[\]\n]{0,1000})\](?:\(((?:[^()\n]|\([^()\n]{0,200}\)){0,2000})\)|\[[^[\]\n]{0,200}\])/g;
/** Only one place of the pattern matches white space at a time; two neighbours would make it quadratic. */
const LINK =
  /(?<!!)\[([^[\]\n]{1,500})\]\([ \t]*(?:<?((?:[^\s()<>]|\([^\s()]{0,200}\)){1,2000})>?((?:[ \t]+["'(][^\n]{0,500}?["')])?)[ \t]*)?\)/g;
/**
 * The placeholder for code while the rest is read as HTML. It is a noncharacter, and `normalise` removes all others.
 */
const PLACE = "\ufddf";
/** A page must not write one, either. A space in its place cannot make another. */
const PLACE_REFERENCE = /&#(?:x0*fddf|0*64991);?/gi;
const PLACED = /\ufddf(\d{1,7})\ufddf/g;

/** The visible part of rendered Markdown, still as Markdown: no comments, images, titles or hidden HTML. */
export function visibleMarkdown(markdown: string): VisibleText {
  const hidden: Hidden[] = [];
  const links: { text: string; url: string }[] = [];
  const hide = (technique: string, text: string | undefined) => {
    if (text !== undefined && /\S/.test(text)) hidden.push({ technique, text });
  };
  const code: string[] = [];
  const prose = markdown
    .replaceAll(PLACE, "")
    .replace(PLACE_REFERENCE, " ")
    .replace(CODE, (piece) => {
      code.push(piece);
      return `${PLACE}${code.length - 1}${PLACE}`;
    })
    .replace(HIDDEN_DEFINITION, (line) => {
      hide("comment", line);
      return "";
    })
    .replace(IMAGE, (_image, alt: string, target?: string) => {
      hide("image-alt", alt);
      hide("image-address", target);
      return "";
    })
    .replace(DEFINITION, (line, label: string, url: string, title: string) => {
      if (label.startsWith("^")) {
        // A footnote shows its whole text, which may be an address.
        if (/^https?:/i.test(url)) links.push({ text: label, url });
        return line;
      }
      hide("link-title", title);
      links.push({ text: label, url });
      return `[${label}]: ${url}`;
    })
    .replace(LINK, (_link, text: string, url = "", title?: string) => {
      hide("link-title", title);
      links.push({ text, url });
      return `[${text}](${url})`;
    })
    .replace(AUTOLINK, (_link, url: string) => {
      links.push({ text: url, url });
      return url;
    });
  const seen = visibleText(prose.replace(TAG_WITH_COMMENT, commentAfter), { keep_lines: true });
  const restored = (text: string) => text.replace(PLACED, (_place, index: string) => code[Number(index)] ?? "");
  return {
    text: restored(seen.text),
    hidden: [...hidden, ...seen.hidden].map(({ technique, text }) => ({ technique, text: restored(text) })),
    links: [...links, ...seen.links],
  };
}

function commentAfter(tag: string): string {
  return tag.endsWith(">") && !tag.endsWith("-->") ? `${tag}<!--` : tag;
}
