/** Numbers, times and sizes as a person reads them. */

const SUFFIXES = ["", " k", " M", " G", " T"];

/** Four significant digits: 0.1235, 486.6, 131.1 k. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e15)) return value.toExponential(2).replace("e+", "e");
  let scaled = value;
  let suffix = 0;
  // Four digits need no suffix, but 9999 k would be harder to read than 10 M.
  while (Math.abs(scaled) >= (suffix ? 999.95 : 9999.5) && suffix < SUFFIXES.length - 1) {
    scaled /= 1000;
    suffix += 1;
  }
  return `${Number(scaled.toPrecision(4))}${SUFFIXES[suffix]}`;
}

/** A whole number with thin spaces between thousands. */
export const whole = (value: number): string => Math.round(value).toLocaleString("en").replaceAll(",", "\u2009");

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0.0995) return `${Number((seconds * 1000).toPrecision(2))} ms`;
  if (seconds < 9.95) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} d`;
}

export const age = (time: number, now: number): string => `${duration(Math.max(0, now - time))} ago`;

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(size: number | null | undefined): string {
  if (size === null || size === undefined) return "–";
  let scaled = size;
  let unit = 0;
  while (scaled >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${Number(scaled.toPrecision(3))} ${UNITS[unit]}`;
}

export const clock = (time: number): string =>
  new Date(time * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

export const dateTime = (time: number): string =>
  new Date(time * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** A setting or another JSON value on one line. */
export function plain(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
  return JSON.stringify(value);
}
