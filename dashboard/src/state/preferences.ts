/** Choices of a person that outlive the page: theme, pace of replays, muted alerts. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

interface Preferences {
  theme: Theme;
  pace: number;
  mutedKinds: string[];
  mutedRuns: string[];
}

const START: Preferences = { theme: "system", pace: 1, mutedKinds: [], mutedRuns: [] };
const listeners = new Set<() => void>();

function stored<K extends keyof Preferences>(key: K): Preferences[K] {
  try {
    const found = localStorage.getItem(`hotloop.${key}`);
    if (found === null) return START[key];
    if (key === "theme") return (found === "light" || found === "dark" ? found : "system") as Preferences[K];
    const parsed: unknown = JSON.parse(found);
    const fits = Array.isArray(START[key])
      ? Array.isArray(parsed) && parsed.every((item) => typeof item === "string")
      : typeof parsed === typeof START[key];
    return fits ? (parsed as Preferences[K]) : START[key];
  } catch {
    return START[key];
  }
}

let current: Preferences | null = null;

function load(): Preferences {
  current ??= {
    theme: stored("theme"),
    pace: stored("pace"),
    mutedKinds: stored("mutedKinds"),
    mutedRuns: stored("mutedRuns"),
  };
  return current;
}

export function setPreference<K extends keyof Preferences>(key: K, value: Preferences[K]): void {
  current = { ...load(), [key]: value };
  try {
    localStorage.setItem(`hotloop.${key}`, key === "theme" ? String(value) : JSON.stringify(value));
  } catch {
    // Blocked storage: the choice lasts as long as the page.
  }
  if (key === "theme") applyTheme();
  for (const listener of listeners) listener();
}

function applyTheme(): void {
  const { theme } = load();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  const onStorage = (event: StorageEvent) => {
    if (!event.key?.startsWith("hotloop.")) return;
    current = null;
    applyTheme();
    listener();
  };
  window.addEventListener("storage", onStorage);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("storage", onStorage);
  };
}

export const usePreferences = (): Preferences => useSyncExternalStore(subscribe, load);

const darkSystem = () => matchMedia("(prefers-color-scheme: dark)");

function subscribeTheme(listener: () => void): () => void {
  const query = darkSystem();
  query.addEventListener("change", listener);
  const stop = subscribe(listener);
  return () => {
    query.removeEventListener("change", listener);
    stop();
  };
}

/** Whether the page is dark now; canvases are redrawn when it changes. */
export const useDark = (): boolean =>
  useSyncExternalStore(subscribeTheme, () => {
    const { theme } = load();
    return theme === "dark" || (theme === "system" && darkSystem().matches);
  });
