/** Places of settings and results on an axis: numbers by their size, words in equal distances. */
export interface Axis {
  name: string;
  /** From 0 to 1, per run; `null` where a run has no value. */
  places: (number | null)[];
  low: string;
  high: string;
}

export function toAxis(name: string, values: readonly unknown[], format: (value: unknown) => string): Axis {
  const numbers = values.filter((value): value is number => typeof value === "number");
  const isNumeric = values.every((value) => value === null || value === undefined || typeof value === "number");
  if (isNumeric && numbers.length > 0) {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    // Learning rates and the like spread over decades.
    const isLog = low > 0 && high / low >= 50;
    const scale = (value: number) => (isLog ? Math.log(value) : value);
    const span = scale(high) - scale(low) || 1;
    return {
      name,
      places: values.map((value) => (typeof value === "number" ? (scale(value) - scale(low)) / span : null)),
      low: format(low),
      high: format(high),
    };
  }
  const words = [...new Set(values.map(format))].sort();
  const span = Math.max(1, words.length - 1);
  return {
    name,
    places: values.map((value) => words.indexOf(format(value)) / span),
    low: words[0] ?? "",
    high: words.at(-1) ?? "",
  };
}
