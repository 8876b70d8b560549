import { expect, it } from "vitest";
import { parseOptions, parseSource, playRequest } from "./source";

it.each([
  ["replay:131072-0.replay", { kind: "replay", name: "131072-0.replay" }],
  ["checkpoint:best", { kind: "checkpoint", name: "best" }],
  ["step:4096", { kind: "step", step: 4096 }],
  ["newest", { kind: "newest" }],
  ["step:-1", null],
  ["step:", null],
  ["../../etc", null],
  ["", null],
])("%s", (text, expected) => expect(parseSource(text)).toEqual(expected));

it("a step asks for the policy of that step", () => {
  const how = { seed: "7", index: 0, stochastic: false };
  expect(playRequest({ kind: "step", step: 5 }, { ...how, options: "" })).toEqual({ step: 5, ...how });
  expect(playRequest({ kind: "newest" }, { ...how, options: "length=0.7" })).toEqual({
    checkpoint: "newest",
    ...how,
    options: { length: 0.7 },
  });
});

it("options are numbers, flags or words", () => {
  expect(parseOptions("length=0.7, wind=true  map=small broken =x")).toEqual({ length: 0.7, wind: true, map: "small" });
});
