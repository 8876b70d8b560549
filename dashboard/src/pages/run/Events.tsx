/** Everything that happened: alerts, faults, rollbacks, curriculum, verifications. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api } from "../../api/client";
import type { RunDetail } from "../../api/types";
import { levelOf } from "../../chart/plot";
import { dateTime, plain, whole } from "../../ui/format";
import { Empty, Loaded } from "../../ui/states";
import { Head } from "../../ui/Table";

/** A window of the curve around a step, wide enough for change points to show. */
export function aroundStep(step: number, steps: number): string {
  const reach = Math.max(1, Math.round(steps / 5));
  return `from=${Math.max(0, step - reach)}&to=${step + reach}`;
}

export function Events({ run }: { run: RunDetail }) {
  const events = useQuery({ queryKey: ["events", run.id], queryFn: () => api.events(run.id) });
  const [kind, setKind] = useState("");
  return (
    <Loaded query={events}>
      {({ events: all }) => {
        const kinds = [...new Set(all.map((event) => event.kind))].sort();
        const shown = all.filter((event) => kind === "" || event.kind === kind);
        if (all.length === 0) return <Empty>Nothing unusual happened.</Empty>;
        return (
          <>
            <div className="bar">
              <label>
                Kind{" "}
                <select value={kind} onChange={(event) => setKind(event.target.value)}>
                  <option value="">all</option>
                  {kinds.map((name) => (
                    <option key={name}>{name}</option>
                  ))}
                </select>
              </label>
            </div>
            <div className="scroll">
              <table>
                <Head columns={[{ num: "Step" }, "When", "Kind", "What"]} />
                <tbody>
                  {shown.map((event) => (
                    <tr key={event.number}>
                      <td className="num">
                        <Link href={`/runs/${encodeURIComponent(run.id)}?${aroundStep(event.step, run.steps)}&why=1`}>
                          {whole(event.step)}
                        </Link>
                      </td>
                      <td>{dateTime(event.time)}</td>
                      <td className={`level-${levelOf(event.level)}`}>{event.kind}</td>
                      <td>
                        <bdi>{event.what}</bdi>
                        {Object.keys(event.facts).length > 0 && (
                          <details>
                            <summary>Details</summary>
                            <dl className="facts-list">
                              {Object.entries(event.facts).map(([key, value]) => (
                                <div key={key}>
                                  <dt>{key}</dt>
                                  <dd>
                                    <bdi>{plain(value)}</bdi>
                                  </dd>
                                </div>
                              ))}
                            </dl>
                          </details>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </>
        );
      }}
    </Loaded>
  );
}
