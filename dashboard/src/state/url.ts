/** The view of a page as the query of its URL: readable, shareable, and what Back goes through. */
import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";

export interface Field<T> {
  read(values: string[]): T;
  /** The values of the key in the URL; none for the default. */
  write(value: T): string[];
}

export const text = (fallback = ""): Field<string> => ({
  read: (values) => values[0] ?? fallback,
  write: (value) => (value === fallback ? [] : [value]),
});

export const texts = (): Field<string[]> => ({
  read: (values) => values.filter((value) => value !== ""),
  write: (values) => values,
});

export const number = (fallback: number, low = -Infinity, high = Infinity): Field<number> => ({
  read: (values) => {
    const found = Number(values[0] ?? Number.NaN);
    return values[0] && Number.isFinite(found) ? Math.min(high, Math.max(low, found)) : fallback;
  },
  write: (value) => (value === fallback ? [] : [String(value)]),
});

export const optionalNumber = (): Field<number | null> => ({
  read: (values) => {
    const found = Number(values[0] ?? Number.NaN);
    return values[0] && Number.isFinite(found) ? found : null;
  },
  write: (value) => (value === null ? [] : [String(value)]),
});

export const flag = (): Field<boolean> => ({
  read: (values) => values[0] === "1",
  write: (value) => (value ? ["1"] : []),
});

export const choice = <T extends string>(options: readonly T[], fallback: T): Field<T> => ({
  read: (values) => options.find((option) => option === values[0]) ?? fallback,
  write: (value) => (value === fallback ? [] : [value]),
});

/**
 * Runs by position: a run's colour is its position, so one that is removed leaves a gap that the next one fills.
 */
export const slots = (): Field<string[]> => ({
  read: (values) => (values[0] ? trimmed(values[0].split(",")) : []),
  write: (values) => (trimmed(values).length ? [trimmed(values).join(",")] : []),
});

function trimmed(values: string[]): string[] {
  let end = values.length;
  while (end > 0 && values[end - 1] === "") end -= 1;
  return values.slice(0, end);
}

/** Add a run in the first free slot, or free the slot it has. */
export function toggleSlot(values: readonly string[], run: string): string[] {
  const at = values.indexOf(run);
  if (at >= 0) return trimmed(values.map((value, index) => (index === at ? "" : value)));
  const free = values.indexOf("");
  return free >= 0 ? values.map((value, index) => (index === free ? run : value)) : [...values, run];
}

export type Fields<T> = { [K in keyof T]: Field<T[K]> };

export function readView<T>(fields: Fields<T>, search: URLSearchParams): T {
  const view = {} as T;
  for (const key in fields) view[key] = fields[key].read(search.getAll(key));
  return view;
}

/** The query with a view's fields replaced; keys of other views stay. */
export function writeView<T>(fields: Fields<T>, view: Partial<T>, search: URLSearchParams): URLSearchParams {
  const result = new URLSearchParams(search);
  for (const key in fields) {
    if (!(key in view)) continue;
    result.delete(key);
    for (const value of fields[key].write(view[key] as T[typeof key])) result.append(key, value);
  }
  return result;
}

/** Commas and colons are legal in a query and far easier to read as they are. */
export const readable = (search: URLSearchParams) =>
  search.toString().replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%2F", "/");

export type Update<T> = (patch: Partial<T>, options?: { replace?: boolean }) => void;

/** A view that lives in the URL. Its `fields` must be a constant. */
export function useView<T>(fields: Fields<T>): [T, Update<T>] {
  const search = useSearch();
  const [, navigate] = useLocation();
  const view = useMemo(() => readView(fields, new URLSearchParams(search)), [fields, search]);
  const update = useCallback<Update<T>>(
    (patch, options = {}) => {
      const query = readable(writeView(fields, patch, new URLSearchParams(location.search)));
      navigate(location.pathname + (query && `?${query}`), options);
    },
    [fields, navigate],
  );
  return [view, update];
}

export type XAxis = "step" | "time" | "seconds" | "episodes";
export const X_AXES: readonly XAxis[] = ["step", "time", "seconds", "episodes"];

/** How charts are shown, on every page that has some. */
export interface ChartView {
  x: XAxis;
  smooth: number;
  from: number | null;
  to: number | null;
  logx: boolean;
}
export const CHART_FIELDS: Fields<ChartView> = {
  x: choice(X_AXES, "step"),
  smooth: number(0, 0, 0.99),
  from: optionalNumber(),
  to: optionalNumber(),
  logx: flag(),
};
