/** "Why did it change?": what else changed in a window of the run, ranked, as small multiples. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "../../api/client";
import type { RunDetail } from "../../api/types";
import { MetricChart } from "../../chart/MetricChart";
import { levelOf } from "../../chart/plot";
import type { ChartView } from "../../state/url";
import { short, whole } from "../../ui/format";
import { Empty, Loaded } from "../../ui/states";
import { Head } from "../../ui/Table";

interface Props {
  run: RunDetail;
  from: number | null;
  to: number | null;
  onStep(step: number): void;
  onClose(): void;
}

// Small multiples that fit a screen.
const MOST = 8;
const slotOf = () => 0;
const ignoreZoom = () => {};

export function Why({ run, from, to, onStep, onClose }: Props) {
  const query = useQuery({
    queryKey: ["why", run.id, from, to],
    queryFn: ({ signal }) => api.compare({ run: [run.id], from, to }, signal),
  });
  const view = useMemo((): ChartView => ({ x: "step", smooth: 0, from, to, logx: false }), [from, to]);
  const runs = useMemo(() => [run.id], [run.id]);
  return (
    <section className="panel why" aria-labelledby="why">
      <header>
        <h2 id="why">Why did it change?</h2>
        <span className="note">
          {from === null && to === null
            ? "In the whole run. Drag over a chart to look at a part of it."
            : `Between step ${whole(from ?? 0)} and ${to === null ? "the end" : whole(to)}.`}
        </span>
        <button type="button" className="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      <Loaded query={query} rows={3}>
        {({ changes, events }) =>
          changes.length + events.length === 0 ? (
            <Empty>No metric has a change point here, and no event falls into this window.</Empty>
          ) : (
            <>
              {events.length > 0 && (
                <ul className="events-short">
                  {events.slice(0, 10).map((event) => (
                    <li key={event.number} className={`level-${levelOf(event.level)}`}>
                      <button type="button" className="link" onClick={() => onStep(event.step)}>
                        step {whole(event.step)}
                      </button>{" "}
                      <b>{event.kind}</b> <bdi>{event.what}</bdi>
                    </li>
                  ))}
                </ul>
              )}
              {changes.length > 0 && (
                <table>
                  <caption>Change points, the clearest first</caption>
                  <Head
                    columns={[
                      "Metric",
                      { num: "Step" },
                      { num: "Before" },
                      { num: "After" },
                      { num: "Score", title: "Change in standard errors" },
                    ]}
                  />
                  <tbody>
                    {changes.slice(0, 2 * MOST).map((change) => (
                      <tr key={change.metric}>
                        <th scope="row">{change.metric}</th>
                        <td className="num">
                          <button type="button" className="link" onClick={() => onStep(change.step)}>
                            {whole(change.step)}
                          </button>
                        </td>
                        <td className="num">{short(change.before)}</td>
                        <td className="num">{short(change.after)}</td>
                        <td className="num">{short(change.score)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              )}
              <div className="charts small">
                {changes.slice(0, MOST).map(({ metric, step }) => (
                  <MetricChart
                    key={metric}
                    request={{ runs, metric, view }}
                    slotOf={slotOf}
                    onZoom={ignoreZoom}
                    syncKey={`why ${run.id}`}
                    height={110}
                    onPick={onStep}
                    events={[{ number: 0, step, time: 0, kind: "change point", level: "warning", what: "", facts: {} }]}
                  />
                ))}
              </div>
            </>
          )
        }
      </Loaded>
    </section>
  );
}
