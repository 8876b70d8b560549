/** Rows of the list of runs. */
import { memo } from "react";
import { Link } from "wouter";
import type { Group, RunRow, Statistic } from "../api/types";
import { age, short } from "../ui/format";
import { Sparkline } from "../ui/Sparkline";
import { StatusDot } from "../ui/StatusDot";

export const COLUMNS: { name: string; sort?: string; className: string }[] = [
  { name: "Status", sort: "status", className: "c-status" },
  { name: "Name", sort: "name", className: "c-name" },
  { name: "Env", sort: "env", className: "c-env" },
  { name: "Seed", sort: "seed", className: "c-seed num" },
  { name: "Steps", sort: "steps", className: "c-steps num" },
  { name: "Return", sort: "return", className: "c-return num" },
  { name: "Curve", className: "c-curve" },
  { name: "Best", sort: "best", className: "c-best num" },
  { name: "Steps/s", sort: "steps_per_second", className: "c-speed num" },
  { name: "Started", sort: "created", className: "c-age" },
  { name: "Tags", className: "c-tags" },
];

interface Common {
  index: number;
  now: number;
  isActive: boolean;
  isSelected: boolean;
  onToggle(index: number, isRange: boolean): void;
}

const rowProps = ({ index, isActive, isSelected }: Common) => ({
  "aria-rowindex": index + 2,
  "aria-selected": isSelected,
  className: `${isActive ? "active " : ""}${isSelected ? "selected" : ""}`,
});

function Select({ name, index, isSelected, onToggle }: Common & { name: string }) {
  return (
    <td className="c-select">
      <input
        type="checkbox"
        aria-label={`Select ${name}`}
        checked={isSelected}
        onClick={(event) => onToggle(index, event.shiftKey)}
        onChange={() => {}}
      />
    </td>
  );
}

export const Row = memo(
  function Row(props: Common & { run: RunRow; values: string[] }) {
    const { run, now, values } = props;
    return (
      <tr {...rowProps(props)}>
        <Select {...props} name={run.name} />
        <td className="c-status">
          <StatusDot status={run.status} />
        </td>
        <th scope="row" className="c-name">
          {run.pinned && <span title="pinned">📌</span>}
          <Link href={`/runs/${encodeURIComponent(run.id)}`} title={run.note || run.name}>
            <bdi>{run.name}</bdi>
          </Link>
        </th>
        <td className="c-env">
          <bdi>{run.env}</bdi>
        </td>
        <td className="c-seed num">{run.seed}</td>
        <td className="c-steps num">
          {short(run.steps)}
          {run.limit !== null && run.status === "running" && (
            <progress
              value={run.steps}
              max={run.limit}
              aria-label={`${short(run.steps)} of ${short(run.limit)} steps`}
            />
          )}
        </td>
        <td className="c-return num">{short(run.return_recent)}</td>
        <td className="c-curve">
          <Sparkline values={run.sparkline} />
        </td>
        <td className="c-best num">{short(run.best)}</td>
        <td className="c-speed num">{short(run.steps_per_second)}</td>
        <td className="c-age">{age(run.created, now)}</td>
        <td className="c-tags">
          {run.tags.map((tag) => (
            <span key={tag} className="tag">
              <bdi>{tag}</bdi>
            </span>
          ))}
        </td>
        {values.map((value, at) => (
          <td key={at} className="c-value">
            <bdi>{value}</bdi>
          </td>
        ))}
      </tr>
    );
  },
  (a, b) =>
    a.run === b.run &&
    a.isActive === b.isActive &&
    a.isSelected === b.isSelected &&
    a.index === b.index &&
    a.now === b.now &&
    a.values.join("\n") === b.values.join("\n"),
);

function interval(statistic: Statistic | undefined): string {
  if (statistic === undefined) return "–";
  const half = statistic.low === null || statistic.high === null ? null : (statistic.high - statistic.low) / 2;
  return `${short(statistic.mean)}${half === null ? "" : ` ± ${short(half)}`}`;
}

export function GroupRow(
  props: Common & { group: Group; columns: string[]; isOpen: boolean; onFold(group: Group): void },
) {
  const { group, columns, isOpen, onFold } = props;
  return (
    <tr {...rowProps(props)}>
      <Select {...props} name={group.label} />
      <td className="c-status">
        <button
          type="button"
          className="quiet fold"
          aria-expanded={isOpen}
          aria-label={`Seeds of ${group.label}`}
          onClick={() => onFold(group)}
        >
          {isOpen ? "▾" : "▸"}
        </button>
      </td>
      <th scope="row" className="c-name">
        <bdi>{group.label}</bdi>
      </th>
      <td className="c-env">{group.env}</td>
      <td className="c-seed num">n = {group.runs.length}</td>
      <td className="c-steps num" />
      <td className="c-return num">{interval(group.metrics.return_recent)}</td>
      <td className="c-curve" />
      <td className="c-best num">{interval(group.metrics.best)}</td>
      <td className="c-speed num">{short(group.metrics.steps_per_second?.mean)}</td>
      <td className="c-age" />
      <td className="c-tags" />
      {columns.map((name) => (
        <td key={name} className="c-value">
          <bdi>{JSON.stringify(group.settings[name])}</bdi>
        </td>
      ))}
    </tr>
  );
}
