/** A scatter plot of two axes, with a line through some of its points. */
import type { Axis } from "./axis";

export interface PlotPoint {
  id: string;
  title: string;
  colour?: string;
  className?: string;
}

interface Props {
  along: Axis;
  up: Axis;
  points: readonly PlotPoint[];
  label: string;
  /** Indices of the points that a line joins. */
  joined?: readonly number[];
}

const [WIDTH, HEIGHT] = [420, 260];
const x = (place: number) => 60 + place * (WIDTH - 90);
const y = (place: number) => HEIGHT - 40 - place * (HEIGHT - 65);

export function Points({ along, up, points, label, joined = [] }: Props) {
  const at = (index: number): [number, number] | null => {
    const [px, py] = [along.places[index], up.places[index]];
    return px === null || px === undefined || py === null || py === undefined ? null : [x(px), y(py)];
  };
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label} className="scatter">
      <g className="axis">
        <line x1={x(0)} x2={x(1)} y1={y(0) + 8} y2={y(0) + 8} />
        <line x1={x(0) - 8} x2={x(0) - 8} y1={y(0)} y2={y(1)} />
        <text x={x(0)} y={HEIGHT - 8}>
          {along.low}
        </text>
        <text x={x(1)} y={HEIGHT - 8} textAnchor="end">
          {along.high}
        </text>
        <text x={x(0) - 12} y={y(0)} textAnchor="end">
          {up.low}
        </text>
        <text x={x(0) - 12} y={y(1) + 4} textAnchor="end">
          {up.high}
        </text>
      </g>
      {joined.length > 1 && (
        <polyline className="line" points={joined.map((index) => at(index)?.join(",") ?? "").join(" ")} />
      )}
      {points.map(({ id, title, colour, className }, index) => {
        const place = at(index);
        return (
          place && (
            <circle
              key={id}
              cx={place[0]}
              cy={place[1]}
              r="4"
              className={className ? `dot ${className}` : "dot"}
              style={{ fill: colour }}
            >
              <title>{title}</title>
            </circle>
          )
        );
      })}
    </svg>
  );
}
