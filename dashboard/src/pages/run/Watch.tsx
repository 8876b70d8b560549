/** Kept replays and fresh episodes of any policy of the run, alone or two side by side. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { api } from "../../api/client";
import type { Checkpoint, ReplayEntry, RunDetail } from "../../api/types";
import { useNewestPolicy } from "../../live/sync";
import { type Fields, flag, number, optionalNumber, text, useView } from "../../state/url";
import { short, whole } from "../../ui/format";
import { Empty, ErrorNote, Loaded, Skeleton } from "../../ui/states";
import { Player } from "../../watch/Player";
import { type How, parseSource, playRequest, type Source } from "./source";

interface WatchView {
  a: string;
  b: string;
  seed: string;
  index: number;
  stochastic: boolean;
  options: string;
  /** The frame at which the replay was paused. */
  t: number | null;
}
const FIELDS: Fields<WatchView> = {
  a: text(),
  b: text(),
  seed: text("0"),
  index: number(0, 0, 2 ** 31 - 1),
  stochastic: flag(),
  options: text(),
  t: optionalNumber(),
};

export default function Watch({ run }: { run: RunDetail }) {
  const [view, update] = useView(FIELDS);
  const replays = useQuery({
    queryKey: ["replays", run.id],
    queryFn: () => api.replays(run.id),
    enabled: run.folder_here,
  });
  const checkpoints = useQuery({
    queryKey: ["checkpoints", run.id],
    queryFn: () => api.checkpoints(run.id),
    enabled: run.folder_here,
  });
  if (!run.folder_here) {
    return <Empty>Its folder is on {run.host}: replays and policies can be watched there only.</Empty>;
  }
  if (!replays.data || !checkpoints.data) {
    const error = replays.error ?? checkpoints.error;
    return error ? <ErrorNote error={error} onRetry={() => void replays.refetch()} /> : <Skeleton rows={6} />;
  }
  const kept = checkpoints.data.checkpoints.filter((checkpoint) => checkpoint.exists);
  const fallback =
    run.status === "running"
      ? "newest"
      : replays.data.replays[0]
        ? `replay:${replays.data.replays[0].name}`
        : kept.length
          ? "checkpoint:best"
          : "";
  const first = parseSource(view.a || fallback);
  const second = view.b ? parseSource(view.b) : null;
  const chosen = { a: view.a || fallback, b: view.b };
  return (
    <div className="watch">
      <div className="watch-stage">
        {first === null ? (
          <Empty>
            {chosen.a
              ? `"${chosen.a}" is none of this run's episodes.`
              : "Nothing to watch yet: the run has kept neither a replay nor a checkpoint."}
          </Empty>
        ) : (
          <Stage
            key={JSON.stringify([chosen, view.seed, view.index, view.stochastic, view.options])}
            run={run}
            sources={second ? [first, second] : [first]}
            view={view}
            onPause={(t) => update({ t }, { replace: true })}
          />
        )}
      </div>
      <aside className="watch-list" aria-label="Episodes">
        <PlayFresh
          view={view}
          onPlay={(how) =>
            update({ ...how, t: null, a: chosen.a.startsWith("replay:") ? "checkpoint:best" : chosen.a })
          }
        />
        <SourceList
          run={run}
          replays={replays.data.replays}
          checkpoints={kept}
          chosen={chosen}
          onChoose={(change) => update({ ...change, t: null })}
        />
      </aside>
    </div>
  );
}

interface StageProps {
  run: RunDetail;
  sources: Source[];
  view: WatchView;
  onPause(frame: number): void;
}

function Stage({ run, sources, view, onPause }: StageProps) {
  const [round, setRound] = useState(0);
  const isArena = sources.some((source) => source.kind === "newest") && run.status === "running";
  const newest = useNewestPolicy(run.id);
  // Every round of the arena is another episode of the newest policy.
  const seed = isArena ? String(BigInt(/^\d+$/.test(view.seed) ? view.seed : "0") + BigInt(round)) : view.seed;
  const how: How = { seed, index: view.index, stochastic: view.stochastic, options: view.options };
  const query = useQuery({
    queryKey: ["play", run.id, sources, how, round],
    queryFn: ({ signal }) =>
      Promise.all(
        sources.map((source) =>
          source.kind === "replay"
            ? api.replay(run.id, source.name, signal)
            : api.play(run.id, playRequest(source, how), signal),
        ),
      ),
    staleTime: isArena ? 0 : Infinity,
    gcTime: isArena ? 0 : 120_000,
    placeholderData: keepPreviousData,
    retry: false,
  });
  const { isPlaceholderData, isFetching } = query;
  const next = useCallback(() => {
    if (!isPlaceholderData && !isFetching) setRound((before) => before + 1);
  }, [isPlaceholderData, isFetching]);
  // A run whose first policy does not exist yet is tried again.
  useEffect(() => {
    if (!isArena || !query.error) return;
    const timer = setTimeout(() => void query.refetch(), 3000);
    return () => clearTimeout(timer);
  }, [isArena, query.error, query.refetch]);
  const [shown, setShown] = useState(0);
  if (!isPlaceholderData && query.data && shown !== round) setShown(round);
  return (
    <Loaded query={query} rows={8}>
      {(episodes) => (
        <>
          {isArena && (
            <p className="arena" aria-live="polite">
              Live: the newest policy, step{" "}
              {short(episodes.find((one) => one.source.kind === "newest")?.source.checkpoint_step ?? newest ?? null)}
            </p>
          )}
          {episodes.length > 1 && episodes[0]!.env !== episodes[1]!.env && <p className="note">Different envs.</p>}
          <Player
            key={isPlaceholderData ? shown : round}
            episodes={episodes}
            start={round === 0 ? (view.t ?? 0) : 0}
            onPause={onPause}
            {...(isArena ? { onEnd: next } : {})}
          />
        </>
      )}
    </Loaded>
  );
}

