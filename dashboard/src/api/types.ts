/** The JSON of the server. */
export interface Status {
  version: string;
  store: { url: string; away_since: number | null; bytes: number | null; lag: number | null };
  runs: Record<string, number>;
  adapters: string[];
  machine: {
    host: string;
    cores: number;
    memory: number;
    cpu: number | null;
    memory_used: number | null;
    disk_free: number | null;
    disk_total: number | null;
    gpus: { name: string; memory: number | null; memory_used: number | null; utilisation: number | null }[];
  };
  streams: number;
  read_only: boolean;
  can_write: boolean;
  server: { started: number; cpu: number | null; memory: number | null; port: number };
  alerts_unseen: number;
}
export type RunStatus = "running" | "completed" | "stopped" | "failed" | "gone";
export type Value = string | number | boolean | null;
export interface RunRow {
  id: string;
  number: number;
  name: string;
  env: string;
  seed: string;
  status: RunStatus;
  ended: string | null;
  created: number;
  seen: number;
  seconds: number;
  steps: number;
  limit: number | null;
  iterations: number;
  episodes: number;
  return_recent: number | null;
  best: number | null;
  steps_per_second: number | null;
  host: string;
  sparkline: (number | null)[];
  tags: string[];
  note: string;
  pinned: boolean;
  hidden: boolean;
  values: Value[];
}
export interface RunsPage {
  runs: RunRow[];
  total: number;
  cursor: string | null;
  stale: boolean;
  columns: string[];
}
export interface Keys {
  columns: string[];
  settings: string[];
  metrics: string[];
}
export interface Statistic {
  mean: number;
  std: number | null;
  n: number;
  low: number | null;
  high: number | null;
}
export interface Group {
  label: string;
  env: string;
  runs: string[];
  settings: Record<string, unknown>;
  metrics: Record<string, Statistic>;
}
export interface Evaluation {
  number: number;
  step: number;
  time: number;
  source: string;
  mean: number | null;
  low: number | null;
  high: number | null;
  episodes: number;
  is_best: boolean;
  metrics: Record<string, number | null>;
}
export interface Verification {
  time: number;
  host: string;
  version: string;
  identical: boolean;
  records: number;
  what: string;
}
export interface RunDetail extends RunRow {
  path: string | null;
  folder_here: boolean;
  process: number;
  config: Record<string, Record<string, unknown>>;
  changed: { key: string; value: unknown; default: unknown }[];
  facts: Record<string, unknown>;
  best_evaluation: Evaluation | null;
  learner: string;
  learner_reason: string | null;
  commands: { resume: string; eval: string; play: string; verify: string; plot: string; show: string };
  seconds_left: number | null;
  exact: boolean;
  inexact_reason: string | null;
  can_stop: boolean;
  verifications: Verification[];
}
export interface Metric {
  name: string;
  last: number | null;
  lowest: number | null;
  highest: number | null;
  count: number;
}
export interface SeriesEntry {
  run: string | null;
  runs: string[];
  label: string;
  metric: string;
  raw: boolean;
  total: number;
  first: number[];
  last: number[];
  low: (number | null)[];
  high: (number | null)[];
  mean: (number | null)[];
  count: number[];
  smooth: (number | null)[] | null;
  n: number[] | null;
  joined: "step" | "record" | "interpolated" | null;
}
export interface SeriesAnswer {
  x: string;
  series: SeriesEntry[];
}
export interface Checkpoint {
  name: string;
  step: number;
  time: number;
  is_best: boolean;
  exists: boolean;
  bytes: number | null;
  policy_only: boolean;
}
export interface RunEvent {
  number: number;
  step: number;
  time: number;
  kind: string;
  level: string;
  what: string;
  facts: Record<string, unknown>;
}
export interface Resource {
  who: string;
  time: number[];
  step: number[];
  cpu: (number | null)[];
  memory: (number | null)[];
  facts: Record<string, unknown>;
}
export interface Compare {
  runs: { id: string; name: string }[];
  settings: { key: string; values: unknown[] }[];
  results: {
    label: string;
    runs: string[];
    mean: number | null;
    low: number | null;
    high: number | null;
    n: number;
  }[];
  probabilities: (number | null)[][];
  first_difference: { step: number | null; metrics: { name: string; values: (number | null)[] }[] } | null;
  changes: { metric: string; step: number; before: number; after: number; score: number; run: string }[];
  events: (RunEvent & { run: string })[];
}
export interface ReplayEntry {
  name: string;
  return: number;
  steps: number;
  seed: string;
  index: number;
  step: number | null;
  time: number | null;
  bytes: number;
  note: string | null;
}
export type Point = [number, number];
export type Colour = [number, number, number];
export type Shape =
  | ["line", Point[], number, Colour]
  | ["disc", Point, number, Colour]
  | ["polygon", Point[], Colour]
  | ["label", Point, string, number, Colour];
export interface Frames {
  env: string;
  seats: number;
  seed: string;
  index: number;
  steps: number;
  pace: number;
  bounds: [number, number, number, number] | null;
  paper: Colour;
  shapes: Shape[];
  frames: number[][];
  texts: string[] | null;
  state: Record<string, unknown>[] | null;
  actions: unknown[][];
  action_names: string[];
  action_texts: string[][];
  rewards: number[][];
  returns: number[][];
  values: (number | null)[][] | null;
  probabilities: (number[] | null)[][] | null;
  seat_at: Point[][] | null;
  seat_policies: string[] | null;
  title: string;
  checked: boolean;
  ended: string | null;
  source: {
    kind: "replay" | "exact" | "checkpoint" | "newest";
    step: number | null;
    checkpoint_step: number | null;
    note: string | null;
  };
}
export interface PlayRequest {
  step?: number;
  checkpoint?: string;
  seed?: string;
  index?: number;
  stochastic?: boolean;
}
export interface Alert extends RunEvent {
  run: string;
  run_name: string;
  env: string;
  seen: boolean;
}
export interface PerformanceGroup {
  env: string;
  learner: string;
  version: string;
  runs: number;
  steps_per_second: number;
  best_steps_per_second: number;
  cores: number | null;
  split: Record<string, number>;
}
/** The data inside a report written by `hotloop runs report --html`. */
export interface ReportData {
  version: string;
  created: number;
  runs: RunDetail[];
  series: SeriesEntry[];
  evaluations: Record<string, Evaluation[]>;
  events: Record<string, RunEvent[]>;
  settings: { key: string; values: unknown[] }[];
  replays: { run: string; name: string; frames: Frames }[];
}
