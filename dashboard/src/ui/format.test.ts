import { describe, expect, it } from "vitest";
import { bytes, duration, plain, short } from "./format";

describe("numbers", () => {
  it.each([
    [0, "0"],
    [486.56, "486.6"],
    [131072, "131.1 k"],
    [9999.4, "9999"],
    [-2_000_000, "-2 M"],
    [0.00012345, "1.23e-4"],
    [null, "–"],
    [Number.NaN, "–"],
  ])("%s reads %s", (value, expected) => expect(short(value)).toBe(expected));

  it.each([
    [0.0123, "12 ms"],
    [3.21, "3.2 s"],
    [59.9, "1 min"],
    [3599, "1 h 0 min"],
    [7260, "2 h 1 min"],
    [300_000, "3 d"],
  ])("%s seconds read %s", (value, expected) => expect(duration(value)).toBe(expected));

  it.each([
    [999, "999 B"],
    [84_000, "84 kB"],
    [1_234_567, "1.23 MB"],
  ])("%s bytes read %s", (value, expected) => expect(bytes(value)).toBe(expected));
});

it("settings are shown as JSON unless they are words", () => {
  expect(plain([64, 64])).toBe("[64,64]");
  expect(plain("tanh")).toBe("tanh");
  expect(plain(0.1 + 0.2)).toBe("0.3");
  expect(plain(null)).toBe("–");
});
