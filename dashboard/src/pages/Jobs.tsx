/** The queue of jobs, and how many of them run at a time. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api } from "../api/client";
import type { Job, JobEvent, JobPage } from "../api/types";
import { toAxis } from "../chart/axis";
import { Points } from "../chart/Points";
import { choice, type Fields, number, useView } from "../state/url";
import { Command } from "../ui/copy";
import { age, bytes, clock, dateTime, duration, short, whole } from "../ui/format";
import { useNow, useTitle } from "../ui/hooks";
import { Select } from "../ui/Select";
import { Empty, Loaded } from "../ui/states";
import { Head, ScrollRegion } from "../ui/Table";

const STATES = ["all", "running", "queued", "waiting", "completed", "failed", "cancelled"] as const;
const SIZE = 100;
const FIELDS: Fields<{ state: (typeof STATES)[number]; page: number }> = {
  state: choice(STATES, "all"),
  page: number(0, 0),
};
// Seconds without a heartbeat after which no orchestrator is at work.
const SILENCE = 30;

// A sign for each state, since colour alone is not enough.
const SIGNS: Record<Job["state"], [sign: string, like: string]> = {
  waiting: ["◷", "stopped"],
  queued: ["…", "stopped"],
  running: ["▶", "running"],
  completed: ["✓", "completed"],
  failed: ["✕", "failed"],
  cancelled: ["■", "stopped"],
};

export function JobState({ job }: { job: Job }) {
  const [sign, like] = SIGNS[job.state];
  return (
    <span className={`status status-${like}`}>
      <span aria-hidden="true">{sign}</span> {job.state}
      {job.paused && " (paused)"}
    </span>
  );
}

export default function Jobs() {
  useTitle("Jobs");
  const now = useNow();
  const [view, update] = useView(FIELDS);
  const query = { state: view.state === "all" ? [] : [view.state], limit: SIZE, offset: view.page * SIZE };
  const jobs = useQuery({
    queryKey: ["jobs", query],
    queryFn: ({ signal }) => api.jobs(query, signal),
    refetchInterval: 2000,
    placeholderData: keepPreviousData,
  });
  return (
    <div className="page">
      <header className="page-head">
        <h1>Jobs</h1>
        <Select label="State" value={view.state} choices={STATES} onChange={(state) => update({ state, page: 0 })} />
      </header>
      <Loaded query={jobs} rows={6}>
        {(page) => (
          <>
            <Orchestrator page={page} now={now} />
            {page.jobs.length === 0 ? (
              <Empty>
                <p>{page.total || view.state !== "all" ? "No such job." : "No job yet. Queue a run:"}</p>
                <Command text="hotloop train cartpole --queue" />
              </Empty>
            ) : (
              <>
                <JobTable jobs={page.jobs} now={now} />
                <p className="bar">
                  <button type="button" disabled={view.page === 0} onClick={() => update({ page: view.page - 1 })}>
                    Newer
                  </button>
                  {whole(view.page * SIZE + 1)} to {whole(view.page * SIZE + page.jobs.length)} of {whole(page.total)}
                  <button
                    type="button"
                    disabled={(view.page + 1) * SIZE >= page.total}
                    onClick={() => update({ page: view.page + 1 })}
                  >
                    Older
                  </button>
                </p>
              </>
            )}
            <Decisions events={page.decisions} />
          </>
        )}
      </Loaded>
    </div>
  );
}

function Orchestrator({ page, now }: { page: JobPage; now: number }) {
  const counts = Object.entries(page.counts)
    .map(([state, count]) => `${whole(count)} ${state}`)
    .join(", ");
  const found = page.orchestrator;
  if (found === null || found.process === 0 || now - found.seen > SILENCE) {
    return (
      <p className="bar">
        {counts && `${counts}. `}Nobody runs jobs{found === null ? "" : ` since ${dateTime(found.seen)}`}:{" "}
        <Command text="hotloop jobs work" />
      </p>
    );
  }
  const facts = found.facts as Record<string, number | undefined>;
  return (
    <p>
      {counts}. On <bdi>{found.host}</bdi>: {found.paused ? "the queue is paused, " : ""}
      {facts.running ?? 0} running, limit {facts.limit ?? "–"}
      {facts.fixed ? " (fixed)" : ""}, goodput {short(facts.goodput)}, {bytes(facts.memory_available)} of memory free.
    </p>
  );
}

function JobTable({ jobs, now }: { jobs: readonly Job[]; now: number }) {
  return (
    <ScrollRegion label="Jobs">
      <table>
        <Head
          columns={[
            { num: "Job" },
            "State",
            "Kind",
            "Name",
            "Group",
            { num: "Priority" },
            { num: "Cores" },
            { num: "Attempts" },
            { num: "Waited" },
            { num: "Ran" },
            "Why",
            "Submitted",
          ]}
        />
        <tbody>
          {jobs.map((job) => (
            <tr key={job.number}>
              <th scope="row" className="num">
                <Link href={`/jobs/${job.number}`}>{job.number}</Link>
              </th>
              <td>
                <JobState job={job} />
              </td>
              <td>{job.kind}</td>
              <td>
                <bdi>{job.name}</bdi>
              </td>
              <td>
                <bdi>{job.group_name}</bdi>
              </td>
              <td className="num">{job.priority}</td>
              <td className="num">{job.cores}</td>
              <td className="num">{job.attempts}</td>
              <td className="num">{duration((job.started ?? job.ended ?? now) - job.submitted)}</td>
              <td className="num">{job.started === null ? "" : duration((job.ended ?? now) - job.started)}</td>
              <td>
                <bdi>{job.why}</bdi>
              </td>
              <td title={dateTime(job.submitted)}>{age(job.submitted, now)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

/** The limit over time, and the signals that moved it. */
function Decisions({ events }: { events: readonly JobEvent[] }) {
  if (events.length === 0) return null;
  const limits = events.map(({ why }) => Number(/-> (\d+)/.exec(why)?.[1] ?? Number.NaN));
  const known = limits.map((limit) => (Number.isNaN(limit) ? null : limit));
  const at = (event: JobEvent, name: string) => event.facts[name] as number | undefined;
  return (
    <>
      <h2>Limit</h2>
      <Points
        along={toAxis(
          "time",
          events.map((event) => event.time),
          (time) => clock(Number(time)),
        )}
        up={toAxis("limit", known, String)}
        points={events.map((event) => ({ id: String(event.number), title: event.why }))}
        joined={events.map((_, index) => index).filter((index) => known[index] !== null)}
        label="The limit over time; the table below has the decisions"
      />
      <ScrollRegion label="Decisions about the limit">
        <table>
          <Head
            columns={["When", "Decision", { num: "Running" }, { num: "Queued" }, { num: "Stall" }, { num: "Goodput" }]}
          />
          <tbody>
            {[...events].reverse().map((event) => (
              <tr key={event.number}>
                <td title={dateTime(event.time)}>{clock(event.time)}</td>
                <td>{event.why}</td>
                <td className="num">{at(event, "running")}</td>
                <td className="num">{at(event, "queued")}</td>
                <td className="num">{short(100 * (at(event, "stall") ?? Number.NaN))} %</td>
                <td className="num">{short(at(event, "goodput"))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </>
  );
}