function PlayFresh({ view, onPlay }: { view: WatchView; onPlay(how: How): void }) {
  const [seed, setSeed] = useState(view.seed);
  const [index, setIndex] = useState(String(view.index));
  const [stochastic, setStochastic] = useState(view.stochastic);
  const [options, setOptions] = useState(view.options);
  return (
    <form
      className="play-fresh"
      onSubmit={(event) => {
        event.preventDefault();
        onPlay({ seed, index: Number(index), stochastic, options });
      }}
    >
      <h2>Play a fresh episode</h2>
      <label>
        Seed{" "}
        <input
          inputMode="numeric"
          pattern="[0-9]{1,20}"
          required
          value={seed}
          onChange={(event) => setSeed(event.target.value)}
        />
      </label>
      <label>
        Env index{" "}
        <input
          inputMode="numeric"
          pattern="[0-9]{1,9}"
          required
          value={index}
          onChange={(event) => setIndex(event.target.value)}
        />
      </label>
      <label className="check">
        <input type="checkbox" checked={stochastic} onChange={(event) => setStochastic(event.target.checked)} />
        Sample actions
      </label>
      <label>
        Env options{" "}
        <input placeholder="length=0.7" value={options} onChange={(event) => setOptions(event.target.value)} />
      </label>
      <button type="submit">Play</button>
    </form>
  );
}

interface ListProps {
  run: RunDetail;
  replays: ReplayEntry[];
  checkpoints: Checkpoint[];
  chosen: { a: string; b: string };
  onChoose(change: { a?: string; b?: string }): void;
}

function SourceList({ run, replays, checkpoints, chosen, onChoose }: ListProps) {
  const [step, setStep] = useState("");
  const entry = (source: string, name: string, note: string) => (
    <li key={source} className={chosen.a === source || chosen.b === source ? "chosen" : undefined}>
      <button
        type="button"
        className="link"
        aria-current={chosen.a === source ? "true" : undefined}
        onClick={() => onChoose({ a: source })}
      >
        {name}
      </button>
      <span className="note">{note}</span>
      <button
        type="button"
        className="quiet"
        aria-pressed={chosen.b === source}
        aria-label={chosen.b === source ? `Remove ${name} from beside` : `Show ${name} beside`}
        title="Side by side"
        onClick={() => onChoose({ b: chosen.b === source ? "" : source })}
      >
        {chosen.b === source ? "✕" : "◫"}
      </button>
    </li>
  );
  return (
    <>
      <h2>Policies</h2>
      <ul className="sources">
        {run.status === "running" && entry("newest", "Newest", "live")}
        {checkpoints.length > 0 && entry("checkpoint:best", "Best", "")}
        {checkpoints
          .toSorted((a, b) => b.step - a.step)
          .map((checkpoint) =>
            entry(`checkpoint:${checkpoint.name}`, `Step ${whole(checkpoint.step)}`, checkpoint.is_best ? "best" : ""),
          )}
      </ul>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onChoose({ a: `step:${step}` });
        }}
      >
        <label>
          Any step{" "}
          <input
            inputMode="numeric"
            pattern="[0-9]{1,15}"
            required
            value={step}
            onChange={(event) => setStep(event.target.value)}
          />
        </label>{" "}
        <button type="submit">Watch</button>
      </form>
      {!run.exact && run.inexact_reason && <p className="note">{run.inexact_reason}</p>}
      <h2>Kept replays</h2>
      {replays.length === 0 ? (
        <p className="note">None kept.</p>
      ) : (
        <ul className="sources">
          {replays.map((replay) =>
            entry(
              `replay:${replay.name}`,
              `Return ${short(replay.return)}`,
              `${whole(replay.steps)} steps${replay.note ? `, ${replay.note}` : ""}`,
            ),
          )}
        </ul>
      )}
    </>
  );
}
