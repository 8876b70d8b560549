/** Parallel coordinates: an axis for each setting and result, a line for each run or trial. Dragging along an axis selects. */
import { type PointerEvent, useRef } from "react";
import { ScrollRegion } from "../ui/Table";
import type { Axis } from "./axis";

export interface ParallelLine {
  id: string;
  title: string;
  colour?: string;
  dash?: readonly number[];
  className?: string;
}

/** Selected ranges of axes by name, from 0 to 1. */
export type Brushes = Readonly<Record<string, readonly [number, number]>>;

interface Props {
  axes: readonly Axis[];
  lines: readonly ParallelLine[];
  label: string;
  front: string | null;
  onFront(id: string | null): void;
  brushes?: Brushes;
  onBrush?(brushes: Brushes): void;
}

const GAP = 130;
const HEIGHT = 220;
const x = (index: number) => 60 + index * GAP;
const y = (place: number) => 30 + (1 - place) * (HEIGHT - 60);
const placeAt = (pixel: number) => Math.min(1, Math.max(0, 1 - (pixel - 30) / (HEIGHT - 60)));

/** Whether a line passes through every selected range. */
export const isSelected = (axes: readonly Axis[], line: number, brushes: Brushes): boolean =>
  axes.every(({ name, places }) => {
    const range = brushes[name];
    const place = places[line];
    return !range || (place !== null && place !== undefined && place >= range[0] && place <= range[1]);
  });

export function ParallelAxes({ axes, lines, label, front, onFront, brushes = {}, onBrush }: Props) {
  return (
    <ScrollRegion label={label}>
      <svg width={(axes.length - 1) * GAP + 120} height={HEIGHT} role="img" aria-label={label}>
        {lines.map(({ id, title, colour, dash, className }, line) => {
          const points = axes.flatMap((axis, index) => {
            const place = axis.places[line];
            return place === null || place === undefined ? [] : [`${x(index)},${y(place)}`];
          });
          const isFaint = (front !== null && front !== id) || !isSelected(axes, line, brushes);
          return (
            // biome-ignore lint/a11y/noStaticElementInteractions: only brings a line forward
            <polyline
              key={id}
              className={className ? `line ${className}` : "line"}
              points={points.join(" ")}
              style={{ stroke: colour }}
              strokeDasharray={dash?.join(" ")}
              strokeWidth={front === id ? 4 : 2}
              opacity={isFaint ? 0.15 : 1}
              onMouseEnter={() => onFront(id)}
              onMouseLeave={() => onFront(null)}
            >
              <title>{title}</title>
            </polyline>
          );
        })}
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
            {onBrush && <Brush name={axis.name} x={x(index)} brushes={brushes} onBrush={onBrush} />}
          </g>
        ))}
      </svg>
    </ScrollRegion>
  );
}

function Brush({
  name,
  x,
  brushes,
  onBrush,
}: { name: string; x: number } & Required<Pick<Props, "brushes" | "onBrush">>) {
  const start = useRef<number | null>(null);
  const placeOf = (event: PointerEvent<SVGRectElement>) =>
    placeAt(event.clientY - (event.currentTarget.ownerSVGElement?.getBoundingClientRect().top ?? 0));
  const { [name]: range, ...others } = brushes;
  return (
    <>
      {range && <rect className="brush" x={x - 7} width={14} y={y(range[1])} height={y(range[0]) - y(range[1])} />}
      <rect
        className="brush-area"
        x={x - 12}
        width={24}
        y={y(1)}
        height={y(0) - y(1)}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          start.current = placeOf(event);
          onBrush(others);
        }}
        onPointerMove={(event) => {
          if (start.current === null) return;
          const ends = [start.current, placeOf(event)].sort((a, b) => a - b) as [number, number];
          if (ends[1] - ends[0] > 0.02) onBrush({ ...others, [name]: ends });
        }}
        onPointerUp={() => {
          start.current = null;
        }}
      >
        <title>Drag to select a range of {name}; click to drop it</title>
      </rect>
    </>
  );
}
