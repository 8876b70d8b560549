/** A chart that loads its own series once it is near the screen. */
import { type ReactNode, useRef } from "react";
import { exportUrl } from "../api/client";
import { type SeriesRequest, useSeries } from "../api/series";
import type { SeriesEntry } from "../api/types";
import type { ChartView } from "../state/url";
import { shellQuoted } from "../ui/copy";
import { useNear } from "../ui/hooks";
import { Empty, ErrorNote } from "../ui/states";
import { Chart, type ChartProps } from "./Chart";

interface Props
  extends Pick<ChartProps, "onZoom" | "syncKey" | "height" | "evaluations" | "events" | "onPick" | "isLive"> {
  request: SeriesRequest;
  title?: string;
  /** The colour slot of a run, or of the first run of a group. */
  slotOf(entry: SeriesEntry): number;
  front?: string | null;
}

/** The command that draws the same chart on the terminal. */
export function plotCommand(runs: readonly string[], metric: string, view: ChartView, group?: string): string {
  const parts = ["hotloop runs plot", ...runs.map(shellQuoted)];
  if (metric !== "return_recent") parts.push("--metric", shellQuoted(metric));
  if (view.x === "time") parts.push("--x time");
  if (view.smooth) parts.push(`--smooth ${view.smooth}`);
  if (group) parts.push("--group");
  return parts.join(" ");
}

const JOINED: Record<string, ReactNode> = {
  record: <p className="chart-note">Seeds are joined record by record; x is their mean step.</p>,
  interpolated: <p className="chart-note">Runs with different configs: interpolated to common steps.</p>,
};

export function MetricChart({ request, title = request.metric, slotOf, front, ...rest }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const isNear = useNear(place);
  const series = useSeries(request, isNear);
  const height = rest.height ?? 190;
  const entries = series.data ?? [];
  const at = front ? entries.findIndex((entry) => entry.runs.includes(front)) : -1;
  return (
    <div ref={place} className="chart-place" style={{ minHeight: height + 58 }}>
      {isNear && series.error && !series.data && (
        <>
          <h3>{title}</h3>
          <ErrorNote error={series.error} onRetry={() => void series.refetch()} />
        </>
      )}
      {isNear && series.data?.length === 0 && (
        <>
          <h3>{title}</h3>
          <Empty>No values in this window.</Empty>
        </>
      )}
      {isNear && entries.length > 0 && (
        <Chart
          {...rest}
          title={title}
          entries={entries}
          slots={entries.map(slotOf)}
          view={request.view}
          front={at < 0 ? null : at}
          command={plotCommand(request.runs, request.metric, request.view, request.group)}
          exportUrl={exportUrl({ run: request.runs, metric: [request.metric], format: "csv", what: "points" })}
          note={JOINED[entries.find((entry) => entry.joined)?.joined ?? ""]}
        />
      )}
    </div>
  );
}
