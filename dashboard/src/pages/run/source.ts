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

/** The episode that the server is asked to play. */
export function playRequest(source: Source, how: { seed: string; index: number; stochastic: boolean }): PlayRequest {
  const which =
    source.kind === "step"
      ? { step: source.step }
      : { checkpoint: source.kind === "newest" ? "newest" : source.kind === "checkpoint" ? source.name : "best" };
  return { ...which, ...how };
}
