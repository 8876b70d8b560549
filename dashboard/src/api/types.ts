/** The JSON of the server, by short names; `schema.d.ts` is generated from its OpenAPI document (`npm run types`). */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Status = Schemas["ServerState"];
export type RunRow = Schemas["RunRow"];
export type RunStatus = RunRow["status"];
export type RunsPage = Schemas["RunPage"];
export type Keys = Schemas["Keys"];
export type Statistic = Schemas["Statistic"];
export type Group = Schemas["Group"];
export type Evaluation = Schemas["Evaluation"];
export type RunDetail = Schemas["RunDetail"];
export type RunPatch = Schemas["RunPatch"];
export type Metric = Schemas["Metric"];
export type SeriesEntry = Schemas["SeriesEntry"];
export type SeriesAnswer = Schemas["SeriesAnswer"];
export type Checkpoint = Schemas["CheckpointEntry"];
export type RunEvent = Schemas["RunEvent"];
export type Resource = Schemas["Resource"];
export type Comparison = Schemas["Comparison"];
export type ReplayEntry = Schemas["ReplayEntry"];
export type Alert = Schemas["Alert"];
export type PerformanceGroup = Schemas["PerformanceGroup"];
export type Sweep = Schemas["Sweep"];
export type Trial = Schemas["Trial"];
export type Job = Schemas["Job"];
export type JobPage = Schemas["JobPage"];
export type JobDetails = Schemas["JobDetails"];
export type JobEvent = Schemas["JobEvent"];
export type Frames = Schemas["Frames"];
export type Shape = Frames["shapes"][number];
export type Point = [number, number];
export type Colour = Frames["paper"];

/** The data inside a report written by `hotloop runs report --html`. */
export interface ReportData {
  version: string;
  created: number;
  runs: RunDetail[];
  series: SeriesEntry[];
  evaluations: Record<string, Evaluation[]>;
  events: Record<string, RunEvent[]>;
  settings: Comparison["settings"];
  replays: { run: string; name: string; frames: Frames }[];
}

/** An episode to play: of the policy at a step, or of a checkpoint. */
export type PlayRequest = Partial<Schemas["PlayRequest"]>;
