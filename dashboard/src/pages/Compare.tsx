/** Two to fifty runs or groups of seeds: curves, results, settings that differ, and the first step that does. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { Link } from "wouter";
import { api } from "../api/client";
import type { Comparison, SeriesEntry } from "../api/types";
import { Swatch } from "../chart/Chart";
import { ChartControls } from "../chart/ChartControls";
import { MetricChart } from "../chart/MetricChart";
import { lineStyle } from "../chart/palette";
import { useLiveRuns } from "../live/sync";
import { useDark } from "../state/preferences";
import {
  CHART_FIELDS,
  type ChartView,
  choice,
  type Fields,
  slots,
  text,
  texts,
  toggleSlot,
  useView,
} from "../state/url";
import { plain, short, whole } from "../ui/format";
import { useTitle } from "../ui/hooks";
import { Select } from "../ui/Select";
import { Empty, Loaded } from "../ui/states";
import { RunColumns, ScrollRegion, SettingColumns } from "../ui/Table";
import { Parallel, Scatter } from "./compare/Keys";

const STATS = ["mean", "median", "iqm"] as const;
const BANDS = ["ci95", "std", "minmax", "none"] as const;

interface CompareView extends ChartView {
  runs: string[];
  metric: string[];
  group: "none" | "seed";
  stat: (typeof STATS)[number];
  band: (typeof BANDS)[number];
  /** Small multiples: one chart for each value of this setting. */
  by: string;
}
const FIELDS: Fields<CompareView> = {
  ...CHART_FIELDS,
  runs: slots(),
  metric: texts(),
  group: choice(["seed", "none"], "seed"),
  stat: choice(STATS, "mean"),
  band: choice(BANDS, "ci95"),
  by: text(),
};

