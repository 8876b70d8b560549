const [WIDTH, HEIGHT] = [72, 20];

/** Where a list of values goes on a small picture; `null` leaves a gap in x only. */
export function sparkPath(values: readonly (number | null)[]): string {
  const points = values.flatMap((value, index) => (value === null ? [] : [[index, value] as const]));
  if (points.length === 0) return "";
  const [low, high] = [Math.min(...points.map(([, y]) => y)), Math.max(...points.map(([, y]) => y))];
  const scaleX = (WIDTH - 4) / Math.max(1, values.length - 1);
  const scaleY = high > low ? (HEIGHT - 4) / (high - low) : 0;
  return points
    .map(([x, y], at) => {
      const [px, py] = [2 + x * scaleX, HEIGHT - 2 - (scaleY ? (y - low) * scaleY : (HEIGHT - 4) / 2)];
      return `${at ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`;
    })
    .join("");
}

export function Sparkline({ values }: { values: readonly (number | null)[] }) {
  return (
    <svg className="sparkline" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <path d={sparkPath(values)} fill="none" stroke="currentColor" strokeWidth="1.5" />
    </svg>
  );
}
