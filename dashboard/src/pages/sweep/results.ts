/** Which trials stand out. Trials are in the order of their numbers. */
import type { Trial } from "../../api/types";

/** A trial's result: over fresh seeds where it was confirmed. */
export const scoreOf = (trial: Pick<Trial, "value" | "confirmed">): number | null => trial.confirmed ?? trial.value;

/** Indices of the trials that were better than all before them, by the results that the search saw. */
export function bestSoFar(trials: readonly Pick<Trial, "value">[]): number[] {
  const found: number[] = [];
  let best = Number.NEGATIVE_INFINITY;
  trials.forEach(({ value }, index) => {
    if (value !== null && value > best) {
      best = value;
      found.push(index);
    }
  });
  return found;
}

/** Indices of the trials that no cheaper one equals or beats, by cost. */
export function paretoFront(trials: readonly Pick<Trial, "value" | "confirmed" | "cost">[]): number[] {
  const scored = trials.flatMap((trial, index) => {
    const score = scoreOf(trial);
    return score === null ? [] : [{ index, score, cost: trial.cost }];
  });
  scored.sort((a, b) => a.cost - b.cost || b.score - a.score);
  let best = Number.NEGATIVE_INFINITY;
  return scored.flatMap(({ index, score }) => {
    if (score <= best) return [];
    best = score;
    return [index];
  });
}
