/** Series of charts. Charts that ask at the same moment share one request. */
import { useQuery } from "@tanstack/react-query";
import type { ChartView } from "../state/url";
import { api } from "./client";
import type { SeriesEntry } from "./types";

export interface SeriesRequest {
  runs: readonly string[];
  metric: string;
  view: ChartView;
  group?: string;
  stat?: string;
  band?: string;
}

// Run x metric that the server answers in one request.
const MOST = 200;
const POINTS = 600;

interface Waiting {
  runs: readonly string[];
  metric: string;
  resolve(series: SeriesEntry[]): void;
  reject(error: unknown): void;
}

const waiting = new Map<string, { query: Record<string, string | number | null>; requests: Waiting[] }>();

function common(request: SeriesRequest) {
  const { x, smooth, from, to } = request.view;
  return {
    x,
    smooth: smooth || null,
    from,
    to,
    points: POINTS,
    group: request.group ?? null,
    stat: request.stat ?? null,
    band: request.band ?? null,
  };
}

function load(request: SeriesRequest): Promise<SeriesEntry[]> {
  return new Promise((resolve, reject) => {
    const query = common(request);
    const key = JSON.stringify([query, request.runs]);
    let batch = waiting.get(key);
    if (batch === undefined) {
      batch = { query, requests: [] };
      waiting.set(key, batch);
      setTimeout(() => {
        waiting.delete(key);
        flush(batch!);
      }, 10);
    }
    batch.requests.push({ runs: request.runs, metric: request.metric, resolve, reject });
  });
}

function flush({ query, requests }: { query: Record<string, string | number | null>; requests: Waiting[] }): void {
  const runs = requests[0]!.runs;
  const size = Math.max(1, Math.floor(MOST / runs.length));
  for (let at = 0; at < requests.length; at += size) {
    const part = requests.slice(at, at + size);
    api
      .series({ ...query, run: runs, metric: part.map((request) => request.metric) })
      .then((answer) => {
        for (const { metric, resolve } of part) resolve(answer.series.filter((entry) => entry.metric === metric));
      })
      .catch((error: unknown) => {
        for (const { reject } of part) reject(error);
      });
  }
}

export const seriesKey = (request: SeriesRequest) =>
  ["series", request.runs.join(","), request.metric, common(request)] as const;

export function useSeries(request: SeriesRequest, enabled: boolean) {
  return useQuery({
    queryKey: seriesKey(request),
    queryFn: () => load(request),
    enabled: enabled && request.runs.length > 0,
    placeholderData: (previous, query) =>
      // While another window of the same chart loads, the old one stays.
      query?.queryKey[1] === request.runs.join(",") && query.queryKey[2] === request.metric ? previous : undefined,
  });
}
