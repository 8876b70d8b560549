/** Colours of runs: eight that colour-blind people tell apart, times three dashes; what comes after is grey. */

// After Okabe and Ito, shifted so that each has a contrast of at least 3 to 1 with its background.
const LIGHT = ["#0067a5", "#b85000", "#00785a", "#a3428a", "#8a6d00", "#2a7fb8", "#c22b2b", "#4d4d4d"];
const DARK = ["#5ab4ff", "#ff9a4d", "#3ed6a4", "#ee9ad4", "#f0d048", "#8fd3ff", "#ff7b72", "#d0d0d0"];
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3]];
export const GREY = { light: "#76787d", dark: "#8b8f98" };

export interface LineStyle {
  colour: string;
  dash: readonly number[];
}

export function lineStyle(slot: number, dark: boolean): LineStyle {
  const colours = dark ? DARK : LIGHT;
  const dash = DASHES[Math.floor(slot / colours.length)];
  if (dash === undefined) return { colour: dark ? GREY.dark : GREY.light, dash: [] };
  return { colour: colours[slot % colours.length]!, dash };
}

export const STYLE_COUNT = LIGHT.length * DASHES.length;

/** A colour with an opacity from 0 to 1. */
export function faded(colour: string, opacity: number): string {
  return (
    colour +
    Math.round(opacity * 255)
      .toString(16)
      .padStart(2, "0")
  );
}

/** The contrast of two colours as WCAG defines it. */
export function contrast(first: string, second: string): number {
  const [a, b] = [luminance(first), luminance(second)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

function luminance(colour: string): number {
  const parts = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0]! + 0.7152 * parts[1]! + 0.0722 * parts[2]!;
}
