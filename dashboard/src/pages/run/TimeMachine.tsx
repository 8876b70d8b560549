/** The policy of a moment of the run, rebuilt by the server, playing beside the curve. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { api } from "../../api/client";
import type { RunDetail } from "../../api/types";
import { whole } from "../../ui/format";
import { useKeys } from "../../ui/hooks";
import { Loaded } from "../../ui/states";
import { Player } from "../../watch/Player";

interface Props {
  run: RunDetail;
  step: number;
  onClose(): void;
  onOpen(): void;
}

export function TimeMachine({ run, step, onClose, onOpen }: Props) {
  const box = useRef<HTMLElement>(null);
  const [exact, setExact] = useState(false);
  const episode = useQuery({
    queryKey: ["play", run.id, { step, exact }],
    queryFn: ({ signal }) => api.play(run.id, exact ? { step, exact } : { step }, signal),
    staleTime: Infinity,
  });
  useKeys({ Escape: onClose });
  useEffect(() => box.current?.focus(), []);
  return (
    <aside className="time-machine" ref={box} tabIndex={-1} aria-label={`The policy at step ${step}`}>
      <header>
        <h2>Policy at step {whole(step)}</h2>
        <button type="button" onClick={onOpen}>
          Open in Watch
        </button>
        <button type="button" className="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      {!run.exact && run.inexact_reason && <p className="note">{run.inexact_reason}</p>}
      <Loaded query={episode} rows={5}>
        {(frames) => (
          <>
            <Player episodes={[frames]} compact />
            {run.exact && frames.source.kind === "checkpoint" && !exact && (
              <button type="button" onClick={() => setExact(true)} title="Trains on from the checkpoint; may take long">
                Rebuild the policy of exactly this step
              </button>
            )}
          </>
        )}
      </Loaded>
    </aside>
  );
}
