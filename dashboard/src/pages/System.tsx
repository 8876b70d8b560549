/** The machine, the store, the server's own cost, and how fast envs train. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api } from "../api/client";
import { bytes, duration, short } from "../ui/format";
import { useNow, useTitle } from "../ui/hooks";
import { StatusDot } from "../ui/StatusDot";
import { Empty, Loaded } from "../ui/states";
import { Head, ScrollRegion } from "../ui/Table";

export default function System() {
  useTitle("System");
  const now = useNow();
  const status = useQuery({ queryKey: ["status"], queryFn: ({ signal }) => api.status(signal) });
  const host = status.data?.machine.host ?? "";
  const running = useQuery({
    queryKey: ["running here", host],
    queryFn: ({ signal }) => api.runs({ where: ["status=running", `host=${host}`], limit: 100 }, signal),
    enabled: host !== "",
    refetchInterval: 10_000,
  });
  const speed = useQuery({ queryKey: ["performance"], queryFn: api.performance });
  return (
    <div className="page system">
      <header className="page-head">
        <h1>System</h1>
      </header>
      <Loaded query={status} rows={6}>
        {({ machine, store, server, version, streams, runs, adapters, read_only }) => (
          <div className="cards">
            <Card
              title={`Machine ${machine.host}`}
              facts={{
                "Cores in use": `${short(machine.cpu)} of ${machine.cores}`,
                Memory: `${bytes(machine.memory_used)} of ${bytes(machine.memory)}`,
                "Disk free": `${bytes(machine.disk_free)} of ${bytes(machine.disk_total)}`,
                ...Object.fromEntries(
                  machine.gpus.map((gpu) => [
                    gpu.name,
                    `${bytes(gpu.memory_used)} of ${bytes(gpu.memory)}, ${short(gpu.utilisation)} % busy`,
                  ]),
                ),
              }}
            />
            <Card
              title="Store"
              facts={{
                Address: store.url,
                Size: bytes(store.bytes),
                "Behind by": duration(store.lag),
                State: store.away_since === null ? "reachable" : "away",
                Runs: Object.entries(runs)
                  .map(([name, count]) => `${count} ${name}`)
                  .join(", "),
              }}
            />
            <Card
              title={`Server ${version}`}
              facts={{
                Running: duration(now - server.started),
                "CPU time": duration(server.cpu),
                Memory: bytes(server.memory),
                "Open streams": String(streams),
                "Env adapters": adapters.join(", ") || "none",
                Changes: read_only ? "read-only" : "with the token",
              }}
            />
          </div>
        )}
      </Loaded>
      <h2>Running on this machine</h2>
      <Loaded query={running}>
        {(page) =>
          page.runs.length === 0 ? (
            <Empty>Nothing runs.</Empty>
          ) : (
            <ul className="plain">
              {page.runs.map((run) => (
                <li key={run.id}>
                  <StatusDot status={run.status} />{" "}
                  <Link href={`/runs/${encodeURIComponent(run.id)}?tab=health`}>
                    <bdi>{run.name}</bdi>
                  </Link>{" "}
                  {short(run.steps_per_second)} steps/s
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      <h2>Training speed</h2>
      <Loaded query={speed}>
        {({ groups }) =>
          groups.length === 0 ? (
            <Empty>No run has recorded its speed yet.</Empty>
          ) : (
            <ScrollRegion label="Training speed">
              <table>
                <Head
                  columns={[
                    "Env",
                    "Learner",
                    "Version",
                    { num: "Runs" },
                    { num: "Steps/s" },
                    { num: "Fastest" },
                    { num: "Cores" },
                    "Time",
                  ]}
                />
                <tbody>
                  {groups.map((group) => (
                    <tr key={`${group.env} ${group.learner} ${group.version}`}>
                      <th scope="row">
                        <bdi>{group.env}</bdi>
                      </th>
                      <td>{group.learner}</td>
                      <td>{group.version}</td>
                      <td className="num">{group.runs}</td>
                      <td className="num">{short(group.steps_per_second)}</td>
                      <td className="num">{short(group.best_steps_per_second)}</td>
                      <td className="num">{short(group.cores)}</td>
                      <td>
                        {Object.entries(group.split)
                          .filter(([, share]) => share >= 0.005)
                          .map(([part, share]) => `${part} ${Math.round(share * 100)} %`)
                          .join(", ")}
                      </td>
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

function Card({ title, facts }: { title: string; facts: Record<string, string> }) {
  return (
    <section className="panel">
      <h2>{title}</h2>
      <dl className="facts-list">
        {Object.entries(facts).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <bdi>{value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
