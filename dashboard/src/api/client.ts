/** Requests to the server. Errors carry the server's own sentence. */
import type {
  Alert,
  Checkpoint,
  Comparison,
  Evaluation,
  Frames,
  Group,
  JobDetails,
  JobPage,
  Keys,
  Metric,
  PerformanceGroup,
  PlayRequest,
  ReplayEntry,
  Resource,
  RunDetail,
  RunEvent,
  RunsPage,
  SeriesAnswer,
  Status,
  Sweep,
  Trial,
} from "./types";

export type JobAction = "cancel" | "pause" | "resume" | "retry";

const PREFIX = "/api/rl";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    /** Names close to one that does not exist, or the runs that an ambiguous name fits. */
    readonly near: string[] = [],
  ) {
    super(detail);
  }
}

type Parameter = string | number | boolean | null | undefined | readonly string[];
export type Query = Record<string, Parameter>;

/** The query of a URL; empty values are left out, lists repeat their key. */
export function queryString(query: Query): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    if (typeof value === "object") for (const item of value) search.append(key, item);
    else search.append(key, String(value));
  }
  const text = search.toString();
  return text && `?${text}`;
}

async function request<T>(method: string, path: string, options: { body?: unknown; signal?: AbortSignal } = {}) {
  let response: Response;
  try {
    response = await fetch(PREFIX + path, {
      method,
      signal: options.signal ?? null,
      ...(method === "GET"
        ? {}
        : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(options.body ?? {}) }),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is `hotloop serve` still running?");
  }
  if (!response.ok) throw await problem(response);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

async function problem(response: Response): Promise<ApiError> {
  try {
    const body = await response.json();
    const near = Array.isArray(body.near) ? body.near.map(String) : [];
    return new ApiError(response.status, String(body.detail || body.title), near);
  } catch {
    return new ApiError(response.status, `The server answered ${response.status} ${response.statusText}.`);
  }
}

const get = <T>(path: string, query: Query = {}, signal?: AbortSignal) =>
  request<T>("GET", path + queryString(query), signal ? { signal } : {});

const ofRun = (run: string, part = "") => `/runs/${encodeURIComponent(run)}${part}`;

export const api = {
  status: (signal?: AbortSignal) => get<Status>("/status", {}, signal),
  runs: (query: Query, signal?: AbortSignal) => get<RunsPage>("/runs", query, signal),
  keys: () => get<Keys>("/keys"),
  groups: (query: Query, signal?: AbortSignal) => get<{ groups: Group[] }>("/groups", query, signal),
  run: (run: string, signal?: AbortSignal) => get<RunDetail>(ofRun(run), {}, signal),
  metrics: (run: string, signal?: AbortSignal) =>
    get<{ metrics: Metric[] }>(ofRun(run, "/metrics"), { brief: true }, signal),
  series: (query: Query, signal?: AbortSignal) => get<SeriesAnswer>("/series", query, signal),
  evaluations: (run: string) => get<{ evaluations: Evaluation[] }>(ofRun(run, "/evaluations"), { limit: 500 }),
  checkpoints: (run: string) => get<{ checkpoints: Checkpoint[] }>(ofRun(run, "/checkpoints"), { limit: 500 }),
  events: (run: string) => get<{ events: RunEvent[] }>(ofRun(run, "/events"), { limit: 500 }),
  resources: (run: string) => get<{ resources: Resource[] }>(ofRun(run, "/resources")),
  compare: (query: Query, signal?: AbortSignal) => get<Comparison>("/compare", query, signal),
  replays: (run: string) => get<{ replays: ReplayEntry[]; folder_here: boolean }>(ofRun(run, "/replays")),
  replay: (run: string, name: string, signal?: AbortSignal) =>
    get<Frames>(ofRun(run, `/replays/${encodeURIComponent(name)}/frames`), {}, signal),
  play: (run: string, body: PlayRequest, signal?: AbortSignal) =>
    request<Frames>("POST", ofRun(run, "/play"), signal ? { body, signal } : { body }),
  stop: (run: string) => request<unknown>("POST", ofRun(run, "/stop")),
  verify: (run: string) => request<unknown>("POST", ofRun(run, "/verify")),
  mark: (run: string, body: { tags?: string[]; note?: string; pinned?: boolean; hidden?: boolean }) =>
    request<RunDetail>("PATCH", ofRun(run), { body }),
  remove: (run: string) => request<void>("DELETE", ofRun(run)),
  alerts: () => get<{ alerts: Alert[]; unseen: number }>("/alerts"),
  alertSeen: (number: number) => request<void>("POST", `/alerts/${number}/seen`),
  performance: () => get<{ groups: PerformanceGroup[] }>("/performance/summary"),
  sweeps: (signal?: AbortSignal) => get<{ sweeps: Sweep[]; next: number | null }>("/sweeps", {}, signal),
  sweep: (name: string, signal?: AbortSignal) => get<Sweep>(`/sweeps/${encodeURIComponent(name)}`, {}, signal),
  trials: (name: string, sort: string, signal?: AbortSignal) =>
    get<{ trials: Trial[]; total: number }>(
      `/sweeps/${encodeURIComponent(name)}/trials`,
      { sort, limit: 1000 },
      signal,
    ),
  jobs: (query: Query, signal?: AbortSignal) => get<JobPage>("/jobs", query, signal),
  job: (number: number, signal?: AbortSignal) => get<JobDetails>(`/jobs/${number}`, {}, signal),
  changeJob: (number: number, action: JobAction) => request<unknown>("POST", `/jobs/${number}/${action}`),
  signIn: (body: { token: string }) => request<void>("POST", "/session", { body }),
};

export const exportUrl = (query: Query) => `${PREFIX}/export${queryString(query)}`;
export const replayFileUrl = (run: string, name: string) =>
  `${PREFIX}${ofRun(run, `/replays/${encodeURIComponent(name)}`)}`;
