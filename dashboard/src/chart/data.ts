/** Series as charts, tables and CSV need them. Pure functions. */
import type { SeriesEntry } from "../api/types";

export interface Reading {
  x: number;
  mean: number;
  low: number | null;
  high: number | null;
  count: number;
  n: number | null;
}

/** The bucket nearest to x; nothing outside of the series. */
export function readingAt(entry: SeriesEntry, x: number): Reading | null {
  const at = nearest(entry.last, x);
  if (at < 0) return null;
  // A run that ended earlier has no value here.
  const reach = entry.last.length > 1 ? (entry.last.at(-1)! - entry.first[0]!) / 50 : 0;
  if (x < entry.first[0]! - reach || x > entry.last.at(-1)! + reach) return null;
  const mean = entry.smooth?.[at] ?? entry.mean[at];
  if (mean === null || mean === undefined) return null;
  return {
    x: entry.last[at]!,
    mean,
    low: entry.low[at] ?? null,
    high: entry.high[at] ?? null,
    count: entry.count[at] ?? 1,
    n: entry.n?.[at] ?? null,
  };
}

/** Index of the value nearest to x in an increasing list; -1 if it is empty. */
export function nearest(values: readonly number[], x: number): number {
  let low = 0;
  let high = values.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - values[low - 1]! <= values[low]! - x ? low - 1 : low;
}

export const hasBand = (entry: SeriesEntry): boolean => !entry.raw || entry.n !== null;

/** The range of y in which the middle 96 % of the values are. */
export function rangeWithoutOutliers(entries: readonly SeriesEntry[]): [number, number] | null {
  const values = entries
    .flatMap((entry) => entry.mean)
    .filter((value): value is number => value !== null)
    .sort((a, b) => a - b);
  if (values.length < 10) return null;
  const low = values[Math.floor(values.length * 0.02)]!;
  const high = values[Math.ceil(values.length * 0.98) - 1]!;
  return low < high ? [low, high] : null;
}

/** A cell of CSV. Spreadsheets execute cells that begin like a formula: those are quoted. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function toCsv(header: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [header, ...rows]
    .map((row) => row.map(cell).join(","))
    .join("\n")
    .concat("\n");
}

export const SERIES_HEADER = ["series", "metric", "x_first", "x_last", "mean", "low", "high", "count", "smooth", "n"];

/** The content of a chart, row by row. */
export function seriesRows(entries: readonly SeriesEntry[]): unknown[][] {
  return entries.flatMap((entry) =>
    entry.last.map((last, at) => [
      entry.label,
      entry.metric,
      entry.first[at],
      last,
      entry.mean[at],
      entry.low[at],
      entry.high[at],
      entry.count[at],
      entry.smooth?.[at] ?? null,
      entry.n?.[at] ?? null,
    ]),
  );
}
