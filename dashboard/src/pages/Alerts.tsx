/** Warnings and errors of all runs, newest first. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { api } from "../api/client";
import type { Alert } from "../api/types";
import { levelOf } from "../chart/plot";
import { setPreference, usePreferences } from "../state/preferences";
import { type Fields, flag, text, useView } from "../state/url";
import { age, dateTime, whole } from "../ui/format";
import { useNow, useTitle } from "../ui/hooks";
import { Empty, Loaded } from "../ui/states";
import { Head, ScrollRegion } from "../ui/Table";
import { aroundStep } from "./run/Events";

const FIELDS: Fields<{ kind: string; muted: boolean }> = { kind: text(), muted: flag() };

export default function Alerts() {
  useTitle("Alerts");
  const [view, update] = useView(FIELDS);
  const client = useQueryClient();
  const now = useNow();
  const { mutedKinds, mutedRuns } = usePreferences();
  const alerts = useQuery({ queryKey: ["alerts"], queryFn: api.alerts });
  const status = useQuery({ queryKey: ["status"], queryFn: () => api.status() });
  const isMuted = (alert: Alert) => mutedKinds.includes(alert.kind) || mutedRuns.includes(alert.run);
  const see = (some: Alert[]) =>
    Promise.all(some.map((alert) => api.alertSeen(alert.number))).then(() => {
      void client.invalidateQueries({ queryKey: ["alerts"] });
      void client.invalidateQueries({ queryKey: ["status"] });
    });
  return (
    <div className="page">
      <Loaded query={alerts}>
        {({ alerts: all }) => {
          const counts = new Map<string, number>();
          for (const alert of all) counts.set(alert.kind, (counts.get(alert.kind) ?? 0) + 1);
          const shown = all.filter(
            (alert) => (view.kind === "" || alert.kind === view.kind) && (view.muted || !isMuted(alert)),
          );
          const unseen = shown.filter((alert) => !alert.seen);
          return (
            <>
              <header className="page-head">
                <h1>Alerts</h1>
                <label>
                  Kind{" "}
                  <select value={view.kind} onChange={(event) => update({ kind: event.target.value })}>
                    <option value="">all ({all.length})</option>
                    {[...counts].sort().map(([kind, count]) => (
                      <option key={kind} value={kind}>
                        {kind} ({count})
                      </option>
                    ))}
                  </select>
                </label>
                {view.kind && (
                  <button
                    type="button"
                    onClick={() => setPreference("mutedKinds", toggled(mutedKinds, view.kind))}
                    aria-pressed={mutedKinds.includes(view.kind)}
                  >
                    {mutedKinds.includes(view.kind) ? `Unmute ${view.kind}` : `Mute ${view.kind}`}
                  </button>
                )}
                <label className="check">
                  <input
                    type="checkbox"
                    checked={view.muted}
                    onChange={(event) => update({ muted: event.target.checked })}
                  />
                  Muted ones too
                </label>
                {status.data?.can_write && unseen.length > 0 && (
                  <button type="button" onClick={() => void see(unseen)}>
                    Mark {unseen.length} as seen
                  </button>
                )}
              </header>
              {shown.length === 0 ? (
                <Empty>{all.length ? "All alerts are muted or of another kind." : "No run has raised an alert."}</Empty>
              ) : (
                <ScrollRegion label="Alerts">
                  <table>
                    <Head columns={["When", "Kind", "Run", "What", { num: "Step" }, "Mute"]} />
                    <tbody>
                      {shown.map((alert) => (
                        <tr key={alert.number} className={alert.seen ? undefined : "unseen"}>
                          <td title={dateTime(alert.time)}>{age(alert.time, now)}</td>
                          <td className={`level-${levelOf(alert.level)}`}>
                            {!alert.seen && <span className="badge">new</span>} {alert.kind}
                          </td>
                          <th scope="row">
                            <Link href={`/runs/${encodeURIComponent(alert.run)}`}>
                              <bdi>{alert.run_name}</bdi>
                            </Link>
                          </th>
                          <td>
                            <bdi>{alert.what}</bdi>
                          </td>
                          <td className="num">
                            <Link
                              href={`/runs/${encodeURIComponent(alert.run)}?${aroundStep(alert.step, alert.step)}&why=1`}
                              title="Show the place in the curve, and what else changed"
                            >
                              {whole(alert.step)}
                            </Link>
                          </td>
                          <td>
                            <button
                              type="button"
                              className="quiet"
                              aria-pressed={mutedRuns.includes(alert.run)}
                              onClick={() => setPreference("mutedRuns", toggled(mutedRuns, alert.run))}
                            >
                              {mutedRuns.includes(alert.run) ? "Unmute run" : "Mute run"}
                            </button>
                          </td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </ScrollRegion>
              )}
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

const toggled = (names: readonly string[], name: string): string[] =>
  names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
