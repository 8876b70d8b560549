/** All sweeps, the newest first. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api } from "../api/client";
import type { Sweep } from "../api/types";
import { Command } from "../ui/copy";
import { age, dateTime, short } from "../ui/format";
import { useNow, useTitle } from "../ui/hooks";
import { StatusDot } from "../ui/StatusDot";
import { Empty, Loaded } from "../ui/states";
import { Head, ScrollRegion } from "../ui/Table";

// Seconds after which a sweep that has written nothing is no longer running.
const SILENCE = 30;

/** The status of a sweep: one whose process has died still says that it is running. */
export const sweepStatus = ({ status, seen }: Sweep, now: number) =>
  status === "running" && now - seen > SILENCE ? "gone" : status;

export function bestText({ best, best_value, best_low, best_high }: Sweep): string {
  if (best === null) return "–";
  return best_low === null
    ? `${short(best_value)} so far`
    : `${short(best_value)} (${short(best_low)} to ${short(best_high)})`;
}

export default function Sweeps() {
  useTitle("Sweeps");
  const now = useNow();
  const sweeps = useQuery({
    queryKey: ["sweeps"],
    queryFn: ({ signal }) => api.sweeps(signal),
    refetchInterval: 2000,
  });
  return (
    <div className="page">
      <header className="page-head">
        <h1>Sweeps</h1>
      </header>
      <Loaded query={sweeps}>
        {({ sweeps: all }) =>
          all.length === 0 ? (
            <Empty>
              <p>No sweep yet. Search for good settings of an env:</p>
              <Command text="hotloop sweep cartpole" />
            </Empty>
          ) : (
            <ScrollRegion label="Sweeps">
              <table>
                <Head columns={["Sweep", "Env", "Sampler", { num: "Trials" }, { num: "Pruned" }, "Best", "Begun"]} />
                <tbody>
                  {all.map((sweep) => (
                    <tr key={sweep.number}>
                      <th scope="row">
                        <StatusDot status={sweepStatus(sweep, now)} />{" "}
                        <Link href={`/sweeps/${sweep.number}`}>
                          <bdi>{sweep.name}</bdi>
                        </Link>
                      </th>
                      <td>
                        <bdi>{sweep.env}</bdi>
                      </td>
                      <td>{sweep.sampler}</td>
                      <td className="num">
                        {Object.values(sweep.facts.counts).reduce((sum, count) => sum + count, 0)} of {sweep.trials}
                      </td>
                      <td className="num">{sweep.facts.counts.pruned ?? 0}</td>
                      <td>{bestText(sweep)}</td>
                      <td title={dateTime(sweep.created)}>{age(sweep.created, now)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </ScrollRegion>
          )
        }
      </Loaded>
    </div>
  );
}
