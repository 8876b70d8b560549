/** One job: its state, what happened to it, and its log as it grows. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { api, type JobAction } from "../api/client";
import type { Job as JobRow } from "../api/types";
import { Command } from "../ui/copy";
import { bytes, clock, dateTime, duration, plain, short } from "../ui/format";
import { useNow, useTitle } from "../ui/hooks";
import { Empty, ErrorNote, Loaded } from "../ui/states";
import { Facts, Head, ScrollRegion } from "../ui/Table";
import { JobState } from "./Jobs";

const OVER = ["completed", "failed", "cancelled"];

function actionsOf({ state, paused }: JobRow): JobAction[] {
  if (state === "failed" || state === "cancelled") return ["retry"];
  return state === "completed" ? [] : [paused ? "resume" : "pause", "cancel"];
}

export default function Job({ number }: { number: number }) {
  useTitle(`Job ${number}`);
  const now = useNow();
  const client = useQueryClient();
  const [failure, setFailure] = useState<unknown>(null);
  const status = useQuery({ queryKey: ["status"], queryFn: () => api.status() });
  const details = useQuery({
    queryKey: ["job", number],
    queryFn: ({ signal }) => api.job(number, signal),
    refetchInterval: ({ state }) => (state.data && OVER.includes(state.data.job.state) ? false : 1000),
  });
  const act = (action: JobAction) =>
    api
      .changeJob(number, action)
      .then(() => setFailure(null), setFailure)
      .then(() => client.invalidateQueries({ queryKey: ["job", number] }));
  return (
    <div className="page">
      <Loaded query={details} rows={6}>
        {({ job, events, progress, log }) => (
          <>
            <header className="page-head">
              <h1>
                Job {job.number}: <bdi>{job.name}</bdi>
              </h1>
              {status.data?.can_write &&
                actionsOf(job).map((action) => (
                  <button key={action} type="button" onClick={() => void act(action)}>
                    {action[0]?.toUpperCase() + action.slice(1)}
                  </button>
                ))}
            </header>
            {failure !== null && <ErrorNote error={failure} />}
            <p>
              <JobState job={job} /> {job.why}
              {progress && `: ${short(progress.steps)} steps, ${Math.round(100 * progress.fraction)} %`}
            </p>
            {progress && <progress max={1} value={progress.fraction} aria-label="Progress" />}
            <p className="bar">
              {job.run !== null && (
                <Link href={`/runs/${encodeURIComponent(job.run.split("/").at(-1) ?? "")}`}>its run</Link>
              )}
              <Command text={`hotloop jobs log ${job.number}`} label="log" />
            </p>
            <Facts
              entries={[
                ["Kind", job.kind],
                ["Group", job.group_name],
                ["Priority", job.priority],
                ["Cores", job.cores],
                ["Memory", bytes(job.peak ?? job.memory)],
                ["Attempts", `${job.attempts} (up to ${job.retries} retries)`],
                ["After", job.needs.map(([other, how]) => `${other} (${how})`).join(", ") || "–"],
                ["Submitted", dateTime(job.submitted)],
                ["Ran", job.started === null ? "–" : duration((job.ended ?? now) - job.started)],
                ...Object.entries(job.result ?? {}).map(([key, value]) => [key, plain(value)] as const),
              ]}
            />
            <h2>Log</h2>
            {log === "" ? <Empty>Nothing yet.</Empty> : <Log text={log} />}
            <h2>Events</h2>
            <ScrollRegion label="Events of the job">
              <table>
                <Head columns={["When", "From", "To", "Why"]} />
                <tbody>
                  {[...events].reverse().map((event) => (
                    <tr key={event.number}>
                      <td title={dateTime(event.time)}>{clock(event.time)}</td>
                      <td>{event.before}</td>
                      <td>{event.after}</td>
                      <td>
                        <bdi>{event.why}</bdi>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </ScrollRegion>
          </>
        )}
      </Loaded>
    </div>
  );
}

/** The end of a log; it follows new lines unless somebody has scrolled back. */
function Log({ text }: { text: string }) {
  const box = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text moves the end
  useEffect(() => {
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <pre
      ref={box}
      className="log scroll"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
        follows.current = scrollHeight - scrollTop - clientHeight < 20;
      }}
    >
      {text}
    </pre>
  );
}
