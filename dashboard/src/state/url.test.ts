import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CHART_FIELDS,
  choice,
  type Fields,
  flag,
  number,
  optionalNumber,
  readable,
  readView,
  slots,
  text,
  texts,
  toggleSlot,
  writeView,
} from "./url";

interface View {
  q: string;
  where: string[];
  smooth: number;
  from: number | null;
  fold: boolean;
  x: "step" | "time";
}
const FIELDS: Fields<View> = {
  q: text(),
  where: texts(),
  smooth: number(0, 0, 0.99),
  from: optionalNumber(),
  fold: flag(),
  x: choice(["step", "time"], "step"),
};
const view = fc.record<View>({
  q: fc.string(),
  where: fc.array(fc.string({ minLength: 1 })),
  smooth: fc.double({ min: 0, max: 0.99, noNaN: true }).map((value) => value + 0),
  from: fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0)),
  fold: fc.boolean(),
  x: fc.constantFrom("step", "time"),
});

describe("the view in the URL", () => {
  it("survives the way through a URL", () => {
    fc.assert(
      fc.property(view, (before) => {
        const written = readable(writeView(FIELDS, before, new URLSearchParams()));
        expect(readView(FIELDS, new URLSearchParams(written))).toEqual(before);
      }),
    );
  });

  it("leaves the keys of other views alone", () => {
    const search = writeView(FIELDS, { q: "cart" }, new URLSearchParams("tab=watch&q=old"));
    expect(search.toString()).toBe("tab=watch&q=cart");
  });

  it("writes nothing for defaults", () => {
    const start = readView(CHART_FIELDS, new URLSearchParams());
    expect(writeView(CHART_FIELDS, start, new URLSearchParams()).toString()).toBe("");
  });

  it("falls back on values that make no sense", () => {
    const search = new URLSearchParams("x=sideways&smooth=soft&from=1e999&logx=perhaps");
    expect(readView(CHART_FIELDS, search)).toEqual({ x: "step", smooth: 0, from: null, to: null, logx: false });
  });
});

describe("slots", () => {
  const runs = fc.uniqueArray(fc.stringMatching(/^[a-z0-9]{1,6}$/), { maxLength: 12 });

  it("keep the position of every run when another is removed", () => {
    fc.assert(
      fc.property(runs, fc.nat(), (chosen, seed) => {
        if (chosen.length === 0) return;
        const removed = chosen[seed % chosen.length]!;
        const after = toggleSlot(chosen, removed);
        for (const run of chosen) expect(after.indexOf(run)).toBe(run === removed ? -1 : chosen.indexOf(run));
      }),
    );
  });

  it("give a new run the first free one", () => {
    expect(toggleSlot(toggleSlot(["a", "b", "c"], "b"), "d")).toEqual(["a", "d", "c"]);
  });

  it("survive the way through a URL with their gaps", () => {
    const field = slots();
    expect(field.read(field.write(["a", "", "c"]))).toEqual(["a", "", "c"]);
    expect(field.write(["", ""])).toEqual([]);
  });
});
