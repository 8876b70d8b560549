/** The uPlot side of a chart: columns, options and marks. */
import uPlot from "uplot";
import type { Evaluation, RunEvent, SeriesEntry } from "../api/types";
import type { XAxis } from "../state/url";
import { duration, short } from "../ui/format";
import { hasBand, rangeWithoutOutliers } from "./data";
import { faded, type LineStyle } from "./palette";

export interface PlotLook {
  x: XAxis;
  logX: boolean;
  logY: boolean;
  cutOutliers: boolean;
  dark: boolean;
  /** Charts with the same key share their crosshair. */
  syncKey: string;
}

export interface Marks {
  evaluations: readonly Evaluation[];
  events: readonly RunEvent[];
}

const INK = { light: { text: "#4a4f57", grid: "#e3e5e8" }, dark: { text: "#b4bac4", grid: "#2a3038" } };
const FONT = "11px system-ui, sans-serif";

/** All series on one x-axis: of each entry its mean, low, high and smoothed values, as far as it has them. */
export function columns(entries: readonly SeriesEntry[]): uPlot.AlignedData {
  const tables = entries.map((entry): uPlot.AlignedData => {
    const values: (number | null)[][] = [entry.mean];
    if (hasBand(entry)) values.push(entry.low, entry.high);
    if (entry.smooth) values.push(padded(entry.smooth, entry.last.length));
    return [entry.last, ...values] as uPlot.AlignedData;
  });
  if (tables.length === 0) return [[]];
  return tables.length === 1 ? tables[0]! : uPlot.join(tables);
}

/** Live points have no smoothed value before the server computes it. */
const padded = (values: (number | null)[], length: number) =>
  values.length === length ? values : [...values, ...Array<null>(length - values.length).fill(null)];

function lines(entries: readonly SeriesEntry[], styles: readonly LineStyle[], front: number | null) {
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  entries.forEach((entry, index) => {
    const { colour, dash } = styles[index]!;
    const opacity = front === null || front === index ? 1 : 0.25;
    const dashed = dash.length ? { dash: [...dash] } : {};
    const common = { spanGaps: true, points: { show: entry.last.length === 1, size: 7 } };
    series.push({
      ...common,
      ...dashed,
      stroke: faded(colour, entry.smooth ? 0.35 * opacity : opacity),
      width: entry.smooth ? 1 : front === index ? 2.5 : 1.75,
      points: { ...common.points, fill: colour },
    });
    if (hasBand(entry)) {
      const low = series.length;
      const edge = { spanGaps: true, points: { show: false }, stroke: "transparent", width: 0 };
      series.push({ ...edge }, { ...edge });
      bands.push({ series: [low + 1, low], fill: faded(colour, (entry.smooth ? 0.1 : 0.2) * opacity) });
    }
    if (entry.smooth) series.push({ ...common, ...dashed, stroke: faded(colour, opacity), width: 2 });
  });
  return { series, bands };
}

/** The smallest and the largest y, including what was shown before: a live chart never shrinks by itself. */
export class YRange {
  private low = Infinity;
  private high = -Infinity;

  constructor(
    private readonly cut: () => [number, number] | null,
    private readonly isLog: boolean,
  ) {}

  readonly range = (_plot: uPlot, low: number | null, high: number | null): [number, number] => {
    const cut = this.cut();
    if (cut) [low, high] = cut;
    if (low === null || high === null) return this.isLog ? [0.1, 10] : [0, 1];
    this.low = Math.min(this.low, low);
    this.high = Math.max(this.high, high);
    if (this.isLog) return [this.low, this.high === this.low ? this.high + 1 : this.high];
    if (this.low === this.high) {
      const room = Math.abs(this.low) * 0.1 || 1;
      return [this.low - room, this.high + room];
    }
    const room = (this.high - this.low) * 0.06;
    return [this.low - room, this.high + room];
  };
}

const xValues: Record<XAxis, (value: number) => string> = {
  step: short,
  time: short,
  seconds: duration,
  episodes: short,
};

