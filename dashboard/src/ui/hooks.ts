/** Small hooks that several pages share. */
import { type RefObject, useEffect, useRef, useState } from "react";

/** The current time in seconds, refreshed so that ages stay true. */
export function useNow(every = 10_000): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** Whether an element is on the screen or close to it. */
export function useNear(target: RefObject<Element | null>): boolean {
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const element = target.current;
    if (element === null) return;
    const observer = new IntersectionObserver((entries) => setNear(entries.at(-1)!.isIntersecting), {
      rootMargin: "250px",
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [target]);
  return isNear;
}

const title = { page: "Hotloop", alerts: 0 };

function showTitle(): void {
  document.title = (title.alerts ? `(${title.alerts}) ` : "") + title.page;
}

export function useTitle(page: string): void {
  useEffect(() => {
    title.page = `${page} · Hotloop`;
    showTitle();
  }, [page]);
}

/** Alerts that nobody has seen: a number in the title and a dot on the icon of the tab. */
export function useAlertBadge(alerts: number): void {
  useEffect(() => {
    title.alerts = alerts;
    showTitle();
    const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (icon) icon.href = alerts ? "/favicon-alert.svg" : "/favicon.svg";
  }, [alerts]);
}

type Keys = Record<string, (event: KeyboardEvent) => void>;

export const isTyping = (event: KeyboardEvent): boolean =>
  event.target instanceof HTMLElement && event.target.closest("input:not([type=checkbox]), textarea, select") !== null;

/** Keyboard shortcuts of a page. "g r" is g followed by r. Keys while somebody types belong to the text. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    let prefix = "";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event)) return;
      // An open dialog or menu has the keys for itself; Escape closes it.
      if (document.querySelector("dialog[open], :popover-open")) return;
      // With Shift, letters are capital ones: the action itself asks for Shift.
      const action = current.current[prefix + (event.key.length === 1 ? event.key.toLowerCase() : event.key)];
      const isPrefix = Object.keys(current.current).some((key) => key.startsWith(`${event.key} `));
      clearTimeout(timer);
      prefix = "";
      if (action) {
        event.preventDefault();
        action(event);
      } else if (isPrefix) {
        prefix = `${event.key} `;
        timer = setTimeout(() => {
          prefix = "";
        }, 1200);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
