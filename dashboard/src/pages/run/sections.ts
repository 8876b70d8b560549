/** Metrics in sections: what people look at first comes first, the rest by the first word of its name. */
export interface Section {
  name: string;
  metrics: string[];
}

// "x" names a metric, "x." all that begin so.
const KNOWN: [string, string[]][] = [
  [
    "Return",
    ["return_recent", "return_mean", "length_mean", "evaluation.mean", "return_min", "return_max", "return_std"],
  ],
  [
    "Losses",
    [
      "policy_loss",
      "value_loss",
      "entropy",
      "kl",
      "clip_fraction",
      "explained_variance",
      "gradient_norm",
      "loss",
      "td_error",
    ],
  ],
  ["Reward terms", ["terms."]],
  ["Env metrics", ["metrics."]],
  ["Actions", ["actions."]],
  ["Evaluation", ["evaluation."]],
  ["Speed", ["steps_per_second", "time.", "seconds_in"]],
  ["Weights", ["weights.", "gradients.", "norms."]],
];

export function sections(names: readonly string[], search = ""): Section[] {
  const wanted = search.trim().toLowerCase();
  const left = new Set(names.filter((name) => name.toLowerCase().includes(wanted)));
  const found: Section[] = [];
  for (const [name, members] of KNOWN) {
    const metrics = members.flatMap((member) =>
      member.endsWith(".")
        ? [...left].filter((metric) => metric.startsWith(member)).sort()
        : left.has(member)
          ? [member]
          : [],
    );
    for (const metric of metrics) left.delete(metric);
    if (metrics.length) found.push({ name, metrics });
  }
  const rest = new Map<string, string[]>();
  for (const metric of [...left].sort()) {
    const word = metric.includes(".") ? metric.split(".")[0]! : "Other";
    rest.set(word, [...(rest.get(word) ?? []), metric]);
  }
  // Single metrics without a family are at the end.
  const other = rest.get("Other");
  rest.delete("Other");
  for (const [name, metrics] of rest) found.push({ name, metrics });
  if (other) found.push({ name: "Other", metrics: other });
  return found;
}
