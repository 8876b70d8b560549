/** A run: its header, and tabs for curves, replays, health, config, events and files. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { api } from "../api/client";
import type { RunDetail, RunsPage } from "../api/types";
import { forgetVerification, startVerification, useLiveRuns, useVerification } from "../live/sync";
import { choice, type Fields, useView } from "../state/url";
import { Command } from "../ui/copy";
import { Dialog } from "../ui/Dialog";
import { age, dateTime, duration, short, whole } from "../ui/format";
import { useKeys, useNow, useTitle } from "../ui/hooks";
import { StatusDot } from "../ui/StatusDot";
import { ErrorNote, Skeleton } from "../ui/states";
import { Config } from "./run/Config";
import { Curves } from "./run/Curves";
import { Events } from "./run/Events";
import { Files } from "./run/Files";
import { Marks } from "./run/Marks";

const Watch = lazy(() => import("./run/Watch"));
const Health = lazy(() => import("./run/Health"));

const TABS = ["curves", "watch", "health", "config", "events", "files"] as const;
type Tab = (typeof TABS)[number];
const FIELDS: Fields<{ tab: Tab }> = { tab: choice(TABS, "curves") };

export default function Run({ id }: { id: string }) {
  const query = useQuery({ queryKey: ["run", id], queryFn: ({ signal }) => api.run(id, signal) });
  useTitle(query.data?.name ?? id);
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const known = query.data?.id;
  useEffect(() => {
    // A name or `last` in the URL becomes the run's id, so that a link stays true; events go by ids, too.
    if (known === undefined || known === id) return;
    client.setQueryData(["run", known], query.data);
    navigate(`/runs/${encodeURIComponent(known)}${location.search}`, { replace: true });
  }, [known, id, client, navigate, query.data]);
  useLiveRuns(known === id ? [id] : []);
  useNeighbours(id);
  if (query.error && !query.data) {
    return (
      <div className="page">
        <h1>{id}</h1>
        <ErrorNote error={query.error} onRetry={() => void query.refetch()} />
        <Link href="/runs">All runs</Link>
      </div>
    );
  }
  if (!query.data || known !== id) return <Skeleton rows={8} />;
  return <Loaded run={query.data} />;
}

function Loaded({ run }: { run: RunDetail }) {
  const [{ tab }, update] = useView(FIELDS);
  return (
    <div className="page run">
      <RunHeader run={run} />
      <div className="tabs" role="tablist" aria-label="Parts of the run">
        {TABS.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={tab === name}
            aria-controls="tab-panel"
            tabIndex={tab === name ? 0 : -1}
            onClick={() => update({ tab: name })}
            onKeyDown={(event) => {
              const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
              if (by === undefined) return;
              const next = TABS[(TABS.indexOf(tab) + by + TABS.length) % TABS.length]!;
              update({ tab: next }, { replace: true });
              document.getElementById(`tab-${next}`)?.focus();
            }}
          >
            {name[0]!.toUpperCase() + name.slice(1)}
          </button>
        ))}
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        <Suspense fallback={<Skeleton rows={5} />}>
          {tab === "curves" && <Curves run={run} />}
          {tab === "watch" && <Watch run={run} />}
          {tab === "health" && <Health run={run} />}
          {tab === "config" && <Config run={run} />}
          {tab === "events" && <Events run={run} />}
          {tab === "files" && <Files run={run} />}
        </Suspense>
      </div>
    </div>
  );
}

/** [ and ] go to the neighbours in the list that was shown last. */
function useNeighbours(id: string): void {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const go = (by: number) => {
    const lists = client.getQueriesData<{ pages: RunsPage[] }>({ queryKey: ["runs"] });
    const runs = lists.flatMap(([, data]) => data?.pages.flatMap((page) => page.runs) ?? []);
    const at = runs.findIndex((run) => run.id === id);
    const next = at < 0 ? undefined : runs[at + by];
    if (next) navigate(`/runs/${encodeURIComponent(next.id)}${location.search}`);
  };
  useKeys({ "[": () => go(-1), "]": () => go(1) });
}

