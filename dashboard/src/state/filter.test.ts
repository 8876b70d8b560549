import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { completions, formatFilter, parseFilter } from "./filter";

describe("the filter box", () => {
  it("tells conditions from text", () => {
    expect(parseFilter("env=cartpole best>=400 my run")).toEqual({
      where: ["env=cartpole", "best>=400"],
      q: "my run",
    });
  });

  it("keeps quoted spaces", () => {
    expect(parseFilter('"name=my run" x')).toEqual({ where: ["name=my run"], q: "x" });
    expect(parseFilter('name="my run"')).toEqual({ where: ["name=my run"], q: "" });
  });

  it("shows the conditions that it holds", () => {
    const word = fc.stringMatching(/^[a-z]{1,8}$/);
    const condition = fc
      .tuple(word, fc.constantFrom("=", "!=", ">=", "<"), fc.array(word, { minLength: 1, maxLength: 3 }))
      .map(([key, sign, value]) => key + sign + value.join(" "));
    fc.assert(
      fc.property(fc.array(condition), fc.array(word), (where, rest) => {
        const filter = { where, q: rest.join(" ") };
        expect(parseFilter(formatFilter(filter))).toEqual(filter);
      }),
    );
  });

  it("completes the last word", () => {
    expect(completions("env=tag ppo.cl", ["ppo.clip", "best"])).toEqual(["env=tag ppo.clip="]);
    expect(completions("best>4", ["best"])).toEqual([]);
  });
});
