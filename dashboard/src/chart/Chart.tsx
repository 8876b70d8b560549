/** A chart of one metric: shared crosshair and zoom, keyboard, live points, and a menu to take it elsewhere. */
import { memo, type ReactNode, useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import type { Evaluation, RunEvent, SeriesEntry } from "../api/types";
import { useDark } from "../state/preferences";
import type { ChartView, XAxis } from "../state/url";
import { clock, dateTime, duration, short, whole } from "../ui/format";
import { ScrollRegion } from "../ui/Table";
import { ChartMenu } from "./ChartMenu";
import { nearest, type Reading, readingAt } from "./data";
import { type LineStyle, lineStyle } from "./palette";
import { columns, levelOf, type Marks, options } from "./plot";

export interface ChartProps {
  title: string;
  entries: readonly SeriesEntry[];
  /** The colour slot of each entry. */
  slots: readonly number[];
  view: ChartView;
  onZoom(from: number | null, to: number | null): void;
  syncKey: string;
  height?: number;
  evaluations?: readonly Evaluation[];
  events?: readonly RunEvent[];
  /** A click on the curve, or Enter at the crosshair. */
  onPick?(x: number): void;
  isLive?: boolean;
  /** The entry that is brought forward. */
  front?: number | null;
  command?: string | undefined;
  exportUrl?: string | undefined;
  note?: ReactNode;
}

// Milliseconds between redraws of a live chart.
const PACE = 500;
const NONE: readonly never[] = [];

export function formatX(x: XAxis, value: number): string {
  if (x === "time") return `${dateTime(value)}`;
  if (x === "seconds") return duration(value);
  return `${x === "step" ? "step" : "episode"} ${whole(value)}`;
}

function formatReading(reading: Reading): string {
  const parts = [short(reading.mean)];
  if (reading.low !== null && reading.high !== null && (reading.count > 1 || reading.n !== null)) {
    parts.push(`(${short(reading.low)} to ${short(reading.high)})`);
  }
  if (reading.n !== null) parts.push(`n = ${reading.n}`);
  else if (reading.count > 1) parts.push(`${reading.count} points`);
  return parts.join(" ");
}

/** The end of the longest curve, shown to tests and benchmarks as an attribute. */
function lastX(entries: readonly SeriesEntry[]): string {
  return String(longest(entries)?.last.at(-1) ?? "");
}

export const Chart = memo(function Chart(props: ChartProps) {
  const { title, entries, slots, view, onZoom, syncKey, onPick, isLive = false, front = null } = props;
  const { evaluations = NONE, events = NONE, height = 190 } = props;
  const dark = useDark();
  const [logY, setLogY] = useState(false);
  const [cutOutliers, setCutOutliers] = useState(false);
  const [asTable, setAsTable] = useState(false);
  const [cursor, setCursor] = useState<number | null>(null);
  const [spoken, setSpoken] = useState("");
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const pulse = useRef<HTMLDivElement | null>(null);
  const heading = useId();
  const styles = useMemo(() => slots.map((slot) => lineStyle(slot, dark)), [slots, dark]);
  const showsSteps = view.x === "step";

  // Hooks of uPlot outlive a render: they read what is current.
  const current = useRef({ entries, marks: { evaluations, events } as Marks, onZoom, onPick, showsSteps });
  current.current = {
    entries,
    marks: showsSteps ? { evaluations, events } : { evaluations: NONE, events: NONE },
    onZoom,
    onPick,
    showsSteps,
  };
  const structure = entries.map((entry) => `${entry.label}:${entry.raw}:${entry.smooth !== null}:${entry.n !== null}`);
  const shape = JSON.stringify([structure, styles, view.x, view.smooth, view.from, view.to]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` stands for what the options are made of
  useLayoutEffect(() => {
    const target = box.current;
    if (target === null || asTable) return;
    const look = { x: view.x, logX: view.logx, logY, cutOutliers, dark, syncKey };
    const size = { width: target.clientWidth, height };
    const made = options(entries, styles, look, size, front, () => current.current.marks);
    const instance = new uPlot(withHooks(made, setCursor, current), columns(entries), target);
    plot.current = instance;
    const stopPanning = panWithWheel(instance, () => current.current);
    const dot = document.createElement("div");
    dot.className = "pulse";
    instance.over.append(dot);
    pulse.current = dot;
    placePulse(instance, dot, entries, styles, isLive);
    const observer = new ResizeObserver(() => {
      if (target.clientWidth > 0) instance.setSize({ width: target.clientWidth, height });
    });
    observer.observe(target);
    target.dataset.last = lastX(entries);
    performance.mark(`hotloop:chart:${title}`);
    return () => {
      observer.disconnect();
      stopPanning();
      instance.destroy();
      plot.current = null;
    };
  }, [shape, logY, cutOutliers, dark, height, asTable, syncKey, view.logx, front]);

  const drawn = useRef({ entries, at: 0 });
  // biome-ignore lint/correctness/useExhaustiveDependencies: marks are drawn again when they change
  useEffect(() => {
    if (drawn.current.entries === entries) {
      plot.current?.redraw(false);
      return;
    }
    const draw = () => {
      if (plot.current === null || document.hidden) return;
      drawn.current = { entries, at: performance.now() };
      plot.current.setData(columns(entries));
      if (box.current) box.current.dataset.last = lastX(entries);
      if (pulse.current) placePulse(plot.current, pulse.current, entries, styles, isLive);
    };
    const timer = setTimeout(draw, Math.max(0, drawn.current.at + PACE - performance.now()));
    document.addEventListener("visibilitychange", draw);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", draw);
    };
  }, [entries, evaluations, events, styles, isLive]);

  const onKey = useCallback(
    (event: React.KeyboardEvent) => {
      const along = longest(entries)?.last;
      if (!plot.current || !along?.length || event.ctrlKey || event.metaKey || event.altKey) return;
      const at = cursor === null ? -1 : nearest(along, cursor);
      const moves: Record<string, number> = {
        ArrowLeft: at < 0 ? along.length - 1 : at - (event.shiftKey ? 10 : 1),
        ArrowRight: at + (event.shiftKey ? 10 : 1),
        Home: 0,
        End: along.length - 1,
      };
      const to = moves[event.key];
      if (to !== undefined) {
        event.preventDefault();
        const x = along[Math.min(along.length - 1, Math.max(0, to))]!;
        plot.current.setCursor({ left: plot.current.valToPos(x, "x"), top: height / 3 });
        setCursor(x);
        setSpoken(describe(entries, x, view.x));
      } else if (event.key === "Enter" && cursor !== null && onPick && event.target === event.currentTarget) {
        event.preventDefault();
        onPick(cursor);
      } else if (event.key === "Escape" && (view.from !== null || view.to !== null)) {
        onZoom(null, null);
      }
    },
    [entries, cursor, height, onPick, onZoom, view],
  );

  const near = cursor !== null && showsSteps ? nearestEvent(events, cursor, entries) : null;
  const readings = entries.map((entry) => (cursor === null ? null : readingAt(entry, cursor)));
  const shown = cursor === null ? lastReadings(entries) : readings;
  return (
    <section className="chart" aria-labelledby={heading}>
      <header className="chart-head">
        <h3 id={heading}>{title}</h3>
        <ChartMenu
          title={title}
          entries={entries}
          x={view.x}
          logY={logY}
          onLogY={setLogY}
          cutOutliers={cutOutliers}
          onCutOutliers={setCutOutliers}
          asTable={asTable}
          onAsTable={setAsTable}
          command={props.command}
          exportUrl={props.exportUrl}
          canvas={() => plot.current?.ctx.canvas ?? null}
        />
      </header>
      <p className="chart-reading" aria-hidden="true">
        {cursor !== null && <span>{formatX(view.x, cursor)}</span>}
        {shown.slice(0, 8).map((reading, index) => (
          <span key={entries[index]!.label}>
            {entries.length > 1 && <Swatch style={styles[index]!} />}
            {reading ? formatReading(reading) : "–"}
          </span>
        ))}
        {near && (
          <span className={`level-${levelOf(near.level)}`}>
            {near.kind}: {near.what}
          </span>
        )}
      </p>
      {props.note}
      {asTable ? (
        <ChartTable entries={entries} x={view.x} />
      ) : (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset is for form fields
        <div
          ref={box}
          className="plot"
          role="group"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the crosshair
          tabIndex={0}
          aria-label={`${title}: chart. ${describe(entries, null, view.x)}. Arrow keys move the crosshair${
            onPick ? ", Enter shows the policy of that step" : ""
          }.`}
          onKeyDown={onKey}
          style={{ minHeight: height }}
        />
      )}
      <output className="visually-hidden" aria-live="polite">
        {spoken}
      </output>
    </section>
  );
});

export function Swatch({ style }: { style: LineStyle }) {
  return (
    <svg className="swatch" width="22" height="10" aria-hidden="true">
      <line x1="1" x2="21" y1="5" y2="5" stroke={style.colour} strokeWidth="3" strokeDasharray={style.dash.join(" ")} />
    </svg>
  );
}

const longest = (entries: readonly SeriesEntry[]) =>
  entries.reduce<SeriesEntry | undefined>(
    (a, b) => (a === undefined || b.last.length > a.last.length ? b : a),
    undefined,
  );

const lastReadings = (entries: readonly SeriesEntry[]) =>
  entries.map((entry) => (entry.last.length ? readingAt(entry, entry.last.at(-1)!) : null));

function describe(entries: readonly SeriesEntry[], x: number | null, axis: XAxis): string {
  const parts = entries.slice(0, 8).map((entry) => {
    const at = x ?? entry.last.at(-1);
    const reading = at === undefined ? null : readingAt(entry, at);
    const name = entries.length > 1 ? `${entry.label} ` : "";
    return `${name}${reading ? formatReading(reading) : "no value"}`;
  });
  const where = x === null ? "Last value" : axis === "time" ? clock(x) : formatX(axis, x);
  return `${where}: ${parts.join("; ")}`;
}

function nearestEvent(events: readonly RunEvent[], x: number, entries: readonly SeriesEntry[]): RunEvent | null {
  const along = longest(entries)?.last;
  if (!along?.length) return null;
  const reach = (along.at(-1)! - along[0]!) / 60;
  return events.reduce<RunEvent | null>((best, event) => {
    const distance = Math.abs(event.step - x);
    return distance <= reach && (best === null || distance < Math.abs(best.step - x)) ? event : best;
  }, null);
}

function withHooks(
  made: uPlot.Options,
  onCursor: (x: number | null) => void,
  current: { current: { onZoom: ChartProps["onZoom"]; onPick?: ChartProps["onPick"] | undefined } },
): uPlot.Options {
  const dragged = { width: 0 };
  return {
    ...made,
    hooks: {
      ...made.hooks,
      setCursor: [
        (plot) => {
          const { left = -1 } = plot.cursor;
          onCursor(left < 0 ? null : plot.posToVal(left, "x"));
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          dragged.width = width;
          if (width < 4) return;
          const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          current.current.onZoom(Math.round(from), Math.round(to));
        },
      ],
      ready: [
        (plot) => {
          plot.over.addEventListener("dblclick", () => current.current.onZoom(null, null));
          plot.over.addEventListener("mousedown", () => {
            dragged.width = 0;
          });
          plot.over.addEventListener("click", (event) => {
            if (dragged.width >= 4 || event.detail > 1) return;
            current.current.onPick?.(plot.posToVal(plot.cursor.left ?? 0, "x"));
          });
        },
      ],
    },
  };
}

/** Shift and the wheel move the window by a tenth of its width. */
function panWithWheel(plot: uPlot, current: () => { onZoom: ChartProps["onZoom"] }): () => void {
  const onWheel = (event: WheelEvent) => {
    const { min, max } = plot.scales.x!;
    if (!event.shiftKey || min === undefined || max === undefined) return;
    event.preventDefault();
    const shift = ((max - min) / 10) * Math.sign(event.deltaY || event.deltaX);
    current().onZoom(Math.round(min + shift), Math.round(max + shift));
  };
  plot.over.addEventListener("wheel", onWheel, { passive: false });
  return () => plot.over.removeEventListener("wheel", onWheel);
}

function placePulse(
  plot: uPlot,
  dot: HTMLElement,
  entries: readonly SeriesEntry[],
  styles: readonly LineStyle[],
  isLive: boolean,
): void {
  const entry = entries[0];
  const x = entry?.last.at(-1);
  const y = entry && (entry.smooth?.at(-1) ?? entry.mean.at(-1));
  dot.hidden = !isLive || x === undefined || y === undefined || y === null;
  if (dot.hidden) return;
  dot.style.left = `${plot.valToPos(x!, "x")}px`;
  dot.style.top = `${plot.valToPos(y!, "y")}px`;
  dot.style.color = styles[0]!.colour;
}

function ChartTable({ entries, x }: { entries: readonly SeriesEntry[]; x: XAxis }) {
  return (
    <ScrollRegion className="chart-table" label="Values of the chart">
      <table>
        <thead>
          <tr>
            {entries.length > 1 && <th scope="col">series</th>}
            <th scope="col">{x}</th>
            <th scope="col">mean</th>
            <th scope="col">low</th>
            <th scope="col">high</th>
            <th scope="col">points</th>
          </tr>
        </thead>
        <tbody>
          {entries.flatMap((entry) =>
            entry.last.map((last, at) => (
              <tr key={`${entry.label} ${last}`}>
                {entries.length > 1 && <td>{entry.label}</td>}
                <td>{x === "time" ? dateTime(last) : whole(last)}</td>
                <td>{short(entry.mean[at])}</td>
                <td>{short(entry.low[at])}</td>
                <td>{short(entry.high[at])}</td>
                <td>{entry.n?.[at] ?? entry.count[at]}</td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </ScrollRegion>
  );
}
