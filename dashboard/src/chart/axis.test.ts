import { expect, it } from "vitest";
import { plain } from "../ui/format";
import { toAxis } from "./axis";

it("numbers are placed by size", () => {
  expect(toAxis("clip", [0.1, 0.2, 0.3], plain).places.map((place) => place?.toFixed(2))).toEqual([
    "0.00",
    "0.50",
    "1.00",
  ]);
});

it("numbers over decades are placed by their logarithm", () => {
  expect(toAxis("rate", [0.0001, 0.01, 1], plain).places.map((place) => place?.toFixed(2))).toEqual([
    "0.00",
    "0.50",
    "1.00",
  ]);
});

it("words are placed in equal distances", () => {
  expect(toAxis("schedule", ["linear", "constant", "linear"], plain)).toMatchObject({
    places: [1, 0, 1],
    low: "constant",
    high: "linear",
  });
});

it("a run without a value has no place", () => {
  expect(toAxis("best", [1, null, 3], plain).places).toEqual([0, null, 1]);
});
