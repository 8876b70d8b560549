import fc from "fast-check";
import { expect, it } from "vitest";
import { visibleRows } from "./rowWindow";

it("every row on the screen exists, and few others do", () => {
  fc.assert(
    fc.property(fc.nat(300_000), fc.integer({ min: 1, max: 2000 }), fc.nat(10_000), (top, height, count) => {
      const [start, end] = visibleRows(top, height, 28, count);
      expect(start).toBeGreaterThanOrEqual(0);
      expect(end).toBeLessThanOrEqual(count);
      expect(end - start).toBeLessThanOrEqual(Math.ceil(height / 28) + 22);
      const first = Math.floor(top / 28);
      if (first < count) expect(start <= first && first < end).toBe(true);
    }),
  );
});
