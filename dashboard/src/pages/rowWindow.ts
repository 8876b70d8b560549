/** Only the rows on the screen exist: rows have a fixed height, so their place follows from their number. */
import { type RefObject, useCallback, useEffect, useState } from "react";

const BEYOND = 10;

export interface RowWindow {
  start: number;
  end: number;
  /** Pixels of the rows above and below that do not exist. */
  before: number;
  after: number;
  show(index: number): void;
}

export function visibleRows(top: number, height: number, rowHeight: number, count: number): [number, number] {
  const start = Math.max(0, Math.min(count, Math.floor(top / rowHeight)) - BEYOND);
  return [start, Math.min(count, Math.ceil((top + height) / rowHeight) + BEYOND)];
}

export function useRowWindow(box: RefObject<HTMLElement | null>, count: number): RowWindow {
  const [place, setPlace] = useState({ top: 0, height: 1000, rowHeight: 28 });
  const isThere = count > 0;
  useEffect(() => {
    const element = box.current;
    if (element === null || !isThere) return;
    const measure = () => {
      // Narrow screens show a row on two lines.
      const rowHeight = Number.parseInt(getComputedStyle(element).getPropertyValue("--row"), 10) || 28;
      setPlace((before) => {
        const next = { top: element.scrollTop, height: element.clientHeight, rowHeight };
        const isSame = visible(before, count).join() === visible(next, count).join() && before.rowHeight === rowHeight;
        return isSame ? before : next;
      });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [box, isThere, count]);

  const [start, end] = visible(place, count);
  const { rowHeight } = place;
  const show = useCallback(
    (index: number) => {
      const element = box.current;
      if (element === null) return;
      const top = index * rowHeight;
      // The header sticks to the top and covers a row.
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + 2 * rowHeight > element.scrollTop + element.clientHeight) {
        element.scrollTop = top + 2 * rowHeight - element.clientHeight;
      }
    },
    [box, rowHeight],
  );
  return { start, end, before: start * rowHeight, after: (count - end) * rowHeight, show };
}

const visible = ({ top, height, rowHeight }: { top: number; height: number; rowHeight: number }, count: number) =>
  visibleRows(top, height, rowHeight, count);
