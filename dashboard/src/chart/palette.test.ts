import { describe, expect, it } from "vitest";
import { contrast, GREY, lineStyle, STYLE_COUNT } from "./palette";

const BACKGROUND = { light: "#ffffff", dark: "#161a20" };

describe("line styles", () => {
  it("are all different before grey begins", () => {
    for (const dark of [false, true]) {
      const styles = Array.from({ length: STYLE_COUNT }, (_, slot) => JSON.stringify(lineStyle(slot, dark)));
      expect(new Set(styles).size).toBe(STYLE_COUNT);
      expect(lineStyle(STYLE_COUNT, dark).colour).toBe(dark ? GREY.dark : GREY.light);
    }
  });

  it("stand out from the background in both themes", () => {
    for (const [theme, background] of Object.entries(BACKGROUND)) {
      for (let slot = 0; slot <= STYLE_COUNT; slot++) {
        expect(contrast(lineStyle(slot, theme === "dark").colour, background)).toBeGreaterThanOrEqual(3);
      }
    }
  });
});