export default function Compare() {
  useTitle("Compare");
  const [view, update] = useView(FIELDS);
  const [front, setFront] = useState<string | null>(null);
  const ids = useMemo(() => view.runs.filter(Boolean), [view.runs]);
  useLiveRuns(ids);
  const isGrouped = view.group === "seed";
  const query = useQuery({
    queryKey: ["compare", ids, view.group],
    queryFn: ({ signal }) => api.compare({ run: ids, group: isGrouped ? "seed" : null }, signal),
    enabled: ids.length > 0,
    placeholderData: keepPreviousData,
  });
  // The metrics of the first run: what the others have besides can be named by hand.
  const metrics = useQuery({
    queryKey: ["metrics", ids[0]],
    queryFn: ({ signal }) => api.metrics(ids[0]!, signal),
    enabled: ids.length > 0,
  });
  const onZoom = useCallback((from: number | null, to: number | null) => update({ from, to }), [update]);
  const chartView = useMemo(
    (): ChartView => ({ x: view.x, smooth: view.smooth, from: view.from, to: view.to, logx: view.logx }),
    [view.x, view.smooth, view.from, view.to, view.logx],
  );
  const slotOf = (entry: SeriesEntry) => Math.max(0, view.runs.indexOf(entry.runs[0] ?? ""));
  const shown = view.metric.length ? view.metric : ["return_recent"];
  if (ids.length === 0) {
    return (
      <div className="page">
        <h1>Compare</h1>
        <Empty>
          <p>
            Select runs on the page <Link href="/runs">Runs</Link> (click, <kbd>x</kbd>, or <kbd>Space</kbd>) and press{" "}
            <kbd>c</kbd>.
          </p>
        </Empty>
      </div>
    );
  }
  const chart = (metric: string, runs: readonly string[], title = metric) => (
    <MetricChart
      key={title}
      title={title}
      request={{
        runs,
        metric,
        view: chartView,
        ...(isGrouped ? { group: "seed", stat: view.stat, band: view.band } : {}),
      }}
      slotOf={slotOf}
      onZoom={onZoom}
      syncKey="compare"
      height={shown.length === 1 && !view.by ? 340 : 220}
      front={front}
    />
  );
  return (
    <div className="page compare">
      <header className="page-head">
        <h1>Compare</h1>
        <ChartControls view={view} update={update} />
        <label className="check">
          <input
            type="checkbox"
            checked={isGrouped}
            onChange={(event) => update({ group: event.target.checked ? "seed" : "none" })}
          />
          Seeds as one curve
        </label>
        {isGrouped && (
          <>
            <Select label="Line" value={view.stat} choices={STATS} onChange={(stat) => update({ stat })} />
            <Select label="Band" value={view.band} choices={BANDS} onChange={(band) => update({ band })} />
          </>
        )}
      </header>
      <Loaded query={query} rows={6}>
        {(comparison) => {
          const keys = comparison.settings.map((setting) => setting.key);
          return (
            <>
              <Legend
                comparison={comparison}
                slots={view.runs}
                isGrouped={isGrouped}
                onFront={setFront}
                onRemove={(run) => update({ runs: toggleSlot(view.runs, run) })}
              />
              <div className="bar">
                <label>
                  Add a metric{" "}
                  <select
                    value=""
                    onChange={(event) => update({ metric: [...new Set([...shown, event.target.value])] })}
                  >
                    <option value="">…</option>
                    {metrics.data?.metrics
                      .filter(({ name }) => !shown.includes(name))
                      .map(({ name }) => (
                        <option key={name}>{name}</option>
                      ))}
                  </select>
                </label>
                {shown.map((name) => (
                  <button
                    key={name}
                    type="button"
                    className="tag"
                    aria-label={`Remove ${name}`}
                    onClick={() => update({ metric: shown.filter((other) => other !== name) })}
                  >
                    {name} ✕
                  </button>
                ))}
                <label>
                  Small multiples by{" "}
                  <select value={view.by} onChange={(event) => update({ by: event.target.value })}>
                    <option value="">nothing</option>
                    {keys.map((key) => (
                      <option key={key}>{key}</option>
                    ))}
                  </select>
                </label>
              </div>
              <div className={shown.length > 1 || view.by ? "charts" : "charts one"}>
                {shown.flatMap((metric) =>
                  view.by
                    ? splitBy(comparison, view.by).map(({ value, runs }) =>
                        chart(metric, runs, `${metric}, ${view.by} = ${value}`),
                      )
                    : [chart(metric, ids)],
                )}
              </div>
              <Results comparison={comparison} slots={view.runs} />
              <FirstDifference comparison={comparison} />
              <Settings comparison={comparison} />
              <Parallel comparison={comparison} slots={view.runs} front={front} onFront={setFront} />
              <Scatter comparison={comparison} slots={view.runs} />
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

/** Runs by the value of a setting. */
function splitBy(comparison: Comparison, key: string): { value: string; runs: string[] }[] {
  const setting = comparison.settings.find((one) => one.key === key);
  const parts = new Map<string, string[]>();
  comparison.runs.forEach((run, index) => {
    const value = plain(setting?.values[index]);
    parts.set(value, [...(parts.get(value) ?? []), run.id]);
  });
  return [...parts].map(([value, runs]) => ({ value, runs }));
}

interface LegendProps {
  comparison: Comparison;
  slots: readonly string[];
  isGrouped: boolean;
  onFront(run: string | null): void;
  onRemove(run: string): void;
}

function Legend({ comparison, slots, isGrouped, onFront, onRemove }: LegendProps) {
  const dark = useDark();
  // A group has the colour of its first run.
  const leader = new Map(
    isGrouped ? comparison.results.flatMap((result) => result.runs.map((run) => [run, result.runs[0]!] as const)) : [],
  );
  return (
    <ul className="legend">
      {comparison.runs.map(({ id, name }) => (
        <li key={id} onMouseEnter={() => onFront(id)} onMouseLeave={() => onFront(null)}>
          <Swatch style={lineStyle(Math.max(0, slots.indexOf(leader.get(id) ?? id)), dark)} />
          <Link href={`/runs/${encodeURIComponent(id)}`} onFocus={() => onFront(id)} onBlur={() => onFront(null)}>
            <bdi>{name}</bdi>
          </Link>
          <button type="button" className="quiet" aria-label={`Remove ${name}`} onClick={() => onRemove(id)}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}

function Results({ comparison, slots }: { comparison: Comparison; slots: readonly string[] }) {
  const dark = useDark();
  const { results, probabilities } = comparison;
  if (results.length === 0) return null;
  return (
    <>
      <h2>Results</h2>
      <ScrollRegion label="Results">
        <table>
          <caption>
            Best evaluation with its 95 % interval, and the probability that the row is better than the column
          </caption>
          <thead>
            <tr>
              <th scope="col">Run or group</th>
              <th scope="col" className="num">
                n
              </th>
              <th scope="col" className="num">
                Mean
              </th>
              <th scope="col" className="num">
                Interval
              </th>
              {results.length > 1 &&
                results.map((result, index) => (
                  <th key={result.label} scope="col" className="num" title={result.label}>
                    P &gt; {index + 1}
                  </th>
                ))}
            </tr>
          </thead>
          <tbody>
            {results.map((result, row) => (
              <tr key={result.label}>
                <th scope="row">
                  <Swatch style={lineStyle(Math.max(0, slots.indexOf(result.runs[0] ?? "")), dark)} /> {row + 1}.{" "}
                  <bdi>{result.label}</bdi>
                </th>
                <td className="num">{result.n}</td>
                <td className="num">{short(result.mean)}</td>
                <td className="num">{result.low === null ? "–" : `${short(result.low)} to ${short(result.high)}`}</td>
                {results.length > 1 &&
                  results.map((other, column) => {
                    const chance = probabilities[row]?.[column];
                    return (
                      <td key={other.label} className="num">
                        {row === column || chance === null || chance === undefined ? "–" : chance.toFixed(2)}
                      </td>
                    );
                  })}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </>
  );
}

function FirstDifference({ comparison }: { comparison: Comparison }) {
  const first = comparison.first_difference;
  if (first === null) return null;
  return (
    <>
      <h2>First difference</h2>
      {first.step === null ? (
        <p>All records are equal, bit for bit.</p>
      ) : (
        <>
          <p>All records are equal before step {whole(first.step)}; there the first values differ:</p>
          <RunColumns
            label="First difference"
            of="Metric"
            className="num"
            runs={comparison.runs}
            rows={first.metrics.map(({ name, values }) => ({
              name,
              values: values.map((value) => (value === null ? "–" : String(value))),
            }))}
          />
        </>
      )}
    </>
  );
}

function Settings({ comparison }: { comparison: Comparison }) {
  return (
    <>
      <h2>Settings that differ</h2>
      {comparison.settings.length === 0 ? (
        <Empty>None, seeds aside.</Empty>
      ) : (
        <SettingColumns runs={comparison.runs} settings={comparison.settings} />
      )}
    </>
  );
}
