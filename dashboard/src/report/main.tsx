/** The page of `hotloop runs report --html`: charts and replays from data inside the document, without a server. */
import { useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import type { ReportData, SeriesEntry } from "../api/types";
import { Chart, Swatch } from "../chart/Chart";
import { lineStyle } from "../chart/palette";
import { sections } from "../pages/run/sections";
import { useDark } from "../state/preferences";
import { CHART_FIELDS, type ChartView, readView } from "../state/url";
import { dateTime, duration, short, whole } from "../ui/format";
import { StatusDot } from "../ui/StatusDot";
import { Empty } from "../ui/states";
import { Head, SettingColumns } from "../ui/Table";
import { Player } from "../watch/Player";
import "uplot/dist/uPlot.min.css";
import "../styles.css";

const START = readView(CHART_FIELDS, new URLSearchParams());
const NONE: never[] = [];

function Report({ data }: { data: ReportData }) {
  const dark = useDark();
  const [view, setView] = useState<ChartView>(START);
  const slots = useMemo(() => new Map(data.runs.map((run, index) => [run.id, index])), [data]);
  const groups = useMemo(() => sections([...new Set(data.series.map((entry) => entry.metric))]), [data]);
  const slotOf = (entry: SeriesEntry) => slots.get(entry.runs[0] ?? "") ?? 0;
  const only = data.runs.length === 1 ? data.runs[0]! : null;
  return (
    <main className="page report">
      <header className="page-head">
        <h1>{only ? only.name : `${data.runs.length} runs`}</h1>
        <span className="note">
          Written by Hotloop {data.version}, {dateTime(data.created)}
        </span>
      </header>
      <section className="scroll" aria-label="Runs">
        <table>
          <Head
            columns={[
              "Run",
              "Status",
              "Env",
              { num: "Seed" },
              { num: "Steps" },
              { num: "Return" },
              { num: "Best" },
              { num: "Took" },
            ]}
          />
          <tbody>
            {data.runs.map((run, index) => (
              <tr key={run.id}>
                <th scope="row">
                  {data.runs.length > 1 && <Swatch style={lineStyle(index, dark)} />} <bdi>{run.name}</bdi>
                </th>
                <td>
                  <StatusDot status={run.status} withName />
                </td>
                <td>
                  <bdi>{run.env}</bdi>
                </td>
                <td className="num">{run.seed}</td>
                <td className="num">{whole(run.steps)}</td>
                <td className="num">{short(run.return_recent)}</td>
                <td className="num">{short(run.best)}</td>
                <td className="num">{duration(run.seconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {data.replays.length > 0 && <Replays data={data} />}
      {groups.map((group, index) => (
        <details key={group.name} className="section" open={index < 2}>
          <summary>
            <h2>{group.name}</h2> <span className="note">{group.metrics.length}</span>
          </summary>
          <div className="charts">
            {group.metrics.map((metric) => {
              const entries = windowed(
                data.series.filter((entry) => entry.metric === metric),
                view,
              );
              if (entries.length === 0) return null;
              return (
                <Chart
                  key={metric}
                  title={metric}
                  entries={entries}
                  slots={entries.map(slotOf)}
                  view={view}
                  onZoom={(from, to) => setView({ ...view, from, to })}
                  syncKey="report"
                  evaluations={only && metric === "return_recent" ? (data.evaluations[only.id] ?? NONE) : NONE}
                  events={only ? (data.events[only.id] ?? NONE) : NONE}
                />
              );
            })}
          </div>
        </details>
      ))}
      {data.settings.length > 0 && (
        <>
          <h2>Settings that differ</h2>
          <SettingColumns runs={data.runs} settings={data.settings} />
        </>
      )}
      <h2>Repeat it</h2>
      {data.runs.map((run) => (
        <p key={run.id}>
          <code>{run.commands.verify}</code>
        </p>
      ))}
    </main>
  );
}

/** Without a server, a zoom shows the part of the data that falls into the window. */
function windowed(entries: SeriesEntry[], { from, to }: ChartView): SeriesEntry[] {
  if (from === null && to === null) return entries;
  return entries.flatMap((entry) => {
    const inside = entry.last.map((last, at) => last >= (from ?? -Infinity) && entry.first[at]! <= (to ?? Infinity));
    const cut = <T,>(values: T[]) => values.filter((_, at) => inside[at]);
    if (!inside.includes(true)) return [];
    return {
      ...entry,
      first: cut(entry.first),
      last: cut(entry.last),
      low: cut(entry.low),
      high: cut(entry.high),
      mean: cut(entry.mean),
      count: cut(entry.count),
      smooth: entry.smooth && cut(entry.smooth),
      n: entry.n && cut(entry.n),
    };
  });
}

function Replays({ data }: { data: ReportData }) {
  const [chosen, setChosen] = useState(0);
  const names = new Map(data.runs.map((run) => [run.id, run.name]));
  return (
    <section className="panel">
      <h2>Replays</h2>
      <div className="bar">
        <label>
          Episode{" "}
          <select value={chosen} onChange={(event) => setChosen(Number(event.target.value))}>
            {data.replays.map((replay, index) => (
              <option key={`${replay.run} ${replay.name}`} value={index}>
                {names.get(replay.run)}: {replay.name}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Player key={chosen} episodes={[data.replays[chosen]!.frames]} />
    </section>
  );
}

function read(): ReportData | null {
  try {
    return JSON.parse(document.getElementById("hotloop-data")?.textContent ?? "null");
  } catch {
    return null;
  }
}

const data = read();
createRoot(document.getElementById("root")!).render(
  data ? (
    <Report data={data} />
  ) : (
    <Empty>This report has no data: write it with hotloop runs report RUN --html FILE.</Empty>
  ),
);
