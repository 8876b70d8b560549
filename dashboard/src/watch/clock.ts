/** The clock of a replay: play, pause, step, scrub, speed, loop. One clock moves all pictures in lock-step. */
import { useCallback, useEffect, useRef, useState } from "react";

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];

export interface Clock {
  frame: number;
  isPlaying: boolean;
  toggle(): void;
  seek(frame: number): void;
  /** Moves by some frames and pauses. */
  step(by: number): void;
}

/** The frame after some seconds: past the end it begins again if it loops, else it stays there. */
export function advance(frame: number, seconds: number, perSecond: number, last: number, loop: boolean): number {
  const next = frame + seconds * perSecond;
  if (next <= last) return next;
  // The last frame is seen for a moment before the episode begins again.
  const hold = Math.max(perSecond * 0.6, 1);
  return loop ? (next > last + hold ? 0 : next) : last;
}

export function useClock(
  last: number,
  perSecond: number,
  loop: boolean,
  start: { frame: number; playing: boolean },
  onEnd?: () => void,
): Clock {
  const [frame, setFrame] = useState(Math.min(start.frame, last));
  const [isPlaying, setPlaying] = useState(start.playing);
  const exact = useRef(frame);
  const ended = useRef(onEnd);
  ended.current = onEnd;

  useEffect(() => {
    if (!isPlaying || last <= 0) return;
    let before: number | null = null;
    let request = requestAnimationFrame(function tick(now) {
      if (before !== null) {
        const next = advance(exact.current, (now - before) / 1000, perSecond, last, loop);
        const restarted = next < exact.current;
        exact.current = next;
        setFrame(Math.min(last, Math.floor(next)));
        if (restarted || (!loop && next >= last)) ended.current?.();
        if (!loop && next >= last) return setPlaying(false);
      }
      before = now;
      request = requestAnimationFrame(tick);
    });
    return () => cancelAnimationFrame(request);
  }, [isPlaying, last, perSecond, loop]);

  const seek = useCallback(
    (to: number) => {
      exact.current = Math.max(0, Math.min(last, Math.round(to)));
      setFrame(exact.current);
    },
    [last],
  );
  const toggle = useCallback(() => {
    if (exact.current >= last) seek(0);
    setPlaying((playing) => !playing);
  }, [last, seek]);
  const step = useCallback(
    (by: number) => {
      setPlaying(false);
      seek(Math.floor(exact.current) + by);
    },
    [seek],
  );
  return { frame, isPlaying, toggle, seek, step };
}
