import { expect, it } from "vitest";
import { sparkPath } from "./Sparkline";

it("values fill the height, the lowest at the bottom", () => {
  expect(sparkPath([0, 10])).toBe("M2.0 18.0L70.0 2.0");
});

it("gaps and flat lines are fine", () => {
  expect(sparkPath([null, 5, null])).toBe("M36.0 10.0");
  expect(sparkPath([])).toBe("");
  expect(sparkPath([null])).toBe("");
});
