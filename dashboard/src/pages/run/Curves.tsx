/** All recorded metrics as charts with one crosshair and one window. A click shows the policy of that moment. */
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { api } from "../../api/client";
import type { RunDetail } from "../../api/types";
import { ChartControls } from "../../chart/ChartControls";
import { MetricChart } from "../../chart/MetricChart";
import { CHART_FIELDS, type ChartView, type Fields, flag, optionalNumber, text, useView } from "../../state/url";
import { Empty, Loaded } from "../../ui/states";
import { sections } from "./sections";
import { TimeMachine } from "./TimeMachine";
import { Why } from "./Why";

interface CurvesView extends ChartView {
  search: string;
  /** The step that the time machine shows. */
  at: number | null;
  why: boolean;
}
const FIELDS: Fields<CurvesView> = { ...CHART_FIELDS, search: text(), at: optionalNumber(), why: flag() };

// Charts of the return carry evaluations.
const RETURNS = new Set(["return_recent", "return_mean", "evaluation.mean"]);
const slotOf = () => 0;

export function Curves({ run }: { run: RunDetail }) {
  const [view, update] = useView(FIELDS);
  const [, navigate] = useLocation();
  const metrics = useQuery({ queryKey: ["metrics", run.id], queryFn: ({ signal }) => api.metrics(run.id, signal) });
  const evaluations = useQuery({ queryKey: ["evaluations", run.id], queryFn: () => api.evaluations(run.id) });
  const events = useQuery({ queryKey: ["events", run.id], queryFn: () => api.events(run.id) });
  const onZoom = useCallback((from: number | null, to: number | null) => update({ from, to }), [update]);
  const canTravel = view.x === "step" && run.folder_here;
  const onPick = useCallback((x: number) => update({ at: Math.max(0, Math.round(x)) }), [update]);
  const groups = useMemo(
    () => sections(metrics.data?.metrics.map((metric) => metric.name) ?? [], view.search),
    [metrics.data, view.search],
  );
  const chartView = useMemo(
    (): ChartView => ({ x: view.x, smooth: view.smooth, from: view.from, to: view.to, logx: view.logx }),
    [view.x, view.smooth, view.from, view.to, view.logx],
  );
  const runs = useMemo(() => [run.id], [run.id]);
  return (
    <div className="curves">
      <div className="bar">
        <input
          data-search
          className="search"
          type="search"
          aria-label="Find metrics"
          placeholder="Find metrics (/)"
          value={view.search}
          onChange={(event) => update({ search: event.target.value }, { replace: true })}
        />
        <ChartControls view={view} update={update} />
        {view.x === "step" && (
          <button type="button" aria-pressed={view.why} onClick={() => update({ why: !view.why })}>
            Why did it change?
          </button>
        )}
      </div>
      {view.why && (
        <Why run={run} from={view.from} to={view.to} onStep={onPick} onClose={() => update({ why: false })} />
      )}
      <Loaded query={metrics} rows={6}>
        {({ metrics: all }) =>
          groups.length === 0 ? (
            <Empty>{all.length ? "No metric has this in its name." : "Nothing is recorded yet."}</Empty>
          ) : (
            groups.map((group, index) => (
              <SectionOfCharts
                key={group.name}
                name={group.name}
                count={group.metrics.length}
                isOpen={index === 0 || view.search !== ""}
              >
                {() =>
                  group.metrics.map((metric) => (
                    <MetricChart
                      key={metric}
                      request={{ runs, metric, view: chartView }}
                      slotOf={slotOf}
                      onZoom={onZoom}
                      syncKey={run.id}
                      height={index === 0 && metric === group.metrics[0] ? 240 : 170}
                      isLive={run.status === "running"}
                      {...(RETURNS.has(metric) && evaluations.data
                        ? { evaluations: evaluations.data.evaluations }
                        : {})}
                      {...(events.data ? { events: events.data.events } : {})}
                      {...(canTravel ? { onPick } : {})}
                    />
                  ))
                }
              </SectionOfCharts>
            ))
          )
        }
      </Loaded>
      {view.at !== null && (
        <TimeMachine
          key={view.at}
          run={run}
          step={view.at}
          onClose={() => update({ at: null })}
          onOpen={() => navigate(`/runs/${encodeURIComponent(run.id)}?tab=watch&a=step:${view.at}`)}
        />
      )}
    </div>
  );
}

function SectionOfCharts({
  name,
  count,
  isOpen,
  children,
}: {
  name: string;
  count: number;
  isOpen: boolean;
  children(): React.ReactNode;
}) {
  const [open, setOpen] = useState(isOpen);
  const [last, setLast] = useState(isOpen);
  if (last !== isOpen) {
    // A search opens what it finds.
    setLast(isOpen);
    setOpen(isOpen);
  }
  return (
    <details className="section" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>{name}</h2> <span className="note">{count}</span>
      </summary>
      {open && <div className="charts">{children()}</div>}
    </details>
  );
}
