/** One sweep: its history, which settings matter, cost against result, and all trials. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api } from "../api/client";
import type { Sweep as SweepRow, Trial } from "../api/types";
import { type Axis, toAxis } from "../chart/axis";
import { type Brushes, isSelected, ParallelAxes } from "../chart/ParallelAxes";
import { Points } from "../chart/Points";
import { choice, type Fields, useView } from "../state/url";
import { Command, shellQuoted } from "../ui/copy";
import { plain, short, whole } from "../ui/format";
import { useNow, useTitle } from "../ui/hooks";
import { StatusDot } from "../ui/StatusDot";
import { Empty, Loaded } from "../ui/states";
import { Head, ScrollRegion } from "../ui/Table";
import { bestText, sweepStatus } from "./Sweeps";
import { bestSoFar, paretoFront, scoreOf } from "./sweep/results";

const SORTS = ["trial", "-value", "-confirmed", "-steps", "-cost", "-seconds"] as const;
const FIELDS: Fields<{ sort: (typeof SORTS)[number] }> = { sort: choice(SORTS, "-value") };
const format = (value: unknown) => (typeof value === "number" ? short(value) : plain(value));

export default function Sweep({ name }: { name: string }) {
  const now = useNow();
  const [view, update] = useView(FIELDS);
  const details = useQuery({
    queryKey: ["sweep", name],
    queryFn: ({ signal }) => api.sweep(name, signal),
    refetchInterval: ({ state }) => (state.data?.status === "running" ? 2000 : false),
  });
  const isRunning = details.data?.status === "running";
  const trials = useQuery({
    queryKey: ["trials", name, view.sort],
    queryFn: ({ signal }) => api.trials(name, view.sort, signal),
    refetchInterval: isRunning ? 2000 : false,
    placeholderData: keepPreviousData,
  });
  useTitle(details.data?.name ?? "Sweep");
  return (
    <div className="page">
      <Loaded query={details} rows={6}>
        {(found) => (
          <>
            <header className="page-head">
              <h1>
                <StatusDot status={sweepStatus(found, now)} withName /> <bdi>{found.name}</bdi>
              </h1>
            </header>
            <p>
              {found.env}, {found.sampler}:{" "}
              {Object.entries(found.facts.counts)
                .map(([state, count]) => `${count} ${state}`)
                .join(", ")}{" "}
              of {found.trials}. Best: trial {found.best ?? "–"}, {bestText(found)}. It {found.facts.promise}.
            </p>
            <p className="bar">
              <Command
                label="train with the best"
                text={`hotloop train ${shellQuoted(found.env)} --best-of ${shellQuoted(found.name)}`}
              />
              <Command label="resume" text={`hotloop sweep --resume ${shellQuoted(found.name)}`} />
              <Command label="verify" text={`hotloop verify ${shellQuoted(found.name)}`} />
              <Command label="plot" text={`hotloop sweep plot ${shellQuoted(found.name)}`} />
            </p>
            <Loaded query={trials}>
              {({ trials: rows, total }) =>
                rows.length === 0 ? (
                  <Empty>No trial has ended yet.</Empty>
                ) : (
                  <>
                    <Pictures sweep={found} trials={rows} />
                    <h2>Trials</h2>
                    <label className="bar">
                      Sort by{" "}
                      <select
                        value={view.sort}
                        onChange={(event) => update({ sort: event.target.value as (typeof SORTS)[number] })}
                      >
                        {SORTS.map((sort) => (
                          <option key={sort} value={sort}>
                            {sort.replace("-", "highest ")}
                          </option>
                        ))}
                      </select>
                    </label>
                    {total > rows.length && (
                      <p>
                        The first {rows.length} of {whole(total)}; <code>hotloop sweep export</code> has all.
                      </p>
                    )}
                    <TrialTable sweep={found} trials={rows} />
                  </>
                )
              }
            </Loaded>
          </>
        )}
      </Loaded>
    </div>
  );
}

function Pictures({ sweep, trials }: { sweep: SweepRow; trials: readonly Trial[] }) {
  const [front, setFront] = useState<string | null>(null);
  const [brushes, setBrushes] = useState<Brushes>({});
  // Pictures do not depend on how the table is sorted.
  const rows = [...trials].sort((a, b) => a.trial - b.trial);
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row.settings)))];
  const axisOf = (key: string): Axis =>
    toAxis(
      key,
      rows.map((row) => row.settings[key] ?? null),
      format,
    );
  const score = toAxis(sweep.metric, rows.map(scoreOf), format);
  const axes = [...keys.map(axisOf), score];
  const points = rows.map((row, index) => ({
    id: String(row.trial),
    title: `trial ${row.trial}: ${short(scoreOf(row))} (${row.state})`,
    className: `trial-${row.state}${isSelected(axes, index, brushes) ? "" : " faint"}`,
  }));
  const importance = Object.entries(sweep.facts.importance).sort((a, b) => b[1] - a[1]);
  return (
    <>
      <div className="cards">
        <figure>
          <figcaption>History, and the best so far</figcaption>
          <Points
            along={toAxis(
              "trial",
              rows.map((row) => row.trial),
              format,
            )}
            up={score}
            points={points}
            joined={bestSoFar(rows)}
            label={`${sweep.metric} of each trial; the table below has the values`}
          />
        </figure>
        <figure>
          <figcaption>Cost against result, with the front</figcaption>
          <Points
            along={toAxis(
              "cost",
              rows.map((row) => row.cost),
              format,
            )}
            up={score}
            points={points}
            joined={paretoFront(rows)}
            label={`${sweep.metric} against cost; the table below has the values`}
          />
        </figure>
        <figure>
          <figcaption>Importance of settings</figcaption>
          <table className="shares">
            <tbody>
              {importance.map(([key, share]) => (
                <tr key={key}>
                  <th scope="row">{key}</th>
                  <td>
                    <meter min={0} max={1} value={share} aria-label={`importance of ${key}`} />{" "}
                    {Math.round(100 * share)} %
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </figure>
      </div>
      <h2>Parallel coordinates</h2>
      <ParallelAxes
        axes={axes}
        lines={points}
        label="Settings and result of each trial; drag along an axis to select, the table below has the values"
        front={front}
        onFront={setFront}
        brushes={brushes}
        onBrush={setBrushes}
      />
    </>
  );
}

function TrialTable({ sweep, trials }: { sweep: SweepRow; trials: readonly Trial[] }) {
  const keys = [...new Set(trials.flatMap((trial) => Object.keys(trial.settings)))];
  return (
    <ScrollRegion label="Trials">
      <table>
        <Head
          columns={[
            { num: "Trial" },
            "State",
            { num: "Result" },
            { num: "Confirmed" },
            { num: "Steps" },
            { num: "Seconds" },
            ...keys,
          ]}
        />
        <tbody>
          {trials.map((trial) => {
            const run = sweep.facts.kept[trial.trial];
            return (
              <tr key={trial.trial} className={trial.state === "pruned" ? "pruned" : undefined}>
                <th scope="row" className="num">
                  {run ? <Link href={`/runs/${encodeURIComponent(run)}`}>{trial.trial}</Link> : trial.trial}
                </th>
                <td title={plain(trial.facts.why)}>{trial.state}</td>
                <td className="num">{short(trial.value)}</td>
                <td className="num">
                  {trial.confirmed === null
                    ? ""
                    : `${short(trial.confirmed)} (${short(trial.confirmed_low)} to ${short(trial.confirmed_high)})`}
                </td>
                <td className="num">{short(trial.steps)}</td>
                <td className="num">{short(trial.seconds)}</td>
                {keys.map((key) => (
                  <td key={key}>{format(trial.settings[key])}</td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </ScrollRegion>
  );
}
