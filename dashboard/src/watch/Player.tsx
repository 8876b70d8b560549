/** Plays one episode, or two side by side in lock-step. */
import { useEffect, useMemo, useRef, useState } from "react";
import type { Frames } from "../api/types";
import { lineStyle } from "../chart/palette";
import { setPreference, useDark, usePreferences } from "../state/preferences";
import { plain, short, whole } from "../ui/format";
import { type Clock, SPEEDS, useClock } from "./clock";
import { drawFrame } from "./draw";
import { returnAt, rewardAt, Strip } from "./Strip";

interface Props {
  episodes: readonly Frames[];
  /** The frame to begin with; playing starts by itself only at the beginning. */
  start?: number;
  onPause?(frame: number): void;
  /** Called when an episode was seen to its end: the live arena fetches the next one. */
  onEnd?(): void;
  compact?: boolean;
}

export function Player({ episodes, start = 0, onPause, onEnd, compact = false }: Props) {
  const { pace } = usePreferences();
  const [loop, setLoop] = useState(true);
  const [seat, setSeat] = useState<number | null>(null);
  const first = episodes[0]!;
  const last = Math.max(...episodes.map((episode) => episode.steps));
  const calm = useMemo(() => matchMedia("(prefers-reduced-motion: reduce)").matches, []);
  const clock = useClock(last, first.pace * pace, loop, { frame: start, playing: start === 0 && !calm }, onEnd);
  const root = useRef<HTMLDivElement>(null);

  const wasPlaying = useRef(clock.isPlaying);
  useEffect(() => {
    if (wasPlaying.current && !clock.isPlaying) onPause?.(clock.frame);
    wasPlaying.current = clock.isPlaying;
  }, [clock.isPlaying, clock.frame, onPause]);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
      // A focused button keeps its own space bar.
      if (event.key === " " && target.closest("button, a, summary") && !root.current?.contains(target)) return;
      if (event.key === " ") clock.toggle();
      else if (event.key === ",") clock.step(-1);
      else if (event.key === ".") clock.step(1);
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [clock]);

  return (
    <div className={compact ? "player compact" : "player"} ref={root}>
      <div className={episodes.length > 1 ? "pictures two" : "pictures"}>
        {episodes.map((episode, index) => (
          <Picture key={index} episode={episode} frame={clock.frame} seat={seat} index={index} of={episodes.length} />
        ))}
      </div>
      <Strip episodes={episodes} clock={clock} seat={seat} />
      <div className="player-bar">
        <button type="button" onClick={() => clock.step(-1)} aria-label="One step back" title="One step back (,)">
          ◀︎
        </button>
        <button
          type="button"
          className="primary"
          onClick={clock.toggle}
          aria-label={clock.isPlaying ? "Pause" : "Play"}
          title="Space"
        >
          {clock.isPlaying ? "❚❚" : "▶"}
        </button>
        <button type="button" onClick={() => clock.step(1)} aria-label="One step forward" title="One step forward (.)">
          ▶︎
        </button>
        <span className="player-step">
          {whole(clock.frame)} / {whole(last)}
        </span>
        <label>
          <span className="visually-hidden">Speed</span>
          <select value={pace} onChange={(event) => setPreference("pace", Number(event.target.value))}>
            {SPEEDS.map((speed) => (
              <option key={speed} value={speed}>
                {speed} ×
              </option>
            ))}
          </select>
        </label>
        <label className="check">
          <input type="checkbox" checked={loop} onChange={(event) => setLoop(event.target.checked)} />
          Loop
        </label>
        {first.seats > 1 && (
          <label>
            Follow{" "}
            <select
              value={seat ?? ""}
              onChange={(event) => setSeat(event.target.value === "" ? null : Number(event.target.value))}
            >
              <option value="">all seats</option>
              {Array.from({ length: first.seats }, (_, index) => (
                <option key={index} value={index}>
                  seat {index}
                  {first.seat_policies?.[index] ? ` (${first.seat_policies[index]})` : ""}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {!compact &&
        episodes.map((episode, index) => <Moment key={index} episode={episode} clock={clock} seat={seat ?? 0} />)}
    </div>
  );
}

interface PictureProps {
  episode: Frames;
  frame: number;
  seat: number | null;
  index: number;
  of: number;
}

function Picture({ episode, frame, seat, index, of }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const dark = useDark();
  const at = Math.min(frame, episode.steps);

  useEffect(() => {
    const target = canvas.current;
    if (target === null) return;
    const observer = new ResizeObserver(() => setWidth(target.clientWidth));
    observer.observe(target);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const target = canvas.current;
    if (target === null || width === 0) return;
    const wanted = [target.clientWidth * devicePixelRatio, target.clientHeight * devicePixelRatio].map(Math.round);
    // Setting a size clears the canvas: only when it changed.
    if (target.width !== wanted[0] || target.height !== wanted[1])
      [target.width, target.height] = wanted as [number, number];
    drawFrame(target, episode, at, seat);
    if (at === 0) performance.mark("hotloop:frame");
  }, [episode, at, seat, width]);

  const [left, bottom, right, top] = episode.bounds ?? [0, 0, 4, 3];
  return (
    <figure>
      {episode.bounds ? (
        <canvas
          ref={canvas}
          role="img"
          aria-label={`${episode.title}: step ${at} of ${episode.steps}`}
          style={{ aspectRatio: `${right - left} / ${top - bottom}` }}
        />
      ) : episode.texts ? (
        <pre className="scroll">{episode.texts[at]}</pre>
      ) : (
        <StateTable state={episode.state?.[at] ?? {}} />
      )}
      <figcaption>
        {of > 1 && <span className="dot" style={{ background: lineStyle(index, dark).colour }} />}
        {episode.title} · return {short(returnAt(episode, at, seat))}
        {at >= episode.steps && episode.ended ? ` · ${episode.ended}` : ""}
        {episode.checked && (
          <span className="badge good" title="Rewards and observations repeat exactly as recorded">
            exact
          </span>
        )}
        {episode.source.note && <span className="note">{episode.source.note}</span>}
      </figcaption>
    </figure>
  );
}

function StateTable({ state }: { state: Record<string, unknown> }) {
  return (
    <div className="scroll">
      <table>
        <caption className="visually-hidden">Fields of the env's state</caption>
        <tbody>
          {Object.entries(state).map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{plain(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Action, reward, value and action probabilities of a seat at the current step. */
function Moment({ episode, clock, seat }: { episode: Frames; clock: Clock; seat: number }) {
  const step = Math.min(clock.frame, episode.steps - 1);
  if (step < 0) return null;
  const probabilities = episode.probabilities?.[step]?.[seat] ?? null;
  const value = episode.values?.[step]?.[seat] ?? null;
  const action = episode.actions[step]?.[seat];
  return (
    <div className="moment">
      <dl>
        <div>
          <dt>{episode.seats > 1 ? `Action of seat ${seat}` : "Action"}</dt>
          <dd>{episode.action_texts[step]?.[seat] ?? plain(action)}</dd>
        </div>
        <div>
          <dt>Reward</dt>
          <dd>{short(rewardAt(episode, step, seat))}</dd>
        </div>
        <div>
          <dt>Return</dt>
          <dd>{short(returnAt(episode, step + 1, seat))}</dd>
        </div>
        {value !== null && (
          <div>
            <dt>Value</dt>
            <dd>{short(value)}</dd>
          </div>
        )}
      </dl>
      {probabilities && (
        <ul className="probabilities" aria-label="Action probabilities">
          {probabilities
            .map((probability, index) => ({ probability, index, name: episode.action_names[index] ?? String(index) }))
            .sort((a, b) => (probabilities.length > 12 ? b.probability - a.probability : a.index - b.index))
            .slice(0, 12)
            .map(({ probability, index, name }) => (
              <li key={index} className={action === index ? "chosen" : undefined}>
                <span>{name}</span>
                <span className="bar">
                  <span style={{ width: `${probability * 100}%` }} />
                </span>
                <span>{(probability * 100).toFixed(probability < 0.1 ? 1 : 0)} %</span>
              </li>
            ))}
        </ul>
      )}
    </div>
  );
}
