/** The strip under the picture: rewards, return and value over the episode. It is also the scrubber. */
import { useEffect, useRef } from "react";
import type { Frames } from "../api/types";
import { lineStyle } from "../chart/palette";
import { useDark } from "../state/preferences";
import { short } from "../ui/format";
import type { Clock } from "./clock";

const HEIGHT = 64;

const sum = (values: readonly (number | null)[] | undefined) =>
  values?.reduce<number>((total, value) => total + (value ?? 0), 0) ?? 0;

/** The rewards of a seat, or of all seats together. */
export const rewardAt = (episode: Frames, step: number, seat: number | null): number =>
  seat === null ? sum(episode.rewards[step]) : (episode.rewards[step]?.[seat] ?? 0);

export function returnAt(episode: Frames, frame: number, seat: number | null): number {
  if (frame === 0) return 0;
  const returns = episode.returns[Math.min(frame, episode.steps) - 1];
  return seat === null ? sum(returns) : (returns?.[seat] ?? 0);
}

export function Strip({ episodes, clock, seat }: { episodes: readonly Frames[]; clock: Clock; seat: number | null }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useDark();
  const last = Math.max(...episodes.map((episode) => episode.steps));

  useEffect(() => {
    const target = canvas.current;
    if (target === null) return;
    const draw = () => {
      const ratio = devicePixelRatio;
      target.width = target.clientWidth * ratio;
      target.height = HEIGHT * ratio;
      drawStrip(target, episodes, last, seat, dark);
    };
    draw();
    const observer = new ResizeObserver(draw);
    observer.observe(target);
    return () => observer.disconnect();
  }, [episodes, last, seat, dark]);

  const seekTo = (event: React.PointerEvent) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    clock.seek(((event.clientX - left) / width) * last);
  };
  const episode = episodes[0]!;
  return (
    <div
      className="strip"
      role="slider"
      tabIndex={0}
      aria-label="Step of the episode"
      aria-valuemin={0}
      aria-valuemax={last}
      aria-valuenow={clock.frame}
      aria-valuetext={`step ${clock.frame} of ${last}, return ${short(returnAt(episode, clock.frame, seat))}`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        seekTo(event);
      }}
      onPointerMove={(event) => event.buttons === 1 && seekTo(event)}
      onKeyDown={(event) => {
        const moves: Record<string, number> = {
          ArrowLeft: clock.frame - 1,
          ArrowDown: clock.frame - 1,
          ArrowRight: clock.frame + 1,
          ArrowUp: clock.frame + 1,
          PageDown: clock.frame - 10,
          PageUp: clock.frame + 10,
          Home: 0,
          End: last,
        };
        const to = moves[event.key];
        if (to === undefined) return;
        event.preventDefault();
        clock.seek(to);
      }}
    >
      <canvas ref={canvas} style={{ height: HEIGHT }} />
      <div className="strip-now" style={{ left: `${(clock.frame / Math.max(1, last)) * 100}%` }} />
    </div>
  );
}

function drawStrip(
  canvas: HTMLCanvasElement,
  episodes: readonly Frames[],
  last: number,
  seat: number | null,
  dark: boolean,
) {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  const ratio = devicePixelRatio;
  const x = (step: number) => (step / Math.max(1, last)) * width;
  const scaled = (values: readonly (readonly (number | null)[])[]) => {
    const all = values.flat().filter((value): value is number => value !== null);
    const [low, high] = [Math.min(0, ...all), Math.max(0, ...all)];
    return (value: number) => height - 3 * ratio - ((value - low) / (high - low || 1)) * (height - 6 * ratio);
  };
  const line = (values: readonly (number | null)[], y: (value: number) => number, dash: number[]) => {
    context.setLineDash(dash.map((length) => length * ratio));
    context.beginPath();
    values.forEach((value, step) => {
      if (value !== null) context.lineTo(x(step), y(value));
    });
    context.stroke();
  };
  const rewards = episodes.map((episode) => episode.rewards.map((_, step) => rewardAt(episode, step, seat)));
  const returns = episodes.map((episode) =>
    Array.from({ length: episode.steps + 1 }, (_, frame) => returnAt(episode, frame, seat)),
  );
  const values = episodes.map((episode) => episode.values?.map((step) => step[seat ?? 0] ?? null) ?? []);
  const [yReward, yReturn, yValue] = [scaled(rewards), scaled(returns), scaled(values)];
  episodes.forEach((_, index) => {
    const { colour } = lineStyle(index, dark);
    context.fillStyle = `${colour}55`;
    const bar = Math.max(1, width / Math.max(1, last) - 1);
    rewards[index]!.forEach((reward, step) => {
      const [zero, top] = [yReward(0), yReward(reward)];
      if (reward !== 0) context.fillRect(x(step), Math.min(zero, top), bar, Math.max(1, Math.abs(zero - top)));
    });
    context.strokeStyle = colour;
    context.lineWidth = 2 * ratio;
    line(returns[index]!, yReturn, []);
    context.lineWidth = 1.5 * ratio;
    line(values[index]!, yValue, [3, 3]);
  });
}
