/** Where the time goes, what the run costs, and how its env workers are. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "../../api/client";
import { useSeries } from "../../api/series";
import type { Resource, RunDetail, SeriesEntry } from "../../api/types";
import { Chart } from "../../chart/Chart";
import { lineStyle } from "../../chart/palette";
import { levelOf } from "../../chart/plot";
import { useDark } from "../../state/preferences";
import { CHART_FIELDS, readView } from "../../state/url";
import { age, bytes, duration, plain, short, whole } from "../../ui/format";
import { useNow } from "../../ui/hooks";
import { Empty, Loaded } from "../../ui/states";
import { Head, ScrollRegion } from "../../ui/Table";

const VIEW = { ...readView(CHART_FIELDS, new URLSearchParams()), x: "time" as const };
const STEPS = readView(CHART_FIELDS, new URLSearchParams());
const nothing = () => {};
const isWorker = (who: string) => /worker/.test(who);

export default function Health({ run }: { run: RunDetail }) {
  const resources = useQuery({ queryKey: ["resources", run.id], queryFn: () => api.resources(run.id) });
  const events = useQuery({ queryKey: ["events", run.id], queryFn: () => api.events(run.id) });
  const faults =
    events.data?.events.filter((event) => /fault|restart|dropped|worker|not-finite/.test(event.kind)) ?? [];
  return (
    <div className="health">
      <h2>Where the time goes</h2>
      <TimeSplit run={run} />
      <Loaded query={resources}>
        {({ resources: all }) =>
          all.length === 0 ? (
            <Empty>No resources are recorded: runs shorter than a few seconds end before the first sample.</Empty>
          ) : (
            <>
              <h2>Cores and memory</h2>
              <div className="charts">
                <ResourceChart title="Cores" resources={all} column="cpu" />
                <ResourceChart title="Memory (MB)" resources={all} column="memory" />
              </div>
              <Workers resources={all.filter(({ who }) => isWorker(who))} />
            </>
          )
        }
      </Loaded>
      <h2>Faults and restarts</h2>
      {faults.length === 0 ? (
        <Empty>None.</Empty>
      ) : (
        <ul className="events-short">
          {faults.map((event) => (
            <li key={event.number} className={`level-${levelOf(event.level)}`}>
              step {whole(event.step)} <b>{event.kind}</b> <bdi>{event.what}</bdi>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function TimeSplit({ run }: { run: RunDetail }) {
  const metrics = useQuery({ queryKey: ["metrics", run.id], queryFn: ({ signal }) => api.metrics(run.id, signal) });
  const names = metrics.data?.metrics.map((metric) => metric.name).filter((name) => name.startsWith("time.")) ?? [];
  if (metrics.data && names.length === 0) return <Empty>Not recorded.</Empty>;
  return <StackedShares run={run} names={names} />;
}

const AREA = { width: 720, height: 160 };

/** Shares of the time as areas on top of each other, and their totals as a table. */
function StackedShares({ run, names }: { run: RunDetail; names: string[] }) {
  const dark = useDark();
  const runs = useMemo(() => [run.id], [run.id]);
  // A fixed number of hooks: one series for each part that records ever have.
  const parts = [
    useSeries({ runs, metric: "time.env", view: STEPS }, names.includes("time.env")),
    useSeries({ runs, metric: "time.inference", view: STEPS }, names.includes("time.inference")),
    useSeries({ runs, metric: "time.learn", view: STEPS }, names.includes("time.learn")),
    useSeries({ runs, metric: "time.copy", view: STEPS }, names.includes("time.copy")),
    useSeries({ runs, metric: "time.rest", view: STEPS }, names.includes("time.rest")),
  ].flatMap((query) => query.data?.[0] ?? []);
  const count = Math.min(...parts.map((part) => part.mean.length));
  if (parts.length === 0 || !Number.isFinite(count)) return null;
  const totals = Array.from({ length: count }, (_, at) => parts.reduce((sum, part) => sum + (part.mean[at] ?? 0), 0));
  const whole = totals.reduce((sum, value) => sum + value, 0) || 1;
  let base = totals.map(() => 0);
  const areas = parts.map((part) => {
    const top = base.map((low, at) => low + (part.mean[at] ?? 0) / (totals[at] || 1));
    const x = (at: number) => (at / Math.max(1, count - 1)) * AREA.width;
    const y = (share: number) => AREA.height * (1 - share);
    const up = top.map((share, at) => `${x(at).toFixed(1)},${y(share).toFixed(1)}`);
    const down = base.map((share, at) => `${x(at).toFixed(1)},${y(share).toFixed(1)}`).reverse();
    base = top;
    return [...up, ...down].join(" ");
  });
  return (
    <div className="time-split">
      <svg viewBox={`0 0 ${AREA.width} ${AREA.height}`} preserveAspectRatio="none" aria-hidden="true">
        {areas.map((points, index) => (
          <polygon key={parts[index]!.metric} points={points} fill={lineStyle(index, dark).colour} />
        ))}
      </svg>
      <table>
        <caption className="visually-hidden">Shares of the time</caption>
        <tbody>
          {parts.map((part, index) => {
            const seconds = part.mean.slice(0, count).reduce<number>((sum, value) => sum + (value ?? 0), 0);
            return (
              <tr key={part.metric}>
                <th scope="row">
                  <span className="dot" style={{ background: lineStyle(index, dark).colour }} />
                  {part.metric.replace("time.", "")}
                </th>
                <td className="num">{((100 * seconds) / whole).toFixed(1)} %</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function ResourceChart({
  title,
  resources,
  column,
}: {
  title: string;
  resources: Resource[];
  column: "cpu" | "memory";
}) {
  const entries = useMemo(
    () =>
      resources
        .filter((resource) => !isWorker(resource.who) && resource[column].some((value) => value !== null))
        .map((resource): SeriesEntry => {
          const values = column === "cpu" ? resource.cpu : resource.memory.map((value) => value && value / 1e6);
          return {
            run: null,
            runs: [],
            label: resource.who,
            metric: title,
            raw: true,
            total: values.length,
            first: resource.time,
            last: resource.time,
            low: values,
            high: values,
            mean: values,
            count: values.map(() => 1),
            smooth: null,
            n: null,
            joined: null,
          };
        }),
    [resources, column, title],
  );
  const dark = useDark();
  if (entries.length === 0) return null;
  return (
    <div>
      <Chart
        title={title}
        entries={entries}
        slots={entries.map((_, index) => index)}
        view={VIEW}
        onZoom={nothing}
        syncKey="health"
      />
      <ul className="legend">
        {entries.map((entry, index) => (
          <li key={entry.label}>
            <span className="dot" style={{ background: lineStyle(index, dark).colour }} />
            {entry.label}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Workers({ resources }: { resources: Resource[] }) {
  const now = useNow();
  if (resources.length === 0) return null;
  const others = (facts: Record<string, unknown>) =>
    Object.entries(facts)
      .filter(
        ([key, value]) =>
          !["state", "restarts", "faults", "memory_limit", "last_fault"].includes(key) && value !== null,
      )
      .map(([key, value]) => `${key}: ${plain(value)}`)
      .join(", ");
  return (
    <>
      <h2>Env workers</h2>
      <ScrollRegion label="Env workers">
        <table>
          <Head
            columns={[
              "Worker",
              "State",
              { num: "Restarts" },
              { num: "Faults" },
              { num: "CPU" },
              { num: "Memory" },
              "Last seen",
              "Last fault",
            ]}
          />
          <tbody>
            {resources.map(({ who, cpu, memory, time, facts }) => (
              <tr key={who}>
                <th scope="row">{who}</th>
                <td>{plain(facts.state)}</td>
                <td className="num">{plain(facts.restarts)}</td>
                <td className="num">{plain(facts.faults)}</td>
                <td className="num">{short(cpu.at(-1))}</td>
                <td className="num">
                  {bytes(memory.at(-1))}
                  {typeof facts.memory_limit === "number" && ` of ${bytes(facts.memory_limit)}`}
                </td>
                <td>{time.length ? age(time.at(-1)!, now) : duration(null)}</td>
                <td>
                  <bdi>{facts.last_fault ? plain(facts.last_fault) : others(facts) || "–"}</bdi>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </>
  );
}
