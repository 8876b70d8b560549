import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SeriesEntry } from "../api/types";
import { cell, hasBand, nearest, rangeWithoutOutliers, readingAt, seriesRows, toCsv } from "./data";

const entry = (x: number[], mean: (number | null)[], more: Partial<SeriesEntry> = {}): SeriesEntry => ({
  run: "a",
  runs: ["a"],
  label: "a",
  metric: "kl",
  raw: true,
  total: x.length,
  first: x,
  last: x,
  low: mean,
  high: mean,
  mean,
  count: x.map(() => 1),
  smooth: null,
  n: null,
  joined: null,
  ...more,
});

it("the nearest value is the one a linear search finds", () => {
  const sorted = fc.uniqueArray(fc.integer(), { minLength: 1 }).map((values) => values.sort((a, b) => a - b));
  fc.assert(
    fc.property(sorted, fc.integer(), (values, x) => {
      const found = values[nearest(values, x)]!;
      expect(Math.abs(found - x)).toBe(Math.min(...values.map((value) => Math.abs(value - x))));
    }),
  );
  expect(nearest([], 1)).toBe(-1);
});

describe("a reading", () => {
  it("is the bucket under the crosshair with its extremes", () => {
    const bucketed = entry([10, 20, 30], [1, 2, 3], { raw: false, low: [0, 1, 2], high: [2, 3, 9], count: [4, 4, 5] });
    expect(readingAt(bucketed, 29)).toEqual({ x: 30, mean: 3, low: 2, high: 9, count: 5, n: null });
  });

  it("does not exist where a run has ended already", () => {
    expect(readingAt(entry([10, 20], [1, 2]), 1000)).toBeNull();
    expect(readingAt(entry([], []), 1)).toBeNull();
  });

  it("is the smoothed value where there is one", () => {
    expect(readingAt(entry([1, 2], [5, 9], { smooth: [5, 6] }), 2)?.mean).toBe(6);
  });
});

it("bands are drawn for buckets and groups only", () => {
  expect(hasBand(entry([1], [1]))).toBe(false);
  expect(hasBand(entry([1], [1], { raw: false }))).toBe(true);
  expect(hasBand(entry([1], [1], { n: [3] }))).toBe(true);
});

it("outliers are cut at both ends", () => {
  const values = [...Array.from({ length: 98 }, (_, index) => index), 1e9, -1e9];
  expect(rangeWithoutOutliers([entry(values, values)])).toEqual([1, 96]);
  expect(rangeWithoutOutliers([entry([1], [1])])).toBeNull();
});

describe("CSV", () => {
  it("quotes what a spreadsheet would execute", () => {
    for (const start of ["=", "+", "-", "@"]) expect(cell(`${start}cmd`)).toBe(`'${start}cmd`);
    expect(cell(-1.5)).toBe("-1.5");
  });

  it("can be read back", () => {
    expect(toCsv(["a", "b"], [['say "hi", now', null]])).toBe('a,b\n"say ""hi"", now",\n');
  });

  it("has one row per point that is shown", () => {
    const rows = seriesRows([entry([1, 2], [3, null]), entry([4], [5])]);
    expect(rows.map((row) => [row[3], row[4]])).toEqual([
      [1, 3],
      [2, null],
      [4, 5],
    ]);
  });
});
