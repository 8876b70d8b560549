/** Effects of the server's events on the data that pages hold. Pure: the stream itself is in `stream.ts`. */
import type { RunRow, RunsPage, SeriesEntry } from "../api/types";

export type LivePoint = [step: number, time: number, value: number | null];

/** Changed rows replaced in place: rows never move by themselves. Also returns how many rows the page lacks. */
export function updateRows(page: RunsPage, changed: readonly RunRow[]): { page: RunsPage; unknown: string[] } {
  const byId = new Map(changed.map((row) => [row.id, row]));
  let touched = false;
  const runs = page.runs.map((row) => {
    const next = byId.get(row.id);
    if (next === undefined) return row;
    byId.delete(row.id);
    touched = true;
    return mergeRow(row, next);
  });
  return { page: touched ? { ...page, runs } : page, unknown: [...byId.keys()] };
}

/** The event's values over those of the row; columns that were asked for stay, and a sparkline that events leave out. */
export function mergeRow<T extends RunRow>(row: T, next: RunRow): T {
  return { ...row, ...next, values: row.values, sparkline: next.sparkline.length ? next.sparkline : row.sparkline };
}

export const withoutRow = (page: RunsPage, id: string): RunsPage =>
  page.runs.some((row) => row.id === id)
    ? { ...page, runs: page.runs.filter((row) => row.id !== id), total: page.total - 1 }
    : page;

/**
 * Points added behind the last one; points that the series has already are skipped, so an event may come twice.
 */
export function appendPoints(entry: SeriesEntry, points: readonly LivePoint[], x: "step" | "time"): SeriesEntry {
  const end = entry.last.at(-1) ?? -Infinity;
  const fresh = points.filter((point) => (x === "step" ? point[0] : point[1]) > end && point[2] !== null);
  if (fresh.length === 0) return entry;
  const along = fresh.map((point) => (x === "step" ? point[0] : point[1]));
  const values = fresh.map((point) => point[2]);
  return {
    ...entry,
    total: entry.total + fresh.length,
    first: [...entry.first, ...along],
    last: [...entry.last, ...along],
    low: [...entry.low, ...values],
    high: [...entry.high, ...values],
    mean: [...entry.mean, ...values],
    count: [...entry.count, ...fresh.map(() => 1)],
  };
}

/** Everything behind a step removed, after a resume or a rollback. */
export function rewindSeries(entry: SeriesEntry, step: number): SeriesEntry {
  const kept = entry.last.findIndex((last) => last > step);
  if (kept < 0) return entry;
  return {
    ...entry,
    total: entry.count.slice(0, kept).reduce((sum, count) => sum + count, 0),
    first: entry.first.slice(0, kept),
    last: entry.last.slice(0, kept),
    low: entry.low.slice(0, kept),
    high: entry.high.slice(0, kept),
    mean: entry.mean.slice(0, kept),
    count: entry.count.slice(0, kept),
    smooth: entry.smooth?.slice(0, kept) ?? null,
    n: entry.n?.slice(0, kept) ?? null,
  };
}

/** Milliseconds before the next attempt to connect: 1, 2, 5, then 10 seconds, give or take a fifth. */
export function retryDelay(attempt: number, random: number): number {
  const base = [1000, 2000, 5000][attempt] ?? 10_000;
  return Math.round(base * (0.8 + 0.4 * random));
}
