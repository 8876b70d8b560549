/** Writes live events into the query cache, and refetches what events cannot carry. */
import type { QueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import type { RunDetail, RunRow, RunsPage, SeriesEntry } from "../api/types";
import type { XAxis } from "../state/url";
import { appendPoints, type LivePoint, mergeRow, rewindSeries, updateRows, withoutRow } from "./reducer";
import { type LiveEvent, stream } from "./stream";

// Buckets of a series that grew by this many points are computed again.
const MOST_POINTS = 2000;
const PACE = 2000;

type Pages = { pages: RunsPage[]; pageParams: unknown[] };
interface SeriesQuery {
  x: XAxis;
  smooth: number | null;
  to: number | null;
  group: string | null;
}

export interface VerifyProgress {
  run: string;
  fraction: number | null;
  what: string;
  done: boolean;
  identical: boolean | null;
}

/** Values that arrive by events only: no request returns them. */
class Box<T> {
  private value: T;
  private readonly listeners = new Set<() => void>();
  constructor(start: T) {
    this.value = start;
  }
  readonly get = (): T => this.value;
  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
  set(value: T): void {
    this.value = value;
    for (const listener of this.listeners) listener();
  }
}

const newRuns = new Box<readonly string[]>([]);
const verifications = new Box<Readonly<Record<string, VerifyProgress>>>({});
const policies = new Box<Readonly<Record<string, number>>>({});
const serverVersion = new Box<string | null>(null);

/** Runs that began since the list was loaded. */
export const useNewRuns = () => useSyncExternalStore(newRuns.subscribe, newRuns.get);
export const clearNewRuns = () => newRuns.set([]);
export const useVerification = (run: string): VerifyProgress | undefined =>
  useSyncExternalStore(verifications.subscribe, verifications.get)[run];
export const startVerification = (run: string) =>
  verifications.set({
    ...verifications.get(),
    [run]: { run, fraction: 0, what: "starting", done: false, identical: null },
  });
export const forgetVerification = (run: string) => {
  const { [run]: _, ...rest } = verifications.get();
  verifications.set(rest);
};
/** The step of the newest policy that a running run has left. */
export const useNewestPolicy = (run: string): number | undefined =>
  useSyncExternalStore(policies.subscribe, policies.get)[run];
export const useStreamState = () => useSyncExternalStore(stream.subscribeState, stream.getState);
export const useServerVersion = () => useSyncExternalStore(serverVersion.subscribe, serverVersion.get);

/** Ask for the points and other details of some runs while a page shows them. */
export function useLiveRuns(runs: readonly string[]): void {
  const key = runs.join(",");
  useEffect(() => {
    stream.want(key ? key.split(",").map((run) => `run:${run}`) : []);
    return () => stream.want([]);
  }, [key]);
}

export function connect(client: QueryClient): void {
  const later = new Map<string, ReturnType<typeof setTimeout>>();
  /** At most one refetch of a kind every two seconds, however many events ask for one. */
  const refresh = (...key: unknown[]) => {
    const name = JSON.stringify(key);
    if (later.has(name)) return;
    later.set(
      name,
      setTimeout(() => {
        later.delete(name);
        void client.invalidateQueries({ queryKey: key });
      }, PACE),
    );
  };
  const refreshSeries = (run: string, metrics?: Set<string>) => {
    for (const query of client.getQueryCache().findAll({ queryKey: ["series"], type: "active" })) {
      const [, runs, metric] = query.queryKey as [string, string, string];
      if (runs.split(",").includes(run) && (metrics?.has(metric) ?? true)) refresh("series", runs, metric);
    }
  };

  const changeSeries = (run: string, change: (entry: SeriesEntry, query: SeriesQuery) => SeriesEntry | null) => {
    for (const query of client.getQueryCache().findAll({ queryKey: ["series"] })) {
      const [, runs, metric, settings] = query.queryKey as [string, string, string, SeriesQuery];
      if (!runs.split(",").includes(run)) continue;
      client.setQueryData<SeriesEntry[]>(query.queryKey, (entries) => {
        if (entries === undefined) return undefined;
        let touched = false;
        const next = entries.map((entry) => {
          if (!entry.runs.includes(run)) return entry;
          const changed = change(entry, settings);
          if (changed === null) refresh("series", runs, metric);
          if (changed === null || changed === entry) return entry;
          touched = true;
          return changed;
        });
        return touched ? next : entries;
      });
    }
  };

  const onRuns = (rows: RunRow[]) => {
    let unknown = rows.map((row) => row.id);
    for (const query of client.getQueryCache().findAll({ queryKey: ["runs"] })) {
      client.setQueryData<Pages>(query.queryKey, (data) => {
        if (data === undefined) return undefined;
        let touched = false;
        const pages = data.pages.map((page) => {
          const result = updateRows(page, rows);
          unknown = unknown.filter((id) => result.unknown.includes(id));
          touched ||= result.page !== page;
          return result.page;
        });
        return touched ? { ...data, pages } : data;
      });
    }
    const fresh = unknown.filter((id) => !newRuns.get().includes(id));
    if (fresh.length) newRuns.set([...newRuns.get(), ...fresh]);
    for (const row of rows) {
      const before = client.getQueryData<RunDetail>(["run", row.id]);
      if (before === undefined) continue;
      client.setQueryData<RunDetail>(["run", row.id], mergeRow(before, row));
      // Commands, time left and the best evaluation are not part of a row.
      refresh("run", row.id);
    }
    refresh("groups");
  };

  const onPoints = (run: string, points: Record<string, LivePoint[]>) => {
    changeSeries(run, (entry, query) => {
      const fresh = points[entry.metric];
      if (fresh === undefined || query.to !== null) return entry;
      const isExact = (query.x === "step" || query.x === "time") && !query.smooth && !query.group && !document.hidden;
      if (!isExact || entry.first.length > MOST_POINTS) return null;
      return appendPoints(entry, fresh, query.x === "time" ? "time" : "step");
    });
    // A metric that appears for the first time has no chart yet.
    const known = client.getQueryData<{ metrics: { name: string }[] }>(["metrics", run]);
    if (known && Object.keys(points).some((name) => !known.metrics.some((metric) => metric.name === name))) {
      refresh("metrics", run);
    }
  };

  stream.onEvent(({ type, data }: LiveEvent) => {
    const run = String(data.run ?? "");
    switch (type) {
      case "hello":
        serverVersion.set(String(data.version));
        // What was recorded between loading a page and the start of its stream.
        for (const query of client.getQueryCache().findAll({ queryKey: ["series"], type: "active" })) {
          refresh("series", query.queryKey[1]);
        }
        break;
      case "runs":
        onRuns(data.runs as RunRow[]);
        break;
      case "points":
        onPoints(run, data.points as Record<string, LivePoint[]>);
        break;
      case "reload":
        refreshSeries(run, new Set(data.metrics as string[]));
        break;
      case "rewind":
        changeSeries(run, (entry, query) =>
          query.x === "step" && !query.group ? rewindSeries(entry, Number(data.step)) : null,
        );
        for (const part of ["events", "evaluations", "checkpoints", "run"]) refresh(part, run);
        break;
      case "evaluation":
        refresh("evaluations", run);
        refreshSeries(run, new Set(["evaluation.mean"]));
        break;
      case "checkpoint":
        refresh("checkpoints", run);
        break;
      case "replay":
        refresh("replays", run);
        break;
      case "resources":
        refresh("resources", run);
        break;
      case "alert":
        refresh("alerts");
        refresh("events", run);
        refresh("status");
        break;
      case "event":
        refresh("events", run);
        break;
      case "store":
        void client.invalidateQueries({ queryKey: ["status"] });
        break;
      case "verify":
        verifications.set({ ...verifications.get(), [run]: data as unknown as VerifyProgress });
        if (data.done) {
          refresh("run", run);
          refresh("events", run);
        }
        break;
      case "policy":
        policies.set({ ...policies.get(), [run]: Number(data.step) });
        break;
      case "deleted":
        for (const query of client.getQueryCache().findAll({ queryKey: ["runs"] })) {
          client.setQueryData<Pages>(
            query.queryKey,
            (pages) => pages && { ...pages, pages: pages.pages.map((page) => withoutRow(page, run)) },
          );
        }
        refresh("groups");
        break;
      case "reset":
        // Events were missed: everything that is shown is loaded again.
        void client.invalidateQueries();
        break;
    }
  });
  stream.start();
}
