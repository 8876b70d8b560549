/** Where an episode comes from, as a word in the URL: `replay:NAME`, `checkpoint:NAME`, `step:N` or `newest`. */
import type { PlayRequest } from "../../api/types";

export type Source =
  | { kind: "replay"; name: string }
  | { kind: "checkpoint"; name: string }
  | { kind: "step"; step: number }
  | { kind: "newest" };

export function parseSource(text: string): Source | null {
  const [kind, rest] = [text.split(":", 1)[0]!, text.slice(text.indexOf(":") + 1)];
  if (text === "newest") return { kind: "newest" };
  if (!text.includes(":") || rest === "") return null;
  if (kind === "replay" || kind === "checkpoint") return { kind, name: rest };
  if (kind === "step" && /^\d+$/.test(rest)) return { kind, step: Number(rest) };
  return null;
}

export interface How {
  seed: string;
  index: number;
  stochastic: boolean;
  /** Options of the env, as `key=value` with spaces or commas between. */
  options: string;
}

export function parseOptions(text: string): Record<string, boolean | number | string> {
  const options: Record<string, boolean | number | string> = {};
  for (const word of text.split(/[\s,]+/)) {
    const at = word.indexOf("=");
    if (at <= 0) continue;
    const value = word.slice(at + 1);
    const number = Number(value);
    options[word.slice(0, at)] =
      value === "true" || value === "false"
        ? value === "true"
        : value !== "" && Number.isFinite(number)
          ? number
          : value;
  }
  return options;
}

/** The episode that the server is asked to play. */
export function playRequest(source: Source, { options, ...how }: How): PlayRequest {
  const which =
    source.kind === "step"
      ? { step: source.step }
      : { checkpoint: source.kind === "newest" ? "newest" : source.kind === "checkpoint" ? source.name : "best" };
  const changed = parseOptions(options);
  return { ...which, ...how, ...(Object.keys(changed).length ? { options: changed } : {}) };
}
