import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunRow, RunsPage, SeriesEntry } from "../api/types";
import { appendPoints, type LivePoint, mergeRow, retryDelay, rewindSeries, updateRows, withoutRow } from "./reducer";

const row = (id: string, steps = 0): RunRow => ({
  id,
  number: 1,
  name: id,
  env: "cartpole",
  seed: "18446744073709551615",
  status: "running",
  ended: null,
  created: 0,
  seen: 0,
  seconds: 0,
  steps,
  limit: null,
  iterations: 0,
  episodes: 0,
  return_recent: null,
  best: null,
  steps_per_second: null,
  host: "here",
  sparkline: [1, 2],
  tags: [],
  note: "",
  pinned: false,
  hidden: false,
  values: ["kept"],
});
const page = (...runs: RunRow[]): RunsPage => ({
  runs,
  total: runs.length,
  cursor: null,
  stale: false,
  columns: ["k"],
});

const series = (steps: number[]): SeriesEntry => ({
  run: "a",
  runs: ["a"],
  label: "a",
  metric: "return_recent",
  raw: true,
  total: steps.length,
  first: steps,
  last: steps,
  low: steps,
  high: steps,
  mean: steps,
  count: steps.map(() => 1),
  smooth: null,
  n: null,
  joined: null,
});
const increasing = fc
  .uniqueArray(fc.integer({ min: 0, max: 10_000 }), { maxLength: 60 })
  .map((values) => values.sort((a, b) => a - b));

describe("rows", () => {
  it("change in place and keep what events do not carry", () => {
    const { page: after, unknown } = updateRows(page(row("a"), row("b")), [
      { ...row("b", 7), values: [], sparkline: [] },
      row("new"),
    ]);
    expect(after.runs.map((run) => [run.id, run.steps])).toEqual([
      ["a", 0],
      ["b", 7],
    ]);
    expect(after.runs[1]!.values).toEqual(["kept"]);
    expect(after.runs[1]!.sparkline).toEqual([1, 2]);
    expect(unknown).toEqual(["new"]);
  });

  it("stay the same object when nothing changed", () => {
    const before = page(row("a"));
    expect(updateRows(before, [row("z")]).page).toBe(before);
    expect(withoutRow(before, "z")).toBe(before);
  });

  it("disappear when a run is deleted", () => {
    expect(withoutRow(page(row("a"), row("b")), "a")).toMatchObject({ total: 1, runs: [{ id: "b" }] });
  });

  it("take a new sparkline if there is one", () => {
    expect(mergeRow(row("a"), { ...row("a"), sparkline: [5] }).sparkline).toEqual([5]);
  });
});

describe("points", () => {
  it("arrive once, however often and in whatever portions they are sent", () => {
    fc.assert(
      fc.property(increasing, fc.array(fc.nat()), (steps, cuts) => {
        const points = steps.map((step): LivePoint => [step, step / 10, step * 2]);
        let entry = series([]);
        for (const cut of [...cuts, steps.length]) {
          entry = appendPoints(entry, points.slice(0, cut), "step");
          entry = appendPoints(entry, points.slice(0, cut), "step");
        }
        expect(entry.last).toEqual(steps);
        expect(entry.mean).toEqual(steps.map((step) => step * 2));
        expect(entry.total).toBe(steps.length);
      }),
    );
  });

  it("behind a step are gone after a rewind, and columns stay equally long", () => {
    fc.assert(
      fc.property(increasing, fc.nat(10_000), (steps, at) => {
        const entry = rewindSeries(series(steps), at);
        const expected = steps.filter((step) => step <= at);
        expect(entry.last).toEqual(expected);
        expect(entry.total).toBe(expected.length);
        for (const column of [entry.first, entry.low, entry.high, entry.mean, entry.count]) {
          expect(column).toHaveLength(expected.length);
        }
      }),
    );
  });

  it("that were not finite are left out", () => {
    expect(appendPoints(series([1]), [[2, 2, null]], "step").total).toBe(1);
  });
});

it("attempts to reconnect wait longer and longer, up to ten seconds", () => {
  expect([0, 1, 2, 3, 99].map((attempt) => retryDelay(attempt, 0.5))).toEqual([1000, 2000, 5000, 10_000, 10_000]);
  expect(retryDelay(0, 0)).toBe(800);
  expect(retryDelay(0, 1)).toBe(1200);
});
