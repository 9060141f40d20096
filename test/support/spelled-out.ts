/** The texts that a text contains in base64, hex, ROT13 or backwards, because an obedient model also decodes them. */
export function decodedRuns(text: string): string[] {
  const runs = [
    ...(text.match(/[A-Za-z0-9+/_-]{24,4000}={0,2}/g) ?? []).map((run) => Buffer.from(run, "base64").toString()),
    ...(text.match(/(?:[0-9a-f]{2}[ :]?){12,2000}/gi) ?? []).map((run) =>
      Buffer.from(run.replaceAll(/[ :]/g, ""), "hex").toString(),
    ),
  ].filter((run) => /^[\x20-\x7e\s]{8,}$/.test(run));
  const backwards = [...text.slice(0, 20_000)].reverse().join("");
  const rotated = text.slice(0, 20_000).replaceAll(/[a-z]/gi, (letter) => {
    const base = letter < "a" ? 65 : 97;
    return String.fromCharCode(((letter.charCodeAt(0) - base + 13) % 26) + base);
  });
  return [...runs, ...[backwards, rotated].filter((each) => /https?:\/\//.test(each))];
}