export function options(
  entries: readonly SeriesEntry[],
  styles: readonly LineStyle[],
  look: PlotLook,
  size: { width: number; height: number },
  front: number | null,
  marks: () => Marks,
): uPlot.Options {
  const ink = INK[look.dark ? "dark" : "light"];
  const axis = {
    stroke: ink.text,
    grid: { stroke: ink.grid, width: 1 },
    ticks: { stroke: ink.grid, width: 1 },
    font: FONT,
  };
  const { series, bands } = lines(entries, styles, front);
  const positive = entries.every((entry) => entry.low.every((value) => value === null || value > 0));
  // A logarithm has no place for zero: asinh looks the same far from it and goes through it.
  const yDistribution = look.logY ? (positive ? 3 : 4) : 1;
  const y = new YRange(() => (look.cutOutliers ? rangeWithoutOutliers(entries) : null), yDistribution === 3);
  const isTime = look.x === "time";
  const xIsLog = look.logX && !isTime;
  return {
    ...size,
    legend: { show: false },
    padding: [8, 12, 0, 0],
    cursor: {
      sync: { key: look.syncKey, scales: ["x", null] },
      drag: { x: true, y: false, setScale: false },
      focus: { prox: 16 },
      points: { show: entries.length <= 24 },
      bind: { dblclick: () => null },
    },
    select: { show: true, left: 0, top: 0, width: 0, height: 0 },
    scales: {
      x: { time: isTime, distr: xIsLog ? 3 : 1 },
      y: { distr: yDistribution, ...(yDistribution === 4 ? {} : { range: y.range }) },
    },
    axes: [
      {
        ...axis,
        size: 30,
        ...(isTime
          ? {}
          : { values: (_plot, values) => values.map((value) => (value === null ? "" : xValues[look.x](value))) }),
      },
      { ...axis, size: 54, values: (_plot, values) => values.map((value) => (value === null ? "" : short(value))) },
    ],
    series,
    bands,
    hooks: { draw: [(plot) => drawMarks(plot, marks(), look.dark, styles[0]?.colour ?? ink.text)] },
  };
}

const LEVELS = {
  light: { error: "#b3261e", warning: "#8a5a00", info: "#5a616b" },
  dark: { error: "#ff8a80", warning: "#ffc35c", info: "#a6adb8" },
};

export const levelOf = (level: string): "error" | "warning" | "info" =>
  level === "error" || level === "warning" ? level : "info";

/** Evaluations as whiskers, events as marks on the x-axis; their shape tells the level as their colour does. */
function drawMarks(plot: uPlot, { evaluations, events }: Marks, dark: boolean, colour: string): void {
  const { ctx } = plot;
  const ratio = uPlot.pxRatio;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  ctx.beginPath();
  // Room for marks at the very edges.
  ctx.rect(left - 5 * ratio, top - 5 * ratio, width + 10 * ratio, height + 10 * ratio);
  ctx.clip();
  ctx.lineWidth = 1.5 * ratio;
  for (const { step, mean, low, high } of evaluations) {
    if (mean === null) continue;
    const x = plot.valToPos(step, "x", true);
    const y = plot.valToPos(mean, "y", true);
    ctx.strokeStyle = ctx.fillStyle = colour;
    if (low !== null && high !== null) {
      const [bottom, above] = [plot.valToPos(low, "y", true), plot.valToPos(high, "y", true)];
      const cap = 4 * ratio;
      ctx.beginPath();
      ctx.moveTo(x, bottom);
      ctx.lineTo(x, above);
      for (const end of [bottom, above]) {
        ctx.moveTo(x - cap, end);
        ctx.lineTo(x + cap, end);
      }
      ctx.stroke();
    }
    ctx.beginPath();
    ctx.arc(x, y, 3.5 * ratio, 0, 2 * Math.PI);
    ctx.fill();
  }
  for (const { step, level } of events) {
    const x = plot.valToPos(step, "x", true);
    const y = top + height;
    const kind = levelOf(level);
    const size = 5 * ratio;
    ctx.strokeStyle = ctx.fillStyle = LEVELS[dark ? "dark" : "light"][kind];
    ctx.beginPath();
    if (kind === "error") {
      ctx.moveTo(x - size, y - 2 * size);
      ctx.lineTo(x + size, y);
      ctx.moveTo(x + size, y - 2 * size);
      ctx.lineTo(x - size, y);
      ctx.stroke();
    } else if (kind === "warning") {
      ctx.moveTo(x - size, y);
      ctx.lineTo(x + size, y);
      ctx.lineTo(x, y - 2 * size);
      ctx.fill();
    } else {
      ctx.moveTo(x, y);
      ctx.lineTo(x, y - 1.6 * size);
      ctx.stroke();
    }
  }
  ctx.restore();
}
