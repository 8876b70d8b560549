/** How settings and results go together: parallel coordinates and a scatter plot. */
import { useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import type { Comparison, RunDetail } from "../../api/types";
import { lineStyle } from "../../chart/palette";
import { useDark } from "../../state/preferences";
import { plain, short } from "../../ui/format";
import { ScrollRegion } from "../../ui/Table";
import { type Axis, toAxis } from "./axis";

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
  const [width, height, gap] = [(axes.length - 1) * 130 + 120, 220, 130];
  const x = (index: number) => 60 + index * gap;
  const y = (place: number) => 30 + (1 - place) * (height - 60);
  return (
    <>
      <h2>Parallel coordinates</h2>
      <ScrollRegion label="Parallel coordinates">
        <svg
          width={width}
          height={height}
          role="img"
          aria-label="Settings that differ and the best result, a line for each run; the tables above have the values"
        >
          {axes.map((axis, index) => (
            <g key={axis.name} className="axis">
              <line x1={x(index)} x2={x(index)} y1={y(0)} y2={y(1)} />
              <text x={x(index)} y={14} textAnchor="middle">
                {axis.name}
              </text>
              <text x={x(index)} y={y(0) + 16} textAnchor="middle">
                {axis.low}
              </text>
              <text x={x(index) + 5} y={y(1) + 4}>
                {axis.high}
              </text>
            </g>
          ))}
          {comparison.runs.map(({ id, name }, run) => {
            const style = lineStyle(Math.max(0, slots.indexOf(id)), dark);
            const points = axes.flatMap((axis, index) => {
              const place = axis.places[run];
              return place === null || place === undefined ? [] : [`${x(index)},${y(place)}`];
            });
            return (
              // biome-ignore lint/a11y/noStaticElementInteractions: only brings a line forward
              <polyline
                key={id}
                points={points.join(" ")}
                fill="none"
                stroke={style.colour}
                strokeDasharray={style.dash.join(" ")}
                strokeWidth={front === id ? 4 : 2}
                opacity={front === null || front === id ? 1 : 0.2}
                onMouseEnter={() => onFront(id)}
                onMouseLeave={() => onFront(null)}
              >
                <title>{name}</title>
              </polyline>
            );
          })}
        </svg>
      </ScrollRegion>
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
  const [width, height] = [420, 260];
  const x = (place: number) => 60 + place * (width - 90);
  const y = (place: number) => height - 40 - place * (height - 65);
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
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${yKey} against ${xKey}`} className="scatter">
        <g className="axis">
          <line x1={x(0)} x2={x(1)} y1={y(0) + 8} y2={y(0) + 8} />
          <line x1={x(0) - 8} x2={x(0) - 8} y1={y(0)} y2={y(1)} />
          <text x={x(0)} y={height - 8}>
            {along.low}
          </text>
          <text x={x(1)} y={height - 8} textAnchor="end">
            {along.high}
          </text>
          <text x={x(0) - 12} y={y(0)} textAnchor="end">
            {up.low}
          </text>
          <text x={x(0) - 12} y={y(1) + 4} textAnchor="end">
            {up.high}
          </text>
        </g>
        {comparison.runs.map((run, index) => {
          const [px, py] = [along.places[index], up.places[index]];
          if (px === null || px === undefined || py === null || py === undefined) return null;
          return (
            <circle
              key={run.id}
              cx={x(px)}
              cy={y(py)}
              r="5"
              fill={lineStyle(Math.max(0, slots.indexOf(run.id)), dark).colour}
            >
              <title>{run.name}</title>
            </circle>
          );
        })}
      </svg>
    </>
  );
}
