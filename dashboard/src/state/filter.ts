/** The filter box: words of the command line's grammar (`hotloop runs --where`), the rest is text to look for. */

export interface Filter {
  where: string[];
  q: string;
}

const CONDITION = /^[\w.]+(!=|>=|<=|=|>|<)/;

/** Words of a text; quotes keep spaces together. */
export function words(text: string): string[] {
  return [...text.matchAll(/(?:[^\s"]|"[^"]*"?)+/g)].map(([word]) => word.replaceAll('"', ""));
}

export function parseFilter(text: string): Filter {
  const all = words(text);
  return {
    where: all.filter((word) => CONDITION.test(word)),
    q: all.filter((word) => !CONDITION.test(word)).join(" "),
  };
}

export function formatFilter({ where, q }: Filter): string {
  return [...where.map((condition) => (/\s/.test(condition) ? `"${condition}"` : condition)), q]
    .filter(Boolean)
    .join(" ");
}

/** Texts that complete the last word of the box. */
export function completions(text: string, keys: readonly string[]): string[] {
  const at = text.search(/\S*$/);
  const word = text.slice(at);
  if (CONDITION.test(word)) return [];
  return keys
    .filter((key) => key.toLowerCase().includes(word.toLowerCase()))
    .slice(0, 20)
    .map((key) => `${text.slice(0, at)}${key}=`);
}