function RunHeader({ run }: { run: RunDetail }) {
  const now = useNow();
  const best = run.best_evaluation;
  const status = useQuery({ queryKey: ["status"], queryFn: () => api.status() });
  const canWrite = status.data?.can_write ?? false;
  return (
    <header className="run-head">
      <div className="run-title">
        <h1>
          <bdi>{run.name}</bdi>
        </h1>
        <StatusDot status={run.status} withName />
        {run.ended && <span className="note">{run.ended}</span>}
        <VerifiedBadge run={run} />
      </div>
      <dl className="facts">
        <div>
          <dt>Env</dt>
          <dd>
            <bdi>{run.env}</bdi>, seed {run.seed}
          </dd>
        </div>
        <div>
          <dt>Steps</dt>
          <dd>
            {whole(run.steps)}
            {run.limit !== null && ` of ${short(run.limit)}`}
          </dd>
        </div>
        <div>
          <dt>Return</dt>
          <dd>{short(run.return_recent)}</dd>
        </div>
        <div>
          <dt>Best</dt>
          <dd>
            {best ? short(best.mean) : short(run.best)}
            {best && best.low !== null && best.high !== null && (
              <span title={`95 % interval over ${best.episodes} episodes at step ${best.step}`}>
                {" "}
                ({short(best.low)} to {short(best.high)})
              </span>
            )}
          </dd>
        </div>
        <div>
          <dt>Speed</dt>
          <dd>{short(run.steps_per_second)} steps/s</dd>
        </div>
        <div>
          <dt>{run.status === "running" ? "Time left" : "Took"}</dt>
          <dd>{duration(run.status === "running" ? run.seconds_left : run.seconds)}</dd>
        </div>
        <div>
          <dt>Learner</dt>
          <dd title={run.learner_reason ?? undefined}>{run.learner}</dd>
        </div>
        <div>
          <dt>Started</dt>
          <dd title={dateTime(run.created)}>
            {age(run.created, now)} on {run.host}
          </dd>
        </div>
      </dl>
      <div className="actions">
        <Command label="resume" text={run.commands.resume} />
        <Command label="eval" text={run.commands.eval} />
        <Command label="play" text={run.commands.play} />
        <Command label="verify" text={run.commands.verify} />
        {canWrite && run.can_stop && <Stop run={run} />}
        {canWrite && run.status !== "running" && run.folder_here && <Verify run={run} />}
        {canWrite && run.status !== "running" && <Delete run={run} />}
      </div>
      <Marks run={run} canWrite={canWrite} />
    </header>
  );
}

function VerifiedBadge({ run }: { run: RunDetail }) {
  const last = run.verifications.at(-1);
  if (!last) return null;
  return (
    <span
      className={last.identical ? "badge good" : "badge bad"}
      title={`${last.what}; ${last.host}, version ${last.version}, ${dateTime(last.time)}`}
    >
      {last.identical ? `✓ verified: identical, ${whole(last.records)} records` : "✕ verification failed"}
    </span>
  );
}

function Stop({ run }: { run: RunDetail }) {
  const [error, setError] = useState<unknown>(null);
  const [isAsked, setAsked] = useState(false);
  return (
    <>
      <button
        type="button"
        disabled={isAsked}
        onClick={() => {
          setAsked(true);
          api.stop(run.id).catch((problem: unknown) => {
            setError(problem);
            setAsked(false);
          });
        }}
      >
        {isAsked ? "Stopping" : "Stop"}
      </button>
      {error !== null && <ErrorNote error={error} />}
    </>
  );
}

function Verify({ run }: { run: RunDetail }) {
  const progress = useVerification(run.id);
  const [error, setError] = useState<unknown>(null);
  const isBusy = progress !== undefined && !progress.done;
  return (
    <>
      <button
        type="button"
        disabled={isBusy}
        title="Train the run again and compare every bit"
        onClick={() => {
          setError(null);
          startVerification(run.id);
          api.verify(run.id).catch((problem: unknown) => {
            forgetVerification(run.id);
            setError(problem);
          });
        }}
      >
        Verify
      </button>
      {progress && (
        <output className="verify" aria-live="polite">
          {isBusy && <progress value={progress.fraction ?? undefined} max={1} aria-label="Verification" />}
          <span className={progress.done && !progress.identical ? "level-error" : undefined}>{progress.what}</span>
        </output>
      )}
      {error !== null && <ErrorNote error={error} />}
    </>
  );
}

function Delete({ run }: { run: RunDetail }) {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>(null);
  return (
    <>
      <button type="button" onClick={() => setAsking(true)}>
        Delete
      </button>
      {isAsking && (
        <Dialog title="Delete the run?" onClose={() => setAsking(false)}>
          <p>
            <bdi>{run.name}</bdi>, its folder with checkpoints and replays, and everything recorded of it. This cannot
            be undone.
          </p>
          {error !== null && <ErrorNote error={error} />}
          <button
            type="button"
            className="danger"
            onClick={() => {
              api
                .remove(run.id)
                .then(() => {
                  void client.invalidateQueries({ queryKey: ["runs"] });
                  navigate("/runs");
                })
                .catch(setError);
            }}
          >
            Delete
          </button>
        </Dialog>
      )}
    </>
  );
}
