import fc from "fast-check";
import { expect, it } from "vitest";
import { advance } from "./clock";

it("time moves a replay at its pace", () => {
  expect(advance(10, 0.5, 20, 100, false)).toBe(20);
});

it("a replay stays at its end unless it loops", () => {
  expect(advance(99, 10, 20, 100, false)).toBe(100);
  expect(advance(99, 10, 20, 100, true)).toBe(0);
  expect(advance(100, 0.1, 20, 100, true)).toBeGreaterThan(100);
});

it("a frame is never negative and never far beyond the end", () => {
  const second = fc.double({ min: 0, max: 100, noNaN: true });
  fc.assert(
    fc.property(
      fc.nat(500),
      second,
      fc.double({ min: 0.1, max: 5000, noNaN: true }),
      fc.boolean(),
      (at, dt, pace, loop) => {
        const next = advance(Math.min(at, 500), dt, pace, 500, loop);
        expect(next).toBeGreaterThanOrEqual(0);
        expect(next).toBeLessThanOrEqual(500 + Math.max(pace * 0.6, 1));
      },
    ),
  );
});
