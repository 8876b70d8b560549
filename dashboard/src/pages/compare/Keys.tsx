/** How settings and results go together: parallel coordinates and a scatter plot. */
import { useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import type { Comparison, RunDetail } from "../../api/types";
import { type Axis, toAxis } from "../../chart/axis";
import { ParallelAxes } from "../../chart/ParallelAxes";
import { Points } from "../../chart/Points";
import { lineStyle } from "../../chart/palette";
import { useDark } from "../../state/preferences";
import { plain, short } from "../../ui/format";

const format = (value: unknown) => (typeof value === "number" ? short(value) : plain(value));
const RESULTS = ["best", "return_recent", "steps", "seconds", "steps_per_second"] as const;
// Axes that fit next to each other.
const MOST = 8;

function useRunDetails(comparison: Comparison): (RunDetail | undefined)[] {
  return useQueries({
    queries: comparison.runs.map(({ id }) => ({
      queryKey: ["run", id],
      queryFn: ({ signal }: { signal: AbortSignal }) => api.run(id, signal),
    })),
    combine: (results) => results.map((result) => result.data),
  });
}

interface ParallelProps {
  comparison: Comparison;
  slots: readonly string[];
  front: string | null;
  onFront(run: string | null): void;
}

export function Parallel({ comparison, slots, front, onFront }: ParallelProps) {
  const dark = useDark();
  const runs = useRunDetails(comparison);
  const settings = comparison.settings.slice(0, MOST - 1);
  if (settings.length === 0 || comparison.runs.length < 2) return null;
  const axes = [
    ...settings.map(({ key, values }) => toAxis(key, values, format)),
    toAxis(
      "best",
      runs.map((run) => run?.best ?? null),
      format,
    ),
  ];
  const lines = comparison.runs.map(({ id, name }) => {
    const { colour, dash } = lineStyle(Math.max(0, slots.indexOf(id)), dark);
    return { id, title: name, colour, dash };
  });
  return (
    <>
      <h2>Parallel coordinates</h2>
      <ParallelAxes
        axes={axes}
        lines={lines}
        label="Settings that differ and the best result, a line for each run; the tables above have the values"
        front={front}
        onFront={onFront}
      />
    </>
  );
}

export function Scatter({ comparison, slots }: { comparison: Comparison; slots: readonly string[] }) {
  const dark = useDark();
  const runs = useRunDetails(comparison);
  const keys = comparison.settings.map((setting) => setting.key);
  const [xKey, setX] = useState(keys[0] ?? "steps");
  const [yKey, setY] = useState<string>("best");
  if (comparison.runs.length < 2) return null;
  const axisOf = (key: string): Axis => {
    const setting = comparison.settings.find((one) => one.key === key);
    return toAxis(key, setting?.values ?? runs.map((run) => run?.[key as (typeof RESULTS)[number]] ?? null), format);
  };
  const [along, up] = [axisOf(xKey), axisOf(yKey)];
  const points = comparison.runs.map(({ id, name }) => ({
    id,
    title: name,
    colour: lineStyle(Math.max(0, slots.indexOf(id)), dark).colour,
  }));
  const choose = (label: string, value: string, onChange: (key: string) => void) => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {[...keys, ...RESULTS].map((key) => (
          <option key={key}>{key}</option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <h2>Scatter</h2>
      <div className="bar">
        {choose("x", xKey, setX)}
        {choose("y", yKey, setY)}
      </div>
      <Points along={along} up={up} points={points} label={`${yKey} against ${xKey}`} />
    </>
  );
}
