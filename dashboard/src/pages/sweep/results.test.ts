import fc from "fast-check";
import { expect, it } from "vitest";
import { bestSoFar, paretoFront, scoreOf } from "./results";

const trial = fc.record({
  value: fc.option(fc.integer({ min: -5, max: 5 }), { nil: null }),
  confirmed: fc.option(fc.integer({ min: -5, max: 5 }), { nil: null }),
  cost: fc.integer({ min: 0, max: 5 }),
});

it("joins trials that rise, and ends at the highest result", () => {
  fc.assert(
    fc.property(fc.array(trial), (trials) => {
      const values = bestSoFar(trials).map((index) => trials[index]?.value as number);
      expect(values).toEqual([...new Set(values)].sort((a, b) => a - b));
      const all = trials.flatMap(({ value }) => (value === null ? [] : [value]));
      expect(values.at(-1)).toBe(all.length ? Math.max(...all) : undefined);
    }),
  );
});

it("keeps exactly the trials that no other dominates", () => {
  fc.assert(
    fc.property(fc.array(trial), (trials) => {
      const front = paretoFront(trials).map((index) => trials[index]!);
      for (const each of trials) {
        const score = scoreOf(each);
        if (score === null) continue;
        const isCovered = front.some((other) => other.cost <= each.cost && (scoreOf(other) as number) >= score);
        expect(isCovered).toBe(true);
      }
      for (const each of front)
        expect(
          front.some(
            (other) =>
              other !== each && other.cost <= each.cost && (scoreOf(other) as number) >= (scoreOf(each) as number),
          ),
        ).toBe(false);
    }),
  );
});
