import fc from "fast-check";
import { expect, it } from "vitest";
import { sections } from "./sections";

it("the return comes first, families stay together, the rest comes last", () => {
  const names = ["dropped", "kl", "return_recent", "terms.reward", "custom.b", "custom.a", "time.env", "policy_loss"];
  expect(sections(names)).toEqual([
    { name: "Return", metrics: ["return_recent"] },
    { name: "Losses", metrics: ["policy_loss", "kl"] },
    { name: "Reward terms", metrics: ["terms.reward"] },
    { name: "Speed", metrics: ["time.env"] },
    { name: "custom", metrics: ["custom.a", "custom.b"] },
    { name: "Other", metrics: ["dropped"] },
  ]);
});

it("every metric is in exactly one section", () => {
  const name = fc.stringMatching(/^[a-z_]{1,6}(\.[a-z_]{1,6})?$/);
  fc.assert(
    fc.property(fc.uniqueArray(fc.oneof(name, fc.constantFrom("kl", "time.env", "evaluation.mean"))), (names) => {
      const found = sections(names).flatMap((section) => section.metrics);
      expect([...found].sort()).toEqual([...names].sort());
    }),
  );
});

it("a search keeps what contains it", () => {
  expect(sections(["kl", "entropy"], "ENT")).toEqual([{ name: "Losses", metrics: ["entropy"] }]);
});
